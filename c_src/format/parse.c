/* parse.c - the lines of a sample. Written by hand, because parsing is most of the cost of reading.
 *
 * A sample begins with a header line, in a session's file as in any `perf script`. The time marks a
 * header line: digits, a dot, six digits or more, a colon. */
#include "format/parse_text.h"

#define SECONDS_MOST (INT64_MAX / 1000000 - 1)

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

/* Nanoseconds, which perf can write, are cut. */
static const char *parse_time(const struct fp_scan_time *place, int64_t *time_us)
{
    const char *at = place->begin;
    uint64_t seconds, micros = 0;

    if (!take_digits(&at, place->dot, &seconds) || seconds > SECONDS_MOST)
        return "the time is too large";
    at = place->dot + 1;
    take_digits(&at, place->dot + 7, &micros);
    *time_us = (int64_t)(seconds * 1000000 + micros);
    return NULL;
}

static uint32_t scheduler_of(uint64_t number)
{
    return number > UINT16_MAX ? 0 : (uint32_t)number;
}

/* The end of what stands before an optional `[cpu]`; *scheduler is that CPU and 1. */
static const char *end_before_cpu(const char *begin, const char *end, uint32_t *scheduler)
{
    const char *digits, *at;
    uint64_t cpu;

    *scheduler = 0;
    end = blanks_before(begin, end);
    if (end == begin || end[-1] != ']')
        return end;
    at = digits = digits_before(begin, end - 1);
    if (digits == begin || digits[-1] != '[')
        return end;
    if (take_digits(&at, end - 1, &cpu))
        *scheduler = scheduler_of(cpu + 1);
    return blanks_before(begin, digits - 1);
}

