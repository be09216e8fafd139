/*
 * profile_nif.c - profiles as handles: files are read in steps, so that no call holds a scheduler
 * for long. Dirty schedulers only.
 */
#include <string.h>

#include "report_nif/report_nif.h"
#include "terms/terms.h"

#define WHY_BYTES 256

static void destroy(void *profile)
{
    fp_profile_destroy(profile);
}

const struct fp_handle_kind fp_profile_kind = {"flame_prof_profile", destroy};

/* ------------------------------------------------------------------ reading -- */

/* MaxMemory -> {ok, Profile} | {error, {Atom, Text}} */
FP_REPORT_NIF(fp_nif_profile_new)
{
    struct fp_profile *profile;
    ErlNifUInt64 limit;
    ERL_NIF_TERM term = 0;

    if (!enif_get_uint64(env, argv[0], &limit))
        return enif_make_badarg(env);
    if (fp_profile_create(&profile, limit) == 0)
        term = fp_handle_new(env, &fp_profile_kind, profile);
    return term == 0 ? fp_report_error(env, FP_ENOMEM, "") : fp_ok(env, term);
}

/* (Profile, Path) -> {ok, BytesOfTheFile} | {error, {Atom, Text}} */
FP_REPORT_NIF(fp_nif_profile_begin)
{
    char path[FP_PATH_BYTES], why[WHY_BYTES] = "";
    struct fp_handle *handle;
    struct fp_source *source;
    uint64_t size = 0;
    int err;

    if (!fp_get_path(env, argv[1], path) ||
        (handle = fp_handle_enter(env, argv[0], &fp_profile_kind)) == NULL)
        return enif_make_badarg(env);
    err = fp_source_open(&source, path, why, sizeof(why));
    if (err == 0) {
        size = fp_source_size(source);
        err = fp_profile_begin(handle->object, source, (struct fp_slice){path, strlen(path)});
    }
    return fp_handle_leave(handle, err != 0 ? fp_report_error(env, err, why)
                                            : fp_ok(env, enif_make_uint64(env, size)));
}

/* (Profile, Bytes) -> {more, BytesOfTheFileRead} | done
 *                   | {error, {Atom, Text}} */
FP_REPORT_NIF(fp_nif_profile_step)
{
    struct fp_handle *handle;
    struct fp_profile *profile;
    ErlNifUInt64 bytes;
    ERL_NIF_TERM answer;
    int more;

    if (!enif_get_uint64(env, argv[1], &bytes) ||
        (handle = fp_handle_enter(env, argv[0], &fp_profile_kind)) == NULL)
        return enif_make_badarg(env);
    profile = handle->object;
    more = fp_profile_step(profile, bytes);
    if (more < 0)
        answer = fp_report_error(env, more, "");
    else if (more == 0)
        answer = fp_atom(env, "done");
    else
        answer =
            enif_make_tuple2(env, fp_atom(env, "more"),
                             enif_make_uint64(env, fp_source_state(profile->source)->bytes_in));
    return fp_handle_leave(handle, answer);
}

/* Profile -> ok: its memory is freed here, on a dirty scheduler; the garbage
 * collector would do it on a normal one. */
FP_REPORT_NIF(fp_nif_profile_close)
{
    struct fp_handle *handle = fp_handle_enter(env, argv[0], &fp_profile_kind);

    return handle == NULL ? enif_make_badarg(env) : fp_handle_close(env, handle);
}

/* -------------------------------------------------------------------- facts -- */

static ERL_NIF_TERM text_of(ErlNifEnv *env, const struct fp_profile *profile, uint32_t id)
{
    return fp_slice_term(env, fp_profile_text(profile, id));
}

static ERL_NIF_TERM files_term(ErlNifEnv *env, const struct fp_profile *profile)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    for (size_t i = profile->file_count; i-- > 0;)
        list = enif_make_list_cell(env, fp_file_map(env, profile, &profile->file[i]), list);
    return list;
}

static ERL_NIF_TERM warnings_term(ErlNifEnv *env, const struct fp_profile *profile)
{
    ERL_NIF_TERM list = enif_make_list(env, 0), path;
    uint64_t count =
        profile->warning_count < FP_WARNINGS_MOST ? profile->warning_count : FP_WARNINGS_MOST;

    while (count-- > 0) {
        const struct fp_warning *one = &profile->warning[count];

        path = text_of(env, profile, profile->file[one->file].path);
        list = enif_make_list_cell(
            env,
            enif_make_tuple3(env, path, enif_make_uint64(env, one->line), fp_text(env, one->what)),
            list);
    }
    return list;
}

