/* weight.h - a sample of words that a process has allocated, on its way from the library that
 * measures to the session that writes. As bytes, one follows the other: the structure, then its
 * frames. Both libraries are of one build. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/record.h"

struct fp_weight {
    uint64_t pid;
    int64_t end_ns;            /* monotonic time */
    uint64_t words;            /* 0: a sample without words; only where `is_long` */
    uint64_t window, survived; /* of `window` words so many are kept; window 0: not known */
    uint64_t length_ns;        /* of the collection */
    uint8_t cause;             /* enum fp_gc_cause */
    uint8_t is_long, is_major; /* of the collection */
    uint8_t message_kind;      /* enum fp_message_kind of the message in work */
    uint32_t count;
    const uint64_t *frame; /* leaf first; as bytes: they follow, and this is NULL */
    struct fp_tag message;
};

static inline size_t fp_weight_bytes(const struct fp_weight *weight)
{
    return sizeof *weight + weight->count * sizeof *weight->frame;
}

/* `to` has room for fp_weight_bytes(). */
static inline void fp_weight_write(const struct fp_weight *weight, unsigned char *to)
{
    struct fp_weight bare = *weight;

    bare.frame = NULL;
    memcpy(to, &bare, sizeof bare);
    memcpy(to + sizeof bare, weight->frame, weight->count * sizeof *weight->frame);
}
