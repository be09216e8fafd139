/* profile_nif.c - profiles as handles: files are read in steps, so that no call holds a scheduler
 * for long. Dirty schedulers only. */
#include "base/clock.h"
#include "report/thin.h"
#include "report_nif/report_nif.h"

static void destroy(void *profile)
{
    fp_profile_destroy(profile);
}

const struct fp_handle_kind fp_profile_kind = {"flame_prof_profile", destroy};

/* ------------------------------------------------------------------ reading -- */

/* (MaxMemory, first | all | Event) -> {ok, Profile} | {error, {Atom, Text}} */
FP_REPORT_NIF(fp_nif_profile_new)
{
    static const char *const choices[] = {"first", "all", NULL};
    int choice = fp_get_name(env, argv[1], choices);
    struct fp_slice name = FP_SLICE("");
    struct fp_profile *profile;
    ErlNifUInt64 limit;
    ErlNifBinary event;
    ERL_NIF_TERM term = 0;

    if (!enif_get_uint64(env, argv[0], &limit))
        return enif_make_badarg(env);
    if (choice < 0) {
        if (!enif_inspect_binary(env, argv[1], &event))
            return enif_make_badarg(env);
        name = (struct fp_slice){(const char *)event.data, event.size};
        choice = FP_ONE_EVENT;
    }
    if (fp_profile_create(&profile, limit) == 0) {
        if (fp_profile_choose_event(profile, (enum fp_choice)choice, name) == 0)
            term = fp_handle_new(env, &fp_profile_kind, profile);
        else
            fp_profile_destroy(profile);
    }
    return term == 0 ? fp_report_error(env, FP_ENOMEM, "") : fp_ok(env, term);
}

static ERL_NIF_TERM
open_file(ErlNifEnv *env, const ERL_NIF_TERM argv[], struct fp_profile *profile, uint64_t from,
          int (*begin)(struct fp_profile *, struct fp_source *, struct fp_slice))
{
    static const char *const kinds[] = {"whole", "part", NULL};
    char path[FP_PATH_BYTES], why[FP_WHY_BYTES] = "";
    int err, kind = fp_get_name(env, argv[2], kinds);
    struct fp_source *source;
    uint64_t size = 0;

    if (kind < 0 || !fp_get_path(env, argv[1], path))
        return enif_make_badarg(env);
    source = fp_profile_take_source(profile);
    err = source == NULL ? fp_source_open_at(&source, path, from, kind, why, sizeof(why))
                         : fp_source_reopen(source, path, from, kind, why, sizeof(why));
    if (err == 0) {
        size = fp_source_size(source);
        err = begin(profile, source, (struct fp_slice){path, strlen(path)});
    }
    return err != 0 ? fp_report_error(env, err, why) : fp_ok(env, enif_make_uint64(env, size));
}

/* (Profile, Path, whole | part) -> {ok, BytesOfTheFile} | {error, {Atom, Text}} */
FP_HANDLE_NIF(fp_nif_profile_begin, fp_profile_kind)
{
    return open_file(env, argv, object, 0, fp_profile_begin);
}

/* The same for what the last file has behind what was read of it. */
FP_HANDLE_NIF(fp_nif_profile_continue, fp_profile_kind)
{
    struct fp_profile *profile = object;
    size_t files = profile->file_count;
    uint64_t from = files == 0 ? 0 : profile->file[files - 1].source.bytes_in;

    return open_file(env, argv, profile, from, fp_profile_continue);
}

/* (Profile, Bytes) -> {more, BytesOfTheFileRead} | done | {error, {Atom, Text}} */
FP_HANDLE_NIF(fp_nif_profile_step, fp_profile_kind)
{
    struct fp_profile *profile = object;
    uint64_t before = fp_thread_cpu_ns();
    ErlNifUInt64 bytes;
    int more;

    if (!enif_get_uint64(env, argv[1], &bytes))
        return enif_make_badarg(env);
    more = fp_profile_step(profile, bytes);
    profile->cpu_ns += fp_thread_cpu_ns() - before;
    if (more < 0)
        return fp_report_error(env, more, "");
    if (more == 0)
        return fp_atom(env, "done");
    return enif_make_tuple2(env, fp_atom(env, "more"),
                            enif_make_uint64(env, fp_source_state(profile->source)->bytes_in));
}

