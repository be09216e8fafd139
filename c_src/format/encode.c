/*
 * encode.c - any bytes to text that all six readers take as part of a name.
 *
 * What a reader could take for structure is written %HH, byte by byte; all other UTF-8 is left as
 * it is, so that names stay readable. doc/format.md says which characters and why.
 */
#include <stdbool.h>

#include "format/perf_script.h"

static const char hex_digits[] = "0123456789ABCDEF";

/* Blanks, controls, DEL, and what some reader splits or quotes at. */
static bool is_reserved_ascii(unsigned char byte)
{
    switch (byte) {
    case '"':
    case '\'':
    case '(':
    case ')':
    case '+':
    case ';':
    case '<':
    case '>':
    case '&':
    case '%':
    case 0x7f:
        return true;
    default:
        return byte <= ' ';
    }
}

/* C1 controls, and what Unicode-aware readers trim, split at or do not show. */
static bool is_reserved_unicode(uint32_t point)
{
    if (point < 0xa0)
        return true; /* U+0080-U+009F; U+0085 is a line end to some */
    switch (point) {
    case 0x00a0:
    case 0x1680:
    case 0x200b:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
    case 0xfeff:
        return true;
    default:
        return point >= 0x2000 && point <= 0x200a;
    }
}

/* The character of two to four bytes at `text`; its length, or 0 when it is none: cut off,
 * overlong, a surrogate, or beyond U+10FFFF. */
static size_t decode(const unsigned char *text, size_t size, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length;

    if (text[0] >= 0xc2 && text[0] <= 0xdf) {
        length = 2;
        *point = text[0] & 0x1fu;
    } else if (text[0] >= 0xe0 && text[0] <= 0xef) {
        length = 3;
        *point = text[0] & 0x0fu;
    } else if (text[0] >= 0xf0 && text[0] <= 0xf4) {
        length = 4;
        *point = text[0] & 0x07u;
    } else {
        return 0;
    }
    if (size < length)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *point = *point << 6 | (text[i] & 0x3fu);
    }
    if (*point < least[length] || *point > 0x10ffff || (*point >= 0xd800 && *point <= 0xdfff))
        return 0;
    return length;
}

static char *put_hex(char *out, unsigned char byte)
{
    *out++ = '%';
    *out++ = hex_digits[byte >> 4];
    *out++ = hex_digits[byte & 15];
    return out;
}

size_t fp_perf_script_encode(const char *text, size_t size, char *out)
{
    const unsigned char *at = (const unsigned char *)text;
    const unsigned char *end = at + size;
    char *begin = out;

    while (at < end) {
        size_t length = 1;
        bool plain;

        if (*at < 0x80) {
            plain = !is_reserved_ascii(*at);
        } else {
            uint32_t point;
            size_t decoded = decode(at, (size_t)(end - at), &point);

            plain = decoded != 0 && !is_reserved_unicode(point);
            if (decoded != 0)
                length = decoded;
        }
        for (; length > 0; length--, at++) {
            if (plain)
                *out++ = (char)*at;
            else
                out = put_hex(out, *at);
        }
    }
    return (size_t)(out - begin);
}
