/* One item after the other from Erlang's terms into the ring: the counterpart of
 * flame_prof_portable. */
#include "agent_nif/portable_items.h"

#include <string.h>

#include "base/error.h"
#include "base/metric.h"
#include "terms/terms.h"

static int get_text(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_text *text)
{
    ErlNifBinary binary;

    if (!enif_inspect_binary(env, term, &binary))
        return 0;
    *text = (struct fp_text){binary.data, binary.size};
    return 1;
}

static int get_mfa_text(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_mfa_text *mfa)
{
    const ERL_NIF_TERM *part;
    int size;

    memset(mfa, 0, sizeof *mfa);
    if (fp_is_atom(env, term, "none"))
        return 1;
    mfa->is_some = 1;
    return enif_get_tuple(env, term, &size, &part) && size == 3 &&
           get_text(env, part[0], &mfa->module) && get_text(env, part[1], &mfa->function) &&
           enif_get_uint(env, part[2], &mfa->arity);
}

/* Where an item goes, and its parts. */
struct item {
    ErlNifEnv *env;
    struct fp_record_encoder *to;
    struct fp_counters *counters;
    const ERL_NIF_TERM *part;
};

static int get_number(const struct item *item, int at, uint32_t *n)
{
    return enif_get_uint(item->env, item->part[at], n);
}

static int get_count(const struct item *item, int at, ErlNifUInt64 *n)
{
    return enif_get_uint64(item->env, item->part[at], n);
}

static int take_process(const struct item *item)
{
    uint32_t slot, number, serial;
    struct fp_text name, label;
    struct fp_mfa_text initial, proc_lib;

    return get_number(item, 1, &slot) && get_number(item, 2, &number) &&
           get_number(item, 3, &serial) && get_text(item->env, item->part[4], &name) &&
           get_mfa_text(item->env, item->part[5], &initial) &&
           get_mfa_text(item->env, item->part[6], &proc_lib) &&
           get_text(item->env, item->part[7], &label) &&
           fp_record_encoder_process(item->to, slot, number, serial, name, label, &initial,
                                     &proc_lib) != FP_EINVAL;
}

static int take_frame(const struct item *item)
{
    uint32_t id, arity, line;
    struct fp_text module, function, file;

    return get_number(item, 1, &id) && get_text(item->env, item->part[2], &module) &&
           get_text(item->env, item->part[3], &function) && get_number(item, 4, &arity) &&
           get_number(item, 5, &line) && get_text(item->env, item->part[6], &file) &&
           fp_record_encoder_frame(item->to, id, module, function, arity, line, file) != FP_EINVAL;
}

static int take_stack(const struct item *item)
{
    int32_t frame[256];
    ERL_NIF_TERM list = item->part[2], head;
    uint32_t slot;
    size_t n = 0;

    for (; enif_get_list_cell(item->env, list, &head, &list); n++)
        if (n == 256 || !enif_get_int(item->env, head, &frame[n]))
            return 0;
    return get_number(item, 1, &slot) &&
           fp_record_encoder_stack(item->to, slot, frame, n) != FP_EINVAL;
}

static int take_sample(const struct item *item)
{
    uint32_t process, stack, status;
    const ERL_NIF_TERM *values;
    int64_t value[FP_METRIC_COUNT];
    int size;

    if (!get_number(item, 1, &process) || !get_number(item, 2, &stack) ||
        !get_number(item, 3, &status) ||
        !enif_get_tuple(item->env, item->part[4], &size, &values) || size != FP_METRIC_COUNT)
        return 0;
    for (int i = 0; i < FP_METRIC_COUNT; i++) {
        ErlNifSInt64 n;

        if (!enif_get_int64(item->env, values[i], &n))
            return 0;
        value[i] = n;
    }
    return fp_record_encoder_sample(item->to, process, stack, status, value) != FP_EINVAL;
}

static int take_tick(const struct item *item)
{
    ErlNifUInt64 missed;
    ErlNifSInt64 time_us, step_us;

    return get_count(item, 1, &missed) && enif_get_int64(item->env, item->part[2], &time_us) &&
           enif_get_int64(item->env, item->part[3], &step_us) &&
           fp_record_encoder_tick(item->to, missed, time_us, step_us) != FP_EINVAL;
}

static int take_lost(const struct item *item)
{
    ErlNifUInt64 ticks, missed, samples;

    if (!get_count(item, 1, &ticks) || !get_count(item, 2, &missed) ||
        !get_count(item, 3, &samples))
        return 0;
    fp_record_encoder_lost(item->to, ticks, missed, samples);
    return 1;
}

static int take_gone(const struct item *item)
{
    ErlNifUInt64 n;

    if (!get_count(item, 1, &n))
        return 0;
    fp_counters_add(item->counters, FP_COUNTER_taken, n);
    fp_counters_add(item->counters, FP_COUNTER_gone, n);
    return 1;
}

static int take_torn(const struct item *item)
{
    ErlNifUInt64 n;

    if (!get_count(item, 1, &n))
        return 0;
    fp_counters_add(item->counters, FP_COUNTER_taken, n);
    fp_counters_add(item->counters, FP_COUNTER_torn, n);
    fp_counters_add(item->counters, FP_COUNTER_torn_changed, n);
    return 1;
}

static int take_selection(const struct item *item)
{
    ErlNifUInt64 processes, selected;

    if (!get_count(item, 1, &processes) || !get_count(item, 2, &selected))
        return 0;
    fp_counters_add(item->counters, FP_COUNTER_selections, 1);
    fp_counters_set(item->counters, FP_COUNTER_processes, processes);
    fp_counters_set(item->counters, FP_COUNTER_selected, selected);
    return 1;
}

static int take_cpu(const struct item *item)
{
    ErlNifUInt64 ns;

    if (!get_count(item, 1, &ns))
        return 0;
    fp_counters_set(item->counters, FP_COUNTER_sampler_cpu_ns, ns);
    return 1;
}

/* The most frequent first. */
static const struct {
    const char *kind;
    int size;
    int (*take)(const struct item *item);
} kinds[] = {
    {"sample", 5, take_sample}, {"process", 8, take_process},     {"stack", 3, take_stack},
    {"frame", 7, take_frame},   {"gone", 2, take_gone},           {"torn", 2, take_torn},
    {"tick", 4, take_tick},     {"selection", 3, take_selection}, {"cpu", 2, take_cpu},
    {"lost", 4, take_lost},
};

int fp_record_encoder_take(ErlNifEnv *env, struct fp_session *session, struct fp_record_encoder *to,
                           ERL_NIF_TERM term)
{
    struct item item = {.env = env, .to = to, .counters = fp_session_counters(session)};
    char kind[16];
    int size;

    if (!enif_get_tuple(env, term, &size, &item.part) || size < 2 ||
        !enif_get_atom(env, item.part[0], kind, sizeof kind, ERL_NIF_LATIN1))
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (size == kinds[i].size && strcmp(kind, kinds[i].kind) == 0)
            return kinds[i].take(&item);
    return 0;
}
