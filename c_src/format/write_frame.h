/*
 * write_frame.h - one frame line of the file, from its parts.
 *
 *      TAB ffffffff SP module:function/arity[:line] SP (file) LF
 *
 * The rules that need a whole symbol live here; those for single characters in encode.c. No
 * allocation but that of the buffer.
 */
#ifndef FP_FORMAT_WRITE_FRAME_H
#define FP_FORMAT_WRITE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct fp_piece {
    const char *text;
    size_t size;
};

/* clang-format off */
#define FP_PIECE(literal) {(literal), sizeof(literal) - 1}
/* clang-format on */

struct fp_frame {
    struct fp_piece module, function;
    struct fp_piece file; /* empty: module ++ ".erl" */
    uint64_t arity;
    uint64_t line; /* 0: not known */
};

/* All readers ignore the address; it must only be there. */
#define FP_FRAME_ADDRESS "\tffffffff "

/* Append the line of `frame`. 0 or FP_ENOMEM. */
int fp_frame_put(struct fp_buffer *buffer, const struct fp_frame *frame);

/* Append the line of a C function: TAB ffffffff SP name SP (library) LF. An empty name is that of
 * the library in square brackets. 0 or FP_ENOMEM. */
int fp_frame_put_native(struct fp_buffer *buffer, struct fp_piece name, struct fp_piece library);

/* Append module:function/arity, encoded, as a word of a metrics line. */
int fp_frame_put_word(struct fp_buffer *buffer, const struct fp_frame *frame);

/* Equal for frames of one function, whatever their lines; never 0. */
uint64_t fp_frame_function(const struct fp_frame *frame);

#endif
