/* encode.h - any bytes to text that every tool of doc/format.md takes as part of a name.
 *
 * Characters that a reader could mistake for structure are written as %HH, byte by byte. All other
 * UTF-8 stays as it is, so that names stay readable. doc/format.md lists the characters. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* Whether a character above U+007F stays as it is. */
bool fp_is_plain_unicode(uint32_t point);

/* Write `text` at `out`, which has room for 3 * text.size bytes. The place behind it. */
char *fp_put_encoded(char *out, struct fp_slice text);

/* Put `count` bytes at `at` as %HH each; what follows until `end` moves. The new end. */
char *fp_encode_in_place(char *at, size_t count, char *end);
