/* parse.c - the lines of a sample. Written by hand, because parsing is most of the cost of reading.
 *
 * A sample begins with a header line, in a session's file as in any `perf script`. The time marks a
 * header line: digits, a dot, six digits or more, a colon. */
#include "base/metric.h"
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

/* Nanoseconds, which perf can write, are cut. Fewer digits are a number of microseconds: simpleperf
 * writes it without its zeros. */
static const char *parse_time(const struct fp_scan_time *place, int64_t *time_us)
{
    const char *at = place->begin, *behind = place->dot + 7;
    uint64_t seconds, micros = 0;

    if (!take_digits(&at, place->dot, &seconds) || seconds > SECONDS_MOST)
        return "the time is too large";
    at = place->dot + 1;
    take_digits(&at, behind < place->end ? behind : place->end, &micros);
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

/* The letters of perf script -F +misc, and flags of an interrupt as `d..2.`. */
static bool is_flags(struct fp_slice word)
{
    size_t misc = 0, flags = 0, dots = 0;

    for (size_t i = 0; i < word.size; i++) {
        char c = word.at[i];

        misc += memchr("KUHGgMESp", c, 9) != NULL;
        dots += c == '.';
        flags += c == '.' || is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    }
    return word.size <= 6 && (misc == word.size || (dots > 0 && flags == word.size));
}

/* The end of what stands before optional flags, which follow a CPU or the number of a thread. */
static const char *end_before_flags(const char *begin, const char *end)
{
    const char *word, *before;

    word = end = blanks_before(begin, end);
    while (word > begin && !is_blank(word[-1]))
        word--;
    before = blanks_before(begin, word);
    return before > begin && (before[-1] == ']' || is_digit(before[-1])) &&
                   is_flags(between(word, end))
               ? before
               : end;
}

/* The number that ends at `end`; *begin is its first character. -1, which perf has for what it does
 * not know, is 0. */
static bool number_before(const char *first, const char *end, const char **begin, uint64_t *number)
{
    const char *at = digits_before(first, end);

    *begin = at;
    if (!take_digits(&at, end, number))
        return false;
    at = *begin;
    if (at - first > 1 && at[-1] == '-' && (is_blank(at[-2]) || at[-2] == '/')) {
        *begin = at - 1;
        *number = 0;
    }
    return true;
}

/* `comm pid/tid`, `comm tid`, before an optional `[cpu]` and flags. */
static const char *parse_ids(struct fp_slice line, const char *end, struct fp_header *header)
{
    const char *id;

    end = end_before_cpu(line.at, end_before_flags(line.at, end), &header->scheduler);
    header->thread = between(line.at, end);
    if (!number_before(line.at, end, &id, &header->tid))
        return "no process and thread number";
    header->pid = header->tid;
    if (id > line.at && id[-1] == '/' && !number_before(line.at, id - 1, &id, &header->pid))
        return "no process number";
    end = blanks_before(line.at, id);
    if (end == id || end == line.at)
        return "no command name";
    header->comm = between(line.at, end);
    return NULL;
}

/* Digits that are a word. One of more than an int64_t is no number of events, but -1 of a counter
 * that failed: the sample is one all the same, and weighs nothing. */
static bool take_period(const char **at, const char *end, int64_t *period)
{
    const char *p = *at, *digits = p;
    uint64_t number;

    while (p < end && is_digit(*p))
        p++;
    if (p == digits || (p < end && !is_blank(*p)))
        return false;
    *period = take_digits(&digits, p, &number) ? (int64_t)number : 0;
    *at = p;
    return true;
}

/* `[period] [event:] [rest]` from behind the time's colon. */
static const char *parse_event(const char *at, const char *end, struct fp_header *header)
{
    const char *begin, *word;

    at = word = begin = behind_blanks(at, end);
    header->period = 1;
    if (take_period(&at, end, &header->period))
        word = behind_blanks(at, end);
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

static bool is_status(struct fp_slice word)
{
#define STATUS(name) FP_SLICE(#name),
    static const struct fp_slice statuses[] = {FP_STATUS_MAP(STATUS)};
#undef STATUS

    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        if (fp_slice_is(word, statuses[i]))
            return true;
    }
    return false;
}

/* `0.71.0` */
static bool is_pid(const char *at, const char *end)
{
    uint64_t number;

    for (int i = 0; i < 3; i++) {
        if ((i > 0 && !take_literal(&at, end, ".", 1)) || !take_digits(&at, end, &number))
            return false;
    }
    return at == end;
}

/* `status TAB pid [cpu] ` before the time. simpleperf has a TAB there, too, behind the command and
 * before numbers. */
static bool parse_original_ids(struct fp_slice line, const char *end, struct fp_header *header)
{
    const char *tab = memchr(line.at, '\t', (size_t)(end - line.at));
    uint32_t unknown; /* always [000] */

    if (tab == NULL || tab == line.at)
        return false;
    end = end_before_cpu(tab, end, &unknown);
    if (end <= tab + 1 ||
        (!is_pid(tab + 1, end) && (!is_status(between(line.at, tab)) || is_digit(tab[1]))))
        return false;
    header->dialect = FP_ORIGINAL;
    header->status = between(line.at, tab);
    header->thread = between(tab + 1, end);
    return true;
}

/* What perf script prints for a record that is no sample: `PERF_RECORD_LOST lost 34`, and the rest
 * of a call chain, which it prints apart with --no-merge-callchains. */
static bool parse_record(const char *at, const char *end, struct fp_header *header)
{
    struct fp_slice text = between(behind_blanks(at, end), end);

    if (!strip_prefix(&text, FP_SLICE("PERF_RECORD_")))
        return strip_prefix(&text, FP_SLICE("DEFERRED CALLCHAIN"));
    if (strip_prefix(&text, FP_SLICE("LOST lost ")) ||
        strip_prefix(&text, FP_SLICE("LOST_SAMPLES lost ")))
        take_digits(&text.at, end, &header->lost);
    return true;
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
    const char *end = line.at + line.size, *bad = NULL;
    struct fp_scan_time place;

    *header = (struct fp_header){.dialect = FP_FLAME_PROF, .period = 1, .fields = FP_SLICE("")};
    if (parse_session_header(line, header))
        return NULL;
    line = between(behind_blanks(line.at, end), end);
    *header = (struct fp_header){.dialect = FP_PERF};
    if (!fp_scan_time(line, &place) &&
        (memchr(line.at, '\t', line.size) == NULL || !fp_scan_time_of(line, 1, &place)))
        return "no time in the header";
    header->has_time = 1;
    header->is_record = parse_record(place.end + 1, end, header);
    if (header->is_record)
        return NULL;
    if (!parse_original_ids(line, place.begin, header))
        bad = parse_ids(line, place.begin, header);
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

/* Others leave out the empty line behind the last sample, or an editor does with its line end, too:
 * a whole line is the end of a stack. A cut between two lines does not show. */
static bool is_whole(const struct fp_scan_piece *piece)
{
    const char *begin = piece->stack.at, *end = begin + piece->stack.size;
    const char *line = memrchr(begin, '\n', piece->stack.size);

    line = behind_blanks(line == NULL ? begin : line + 1, end);
    return piece->is_ended ||
           (piece->is_last && (line == end || (end[-1] == ')' && fp_is_frame(between(line, end)))));
}

/* Without a call chain the frame is on the header's line. A line there that is no frame is the text
 * of a tracepoint; the line below it is the line of the source. */
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
        return is_whole(piece) ? NULL : "cut off: no empty line behind it";
    return piece->is_ended || header->rest.size > 0 ? NULL : "no frames";
}

/* The status is the last frame of every stack. The original has no such mark. */
static bool is_whole_session(const struct fp_scan_piece *piece, enum fp_dialect dialect)
{
    struct fp_slice stack = piece->stack;

    return piece->is_ended || (dialect == FP_FLAME_PROF && piece->is_last &&
                               strip_suffix(&stack, FP_SLICE(" (status)\n")));
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

    sample->kind = FP_IS_SAMPLE;
    if (bad == NULL)
        bad = parse_header(piece->header, &sample->header);
    if (bad != NULL) {
        if (piece->bad == NULL && !sample->header.has_time && piece->stack.size == 0)
            sample->kind = known == FP_PERF         ? FP_IS_MESSAGE
                           : known == FP_NO_DIALECT ? FP_IS_TEXT
                                                    : FP_IS_SAMPLE;
        return sample->kind == FP_IS_MESSAGE ? NULL : bad;
    }
    sample->dialect = dialect_of(piece, &sample->header, known);
    sample->fields = FP_SLICE("");
    sample->is_carried = 0;
    sample->stack = piece->stack;
    if (sample->dialect == FP_PERF && sample->header.is_record) {
        sample->kind = FP_IS_MESSAGE;
        return NULL;
    }
    if (sample->dialect == FP_PERF)
        return read_perf(piece, sample);
    if (sample->dialect != sample->header.dialect ||
        (piece->metrics.size > 0 && sample->header.fields.size > 0))
        return "a damaged header";
    if (piece->stack.size == 0)
        return "no frames";
    if (!is_whole_session(piece, sample->dialect))
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
