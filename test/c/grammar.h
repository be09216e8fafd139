/* grammar.h - does a text follow doc/format.md? Written from the document, not from the formatter,
 * and with none of its code: a mistake has to be made twice to go unseen. Stricter than the
 * document where flame_prof promises more (comm, cpu, one address, the status frame,
 * percent-encoding).
 *
 *      const char *wrong = grammar_check(text, size, &samples);
 *
 * NULL when all is well; otherwise what is wrong (a static string), and grammar_offset says where.
 * The profiler's samples of itself are checked as well, and counted apart in grammar_own;
 * grammar_looks is the sum of the periods of the others. grammar_each, where it is set, is called
 * with each sample of a process or scheduler. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t grammar_offset;
static uint64_t grammar_own, grammar_looks;

#define GRAMMAR_NUMBERS 16

/* A sample with what it left out. */
struct grammar_found {
    uint64_t time_us, period, tid, cpu;
    const int64_t *value, *delta; /* GRAMMAR_NUMBERS */
    const char *frames;           /* lines, up to an empty one */
};
static void (*grammar_each)(const struct grammar_found *found);

struct grammar {
    const char *begin, *at, *end;
    uint64_t last_time;
    uint64_t *tid_time; /* by tid modulo a power of two: tests use few tids */
    char *is_known;     /* by tid: its whole sample has been there */
    uint64_t period;    /* of the last header */
    uint64_t tid, cpu;
    const char *fields, *fields_end;
    int64_t (*tid_value)[GRAMMAR_NUMBERS]; /* as is_known, where grammar_each is set */
    int64_t value[GRAMMAR_NUMBERS], delta[GRAMMAR_NUMBERS];
};

#define GRAMMAR_TIDS (1u << 16)

#define GRAMMAR_NEED(condition, what)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return (what);                                                                         \
    } while (0)

static int grammar_literal(const char **at, const char *end, const char *text)
{
    size_t size = strlen(text);

    if ((size_t)(end - *at) < size || memcmp(*at, text, size) != 0)
        return 0;
    *at += size;
    return 1;
}

/* Digits without needless zeros; at least one. */
static int grammar_number(const char **at, const char *end, uint64_t *value)
{
    const char *begin = *at;

    *value = 0;
    while (*at < end && **at >= '0' && **at <= '9')
        *value = *value * 10 + (uint64_t)(*(*at)++ - '0');
    return *at > begin && (*begin != '0' || *at == begin + 1);
}

/* One well-formed character; its size, 0 when it is none. */
static size_t grammar_character(const char *text, const char *end, uint32_t *point)
{
    const unsigned char *t = (const unsigned char *)text;
    size_t left = (size_t)(end - text);

    if (t[0] < 0x80) {
        *point = t[0];
        return 1;
    }
    if (left >= 2 && (t[0] & 0xe0) == 0xc0 && (t[1] & 0xc0) == 0x80) {
        *point = (uint32_t)(t[0] & 31) << 6 | (t[1] & 63);
        return *point >= 0x80 ? 2 : 0;
    }
    if (left >= 3 && (t[0] & 0xf0) == 0xe0 && (t[1] & 0xc0) == 0x80 && (t[2] & 0xc0) == 0x80) {
        *point = (uint32_t)(t[0] & 15) << 12 | (uint32_t)(t[1] & 63) << 6 | (t[2] & 63);
        return *point >= 0x800 && (*point < 0xd800 || *point > 0xdfff) ? 3 : 0;
    }
    if (left >= 4 && (t[0] & 0xf8) == 0xf0 && (t[1] & 0xc0) == 0x80 && (t[2] & 0xc0) == 0x80 &&
        (t[3] & 0xc0) == 0x80) {
        *point = (uint32_t)(t[0] & 7) << 18 | (uint32_t)(t[1] & 63) << 12 |
                 (uint32_t)(t[2] & 63) << 6 | (t[3] & 63);
        return *point >= 0x10000 && *point <= 0x10ffff ? 4 : 0;
    }
    return 0;
}

