/*
 * One item after the other from Erlang's terms into the ring: the counterpart of
 * flame_prof_portable.
 */
#include "agent_nif/portable_items.h"

#include <string.h>

#include "base/error.h"
#include "base/metric.h"
#include "terms/terms.h"

static int get_u32(ErlNifEnv *env, ERL_NIF_TERM term, uint32_t *n)
{
    return enif_get_uint(env, term, n);
}

static int get_text(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_text *text)
{
    ErlNifBinary binary;

    if (!enif_inspect_binary(env, term, &binary))
        return 0;
    *text = (struct fp_text){binary.data, binary.size};
    return 1;
}

static int get_mfa_text(ErlNifEnv *env, ERL_NIF_TERM term,
                        struct fp_mfa_text *mfa)
{
    const ERL_NIF_TERM *part;
    int size;

    memset(mfa, 0, sizeof *mfa);
    if (enif_is_identical(term, fp_atom(env, "none")))
        return 1;
    mfa->is_some = 1;
    return enif_get_tuple(env, term, &size, &part) && size == 3 &&
           get_text(env, part[0], &mfa->module) &&
           get_text(env, part[1], &mfa->function) &&
           get_u32(env, part[2], &mfa->arity);
}

static int take_process(ErlNifEnv *env, struct fp_record_encoder *to,
                        const ERL_NIF_TERM *part)
{
    uint32_t slot, number, serial;
    struct fp_text name;
    struct fp_mfa_text initial, proc_lib;

    return get_u32(env, part[1], &slot) && get_u32(env, part[2], &number) &&
           get_u32(env, part[3], &serial) && get_text(env, part[4], &name) &&
           get_mfa_text(env, part[5], &initial) &&
           get_mfa_text(env, part[6], &proc_lib) &&
           fp_record_encoder_process(to, slot, number, serial, name, &initial,
                                     &proc_lib) != FP_EINVAL;
}

static int take_frame(ErlNifEnv *env, struct fp_record_encoder *to,
                      const ERL_NIF_TERM *part)
{
    uint32_t id, arity, line;
    struct fp_text module, function, file;

    return get_u32(env, part[1], &id) && get_text(env, part[2], &module) &&
           get_text(env, part[3], &function) && get_u32(env, part[4], &arity) &&
           get_u32(env, part[5], &line) && get_text(env, part[6], &file) &&
           fp_record_encoder_frame(to, id, module, function, arity, line,
                                   file) != FP_EINVAL;
}

static int take_stack(ErlNifEnv *env, struct fp_record_encoder *to,
                      const ERL_NIF_TERM *part)
{
    int32_t frame[256];
    ERL_NIF_TERM list = part[2], head;
    uint32_t slot;
    size_t n = 0;

    for (; enif_get_list_cell(env, list, &head, &list); n++)
        if (n == 256 || !enif_get_int(env, head, &frame[n]))
            return 0;
    return get_u32(env, part[1], &slot) &&
           fp_record_encoder_stack(to, slot, frame, n) != FP_EINVAL;
}

static int take_sample(ErlNifEnv *env, struct fp_record_encoder *to,
                       const ERL_NIF_TERM *part)
{
    uint32_t process, stack, status;
    const ERL_NIF_TERM *values;
    int64_t value[FP_METRIC_COUNT];
    int size;

    if (!get_u32(env, part[1], &process) || !get_u32(env, part[2], &stack) ||
        !get_u32(env, part[3], &status) ||
        !enif_get_tuple(env, part[4], &size, &values) ||
        size != FP_METRIC_COUNT)
        return 0;
    for (int i = 0; i < FP_METRIC_COUNT; i++) {
        ErlNifSInt64 n;

        if (!enif_get_int64(env, values[i], &n))
            return 0;
        value[i] = n;
    }
    return fp_record_encoder_sample(to, process, stack, status, value) !=
           FP_EINVAL;
}

