/* parse.c - the lines of a sample. Written by hand, because parsing is most of the cost of reading.
 *
 * A sample begins with a header line, in a session's file as in any `perf script`. The time marks a
 * header line: digits, a dot, six digits or more, a colon. */
#include "format/parse.h"

#include <stdbool.h>

#include "format/encode.h"

const char *fp_dialect_name(enum fp_dialect dialect)
{
    static const char *const name[] = {
        [FP_NO_DIALECT] = "none",
        [FP_FLAME_PROF] = "flame_prof",
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

static struct fp_slice between(const char *begin, const char *end)
{
    return (struct fp_slice){begin, (size_t)(end - begin)};
}

static const char *digits_before(const char *begin, const char *at)
{
    while (at > begin && is_digit(at[-1]))
        at--;
    return at;
}

static const char *blanks_before(const char *begin, const char *at)
{
    while (at > begin && is_blank(at[-1]))
        at--;
    return at;
}

static const char *behind_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    return at;
}

static bool strip_prefix(struct fp_slice *text, struct fp_slice prefix)
{
    if (text->size < prefix.size || memcmp(text->at, prefix.at, prefix.size) != 0)
        return false;
    *text = (struct fp_slice){text->at + prefix.size, text->size - prefix.size};
    return true;
}

static bool strip_suffix(struct fp_slice *text, struct fp_slice suffix)
{
    if (text->size < suffix.size ||
        memcmp(text->at + text->size - suffix.size, suffix.at, suffix.size) != 0)
        return false;
    text->size -= suffix.size;
    return true;
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

/* The time in a header. */
struct time_place {
    const char *begin, *dot, *end; /* `end` is its colon */
};

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

/* The end of what stands before an optional `[cpu]`. */
static const char *end_before_cpu(const char *begin, const char *end)
{
    end = blanks_before(begin, end);
    if (end == begin || end[-1] != ']')
        return end;
    while (end > begin && *end != '[')
        end--;
    return blanks_before(begin, end);
}

/* `comm pid/tid`, `comm tid`, before an optional `[cpu]`. */
static const char *parse_ids(struct fp_slice line, const char *end, struct fp_header *header)
{
    const char *id, *at;

    end = end_before_cpu(line.at, end);
    header->thread = between(line.at, end);
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
    header->comm = between(line.at, end);
    return NULL;
}

/* `[period] event: [rest]` from behind the time's colon. */
static const char *parse_event(const char *at, const char *end, struct fp_header *header)
{
    const char *word;
    uint64_t period;

    at = word = behind_blanks(at, end);
    header->period = 1;
    if (take_digits(&at, end, &period) && (at == end || is_blank(*at))) {
        if (period > INT64_MAX || period == 0)
            return "a period of 0, or too large";
        header->period = (int64_t)period;
        word = behind_blanks(at, end);
    }
    at = word;
    while (at < end && !is_blank(*at))
        at++;
    if (at == word || at[-1] != ':')
        return "no event name";
    header->event = between(word, at - 1);
    header->rest = between(behind_blanks(at, end), end);
    return NULL;
}

/* `status TAB pid [cpu] ` before the time. */
static const char *parse_original_ids(struct fp_slice line, const char *tab, const char *end,
                                      struct fp_header *header)
{
    header->status = between(line.at, tab);
    end = end_before_cpu(tab, end);
    if (tab == line.at || end <= tab + 1)
        return "no status or no process";
    header->thread = between(tab + 1, end);
    return NULL;
}

static const char *parse_header(struct fp_slice line, struct fp_header *header)
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

static bool is_key_character(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_' || is_digit(c);
}

/* A key at `at`, then `mark`: the place behind both, or NULL. */
static const char *take_key(const char *at, const char *end, const char *mark, size_t mark_size,
                            struct fp_slice hint, struct fp_slice *key)
{
    const char *p = at;

    if (hint.size > 0 && (size_t)(end - at) > hint.size + mark_size &&
        memcmp(at, hint.at, hint.size) == 0 && memcmp(at + hint.size, mark, mark_size) == 0)
        p += hint.size;
    else
        while (p < end && is_key_character(*p))
            p++;
    if (p == at || (size_t)(end - p) < mark_size || memcmp(p, mark, mark_size) != 0)
        return NULL;
    *key = (struct fp_slice){at, (size_t)(p - at)};
    return p + mark_size;
}

/* Keys of words, whose texts may look like numbers: a process may be registered as '5/6'. */
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
    struct fp_slice number = between(*at, end);
    const char *p;

    strip_prefix(&number, FP_SLICE("metric_erlang_"));
    p = take_key(number.at, end, ": ", 2, hint, key);
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
    *text = between(p, stop);
    *at = stop < end ? stop + 1 : stop;
    return 1;
}

/* ----------------------------------------------------------------- frames -- */

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* The place behind the address and its blank; NULL: there is none. */
static const char *behind_address(const char *at, const char *end)
{
    const char *p = at;

    while (p < end && is_hex(*p))
        p++;
    return p > at && p < end && *p == ' ' ? p + 1 : NULL;
}

/* TAB addr SP symbol SP (dso): no other blank, so it is split at these two. */
static const char *parse_session_frame(const char *at, const char *end, struct fp_frame_text *frame)
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

/* The bracket that the line's last one closes; NULL: there is none with a blank before it. */
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

/* This line can be a frame of perf's. */
static bool is_frame(struct fp_slice line)
{
    const char *end = blanks_before(line.at, line.at + line.size);
    const char *address = line.size == 0 ? NULL : behind_address(line.at, end);

    return address != NULL && end > address && end[-1] == ')' && open_bracket(address, end) != NULL;
}

/* `sym+0x1f` is in sym. */
static struct fp_slice without_offset(struct fp_slice symbol)
{
    const char *end = symbol.at + symbol.size, *at = end;

    while (at > symbol.at && is_hex(at[-1]))
        at--;
    if (at == end || at - symbol.at <= 3 || memcmp(at - 3, "+0x", 3) != 0)
        return symbol;
    return between(symbol.at, at - 3);
}

/* The semicolon before the line in `mod:fun/1;123`, or NULL. */
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
    char *begin = *encoded;
    const char *line;

    if (symbol.size > 2 && symbol.at[0] == '(' && symbol.at[symbol.size - 1] == ')')
        symbol = (struct fp_slice){symbol.at + 1, symbol.size - 2};
    line = original_line(symbol);
    if (line == NULL)
        return encode(symbol, encoded);
    encode(between(symbol.at, line), encoded);
    *(*encoded)++ = ':';
    encode(between(line + 1, symbol.at + symbol.size), encoded);
    return between(begin, *encoded);
}

