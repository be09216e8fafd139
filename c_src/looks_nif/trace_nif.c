/* trace_nif.c - the kind `trace' of tracing: events are copied, in bounds, into the rings of
 * tracer/events.h, and read from there by flame_prof_trace.
 *
 * An event in a ring: three words (time, tag, tracee), a word that says which terms follow, and
 * these (terms/term_copy.h). */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "looks_nif/looks.h"
#include "looks_nif/tracer_nif.h"
#include "terms/term_copy.h"
#include "terms/term_words.h"
#include "terms/terms.h"
#include "tracer/events.h"

#define BYTES_MAX 8192u
#define ITEMS_MAX 1000u
#define TAGS_MAX 32u
#define EXCLUDED_MAX 16u
#define FOLLOWS_MAX 2u
#define READ_MAX 1000u
/* Processes that are followed, by hash: one that has lost its place gets it at its next event. */
#define MEMBERS 4096u

/* Of the result of a match specification: a stack, say, of 20 frames, each with the path of a file
 * as a list. */
#define RESULT_BYTES 4096u
static const struct fp_term_copy_limits result_limits = {8, RESULT_BYTES, 256, 0};

enum part { PART_EXTRA = 1, PART_RESULT = 2 };

struct header {
    int64_t time_ns;
    ERL_NIF_TERM tag, tracee;
    uint64_t parts;
};

#define EVENT_MAX                                                                                  \
    (sizeof(struct header) + 2 * (BYTES_MAX + FP_TERM_COPY_SLACK) + RESULT_BYTES +                 \
     FP_TERM_COPY_SLACK + 8u)

struct trace {
    struct fp_events *events;
    struct fp_term_copy_limits limits;
    ERL_NIF_TERM spawn, spawned;
    ERL_NIF_TERM tags[TAGS_MAX], excluded[EXCLUDED_MAX], follows[FOLLOWS_MAX];
    uint32_t tag_count, excluded_count, follow_count;
    int is_following; /* processes are silent until their first event */
    _Atomic uint64_t members[MEMBERS];
};

/* ------------------------------------------------------------------ beginning -- */

static int get_copy_limits(ErlNifEnv *env, ERL_NIF_TERM map, struct fp_term_copy_limits *limits)
{
    return fp_map_get_u32(env, map, "depth", &limits->depth) &&
           fp_map_get_u32(env, map, "bytes", &limits->bytes) &&
           fp_map_get_u32(env, map, "items", &limits->items) &&
           limits->depth <= FP_TERM_COPY_DEPTH_MAX && limits->bytes <= BYTES_MAX &&
           limits->items <= ITEMS_MAX;
}

static int get_words(ErlNifEnv *env, ERL_NIF_TERM map, const char *key, ERL_NIF_TERM *words,
                     uint32_t most, uint32_t *count)
{
    ERL_NIF_TERM list, head;
    ErlNifPid pid;

    if (!fp_map_get(env, map, key, &list))
        return 0;
    for (*count = 0; *count < most && enif_get_list_cell(env, list, &head, &list); (*count)++) {
        if (!enif_is_atom(env, head) && !enif_get_local_pid(env, head, &pid))
            return 0;
        words[*count] = head;
    }
    return enif_is_empty_list(env, list);
}

static int get_config(ErlNifEnv *env, ERL_NIF_TERM map, struct trace *trace,
                      struct fp_events_limits *limits)
{
    uint32_t events = 0, ring_bytes = 0;
    ERL_NIF_TERM following;
    int is_right =
        get_copy_limits(env, map, &trace->limits) &&
        get_words(env, map, "tags", trace->tags, TAGS_MAX, &trace->tag_count) &&
        get_words(env, map, "exclude", trace->excluded, EXCLUDED_MAX, &trace->excluded_count) &&
        get_words(env, map, "follows", trace->follows, FOLLOWS_MAX, &trace->follow_count) &&
        fp_map_get_u32(env, map, "rate", &limits->rate) &&
        fp_map_get_u32(env, map, "burst", &limits->burst) &&
        fp_map_get_u32(env, map, "events", &events) &&
        fp_map_get_u32(env, map, "threads", &limits->threads) &&
        fp_map_get_u32(env, map, "ring_bytes", &ring_bytes) &&
        fp_map_get(env, map, "is_following", &following);

    if (!is_right)
        return FP_EINVAL;
    trace->is_following = fp_is_atom(env, following, "true");
    limits->events_max = events;
    limits->ring_bytes = ring_bytes;
    return 0;
}

