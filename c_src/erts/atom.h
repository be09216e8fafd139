/* atom.h - the text of an atom word. Any thread; no state. */
#pragma once

#include "erts/layout.h"

#define FP_ATOM_TEXT_MAX 1020 /* 255 characters of UTF-8 */

/* How many bytes were written; FP_ENOENT: the word is no atom of this VM; FP_EFAULT: its entry
 * cannot be read. */
int fp_atom_text(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t term,
                 char text[FP_ATOM_TEXT_MAX]);
