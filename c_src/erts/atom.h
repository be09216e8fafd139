/* atom.h - is a word an atom of this VM, and what is its text? Any thread; no state. */
#pragma once

#include "erts/layout.h"

#define FP_ATOM_TEXT_MAX 1020 /* 255 characters of UTF-8 */

/* How many bytes were written; FP_ENOENT: the word is no atom of this VM; FP_EFAULT: its entry
 * cannot be read. */
int fp_atom_text(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t term,
                 char text[FP_ATOM_TEXT_MAX]);

/* How many atoms the VM has; 0: that cannot be read. Atoms are never removed. */
uint32_t fp_atom_count(const struct fp_layout *layout, const struct fp_memory *memory);

/* Is the word an atom of this VM? `count`: as many as were counted last. They are counted again
 * for a word beyond. */
int fp_atom_is_known(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t word,
                     uint32_t *count);
