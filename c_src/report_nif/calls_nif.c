/* calls_nif.c - calls that lasted for several ticks, as terms. Dirty CPU schedulers only. */
#include "report/calls.h"
#include "report_nif/report_nif.h"

ERL_NIF_TERM fp_frames_term(ErlNifEnv *env, const struct fp_profile *profile, uint32_t node)
{
    const struct fp_tree *tree = &profile->tree;
    ERL_NIF_TERM frames[FP_FRAMES_MOST];
    unsigned count = 0;

    for (; node != 0 && count < FP_FRAMES_MOST; node = tree->node[node].parent) {
        const struct fp_frame_ids *frame = &tree->frame[tree->node[node].frame];

        frames[count++] =
            enif_make_tuple2(env, fp_slice_term(env, fp_profile_text(profile, frame->symbol)),
                             fp_slice_term(env, fp_profile_text(profile, frame->dso)));
    }
    return enif_make_list_from_array(env, frames, count);
}

static ERL_NIF_TERM stack_term(ErlNifEnv *env, const struct fp_profile *profile, uint32_t stack)
{
    if (stack == FP_CALL_NONE)
        return fp_atom(env, "none");
    return fp_frames_term(env, profile, profile->tree.stack[stack].node);
}

static ERL_NIF_TERM process_term(ErlNifEnv *env, const struct fp_profile *profile, uint32_t process)
{
    return process == FP_CALL_NONE ? fp_atom(env, "none") : fp_process_term(env, profile, process);
}

/* none, where there is no such sample. */
static ERL_NIF_TERM time_term(ErlNifEnv *env, int64_t time_us)
{
    if (time_us == INT64_MIN || time_us == INT64_MAX)
        return fp_atom(env, "none");
    return enif_make_int64(env, time_us);
}

static ERL_NIF_TERM call_term(ErlNifEnv *env, const struct fp_profile *profile,
                              const struct fp_call *call)
{
    const struct fp_reference *reference = &call->reference;
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "reference",
               enif_make_tuple3(env, enif_make_uint64(env, reference->thread),
                                enif_make_uint64(env, reference->number & UINT32_MAX),
                                enif_make_uint64(env, reference->number >> 32)));
    fp_map_put(env, &map, "caller", process_term(env, profile, call->caller));
    fp_map_put(env, &map, "callee", process_term(env, profile, call->callee));
    fp_map_put(env, &map, "waits_for",
               fp_slice_term(env, fp_profile_text(profile, call->waits_for)));
    fp_map_put(env, &map, "request", fp_slice_term(env, fp_profile_text(profile, call->request)));
    fp_map_put(env, &map, "message", fp_slice_term(env, fp_profile_text(profile, call->message)));
    fp_map_put(env, &map, "of_callee", fp_boolean(env, call->is_of_callee));
    fp_map_put(env, &map, "first_us", enif_make_int64(env, call->first_us));
    fp_map_put(env, &map, "last_us", enif_make_int64(env, call->last_us));
    fp_map_put(env, &map, "before_us", time_term(env, call->before_us));
    fp_map_put(env, &map, "after_us", time_term(env, call->after_us));
    fp_map_put_u64(env, &map, "ticks", call->ticks);
    fp_map_put_u64(env, &map, "served", call->served);
    fp_map_put(env, &map, "caller_stack", stack_term(env, profile, call->caller_stack));
    fp_map_put(env, &map, "callee_stack", stack_term(env, profile, call->callee_stack));
    return map;
}

/* (Profile, Ticks, Most) -> {ok, {Count, TickUs, [Call]}} | {error, {Atom, Text}}: of all calls
 * that were seen at so many ticks the Most longest ones, the longest first */
FP_HANDLE_NIF(fp_nif_profile_calls, fp_profile_kind)
{
    struct fp_profile *profile = object;
    ERL_NIF_TERM list = enif_make_list(env, 0), term;
    ErlNifUInt64 ticks, most;
    struct fp_calls calls;
    int err;

    if (!enif_get_uint64(env, argv[1], &ticks) || !enif_get_uint64(env, argv[2], &most))
        return enif_make_badarg(env);
    err = fp_calls_find(&calls, profile, ticks);
    for (size_t i = most < calls.count ? most : calls.count; i-- > 0 && err == 0;)
        list = enif_make_list_cell(env, call_term(env, profile, &calls.call[i]), list);
    term = enif_make_tuple3(env, enif_make_uint64(env, calls.count),
                            enif_make_int64(env, calls.tick_us), list);
    fp_calls_free(&calls, &profile->budget);
    return err != 0 ? fp_report_error(env, err, "") : fp_ok(env, term);
}