/* No character that has to be encoded; each '%' is followed by two hex. */
static const char *grammar_name(const char *text, const char *end)
{
    static const uint32_t separators[] = {0x85,   0xa0,   0x61c,  0x1680, 0x2000, 0x2001, 0x2002,
                                          0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009,
                                          0x200a, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028,
                                          0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x202f,
                                          0x205f, 0x2066, 0x2067, 0x2068, 0x2069, 0x3000, 0xfeff};

    GRAMMAR_NEED(text < end, "an empty name");
    while (text < end) {
        uint32_t point;
        size_t size = grammar_character(text, end, &point);

        GRAMMAR_NEED(size != 0, "a name that is not UTF-8");
        GRAMMAR_NEED(point > ' ' && point != 0x7f, "a blank or control");
        GRAMMAR_NEED(point < 0x80 || point >= 0xa0, "a C1 control");
        GRAMMAR_NEED(point > 0x7f || strchr("\"'()+;<>&", (int)point) == NULL,
                     "a reserved character");
        for (size_t i = 0; i < sizeof(separators) / sizeof(*separators); i++)
            GRAMMAR_NEED(point != separators[i], "a Unicode separator or direction");
        if (point == '%') {
            GRAMMAR_NEED(end - text >= 3, "a cut off percent-encoding");
            for (int i = 1; i <= 2; i++)
                GRAMMAR_NEED(text[i] != '\0' && strchr("0123456789ABCDEF", text[i]) != NULL,
                             "a percent without two hex digits");
        }
        text += size;
    }
    return NULL;
}

static int grammar_is(const char *text, const char *end, const char *what)
{
    return (size_t)(end - text) == strlen(what) && memcmp(text, what, strlen(what)) == 0;
}

/* module:function/arity[:line], seen from the end: names may have any of these characters
 * themselves. */
static const char *grammar_mfa(const char *text, const char *end)
{
    const char *at = end;

    while (at > text && at[-1] >= '0' && at[-1] <= '9')
        at--;
    GRAMMAR_NEED(at < end && at > text, "a symbol without arity");
    if (at[-1] == ':') {
        GRAMMAR_NEED(*at != '0', "a line that begins with 0");
        end = --at;
        while (at > text && at[-1] >= '0' && at[-1] <= '9')
            at--;
        GRAMMAR_NEED(at < end && at > text, "a symbol without arity");
    }
    GRAMMAR_NEED(at[-1] == '/', "a symbol without a slash");
    GRAMMAR_NEED(memchr(text, ':', (size_t)(at - 1 - text)) != NULL, "a symbol without a module");
    return NULL;
}

static int grammar_is_library(const char *dso, const char *end)
{
    size_t size = (size_t)(end - dso);

    return grammar_is(dso, end, "beam.smp") || grammar_is(dso, end, "[vdso]") ||
           (size > 3 && memmem(dso, size, ".so", 3) != NULL);
}

static const char *grammar_symbol(const char *text, const char *end, const char *dso,
                                  const char *dso_end)
{
    static const char *const bad[] = {"0x", "[unknown]", "_Z", "__Z", "_R"};
    /* Those of C++ and Rust are what a library's function may be called. */
    size_t bad_count = grammar_is_library(dso, dso_end) ? 2 : sizeof(bad) / sizeof(*bad);
    const char *wrong = grammar_name(text, end);

    GRAMMAR_NEED(wrong == NULL, wrong);
    for (size_t i = 0; i < bad_count; i++)
        GRAMMAR_NEED((size_t)(end - text) < strlen(bad[i]) ||
                         memcmp(text, bad[i], strlen(bad[i])) != 0,
                     "a symbol begins like something else");
    /* Cutting 17 or 16 bytes off the end must not cut a character. */
    for (int cut = 16; cut <= 17; cut++)
        GRAMMAR_NEED(end - text < cut || ((unsigned char)end[-cut] & 0xc0) != 0x80,
                     "a character spans the 17th byte from the end");
    if (grammar_is(dso, dso_end, "status"))
        return NULL;
    if (grammar_is(dso, dso_end, "flame_prof")) {
        GRAMMAR_NEED(
            grammar_is(text, end, "truncated") ||
                grammar_is(text, end, "running_stack_not_sampled") ||
                grammar_is(text, end, "[gc]") || grammar_is(text, end, "stack_unreadable") ||
                grammar_is(text, end, "ambiguous") || grammar_is(text, end, "[idle]") ||
                grammar_is(text, end, "flame_prof_self") || grammar_is(text, end, "no_frames"),
            "an unknown pseudo frame");
        return NULL;
    }
    if (grammar_is_library(dso, dso_end))
        return NULL; /* the name of a C function is any */
    return grammar_mfa(text, end);
}

