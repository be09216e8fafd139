/*
 * A file's samples as terms, some at a time: what flame_prof_samples folds
 * over. Dirty I/O schedulers only; one caller at a time, others get badarg.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "format/sample.h"
#include "report/table.h"
#include "report_nif/report_library.h"
#include "terms/terms.h"

/* Text of one call, so that a call ends soon. */
#define CALL_BYTES ((uint64_t)1 << 20)
#define WARNINGS_MOST 16

struct warning {
    uint64_t line;
    const char *what;
};

struct reader {
    ErlNifMutex *lock;
    struct fp_source *source;
    struct fp_scan scan;
    enum fp_dialect dialect;
    uint64_t samples, bad;
    struct warning warning[WARNINGS_MOST];
    char *spelled; /* FP_SPELLED_BYTES */
};

static void close_reader(struct reader *reader)
{
    if (reader->source != NULL) {
        fp_scan_close(&reader->scan);
        fp_source_close(reader->source);
    }
    reader->source = NULL;
}

void fp_reader_destroy(ErlNifEnv *env, void *object)
{
    struct reader *reader = object;

    (void)env;
    close_reader(reader);
    free(reader->spelled);
    if (reader->lock != NULL)
        enif_mutex_destroy(reader->lock);
}

/* ---------------------------------------------- texts that were terms before -- */

/* What is the same in many samples of a call is made once, and shared. */
enum kind { TEXT, STACK, WORDS };

struct known {
    enum kind kind;
    size_t at, size; /* in `bytes` */
    ERL_NIF_TERM term, second;
};

struct term_memory {
    struct fp_budget budget;
    struct fp_table table;
    struct known *known;
    char *bytes;
    size_t count, room, size, bytes_room;
};

static void forget(struct term_memory *memory)
{
    fp_table_free(&memory->table, &memory->budget);
    free(memory->known);
    free(memory->bytes);
}

/* Valid until the next remember(). */
static struct known *recall(const struct term_memory *memory, enum kind kind,
                            uint64_t hash, struct fp_slice text)
{
    struct fp_table_at at;
    uint32_t id;

    fp_table_seek(&memory->table, hash, &at);
    while (fp_table_next(&memory->table, &at, &id)) {
        struct known *known = &memory->known[id];

        if (known->kind == kind && known->size == text.size &&
            memcmp(memory->bytes + known->at, text.at, text.size) == 0)
            return known;
    }
    return NULL;
}

/* Where there is no memory for it, it is made again. */
static void remember(struct term_memory *memory, enum kind kind, uint64_t hash,
                     struct fp_slice text, ERL_NIF_TERM term,
                     ERL_NIF_TERM second)
{
    struct fp_budget *budget = &memory->budget;

    if (FP_GROW(budget, &memory->known, &memory->room, memory->count + 1) !=
            0 ||
        FP_GROW(budget, &memory->bytes, &memory->bytes_room,
                memory->size + text.size + 1) != 0 ||
        fp_table_put(&memory->table, budget, hash, (uint32_t)memory->count) !=
            0)
        return;
    memcpy(memory->bytes + memory->size, text.at, text.size);
    memory->known[memory->count++] =
        (struct known){kind, memory->size, text.size, term, second};
    memory->size += text.size;
}

static ERL_NIF_TERM text_term(ErlNifEnv *env, struct term_memory *memory,
                              struct fp_slice text)
{
    uint64_t hash;
    struct known *known;
    ERL_NIF_TERM term;

    if (text.size == 0)
        return fp_binary(env, "", 0);
    hash = fp_hash(text.at, text.size);
    known = recall(memory, TEXT, hash, text);
    if (known != NULL)
        return known->term;
    term = fp_binary(env, text.at, text.size);
    remember(memory, TEXT, hash, text, term, term);
    return term;
}

/* ------------------------------------------------------------------ parts -- */

