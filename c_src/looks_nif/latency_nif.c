/* latency_nif.c - the kind `latency' of tracings: tracer/latency.h, and its terms.
 *
 * The functions are patterns with `meta', so that the index of an event is the function's number,
 * from 1. Their match specification has {return_trace} or {exception_trace}, and either
 * {message, false}, or {message, {caller}}: then each call that is measured has an event `call'. */
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "looks_nif/looks.h"
#include "looks_nif/tracer_nif.h"
#include "looks_nif/views.h"
#include "terms/term_words.h"
#include "terms/terms.h"
#include "tracer/latency.h"

/* Measured on two cores, with one function, by process and by caller. */
#define EVENT_NS 600
#define DISCARD_NS 170

struct latency {
    struct fp_latency *measured;
    uint32_t functions;
};

/* #{functions, threads, by_caller, by_process} */
static void *create(ErlNifEnv *env, ERL_NIF_TERM term, int *err)
{
    struct fp_latency_config config;
    ERL_NIF_TERM by_caller, by_process;
    struct latency *latency;

    if (!fp_map_get_u32(env, term, "functions", &config.functions) || config.functions == 0 ||
        config.functions > FP_LATENCY_FUNCTIONS ||
        !fp_map_get_u32(env, term, "threads", &config.threads) || config.threads == 0 ||
        config.threads > FP_TRACER_LINES || !fp_map_get(env, term, "by_caller", &by_caller) ||
        !fp_map_get(env, term, "by_process", &by_process)) {
        *err = FP_EINVAL;
        return NULL;
    }
    config.by_caller = fp_is_atom(env, by_caller, "true");
    config.by_process = fp_is_atom(env, by_process, "true");
    *err = FP_ENOMEM;
    latency = enif_alloc(sizeof *latency);
    if (latency == NULL)
        return NULL;
    latency->functions = config.functions;
    latency->measured = fp_latency_create(&config);
    if (latency->measured == NULL) {
        enif_free(latency);
        return NULL;
    }
    *err = 0;
    return latency;
}

static void destroy(void *state)
{
    struct latency *latency = state;

    fp_latency_destroy(latency->measured);
    enif_free(latency);
}

/* ---------------------------------------------------------- at each event -- */

static int enabled(void *state, const struct fp_tracer_event *event)
{
    const struct latency *latency = state;
    uint32_t pressure = fp_tracer_pressure();

    if (event->tag != event->atoms->call || event->index == 0)
        return 0;
    return fp_latency_begin(latency->measured, event->line->index, event->index - 1, event->tracee,
                            pressure, pressure == 0 ? 0 : fp_random(&event->line->random));
}

/* Not a word of an atom. */
static const uint64_t no_caller[3] = {1, 0, 0};

static void called(const struct latency *latency, const struct fp_tracer_event *event)
{
    ERL_NIF_TERM term;
    uint64_t mfa[3];

    if (!enif_get_map_value(event->env, event->options, event->atoms->match_spec_result, &term))
        return;
    fp_latency_caller(latency->measured, event->index - 1, event->tracee,
                      fp_get_mfa(event->env, term, mfa) ? mfa : no_caller);
}

static void trace(void *state, const struct fp_tracer_event *event)
{
    const struct latency *latency = state;
    int is_exception = event->tag == event->atoms->exception_from;

    if (event->index == 0)
        return;
    if (event->tag == event->atoms->call)
        called(latency, event);
    else if (is_exception || event->tag == event->atoms->return_from)
        fp_latency_end(latency->measured, event->line->index, event->index - 1, event->tracee,
                       is_exception);
}

/* ------------------------------------------------------------------ reader -- */

static int lives(void *with, uint64_t word)
{
    ErlNifPid pid;

    return enif_get_local_pid(with, word, &pid) && enif_is_process_alive(with, &pid);
}

static ERL_NIF_TERM make_u64(ErlNifEnv *env, uint64_t value)
{
    return enif_make_uint64(env, value);
}

static ERL_NIF_TERM make_function(ErlNifEnv *env, const struct fp_latency_totals *totals,
                                  uint64_t open)
{
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put_u64(env, &map, "calls", totals->returned.count);
    fp_map_put_u64(env, &map, "total_ns", totals->returned.sum_ns);
    fp_map_put_u64(env, &map, "max_ns", totals->returned.max_ns);
    fp_map_put_u64(env, &map, "own_ns", totals->own_ns);
    fp_map_put_u64(env, &map, "exceptions", totals->exceptions);
    fp_map_put_u64(env, &map, "exceptions_ns", totals->exceptions_ns);
    fp_map_put_u64(env, &map, "left_out", totals->left_out);
    fp_map_put_u64(env, &map, "open", open);
    fp_map_put(env, &map, "histogram", fp_buckets_term(env, &totals->returned));
    return map;
}

static ERL_NIF_TERM make_functions(ErlNifEnv *env, const struct latency *latency, int is_interval)
{
    struct fp_latency_totals totals;
    uint64_t open[FP_LATENCY_FUNCTIONS] = {0};
    ERL_NIF_TERM list = enif_make_list(env, 0);

    fp_latency_open(latency->measured, open);
    for (uint32_t i = latency->functions; i-- > 0;) {
        fp_latency_read(latency->measured, i, &totals);
        if (is_interval)
            fp_latency_interval(latency->measured, i, &totals);
        list = enif_make_list_cell(env, make_function(env, &totals, open[i]), list);
    }
    return list;
}

