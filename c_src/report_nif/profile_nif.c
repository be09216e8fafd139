/*
 * Profiles as resources: files are read into them in steps, so that no call
 * holds a scheduler for long, and then exported. Dirty I/O schedulers only; one
 * caller at a time, others get badarg.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "report/export.h"
#include "report/groups.h"
#include "report_nif/report_library.h"
#include "terms/terms.h"

#define WHY_BYTES 256
#define QUERIES_MOST (2 * FP_METRICS_MOST + 2)

struct profile_handle {
    ErlNifMutex *lock;
    struct fp_profile *profile;
};

void fp_profile_handle_destroy(ErlNifEnv *env, void *object)
{
    struct profile_handle *handle = object;

    (void)env;
    fp_profile_destroy(handle->profile);
    if (handle->lock != NULL)
        enif_mutex_destroy(handle->lock);
}

/* Locked, or NULL: no profile, a closed one, or another process is at it. */
static struct profile_handle *enter(ErlNifEnv *env, ERL_NIF_TERM term)
{
    void *object;
    struct profile_handle *handle;

    if (!enif_get_resource(env, term, fp_report_library(env)->profile_type,
                           &object))
        return NULL;
    handle = object;
    if (enif_mutex_trylock(handle->lock) != 0)
        return NULL;
    if (handle->profile != NULL)
        return handle;
    enif_mutex_unlock(handle->lock);
    return NULL;
}

static ERL_NIF_TERM leave(struct profile_handle *handle, ERL_NIF_TERM answer)
{
    enif_mutex_unlock(handle->lock);
    return answer;
}

static ERL_NIF_TERM refusal(ErlNifEnv *env, int err, const char *why)
{
    if (err == FP_EFULL)
        why = "the profile does not fit into max_memory";
    return fp_error_text(env, err, why);
}

/* ------------------------------------------------------------------ reading -- */

/* MaxMemory -> {ok, Profile} | {error, {Atom, Text}} */
ERL_NIF_TERM fp_nif_profile_new(ErlNifEnv *env, int argc,
                                const ERL_NIF_TERM argv[])
{
    struct profile_handle *handle;
    ErlNifUInt64 limit;
    ERL_NIF_TERM term;
    int err;

    (void)argc;
    if (!enif_get_uint64(env, argv[0], &limit))
        return enif_make_badarg(env);
    handle = enif_alloc_resource(fp_report_library(env)->profile_type,
                                 sizeof(*handle));
    if (handle == NULL)
        return refusal(env, FP_ENOMEM, "");
    memset(handle, 0, sizeof(*handle));
    handle->lock = enif_mutex_create("flame_prof_profile");
    err = handle->lock == NULL ? FP_ENOMEM
                               : fp_profile_create(&handle->profile, limit);
    term = enif_make_resource(env, handle);
    enif_release_resource(handle);
    if (err != 0)
        return refusal(env, err, "");
    return enif_make_tuple2(env, fp_atom(env, "ok"), term);
}

static int begin(struct fp_profile *profile, const char *path, char *why,
                 size_t why_size)
{
    struct fp_source *source;
    int err = fp_source_open(&source, path, why, why_size);

    if (err != 0)
        return err;
    return fp_profile_begin(profile, source,
                            (struct fp_slice){path, strlen(path)});
}

/* (Profile, Path) -> {ok, BytesOfTheFile} | {error, {Atom, Text}} */
ERL_NIF_TERM fp_nif_profile_begin(ErlNifEnv *env, int argc,
                                  const ERL_NIF_TERM argv[])
{
    char path[FP_PATH_BYTES], why[WHY_BYTES] = "";
    struct profile_handle *handle;
    ERL_NIF_TERM answer;
    int err;

    (void)argc;
    if (!fp_get_path(env, argv[1], path) ||
        (handle = enter(env, argv[0])) == NULL)
        return enif_make_badarg(env);
    err = begin(handle->profile, path, why, sizeof(why));
    answer = err != 0 ? refusal(env, err, why)
                      : enif_make_tuple2(
                            env, fp_atom(env, "ok"),
                            enif_make_uint64(
                                env, fp_source_size(handle->profile->source)));
    return leave(handle, answer);
}