/* [{Symbol, Dso}], leaf first, and the status where it is the root frame. */
static const char *read_stack(ErlNifEnv *env, struct reader *reader,
                              struct term_memory *memory,
                              const struct fp_sample *sample,
                              ERL_NIF_TERM *frames, ERL_NIF_TERM *status)
{
    ERL_NIF_TERM made[FP_FRAMES_MOST];
    const char *at = sample->stack.at, *end = at + sample->stack.size;
    unsigned count = 0;

    while (at < end) {
        struct fp_frame_text frame;
        const char *bad =
            fp_parse_frame(sample->dialect, &at, end, reader->spelled, &frame);

        if (bad != NULL)
            return bad;
        if (sample->dialect == FP_OURS && at == end && fp_is_status(&frame)) {
            *status = text_term(env, memory, frame.symbol);
            *frames = enif_make_list_from_array(env, made, count);
            return NULL;
        }
        if (count == FP_FRAMES_MOST)
            return "more frames than any stack has";
        made[count++] =
            enif_make_tuple2(env, text_term(env, memory, frame.symbol),
                             text_term(env, memory, frame.dso));
    }
    if (sample->dialect == FP_OURS)
        return "no status frame at the root";
    *frames = enif_make_list_from_array(env, made, count);
    return NULL;
}

static const char *stack_terms(ErlNifEnv *env, struct reader *reader,
                               struct term_memory *memory,
                               const struct fp_sample *sample,
                               ERL_NIF_TERM *frames, ERL_NIF_TERM *status)
{
    uint64_t hash = fp_hash(sample->stack.at, sample->stack.size) ^
                    (uint64_t)sample->dialect;
    const struct known *known;
    const char *bad;

    /* Before: a text that is remembered may move what is known. */
    *status = text_term(env, memory, sample->header.status);
    known = recall(memory, STACK, hash, sample->stack);
    if (known != NULL) {
        *frames = known->term;
        if (sample->dialect == FP_OURS)
            *status = known->second;
        return NULL;
    }
    bad = read_stack(env, reader, memory, sample, frames, status);
    if (bad == NULL)
        remember(memory, STACK, hash, sample->stack, *frames, *status);
    return bad;
}

static const char *words_term(ErlNifEnv *env, struct term_memory *memory,
                              struct fp_slice text, ERL_NIF_TERM *words)
{
    uint64_t hash = fp_hash(text.at, text.size);
    struct known *known = recall(memory, WORDS, hash, text);
    const char *at = text.at, *end = at + text.size;

    if (known != NULL) {
        *words = known->term;
        return NULL;
    }
    *words = enif_make_new_map(env);
    while (at < end) {
        struct fp_slice key, word;

        if (!fp_parse_word(&at, end, &key, &word))
            return "a metric or word that makes no sense";
        enif_make_map_put(env, *words, text_term(env, memory, key),
                          text_term(env, memory, word), words);
    }
    remember(memory, WORDS, hash, text, *words, *words);
    return NULL;
}

/* Numbers and words of the fields. */
static const char *field_terms(ErlNifEnv *env, struct term_memory *memory,
                               const struct fp_sample *sample,
                               ERL_NIF_TERM *metrics, ERL_NIF_TERM *words)
{
    ERL_NIF_TERM keys[64], values[64];
    const char *at = sample->fields.at, *end = at + sample->fields.size;
    unsigned count = 0;
    const char *bad;
    struct fp_slice key;
    int64_t value, delta;

    while (at < end && fp_parse_number(sample->dialect, &at, end, FP_SLICE(""),
                                       &key, &value, &delta)) {
        if (count == 64)
            return "too many different metrics";
        keys[count] = text_term(env, memory, key);
        values[count++] = enif_make_tuple2(env, enif_make_int64(env, value),
                                           enif_make_int64(env, delta));
    }
    if (!enif_make_map_from_arrays(env, keys, values, count, metrics))
        return "a metric twice in one line";
    bad = fp_parse_words((struct fp_slice){at, (size_t)(end - at)});
    if (bad != NULL)
        return bad;
    return words_term(env, memory, (struct fp_slice){at, (size_t)(end - at)},
                      words);
}

#define SAMPLE_KEYS 10