static int grammar_is_status(const char *text, const char *end)
{
    return grammar_is(text, end, "waiting") || grammar_is(text, end, "runnable") ||
           grammar_is(text, end, "running") || grammar_is(text, end, "garbage_collecting") ||
           grammar_is(text, end, "suspended") || grammar_is(text, end, "exiting") ||
           grammar_is(text, end, "free");
}

static const char *grammar_frame(const char *at, const char *end, int *is_status)
{
    const char *symbol, *symbol_end, *dso, *wrong;

    GRAMMAR_NEED(grammar_literal(&at, end, "\tffffffff "), "no address");
    symbol = at;
    symbol_end = memchr(at, ' ', (size_t)(end - at));
    GRAMMAR_NEED(symbol_end != NULL, "a frame without dso");
    at = symbol_end;
    GRAMMAR_NEED(grammar_literal(&at, end, " ("), "a frame without dso");
    dso = at;
    GRAMMAR_NEED(end[-1] == ')', "a frame does not end with its dso");
    wrong = grammar_name(dso, end - 1);
    GRAMMAR_NEED(wrong == NULL, wrong);
    *is_status = grammar_is(dso, end - 1, "status");
    GRAMMAR_NEED(!*is_status || grammar_is_status(symbol, symbol_end), "an unknown status");
    return grammar_symbol(symbol, symbol_end, dso, end - 1);
}

/* Two letters or more: a digit would end it for some readers. */
static int grammar_comm(const char **at, const char *end)
{
    const char *begin = *at;

    while (*at < end && ((**at >= 'a' && **at <= 'z') || (**at >= 'A' && **at <= 'Z') ||
                         strchr("_.@-", **at) != NULL))
        ++*at;
    return *at - begin >= 2 && *at - begin <= 31 && strchr(".@-", *begin) == NULL;
}

/* From behind the time to the event: a period, or fields. */
static const char *grammar_behind_time(struct grammar *g, const char *at, const char *end)
{
    g->period = 1;
    g->fields = g->fields_end = at;
    if (at < end && *at >= '0' && *at <= '9') {
        GRAMMAR_NEED(grammar_number(&at, end, &g->period) && g->period > 0 &&
                         g->period <= INT64_MAX,
                     "no period");
        GRAMMAR_NEED(grammar_literal(&at, end, " "), "no blank");
    } else if (end - at > 11) {
        at = g->fields_end = end - 10;
        GRAMMAR_NEED(memchr(g->fields, ':', (size_t)(at - g->fields)) == NULL,
                     "a colon in the fields");
    }
    GRAMMAR_NEED(grammar_literal(&at, end, "cpu-clock:") && at == end, "no event");
    return NULL;
}

static const char *grammar_header(struct grammar *g, const char *at, const char *end)
{
    uint64_t pid, seconds, micros = 0, time;

    GRAMMAR_NEED(grammar_comm(&at, end) && grammar_literal(&at, end, " "), "no comm");
    GRAMMAR_NEED(grammar_number(&at, end, &pid), "no pid");
    GRAMMAR_NEED(grammar_literal(&at, end, "/"), "no slash");
    GRAMMAR_NEED(grammar_number(&at, end, &g->tid), "no tid");
    GRAMMAR_NEED(g->tid <= INT32_MAX, "a tid that is no int32");
    GRAMMAR_NEED(grammar_literal(&at, end, " [") && end - at > 5, "no cpu");
    for (int i = 0; i < 2 && *at == '0'; i++)
        at++;
    GRAMMAR_NEED(grammar_number(&at, end, &g->cpu) && at[-4] == '[', "no three digits of cpu");
    GRAMMAR_NEED(grammar_literal(&at, end, "] "), "no cpu");
    GRAMMAR_NEED(grammar_number(&at, end, &seconds), "no seconds");
    GRAMMAR_NEED(grammar_literal(&at, end, "."), "no point");
    for (int i = 0; i < 6; i++, at++) {
        GRAMMAR_NEED(at < end && *at >= '0' && *at <= '9', "no microseconds");
        micros = micros * 10 + (uint64_t)(*at - '0');
    }
    GRAMMAR_NEED(grammar_literal(&at, end, ": "), "no time");
    GRAMMAR_NEED(micros != 0, "a whole second");
    time = seconds * 1000000 + micros;
    GRAMMAR_NEED(time >= g->last_time, "time decreases");
    GRAMMAR_NEED(time > g->tid_time[g->tid % GRAMMAR_TIDS], "time does not increase within a tid");
    g->last_time = time;
    g->tid_time[g->tid % GRAMMAR_TIDS] = time;
    return grammar_behind_time(g, at, end);
}

