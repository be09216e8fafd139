/* text.h - texts of a file, as a person reads them. */
#pragma once

#include <stdint.h>

#include "report/strings.h"

/* Moves the beginning of `text`, which has at least one byte, behind its first character, and
 * returns that: U+FFFD for a byte that is no UTF-8. */
struct fp_slice fp_utf8_next(struct fp_slice *text);

/* Undoes the percent-encoding of a symbol or a name, to `room`, which has text.size bytes. Returns
 * `text` itself when nothing is encoded, and when the decoded text is not printable. */
struct fp_slice fp_text_decode(struct fp_slice text, char *room);

/* The symbol without its `:123`; the line in *line, or 0. */
struct fp_slice fp_text_without_line(struct fp_slice symbol, uint32_t *line);
