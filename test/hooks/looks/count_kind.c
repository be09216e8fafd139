/* The least kind of tracing, for tests of tracings: it counts events, by calls, returns and others.
 * The test library is that of looks linked with `--wrap=fp_tracer_kind_find`. */
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "looks_nif/looks.h"
#include "looks_nif/tracer_nif.h"
#include "terms/terms.h"

const struct fp_tracer_kind *__real_fp_tracer_kind_find(ErlNifEnv *env, ERL_NIF_TERM name);
const struct fp_tracer_kind *__wrap_fp_tracer_kind_find(ErlNifEnv *env, ERL_NIF_TERM name);

struct counts {
    _Atomic uint64_t calls, returns, exceptions, others;
};

static void *create(ErlNifEnv *env, ERL_NIF_TERM config, int *err)
{
    struct counts *counts = enif_alloc(sizeof *counts);

    (void)env;
    (void)config;
    if (counts == NULL)
        *err = FP_ENOMEM;
    else
        memset(counts, 0, sizeof *counts);
    return counts;
}

static void destroy(void *state)
{
    enif_free(state);
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
    struct counts *counts = state;
    _Atomic uint64_t *counter = event->tag == event->atoms->call             ? &counts->calls
                                : event->tag == event->atoms->return_from    ? &counts->returns
                                : event->tag == event->atoms->exception_from ? &counts->exceptions
                                                                             : &counts->others;

    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* #{calls, returns, exceptions, others} */
static ERL_NIF_TERM read_counts(void *state, ErlNifEnv *env, ERL_NIF_TERM what)
{
    struct counts *counts = state;
    ERL_NIF_TERM map = enif_make_new_map(env);

    (void)what;
    fp_map_put_u64(env, &map, "calls", counts->calls);
    fp_map_put_u64(env, &map, "returns", counts->returns);
    fp_map_put_u64(env, &map, "exceptions", counts->exceptions);
    fp_map_put_u64(env, &map, "others", counts->others);
    return map;
}

const struct fp_tracer_kind *__wrap_fp_tracer_kind_find(ErlNifEnv *env, ERL_NIF_TERM name)
{
    static const struct fp_tracer_kind count = {
        .name = "count",
        .event_ns = 450,
        .discard_ns = 170,
        .create = create,
        .destroy = destroy,
        .enabled = enabled,
        .trace = trace,
        .read = read_counts,
    };

    return fp_is_atom(env, name, count.name) ? &count : __real_fp_tracer_kind_find(env, name);
}
