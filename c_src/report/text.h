/*
 * text.h - texts of a file, as a person reads them.
 */
#ifndef FP_REPORT_TEXT_H
#define FP_REPORT_TEXT_H

#include <stdint.h>

#include "report/strings.h"

/* The character at `at`: its length, and its number in *point; 0 when these bytes are no UTF-8.
 * `size` is at least 1. */
size_t fp_utf8(const char *at, size_t size, uint32_t *point);

/* Undoes the percent-encoding of a symbol or a name, to `room`, which has text.size bytes. Answers
 * `text` itself when nothing is encoded, and when the decoded text is not printable. */
struct fp_slice fp_text_decode(struct fp_slice text, char *room);

/* Without its `:123`; the line in *line, or 0. */
struct fp_slice fp_text_without_line(struct fp_slice symbol, uint32_t *line);

#endif
