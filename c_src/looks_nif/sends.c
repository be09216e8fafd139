/* sends.c - an erl_tracer of the trace flag `send`: it finds the receivers of a process's messages.
 *
 * It reads the receiver and never the message, and sends its owner each receiver about once. The VM
 * calls it before every event. After `limit` events, or the owner's exit, it discards them, and
 * returns `remove` the next time that the VM schedules the process, and asks: that bounds its cost.
 *
 * It runs in the process that sends: no lock, no allocation but the message to the owner. */
#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "looks_nif/looks.h"
#include "looks_nif/tracer_nif.h"
#include "terms/terms.h"

/* Receivers sent lately, by hash. A receiver whose place another takes is sent again. */
#define SENT 4096u

struct sends {
    ErlNifPid owner;
    ErlNifMonitor monitor;
    uint64_t limit;
    /* All relaxed: no other memory depends on them. */
    _Atomic uint64_t events;
    _Atomic int is_over;
    _Atomic uint64_t sent[SENT];
};

static void owner_down(ErlNifEnv *env, void *object, ErlNifPid *pid, ErlNifMonitor *monitor)
{
    struct sends *sends = object;

    (void)env;
    (void)pid;
    (void)monitor;
    atomic_store_explicit(&sends->is_over, 1, memory_order_relaxed);
}

const ErlNifResourceTypeInit fp_sends_type_init = {.down = owner_down};

static struct sends *get_sends(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return fp_get_object(env, term, fp_looks(env)->sends_type);
}

/* (MaxEvents) -> Tracer state; the caller is the owner. */
ERL_NIF_TERM fp_nif_sends_open(FP_NIF_ARGS)
{
    struct sends *sends;
    ErlNifUInt64 limit;
    ERL_NIF_TERM ref;

    if (!enif_get_uint64(env, argv[0], &limit))
        return enif_make_badarg(env);
    sends = enif_alloc_resource(fp_looks(env)->sends_type, sizeof *sends);
    memset(sends, 0, sizeof *sends);
    sends->limit = limit;
    enif_self(env, &sends->owner);
    ref = enif_make_resource(env, sends);
    enif_monitor_process(env, sends, &sends->owner, &sends->monitor);
    enif_release_resource(sends);
    return ref;
}

/* (State) -> Events so far. */
ERL_NIF_TERM fp_nif_sends_seen(FP_NIF_ARGS)
{
    struct sends *sends = get_sends(env, argv[0]);

    if (sends == NULL)
        return enif_make_badarg(env);
    return enif_make_uint64(env, atomic_load_explicit(&sends->events, memory_order_relaxed));
}

/* (State) -> ok: the VM stops tracing each process the next time that it is scheduled. */
ERL_NIF_TERM fp_nif_sends_end(FP_NIF_ARGS)
{
    struct sends *sends = get_sends(env, argv[0]);

    if (sends == NULL)
        return enif_make_badarg(env);
    atomic_store_explicit(&sends->is_over, 1, memory_order_relaxed);
    return fp_atom(env, "ok");
}

/* ------------------------------------------------------------ erl_tracer -- */

ERL_NIF_TERM fp_sends_enabled(ErlNifEnv *env, const ERL_NIF_TERM argv[3])
{
    const struct fp_sends_atoms *atoms = &fp_looks(env)->sends_atoms;
    struct sends *sends = get_sends(env, argv[1]);

    int is_over = sends == NULL || atomic_load_explicit(&sends->is_over, memory_order_relaxed);

    /* Only this question may be answered `remove'. */
    if (enif_is_identical(argv[0], atoms->trace_status))
        return is_over ? atoms->remove : atoms->trace;
    return !is_over && enif_is_identical(argv[0], atoms->send) ? atoms->trace : atoms->discard;
}

/* {flame_prof_sends, What, Of} to the owner. */
static void notify(ErlNifEnv *env, struct sends *sends, ERL_NIF_TERM what, ERL_NIF_TERM of)
{
    const struct fp_sends_atoms *atoms = &fp_looks(env)->sends_atoms;

    enif_send(env, &sends->owner, NULL, enif_make_tuple3(env, atoms->flame_prof_sends, what, of));
}

static int was_sent(struct sends *sends, ERL_NIF_TERM to)
{
    _Atomic uint64_t *sent = &sends->sent[fp_hash_two((uint64_t)to, 0) % SENT];

    if (atomic_load_explicit(sent, memory_order_relaxed) == to)
        return 1;
    atomic_store_explicit(sent, to, memory_order_relaxed);
    return 0;
}

static void count(ErlNifEnv *env, struct sends *sends)
{
    uint64_t events = atomic_fetch_add_explicit(&sends->events, 1, memory_order_relaxed) + 1;

    if (events < sends->limit)
        return;
    if (atomic_exchange_explicit(&sends->is_over, 1, memory_order_relaxed) == 0)
        notify(env, sends, fp_looks(env)->sends_atoms.over, enif_make_uint64(env, events));
}

/* Local pids and registered names only: ports, aliases and other nodes have no process to profile
 * here. */
ERL_NIF_TERM fp_sends_trace(ErlNifEnv *env, const ERL_NIF_TERM argv[5])
{
    const struct fp_sends_atoms *atoms = &fp_looks(env)->sends_atoms;
    struct sends *sends = get_sends(env, argv[1]);
    ErlNifPid pid;
    ERL_NIF_TERM to;

    if (sends == NULL || !enif_is_identical(argv[0], atoms->send) ||
        !enif_get_map_value(env, argv[4], atoms->extra, &to))
        return atoms->ok;
    count(env, sends);
    if ((enif_is_atom(env, to) || enif_get_local_pid(env, to, &pid)) && !was_sent(sends, to) &&
        !enif_is_identical(to, sends->owner.pid))
        notify(env, sends, argv[2], to);
    return atoms->ok;
}