static void *trace_create(ErlNifEnv *env, ERL_NIF_TERM config, int *err)
{
    struct trace *trace = enif_alloc(sizeof *trace);
    struct fp_events_limits limits = {0};

    if (trace == NULL) {
        *err = FP_ENOMEM;
        return NULL;
    }
    memset(trace, 0, sizeof *trace);
    trace->spawn = fp_atom(env, "spawn");
    trace->spawned = fp_atom(env, "spawned");
    *err = get_config(env, config, trace, &limits);
    if (*err == 0)
        *err = fp_events_create(&trace->events, &limits);
    if (*err != 0) {
        enif_free(trace);
        return NULL;
    }
    return trace;
}

static void trace_destroy(void *state)
{
    struct trace *trace = state;

    fp_events_destroy(trace->events);
    enif_free(trace);
}

/* ----------------------------------------------------------------- at an event -- */

static _Atomic uint32_t threads;

/* 1 more than the number; 0: it has none yet. */
static FP_THREAD_LOCAL uint32_t own_number;

/* Schedulers have the numbers from 0 on, whatever their kind. Other threads have no ring: they
 * may not copy a term. */
static uint32_t number_of_thread(void)
{
    if (enif_thread_type() == ERL_NIF_THR_UNDEFINED)
        return UINT32_MAX;
    if (own_number == 0)
        own_number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    return own_number - 1;
}

static int has(const ERL_NIF_TERM *words, uint32_t count, ERL_NIF_TERM word)
{
    for (uint32_t i = 0; i < count; i++)
        if (words[i] == word)
            return 1;
    return 0;
}

static _Atomic uint64_t *member(struct trace *trace, ERL_NIF_TERM tracee)
{
    return &trace->members[fp_hash_two((uint64_t)tracee, 0) % MEMBERS];
}

static int is_member(struct trace *trace, ERL_NIF_TERM tracee)
{
    return atomic_load_explicit(member(trace, tracee), memory_order_relaxed) == tracee;
}

/* Of an event that the reader does not get: a process that it names is not followed. */
static void count_missed(struct trace *trace, const struct fp_tracer_event *event)
{
    if (has(trace->follows, trace->follow_count, event->tag))
        fp_events_miss(trace->events, number_of_thread());
}

/* A call is admitted in trace_trace: the VM compares its arguments in between. If no event would be
 * admitted, it is dropped here, so that the VM pushes no frame to trace its return. A silent
 * process has not had its first event: the VM is to look for it. */
static int trace_enabled(void *state, const struct fp_tracer_event *event)
{
    struct trace *trace = state;

    if (has(trace->excluded, trace->excluded_count, event->tracee) ||
        !has(trace->tags, trace->tag_count, event->tag))
        return 0;
    if (event->tag == event->atoms->return_from || event->tag == event->atoms->exception_from)
        return 1;
    if (event->tag != event->atoms->call) {
        if (fp_events_admit(trace->events, number_of_thread(), fp_monotonic_ns(), 0))
            return 1;
        count_missed(trace, event);
        return 0;
    }
    if (trace->is_following && !is_member(trace, event->tracee))
        return 1;
    if (!fp_events_would_drop(trace->events, fp_monotonic_ns()))
        return 1;
    fp_events_drop(trace->events, number_of_thread(), 1);
    return 0;
}

static size_t copy(const struct trace *trace, const struct fp_tracer_event *event,
                   unsigned char *out)
{
    struct fp_term_copy_limits message = trace->limits, extra = trace->limits;
    struct header header = {0, event->tag, event->tracee, 0};
    unsigned char *at = out + sizeof header;
    ERL_NIF_TERM term;

    /* The VM's tuples around the user's terms are whole: {M, F, Args}, {M, F, Arity}, {Class,
     * Reason}. It fits into the least number of bytes. */
    if (event->tag == event->atoms->call)
        message.outer = 2;
    else if (event->tag == trace->spawn || event->tag == trace->spawned)
        extra.outer = 2;
    else if (event->tag == event->atoms->return_from)
        message.outer = 1;
    else if (event->tag == event->atoms->exception_from)
        message.outer = extra.outer = 1;
    at += fp_term_copy(event->env, event->message, &message, at);
    if (enif_get_map_value(event->env, event->options, event->atoms->extra, &term)) {
        header.parts |= PART_EXTRA;
        at += fp_term_copy(event->env, term, &extra, at);
    }
    if (enif_get_map_value(event->env, event->options, event->atoms->match_spec_result, &term)) {
        header.parts |= PART_RESULT;
        at += fp_term_copy(event->env, term, &result_limits, at);
    }
    header.time_ns = fp_monotonic_ns();
    memcpy(out, &header, sizeof header);
    return (size_t)(at - out);
}

