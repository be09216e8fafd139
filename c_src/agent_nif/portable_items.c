/* portable_items.c - a table of the items of flame_prof_portable: the shape of each, and the
 * function that encodes it into the ring. */
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

/* A part of an item, by the letter of its place in the shape. */
union part {
    uint32_t u;
    ErlNifUInt64 c;
    ErlNifSInt64 i;
    struct fp_text t;
    struct fp_mfa_text m;
    ERL_NIF_TERM any; /* 'x' */
};

#define PARTS_MAX 7u

static int get_part(ErlNifEnv *env, ERL_NIF_TERM term, char letter, union part *part)
{
    switch (letter) {
    case 'u':
        return enif_get_uint(env, term, &part->u);
    case 'c':
        return enif_get_uint64(env, term, &part->c);
    case 'i':
        return enif_get_int64(env, term, &part->i);
    case 't':
        return get_text(env, term, &part->t);
    case 'm':
        return get_mfa_text(env, term, &part->m);
    default:
        part->any = term;
        return 1;
    }
}

struct destination {
    ErlNifEnv *env;
    struct fp_record_encoder *encoder;
    struct fp_counters *counters;
};

/* 0 or an error; FP_EINVAL alone makes an item malformed. */
typedef int put_item(const struct destination *to, const union part *part);

static int put_process(const struct destination *to, const union part *part)
{
    return fp_record_encoder_process(to->encoder, part[0].u, part[1].u, part[2].u, part[3].t,
                                     part[6].t, &part[4].m, &part[5].m);
}

static int put_frame(const struct destination *to, const union part *part)
{
    return fp_record_encoder_frame(to->encoder, part[0].u, part[1].t, part[2].t, part[3].u,
                                   part[4].u, part[5].t);
}

static int put_stack(const struct destination *to, const union part *part)
{
    int32_t frame[256];
    ERL_NIF_TERM list = part[1].any, head;
    size_t n = 0;

    for (; enif_get_list_cell(to->env, list, &head, &list); n++)
        if (n == 256 || !enif_get_int(to->env, head, &frame[n]))
            return FP_EINVAL;
    return fp_record_encoder_stack(to->encoder, part[0].u, frame, n);
}

static int put_sample(const struct destination *to, const union part *part)
{
    const ERL_NIF_TERM *values;
    int64_t value[FP_METRIC_COUNT];
    ErlNifSInt64 n;
    int size;

    if (!enif_get_tuple(to->env, part[3].any, &size, &values) || size != FP_METRIC_COUNT)
        return FP_EINVAL;
    for (int i = 0; i < FP_METRIC_COUNT; i++) {
        if (!enif_get_int64(to->env, values[i], &n))
            return FP_EINVAL;
        value[i] = n;
    }
    return fp_record_encoder_sample(to->encoder, part[0].u, part[1].u, part[2].u, value);
}

static int put_tick(const struct destination *to, const union part *part)
{
    return fp_record_encoder_tick(to->encoder, part[0].c, part[1].i, part[2].i);
}

static int put_lost(const struct destination *to, const union part *part)
{
    fp_record_encoder_lost(to->encoder, part[0].c, part[1].c, part[2].c);
    return 0;
}

static int put_exited(const struct destination *to, const union part *part)
{
    fp_counters_add(to->counters, FP_COUNTER_attempted, part[0].c);
    fp_counters_add(to->counters, FP_COUNTER_exited, part[0].c);
    return 0;
}

static int put_inconsistent(const struct destination *to, const union part *part)
{
    fp_counters_add(to->counters, FP_COUNTER_attempted, part[0].c);
    fp_counters_add(to->counters, FP_COUNTER_inconsistent, part[0].c);
    fp_counters_add(to->counters, FP_COUNTER_inconsistent_changed, part[0].c);
    return 0;
}

static int put_selection(const struct destination *to, const union part *part)
{
    fp_counters_add(to->counters, FP_COUNTER_selections, 1);
    fp_counters_set(to->counters, FP_COUNTER_processes, part[0].c);
    fp_counters_set(to->counters, FP_COUNTER_selected, part[1].c);
    fp_counters_set(to->counters, FP_COUNTER_growers, part[2].c);
    return 0;
}

static int put_cpu(const struct destination *to, const union part *part)
{
    fp_counters_set(to->counters, FP_COUNTER_sampler_cpu_ns, part[0].c);
    return 0;
}

/* The most frequent first. */
static const struct {
    const char *name, *shape;
    put_item *put;
} kinds[] = {
    {"sample", "uuux", put_sample}, {"process", "uuutmmt", put_process},
    {"stack", "ux", put_stack},     {"frame", "uttuut", put_frame},
    {"exited", "c", put_exited},    {"inconsistent", "c", put_inconsistent},
    {"tick", "cii", put_tick},      {"selection", "ccc", put_selection},
    {"cpu", "c", put_cpu},          {"lost", "ccc", put_lost},
};

int fp_portable_item_put(ErlNifEnv *env, struct fp_session *session,
                         struct fp_record_encoder *encoder, ERL_NIF_TERM item)
{
    struct destination to = {env, encoder, fp_session_counters(session)};
    const ERL_NIF_TERM *term;
    union part part[PARTS_MAX];
    char name[16];
    size_t kind = 0;
    int size;

    if (!enif_get_tuple(env, item, &size, &term) || size < 2 ||
        !enif_get_atom(env, term[0], name, sizeof name, ERL_NIF_LATIN1))
        return 0;
    while (strcmp(name, kinds[kind].name) != 0)
        if (++kind == sizeof kinds / sizeof *kinds)
            return 0;
    if ((size_t)size != 1 + strlen(kinds[kind].shape))
        return 0;
    for (int i = 0; i < size - 1; i++)
        if (!get_part(env, term[i + 1], kinds[kind].shape[i], &part[i]))
            return 0;
    return kinds[kind].put(&to, part) != FP_EINVAL;
}
