/* reader_nif.c - a file's samples as terms, some a call: flame_prof_samples folds over them. Dirty
 * I/O schedulers only. */
#include <stdbool.h>

#include "report_nif/report_nif.h"

/* Text of one call, so that a call ends soon. */
#define CALL_BYTES ((uint64_t)1 << 20)
#define WARNINGS_MOST 16
#define MEMORY_BYTES ((size_t)64 << 20)
/* Of what is carried from sample to sample: for a million processes. */
#define CARRIED_BYTES ((size_t)1 << 30)

struct reader {
    struct fp_source *source;
    struct fp_scan scan;
    struct fp_carry carry;
    struct fp_strings strings; /* of the carried fields */
    struct fp_budget budget;
    struct fp_fields fields;
    struct fp_file file;
    struct fp_warning warning[WARNINGS_MOST];
    unsigned warnings;
    char *encoded; /* FP_ENCODED_BYTES */
    int is_own;    /* the profiler's own samples are read, instead of those of processes */
};

static void destroy(void *object)
{
    struct reader *reader = object;

    fp_scan_close(&reader->scan);
    fp_source_close(reader->source);
    fp_carry_free(&reader->carry, &reader->budget);
    fp_strings_free(&reader->strings, &reader->budget);
    free(reader->encoded);
    free(reader);
}

static const struct fp_handle_kind kind = {"flame_prof_samples", destroy};

/* ------------------------------------------------- terms of texts of a call -- */

#define SAMPLE_KEYS 10

/* A text that occurs in many samples of a call becomes a term once. 0: not yet. */
struct known {
    ERL_NIF_TERM text, words, frames, status;
    enum fp_dialect dialect; /* of frames */
};

struct call {
    ErlNifEnv *env;
    struct reader *reader;
    struct fp_budget budget;
    struct fp_strings strings;
    struct known *known; /* by the text's number */
    size_t room;
    struct known none; /* of a text that does not fit into the budget */
    ERL_NIF_TERM keys[SAMPLE_KEYS];
};

/* Valid until the next call. */
static struct known *known_of(struct call *call, struct fp_slice text)
{
    uint32_t id;

    call->none = (struct known){0};
    if (fp_strings_intern(&call->strings, &call->budget, text, &id) != 0 ||
        FP_GROW_ZEROS(&call->budget, &call->known, &call->room, id + 1u) != 0)
        return &call->none;
    return &call->known[id];
}

static ERL_NIF_TERM text_term(struct call *call, struct fp_slice text)
{
    struct known *known = known_of(call, text);

    if (known->text == 0)
        known->text = fp_slice_term(call->env, text);
    return known->text;
}

/* ------------------------------------------------------------------ parts -- */

/* [{Symbol, Dso}], leaf first, and the status where it is the root frame. NULL, or why the stack is
 * damaged; so do all below. */
static const char *read_stack(struct call *call, const struct fp_sample *sample,
                              ERL_NIF_TERM *frames, ERL_NIF_TERM *status)
{
    ERL_NIF_TERM made[FP_FRAMES_MOST];
    const char *at = sample->stack.at, *end = at + sample->stack.size;
    bool is_ours = sample->dialect == FP_FLAME_PROF, has_status = false;
    unsigned count = 0;

    *status = 0;
    while (at < end && !has_status) {
        struct fp_frame_text frame;
        const char *bad = fp_parse_frame(sample->dialect, &at, end, call->reader->encoded, &frame);

        if (bad != NULL)
            return bad;
        fp_skip_source_line(sample->dialect, &at, end);
        has_status = is_ours && at == end && fp_is_status(&frame);
        if (has_status)
            *status = text_term(call, frame.symbol);
        else if (count < FP_FRAMES_MOST)
            made[count++] = enif_make_tuple2(call->env, text_term(call, frame.symbol),
                                             text_term(call, frame.dso));
        else
            return "more frames than any stack has";
    }
    *frames = enif_make_list_from_array(call->env, made, count);
    return is_ours && !has_status ? "no status frame at the root" : NULL;
}

static const char *stack_terms(struct call *call, const struct fp_sample *sample,
                               ERL_NIF_TERM *frames, ERL_NIF_TERM *status)
{
    struct known *known = known_of(call, sample->stack);
    const char *bad;

    if (known->frames == 0 || known->dialect != sample->dialect) {
        bad = read_stack(call, sample, frames, status);
        if (bad != NULL)
            return bad;
        known = known_of(call, sample->stack); /* it may have moved */
        known->frames = *frames;
        known->status = *status;
        known->dialect = sample->dialect;
    }
    *frames = known->frames;
    *status =
        sample->dialect == FP_FLAME_PROF ? known->status : text_term(call, sample->header.status);
    return NULL;
}

