/*
 * Schedulers register for the capture of what they run: who calls
 * scheduler_register/1 has to run on the scheduler that it names.
 */
#include "../schedulers.h"

#include <string.h>

#include "../core/error.h"
#include "../vm/maps.h"
#include "library.h"
#include "terms.h"

static ERL_NIF_TERM refusal(ErlNifEnv *env, int err, const char *why)
{
    return fp_error(env, enif_make_tuple2(env, fp_atom(env, fp_err_name(err)),
                                          fp_binary(env, why, strlen(why))));
}

/* (Schedulers) -> {ok, Registered} | {error, {Error, Why}} */
ERL_NIF_TERM fp_nif_schedulers_prepare(ErlNifEnv *env, int argc,
                                       const ERL_NIF_TERM argv[])
{
    struct fp_library *library = fp_library(env);
    struct fp_layout *layout = fp_library_layout(library);
    struct fp_ranges ranges;
    char why[160] = "";
    unsigned count;
    int err;

    (void)argc;
    if (!enif_get_uint(env, argv[0], &count))
        return enif_make_badarg(env);
    if (layout == NULL)
        return refusal(env, FP_ESTATE, "the layout has not been found yet");
    err = fp_maps_code(&ranges);
    if (err != 0)
        return refusal(env, err, fp_err_text(err));
    err = fp_schedulers_prepare(layout, &ranges, count, why, sizeof why);
    if (err != 0)
        return refusal(env, err, why);
    return enif_make_tuple2(env, fp_atom(env, "ok"),
                            enif_make_uint(env, fp_schedulers_registered()));
}

/* (Number) -> ok | {error, {Error, Why}}. On the scheduler of that number. */
ERL_NIF_TERM fp_nif_scheduler_register(ErlNifEnv *env, int argc,
                                       const ERL_NIF_TERM argv[])
{
    struct fp_library *library = fp_library(env);
    uint64_t process = fp_own_process(env, &library->peek);
    uint64_t mfa[3] = {fp_atom(env, "flame_prof_nif"),
                       fp_atom(env, "scheduler_register"), 1};
    char why[160] = "";
    unsigned number;
    int err;

    (void)argc;
    if (!enif_get_uint(env, argv[0], &number))
        return enif_make_badarg(env);
    if (process == 0)
        return refusal(env, FP_ELAYOUT, "the own process was not found");
    err = fp_schedulers_register(number, process, mfa, why, sizeof why);
    return err == 0 ? fp_atom(env, "ok") : refusal(env, err, why);
}