/* (Profile, Bytes) -> {more, BytesOfTheFileRead} | done
 *                   | {error, {Atom, Text}} */
ERL_NIF_TERM fp_nif_profile_step(ErlNifEnv *env, int argc,
                                 const ERL_NIF_TERM argv[])
{
    struct profile_handle *handle;
    ErlNifUInt64 bytes;
    ERL_NIF_TERM answer;
    int more;

    (void)argc;
    if (!enif_get_uint64(env, argv[1], &bytes) ||
        (handle = enter(env, argv[0])) == NULL)
        return enif_make_badarg(env);
    more = fp_profile_step(handle->profile, bytes);
    if (more < 0)
        answer = refusal(env, more, "");
    else if (more == 0)
        answer = fp_atom(env, "done");
    else
        answer = enif_make_tuple2(
            env, fp_atom(env, "more"),
            enif_make_uint64(
                env, fp_source_state(handle->profile->source)->bytes_in));
    return leave(handle, answer);
}

/* Profile -> ok: its memory is given back here, and not by whoever collects
 * the last reference: a normal scheduler should not do that. */
ERL_NIF_TERM fp_nif_profile_close(ErlNifEnv *env, int argc,
                                  const ERL_NIF_TERM argv[])
{
    struct profile_handle *handle = enter(env, argv[0]);

    (void)argc;
    if (handle == NULL)
        return enif_make_badarg(env);
    fp_profile_destroy(handle->profile);
    handle->profile = NULL;
    return leave(handle, fp_atom(env, "ok"));
}

/* -------------------------------------------------------------------- facts -- */

static ERL_NIF_TERM text_of(ErlNifEnv *env, const struct fp_profile *profile,
                            uint32_t id)
{
    struct fp_slice text = fp_profile_text(profile, id);

    return fp_binary(env, text.at, text.size);
}

static void put_u64(ErlNifEnv *env, ERL_NIF_TERM *map, const char *key,
                    uint64_t number)
{
    fp_map_put(env, map, key, enif_make_uint64(env, number));
}

static ERL_NIF_TERM file_term(ErlNifEnv *env, const struct fp_profile *profile,
                              size_t i)
{
    const struct fp_file *file = &profile->file[i];
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "path", text_of(env, profile, file->path));
    fp_map_put(env, &map, "dialect",
               fp_atom(env, fp_dialect_name(file->dialect)));
    fp_map_put_source(env, &map, &file->source);
    put_u64(env, &map, "samples", file->samples);
    put_u64(env, &map, "looks", file->looks);
    put_u64(env, &map, "bad", file->bad);
    fp_map_put(env, &map, "own", text_of(env, profile, file->own));
    fp_map_put(env, &map, "first_us", enif_make_int64(env, file->first_us));
    fp_map_put(env, &map, "last_us", enif_make_int64(env, file->last_us));
    return map;
}

static ERL_NIF_TERM files_term(ErlNifEnv *env, const struct fp_profile *profile)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    for (size_t i = profile->file_count; i-- > 0;)
        list = enif_make_list_cell(env, file_term(env, profile, i), list);
    return list;
}

static ERL_NIF_TERM warnings_term(ErlNifEnv *env,
                                  const struct fp_profile *profile)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t count = profile->warning_count < FP_WARNINGS_MOST
                         ? profile->warning_count
                         : FP_WARNINGS_MOST;

    while (count-- > 0) {
        const struct fp_warning *one = &profile->warning[count];

        list = enif_make_list_cell(
            env,
            enif_make_tuple3(
                env, text_of(env, profile, profile->file[one->file].path),
                enif_make_uint64(env, one->line), fp_text(env, one->what)),
            list);
    }
    return list;
}

static ERL_NIF_TERM texts_term(ErlNifEnv *env, const struct fp_profile *profile,
                               const uint32_t *text, size_t count)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    while (count-- > 0)
        list =
            enif_make_list_cell(env, text_of(env, profile, text[count]), list);
    return list;
}

