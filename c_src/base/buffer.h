/* buffer.h - text in the making: a growing buffer and fast decimals.
 *
 * fp_buffer_reserve() makes room for all the bytes that follow; they are written behind
 * fp_buffer_at() without a check, and fp_buffer_end() sets the new size. A buffer is whole pages of
 * its own: buffers are few, and grow without a copy. Not shared between threads. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fp_buffer {
    char *bytes;
    size_t size; /* written */
    size_t room; /* allocated */
};

/* Decimal digits of any uint64_t; of any int64_t with its sign. */
#define FP_U64_DIGITS 20
#define FP_I64_DIGITS 20

/* Make room for `more` bytes after `size`. 0 or FP_ENOMEM (nothing changed). Pointers into the
 * buffer are not valid afterwards. */
int fp_buffer_reserve(struct fp_buffer *buffer, size_t more);
void fp_buffer_free(struct fp_buffer *buffer);

/* The next byte to be written. */
static inline char *fp_buffer_at(struct fp_buffer *buffer)
{
    return buffer->bytes + buffer->size;
}

/* `end` is behind the last byte written. */
static inline void fp_buffer_end(struct fp_buffer *buffer, const char *end)
{
    buffer->size = (size_t)(end - buffer->bytes);
}

/* These write at `out` and return the place behind what they wrote. */
static inline char *fp_put(char *out, const char *bytes, size_t size)
{
    if (size == 0) /* bytes may be NULL then, which memcpy forbids */
        return out;
    memcpy(out, bytes, size);
    return out + size;
}

#define FP_PUT_LITERAL(out, literal) fp_put((out), (literal), sizeof(literal) - 1)

/* Reserve and put. 0 or FP_ENOMEM. */
static inline int fp_buffer_append(struct fp_buffer *buffer, const char *bytes, size_t size)
{
    int err = fp_buffer_reserve(buffer, size);

    if (err == 0)
        fp_buffer_end(buffer, fp_put(fp_buffer_at(buffer), bytes, size));
    return err;
}

char *fp_put_u64(char *out, uint64_t value);
char *fp_put_i64(char *out, int64_t value);
