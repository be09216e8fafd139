/* text.h - texts of a file, as a person reads them. */
#pragma once

#include <stdint.h>

#include "report/demangle.h"
#include "report/strings.h"

/* Moves the beginning of `text`, which has at least one byte, behind its first character, and
 * returns that: U+FFFD for a byte that is no UTF-8. */
struct fp_slice fp_utf8_next(struct fp_slice *text);

/* All write to `room`, which has FP_TEXT_ROOM(text.size) bytes, or return `text` itself. */
#define FP_TEXT_ROOM(size) (3 * ((size) + FP_DEMANGLED_BYTES)) /* also of what fp_demangle() made */
/* Controls, characters that change the direction of a line, and bytes that are no UTF-8, as %HH:
 * files of others have them as they are. */
struct fp_slice fp_text_visible(struct fp_slice text, char *room);
/* Undoes the percent-encoding of a symbol or a name where the decoded text is printable. */
struct fp_slice fp_text_decode(struct fp_slice text, char *room);
/* Likewise of a symbol: that of a C++ function becomes its name. */
struct fp_slice fp_text_symbol(struct fp_slice symbol, char *room);

/* The symbol without its `:123`; the line in *line, or 0. */
struct fp_slice fp_text_without_line(struct fp_slice symbol, uint32_t *line);
