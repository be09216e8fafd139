/* session_options.c - a table of the options in the map of flame_prof_config.erl. Their values are
 * valid (flame_prof_options.erl); this file checks their types. */
#include "agent_nif/session_options.h"

#include <stdio.h>
#include <string.h>

#include "agent_nif/agent.h"
#include "base/error.h"
#include "base/metric.h"
#include "session/sampler.h"

#define TEXT_OF(name) #name,

struct row;

/* Reads `value` into the member `to`. 1, or 0. */
typedef int read_value(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row, void *to);

struct row {
    const char *key;
    read_value *read;
    size_t offset, size;      /* of the member in struct fp_session_start */
    const char *const *names; /* read_name: the member is the index */
    const char *accepted;     /* for the error's text; NULL: the names */
};

static int store(const struct row *row, void *to, uint64_t value)
{
    if (row->size == 8)
        *(uint64_t *)to = value;
    else if (row->size == 4 && value <= UINT32_MAX)
        *(uint32_t *)to = (uint32_t)value;
    else if (row->size == 1 && value <= UINT8_MAX)
        *(uint8_t *)to = (uint8_t)value;
    else
        return 0;
    return 1;
}

static int read_number(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row, void *to)
{
    ErlNifUInt64 n;

    return enif_get_uint64(env, value, &n) && store(row, to, n);
}

/* `infinity` is 0. */
static int read_limit(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row, void *to)
{
    if (fp_is_atom(env, value, "infinity"))
        return store(row, to, 0);
    return read_number(env, value, row, to);
}

static int read_name(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row, void *to)
{
    int index = fp_get_name(env, value, row->names);

    return index >= 0 && store(row, to, (uint64_t)index);
}

static int read_text(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row, void *to)
{
    return fp_get_text(env, value, to, row->size);
}

/* <<>>: the node has no name. */
static int read_node(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row, void *to)
{
    const char *node = to;

    return fp_get_text(env, value, to, row->size) && (node[0] == '\0' || fp_log_is_node(node));
}

int fp_get_status(ErlNifEnv *env, ERL_NIF_TERM term, int *status)
{
    static const char *const names[] = {"all", FP_STATUS_MAP(TEXT_OF) NULL};

    *status = fp_get_name(env, term, names) - 1;
    return *status >= -1 && *status != FP_STATUS_free;
}

static int read_status(ErlNifEnv *env, ERL_NIF_TERM value, const struct row *row, void *to)
{
    (void)row;
    return fp_get_status(env, value, to);
}

static int read_excluded(ErlNifEnv *env, ERL_NIF_TERM list, const struct row *row, void *to)
{
    struct fp_excluded *excluded = to;
    ERL_NIF_TERM head;

    (void)row;
    while (enif_get_list_cell(env, list, &head, &list)) {
        if (excluded->n == FP_EXCLUDED_MAX || !enif_is_pid(env, head))
            return 0;
        excluded->pid[excluded->n++] = head;
    }
    return enif_is_empty_list(env, list);
}

static int get_ranking(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_ranking *ranking)
{
    static const char *const metrics[] = {FP_METRIC_MAP(TEXT_OF) NULL};
    const ERL_NIF_TERM *part;
    int size, metric;

    if (!enif_get_tuple(env, term, &size, &part) || size != 4 ||
        (metric = fp_get_name(env, part[0], metrics)) < 0 ||
        !enif_get_uint(env, part[2], &ranking->top) ||
        !enif_get_uint(env, part[3], &ranking->every))
        return 0;
    ranking->metric = (uint8_t)metric;
    ranking->is_delta = (uint8_t)fp_is_atom(env, part[1], "true");
    return 1;
}

static int read_rankings(ErlNifEnv *env, ERL_NIF_TERM list, const struct row *row, void *to)
{
    struct fp_sampler_options *sampler = to;
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
static const char *const events[] = {"cpu_clock", "alloc_words", NULL};
static const char *const modes[] = {
    [FP_MODE_PROCESSES] = "processes", [FP_MODE_SCHEDULERS] = "schedulers", NULL};
static const char *const syncs[] = {
    [FP_SYNC_NONE] = "none", [FP_SYNC_FLUSH] = "flush", [FP_SYNC_CLOSE] = "close", NULL};
static const char *const compressions[] = {"none", "zstd", NULL};

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

/* The key of a user's option is its name in flame_prof_options. */
static const struct row rows[] = {
    NAME("engine", is_native, engines),
    NAME("event", is_weighted, events),
    NUMBER("ring_bytes", ring_bytes),
    NUMBER("libraries_bytes", libraries_bytes),
    NUMBER("schedulers_online", schedulers_online),
    NAME("mode", sampler.mode, modes),
    NAME("running_stacks", sampler.running_stacks, booleans),
    NAME("c_frames", sampler.c_frames, booleans),
    NAME("messages", sampler.messages, booleans),
    NAME("otel", sampler.otel, booleans),
    NUMBER("sample_interval_us", sampler.interval_us),
    NUMBER("cpu_permille", sampler.cpu_permille),
    NUMBER("growers", sampler.growers),
    NUMBER("select_interval_ms", sampler.select_interval_ms),
    ROW("rules", read_rankings, options.sampler, NULL,
        "at most 8 of {Metric, IsDelta, Top, EveryPasses}"),
    ROW("status", read_status, options.sampler.status, NULL, "all or the status of a process"),
    ROW("exclude", read_excluded, excluded, NULL, "at most 32 pids"),
    NUMBER("flush_interval", writer.flush_interval_ms),
    NUMBER("node_interval", writer.node_interval_ms),
    TEXT("note", note),
    TEXT("about", about),
    NUMBER("os_pid", writer.script.os_pid),
    NUMBER("pid_number_bits", writer.script.pid_number_bits),
    NAME("collapse_recursion", writer.script.collapse_recursion, booleans),
    NAME("coalesce_idle", writer.script.coalesce_idle, booleans),
    NUMBER("text_bytes", writer.script.text_bytes),
    TEXT("directory", directory),
    ROW("node", read_node, options.files.node, NULL, "name@host of less than 160 bytes, or <<>>"),
    NAME("compress", files.is_zst, compressions),
    NAME("sync", files.sync, syncs),
    NUMBER("lookback_ms", files.lookback_ms),
    LIMIT("flushes_per_file", files.flushes_per_file),
    LIMIT("max_files", files.max_files),
    LIMIT("max_file_bytes", files.max_file_bytes),
    LIMIT("max_total_bytes", files.max_total_bytes),
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
        if (!rows[i].read(env, value, &rows[i], (char *)start + rows[i].offset))
            return refuse(&rows[i], "has a wrong value", why, why_size);
    }
    options->writer.note = start->note;
    options->writer.about = start->about;
    options->files.directory = start->directory;
    options->sampler.excluded = start->excluded.pid;
    options->sampler.excluded_n = start->excluded.n;
    if (!options->is_native && !options->is_weighted)
        return 0;
    layout = fp_vm(env)->layout;
    if (layout == NULL) {
        snprintf(why, why_size, "the layout has not been found yet");
        return FP_ESTATE;
    }
    options->sampler.layout = *layout;
    return 0;
}
