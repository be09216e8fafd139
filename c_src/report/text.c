#include "report/text.h"

#include <stdbool.h>
#include <string.h>

#include "format/encode.h"

/* The length of the character at `at`, and its number in *point; 0: these bytes are no UTF-8. */
static size_t utf8(const char *at, size_t size, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)*at;
    size_t length = first < 0x80   ? 1
                    : first < 0xc0 ? 0
                    : first < 0xe0 ? 2
                    : first < 0xf0 ? 3
                    : first < 0xf8 ? 4
                                   : 0;

    if (length == 0 || size < length)
        return 0;
    *point = length == 1 ? first : first & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        unsigned char next = (unsigned char)at[i];

        if ((next & 0xc0) != 0x80)
            return 0;
        *point = *point << 6 | (next & 0x3fu);
    }
    if (*point < least[length] || *point > 0x10ffff || (*point >= 0xd800 && *point <= 0xdfff))
        return 0;
    return length;
}

struct fp_slice fp_utf8_next(struct fp_slice *text)
{
    uint32_t point;
    struct fp_slice next = {text->at, utf8(text->at, text->size, &point)};
    size_t size = next.size > 0 ? next.size : 1;

    text->at += size;
    text->size -= size;
    return next.size > 0 ? next : FP_SLICE("\xef\xbf\xbd");
}

static bool is_printable(uint32_t point)
{
    return point < 0x80 ? point >= ' ' && point < 0x7f : fp_is_plain_unicode(point);
}

static bool all_printable(struct fp_slice text)
{
    for (size_t i = 0; i < text.size;) {
        uint32_t point;
        size_t size = utf8(text.at + i, text.size - i, &point);

        if (size == 0 || !is_printable(point))
            return false;
        i += size;
    }
    return true;
}

struct fp_slice fp_text_visible(struct fp_slice text, char *room)
{
    char *end = room;

    if (all_printable(text))
        return text;
    while (text.size > 0) {
        struct fp_slice one = {text.at, 0};

        fp_utf8_next(&text);
        one.size = (size_t)(text.at - one.at);
        end = all_printable(one) ? mempcpy(end, one.at, one.size) : fp_put_encoded(end, one);
    }
    return (struct fp_slice){room, (size_t)(end - room)};
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

struct fp_slice fp_text_decode(struct fp_slice text, char *room)
{
    struct fp_slice decoded = {room, 0};

    if (text.size == 0 || memchr(text.at, '%', text.size) == NULL)
        return fp_text_visible(text, room);
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.at[i];

        if (byte == '%' && i + 2 < text.size && hex(text.at[i + 1]) >= 0 &&
            hex(text.at[i + 2]) >= 0) {
            byte = (char)(hex(text.at[i + 1]) << 4 | hex(text.at[i + 2]));
            i += 2;
        }
        room[decoded.size++] = byte;
    }
    return all_printable(decoded) ? decoded : fp_text_visible(text, room);
}

struct fp_slice fp_text_symbol(struct fp_slice symbol, char *room)
{
    struct fp_slice name = fp_demangle(symbol, room);

    return name.at == room && all_printable(name) ? name : fp_text_decode(symbol, room);
}

/* `m:f/1:23`: digits behind a colon behind an arity. */
struct fp_slice fp_text_without_line(struct fp_slice symbol, uint32_t *line)
{
    size_t at = symbol.size;
    uint64_t number = 0;

    *line = 0;
    while (at > 0 && is_digit(symbol.at[at - 1]))
        at--;
    if (at < 3 || at == symbol.size || symbol.size - at > 9 || symbol.at[at - 1] != ':' ||
        !is_digit(symbol.at[at - 2]))
        return symbol;
    for (size_t i = at; i < symbol.size; i++)
        number = number * 10 + (uint64_t)(symbol.at[i] - '0');
    *line = (uint32_t)number;
    return (struct fp_slice){symbol.at, at - 1};
}