static void trace_trace(void *state, const struct fp_tracer_event *event)
{
    struct trace *trace = state;
    unsigned char bytes[EVENT_MAX];
    uint32_t thread = number_of_thread();
    int is_call = event->tag == event->atoms->call;
    int is_return =
        event->tag == event->atoms->return_from || event->tag == event->atoms->exception_from;
    size_t size, padded;
    void *room;

    if (trace->is_following)
        atomic_store_explicit(member(trace, event->tracee), event->tracee, memory_order_relaxed);
    if ((is_call || is_return) &&
        !fp_events_admit(trace->events, thread, fp_monotonic_ns(), is_return))
        return;
    /* Only a scheduler may look into terms. */
    size = thread == UINT32_MAX ? 0 : copy(trace, event, bytes);
    padded = (size + 7) / 8 * 8;
    room = fp_events_reserve(trace->events, thread, padded);
    if (room == NULL) {
        count_missed(trace, event);
        return;
    }
    memset(bytes + size, 0, padded - size);
    memcpy(room, bytes, padded);
    fp_events_commit(trace->events, thread);
}

/* --------------------------------------------------------------------- reading -- */

/* [] or [Term] */
static int get_part(ErlNifEnv *env, int is_there, const unsigned char **at,
                    const unsigned char *end, ERL_NIF_TERM *part)
{
    ERL_NIF_TERM term;

    *part = enif_make_list(env, 0);
    if (!is_there)
        return 0;
    if (fp_term_restore(env, at, end, &term) != 0)
        return -1;
    *part = enif_make_list1(env, term);
    return 0;
}

/* {Ns, Tag, Tracee, Message, [Extra], [Result]} */
static int get_event(ErlNifEnv *env, const unsigned char *bytes, size_t size, ERL_NIF_TERM *event)
{
    const unsigned char *at = bytes + sizeof(struct header), *end = bytes + size;
    ERL_NIF_TERM message, extra, result;
    struct header header;

    memcpy(&header, bytes, sizeof header);
    if (fp_term_restore(env, &at, end, &message) != 0 ||
        get_part(env, (header.parts & PART_EXTRA) != 0, &at, end, &extra) != 0 ||
        get_part(env, (header.parts & PART_RESULT) != 0, &at, end, &result) != 0)
        return -1;
    *event = enif_make_tuple6(env, enif_make_int64(env, header.time_ns), header.tag, header.tracee,
                              message, extra, result);
    return 0;
}

static ERL_NIF_TERM get_counters(ErlNifEnv *env, const struct trace *trace)
{
    ERL_NIF_TERM map = enif_make_new_map(env);
    struct fp_events_counters counters;

    fp_events_count(trace->events, &counters);
    fp_map_put_u64(env, &map, "seen", counters.seen);
    fp_map_put_u64(env, &map, "written", counters.written);
    fp_map_put_u64(env, &map, "dropped", counters.dropped);
    fp_map_put_u64(env, &map, "lost", counters.lost);
    fp_map_put_u64(env, &map, "missed", counters.missed);
    fp_map_put(env, &map, "is_full", fp_boolean(env, fp_events_is_full(trace->events)));
    return map;
}

/* An event of another scheduler may come so late after its time. */
#define LATE_NS INT64_C(2000000)

/* counters -> #{seen, written, dropped, lost, missed, is_full}; {N, all | settled} -> {Now,
 * Events}: the N oldest, the last one first; of `settled', no event is to come that is older. */
static ERL_NIF_TERM trace_read(void *state, ErlNifEnv *env, ERL_NIF_TERM what)
{
    struct trace *trace = state;
    ERL_NIF_TERM list = enif_make_list(env, 0), event;
    int64_t now = fp_monotonic_ns(), until;
    const ERL_NIF_TERM *asked;
    const void *bytes;
    unsigned most;
    size_t size;
    int arity;

    if (fp_is_atom(env, what, "counters"))
        return get_counters(env, trace);
    if (!enif_get_tuple(env, what, &arity, &asked) || arity != 2 ||
        !enif_get_uint(env, asked[0], &most) || most > READ_MAX)
        return enif_make_badarg(env);
    until = fp_is_atom(env, asked[1], "all") ? INT64_MAX : now - LATE_NS;
    for (; most > 0 && (bytes = fp_events_peek(trace->events, until, &size)) != NULL; most--) {
        if (get_event(env, bytes, size, &event) != 0) {
            fp_events_release_lost(trace->events);
            continue;
        }
        list = enif_make_list_cell(env, event, list);
        fp_events_release(trace->events);
    }
    return enif_make_tuple2(env, enif_make_int64(env, now), list);
}

const struct fp_tracer_kind fp_tracer_kind_trace = {
    .name = "trace",
    /* A call whose arguments do not match costs less than a copy, of which there are few. */
    .event_ns = 600,
    .discard_ns = 300,
    .create = trace_create,
    .destroy = trace_destroy,
    .enabled = trace_enabled,
    .trace = trace_trace,
    .read = trace_read,
};