static int grammar_signed(const char **at, const char *end, int64_t *value)
{
    int is_negative = grammar_literal(at, end, "-");
    uint64_t number;

    if (!grammar_number(at, end, &number))
        return 0;
    *value = (int64_t)(is_negative ? 0 - number : number);
    return 1;
}

/* `=value/delta ` */
static const char *grammar_whole_number(const char **at, const char *end, int64_t *value,
                                        int64_t *delta)
{
    GRAMMAR_NEED(grammar_literal(at, end, "=") && grammar_signed(at, end, value), "no value");
    GRAMMAR_NEED(grammar_literal(at, end, "/") && grammar_signed(at, end, delta), "no delta");
    GRAMMAR_NEED(grammar_literal(at, end, " "), "no blank behind a number");
    return NULL;
}

/* clang-format off */
static const char *const grammar_keys[] = {
    "reductions", "message_queue_len", "memory", "total_heap_size", "stack_size", "heap_size",
    "heap_block_size", "old_heap_size", "old_heap_block_size", "recent_size", "mbuf_size",
    "bin_vheap_size", "bin_vheap_block_size", "bin_old_vheap_size", "bin_old_vheap_block_size",
    "minor_gcs",
};
/* clang-format on */

static int grammar_key(const char **at, const char *end, const char *key)
{
    size_t size = strlen(key);

    return (size_t)(end - *at) > size && strchr("=+-", (*at)[size]) != NULL &&
           grammar_literal(at, end, key);
}

static int grammar_reference(const char **at, const char *end)
{
    uint64_t ignored;

    return grammar_number(at, end, &ignored) && grammar_literal(at, end, ".") &&
           grammar_number(at, end, &ignored) && grammar_literal(at, end, ".") &&
           grammar_number(at, end, &ignored);
}

static int grammar_tag_atom(const char **at, const char *end)
{
    const char *begin = *at;

    while (*at < end && strchr(" {},/", **at) == NULL)
        ++*at;
    return *at > begin && *begin != '_';
}

static int grammar_tag(const char **at, const char *end)
{
    int elements = 1;

    if (grammar_literal(at, end, "_"))
        return 1;
    if (!grammar_literal(at, end, "{"))
        return grammar_tag_atom(at, end);
    if (!grammar_tag_atom(at, end))
        return 0;
    if (grammar_literal(at, end, ",_,...}"))
        return 1;
    while (grammar_literal(at, end, ",_"))
        elements++;
    return elements <= 6 && grammar_literal(at, end, "}");
}

static int grammar_message(const char **at, const char *end)
{
    static const char *const kinds[] = {"call/", "cast/", "event/", "system/", "io/",
                                        "down/", "exit/", "timer/", "reply/",  "info/"};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (grammar_literal(at, end, kinds[i]))
            return grammar_tag(at, end);
    return 0;
}

/* Any text: its forms are many. */
static int grammar_target(const char **at, const char *end)
{
    const char *begin = *at;

    while (*at < end && **at != ' ' && **at != ':')
        ++*at;
    return *at > begin;
}

static int grammar_hex(const char **at, const char *end, int digits)
{
    for (; digits > 0 && *at < end && strchr("0123456789abcdef", **at) != NULL; digits--)
        ++*at;
    return digits == 0;
}

static int grammar_trace(const char **at, const char *end)
{
    return grammar_hex(at, end, 32);
}

static int grammar_span(const char **at, const char *end)
{
    return grammar_hex(at, end, 16);
}

