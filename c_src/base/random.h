/* random.h - random numbers by xorshift64 (Marsaglia, Xorshift RNGs, 2003). For chances, not for
 * secrets. The state is any number but 0, and the caller's own: one thread uses it. */
#pragma once

#include <stdint.h>

static inline uint64_t fp_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* In [0, 1). */
static inline double fp_random_uniform(uint64_t *state)
{
    return (double)(fp_random(state) >> 11) * 0x1p-53;
}