/* Blanks, an address, a symbol of any bytes, a dso in brackets. */
static const char *parse_other_frame(enum fp_dialect dialect, const char *at, const char *end,
                                     char *encoded, struct fp_frame_text *frame)
{
    const char *address, *open;

    end = blanks_before(at, end);
    address = behind_address(behind_blanks(at, end), end);
    if (address == NULL)
        return "a frame without an address";
    open = end > address && end[-1] == ')' ? open_bracket(address, end) : NULL;
    if (open == NULL)
        return "a frame without a (dso)";
    frame->symbol = between(address, blanks_before(address, open - 1));
    frame->dso = between(open + 1, end - 1);
    if (frame->symbol.size == 0)
        return "a frame without a symbol";
    frame->symbol = dialect == FP_ORIGINAL ? encode_original(frame->symbol, &encoded)
                                           : encode(without_offset(frame->symbol), &encoded);
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
    if (dialect == FP_FLAME_PROF)
        return parse_session_frame(begin, stop, frame);
    return parse_other_frame(dialect, begin, stop, encoded, frame);
}

/* ----------------------------------------------------------------- samples -- */

int fp_sample_is_own(const struct fp_sample *sample)
{
    struct fp_slice rest = sample->stack;

    return sample->dialect == FP_FLAME_PROF &&
           strip_prefix(&rest, FP_SLICE("\tffffffff flame_prof_self (flame_prof)\n")) &&
           rest.size > 0;
}

/* Perf's samples have neither metrics nor a status. In a session's file a sample without both is
 * damaged, and not perf's. */
static enum fp_dialect dialect_of(const struct fp_scan_piece *piece, const struct fp_header *header,
                                  enum fp_dialect known)
{
    struct fp_slice stack = piece->stack;

    if (header->dialect == FP_ORIGINAL)
        return FP_ORIGINAL;
    if (piece->metrics.size > 0 || known == FP_FLAME_PROF ||
        (strip_suffix(&stack, FP_SLICE(" (status)\n")) && stack.size > 0))
        return FP_FLAME_PROF;
    return FP_PERF;
}

const char *fp_sample_read(const struct fp_scan_piece *piece, enum fp_dialect known,
                           struct fp_sample *sample)
{
    const char *bad = piece->bad;

    if (bad == NULL)
        bad = parse_header(piece->header, &sample->header);
    if (bad != NULL)
        return bad;
    sample->dialect = dialect_of(piece, &sample->header, known);
    sample->fields = FP_SLICE("");
    sample->stack = piece->stack;
    if (piece->stack.size > 0 && !piece->is_ended)
        return "cut off: no empty line behind it";
    if (piece->stack.size == 0 &&
        (sample->dialect != FP_PERF || (!piece->is_ended && sample->header.rest.size == 0)))
        return "no frames";
    if (sample->dialect == FP_ORIGINAL) {
        sample->fields = sample->header.rest;
    } else if (piece->metrics.size > 0) {
        sample->fields = piece->metrics;
        if (!strip_prefix(&sample->fields, FP_SLICE("# ")) ||
            !strip_suffix(&sample->fields, FP_SLICE(" (metrics)")))
            return "the metrics line is cut off";
    }
    /* perf script -F without a call chain: the frame is on the header's line. What is no frame
     * there is the text of a tracepoint. */
    if (sample->dialect == FP_PERF && piece->stack.size == 0 && is_frame(sample->header.rest))
        sample->stack = sample->header.rest;
    return NULL;
}