static int take_tick(ErlNifEnv *env, struct fp_record_encoder *to,
                     const ERL_NIF_TERM *part)
{
    ErlNifUInt64 missed;
    ErlNifSInt64 time_us;

    return enif_get_uint64(env, part[1], &missed) &&
           enif_get_int64(env, part[2], &time_us) &&
           fp_record_encoder_tick(to, missed, time_us) != FP_EINVAL;
}

static int take_lost(ErlNifEnv *env, struct fp_record_encoder *to,
                     const ERL_NIF_TERM *part)
{
    ErlNifUInt64 ticks, missed, samples;

    if (!enif_get_uint64(env, part[1], &ticks) ||
        !enif_get_uint64(env, part[2], &missed) ||
        !enif_get_uint64(env, part[3], &samples))
        return 0;
    fp_record_encoder_lost(to, ticks, missed, samples);
    return 1;
}

static int take_count(ErlNifEnv *env, struct fp_session *session,
                      const char *kind, const ERL_NIF_TERM *part)
{
    struct fp_counters *stats = fp_session_stats_mutable(session);
    ErlNifUInt64 n;

    if (!enif_get_uint64(env, part[1], &n))
        return 0;
    fp_counters_add(stats, FP_COUNTER_taken, n);
    if (strcmp(kind, "gone") == 0) {
        fp_counters_add(stats, FP_COUNTER_gone, n);
        return 1;
    }
    fp_counters_add(stats, FP_COUNTER_torn, n);
    fp_counters_add(stats, FP_COUNTER_torn_changed, n);
    return 1;
}

static int take_selection(ErlNifEnv *env, struct fp_session *session,
                          const ERL_NIF_TERM *part)
{
    struct fp_counters *stats = fp_session_stats_mutable(session);
    ErlNifUInt64 processes, selected;

    if (!enif_get_uint64(env, part[1], &processes) ||
        !enif_get_uint64(env, part[2], &selected))
        return 0;
    fp_counters_add(stats, FP_COUNTER_selections, 1);
    fp_counters_set(stats, FP_COUNTER_processes, processes);
    fp_counters_set(stats, FP_COUNTER_selected, selected);
    return 1;
}

static int take_cpu(ErlNifEnv *env, struct fp_session *session,
                    const ERL_NIF_TERM *part)
{
    ErlNifUInt64 ns;

    if (!enif_get_uint64(env, part[1], &ns))
        return 0;
    fp_counters_set(fp_session_stats_mutable(session),
                    FP_COUNTER_sampler_cpu_ns, ns);
    return 1;
}

int fp_record_encoder_take(ErlNifEnv *env, struct fp_session *session,
                           struct fp_record_encoder *to, ERL_NIF_TERM item)
{
    const ERL_NIF_TERM *part;
    char kind[16];
    int size;

    if (!enif_get_tuple(env, item, &size, &part) || size < 2 ||
        !enif_get_atom(env, part[0], kind, sizeof kind, ERL_NIF_LATIN1))
        return 0;
    if (strcmp(kind, "sample") == 0 && size == 5)
        return take_sample(env, to, part);
    if (strcmp(kind, "process") == 0 && size == 7)
        return take_process(env, to, part);
    if (strcmp(kind, "frame") == 0 && size == 7)
        return take_frame(env, to, part);
    if (strcmp(kind, "stack") == 0 && size == 3)
        return take_stack(env, to, part);
    if (strcmp(kind, "selection") == 0 && size == 3)
        return take_selection(env, session, part);
    if (strcmp(kind, "cpu") == 0 && size == 2)
        return take_cpu(env, session, part);
    if (strcmp(kind, "tick") == 0 && size == 3)
        return take_tick(env, to, part);
    if (strcmp(kind, "lost") == 0 && size == 4)
        return take_lost(env, to, part);
    if (size == 2 && (strcmp(kind, "gone") == 0 || strcmp(kind, "torn") == 0))
        return take_count(env, session, kind, part);
    return 0;
}
