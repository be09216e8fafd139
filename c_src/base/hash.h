/* hash.h - the one hash function, for the indices of tables.
 *
 * Multiply and fold, as wyhash does. Collisions can be made on purpose: they cost time, never a
 * wrong answer, because tables compare the entries. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Both halves of the product, folded. */
static inline uint64_t fp_hash_mix(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two words, or one and 0. */
static inline uint64_t fp_hash_two(uint64_t a, uint64_t b)
{
    return fp_hash_mix(a ^ UINT64_C(0x8ebc6af09c88c6e3), b ^ UINT64_C(0x589965cc75374cc3));
}

/* Bytes of any length: two independent lanes of 16 bytes a step, and the rest, padded with
 * zeros. */
static inline uint64_t fp_hash(const void *text, size_t size)
{
    const char *bytes = text;
    uint64_t a = UINT64_C(0xd1b54a32d192ed03) ^ size;
    uint64_t b = UINT64_C(0xaef17502108ef2d9);
    uint64_t word[4] = {0, 0, 0, 0};

    for (; size >= 32; bytes += 32, size -= 32) {
        memcpy(word, bytes, 32);
        a = fp_hash_mix(a ^ word[0], UINT64_C(0x9fb21c651e98df25) ^ word[1]);
        b = fp_hash_mix(b ^ word[2], UINT64_C(0xa0761d6478bd642f) ^ word[3]);
    }
    memset(word, 0, sizeof(word));
    if (size > 0) /* no bytes may be NULL */
        memcpy(word, bytes, size);
    a = fp_hash_mix(a ^ word[0], UINT64_C(0x9fb21c651e98df25) ^ word[1]);
    b = fp_hash_mix(b ^ word[2], UINT64_C(0xa0761d6478bd642f) ^ word[3]);
    return fp_hash_two(a, b);
}