static ERL_NIF_TERM metrics_term(ErlNifEnv *env,
                                 const struct fp_profile *profile)
{
    uint32_t names[FP_METRICS_MOST];

    for (uint32_t m = 0; m < profile->metric_count; m++)
        names[m] = profile->metric[m].name;
    return texts_term(env, profile, names, profile->metric_count);
}

/* Profile -> #{...}: see flame_prof_profile:info/1. */
ERL_NIF_TERM fp_nif_profile_info(ErlNifEnv *env, int argc,
                                 const ERL_NIF_TERM argv[])
{
    struct profile_handle *handle = enter(env, argv[0]);
    const struct fp_profile *profile;
    ERL_NIF_TERM map;

    (void)argc;
    if (handle == NULL)
        return enif_make_badarg(env);
    profile = handle->profile;
    map = enif_make_new_map(env);
    put_u64(env, &map, "samples", profile->rows.count - profile->own_count);
    put_u64(env, &map, "processes", profile->process_count);
    put_u64(env, &map, "frames", profile->tree.frame_count);
    put_u64(env, &map, "nodes", profile->tree.node_count);
    put_u64(env, &map, "stacks", profile->tree.stack_count);
    put_u64(env, &map, "texts", profile->strings.count);
    put_u64(env, &map, "memory", profile->budget.used);
    put_u64(env, &map, "max_memory", profile->budget.limit);
    fp_map_put(env, &map, "first_us", enif_make_int64(env, profile->first_us));
    fp_map_put(env, &map, "last_us", enif_make_int64(env, profile->last_us));
    fp_map_put(env, &map, "is_ordered",
               fp_atom(env, profile->is_ordered ? "true" : "false"));
    fp_map_put(env, &map, "events",
               texts_term(env, profile, profile->event, profile->event_count));
    fp_map_put(env, &map, "metrics", metrics_term(env, profile));
    fp_map_put(env, &map, "files", files_term(env, profile));
    put_u64(env, &map, "bad", profile->warning_count);
    fp_map_put(env, &map, "warnings", warnings_term(env, profile));
    return leave(handle, map);
}

static void put_text(ErlNifEnv *env, const struct fp_profile *profile,
                     ERL_NIF_TERM *map, const char *key, uint32_t id)
{
    fp_map_put(env, map, key, text_of(env, profile, id));
}

static ERL_NIF_TERM process_term(ErlNifEnv *env,
                                 const struct fp_profile *profile, size_t i)
{
    const struct fp_process *process = &profile->process[i];
    ERL_NIF_TERM map = enif_make_new_map(env);

    put_text(env, profile, &map, "comm", process->comm);
    put_u64(env, &map, "pid", process->pid);
    put_u64(env, &map, "tid", process->tid);
    put_text(env, profile, &map, "erl_pid", process->erl_pid);
    put_text(env, profile, &map, "name", process->name);
    put_text(env, profile, &map, "label", process->label);
    put_text(env, profile, &map, "initial_call", process->initial_call);
    put_text(env, profile, &map, "proc_lib_initial_call",
             process->proc_lib_initial_call);
    put_text(env, profile, &map, "words", process->words);
    fp_map_put(env, &map, "is_own",
               fp_atom(env, process->is_own ? "true" : "false"));
    put_u64(env, &map, "samples", process->samples);
    fp_map_put(env, &map, "first_us", enif_make_int64(env, process->first_us));
    fp_map_put(env, &map, "last_us", enif_make_int64(env, process->last_us));
    return map;
}

/* (Profile, From, Most) -> [Process], from number From on. */
ERL_NIF_TERM fp_nif_profile_processes(ErlNifEnv *env, int argc,
                                      const ERL_NIF_TERM argv[])
{
    ErlNifUInt64 from, most, to;
    struct profile_handle *handle;
    ERL_NIF_TERM list;

    (void)argc;
    if (!enif_get_uint64(env, argv[1], &from) ||
        !enif_get_uint64(env, argv[2], &most) ||
        (handle = enter(env, argv[0])) == NULL)
        return enif_make_badarg(env);
    list = enif_make_list(env, 0);
    to = handle->profile->process_count;
    to = from >= to || to - from <= most ? to : from + most;
    while (to > from)
        list = enif_make_list_cell(
            env, process_term(env, handle->profile, --to), list);
    return leave(handle, list);
}

