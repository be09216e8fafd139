/* The least kind of tracing, for tests of tracings: it counts events, by calls, returns and others.
 * The test library is that of looks linked with `--wrap=fp_tracer_kind_find`. */
#include "looks_nif/looks.h"
#include "looks_nif/tracer_nif.h"
#include "terms/terms.h"

const struct fp_tracer_kind *__real_fp_tracer_kind_find(ErlNifEnv *env, ERL_NIF_TERM name);
const struct fp_tracer_kind *__wrap_fp_tracer_kind_find(ErlNifEnv *env, ERL_NIF_TERM name);

static const char *const names[] = {"call", "return_from", "exception_from", NULL};

/* Of the one tracing: an event's name, and the rest. */
static _Atomic uint64_t counts[4];

static void *create(ErlNifEnv *env, ERL_NIF_TERM config, int *err)
{
    (void)env;
    (void)config;
    (void)err;
    for (int i = 0; i < 4; i++)
        counts[i] = 0;
    return counts;
}

static void destroy(void *state)
{
    (void)state;
}

/* No collection: to let those in may end a node that has two sessions (erlang/otp#11623). */
static int enabled(void *state, const struct fp_tracer_event *event)
{
    const struct fp_tracer_atoms *atoms = event->atoms;

    (void)state;
    return event->tag != atoms->gc_minor_start && event->tag != atoms->gc_minor_end &&
           event->tag != atoms->gc_major_start && event->tag != atoms->gc_major_end &&
           event->tag != atoms->gc_max_heap_size;
}

static void trace(void *state, const struct fp_tracer_event *event)
{
    const ERL_NIF_TERM tags[] = {event->atoms->call, event->atoms->return_from,
                                 event->atoms->exception_from};
    int i = 0;

    (void)state;
    while (i < 3 && event->tag != tags[i])
        i++;
    counts[i]++;
}

/* #{call, return_from, exception_from} */
static ERL_NIF_TERM read_counts(void *state, ErlNifEnv *env, ERL_NIF_TERM what)
{
    ERL_NIF_TERM map = enif_make_new_map(env);

    (void)state;
    (void)what;
    for (int i = 0; names[i] != NULL; i++)
        fp_map_put_u64(env, &map, names[i], counts[i]);
    return map;
}

const struct fp_tracer_kind *__wrap_fp_tracer_kind_find(ErlNifEnv *env, ERL_NIF_TERM name)
{
    static const struct fp_tracer_kind count = {"count", 450,     170,  0,    0,     create,
                                                destroy, enabled, NULL, NULL, trace, read_counts};

    return fp_is_atom(env, name, count.name) ? &count : __real_fp_tracer_kind_find(env, name);
}
