/* write_frame.c - two rules look at the symbol as a whole: how it begins (some readers take `0x12`
 * for an address and `_Z` for C++) and its 17th byte from the end (a Rust demangler cuts there, and
 * panics inside a character of UTF-8). */
#include "format/write_frame.h"

#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "format/encode.h"

/* A C function has its own name, which readers demangle. */
static char *encode_beginning(char *symbol, char *end, bool is_c)
{
    static const char *const beginnings[] = {"0x", "[unknown]", "_Z", "__Z", "_R"};
    size_t count = is_c ? 2 : sizeof(beginnings) / sizeof(*beginnings);

    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(beginnings[i]);

        if ((size_t)(end - symbol) >= size && memcmp(symbol, beginnings[i], size) == 0)
            return fp_encode_in_place(symbol, 1, end);
    }
    return end;
}

/* The bytes behind the character keep their distance from the end, so one pass is enough. `symbol`
 * is valid UTF-8: it has been encoded. */
char *fp_encode_17th_byte(char *symbol, char *end)
{
    char *first, *behind;

    if (end - symbol < 17 || ((unsigned char)end[-17] & 0x80) == 0)
        return end;
    first = end - 17;
    while (((unsigned char)*first & 0xc0) == 0x80)
        first--;
    behind = end - 16;
    while (((unsigned char)*behind & 0xc0) == 0x80)
        behind++;
    return fp_encode_in_place(first, (size_t)(behind - first), end);
}

size_t fp_frame_room(const struct fp_frame *frame)
{
    const size_t punctuation = 96; /* and numbers, and the two rules */

    return punctuation + 3 * (2 * frame->module.size + frame->function.size + 2 * frame->file.size);
}

char *fp_put_function(char *out, const struct fp_frame *frame)
{
    out = fp_put_encoded(out, frame->module);
    *out++ = ':';
    out = fp_put_encoded(out, frame->function);
    *out++ = '/';
    return fp_put_u64(out, frame->arity);
}

static char *put_c_function(char *out, const struct fp_frame *frame)
{
    if (frame->function.size > 0)
        return fp_put_encoded(out, frame->function);
    *out++ = '[';
    out = fp_put_encoded(out, frame->file);
    *out++ = ']';
    return out;
}

char *fp_put_frame(char *out, const struct fp_frame *frame)
{
    char *symbol = out = FP_PUT_LITERAL(out, FP_FRAME_ADDRESS);

    out = frame->is_c ? put_c_function(out, frame) : fp_put_function(out, frame);
    if (frame->line != 0) {
        *out++ = ':';
        out = fp_put_u64(out, frame->line);
    }
    out = fp_encode_17th_byte(symbol, encode_beginning(symbol, out, frame->is_c));
    out = FP_PUT_LITERAL(out, " (");
    if (frame->is_c || frame->file.size > 0)
        out = fp_put_encoded(out, frame->file);
    else
        out = FP_PUT_LITERAL(fp_put_encoded(out, frame->module), ".erl");
    return FP_PUT_LITERAL(out, ")\n");
}

/* 64 bits stand for the function: they are only compared with those of the neighbouring frame. */
uint64_t fp_frame_function(const struct fp_frame *frame)
{
    uint64_t module = fp_hash(frame->module.at, frame->module.size);
    uint64_t function = fp_hash(frame->function.at, frame->function.size);
    uint64_t hash = fp_hash_two(fp_hash_two(module, function), frame->arity);

    return hash == 0 ? 1 : hash;
}
