/*
 * What a session is started with, out of the map that flame_prof_session makes of
 * the user's options; that has validated them, here only shapes are checked.
 */
#include "agent_nif/session_options.h"

#include "agent_nif/library.h"
#include "base/error.h"
#include "base/metric.h"
#include "session/sampler.h"

static int get_excluded(ErlNifEnv *env, ERL_NIF_TERM list,
                        struct fp_session_start *start)
{
    ERL_NIF_TERM head;
    size_t n = 0;

    while (enif_get_list_cell(env, list, &head, &list)) {
        if (n == FP_EXCLUDED_MAX || !enif_is_pid(env, head))
            return 0;
        start->excluded[n++] = head;
    }
    start->options.excluded = start->excluded;
    start->options.excluded_n = n;
    return 1;
}

int fp_get_status(ErlNifEnv *env, ERL_NIF_TERM term, int *status)
{
    *status = -1;
    if (enif_is_identical(term, fp_atom(env, "all")))
        return 1;
    for (int i = 0; i < FP_STATUS_free; i++) {
        if (enif_is_identical(term, fp_atom(env, fp_status_name(i)))) {
            *status = i;
            return 1;
        }
    }
    return 0;
}

/* For the tests of wrong layouts: #{Field => Offset} instead of what was
 * found. Only this session's copy is changed. */
static int patch_layout(ErlNifEnv *env, ERL_NIF_TERM map,
                        struct fp_layout *layout)
{
    ERL_NIF_TERM patch, key, value;
    ErlNifMapIterator at;
    unsigned offset;
    char name[64];
    int size, field;

    if (!fp_map_get(env, map, "layout_patch", &patch))
        return 1;
    if (!enif_map_iterator_create(env, patch, &at, ERL_NIF_MAP_ITERATOR_FIRST))
        return 0;
    while (enif_map_iterator_get_pair(env, &at, &key, &value)) {
        size = enif_get_atom(env, key, name, sizeof name, ERL_NIF_LATIN1);
        field = size > 0 ? fp_field_find(name, (size_t)size - 1) : -1;
        if (field < 0 || !enif_get_uint(env, value, &offset) ||
            offset > layout->snapshot_size - 24u)
            break;
        layout->release.offset[field] = (uint16_t)offset;
        enif_map_iterator_next(env, &at);
    }
    field = enif_map_iterator_is_tail(env, &at);
    enif_map_iterator_destroy(env, &at);
    return field;
}

static int get_mode(ErlNifEnv *env, ERL_NIF_TERM map, uint8_t *mode)
{
    ERL_NIF_TERM term;

    if (!fp_map_get(env, map, "mode", &term))
        return 0;
    *mode = enif_is_identical(term, fp_atom(env, "schedulers"))
                ? FP_MODE_SCHEDULERS
                : FP_MODE_PROCESSES;
    return *mode == FP_MODE_SCHEDULERS ||
           enif_is_identical(term, fp_atom(env, "processes"));
}

static int get_sync(ErlNifEnv *env, ERL_NIF_TERM map, enum fp_sync *sync)
{
    static const char *const names[] = {[FP_SYNC_NONE] = "none",
                                        [FP_SYNC_FLUSH] = "flush",
                                        [FP_SYNC_CLOSE] = "close"};
    ERL_NIF_TERM term;

    if (!fp_map_get(env, map, "sync", &term))
        return 0;
    for (int i = FP_SYNC_NONE; i <= FP_SYNC_CLOSE; i++) {
        if (enif_is_identical(term, fp_atom(env, names[i]))) {
            *sync = (enum fp_sync)i;
            return 1;
        }
    }
    return 0;
}

static int get_files(ErlNifEnv *env, ERL_NIF_TERM map,
                     struct fp_session_start *start)
{
    struct fp_sink_options *files = &start->options.files;
    int is_zst;

    if (!fp_map_get_text(env, map, "directory", start->directory,
                         sizeof start->directory) ||
        !fp_map_get_bool(env, map, "compress", &is_zst) ||
        !get_sync(env, map, &files->sync) ||
        !fp_map_get_u32(env, map, "flush_close_max", &files->flush_close_max) ||
        !fp_map_get_u64(env, map, "files_max", &files->files_max) ||
        !fp_map_get_u64(env, map, "file_max_bytes", &files->file_max_bytes) ||
        !fp_map_get_u64(env, map, "total_max_bytes", &files->total_max_bytes) ||
        !fp_map_get_u32(env, map, "hold_ms", &files->hold_ms) ||
        !fp_map_get_text(env, map, "note", start->note, sizeof start->note))
        return 0;
    start->options.note = start->note;
    files->is_zst = is_zst;
    files->directory = start->directory;
    return 1;
}

