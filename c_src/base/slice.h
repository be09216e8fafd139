/* slice.h - some bytes of another owner's memory, without a NUL at their end. */
#pragma once

#include <stddef.h>
#include <string.h>

struct fp_slice {
    const char *at;
    size_t size;
};

#define FP_SLICE(literal) ((struct fp_slice){(literal), sizeof(literal) - 1})

static inline int fp_slice_is(struct fp_slice a, struct fp_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}
