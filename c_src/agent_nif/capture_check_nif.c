/* capture_check_nif.c - for flame_prof_capture_check: a NIF whose captures are known, and the
 * classes of capture that are off. */
#include <time.h>

#include "agent_nif/agent.h"
#include "base/clock.h"
#include "erts/capture/explain.h"
#include "terms/terms.h"

/* A NIF that is not dirty returns within a millisecond. */
#define SPIN_US_MAX 500u

/* capture_probe(Microseconds) -> ok: spins in this function. */
ERL_NIF_TERM fp_nif_capture_probe(FP_NIF_ARGS)
{
    int64_t until;
    unsigned us;

    if (argc != 1 || !enif_get_uint(env, argv[0], &us) || us > SPIN_US_MAX)
        return enif_make_badarg(env);
    /* A loop of calls is scheduled out as any other loop. */
    enif_consume_timeslice(env, 50);
    until = fp_monotonic_ns() + 1000 * (int64_t)us;
    while (fp_monotonic_ns() < until)
        ;
    return fp_atom(env, "ok");
}

/* captures_off([Class]) -> ok: all other classes are on. */
ERL_NIF_TERM fp_nif_captures_off(FP_NIF_ARGS)
{
    static const char *const names[] = {
#define CLASS_NAME(bit, name, atom) [bit] = (atom),
        FP_CAPTURE_CLASSES(CLASS_NAME)
#undef CLASS_NAME
            NULL};
    ERL_NIF_TERM class, classes = argv[0];
    uint32_t mask = 0;
    int bit;

    while (enif_get_list_cell(env, classes, &class, &classes)) {
        bit = fp_get_name(env, class, names);
        if (bit < 0)
            return enif_make_badarg(env);
        mask |= 1u << bit;
    }
    if (!enif_is_empty_list(env, classes))
        return enif_make_badarg(env);
    atomic_store(&fp_capture_classes_off, mask);
    return fp_atom(env, "ok");
}
