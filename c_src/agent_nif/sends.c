/* The receivers of a process' messages, for viral profiling: a tracer (erl_tracer) of the trace
 * flag `send`, instead of a process that gets a copy of every message.
 *
 * The tracer reads the receiver and never the message, and sends its owner each receiver about
 * once. The VM calls it before every event: once its number of events is used up, or its owner has
 * ended, it returns `remove`, and the VM stops tracing that process. So its cost is bounded,
 * whether the owner is busy or dead.
 *
 * The tracer runs in the process that sends: no lock, no allocation but the message to the owner.
 * So its atoms are made once, at load. */
#include <stdatomic.h>
#include <string.h>

#include "agent_nif/library.h"
#include "base/hash.h"
#include "terms/terms.h"

/* Receivers that were told lately, by hash. One that another has replaced is told again. */
#define TOLD 4096u

struct sends {
    ErlNifPid owner;
    ErlNifMonitor monitor;
    uint64_t limit;
    /* All relaxed: figures and hints, nothing is read behind them. */
    _Atomic uint64_t events;
    _Atomic int is_over;
    _Atomic uint64_t told[TOLD];
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
    return fp_get_object(env, term, fp_library(env)->sends_type);
}

/* (MaxEvents) -> Tracer state; the caller is the owner. */
FP_NIF(sends_open)
{
    struct sends *sends;
    ErlNifUInt64 limit;
    ERL_NIF_TERM ref;

    if (!enif_get_uint64(env, argv[0], &limit))
        return enif_make_badarg(env);
    sends = enif_alloc_resource(fp_library(env)->sends_type, sizeof *sends);
    memset(sends, 0, sizeof *sends);
    sends->limit = limit;
    enif_self(env, &sends->owner);
    ref = enif_make_resource(env, sends);
    enif_monitor_process(env, sends, &sends->owner, &sends->monitor);
    enif_release_resource(sends);
    return ref;
}

/* (State) -> Events so far. */
FP_NIF(sends_seen)
{
    struct sends *sends = get_sends(env, argv[0]);

    if (sends == NULL)
        return enif_make_badarg(env);
    return enif_make_uint64(env, atomic_load_explicit(&sends->events, memory_order_relaxed));
}

/* (State) -> ok. Every process that it traces is let go at its next event. */
FP_NIF(sends_end)
{
    struct sends *sends = get_sends(env, argv[0]);

    if (sends == NULL)
        return enif_make_badarg(env);
    atomic_store_explicit(&sends->is_over, 1, memory_order_relaxed);
    return fp_atom(env, "ok");
}

/* ------------------------------------------------------- erl_tracer's part -- */

static const struct fp_sends_atoms *get_atoms(ErlNifEnv *env)
{
    return &fp_library(env)->sends_atoms;
}

/* (Tag, State, Tracee) -> trace | discard | remove */
FP_NIF(enabled)
{
    const struct fp_sends_atoms *atoms = get_atoms(env);
    struct sends *sends = get_sends(env, argv[1]);

    if (sends == NULL || atomic_load_explicit(&sends->is_over, memory_order_relaxed))
        return atoms->remove;
    if (enif_is_identical(argv[0], atoms->send) || enif_is_identical(argv[0], atoms->trace_status))
        return atoms->trace;
    return atoms->discard;
}

/* {flame_prof_sends, What, Of} to the owner. */
static void tell(ErlNifEnv *env, struct sends *sends, ERL_NIF_TERM what, ERL_NIF_TERM of)
{
    const struct fp_sends_atoms *atoms = get_atoms(env);

    enif_send(env, &sends->owner, NULL, enif_make_tuple3(env, atoms->flame_prof_sends, what, of));
}

static int was_told(struct sends *sends, ERL_NIF_TERM to)
{
    uint64_t hash = fp_hash_two((uint64_t)to, 0);
    _Atomic uint64_t *told = &sends->told[hash % TOLD];

    if (atomic_load_explicit(told, memory_order_relaxed) == to)
        return 1;
    atomic_store_explicit(told, to, memory_order_relaxed);
    return 0;
}

static void count(ErlNifEnv *env, struct sends *sends)
{
    uint64_t events = atomic_fetch_add_explicit(&sends->events, 1, memory_order_relaxed) + 1;

    if (events < sends->limit)
        return;
    if (atomic_exchange_explicit(&sends->is_over, 1, memory_order_relaxed) == 0)
        tell(env, sends, get_atoms(env)->over, enif_make_uint64(env, events));
}

/* (send, State, Tracee, Message, #{extra := Receiver}) -> ok. A receiver is a
 * pid of this node or a registered name; ports, references (aliases) and other nodes are not
 * profiled here. */
FP_NIF(trace)
{
    const struct fp_sends_atoms *atoms = get_atoms(env);
    struct sends *sends = get_sends(env, argv[1]);
    ErlNifPid pid;
    ERL_NIF_TERM to;

    if (sends == NULL || !enif_is_identical(argv[0], atoms->send) ||
        !enif_get_map_value(env, argv[4], atoms->extra, &to))
        return atoms->ok;
    count(env, sends);
    if ((enif_is_atom(env, to) || enif_get_local_pid(env, to, &pid)) && !was_told(sends, to) &&
        !enif_is_identical(to, sends->owner.pid))
        tell(env, sends, argv[2], to);
    return atoms->ok;
}
