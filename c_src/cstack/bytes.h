/* bytes.h - a cursor over untrusted bytes.
 *
 * A read beyond the end gives zeros and sets `is_bad`: a decoder reads all that it expects and
 * checks once. Little-endian, as x86_64 is. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fp_bytes {
    const unsigned char *at, *end;
    int is_bad;
};

static inline struct fp_bytes fp_bytes(const unsigned char *at, size_t size)
{
    return (struct fp_bytes){at, at + size, 0};
}

static inline size_t fp_bytes_left(const struct fp_bytes *bytes)
{
    return (size_t)(bytes->end - bytes->at);
}

static inline void fp_bytes_fail(struct fp_bytes *bytes)
{
    bytes->is_bad = 1;
    bytes->at = bytes->end;
}

/* A cursor over the next `size` bytes, which are skipped. */
static inline struct fp_bytes fp_bytes_part(struct fp_bytes *bytes, uint64_t size)
{
    struct fp_bytes part = *bytes;

    if (size > fp_bytes_left(bytes))
        fp_bytes_fail(bytes);
    else
        bytes->at += size;
    part.end = bytes->at;
    part.is_bad = bytes->is_bad;
    return part;
}

/* The next `size` (at most 8) bytes as an unsigned number. */
static inline uint64_t fp_bytes_unsigned(struct fp_bytes *bytes, size_t size)
{
    struct fp_bytes part = fp_bytes_part(bytes, size);
    uint64_t value = 0;

    if (!part.is_bad)
        memcpy(&value, part.at, size);
    return value;
}

static inline uint8_t fp_bytes_u8(struct fp_bytes *bytes)
{
    return (uint8_t)fp_bytes_unsigned(bytes, 1);
}

static inline uint32_t fp_bytes_u32(struct fp_bytes *bytes)
{
    return (uint32_t)fp_bytes_unsigned(bytes, 4);
}

/* LEB128: seven bits a byte, lowest first; the top bit says that more follow. Bits from the 65th on
 * are dropped. */
static inline uint64_t fp_bytes_uleb(struct fp_bytes *bytes)
{
    uint64_t value = 0;
    uint8_t byte = 0x80;

    for (unsigned shift = 0; (byte & 0x80) != 0 && !bytes->is_bad; shift += 7) {
        byte = fp_bytes_u8(bytes);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
    }
    return value;
}

static inline int64_t fp_bytes_sleb(struct fp_bytes *bytes)
{
    const unsigned char *start = bytes->at;
    uint64_t value = fp_bytes_uleb(bytes);
    size_t bits = 7 * (size_t)(bytes->at - start);

    if (bits > 0 && bits < 64 && (bytes->at[-1] & 0x40) != 0)
        value |= ~UINT64_C(0) << bits;
    return (int64_t)value;
}
