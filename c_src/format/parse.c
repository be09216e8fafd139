/*
 * parse.c - by hand, because parsing is most of the cost of reading.
 *
 * A session's file is a narrow `perf script`, so the two share their headers. A header is known by
 * its time: digits, a dot, six digits or more, a colon.
 */
#include "format/parse.h"

#include <stdbool.h>

#include "format/encode.h"

const char *fp_dialect_name(enum fp_dialect dialect)
{
    static const char *const name[] = {
        [FP_NO_DIALECT] = "none",
        [FP_OURS] = "flame_prof",
        [FP_ORIGINAL] = "original_flame_prof",
        [FP_PERF] = "perf",
    };

    return name[dialect];
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Digits from *at; false when there are none or too many for an int64_t. */
static bool take_digits(const char **at, const char *end, uint64_t *number)
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

static bool take_integer(const char **at, const char *end, int64_t *number)
{
    const char *p = *at;
    bool is_negative = p < end && *p == '-';
    uint64_t n;

    p += is_negative;
    if (!take_digits(&p, end, &n))
        return false;
    *at = p;
    *number = is_negative ? -(int64_t)n : (int64_t)n;
    return true;
}

/* ----------------------------------------------------------------- header -- */

/* Where in a header the time stands. */
struct time_place {
    const char *begin, *dot, *end; /* `end` is its colon */
};

static const char *digits_before(const char *begin, const char *at)
{
    while (at > begin && is_digit(at[-1]))
        at--;
    return at;
}

static bool find_time(struct fp_slice line, struct time_place *place)
{
    const char *end = line.at + line.size, *at = line.at;

    while ((at = memchr(at, ':', (size_t)(end - at))) != NULL) {
        const char *micros = digits_before(line.at, at);

        if (at - micros >= 6 && micros > line.at && micros[-1] == '.') {
            const char *seconds = digits_before(line.at, micros - 1);

            if (seconds < micros - 1 && seconds > line.at && is_blank(seconds[-1])) {
                *place = (struct time_place){seconds, micros - 1, at};
                return true;
            }
        }
        at++;
    }
    return false;
}

/* Nanoseconds, which perf can write, are cut. */
static const char *parse_time(const struct time_place *place, int64_t *time_us)
{
    const char *at = place->begin;
    uint64_t seconds, micros;

    if (!take_digits(&at, place->dot, &seconds) || seconds > INT64_MAX / 1000000 - 1)
        return "the time is too large";
    at = place->dot + 1;
    take_digits(&at, place->dot + 7, &micros);
    *time_us = (int64_t)(seconds * 1000000 + micros);
    return NULL;
}

static const char *blanks_before(const char *begin, const char *at)
{
    while (at > begin && is_blank(at[-1]))
        at--;
    return at;
}

/* `comm pid/tid`, `comm tid`, before an optional `[cpu]`. */
static const char *parse_ids(struct fp_slice line, const char *end, struct fp_header *header)
{
    const char *id, *at;

    end = blanks_before(line.at, end);
    if (end > line.at && end[-1] == ']') {
        while (end > line.at && *end != '[')
            end--;
        end = blanks_before(line.at, end);
    }
    header->thread = (struct fp_slice){line.at, (size_t)(end - line.at)};
    id = digits_before(line.at, end);
    at = id;
    if (!take_digits(&at, end, &header->tid))
        return "no process and thread number";
    header->pid = header->tid;
    if (id > line.at && id[-1] == '/') {
        at = id = digits_before(line.at, id - 1);
        if (!take_digits(&at, end, &header->pid))
            return "no process number";
    }
    end = blanks_before(line.at, id);
    if (end == id || end == line.at)
        return "no command name";
    header->comm = (struct fp_slice){line.at, (size_t)(end - line.at)};
    return NULL;
}

/* `[period] event: [rest]` from behind the time's colon. */
static const char *parse_event(const char *at, const char *end, struct fp_header *header)
{
    const char *word;
    uint64_t period;

    while (at < end && is_blank(*at))
        at++;
    word = at;
    header->period = 1;
    if (take_digits(&at, end, &period) && (at == end || is_blank(*at))) {
        if (period > INT64_MAX || period == 0)
            return "a period of 0, or too large";
        header->period = (int64_t)period;
        while (at < end && is_blank(*at))
            at++;
        word = at;
    }
    at = word;
    while (at < end && !is_blank(*at))
        at++;
    if (at == word || at[-1] != ':')
        return "no event name";
    header->event = (struct fp_slice){word, (size_t)(at - 1 - word)};
    while (at < end && is_blank(*at))
        at++;
    header->rest = (struct fp_slice){at, (size_t)(end - at)};
    return NULL;
}

/* `status TAB pid [cpu] ` before the time. */
static const char *parse_original_ids(struct fp_slice line, const char *tab, const char *end,
                                      struct fp_header *header)
{
    header->status = (struct fp_slice){line.at, (size_t)(tab - line.at)};
    end = blanks_before(tab, end);
    if (end > tab && end[-1] == ']') {
        while (end > tab && *end != '[')
            end--;
        end = blanks_before(tab, end);
    }
    if (tab == line.at || end <= tab + 1)
        return "no status or no process";
    header->thread = (struct fp_slice){tab + 1, (size_t)(end - tab - 1)};
    return NULL;
}

const char *fp_parse_header(struct fp_slice line, struct fp_header *header)
{
    struct time_place place;
    const char *tab, *bad;

    *header = (struct fp_header){.dialect = FP_PERF};
    if (!find_time(line, &place))
        return "no time in the header";
    tab = memchr(line.at, '\t', (size_t)(place.begin - line.at));
    if (tab != NULL) {
        header->dialect = FP_ORIGINAL;
        bad = parse_original_ids(line, tab, place.begin, header);
    } else {
        bad = parse_ids(line, place.begin, header);
    }
    if (bad == NULL)
        bad = parse_time(&place, &header->time_us);
    if (bad == NULL)
        bad = parse_event(place.end + 1, line.at + line.size, header);
    return bad;
}

/* ---------------------------------------------------------------- metrics -- */

const char *fp_parse_metrics_line(struct fp_slice line, struct fp_slice *fields)
{
    static const char tail[] = " (metrics)";
    const size_t size = sizeof(tail) - 1;

    if (line.size < 2 + size || memcmp(line.at, "# ", 2) != 0 ||
        memcmp(line.at + line.size - size, tail, size) != 0)
        return "the metrics line is cut off";
    *fields = (struct fp_slice){line.at + 2, line.size - 2 - size};
    return NULL;
}

static bool is_key_character(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_' || is_digit(c);
}

/* A key at `at` that is followed by `mark`: behind both, or NULL. */
static const char *take_key(const char *at, const char *end, const char *mark, size_t mark_size,
                            struct fp_slice hint, struct fp_slice *key)
{
    const char *p = at;

    if (hint.size > 0 && (size_t)(end - at) > hint.size + mark_size &&
        memcmp(at, hint.at, hint.size) == 0)
        p += hint.size;
    else
        while (p < end && is_key_character(*p))
            p++;
    if (p == at || (size_t)(end - p) < mark_size || memcmp(p, mark, mark_size) != 0)
        return NULL;
    *key = (struct fp_slice){at, (size_t)(p - at)};
    return p + mark_size;
}

/* Words that stand behind the numbers: a process may be registered as '5/6', and a scheduler is
 * one. */
static bool is_word_key(struct fp_slice key)
{
    return fp_slice_is(key, FP_SLICE("erl_pid")) || fp_slice_is(key, FP_SLICE("name")) ||
           fp_slice_is(key, FP_SLICE("label")) || fp_slice_is(key, FP_SLICE("node")) ||
           fp_slice_is(key, FP_SLICE("scheduler")) || fp_slice_is(key, FP_SLICE("initial_call")) ||
           fp_slice_is(key, FP_SLICE("proc_lib_initial_call"));
}

static int parse_original_number(const char **at, const char *end, struct fp_slice hint,
                                 struct fp_slice *key, int64_t *value, int64_t *delta)
{
    static const char prefix[] = "metric_erlang_";
    const size_t size = sizeof(prefix) - 1;
    const char *p = *at;

    if ((size_t)(end - p) > size && memcmp(p, prefix, size) == 0)
        p += size;
    p = take_key(p, end, ": ", 2, hint, key);
    if (p == NULL || !take_integer(&p, end, value) || end - p < 2 || p[0] != ',' || p[1] != ' ')
        return 0;
    p += 2;
    if (!take_integer(&p, end, delta) || (p < end && *p != '\t'))
        return 0;
    *at = p < end ? p + 1 : p;
    return 1;
}

int fp_parse_number(enum fp_dialect dialect, const char **at, const char *end, struct fp_slice hint,
                    struct fp_slice *key, int64_t *value, int64_t *delta)
{
    const char *p;

    if (dialect == FP_ORIGINAL)
        return parse_original_number(at, end, hint, key, value, delta);
    p = take_key(*at, end, "=", 1, hint, key);
    if (p == NULL || is_word_key(*key) || !take_integer(&p, end, value) || p == end ||
        *p++ != '/' || !take_integer(&p, end, delta) || (p < end && *p != ' '))
        return 0;
    *at = p < end ? p + 1 : p;
    return 1;
}

const char *fp_parse_words(struct fp_slice words)
{
    const char *at = words.at;
    struct fp_slice key, text;

    if (words.size == 0)
        return NULL;
    if (!fp_parse_word(&at, words.at + words.size, &key, &text) ||
        (!is_word_key(key) && text.size > 0 && (is_digit(text.at[0]) || text.at[0] == '-')))
        return "a metric or word that makes no sense";
    return NULL;
}

int fp_parse_word(const char **at, const char *end, struct fp_slice *key, struct fp_slice *text)
{
    const char *stop = memchr(*at, ' ', (size_t)(end - *at));
    const char *p = take_key(*at, end, "=", 1, FP_SLICE(""), key);

    if (stop == NULL)
        stop = end;
    if (p == NULL || p > stop)
        return 0;
    *text = (struct fp_slice){p, (size_t)(stop - p)};
    *at = stop < end ? stop + 1 : stop;
    return 1;
}

/* ----------------------------------------------------------------- frames -- */

static struct fp_slice between(const char *begin, const char *end)
{
    return (struct fp_slice){begin, (size_t)(end - begin)};
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* Behind the address and its blank; NULL when there is none. */
static const char *behind_address(const char *at, const char *end)
{
    const char *p = at;

    while (p < end && is_hex(*p))
        p++;
    return p > at && p < end && *p == ' ' ? p + 1 : NULL;
}

/* TAB addr SP symbol SP (dso): no other blank, so it is split at these two. */
static const char *parse_our_frame(const char *at, const char *end, struct fp_frame_text *frame)
{
    const char *blank;

    if (*at != '\t' || (at = behind_address(at + 1, end)) == NULL)
        return "a frame without an address";
    blank = memchr(at, ' ', (size_t)(end - at));
    if (blank == NULL || blank == at)
        return "a frame without a symbol";
    if (end - blank < 4 || blank[1] != '(' || end[-1] != ')' ||
        memchr(blank + 2, ' ', (size_t)(end - blank - 2)) != NULL)
        return "a frame without a (dso)";
    frame->symbol = between(at, blank);
    frame->dso = between(blank + 2, end - 1);
    return NULL;
}

/* The bracket that the line's last one closes, with a blank before it. */
static const char *open_bracket(const char *begin, const char *end)
{
    int depth = 0;

    for (const char *at = end; at > begin; at--) {
        depth += at[-1] == ')';
        depth -= at[-1] == '(';
        if (depth == 0)
            return at - 1 > begin && is_blank(at[-2]) ? at - 1 : NULL;
    }
    return NULL;
}

int fp_is_frame(struct fp_slice line)
{
    const char *end = blanks_before(line.at, line.at + line.size);
    const char *address = line.size == 0 ? NULL : behind_address(line.at, end);

    return address != NULL && end > address && end[-1] == ')' && open_bracket(address, end) != NULL;
}

/* `sym+0x1f` is in sym. */
static const char *without_offset(const char *begin, const char *end)
{
    const char *at = end;

    while (at > begin && is_hex(at[-1]))
        at--;
    return at < end && at - begin > 3 && memcmp(at - 3, "+0x", 3) == 0 ? at - 3 : end;
}

/* `mod:fun/1;123` has a line. Where: its semicolon, or NULL. */
static const char *original_line(struct fp_slice symbol)
{
    const char *end = symbol.at + symbol.size;
    const char *at = digits_before(symbol.at, end);

    return at < end && at - symbol.at > 2 && at[-1] == ';' && is_digit(at[-2]) ? at - 1 : NULL;
}

static struct fp_slice encode(struct fp_slice text, char **encoded)
{
    char *begin = *encoded;

    *encoded = fp_put_encoded(begin, text);
    return between(begin, *encoded);
}

/* The original's `(mod:fun/1)`, an initial call, and `mod:fun/1;123`. */
static struct fp_slice encode_original(struct fp_slice symbol, char **encoded)
{
    const char *line;
    struct fp_slice made;

    if (symbol.size > 2 && symbol.at[0] == '(' && symbol.at[symbol.size - 1] == ')')
        symbol = (struct fp_slice){symbol.at + 1, symbol.size - 2};
    line = original_line(symbol);
    if (line == NULL)
        return encode(symbol, encoded);
    made = encode(between(symbol.at, line), encoded);
    **encoded = ':';
    memcpy(*encoded + 1, line + 1, (size_t)(symbol.at + symbol.size - line - 1));
    *encoded += symbol.at + symbol.size - line;
    made.size = (size_t)(*encoded - made.at);
    return made;
}

/* Blanks, an address, a symbol of any bytes, a dso in brackets. */
static const char *parse_other_frame(enum fp_dialect dialect, const char *at, const char *end,
                                     char *encoded, struct fp_frame_text *frame)
{
    const char *address, *open;

    while (at < end && is_blank(*at))
        at++;
    while (end > at && is_blank(end[-1]))
        end--;
    address = behind_address(at, end);
    if (address == NULL)
        return "a frame without an address";
    open = end > address && end[-1] == ')' ? open_bracket(address, end) : NULL;
    if (open == NULL)
        return "a frame without a (dso)";
    frame->symbol = between(address, blanks_before(address, open - 1));
    frame->dso = between(open + 1, end - 1);
    if (frame->symbol.size == 0)
        return "a frame without a symbol";
    if (dialect == FP_ORIGINAL) {
        frame->symbol = encode_original(frame->symbol, &encoded);
    } else {
        const char *stop = frame->symbol.at + frame->symbol.size;

        frame->symbol.size = (size_t)(without_offset(frame->symbol.at, stop) - frame->symbol.at);
        frame->symbol = encode(frame->symbol, &encoded);
    }
    /* The original's `native ()` is a pseudo frame. */
    frame->dso = frame->dso.size == 0 ? FP_SLICE("flame_prof") : encode(frame->dso, &encoded);
    return NULL;
}

const char *fp_parse_frame(enum fp_dialect dialect, const char **at, const char *end, char *encoded,
                           struct fp_frame_text *frame)
{
    const char *begin = *at;
    const char *stop = memchr(begin, '\n', (size_t)(end - begin));

    if (stop == NULL)
        stop = end;
    *at = stop < end ? stop + 1 : end;
    if (stop - begin > FP_FRAME_BYTES_MOST)
        return "a frame that is too long";
    if (stop == begin)
        return "a frame without an address";
    if (dialect == FP_OURS)
        return parse_our_frame(begin, stop, frame);
    return parse_other_frame(dialect, begin, stop, encoded, frame);
}
