/* session_options.c - the map that flame_prof_config.erl makes, into the structs of a session: one
 * row of a table for each option. flame_prof_options.erl has validated the values; this file checks
 * their types. */
#include "agent_nif/session_options.h"

#include <stdio.h>
#include <string.h>

#include "agent_nif/library.h"
#include "base/error.h"
#include "base/metric.h"
#include "session/sampler.h"

struct row;

/* Reads `value` into the member of `start` that the row names. 1, or 0. */
typedef int read_value(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row,
                       struct fp_session_start *start);

struct row {
    const char *key;
    read_value *read;
    size_t offset, size;      /* of the member in struct fp_session_start */
    const char *const *names; /* read_name: the member is the index */
    const char *accepted;     /* for the error's text; NULL: the names */
};

static void *member(const struct row *row, struct fp_session_start *start)
{
    return (char *)start + row->offset;
}

static int store(const struct row *row, struct fp_session_start *start, uint64_t value)
{
    if (row->size == 8)
        *(uint64_t *)member(row, start) = value;
    else if (row->size == 4 && value <= UINT32_MAX)
        *(uint32_t *)member(row, start) = (uint32_t)value;
    else if (row->size == 1 && value <= UINT8_MAX)
        *(uint8_t *)member(row, start) = (uint8_t)value;
    else
        return 0;
    return 1;
}

static int read_number(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row,
                       struct fp_session_start *start)
{
    ErlNifUInt64 n;

    return enif_get_uint64(env, value, &n) && store(row, start, n);
}

/* `infinity` is 0. */
static int read_limit(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row,
                      struct fp_session_start *start)
{
    if (fp_is_atom(env, value, "infinity"))
        return store(row, start, 0);
    return read_number(env, value, row, start);
}

static int read_name(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row,
                     struct fp_session_start *start)
{
    int index = fp_get_name(env, value, row->names);

    return index >= 0 && store(row, start, (uint64_t)index);
}

static int read_text(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row,
                     struct fp_session_start *start)
{
    return fp_get_text(env, value, member(row, start), row->size);
}

int fp_get_status(ErlNifEnv *env, ERL_NIF_TERM term, int *status)
{
    *status = -1;
    if (fp_is_atom(env, term, "all"))
        return 1;
    for (int i = 0; i < FP_STATUS_free; i++) {
        if (fp_is_atom(env, term, fp_status_name(i))) {
            *status = i;
            return 1;
        }
    }
    return 0;
}

static int read_status(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row,
                       struct fp_session_start *start)
{
    return fp_get_status(env, value, member(row, start));
}

static int read_excluded(ErlNifEnv *env, ERL_NIF_TERM list, const struct row *row,
                         struct fp_session_start *start)
{
    struct fp_sampler_options *sampler = &start->options.sampler;
    ERL_NIF_TERM head;

    (void)row;
    sampler->excluded = start->excluded;
    while (enif_get_list_cell(env, list, &head, &list)) {
        if (sampler->excluded_n == FP_EXCLUDED_MAX || !enif_is_pid(env, head))
            return 0;
        start->excluded[sampler->excluded_n++] = head;
    }
    return enif_is_empty_list(env, list);
}

static int get_ranking(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_ranking *ranking)
{
    const ERL_NIF_TERM *part;
    int size;

    if (!enif_get_tuple(env, term, &size, &part) || size != 4 ||
        !enif_get_uint(env, part[2], &ranking->top) ||
        !enif_get_uint(env, part[3], &ranking->every))
        return 0;
    ranking->is_delta = (uint8_t)fp_is_atom(env, part[1], "true");
    for (uint8_t i = 0; i < FP_METRIC_COUNT; i++) {
        ranking->metric = i;
        if (fp_is_atom(env, part[0], fp_metric_name(i)))
            return 1;
    }
    return 0;
}

static int read_rankings(ErlNifEnv *env, ERL_NIF_TERM list, const struct row *row,
                         struct fp_session_start *start)
{
    struct fp_sampler_options *sampler = &start->options.sampler;
    ERL_NIF_TERM head;

    (void)row;
    while (enif_get_list_cell(env, list, &head, &list))
        if (sampler->rankings == FP_RANKINGS_MAX ||
            !get_ranking(env, head, &sampler->ranking[sampler->rankings++]))
            return 0;
    return enif_is_empty_list(env, list);
}

