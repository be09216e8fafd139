/* buffer.c - growth and decimals. A sample carries 32 numbers, most of them small: snprintf would
 * cost more than everything else together. */
#include "base/buffer.h"

#include "base/error.h"
#include "base/pages.h"

#define ROOM_MIN FP_PAGE

int fp_buffer_reserve(struct fp_buffer *buffer, size_t more)
{
    size_t room = buffer->room < ROOM_MIN ? ROOM_MIN : buffer->room;
    char *grown;

    if (buffer->room - buffer->size >= more)
        return 0;
    while (room - buffer->size < more)
        room *= 2;
    grown = fp_pages_resize(buffer->bytes, buffer->room, room);
    if (grown == NULL)
        return FP_ENOMEM;
    buffer->bytes = grown;
    buffer->room = room;
    return 0;
}

void fp_buffer_free(struct fp_buffer *buffer)
{
    fp_pages_free(buffer->bytes, buffer->room);
    *buffer = (struct fp_buffer){NULL, 0, 0};
}

static const char two_digits[] = "00010203040506070809"
                                 "10111213141516171819"
                                 "20212223242526272829"
                                 "30313233343536373839"
                                 "40414243444546474849"
                                 "50515253545556575859"
                                 "60616263646566676869"
                                 "70717273747576777879"
                                 "80818283848586878889"
                                 "90919293949596979899";

static unsigned count_digits(uint64_t value)
{
    unsigned digits = 1;

    for (;;) {
        if (value < 10)
            return digits;
        if (value < 100)
            return digits + 1;
        if (value < 1000)
            return digits + 2;
        if (value < 10000)
            return digits + 3;
        value /= 10000;
        digits += 4;
    }
}

char *fp_put_u64(char *out, uint64_t value)
{
    char *end, *at;

    if (value < 10) {
        *out = (char)('0' + value);
        return out + 1;
    }
    end = out + count_digits(value);
    at = end;
    while (value >= 100) {
        at -= 2;
        memcpy(at, two_digits + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(at - 2, two_digits + value * 2, 2);
    else
        at[-1] = (char)('0' + value);
    return end;
}

char *fp_put_i64(char *out, int64_t value)
{
    uint64_t magnitude = (uint64_t)value;

    if (value < 0) {
        *out++ = '-';
        magnitude = 0 - magnitude; /* right for INT64_MIN, too */
    }
    return fp_put_u64(out, magnitude);
}