/* `comm pid/tid`, `comm tid`, before an optional `[cpu]`. */
static const char *parse_ids(struct fp_slice line, const char *end, struct fp_header *header)
{
    const char *id, *at;

    end = end_before_cpu(line.at, end, &header->scheduler);
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

/* `[period] [event:] [rest]` from behind the time's colon. */
static const char *parse_event(const char *at, const char *end, struct fp_header *header)
{
    const char *begin, *word;
    uint64_t period;

    at = word = begin = behind_blanks(at, end);
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
    if (at > word && at[-1] == ':') {
        header->event = between(word, at - 1);
        header->rest = between(behind_blanks(at, end), end);
        return NULL;
    }
    /* perf script -F without the event. An address can look like a period. */
    header->rest = between(word, end);
    if (word > begin && word < end && !fp_is_frame(header->rest)) {
        header->period = 1;
        header->rest = between(begin, end);
    }
    return header->rest.size == 0 || fp_is_frame(header->rest) ? NULL : "no event name";
}

/* `status TAB pid [cpu] ` before the time. */
static const char *parse_original_ids(struct fp_slice line, const char *tab, const char *end,
                                      struct fp_header *header)
{
    uint32_t unknown; /* always [000] */

    header->status = between(line.at, tab);
    end = end_before_cpu(tab, end, &unknown);
    if (tab == line.at || end <= tab + 1)
        return "no status or no process";
    header->thread = between(tab + 1, end);
    return NULL;
}

/* `at` moves behind `c`. */
static bool take(const char **at, const char *end, char c)
{
    if (*at == end || **at != c)
        return false;
    ++*at;
    return true;
}

/* A text without blanks, and the blank behind it. */
static bool take_text(const char **at, const char *end, struct fp_slice *text)
{
    const char *stop = memchr(*at, ' ', (size_t)(end - *at));

    if (stop == NULL || stop == *at)
        return false;
    *text = between(*at, stop);
    *at = stop + 1;
    return true;
}

/* `[cpu] `: three digits or more. */
static bool take_cpu(const char **at, const char *end, uint32_t *scheduler)
{
    const char *digits = *at + 1;
    uint64_t cpu;

    if (!take(at, end, '[') || !take_digits(at, end, &cpu) || *at - digits < 3)
        return false;
    *scheduler = scheduler_of(cpu);
    return take(at, end, ']') && take(at, end, ' ');
}

/* `comm pid/tid [cpu] ` with no blank more. */
static bool take_ids(const char **at, const char *end, struct fp_header *header)
{
    const char *begin = *at;

    if (!take_text(at, end, &header->comm) || !take_digits(at, end, &header->pid) ||
        !take(at, end, '/') || !take_digits(at, end, &header->tid) || !take(at, end, ' '))
        return false;
    header->thread = between(begin, *at - 1);
    return take_cpu(at, end, &header->scheduler);
}

/* `seconds.micros: ` */
static bool take_time(const char **at, const char *end, struct fp_header *header)
{
    const char *micros;
    uint64_t seconds, us;

    if (!take_digits(at, end, &seconds) || seconds > SECONDS_MOST || !take(at, end, '.'))
        return false;
    micros = *at;
    if (!take_digits(at, end, &us) || *at - micros != 6)
        return false;
    header->time_us = (int64_t)(seconds * 1000000 + us);
    return take(at, end, ':') && take(at, end, ' ');
}

/* Does a metric or word begin here? */
static bool is_field(const char *at, const char *end)
{
    const char *p = at;

    while (p < end && ((*p >= 'a' && *p <= 'z') || *p == '_'))
        p++;
    return p > at && end - p > 1 && (*p == '=' || ((*p == '+' || *p == '-') && is_digit(p[1])));
}

/* `comm pid/tid [cpu] time: [period / fields ]event:` and nothing more: no perf script prints
 * that. */
static bool parse_session_header(struct fp_slice line, struct fp_header *header)
{
    const char *at = line.at, *end = at + line.size, *event;
    uint64_t period;

    if (!take_ids(&at, end, header) || !take_time(&at, end, header))
        return false;
    event = memrchr(at, ' ', (size_t)(end - at));
    event = event == NULL ? at : event + 1;
    if (is_field(at, event)) {
        header->fields = between(at, event - 1);
    } else if (event > at) {
        if (!take_digits(&at, end, &period) || at + 1 != event || period == 0)
            return false;
        header->period = (int64_t)period;
    }
    if (end - event < 2 || end[-1] != ':')
        return false;
    header->event = between(event, end - 1);
    header->rest = between(end, end);
    return true;
}

static const char *parse_header(struct fp_slice line, struct fp_header *header)
{
    const char *end = line.at + line.size;
    struct fp_scan_time place;
    const char *tab, *bad;

    *header = (struct fp_header){.dialect = FP_FLAME_PROF, .period = 1, .fields = FP_SLICE("")};
    if (parse_session_header(line, header))
        return NULL;
    line = between(behind_blanks(line.at, end), end);
    *header = (struct fp_header){.dialect = FP_PERF};
    if (!fp_scan_time(line, &place))
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

static int parse_original_number(const char **at, const char *end, struct fp_slice hint,
                                 struct fp_number *number)
{
    struct fp_slice text = between(*at, end);
    const char *p;

    strip_prefix(&text, FP_SLICE("metric_erlang_"));
    p = take_key(text.at, end, hint, &number->key);
    if (p == NULL || !take_literal(&p, end, ": ", 2) || !take_integer(&p, end, &number->value) ||
        !take_literal(&p, end, ", ", 2) || !take_integer(&p, end, &number->delta) ||
        (p < end && *p != '\t'))
        return 0;
    *at = p < end ? p + 1 : p;
    return 1;
}

int fp_parse_number(enum fp_dialect dialect, const char **at, const char *end, struct fp_slice hint,
                    struct fp_number *number)
{
    const char *p;
    uint64_t more;

    number->is_change = 0;
    if (dialect == FP_ORIGINAL)
        return parse_original_number(at, end, hint, number);
    p = take_key(*at, end, hint, &number->key);
    if (p == NULL || p == end || (*p != '=' && *p != '+' && *p != '-') ||
        fp_is_word_key(number->key))
        return 0;
    number->is_change = *p != '=';
    if (take(&p, end, '+')) {
        if (!take_digits(&p, end, &more))
            return 0;
        number->delta = (int64_t)more;
    } else {
        if (take(&p, end, '=') && (!take_integer(&p, end, &number->value) || !take(&p, end, '/')))
            return 0;
        if (!take_integer(&p, end, &number->delta))
            return 0;
    }
    if (p < end && *p != ' ')
        return 0;
    *at = p < end ? p + 1 : p;
    return 1;
}

/* ----------------------------------------------------------------- samples -- */

int fp_sample_is_own(const struct fp_sample *sample)
{
    struct fp_slice rest = sample->stack;

    return sample->dialect == FP_FLAME_PROF &&
           strip_prefix(&rest, FP_SLICE("\tffffffff flame_prof_self (flame_prof)\n")) &&
           rest.size > 0;
}

const char *fp_check_format(const struct fp_sample *sample, struct fp_formats *formats)
{
    const struct fp_slice key = FP_SLICE(" format=");
    const char *at, *end = sample->fields.at + sample->fields.size;
    uint64_t version;

    if (!fp_sample_is_own(sample))
        return NULL;
    at = memmem(sample->fields.at, sample->fields.size, key.at, key.size);
    if (at == NULL)
        return NULL;
    at += key.size;
    if (!take_digits(&at, end, &version) || (at < end && *at != ' '))
        return "a format that makes no sense";
    if (version > FP_FORMAT) {
        formats->newer++;
        return "a later format than this version reads";
    }
    formats->known++;
    return NULL;
}

int fp_format_is_newer(const struct fp_formats *formats, int is_at_end)
{
    return formats->known == 0 && formats->newer > !is_at_end;
}

/* Other programs' samples have neither such metrics nor a status frame. In a session's file a
 * sample without both is damaged, and not theirs. */
static enum fp_dialect dialect_of(const struct fp_scan_piece *piece, const struct fp_header *header,
                                  enum fp_dialect known)
{
    struct fp_slice stack = piece->stack;

    if (header->dialect == FP_FLAME_PROF)
        return FP_FLAME_PROF;
    if (piece->metrics.size > 0 || known == FP_FLAME_PROF ||
        (strip_suffix(&stack, FP_SLICE(" (status)\n")) && stack.size > 0))
        return FP_FLAME_PROF;
    return header->dialect;
}

/* Without a call chain the frame is on the header's line. What is no frame there is the text of a
 * tracepoint; what stands below it is the line of the source. */
static const char *read_perf(const struct fp_scan_piece *piece, struct fp_sample *sample)
{
    struct fp_header *header = &sample->header;

    if (header->event.size == 0)
        header->event = FP_SLICE("unknown");
    if (fp_is_frame(header->rest) && (piece->stack.size == 0 || fp_is_source_line(piece->stack))) {
        sample->stack = header->rest;
        return NULL;
    }
    if (piece->stack.size > 0)
        return piece->is_ended ? NULL : "cut off: no empty line behind it";
    return piece->is_ended || header->rest.size > 0 ? NULL : "no frames";
}

static struct fp_slice behind_comm(const struct fp_header *header)
{
    const char *end = header->thread.at + header->thread.size;

    return between(behind_blanks(header->comm.at + header->comm.size, end), end);
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
    sample->is_carried = 0;
    sample->stack = piece->stack;
    if (sample->dialect == FP_PERF)
        return read_perf(piece, sample);
    if (sample->dialect != sample->header.dialect ||
        (piece->metrics.size > 0 && sample->header.fields.size > 0))
        return "a damaged header";
    if (piece->stack.size == 0)
        return "no frames";
    if (!piece->is_ended)
        return "cut off: no empty line behind it";
    if (sample->dialect == FP_ORIGINAL) {
        sample->fields = sample->header.rest;
    } else if (piece->metrics.size == 0) {
        sample->fields = sample->header.fields;
        sample->is_carried = sample->dialect == FP_FLAME_PROF;
        /* The command is a name, which a process may get or change. */
        if (sample->is_carried)
            sample->header.thread = behind_comm(&sample->header);
    } else {
        sample->fields = piece->metrics;
        if (!strip_prefix(&sample->fields, FP_SLICE("# ")) ||
            !strip_suffix(&sample->fields, FP_SLICE(" (metrics)")) || sample->fields.size == 0 ||
            sample->fields.at[sample->fields.size - 1] == ' ')
            return "the metrics line is cut off";
    }
    return NULL;
}
