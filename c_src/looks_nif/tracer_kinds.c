#include "looks_nif/tracer_nif.h"
#include "terms/terms.h"

const struct fp_tracer_kind *fp_tracer_kind_find(ErlNifEnv *env, ERL_NIF_TERM name)
{
    static const struct fp_tracer_kind *const kinds[] = {
        &fp_tracer_kind_allocations,
        &fp_tracer_kind_trace,
        &fp_tracer_kind_latency,
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (fp_is_atom(env, name, kinds[i]->name))
            return kinds[i];
    return NULL;
}
