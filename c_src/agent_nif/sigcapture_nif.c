/* sigcapture_nif.c - schedulers register for captures, and retire. The caller of
 * scheduler_register/1 runs on the scheduler that the call names. */
#include "erts/capture/sigcapture.h"

#include "agent_nif/agent.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/seccomp.h"
#include "erts/code_scan.h"
#include "session/session.h"
#include "terms/terms.h"

/* Aborts a shutdown whose owner has exited, or begins anew. */
static void recover(ErlNifEnv *env)
{
    ErlNifPid owner, self;

    owner.pid = fp_sigcapture_is_shutting_down();
    if (owner.pid != 0 && enif_self(env, &self) != NULL &&
        (owner.pid == self.pid || !enif_is_process_alive(env, &owner)))
        fp_sigcapture_shutdown_abort(owner.pid);
}

/* (Schedulers) -> {ok, Registered} | {error, {Error, Why}} */
ERL_NIF_TERM fp_nif_schedulers_prepare(FP_NIF_ARGS)
{
    struct fp_agent *library = fp_agent(env);
    struct fp_layout *layout = library->vm.layout;
    struct fp_ranges ranges;
    const char *why = "";
    unsigned count;
    int err;

    if (!enif_get_uint(env, argv[0], &count))
        return enif_make_badarg(env);
    if (layout == NULL)
        return fp_error_text(env, FP_ESTATE, "the layout has not been found yet");
    err = fp_code_ranges(&library->vm.memory, &ranges);
    if (err != 0)
        return fp_error_text(env, err, fp_code_ranges_why(err));
    if (!fp_seccomp_allows(FP_CALL_RT_TGSIGQUEUEINFO))
        return fp_error_text(env, FP_EDENIED, "a seccomp filter refuses rt_tgsigqueueinfo");
    recover(env);
    err = fp_sigcapture_prepare(layout, &ranges, count, &why);
    if (err != 0)
        return fp_error_text(env, err, why);
    return fp_ok(env, enif_make_uint(env, fp_sigcapture_registered()));
}

/* (Number) -> ok | {error, {Error, Why}}. On the scheduler of that number. */
ERL_NIF_TERM fp_nif_scheduler_register(FP_NIF_ARGS)
{
    struct fp_agent *library = fp_agent(env);
    /* Memory is open when there is a layout. */
    uint64_t process = library->vm.layout == NULL ? 0 : fp_own_process(env, &library->vm.memory);
    uint64_t mfa[3] = {fp_atom(env, "flame_prof_nif"), fp_atom(env, "scheduler_register"), 1};
    const char *why = "";
    unsigned number;
    int err;

    if (!enif_get_uint(env, argv[0], &number))
        return enif_make_badarg(env);
    if (process == 0)
        return fp_error_text(env, FP_ELAYOUT, "the calling process was not found");
    err = fp_sigcapture_register(number, process, mfa, &why);
    return fp_result_text(env, err, why);
}

/* () -> {ok, [Number]} | {error, {Error, Why}}. Each of these schedulers calls scheduler_retire/1,
 * then the caller calls schedulers_retire_end/0. An error changes nothing. */
ERL_NIF_TERM fp_nif_schedulers_retire_begin(FP_NIF_ARGS)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    ErlNifPid self;
    int err;

    /* A session that has ended is a user until it is closed. */
    fp_session_reap(fp_agent(env));
    recover(env);
    enif_self(env, &self);
    err = fp_sigcapture_shutdown_begin(self.pid);
    if (err == FP_ESTATE)
        return fp_error_text(env, err, "the schedulers are in use");
    if (err != 0)
        return fp_error_text(env, err,
                             "the signal has another handler now, which may call this one");
    for (unsigned at = fp_sigcapture_count(); at-- > 0;)
        if (fp_sigcapture_must_quiesce(at))
            list = enif_make_list_cell(env, enif_make_uint(env, at + 1), list);
    return fp_ok(env, list);
}

/* (Number) -> ok | {error, {Error, Why}}. On the scheduler of that number. */
ERL_NIF_TERM fp_nif_scheduler_retire(FP_NIF_ARGS)
{
    unsigned number;

    if (!enif_get_uint(env, argv[0], &number))
        return enif_make_badarg(env);
    return fp_result_text(env, fp_sigcapture_shutdown_quiesce(number),
                          "that is not the scheduler's thread");
}

/* () -> ok | {error, {Error, Why}}, for the caller of schedulers_retire_begin/0. An error changes
 * nothing. */
ERL_NIF_TERM fp_nif_schedulers_retire_end(FP_NIF_ARGS)
{
    ErlNifPid self;

    enif_self(env, &self);
    return fp_result_text(env, fp_sigcapture_shutdown_end(self.pid),
                          "a scheduler has not called scheduler_retire/1");
}