/* ------------------------------------------------------------------ queries -- */

/* samples | period | {value | delta, Name} */
static int get_measure(ErlNifEnv *env, const struct fp_profile *profile,
                       ERL_NIF_TERM term, struct fp_measure *measure)
{
    const ERL_NIF_TERM *part;
    ErlNifBinary name;
    int size;

    *measure = (struct fp_measure){FP_MEASURE_SAMPLES, -1};
    if (enif_is_identical(term, fp_atom(env, "samples")))
        return 1;
    measure->kind = FP_MEASURE_PERIOD;
    if (enif_is_identical(term, fp_atom(env, "period")))
        return 1;
    if (!enif_get_tuple(env, term, &size, &part) || size != 2 ||
        !enif_inspect_binary(env, part[1], &name))
        return 0;
    measure->kind = enif_is_identical(part[0], fp_atom(env, "delta"))
                        ? FP_MEASURE_DELTA
                        : FP_MEASURE_VALUE;
    measure->metric = fp_profile_metric(
        profile, (struct fp_slice){(char *)name.data, name.size});
    return measure->metric >= 0;
}

static int get_level(ErlNifEnv *env, ERL_NIF_TERM term, enum fp_level *level)
{
    for (int i = 0; i < FP_LEVEL_COUNT; i++) {
        if (enif_is_identical(term, fp_atom(env, fp_level_name(i)))) {
            *level = (enum fp_level)i;
            return 1;
        }
    }
    return 0;
}

/* Each level once. */
static int get_levels(ErlNifEnv *env, ERL_NIF_TERM list, struct fp_query *query)
{
    ERL_NIF_TERM head;
    uint32_t seen = 0;

    query->level_count = 0;
    while (enif_get_list_cell(env, list, &head, &list)) {
        enum fp_level level;

        if (!get_level(env, head, &level) || seen >> level & 1)
            return 0;
        seen |= 1u << level;
        query->level[query->level_count++] = level;
    }
    return 1;
}

static int get_query(ErlNifEnv *env, const struct fp_profile *profile,
                     ERL_NIF_TERM term, struct fp_query *query)
{
    const ERL_NIF_TERM *part;
    int size;

    if (!enif_get_tuple(env, term, &size, &part) || size != 3 ||
        !get_measure(env, profile, part[0], &query->measure) ||
        !get_levels(env, part[1], query))
        return 0;
    query->without_lines = enif_is_identical(part[2], fp_atom(env, "true"));
    return 1;
}

/* ------------------------------------------------------------------- stacks -- */

struct stacks {
    ErlNifEnv *env;
    const struct fp_profile *profile;
    const struct fp_query *query;
    struct fp_aggregate groups;
    ERL_NIF_TERM
    *frames; /* by node: the list from it to the root; 0: not yet */
    size_t node_count;
};

/* Lists share their tails as stacks share their callers. */
static ERL_NIF_TERM frames_term(struct stacks *stacks, uint32_t node)
{
    uint32_t nodes[FP_FRAMES_MOST];
    size_t count = fp_aggregate_stack(&stacks->groups, stacks->profile, node,
                                      nodes, FP_FRAMES_MOST);
    ERL_NIF_TERM list = enif_make_list(stacks->env, 0);

    for (size_t i = 0; i < count; i++) {
        ERL_NIF_TERM *known = &stacks->frames[nodes[i]];

        if (*known == 0) {
            struct fp_slice symbol =
                fp_aggregate_symbol(&stacks->groups, stacks->profile, nodes[i]);

            *known = enif_make_list_cell(
                stacks->env, fp_binary(stacks->env, symbol.at, symbol.size),
                list);
        }
        list = *known;
    }
    return list;
}

