/* collector.h - what a thread knows of the collections that it is told. Of allocations.c and
 * allocation_record.c only. */
#pragma once

#include <stdatomic.h>

#include "base/relaxed.h"
#include "base/ring.h"
#include "erts/fresh.h"
#include "erts/stack.h"
#include "tracer/allocations.h"
#include "tracer/pace.h"
#include "tracer/share.h"
#include "tracer/turns.h"

/* Words of a stack that are copied: the leaf's and the root's end. */
#define LEAF_WORDS 768u
#define ROOT_WORDS 256u

#define COUNTER_ENUM(name) COUNT_##name,
enum { FP_ALLOCATIONS_COUNTERS(COUNTER_ENUM) COUNTERS };

struct collector {
    _Alignas(128) struct fp_ring *ring;
    uint64_t random;
    /* The collection that goes on. */
    uint64_t pid, weight;
    struct fp_fresh fresh;
    double p, guess;
    double share_weight, times; /* times: share_weight, and that of a turn */
    struct fp_turn *turn;       /* NULL: it takes none */
    int64_t start_ns, t_ns;
    uint8_t is_open, is_looked, is_minor, is_dirty;
    /* The last one, when it was minor: a major one may be the rest of it. */
    uint64_t last_pid;
    int64_t last_t_ns;
    struct fp_pace by_time, by_window, by_process;
    struct fp_savings by_turn;
    double usual; /* window */
    uint64_t word[LEAF_WORDS + ROOT_WORDS];
    uint32_t stack_words, leaf_words; /* of them; 0: no stack was read */
    struct fp_stack stack;
    struct fp_ranges code;
    double words, variance;
    double group[FP_SHARE_GROUPS]; /* words of processes with a share_weight of more than 1 */
    /* For readers: the thread alone writes them. */
    _Atomic uint64_t counter[COUNTERS], shown_words, shown_variance;
    _Atomic uint64_t shown_group[FP_SHARE_GROUPS];
};

struct fp_allocations {
    struct fp_allocations_options options;
    struct collector *thread;
    struct fp_collections *collections;
    struct fp_known_process *known;
    struct fp_turns *turns;
    struct fp_share share;
    uint64_t processes; /* when the tracing began */
};

static inline void fp_collector_add(struct collector *thread, unsigned counter, uint64_t n)
{
    fp_relaxed_add(&thread->counter[counter], n);
}
#define COUNT(thread, name, n) fp_collector_add(thread, COUNT_##name, n)

/* Into the ring, or counted as dropped. `after`: of the process, after the collection, or NULL. A
 * thread of its own number. */
void fp_collector_commit(struct fp_allocations *allocations, struct collector *thread,
                         const struct fp_fresh *after, int64_t length, unsigned flags);
/* Why the collection that was looked at began. */
enum fp_gc_cause fp_collector_cause(const struct fp_fresh *fresh);
