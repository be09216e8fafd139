/* tracer_nif.c - the VM's tracer callbacks, and the NIFs of flame_prof_tracing, which owns the one
 * tracing that may run. */
#include "looks_nif/tracer_nif.h"

#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "erts/term.h"
#include "looks_nif/looks.h"
#include "terms/terms.h"

/* Set while no callback is inside: before the start, and after the wait. */
static struct {
    const struct fp_tracer_kind *kind; /* NULL: there is none */
    void *state;
    uint64_t generation;
} current;

/* ------------------------------------------------------------ erl_tracer -- */

/* `undefined' is asked of processes to come. Where the answer is not `trace', the VM forgets that
 * new ones are traced; but OTP 27 and later go on to count the session as one that does, and each
 * spawn of the node asks all sessions for ever. The VM removes a tracer on a normal scheduler only.
 */
static int keeps(ErlNifEnv *env, ErlNifUInt64 state, ERL_NIF_TERM tracee)
{
    struct fp_tracer_event event = {.env = env, .tracee = tracee};
    int is_to_come = fp_term_is_atom(tracee), answer = 1;

    if (!fp_tracer_is_on(state))
        return is_to_come && fp_tracer_is_open(state);
    if (enif_thread_type() != ERL_NIF_THR_NORMAL_SCHEDULER)
        return 1;
    event.line = fp_tracer_enter(state);
    if (event.line == NULL)
        return 1;
    if (current.kind->keeps != NULL)
        answer = current.kind->keeps(current.state, &event);
    fp_tracer_leave(event.line, is_to_come ? FP_TRACER_BIRTH : FP_TRACER_QUESTION);
    return is_to_come || answer;
}

static ERL_NIF_TERM enabled(ErlNifEnv *env, ErlNifUInt64 state, const ERL_NIF_TERM argv[])
{
    const struct fp_tracer_atoms *atoms = &fp_looks(env)->tracer_atoms;
    struct fp_tracer_event event;
    int is_wanted;

    /* Only this question may be answered `remove'. */
    if (argv[0] == atoms->trace_status)
        return keeps(env, state, argv[2]) ? atoms->trace : atoms->remove;
    event.line = fp_tracer_enter(state);
    if (event.line == NULL)
        return atoms->discard;
    event.env = env;
    event.atoms = atoms;
    event.index = fp_tracer_index(state);
    event.tag = argv[0];
    event.tracee = argv[2];
    is_wanted = current.kind->enabled(current.state, &event);
    fp_tracer_leave(event.line, is_wanted ? FP_TRACER_EVENT : FP_TRACER_DISCARD);
    return is_wanted ? atoms->trace : atoms->discard;
}

/* (Tag, State, Tracee) -> trace | discard | remove */
ERL_NIF_TERM fp_nif_enabled(FP_NIF_ARGS)
{
    ErlNifUInt64 state;

    if (enif_get_uint64(env, argv[1], &state))
        return enabled(env, state, argv);
    return fp_sends_enabled(env, argv);
}

ERL_NIF_TERM fp_nif_enabled_call(FP_NIF_ARGS)
{
    return fp_nif_enabled(env, argc, argv);
}

ERL_NIF_TERM fp_nif_enabled_garbage_collection(FP_NIF_ARGS)
{
    return fp_nif_enabled(env, argc, argv);
}

/* (Tag, State, Tracee, Message, Options) -> ok */
ERL_NIF_TERM fp_nif_trace(FP_NIF_ARGS)
{
    const struct fp_tracer_atoms *atoms = &fp_looks(env)->tracer_atoms;
    struct fp_tracer_event event;
    ErlNifUInt64 state;

    if (!enif_get_uint64(env, argv[1], &state))
        return fp_sends_trace(env, argv);
    /* A call whose return is missed would be open for ever; the others were let in, and counted, by
     * `enabled' just before. */
    event.line = fp_tracer_enter_end(state);
    if (event.line == NULL)
        return atoms->ok;
    event.env = env;
    event.atoms = atoms;
    event.index = fp_tracer_index(state);
    event.tag = argv[0];
    event.tracee = argv[2];
    event.message = argv[3];
    event.options = argv[4];
    current.kind->trace(current.state, &event);
    fp_tracer_leave(event.line, FP_TRACER_FREE);
    return atoms->ok;
}

/* ------------------------------------------------------------------- owner -- */

/* With tracing_lock. Memory in use by threads that do not leave is never freed. */
static int close_current(void)
{
    int err = fp_tracer_wait();

    if (err != 0)
        return err;
    current.kind->destroy(current.state);
    memset(&current, 0, sizeof current);
    fp_tracer_reset();
    return 0;
}

void fp_tracer_forget(void)
{
    if (current.kind != NULL)
        close_current();
}

static int get_limit(ErlNifEnv *env, ERL_NIF_TERM map, const char *name, uint64_t *limit)
{
    ERL_NIF_TERM value;
    ErlNifUInt64 number;

    if (!fp_map_get(env, map, name, &value) || !enif_get_uint64(env, value, &number))
        return 0;
    *limit = number;
    return 1;
}

/* While the owner sets up what is traced; code may be loaded meanwhile, for seconds. */
#define FIRST_HEARTBEAT_NS INT64_C(10000000000)

static ERL_NIF_TERM open_kind(ErlNifEnv *env, const struct fp_tracer_kind *kind,
                              const struct fp_tracer_limits *limits, ERL_NIF_TERM config)
{
    int err = 0;

    if (current.kind != NULL && (!fp_tracer_is_abandoned() || close_current() != 0))
        return fp_error(env, fp_atom(env, "busy"));
    current.state = kind->create(env, config, &err);
    if (current.state == NULL)
        return fp_result(env, err);
    current.kind = kind;
    current.generation = fp_tracer_start(limits, FIRST_HEARTBEAT_NS);
    return fp_ok(env, enif_make_uint64(env, fp_tracer_state(current.generation, 0)));
}

