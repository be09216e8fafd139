/* write_frame.h - one frame line of the file, from its parts.
 *
 *      TAB ffffffff SP module:function/arity[:line] SP (file) LF
 *      TAB ffffffff SP function SP (library) LF
 *
 * The rules of escaping that need a whole symbol are here, those for single characters in encode.c.
 * The second line is of a C function. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct fp_frame {
    struct fp_slice module, function;
    struct fp_slice file; /* empty: module ++ ".erl" */
    uint64_t arity;
    uint64_t line; /* 0: not known */
    bool is_c;     /* `function` of the library `file`; empty: [library] */
};

/* Readers ignore the address, which has to be there. */
#define FP_FRAME_ADDRESS "\tffffffff "

/* A bound for what each of these writes at `out`. They return the place behind it. */
size_t fp_frame_room(const struct fp_frame *frame);
char *fp_put_frame(char *out, const struct fp_frame *frame);
/* module:function/arity */
char *fp_put_function(char *out, const struct fp_frame *frame);

/* The rule of the 17th byte from the end (doc/format.md), for a symbol of valid UTF-8 that was cut
 * or put together anew; there is room for 8 bytes more. The new end. */
char *fp_encode_17th_byte(char *symbol, char *end);

/* Equal for frames of one function, whatever their lines; never 0. */
uint64_t fp_frame_function(const struct fp_frame *frame);
