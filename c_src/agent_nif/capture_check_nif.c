/*
 * capture_check_nif.c - what flame_prof_capture_check needs of the library: a NIF whose captures
 * are known.
 */
#include <time.h>

#include "agent_nif/library.h"
#include "base/clock.h"
#include "terms/terms.h"

/* A NIF that is not dirty returns within a millisecond. */
#define SPIN_US_MAX 500u

/* capture_probe(Microseconds) -> ok: keeps its scheduler busy in this function. */
ERL_NIF_TERM fp_nif_capture_probe(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int64_t until;
    unsigned us;

    if (argc != 1 || !enif_get_uint(env, argv[0], &us) || us > SPIN_US_MAX)
        return enif_make_badarg(env);
    /* So that a loop of calls gives its scheduler back as any other loop does. */
    enif_consume_timeslice(env, 50);
    until = fp_monotonic_ns() + 1000 * (int64_t)us;
    while (fp_monotonic_ns() < until)
        ;
    return fp_atom(env, "ok");
}
