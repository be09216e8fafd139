/* trace_nif.c - readable traces, for flame_prof_trace. */
#include <string.h>

#include "agent_nif/library.h"
#include "base/error.h"
#include "terms/term_copy.h"
#include "terms/terms.h"

#define BYTES_MAX 8192u
#define ITEMS_MAX 1000u

static int get_limits(ErlNifEnv *env, ERL_NIF_TERM map, struct fp_term_copy_limits *limits)
{
    return fp_map_get_u32(env, map, "depth", &limits->depth) &&
           fp_map_get_u32(env, map, "bytes", &limits->bytes) &&
           fp_map_get_u32(env, map, "items", &limits->items) &&
           limits->depth <= FP_TERM_COPY_DEPTH_MAX && limits->bytes <= BYTES_MAX &&
           limits->items <= ITEMS_MAX;
}

/* (Term, #{depth, bytes, items}) -> Term, as a trace would show it. */
FP_NIF(trace_term)
{
    struct fp_term_copy_limits limits;
    unsigned char bytes[BYTES_MAX + FP_TERM_COPY_SLACK];
    const unsigned char *at = bytes;
    ERL_NIF_TERM term;
    size_t size;

    if (!get_limits(env, argv[1], &limits))
        return enif_make_badarg(env);
    size = fp_term_copy(env, argv[0], &limits, bytes);
    if (fp_term_restore(env, &at, bytes + size, &term) != 0 || at != bytes + size)
        return fp_error(env, fp_atom(env, fp_err_name(FP_ETORN)));
    return term;
}
