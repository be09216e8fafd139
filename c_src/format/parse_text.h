/* parse_text.h - what parse.c, parse_frame.c and scan.c share. */
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

/* This line can be a frame of perf's, which may have no dso where its address is a long one. */
bool fp_is_frame(struct fp_slice line);

/* perf script -F +srcline has a line of two blanks and the place below a frame. */
static inline bool fp_is_source_line(struct fp_slice text)
{
    return text.size > 2 && memcmp(text.at, "  ", 2) == 0 && !is_blank(text.at[2]);
}
