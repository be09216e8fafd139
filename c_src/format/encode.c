#include "format/encode.h"

/* Beside blanks, controls and DEL: what some reader splits or quotes at. */
#define BIT(c) (UINT64_C(1) << (c))
static const uint64_t reserved_ascii = BIT('"') | BIT('\'') | BIT('(') | BIT(')') | BIT('+') |
                                       BIT(';') | BIT('<') | BIT('>') | BIT('&') | BIT('%');

static bool is_plain_ascii(unsigned char byte)
{
    return byte > ' ' && byte != 0x7f && (byte >= 64 || (reserved_ascii & BIT(byte)) == 0);
}

/* C1 controls (U+0085 is a line end to some), what Unicode-aware readers trim, split at or do not
 * show, and what turns the direction of a line. */
bool fp_is_plain_unicode(uint32_t point)
{
    static const struct {
        uint16_t first, last;
    } reserved[] = {{0x0080, 0x00a0}, {0x061c, 0x061c}, {0x1680, 0x1680},
                    {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x205f},
                    {0x2066, 0x2069}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};

    for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++) {
        if (point <= reserved[i].last)
            return point < reserved[i].first;
    }
    return true;
}

/* The character of two to four bytes at `text`; its length, or 0 when it is none: cut off,
 * overlong, a surrogate, or beyond U+10FFFF. */
static size_t decode(const unsigned char *text, size_t size, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;

    if (text[0] < 0xc2 || text[0] > 0xf4 || size < length)
        return 0;
    *point = text[0] & (0x7fu >> length);
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
    static const char digits[] = "0123456789ABCDEF";

    out[0] = '%';
    out[1] = digits[byte >> 4];
    out[2] = digits[byte & 15];
    return out + 3;
}

char *fp_put_encoded(char *out, struct fp_slice text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    const unsigned char *end = at + text.size;

    while (at < end) {
        size_t length = 1;
        uint32_t point;
        bool is_plain;

        if (*at < 0x80) {
            is_plain = is_plain_ascii(*at);
        } else {
            length = decode(at, (size_t)(end - at), &point);
            is_plain = length != 0 && fp_is_plain_unicode(point);
            length += length == 0;
        }
        for (; length > 0; length--, at++) {
            if (is_plain)
                *out++ = (char)*at;
            else
                out = put_hex(out, *at);
        }
    }
    return out;
}

char *fp_encode_in_place(char *at, size_t count, char *end)
{
    memmove(at + 3 * count, at + count, (size_t)(end - at) - count);
    for (size_t i = count; i-- > 0;)
        put_hex(at + 3 * i, (unsigned char)at[i]);
    return end + 2 * count;
}
