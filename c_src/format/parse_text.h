/* parse_text.h - what parse.c, parse_words.c, parse_frame.c and scan.c share. */
#pragma once

#include <stdbool.h>

#include "format/parse.h"

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline struct fp_slice between(const char *begin, const char *end)
{
    return (struct fp_slice){begin, (size_t)(end - begin)};
}

static inline const char *digits_before(const char *begin, const char *at)
{
    while (at > begin && is_digit(at[-1]))
        at--;
    return at;
}

static inline const char *blanks_before(const char *begin, const char *at)
{
    while (at > begin && is_blank(at[-1]))
        at--;
    return at;
}

static inline const char *behind_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    return at;
}

static inline bool strip_prefix(struct fp_slice *text, struct fp_slice prefix)
{
    if (text->size < prefix.size || memcmp(text->at, prefix.at, prefix.size) != 0)
        return false;
    *text = (struct fp_slice){text->at + prefix.size, text->size - prefix.size};
    return true;
}

static inline bool strip_suffix(struct fp_slice *text, struct fp_slice suffix)
{
    if (text->size < suffix.size ||
        memcmp(text->at + text->size - suffix.size, suffix.at, suffix.size) != 0)
        return false;
    text->size -= suffix.size;
    return true;
}

/* Digits from *at; false when there are none or too many for an int64_t. */
static inline bool take_digits(const char **at, const char *end, uint64_t *number)
{
    const char *p = *at;
    uint64_t n = 0;

    while (p < end && is_digit(*p)) {
        unsigned digit = (unsigned)(*p - '0');

        if (p - *at >= 18 && n > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
        p++;
    }
    if (p == *at)
        return false;
    *at = p;
    *number = n;
    return true;
}

static inline bool is_key_character(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

/* A key at `at`: the place behind it, or NULL. `hint` is a key that is likely. */
static inline const char *take_key(const char *at, const char *end, struct fp_slice hint,
                                   struct fp_slice *key)
{
    const char *p = at;

    if (hint.size > 0 && (size_t)(end - at) > hint.size && memcmp(at, hint.at, hint.size) == 0 &&
        !is_key_character(at[hint.size]))
        p += hint.size;
    else
        while (p < end && is_key_character(*p))
            p++;
    *key = between(at, p);
    return p > at ? p : NULL;
}

static inline bool take_literal(const char **at, const char *end, const char *text, size_t size)
{
    if ((size_t)(end - *at) < size || memcmp(*at, text, size) != 0)
        return false;
    *at += size;
    return true;
}

/* Keys of words, whose texts may look like numbers: a process may be registered as '5/6'. */
bool fp_is_word_key(struct fp_slice key);

/* This line can be a frame of perf's, which may have no dso where its address is a long one. */
bool fp_is_frame(struct fp_slice line);

/* perf script -F +srcline has a line of two blanks and the place below a frame. */
static inline bool fp_is_source_line(struct fp_slice text)
{
    return text.size > 2 && memcmp(text.at, "  ", 2) == 0 && !is_blank(text.at[2]);
}