struct parts {
    ErlNifEnv *env;
    ERL_NIF_TERM list, times;
    int are_callers;
};

static ERL_NIF_TERM make_key(ErlNifEnv *env, const uint64_t key[3], int is_caller)
{
    if (key[0] == 0)
        return fp_atom(env, "other");
    if (!is_caller)
        return key[0];
    if (key[0] == no_caller[0])
        return fp_atom(env, "undefined");
    return enif_make_tuple3(env, key[0], key[1], make_u64(env, key[2]));
}

static void add_part(void *with, const struct fp_latency_part *part)
{
    struct parts *parts = with;
    ErlNifEnv *env = parts->env;
    ERL_NIF_TERM tuple = enif_make_tuple6(env, make_u64(env, part->function + 1),
                                          make_key(env, part->key, parts->are_callers),
                                          make_u64(env, part->calls), make_u64(env, part->total_ns),
                                          make_u64(env, part->own_ns), make_u64(env, part->max_ns));

    parts->list = enif_make_list_cell(env, tuple, parts->list);
}

static void add_bucket(void *with, const struct fp_latency_bucket *bucket)
{
    struct parts *parts = with;
    ErlNifEnv *env = parts->env;
    int is_over = bucket->bucket == FP_HISTOGRAM_BUCKETS;
    ERL_NIF_TERM low =
        make_u64(env, is_over ? FP_HISTOGRAM_END_NS : fp_histogram_low_ns(bucket->bucket));
    ERL_NIF_TERM end =
        is_over ? fp_atom(env, "infinity") : make_u64(env, fp_histogram_end_ns(bucket->bucket));
    ERL_NIF_TERM tuple = enif_make_tuple5(env, make_u64(env, bucket->function + 1),
                                          make_key(env, bucket->key, parts->are_callers), low, end,
                                          make_u64(env, bucket->count));

    parts->times = enif_make_list_cell(env, tuple, parts->times);
}

/* drain() has one `with' for all of its functions. */
static int part_lives(void *with, uint64_t word)
{
    return lives(((struct parts *)with)->env, word);
}

static ERL_NIF_TERM make_lost(ErlNifEnv *env, const struct fp_latency *measured)
{
    struct fp_latency_lost lost = fp_latency_lost(measured);
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put_u64(env, &map, "calls_of_too_many_processes", lost.processes);
    fp_map_put_u64(env, &map, "calls_nested_too_deep", lost.nested);
    fp_map_put_u64(env, &map, "calls_of_too_many_threads", lost.threads);
    fp_map_put_u64(env, &map, "calls_while_the_heartbeat_was_late", fp_tracer_counters().lost);
    fp_map_put_u64(env, &map, "times_by_caller", lost.caller_times);
    fp_map_put_u64(env, &map, "times_by_group", lost.process_times);
    return map;
}

static ERL_NIF_TERM make_parts(ErlNifEnv *env, struct fp_latency *measured)
{
    ERL_NIF_TERM map = enif_make_new_map(env);
    ERL_NIF_TERM none = enif_make_list(env, 0);
    struct parts callers = {env, none, none, 1}, processes = {env, none, none, 0};
    struct fp_latency_reader reader = {add_bucket, add_part, &callers};

    fp_latency_drain_callers(measured, &reader);
    reader.with = &processes;
    fp_latency_drain_processes(measured, &reader, part_lives);
    fp_map_put(env, &map, "callers", callers.list);
    fp_map_put(env, &map, "caller_times", callers.times);
    fp_map_put(env, &map, "processes", processes.list);
    fp_map_put(env, &map, "process_times", processes.times);
    fp_map_put_u64(env, &map, "shift", fp_latency_take_shift(measured));
    fp_map_put(env, &map, "lost", make_lost(env, measured));
    return map;
}

/* (total | interval) -> what functions have since the beginning, or since the last interval: a list
 *     of maps, in the order of their numbers
 * (parts) -> #{callers, caller_times, processes, process_times, shift, lost}, since the last time,
 *     but `lost' since the beginning. A part is {Number, Caller | Pid | other, Calls, TotalNs,
 *     OwnNs, MaxNs}; a time {Number, Caller | Pid | other, LowNs, EndNs | infinity, Count}. */
static ERL_NIF_TERM read_one(void *state, ErlNifEnv *env, ERL_NIF_TERM what)
{
    const struct latency *latency = state;

    fp_latency_sweep(latency->measured, lives, env);
    if (fp_is_atom(env, what, "parts"))
        return make_parts(env, latency->measured);
    return make_functions(env, latency, fp_is_atom(env, what, "interval"));
}

const struct fp_tracer_kind fp_tracer_kind_latency = {
    .name = "latency",
    .event_ns = EVENT_NS,
    .discard_ns = DISCARD_NS,
    .create = create,
    .destroy = destroy,
    .enabled = enabled,
    .trace = trace,
    .read = read_one,
};