static ERL_NIF_TERM group_term(struct stacks *stacks,
                               const struct fp_group *group)
{
    ErlNifEnv *env = stacks->env;
    ERL_NIF_TERM levels = enif_make_list(env, 0);
    char room[FP_LEVEL_BYTES];

    for (uint32_t i = stacks->query->level_count; i-- > 0;) {
        struct fp_slice text = fp_level_text(
            stacks->profile, stacks->query->level[i], group->code[i], room);

        levels = enif_make_list_cell(env, fp_binary(env, text.at, text.size),
                                     levels);
    }
    return enif_make_tuple4(env, levels, frames_term(stacks, group->node),
                            enif_make_uint64(env, group->weight),
                            enif_make_uint64(env, group->samples));
}

/* The heaviest first; what was first in the files where they are equal. */
static int is_heavier(const void *a, const void *b)
{
    const struct fp_group *x = *(const struct fp_group *const *)a;
    const struct fp_group *y = *(const struct fp_group *const *)b;

    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int stacks_term(struct stacks *stacks, uint64_t most,
                       ERL_NIF_TERM *answer)
{
    ErlNifEnv *env = stacks->env;
    const struct fp_aggregate *groups = &stacks->groups;
    const struct fp_group **order =
        malloc((groups->count + 1) * sizeof(struct fp_group *));
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t weight = 0, samples = 0;

    stacks->frames = calloc(stacks->node_count, sizeof(*stacks->frames));
    if (order == NULL || stacks->frames == NULL) {
        free(order);
        return FP_ENOMEM;
    }
    for (size_t i = 0; i < groups->count; i++) {
        order[i] = &groups->group[i];
        weight = fp_sum(weight, order[i]->weight);
        samples = fp_sum(samples, order[i]->samples);
    }
    qsort(order, groups->count, sizeof(*order), is_heavier);
    for (size_t i = most < groups->count ? most : groups->count; i-- > 0;)
        list = enif_make_list_cell(env, group_term(stacks, order[i]), list);
    free(order);
    *answer = enif_make_tuple4(env, enif_make_uint64(env, weight),
                               enif_make_uint64(env, samples),
                               enif_make_uint64(env, groups->count), list);
    return 0;
}

/* (Profile, {Measure, [Level], WithoutLines}, Most) ->
 *     {ok, {Weight, Samples, Count, [{[Level], [Symbol], Weight, Samples}]}}
 *   | {error, {Atom, Text}}: all of them added up, and the Most heaviest */
ERL_NIF_TERM fp_nif_profile_stacks(ErlNifEnv *env, int argc,
                                   const ERL_NIF_TERM argv[])
{
    struct profile_handle *handle;
    struct fp_query query = {.level_count = 0};
    struct stacks stacks = {.env = env, .query = &query};
    ErlNifUInt64 most;
    ERL_NIF_TERM answer;
    int err;

    (void)argc;
    if (!enif_get_uint64(env, argv[2], &most) ||
        (handle = enter(env, argv[0])) == NULL)
        return enif_make_badarg(env);
    if (!get_query(env, handle->profile, argv[1], &query))
        return leave(handle, enif_make_badarg(env));
    stacks.profile = handle->profile;
    /* The tree without lines has no more nodes than the other one. */
    stacks.node_count = handle->profile->tree.node_count;
    err = fp_aggregate_make(&stacks.groups, handle->profile, &query);
    if (err == 0)
        err = stacks_term(&stacks, most, &answer);
    fp_aggregate_free(&stacks.groups);
    free(stacks.frames);
    return leave(handle,
                 err != 0 ? refusal(env, err, "")
                          : enif_make_tuple2(env, fp_atom(env, "ok"), answer));
}

/* ------------------------------------------------------------------ exports -- */

struct export
{
    ErlNifEnv *env;
    struct fp_profile *profile;
    struct fp_query *queries;
    uint32_t count;
    ERL_NIF_TERM facts; /* of what was written */
};

typedef int exporter(struct export *export, struct fp_output *output);

static int collapsed(struct export *export, struct fp_output *output)
{
    uint64_t total;
    int err =
        fp_export_collapsed(export->profile, export->queries, output, &total);

    put_u64(export->env, &export->facts, "total", total);
    return err;
}

static int perf(struct export *export, struct fp_output *output)
{
    uint64_t samples, moved;
    int err;

    err = fp_export_perf(export->profile, &export->queries->measure, output,
                         &samples, &moved);
    if (err != 0)
        return err;
    put_u64(export->env, &export->facts, "samples", samples);
    put_u64(export->env, &export->facts, "moved", moved);
    return 0;
}

static int speedscope(struct export *export, struct fp_output *output)
{
    return fp_export_speedscope(export->profile, export->queries, export->count,
                                output);
}

static int pprof(struct export *export, struct fp_output *output)
{
    return fp_export_pprof(export->profile, output);
}

static int make_index(struct export *export, struct fp_output *output)
{
    return fp_export_index(export->profile, output, 0);
}

static int packed_index(struct export *export, struct fp_output *output)
{
    return fp_export_index(export->profile, output, 1);
}

static const struct {
    const char *name;
    exporter *run;
    int is_gzip;
} formats[] = {
    {"collapsed", collapsed, 0},   {"perf", perf, 0},
    {"speedscope", speedscope, 0}, {"pprof", pprof, 1},
    {"index", make_index, 0},      {"packed_index", packed_index, 0},
};

static int find_format(ErlNifEnv *env, ERL_NIF_TERM term)
{
    for (int i = 0; i < (int)(sizeof(formats) / sizeof(formats[0])); i++) {
        if (enif_is_identical(term, fp_atom(env, formats[i].name)))
            return i;
    }
    return -1;
}

/* [{Measure, Levels, WithoutLines}], at least one. */
static int get_queries(struct export *export, ERL_NIF_TERM list)
{
    ErlNifEnv *env = export->env;
    ERL_NIF_TERM head;

    while (enif_get_list_cell(env, list, &head, &list)) {
        if (export->count == QUERIES_MOST ||
            !get_query(env, export->profile, head,
                       &export->queries[export->count]))
            return 0;
        export->count++;
    }
    return export->count > 0;
}

static ERL_NIF_TERM run(struct export *export, int format, const char *path)
{
    char why[WHY_BYTES] = "";
    struct fp_output *output;
    uint64_t size;
    int err = fp_output_open(&output, path, formats[format].is_gzip, why,
                             sizeof(why));

    export->facts = enif_make_new_map(export->env);
    if (err == 0) {
        err = formats[format].run(export, output);
        size = fp_output_size(output);
        put_u64(export->env, &export->facts, "bytes", size);
        err = fp_output_close(output, err, why, sizeof(why));
    }
    if (err != 0)
        return refusal(export->env, err, why);
    return enif_make_tuple2(export->env, fp_atom(export->env, "ok"),
                            export->facts);
}

/* (Profile, Format, Path, [{Measure, [Level], WithoutLines}]) ->
 *     {ok, #{bytes, ...}} | {error, {Atom, Text}} */
ERL_NIF_TERM fp_nif_profile_export(ErlNifEnv *env, int argc,
                                   const ERL_NIF_TERM argv[])
{
    struct export export = {.env = env};
    char path[FP_PATH_BYTES];
    int format = find_format(env, argv[1]);
    struct profile_handle *handle;
    ERL_NIF_TERM answer;

    (void)argc;
    if (format < 0 || !fp_get_path(env, argv[2], path) ||
        (handle = enter(env, argv[0])) == NULL)
        return enif_make_badarg(env);
    export.profile = handle->profile;
    export.queries = calloc(QUERIES_MOST, sizeof(*export.queries));
    if (export.queries == NULL)
        answer = refusal(env, FP_ENOMEM, "");
    else if (!get_queries(&export, argv[3]))
        answer = enif_make_badarg(env);
    else
        answer = run(&export, format, path);
    free(export.queries);
    return leave(handle, answer);
}
