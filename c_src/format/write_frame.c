/*
 * frame.c - symbol and dso of one frame. Two rules look at the symbol as a whole: how it begins
 * (some readers take `0x12` for an address and `_Z` for C++) and its 17th byte from the end (a Rust
 * demangler cuts there, and dies inside a character).
 */
#include "format/write_frame.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "format/perf_script.h"

static char *put_encoded(char *out, const struct fp_piece *piece)
{
    return out + fp_perf_script_encode(piece->text, piece->size, out);
}

static char *put_function(char *out, const struct fp_frame *frame)
{
    out = put_encoded(out, &frame->module);
    *out++ = ':';
    out = put_encoded(out, &frame->function);
    *out++ = '/';
    return fp_put_u64(out, frame->arity);
}

/* Put `count` bytes at `at` as %HH each; what follows until `end` moves. */
static char *encode_in_place(char *at, size_t count, char *end)
{
    static const char hex_digits[] = "0123456789ABCDEF";

    memmove(at + 3 * count, at + count, (size_t)(end - at) - count);
    for (size_t i = count; i-- > 0;) {
        unsigned char byte = (unsigned char)at[i];

        at[3 * i + 2] = hex_digits[byte & 15];
        at[3 * i + 1] = hex_digits[byte >> 4];
        at[3 * i] = '%';
    }
    return end + 2 * count;
}

static char *encode_beginning(char *symbol, char *end)
{
    static const struct fp_piece beginnings[] = {
        {"0x", 2}, {"_Z", 2}, {"__Z", 3}, {"_R", 2}, {"[unknown]", 9}};

    for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++) {
        const struct fp_piece *it = &beginnings[i];

        if ((size_t)(end - symbol) >= it->size && memcmp(symbol, it->text, it->size) == 0)
            return encode_in_place(symbol, 1, end);
    }
    return end;
}

/* The bytes behind the character stay where they are from the end, so one pass settles it. What is
 * here is valid UTF-8: it has been encoded. */
static char *encode_17th_byte(char *symbol, char *end)
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
    return encode_in_place(first, (size_t)(behind - first), end);
}

/* Enough for everything that is written beside the encoded pieces. */
#define PUNCTUATION_MAX 96

int fp_frame_put(struct fp_buffer *buffer, const struct fp_frame *frame)
{
    size_t module_again = frame->file.size == 0 ? frame->module.size : 0;
    char *out, *symbol;
    int err;

    err =
        fp_buffer_reserve(buffer, PUNCTUATION_MAX + 3 * (frame->module.size + module_again +
                                                         frame->function.size + frame->file.size));
    if (err != 0)
        return err;
    symbol = FP_PUT_LITERAL(fp_buffer_at(buffer), FP_FRAME_ADDRESS);
    out = put_function(symbol, frame);
    if (frame->line != 0) {
        *out++ = ':';
        out = fp_put_u64(out, frame->line);
    }
    out = encode_beginning(symbol, out);
    out = encode_17th_byte(symbol, out);
    out = FP_PUT_LITERAL(out, " (");
    if (frame->file.size != 0) {
        out = put_encoded(out, &frame->file);
    } else {
        out = put_encoded(out, &frame->module);
        out = FP_PUT_LITERAL(out, ".erl");
    }
    out = FP_PUT_LITERAL(out, ")\n");
    fp_buffer_end(buffer, out);
    return 0;
}

int fp_frame_put_native(struct fp_buffer *buffer, struct fp_piece name, struct fp_piece library)
{
    char *out, *symbol;
    int err = fp_buffer_reserve(buffer, PUNCTUATION_MAX + 3 * (name.size + 2 * library.size));

    if (err != 0)
        return err;
    symbol = FP_PUT_LITERAL(fp_buffer_at(buffer), FP_FRAME_ADDRESS);
    if (name.size != 0) {
        out = put_encoded(symbol, &name);
    } else {
        *symbol = '[';
        out = put_encoded(symbol + 1, &library);
        *out++ = ']';
    }
    out = encode_beginning(symbol, out);
    out = encode_17th_byte(symbol, out);
    out = FP_PUT_LITERAL(out, " (");
    out = put_encoded(out, &library);
    out = FP_PUT_LITERAL(out, ")\n");
    fp_buffer_end(buffer, out);
    return 0;
}

int fp_frame_put_word(struct fp_buffer *buffer, const struct fp_frame *frame)
{
    int err = fp_buffer_reserve(buffer,
                                PUNCTUATION_MAX + 3 * (frame->module.size + frame->function.size));

    if (err == 0)
        fp_buffer_end(buffer, put_function(fp_buffer_at(buffer), frame));
    return err;
}

/* 64 bits stand for the function: they are only ever compared with those of the neighbouring
 * frame. */
uint64_t fp_frame_function(const struct fp_frame *frame)
{
    uint64_t module = fp_hash(frame->module.text, frame->module.size);
    uint64_t function = fp_hash(frame->function.text, frame->function.size);
    uint64_t hash = fp_hash_two(fp_hash_two(module, function), frame->arity);

    return hash == 0 ? 1 : hash;
}