/* {Metric, IsDelta, Top, EveryPasses} */
static int get_rule(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_ranking *rule)
{
    const ERL_NIF_TERM *part;
    int size;

    if (!enif_get_tuple(env, term, &size, &part) || size != 4 ||
        !enif_get_uint(env, part[2], &rule->top) ||
        !enif_get_uint(env, part[3], &rule->every))
        return 0;
    rule->is_delta = (uint8_t)enif_is_identical(part[1], fp_atom(env, "true"));
    for (uint8_t i = 0; i < FP_METRIC_COUNT; i++) {
        rule->metric = i;
        if (enif_is_identical(part[0], fp_atom(env, fp_metric_name(i))))
            return 1;
    }
    return 0;
}

static int get_rules(ErlNifEnv *env, ERL_NIF_TERM map,
                     struct fp_session_options *options)
{
    ERL_NIF_TERM list, head;

    if (!fp_map_get(env, map, "rules", &list))
        return 0;
    while (enif_get_list_cell(env, list, &head, &list))
        if (options->rules == FP_RANKINGS_MAX ||
            !get_rule(env, head, &options->rule[options->rules++]))
            return 0;
    return 1;
}

static int get_options(ErlNifEnv *env, ERL_NIF_TERM map,
                       struct fp_session_start *start)
{
    struct fp_session_options *options = &start->options;
    ERL_NIF_TERM status, excluded;
    uint32_t ring_bytes, text_bytes;

    if (!get_files(env, map, start) ||
        !fp_map_get_u32(env, map, "sample_interval_us",
                        &options->sample_interval_us) ||
        !fp_map_get_u32(env, map, "cpu_permille", &options->cpu_permille) ||
        !fp_map_get_u32(env, map, "flush_interval_ms",
                        &options->flush_interval_ms) ||
        !fp_map_get_bool(env, map, "flatten_recursive",
                         &options->flatten_recursive) ||
        !fp_map_get_bool(env, map, "merge_idle", &options->merge_idle) ||
        !get_rules(env, map, options) ||
        !fp_map_get_u32(env, map, "select_interval_ms",
                        &options->select_interval_ms) ||
        !fp_map_get_u32(env, map, "ring_bytes", &ring_bytes) ||
        !fp_map_get_u32(env, map, "text_bytes", &text_bytes) ||
        !fp_map_get_u32(env, map, "os_pid", &options->os_pid) ||
        !fp_map_get_u32(env, map, "pid_number_bits",
                        &options->pid_number_bits) ||
        options->pid_number_bits > 28 || !get_mode(env, map, &options->mode) ||
        !fp_map_get_bool(env, map, "running_stacks",
                         &options->running_stacks) ||
        !fp_map_get_bool(env, map, "native_frames", &options->native_frames) ||
        !fp_map_get_u32(env, map, "schedulers_online",
                        &options->schedulers_online) ||
        !fp_map_get(env, map, "status", &status) ||
        !fp_get_status(env, status, &options->status) ||
        !fp_map_get(env, map, "exclude", &excluded) ||
        !get_excluded(env, excluded, start))
        return 0;
    options->ring_bytes = ring_bytes;
    options->text_bytes = text_bytes;
    return 1;
}

static int choose_engine(ErlNifEnv *env, ERL_NIF_TERM map,
                         struct fp_session_start *start)
{
    struct fp_library *library = fp_library(env);
    struct fp_layout *layout;
    ERL_NIF_TERM engine;

    if (!fp_map_get(env, map, "engine", &engine))
        return FP_EINVAL;
    if (enif_is_identical(engine, fp_atom(env, "portable")))
        return 0;
    if (!enif_is_identical(engine, fp_atom(env, "native")))
        return FP_EINVAL;
    layout = fp_library_layout(library);
    if (layout == NULL)
        return FP_ESTATE;
    start->layout = *layout;
    if (!patch_layout(env, map, &start->layout))
        return FP_EINVAL;
    start->options.layout = &start->layout;
    start->options.initial_call_key = fp_atom(env, "$initial_call");
    return 0;
}

int fp_session_start_read(ErlNifEnv *env, ERL_NIF_TERM map,
                          struct fp_session_start *start)
{
    return get_options(env, map, start) ? choose_engine(env, map, start)
                                        : FP_EINVAL;
}