static const char *words_term(struct call *call, struct fp_slice text, ERL_NIF_TERM *words)
{
    const char *at = text.at, *end = at + text.size, *bad;

    *words = known_of(call, text)->words;
    if (*words != 0)
        return NULL;
    bad = fp_check_words(text);
    if (bad != NULL)
        return bad;
    *words = enif_make_new_map(call->env);
    while (at < end) {
        struct fp_slice key, word;

        fp_parse_word(&at, end, &key, &word);
        enif_make_map_put(call->env, *words, text_term(call, key), text_term(call, word), words);
    }
    known_of(call, text)->words = *words;
    return NULL;
}

/* A colon is encoded in a file. */
static ERL_NIF_TERM sample_word_term(struct call *call, struct fp_slice text)
{
    ERL_NIF_TERM term;
    unsigned char *plain;
    size_t size = 0;

    if (memmem(text.at, text.size, "%3A", 3) == NULL)
        return text_term(call, text);
    plain = enif_make_new_binary(call->env, text.size, &term);
    for (size_t i = 0; i < text.size; i++) {
        bool is_colon = text.size - i >= 3 && memcmp(text.at + i, "%3A", 3) == 0;

        plain[size++] = is_colon ? ':' : (unsigned char)text.at[i];
        i += is_colon ? 2 : 0;
    }
    return enif_make_sub_binary(call->env, term, 0, size);
}

/* Those of the process are shared by its samples; each of the sample is put over a copy. */
static void add_sample_words(struct call *call, struct fp_slice text, ERL_NIF_TERM *words)
{
    const char *at = text.at, *end = at + text.size;
    struct fp_slice key, word;

    while (at < end && fp_parse_word(&at, end, &key, &word))
        enif_make_map_put(call->env, *words, text_term(call, key), sample_word_term(call, word),
                          words);
}

/* Numbers and words of the fields. */
static const char *field_terms(struct call *call, const struct fp_sample *sample,
                               ERL_NIF_TERM *metrics, ERL_NIF_TERM *words)
{
    struct reader *reader = call->reader;
    const struct fp_fields *fields = &reader->fields;
    ERL_NIF_TERM keys[FP_METRICS_MOST], values[FP_METRICS_MOST];
    const char *bad;

    if (fp_carry_read(&reader->carry, &reader->strings, &reader->budget, sample, &reader->fields,
                      &bad) != 0)
        return bad != NULL ? bad : "no memory for what its process' samples leave out";
    if (fields->is_begun)
        return NULL;
    for (uint32_t i = 0; i < fields->count; i++) {
        keys[i] = text_term(call, fp_strings_at(&reader->strings, fields->key[i]));
        values[i] = enif_make_tuple2(call->env, enif_make_int64(call->env, fields->value[i]),
                                     enif_make_int64(call->env, fields->delta[i]));
    }
    if (!enif_make_map_from_arrays(call->env, keys, values, fields->count, metrics))
        return "a metric twice in one line";
    bad = words_term(call, fp_strings_at(&reader->strings, fields->words), words);
    if (bad == NULL)
        add_sample_words(call, fields->of_sample, words);
    return bad;
}

static void warn(struct reader *reader, uint64_t line, const char *bad)
{
    if (reader->warnings < WARNINGS_MOST)
        reader->warning[reader->warnings++] = (struct fp_warning){0, line, bad};
}

static void judge_text(struct reader *reader, enum fp_dialect dialect)
{
    struct fp_messages *messages = &reader->file.messages;
    uint64_t bad = fp_messages_judge(messages, dialect);

    reader->file.bad += bad;
    if (bad > 0)
        warn(reader, messages->line, "no time in the header");
}

/* A sample that is not of the kind that is read has no term. */
static const char *sample_term(struct call *call, const struct fp_scan_piece *piece,
                               ERL_NIF_TERM *term)
{
    struct fp_file *file = &call->reader->file;
    ERL_NIF_TERM value[SAMPLE_KEYS];
    struct fp_sample sample;
    const char *bad = fp_sample_read(piece, file->dialect, &sample);
    bool is_other = bad == NULL && fp_sample_is_own(&sample) != call->reader->is_own;

    if (fp_messages_take(&file->messages, &sample, piece->line))
        return NULL;
    if (bad == NULL)
        bad = fp_check_format(&sample, &file->formats);
    /* The few samples of the profiler are checked, so that all readers count alike. */
    if (is_other && call->reader->is_own)
        return NULL;
    if (bad == NULL)
        bad = field_terms(call, &sample, &value[0], &value[1]);
    if (bad == NULL && call->reader->fields.is_begun)
        return NULL;
    if (bad == NULL)
        bad = stack_terms(call, &sample, &value[2], &value[3]);
    if (bad != NULL)
        return bad;
    if (file->dialect == FP_NO_DIALECT) {
        judge_text(call->reader, sample.dialect);
        file->dialect = sample.dialect;
    }
    if (is_other)
        return NULL;
    value[4] = enif_make_int64(call->env, sample.header.time_us);
    value[5] = enif_make_uint64(call->env, sample.header.pid);
    value[6] = enif_make_uint64(call->env, sample.header.tid);
    value[7] = enif_make_int64(call->env, sample.header.period);
    value[8] = text_term(call, sample.header.event);
    value[9] =
        text_term(call, sample.dialect == FP_ORIGINAL ? sample.header.thread : sample.header.comm);
    enif_make_map_from_arrays(call->env, call->keys, value, SAMPLE_KEYS, term);
    return NULL;
}