/* (Kind, #{events, events_per_second, cpu_ns_per_second, seconds}, Config) -> {ok, State} |
 * {error, busy | ...}. 0: no limit. The states of patterns are State + 1 and on. */
ERL_NIF_TERM fp_nif_tracer_open(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    const struct fp_tracer_kind *kind = fp_tracer_kind_find(env, argv[0]);
    struct fp_tracer_limits limits = {0};
    ERL_NIF_TERM answer;

    if (kind == NULL || !get_limit(env, argv[1], "events", &limits.events) ||
        !get_limit(env, argv[1], "events_per_second", &limits.events_per_second) ||
        !get_limit(env, argv[1], "cpu_ns_per_second", &limits.cpu_ns_per_second) ||
        !get_limit(env, argv[1], "seconds", &limits.seconds))
        return enif_make_badarg(env);
    limits.event_ns = kind->event_ns;
    limits.discard_ns = kind->discard_ns;
    limits.question_ns = kind->question_ns;
    limits.birth_ns = kind->birth_ns;
    enif_mutex_lock(library->tracing_lock);
    answer = open_kind(env, kind, &limits, argv[2]);
    enif_mutex_unlock(library->tracing_lock);
    return answer;
}

static int get_generation(ErlNifEnv *env, ERL_NIF_TERM term, uint64_t *generation)
{
    ErlNifUInt64 state;

    if (!enif_get_uint64(env, term, &state))
        return 0;
    *generation = state >> FP_TRACER_INDEX_BITS;
    return 1;
}

/* (State, Milliseconds until the next) -> its pressure, 0 to 255, while it runs | What ended it. */
ERL_NIF_TERM fp_nif_tracer_heartbeat(FP_NIF_ARGS)
{
    enum fp_tracer_end end;
    uint64_t generation;
    unsigned next_ms;

    if (!get_generation(env, argv[0], &generation) || !enif_get_uint(env, argv[1], &next_ms))
        return enif_make_badarg(env);
    end = fp_tracer_heartbeat(generation, (int64_t)next_ms * 1000000);
    if (end == FP_TRACER_running)
        return enif_make_uint(env, fp_tracer_pressure());
    return fp_atom(env, fp_tracer_end_name(end));
}

/* (State) -> ok: every event is discarded from now on. */
ERL_NIF_TERM fp_nif_tracer_end(FP_NIF_ARGS)
{
    uint64_t generation;

    if (!get_generation(env, argv[0], &generation))
        return enif_make_badarg(env);
    fp_tracer_end(generation, FP_TRACER_asked);
    return fp_atom(env, "ok");
}

/* (State) -> #{events, discarded, lost, broken_invariants, broken_invariant, ended_for_ns}, until
 * another one starts. broken_invariant: the first one, a text. ended_for_ns: 0 while it runs. */
ERL_NIF_TERM fp_nif_tracer_counters(FP_NIF_ARGS)
{
    struct fp_tracer_counters counters = fp_tracer_counters();
    char broken[FP_CHECK_ROOM];
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put_u64(env, &map, "events", counters.events);
    fp_map_put_u64(env, &map, "discarded", counters.discarded);
    fp_map_put_u64(env, &map, "lost", counters.lost);
    fp_map_put_u64(env, &map, "broken_invariants", counters.broken_invariants);
    fp_check_print(broken);
    if (counters.broken_invariants > 0)
        fp_map_put(env, &map, "broken_invariant", fp_text(env, broken));
    fp_map_put_u64(env, &map, "ended_for_ns", (uint64_t)fp_tracer_ended_for_ns());
    return map;
}

/* (State, What) -> what the kind answers | {error, bad_state} of one that is closed. */
ERL_NIF_TERM fp_nif_tracer_read(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    uint64_t generation;
    ERL_NIF_TERM answer;

    if (!get_generation(env, argv[0], &generation))
        return enif_make_badarg(env);
    enif_mutex_lock(library->tracing_lock);
    if (current.kind == NULL || current.kind->read == NULL || current.generation != generation)
        answer = fp_result(env, FP_ESTATE);
    else
        answer = current.kind->read(current.state, env, argv[1]);
    enif_mutex_unlock(library->tracing_lock);
    return answer;
}

/* (State) -> [Pid]: their flags are to be set before the next call; none while others read what was
 * measured. */
ERL_NIF_TERM fp_nif_tracer_due(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    ERL_NIF_TERM answer = enif_make_list(env, 0);
    uint64_t generation;

    if (!get_generation(env, argv[0], &generation))
        return enif_make_badarg(env);
    if (enif_mutex_trylock(library->tracing_lock) == 0) {
        if (current.kind != NULL && current.kind->due != NULL && current.generation == generation)
            answer = current.kind->due(current.state, env);
        enif_mutex_unlock(library->tracing_lock);
    }
    return answer;
}

/* (State) -> ok | {error, bad_state}: a thread does not leave; its memory stays, and another
 * tracing is refused. */
ERL_NIF_TERM fp_nif_tracer_close(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    uint64_t generation;
    int err = 0;

    if (!get_generation(env, argv[0], &generation))
        return enif_make_badarg(env);
    enif_mutex_lock(library->tracing_lock);
    if (current.kind != NULL && current.generation == generation)
        err = close_current();
    enif_mutex_unlock(library->tracing_lock);
    return fp_result(env, err);
}