static const char *const booleans[] = {"false", "true", NULL};
static const char *const engines[] = {"portable", "native", NULL};
static const char *const modes[] = {
    [FP_MODE_PROCESSES] = "processes", [FP_MODE_SCHEDULERS] = "schedulers", NULL};
static const char *const syncs[] = {
    [FP_SYNC_NONE] = "none", [FP_SYNC_FLUSH] = "flush", [FP_SYNC_CLOSE] = "close", NULL};
static const char *const compressions[] = {"none", "zstd", NULL};
static const char *const idles[] = {"all", "changes", NULL};

#define ROW(key, read, member, names, accepted)                                                    \
    {                                                                                              \
        key, read, offsetof(struct fp_session_start, member),                                      \
            sizeof((struct fp_session_start *)0)->member, names, accepted                          \
    }
#define NUMBER(key, member) ROW(key, read_number, options.member, NULL, "a number from 0")
#define LIMIT(key, member)                                                                         \
    ROW(key, read_limit, options.member, NULL, "a number from 0, or infinity")
#define NAME(key, member, names) ROW(key, read_name, options.member, names, NULL)
#define TEXT(key, member) ROW(key, read_text, member, NULL, "a binary without zero bytes that fits")

/* Options of the user have the names that flame_prof_options gives them. */
static const struct row rows[] = {
    NAME("engine", is_native, engines),
    NUMBER("ring_bytes", ring_bytes),
    NUMBER("libraries_bytes", libraries_bytes),
    NUMBER("schedulers_online", schedulers_online),
    NAME("mode", sampler.mode, modes),
    NAME("running_stacks", sampler.running_stacks, booleans),
    NAME("native_frames", sampler.native_frames, booleans),
    NUMBER("sample_interval_us", sampler.interval_us),
    NUMBER("cpu_permille", sampler.cpu_permille),
    NUMBER("select_interval_ms", sampler.select_interval_ms),
    ROW("rules", read_rankings, options.sampler.ranking, NULL,
        "at most 8 of {Metric, IsDelta, Top, EveryPasses}"),
    ROW("status", read_status, options.sampler.status, NULL, "all or the status of a process"),
    ROW("exclude", read_excluded, excluded, NULL, "at most 32 pids"),
    NUMBER("flush_interval", writer.flush_interval_ms),
    TEXT("note", note),
    NUMBER("os_pid", writer.script.os_pid),
    NUMBER("pid_number_bits", writer.script.pid_number_bits),
    NAME("flatten_recursive", writer.script.flatten_recursive, booleans),
    NAME("idle_samples", writer.script.merge_idle, idles),
    NUMBER("text_bytes", writer.script.text_bytes),
    TEXT("directory", directory),
    NAME("compress", files.is_zst, compressions),
    NAME("sync", files.sync, syncs),
    NUMBER("hold_ms", files.buffer_ms),
    LIMIT("flush_close_max", files.flush_close_max),
    LIMIT("files_max", files.files_max),
    LIMIT("file_max_bytes", files.file_max_bytes),
    LIMIT("total_max_bytes", files.total_max_bytes),
};

static int refuse(const struct row *row, const char *problem, char *why, size_t size)
{
    char names[128] = "one of";

    for (size_t i = 0; row->accepted == NULL && row->names[i] != NULL; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), " %s", row->names[i]);
    snprintf(why, size, "the session's `%s` %s; accepted: %s", row->key, problem,
             row->accepted == NULL ? names : row->accepted);
    return FP_EINVAL;
}

int fp_session_start_read(ErlNifEnv *env, ERL_NIF_TERM map, struct fp_session_start *start,
                          char *why, size_t why_size)
{
    struct fp_session_options *options = &start->options;
    const struct fp_layout *layout;
    ERL_NIF_TERM value;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!fp_map_get(env, map, rows[i].key, &value))
            return refuse(&rows[i], "is missing", why, why_size);
        if (!rows[i].read(env, value, &rows[i], start))
            return refuse(&rows[i], "has a wrong value", why, why_size);
    }
    options->writer.note = start->note;
    options->files.directory = start->directory;
    if (!options->is_native)
        return 0;
    layout = fp_library(env)->layout;
    if (layout == NULL) {
        snprintf(why, why_size, "the layout has not been found yet");
        return FP_ESTATE;
    }
    options->sampler.layout = *layout;
    return 0;
}