/* Up to `most` samples, the last one first. 1: there is more; 0; FP_E*. */
static int read_some(ErlNifEnv *env, struct reader *reader, unsigned most, ERL_NIF_TERM *list)
{
    static const char *const name[SAMPLE_KEYS] = {"metrics", "words", "frames", "status", "time_us",
                                                  "pid",     "tid",   "period", "event",  "comm"};
    const struct fp_source_state *state = fp_source_state(reader->source);
    uint64_t until = state->text + CALL_BYTES;
    struct call call = {.env = env, .reader = reader, .budget.limit = MEMORY_BYTES};
    struct fp_scan_piece piece;
    int more = 1;

    for (int i = 0; i < SAMPLE_KEYS; i++)
        call.keys[i] = fp_atom(env, name[i]);
    for (unsigned n = 0; n < most && state->text <= until;) {
        ERL_NIF_TERM term = 0;
        const char *bad;

        more = fp_scan_next(&reader->scan, &piece);
        if (more <= 0)
            break;
        if (more == FP_SCAN_MORE)
            continue;
        n++;
        bad = sample_term(&call, &piece, &term);
        if (bad != NULL) {
            reader->file.bad++;
            fp_carry_damage(&reader->carry);
            warn(reader, piece.line, bad);
        }
        if (term == 0)
            continue;
        *list = enif_make_list_cell(env, term, *list);
        reader->file.samples++;
    }
    if (more == 0)
        judge_text(reader, reader->file.dialect);
    fp_strings_free(&call.strings, &call.budget);
    free(call.known);
    return fp_format_is_newer(&reader->file.formats, more == 0) ? FP_ENEWER : more;
}

/* ------------------------------------------------------------------- NIFs -- */

/* (Path, processes | profiler) -> {ok, Reader} | {error, {Atom, Text}}: whose samples are read */
FP_REPORT_NIF(fp_nif_reader_open)
{
    static const char *const kinds[] = {"processes", "profiler", NULL};
    int whose = fp_get_name(env, argv[1], kinds);
    struct reader *reader;
    ERL_NIF_TERM term;
    char path[FP_PATH_BYTES], why[FP_WHY_BYTES] = "";
    int err = FP_ENOMEM;

    if (whose < 0 || !fp_get_path(env, argv[0], path))
        return enif_make_badarg(env);
    reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return fp_report_error(env, err, why);
    reader->is_own = whose == 1;
    reader->budget.limit = CARRIED_BYTES;
    reader->encoded = malloc(FP_ENCODED_BYTES);
    if (reader->encoded != NULL)
        err = fp_source_open(&reader->source, path, why, sizeof(why));
    if (err == 0)
        err = fp_scan_open(&reader->scan, fp_source_read, reader->source);
    if (err != 0) {
        destroy(reader);
        return fp_report_error(env, err, why);
    }
    term = fp_handle_new(env, &kind, reader);
    return term == 0 ? fp_report_error(env, FP_ENOMEM, "") : fp_ok(env, term);
}

/* (Reader, Most) -> {more | done, [Sample]}, the last one first | {error, {Atom, Text}} */
FP_HANDLE_NIF(fp_nif_reader_next, kind)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    unsigned most;
    int more;

    if (!enif_get_uint(env, argv[1], &most))
        return enif_make_badarg(env);
    more = read_some(env, object, most, &list);
    if (more < 0)
        return fp_report_error(env, more, "");
    return enif_make_tuple2(env, fp_atom(env, more ? "more" : "done"), list);
}

/* Reader -> #{samples, bad, bytes, text, compression, dialect, cut_off, damaged,
 *             warnings => [{Line, What}]}: the first ones, in order. */
FP_HANDLE_NIF(fp_nif_reader_info, kind)
{
    struct reader *reader = object;
    ERL_NIF_TERM map, list = enif_make_list(env, 0), line;
    unsigned count = reader->warnings;

    reader->file.source = *fp_source_state(reader->source);
    while (count-- > 0) {
        line = enif_make_uint64(env, reader->warning[count].line);
        list = enif_make_list_cell(
            env, enif_make_tuple2(env, line, fp_text(env, reader->warning[count].what)), list);
    }
    map = fp_file_map(env, NULL, &reader->file);
    fp_map_put(env, &map, "warnings", list);
    return map;
}

/* Reader -> ok: the file is closed. */
FP_REPORT_NIF(fp_nif_reader_close)
{
    return fp_handle_close(env, argv[0], &kind);
}