static const char *sample_term(ErlNifEnv *env, struct reader *reader,
                               struct term_memory *memory,
                               const ERL_NIF_TERM keys[SAMPLE_KEYS],
                               const struct fp_scan_piece *piece,
                               ERL_NIF_TERM *term)
{
    ERL_NIF_TERM value[SAMPLE_KEYS];
    struct fp_sample sample;
    const char *bad = fp_sample_read(piece, reader->dialect, &sample);

    if (bad == NULL && fp_sample_is_own(&sample))
        return NULL;
    if (bad == NULL)
        bad = field_terms(env, memory, &sample, &value[0], &value[1]);
    if (bad == NULL)
        bad = stack_terms(env, reader, memory, &sample, &value[2], &value[3]);
    if (bad != NULL)
        return bad;
    if (reader->samples == 0)
        reader->dialect = sample.dialect;
    value[4] = enif_make_int64(env, sample.header.time_us);
    value[5] = enif_make_uint64(env, sample.header.pid);
    value[6] = enif_make_uint64(env, sample.header.tid);
    value[7] = enif_make_int64(env, sample.header.period);
    value[8] = text_term(env, memory, sample.header.event);
    value[9] = text_term(env, memory,
                         sample.dialect == FP_ORIGINAL ? sample.header.who
                                                       : sample.header.comm);
    enif_make_map_from_arrays(env, (ERL_NIF_TERM *)keys, value, SAMPLE_KEYS,
                              term);
    return NULL;
}

static void count_bad(struct reader *reader, uint64_t line, const char *what)
{
    if (reader->bad < WARNINGS_MOST)
        reader->warning[reader->bad] = (struct warning){line, what};
    reader->bad++;
}

/* ------------------------------------------------------------------- NIFs -- */

/* Locked, or NULL: no reader, a closed one, or another process is at it. */
static struct reader *enter(ErlNifEnv *env, ERL_NIF_TERM term)
{
    void *object;
    struct reader *reader;

    if (!enif_get_resource(env, term, fp_report_library(env)->reader_type,
                           &object))
        return NULL;
    reader = object;
    if (enif_mutex_trylock(reader->lock) != 0)
        return NULL;
    if (reader->source != NULL)
        return reader;
    enif_mutex_unlock(reader->lock);
    return NULL;
}

static int open_file(struct reader *reader, const char *path, char *why,
                     size_t why_size)
{
    int err = fp_source_open(&reader->source, path, why, why_size);

    if (err != 0)
        return err;
    err = fp_scan_open(&reader->scan, fp_source_read, reader->source);
    if (err != 0) {
        fp_source_close(reader->source);
        reader->source = NULL;
    }
    return err;
}

/* Path -> {ok, Reader} | {error, {Atom, Text}} */
ERL_NIF_TERM fp_nif_reader_open(ErlNifEnv *env, int argc,
                                const ERL_NIF_TERM argv[])
{
    struct reader *reader;
    ERL_NIF_TERM term;
    char path[FP_PATH_BYTES], why[256] = "";
    int err;

    (void)argc;
    if (!fp_get_path(env, argv[0], path))
        return enif_make_badarg(env);
    reader = enif_alloc_resource(fp_report_library(env)->reader_type,
                                 sizeof(*reader));
    if (reader == NULL)
        return fp_error_text(env, FP_ENOMEM, "");
    memset(reader, 0, sizeof(*reader));
    reader->lock = enif_mutex_create("flame_prof_reader");
    reader->spelled = malloc(FP_SPELLED_BYTES);
    err = reader->lock == NULL || reader->spelled == NULL
              ? FP_ENOMEM
              : open_file(reader, path, why, sizeof(why));
    term = enif_make_resource(env, reader);
    enif_release_resource(reader);
    if (err != 0)
        return fp_error_text(env, err, why);
    return enif_make_tuple2(env, fp_atom(env, "ok"), term);
}

