/* varint.h - numbers of 7 bits a byte, the least first; all bytes but the last have the eighth bit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FP_VARINT_MOST ((size_t)10)

/* The place behind the number, which takes at most FP_VARINT_MOST bytes. */
static inline uint8_t *fp_put_varint(uint8_t *at, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        *at++ = (uint8_t)(n | 0x80);
    *at++ = (uint8_t)n;
    return at;
}

/* Small numbers of either sign are small: 0, -1, 1, -2 ... are 0, 1, 2, 3 ... */
static inline uint64_t fp_zigzag(int64_t n)
{
    return (uint64_t)n << 1 ^ (n < 0 ? UINT64_MAX : 0);
}