/* (Profile, IntervalUs) -> ok | {error, {Atom, Text}} */
FP_HANDLE_NIF(fp_nif_profile_thin, fp_profile_kind)
{
    ErlNifSInt64 interval_us;
    int err;

    if (!enif_get_int64(env, argv[1], &interval_us) || interval_us <= 0)
        return enif_make_badarg(env);
    err = fp_profile_thin(object, interval_us);
    return err != 0 ? fp_report_error(env, err, "") : fp_atom(env, "ok");
}

/* Profile -> ok: its memory is freed here, on a dirty scheduler. The garbage collector would free
 * it on a normal one. */
FP_REPORT_NIF(fp_nif_profile_close)
{
    return fp_handle_close(env, argv[0], &fp_profile_kind);
}

/* -------------------------------------------------------------------- facts -- */

typedef ERL_NIF_TERM item_term(ErlNifEnv *env, const struct fp_profile *profile, size_t i);

static ERL_NIF_TERM file_term(ErlNifEnv *env, const struct fp_profile *profile, size_t i)
{
    return fp_file_map(env, profile, &profile->file[i]);
}

static ERL_NIF_TERM warning_term(ErlNifEnv *env, const struct fp_profile *profile, size_t i)
{
    const struct fp_warning *one = &profile->warning[i];
    struct fp_slice path = fp_profile_text(profile, profile->file[one->file].path);

    return enif_make_tuple3(env, fp_slice_term(env, path), enif_make_uint64(env, one->line),
                            fp_text(env, one->what));
}

static ERL_NIF_TERM event_term(ErlNifEnv *env, const struct fp_profile *profile, size_t i)
{
    return fp_slice_term(env, fp_profile_text(profile, profile->event[i]));
}

static ERL_NIF_TERM metric_term(ErlNifEnv *env, const struct fp_profile *profile, size_t i)
{
    return fp_slice_term(env, fp_profile_text(profile, profile->metric[i].name));
}

ERL_NIF_TERM fp_process_term(ErlNifEnv *env, const struct fp_profile *profile, size_t i)
{
    static const struct fp_field fields[] = {
        FP_FIELD("comm", TEXT, fp_process, comm),
        FP_FIELD("pid", U64, fp_process, pid),
        FP_FIELD("tid", U64, fp_process, tid),
        FP_FIELD("erl_pid", TEXT, fp_process, erl_pid),
        FP_FIELD("name", TEXT, fp_process, name),
        FP_FIELD("label", TEXT, fp_process, label),
        FP_FIELD("initial_call", TEXT, fp_process, initial_call),
        FP_FIELD("proc_lib_initial_call", TEXT, fp_process, proc_lib_initial_call),
        FP_FIELD("words", TEXT, fp_process, words),
        FP_FIELD("is_own", BOOL, fp_process, is_own),
        FP_FIELD("samples", U64, fp_process, samples),
        FP_FIELD("first_us", I64, fp_process, first_us),
        FP_FIELD("last_us", I64, fp_process, last_us),
        {NULL},
    };

    return fp_fields_map(env, profile, fields, &profile->process[i]);
}

/* The items from number `from` on, before number `to`. */
static ERL_NIF_TERM list_of(ErlNifEnv *env, const struct fp_profile *profile, item_term *item,
                            size_t from, size_t to)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    while (to > from)
        list = enif_make_list_cell(env, item(env, profile, --to), list);
    return list;
}

/* The metrics of the processes, or those that only the profiler's own samples have. */
static ERL_NIF_TERM metrics_of(ErlNifEnv *env, const struct fp_profile *profile, int is_own)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    for (uint32_t m = profile->metric_count; m-- > 0;) {
        if ((profile->metric[m].samples == 0) == is_own)
            list = enif_make_list_cell(env, metric_term(env, profile, m), list);
    }
    return list;
}

/* Neither the profiler itself nor a scheduler that had nothing to run. */
static uint64_t count_processes(const struct fp_profile *profile)
{
    struct fp_slice scheduler = FP_SLICE("scheduler=");
    uint64_t count = 0;

    for (size_t i = 0; i < profile->process_count; i++) {
        struct fp_slice words = fp_profile_text(profile, profile->process[i].words);
        int is_scheduler =
            words.size > scheduler.size && memcmp(words.at, scheduler.at, scheduler.size) == 0;

        count += !profile->process[i].is_own && !is_scheduler;
    }
    return count;
}