/* Words of the sample, each at most once, to the end. */
static const char *grammar_sample_words(const char *at, const char *end)
{
    static const struct {
        const char *key;
        int (*text)(const char **at, const char *end);
    } words[] = {
        {"message=", grammar_message},  {"serves=", grammar_reference},
        {"waits_for=", grammar_target}, {"call=", grammar_reference},
        {"request=", grammar_tag},      {"trace=", grammar_trace},
        {"span=", grammar_span},
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (grammar_literal(&at, end, words[i].key))
            GRAMMAR_NEED(words[i].text(&at, end) && grammar_literal(&at, end, " "),
                         "no word of a sample");
    GRAMMAR_NEED(at == end, "something behind the words");
    return NULL;
}

/* 16 pairs of numbers, the pid, then optional words. */
static const char *grammar_whole(struct grammar *g, const char *at, const char *end)
{
    static const char *const words[] = {
        "name=", "label=", "initial_call=", "proc_lib_initial_call="};
    const char *wrong = NULL;
    uint64_t ignored;

    for (size_t i = 0; i < GRAMMAR_NUMBERS && wrong == NULL; i++) {
        GRAMMAR_NEED(grammar_key(&at, end, grammar_keys[i]), "a metric is not where it belongs");
        wrong = grammar_whole_number(&at, end, &g->value[i], &g->delta[i]);
    }
    GRAMMAR_NEED(wrong == NULL, wrong);
    if (grammar_literal(&at, end, "scheduler="))
        return grammar_number(&at, end, &ignored) && grammar_literal(&at, end, " ")
                   ? grammar_sample_words(at, end)
                   : "no number of a scheduler";
    GRAMMAR_NEED(grammar_literal(&at, end, "erl_pid=<0.") && grammar_number(&at, end, &ignored) &&
                     grammar_literal(&at, end, ".") && grammar_number(&at, end, &ignored) &&
                     grammar_literal(&at, end, "> "),
                 "no erl_pid");
    for (size_t i = 0; i < 4; i++) {
        const char *word;

        if (!grammar_literal(&at, end, words[i]))
            continue;
        word = at;
        at = memchr(at, ' ', (size_t)(end - at));
        GRAMMAR_NEED(at != NULL, "a word without end");
        wrong = grammar_name(word, at++);
        GRAMMAR_NEED(wrong == NULL, wrong);
        GRAMMAR_NEED(i < 2 || memmem(word, (size_t)(at - word), "%3A", 3) != NULL,
                     "a call without a module");
    }
    return grammar_sample_words(at, end);
}

/* Numbers in the order of a whole sample, each at most once: those that have changed. Words. */
static const char *grammar_changes(struct grammar *g, const char *at, const char *end)
{
    const char *wrong;
    uint64_t change;
    int is_less;

    for (size_t i = 0; i < GRAMMAR_NUMBERS && at < end; i++) {
        if (!grammar_key(&at, end, grammar_keys[i]))
            continue;
        if (*at == '=') {
            wrong = grammar_whole_number(&at, end, &g->value[i], &g->delta[i]);
            GRAMMAR_NEED(wrong == NULL, wrong);
            continue;
        }
        is_less = *at++ == '-';
        GRAMMAR_NEED(grammar_number(&at, end, &change) && change != 0, "no change");
        g->delta[i] = (int64_t)(is_less ? 0 - change : change);
        g->value[i] += g->delta[i];
        GRAMMAR_NEED(grammar_literal(&at, end, " "), "no blank behind a number");
    }
    return grammar_sample_words(at, end);
}

static const char *grammar_fields(struct grammar *g)
{
    const char *wrong;
    size_t size = (size_t)(g->fields_end - g->fields);

    memset(g->delta, 0, sizeof(g->delta));
    if (g->tid_value != NULL)
        memcpy(g->value, g->tid_value[g->tid % GRAMMAR_TIDS], sizeof(g->value));
    if (memmem(g->fields, size, " erl_pid=", 9) == NULL &&
        memmem(g->fields, size, " scheduler=", 11) == NULL) {
        GRAMMAR_NEED(g->is_known[g->tid % GRAMMAR_TIDS], "changes of what was not there");
        return grammar_changes(g, g->fields, g->fields_end);
    }
    wrong = grammar_whole(g, g->fields, g->fields_end);
    g->is_known[g->tid % GRAMMAR_TIDS] = 1;
    return wrong;
}

/* Any figures, then three words to five. */
static const char *grammar_own_fields(struct grammar *g, int *goes_on)
{
    const char *at = g->fields, *end = g->fields_end, *wrong;
    int64_t value, delta;

    *goes_on = 0;
    while (!grammar_literal(&at, end, "name=flame_prof ")) {
        const char *key = at;

        while (at < end && ((*at >= 'a' && *at <= 'z') || *at == '_'))
            at++;
        GRAMMAR_NEED(at > key, "no key");
        wrong = grammar_whole_number(&at, end, &value, &delta);
        GRAMMAR_NEED(wrong == NULL, wrong);
    }
    *goes_on = grammar_literal(&at, end, "continues=true ");
    if (*goes_on) {
        GRAMMAR_NEED(at == end, "something behind a sample that goes on");
        return NULL;
    }
    GRAMMAR_NEED(grammar_literal(&at, end, "engine="), "no word of the engine");
    GRAMMAR_NEED(grammar_literal(&at, end, "native") || grammar_literal(&at, end, "portable"),
                 "no engine");
    grammar_literal(&at, end, " mode=schedulers");
    GRAMMAR_NEED(grammar_literal(&at, end, " format=3"), "no format");
    while (end - at > 1) {
        GRAMMAR_NEED(grammar_literal(&at, end, " "), "no blank before a word");
        while (at < end && ((*at >= 'a' && *at <= 'z') || *at == '_'))
            at++;
        GRAMMAR_NEED(grammar_literal(&at, end, "=") && at < end && *at != ' ', "no word");
        while (at < end && *at != ' ')
            at++;
    }
    GRAMMAR_NEED(grammar_literal(&at, end, " ") && at == end, "something behind the words");
    return NULL;
}

/* The next line, without its LF; NULL at the end and when there is no LF. */
static const char *grammar_line(struct grammar *g, const char **end)
{
    const char *line = g->at;

    *end = memchr(line, '\n', (size_t)(g->end - line));
    if (*end == NULL)
        return NULL;
    g->at = *end + 1;
    return line;
}

static void grammar_tell(struct grammar *g, const char *frames)
{
    struct grammar_found found = {.time_us = g->last_time,
                                  .period = g->period,
                                  .tid = g->tid,
                                  .cpu = g->cpu,
                                  .value = g->value,
                                  .delta = g->delta,
                                  .frames = frames};

    memcpy(g->tid_value[g->tid % GRAMMAR_TIDS], g->value, sizeof(g->value));
    grammar_each(&found);
}

static const char *grammar_sample(struct grammar *g, int *is_process)
{
    static const char own[] = "\tffffffff flame_prof_self (flame_prof)\n";
    const char *line, *end, *wrong, *lines;
    int frames = 0, is_status = 0, is_own, goes_on;

    line = grammar_line(g, &end);
    GRAMMAR_NEED(line != NULL, "a header without end");
    GRAMMAR_NEED(end - line < 4096, "a header that the Firefox Profiler refuses");
    wrong = grammar_header(g, line, end);
    GRAMMAR_NEED(wrong == NULL, wrong);
    is_own = (size_t)(g->end - g->at) >= strlen(own) && memcmp(g->at, own, strlen(own)) == 0;
    wrong = is_own ? grammar_own_fields(g, &goes_on) : grammar_fields(g);
    GRAMMAR_NEED(wrong == NULL, wrong);
    if (is_own)
        grammar_own += !goes_on;
    else
        grammar_looks += g->period;
    *is_process = !is_own;
    lines = g->at;
    for (;;) {
        line = grammar_line(g, &end);
        GRAMMAR_NEED(line != NULL, "a sample without an empty line");
        if (line == end)
            break;
        GRAMMAR_NEED(!is_status, "a frame below the status");
        wrong = grammar_frame(line, end, &is_status);
        GRAMMAR_NEED(wrong == NULL, wrong);
        frames++;
    }
    GRAMMAR_NEED(is_status, "no status frame");
    GRAMMAR_NEED(frames >= 2, "nothing but a status");
    GRAMMAR_NEED(frames <= 255, "more than 255 frames");
    if (!is_own && g->tid_value != NULL)
        grammar_tell(g, lines);
    return NULL;
}

static const char *grammar_check(const char *text, size_t size, uint64_t *samples)
{
    struct grammar g = {.begin = text, .at = text, .end = text + size};
    const char *wrong = NULL;
    int is_process = 0;

    *samples = grammar_own = grammar_looks = 0;
    g.tid_time = calloc(GRAMMAR_TIDS, sizeof(*g.tid_time));
    g.is_known = calloc(GRAMMAR_TIDS, 1);
    if (grammar_each != NULL)
        g.tid_value = calloc(GRAMMAR_TIDS, sizeof(*g.tid_value));
    if (g.tid_time == NULL || g.is_known == NULL)
        return "no memory";
    while (wrong == NULL && g.at < g.end) {
        wrong = grammar_sample(&g, &is_process);
        *samples += wrong == NULL && is_process;
    }
    free(g.tid_time);
    free(g.is_known);
    free(g.tid_value);
    grammar_offset = (size_t)(g.at - g.begin);
    return wrong;
}
