/* tracer.h - the one tracing of this node: whether it runs, until when, and what it has cost.
 *
 * The VM asks a tracer module at each event that is traced. These functions answer, by the state
 * that the tracer has: its generation and an index, packed in one integer. Of a generation that
 * does not run, every event is discarded: what is still set in the VM then costs a call and has no
 * effect.
 *
 * It stops by itself. Without the heartbeats of its owner, every event is discarded. A budget of
 * CPU time, and of events, is charged at each event; beyond it, the tracing is over.
 *
 * THREADS  enter, leave, is_on: any scheduler, at each event; no lock, no allocation, no system
 *          call (the clocks are the vDSO's). start, wait, reset: one thread at a time, a lock of
 *          the caller. The others: any thread. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/relaxed.h"

/* Of schedulers of all kinds. A thread beyond them discards and counts as lost. */
#define FP_TRACER_LINES 1024u

/* So long after a heartbeat was due, it comes too late. */
#define FP_TRACER_SILENCE_NS INT64_C(1000000000)

#define FP_TRACER_INDEX_BITS 16u

/* A variable of each thread: no thread allocates it when it first asks for it. glibc would in the
 * model that is usual in a library; musl has done so when the library was loaded. */
#ifdef __GLIBC__
#define FP_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define FP_THREAD_LOCAL _Thread_local
#endif

#define FP_TRACER_ENDS(X)                                                                          \
    X(running)                                                                                     \
    X(asked)                                                                                       \
    X(max_events)                                                                                  \
    X(max_events_per_second)                                                                       \
    X(max_cpu_percent)                                                                             \
    X(max_seconds)                                                                                 \
    X(heartbeat)                                                                                   \
    X(broken_invariant) /* base/check.h */

enum fp_tracer_end {
#define FP_TRACER_END(name) FP_TRACER_##name,
    FP_TRACER_ENDS(FP_TRACER_END)
#undef FP_TRACER_END
};

/* 0: no limit. */
struct fp_tracer_limits {
    /* With it the tracing is over, or with up to 31 more for each thread but one. Where it is less
     * than 32 for each thread, it is exact but for those that are at work at that moment. */
    uint64_t events;
    uint64_t events_per_second;
    uint64_t cpu_ns_per_second; /* of all threads together */
    uint64_t seconds;
    /* What is charged: measured, of an average machine. */
    uint32_t event_ns, discard_ns, question_ns, birth_ns;
};

/* One for each thread: no cache line has two writers. */
struct fp_tracer_line {
    _Alignas(128) _Atomic uint64_t inside; /* the generation that the thread works for, or 0 */
    /* All are the thread's own, relaxed. */
    _Atomic uint64_t events, discarded, lost;
    uint64_t uncharged_ns, uncharged_events; /* of `uncharged_of' alone, a generation */
    uint64_t uncharged_of;
    uint64_t random;
    uint32_t batch;
    uint32_t index; /* from 0, in the order in which threads came */
};

struct fp_tracer_counters {
    uint64_t events;            /* that were worked on */
    uint64_t discarded;         /* that the tracing left out */
    uint64_t lost;              /* that it wanted: there was no room, or the heartbeat was late */
    uint64_t broken_invariants; /* the first one ends it */
};

enum fp_tracer_cost {
    FP_TRACER_FREE, /* part of an event that was charged */
    FP_TRACER_DISCARD,
    FP_TRACER_EVENT,
    FP_TRACER_QUESTION, /* a process is scheduled in */
    FP_TRACER_BIRTH,    /* it is about to be born with flags */
};

/* The generation, more than 0, with so long until the first heartbeat; 0: one runs, or was
 * not reset. */
uint64_t fp_tracer_start(const struct fp_tracer_limits *limits, int64_t heartbeat_ns);
/* What ended it, or FP_TRACER_running; with so long until the next one. Of no other generation
 * than the last one. */
enum fp_tracer_end fp_tracer_heartbeat(uint64_t generation, int64_t next_ns);
void fp_tracer_end(uint64_t generation, enum fp_tracer_end why);
/* Of an ended one: 0 when no thread is inside, or FP_ESTATE after a second. */
int fp_tracer_wait(void);
/* After that: another one may start. */
void fp_tracer_reset(void);
/* Since a limit or who asked has ended the last one; 0: it runs. */
int64_t fp_tracer_ended_for_ns(void);
/* It runs without heartbeats: its owner has gone. */
int fp_tracer_is_abandoned(void);

struct fp_tracer_counters fp_tracer_counters(void);
/* How much of what may be spent at once is spent, at the last charge or heartbeat: 0 to 255. */
uint32_t fp_tracer_pressure(void);
const char *fp_tracer_end_name(enum fp_tracer_end why);

int fp_tracer_is_on(uint64_t state);
/* Or its owner may still be about to tell the VM that it has ended. Any thread. */
int fp_tracer_is_open(uint64_t state);
/* NULL: discard. Else leave has to follow, and meanwhile the tracing's memory stays. */
struct fp_tracer_line *fp_tracer_enter(uint64_t state);
/* The same for the end of what was let in: neither limits nor a late heartbeat keep it out. */
struct fp_tracer_line *fp_tracer_enter_end(uint64_t state);
void fp_tracer_leave(struct fp_tracer_line *line, enum fp_tracer_cost cost);

static inline uint64_t fp_tracer_state(uint64_t generation, uint32_t index)
{
    return generation << FP_TRACER_INDEX_BITS | index;
}

static inline uint32_t fp_tracer_index(uint64_t state)
{
    return (uint32_t)(state & ((1u << FP_TRACER_INDEX_BITS) - 1));
}

static inline void fp_tracer_count_lost(struct fp_tracer_line *line)
{
    fp_relaxed_add(&line->lost, 1);
}