/* The losses of all files: parts that are not in the profile. */
static void put_losses(ErlNifEnv *env, ERL_NIF_TERM *map, const struct fp_profile *profile)
{
    uint64_t bad = 0, damaged = 0, cut_off = 0, lost_text = 0, messages = 0, left_out = 0;

    for (size_t i = 0; i < profile->file_count; i++) {
        const struct fp_file *file = &profile->file[i];

        bad += file->bad;
        damaged += file->source.damaged;
        cut_off += file->source.is_cut_off != 0;
        lost_text += file->source.lost_text;
        messages += file->messages.count;
        left_out += file->left_out;
    }
    fp_map_put_u64(env, map, "bad", bad);
    fp_map_put_u64(env, map, "damaged", damaged);
    fp_map_put_u64(env, map, "cut_off", cut_off);
    fp_map_put_u64(env, map, "lost_text", lost_text);
    fp_map_put_u64(env, map, "perf_messages", messages);
    fp_map_put_u64(env, map, "left_out", left_out);
}

/* The samples of each event in the files, selected or not. */
static ERL_NIF_TERM events_map(ErlNifEnv *env, const struct fp_profile *profile)
{
    ERL_NIF_TERM map = enif_make_new_map(env);

    for (size_t i = 0; i < profile->event_count; i++)
        enif_make_map_put(env, map, event_term(env, profile, i),
                          enif_make_uint64(env, profile->event_samples[i]), &map);
    return map;
}

/* The event whose samples are in the profile; all: those of every one. */
static ERL_NIF_TERM selected_term(ErlNifEnv *env, const struct fp_profile *profile)
{
    if (profile->choice == FP_ALL_EVENTS)
        return fp_atom(env, "all");
    if (profile->choice == FP_FIRST_EVENT && profile->event_count > 0)
        return event_term(env, profile, 0);
    return fp_slice_term(env, fp_profile_text(profile, profile->selected));
}

/* Profile -> #{...}: see flame_prof_profile:info/1. */
FP_HANDLE_NIF(fp_nif_profile_info, fp_profile_kind)
{
    static const struct fp_field fields[] = {
        FP_FIELD("frames", U64, fp_profile, tree.frame_count),
        FP_FIELD("nodes", U64, fp_profile, tree.node_count),
        FP_FIELD("stacks", U64, fp_profile, tree.stack_count),
        FP_FIELD("texts", U64, fp_profile, strings.count),
        FP_FIELD("memory", U64, fp_profile, budget.used),
        FP_FIELD("max_memory", U64, fp_profile, budget.limit),
        FP_FIELD("first_us", I64, fp_profile, first_us),
        FP_FIELD("last_us", I64, fp_profile, last_us),
        FP_FIELD("is_ordered", BOOL, fp_profile, is_ordered),
        {NULL},
    };
    const struct fp_profile *p = object;
    uint64_t warnings = p->warning_count < FP_WARNINGS_MOST ? p->warning_count : FP_WARNINGS_MOST;
    ERL_NIF_TERM map = fp_fields_map(env, p, fields, p);

    put_losses(env, &map, p);
    fp_map_put_u64(env, &map, "samples", p->rows.count - p->own_count);
    fp_map_put(env, &map, "events", list_of(env, p, event_term, 0, p->event_count));
    fp_map_put(env, &map, "event", selected_term(env, p));
    fp_map_put(env, &map, "event_samples", events_map(env, p));
    fp_map_put(env, &map, "periods_differ", fp_boolean(env, p->has_periods));
    fp_map_put(env, &map, "first_sample_us",
               enif_make_int64(env, p->process_us == INT64_MAX ? p->first_us : p->process_us));
    fp_map_put_u64(env, &map, "messages", p->message_rows);
    fp_map_put_u64(env, &map, "traces", p->trace_rows);
    fp_map_put_u64(env, &map, "calls", p->call_rows);
    fp_map_put_u64(env, &map, "processes", count_processes(p));
    fp_map_put(env, &map, "metrics", metrics_of(env, p, 0));
    fp_map_put(env, &map, "own_metrics", metrics_of(env, p, 1));
    fp_map_put(env, &map, "files", list_of(env, p, file_term, 0, p->file_count));
    fp_map_put(env, &map, "warnings", list_of(env, p, warning_term, 0, warnings));
    return map;
}

/* (Profile, From, Most) -> [Process], from number From on. */
FP_HANDLE_NIF(fp_nif_profile_processes, fp_profile_kind)
{
    const struct fp_profile *profile = object;
    ErlNifUInt64 from, most, to = profile->process_count;

    if (!enif_get_uint64(env, argv[1], &from) || !enif_get_uint64(env, argv[2], &most))
        return enif_make_badarg(env);
    if (from < to && to - from > most)
        to = from + most;
    return list_of(env, profile, fp_process_term, from, to);
}