/* Up to `most` samples, the last one first. 1: there is more; 0; FP_E*. */
static int read_some(ErlNifEnv *env, struct reader *reader, unsigned most,
                     ERL_NIF_TERM *list)
{
    static const char *const name[SAMPLE_KEYS] = {
        "metrics", "words", "frames", "status", "time_us",
        "pid",     "tid",   "period", "event",  "comm"};
    const struct fp_source_state *state = fp_source_state(reader->source);
    uint64_t until = state->text + CALL_BYTES;
    ERL_NIF_TERM keys[SAMPLE_KEYS];
    struct term_memory memory = {.budget = {.limit = (size_t)64 << 20}};
    struct fp_scan_piece piece;
    int more = 1;

    for (int i = 0; i < SAMPLE_KEYS; i++)
        keys[i] = fp_atom(env, name[i]);
    for (unsigned n = 0; n < most && state->text <= until;) {
        ERL_NIF_TERM term;
        const char *bad;

        more = fp_scan_next(&reader->scan, &piece);
        if (more <= 0)
            break;
        if (more == FP_SCAN_MORE)
            continue;
        n++;
        term = 0;
        bad = sample_term(env, reader, &memory, keys, &piece, &term);
        if (bad != NULL)
            count_bad(reader, piece.line, bad);
        if (term == 0) /* bad, or the profiler's own */
            continue;
        *list = enif_make_list_cell(env, term, *list);
        reader->samples++;
    }
    forget(&memory);
    return more;
}

/* (Reader, Most) -> {more | done, [Sample]}, the last one first
 *                 | {error, {Atom, Text}} */
ERL_NIF_TERM fp_nif_reader_next(ErlNifEnv *env, int argc,
                                const ERL_NIF_TERM argv[])
{
    struct reader *reader;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    unsigned most;
    int more;

    (void)argc;
    if (!enif_get_uint(env, argv[1], &most) ||
        (reader = enter(env, argv[0])) == NULL)
        return enif_make_badarg(env);
    more = read_some(env, reader, most, &list);
    enif_mutex_unlock(reader->lock);
    if (more < 0)
        return fp_error_text(env, more, "");
    return enif_make_tuple2(env, fp_atom(env, more ? "more" : "done"), list);
}

/* Reader -> #{samples, bad, bytes, text, compression, dialect, cut_off,
 * damaged, warnings => [{Line, What}]}: the first ones, in order. */
ERL_NIF_TERM fp_nif_reader_info(ErlNifEnv *env, int argc,
                                const ERL_NIF_TERM argv[])
{
    struct reader *reader = enter(env, argv[0]);
    ERL_NIF_TERM map = enif_make_new_map(env), list = enif_make_list(env, 0);
    struct fp_source_state state;
    uint64_t count;

    (void)argc;
    if (reader == NULL)
        return enif_make_badarg(env);
    state = *fp_source_state(reader->source);
    count = reader->bad < WARNINGS_MOST ? reader->bad : WARNINGS_MOST;
    while (count-- > 0)
        list = enif_make_list_cell(
            env,
            enif_make_tuple2(env,
                             enif_make_uint64(env, reader->warning[count].line),
                             fp_text(env, reader->warning[count].what)),
            list);
    fp_map_put(env, &map, "samples", enif_make_uint64(env, reader->samples));
    fp_map_put(env, &map, "bad", enif_make_uint64(env, reader->bad));
    fp_map_put(env, &map, "dialect",
               fp_atom(env, fp_dialect_name(reader->dialect)));
    fp_map_put_source(env, &map, &state);
    fp_map_put(env, &map, "warnings", list);
    enif_mutex_unlock(reader->lock);
    return map;
}

/* Reader -> ok: the file is closed; the reader is of no more use. */
ERL_NIF_TERM fp_nif_reader_close(ErlNifEnv *env, int argc,
                                 const ERL_NIF_TERM argv[])
{
    struct reader *reader = enter(env, argv[0]);

    (void)argc;
    if (reader == NULL)
        return enif_make_badarg(env);
    close_reader(reader);
    enif_mutex_unlock(reader->lock);
    return fp_atom(env, "ok");
}