static ERL_NIF_TERM events_term(ErlNifEnv *env, const struct fp_profile *profile)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    for (size_t e = profile->event_count; e-- > 0;)
        list = enif_make_list_cell(env, text_of(env, profile, profile->event[e]), list);
    return list;
}

static ERL_NIF_TERM metrics_term(ErlNifEnv *env, const struct fp_profile *profile)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    for (uint32_t m = profile->metric_count; m-- > 0;)
        list = enif_make_list_cell(env, text_of(env, profile, profile->metric[m].name), list);
    return list;
}

#define OF_PROFILE(key, kind, member)                                                              \
    {                                                                                              \
        key, FP_FIELD_##kind, offsetof(struct fp_profile, member)                                  \
    }

/* Profile -> #{...}: see flame_prof_profile:info/1. */
FP_REPORT_NIF(fp_nif_profile_info)
{
    static const struct fp_field fields[] = {
        OF_PROFILE("processes", U64, process_count), OF_PROFILE("frames", U64, tree.frame_count),
        OF_PROFILE("nodes", U64, tree.node_count),   OF_PROFILE("stacks", U64, tree.stack_count),
        OF_PROFILE("texts", U64, strings.count),     OF_PROFILE("memory", U64, budget.used),
        OF_PROFILE("max_memory", U64, budget.limit), OF_PROFILE("first_us", I64, first_us),
        OF_PROFILE("last_us", I64, last_us),         OF_PROFILE("is_ordered", BOOL, is_ordered),
        OF_PROFILE("bad", U64, warning_count),
    };
    struct fp_handle *handle = fp_handle_enter(env, argv[0], &fp_profile_kind);
    const struct fp_profile *profile;
    ERL_NIF_TERM map;

    if (handle == NULL)
        return enif_make_badarg(env);
    profile = handle->object;
    map = fp_fields_map(env, profile, fields, sizeof(fields) / sizeof(fields[0]), profile);
    fp_map_put(env, &map, "samples",
               enif_make_uint64(env, profile->rows.count - profile->own_count));
    fp_map_put(env, &map, "events", events_term(env, profile));
    fp_map_put(env, &map, "metrics", metrics_term(env, profile));
    fp_map_put(env, &map, "files", files_term(env, profile));
    fp_map_put(env, &map, "warnings", warnings_term(env, profile));
    return fp_handle_leave(handle, map);
}

#define OF_PROCESS(kind, member)                                                                   \
    {                                                                                              \
#member, FP_FIELD_##kind, offsetof(struct fp_process, member)                              \
    }

/* (Profile, From, Most) -> [Process], from number From on. */
FP_REPORT_NIF(fp_nif_profile_processes)
{
    static const struct fp_field fields[] = {
        OF_PROCESS(TEXT, comm),         OF_PROCESS(U64, pid),
        OF_PROCESS(U64, tid),           OF_PROCESS(TEXT, erl_pid),
        OF_PROCESS(TEXT, name),         OF_PROCESS(TEXT, label),
        OF_PROCESS(TEXT, initial_call), OF_PROCESS(TEXT, proc_lib_initial_call),
        OF_PROCESS(TEXT, words),        OF_PROCESS(BOOL, is_own),
        OF_PROCESS(U64, samples),       OF_PROCESS(I64, first_us),
        OF_PROCESS(I64, last_us),
    };
    ErlNifUInt64 from, most, to;
    struct fp_handle *handle;
    const struct fp_profile *profile;
    ERL_NIF_TERM list = enif_make_list(env, 0);

    if (!enif_get_uint64(env, argv[1], &from) || !enif_get_uint64(env, argv[2], &most) ||
        (handle = fp_handle_enter(env, argv[0], &fp_profile_kind)) == NULL)
        return enif_make_badarg(env);
    profile = handle->object;
    to = profile->process_count;
    to = from >= to || to - from <= most ? to : from + most;
    while (to-- > from)
        list = enif_make_list_cell(env,
                                   fp_fields_map(env, profile, fields,
                                                 sizeof(fields) / sizeof(fields[0]),
                                                 &profile->process[to]),
                                   list);
    return fp_handle_leave(handle, list);
}
