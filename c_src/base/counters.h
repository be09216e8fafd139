/* counters.h - the counters of a session, readable at any time by any thread.
 *
 * attempted = written + inconsistent + dropped + lost + exited + evicted + pending, where pending
 * samples are in the ring or the writer's memory: 0 once a session has stopped. Files of before
 * 2026-11-22 say taken, torn, gone and expired for attempted, inconsistent, exited and evicted.
 *
 * `written`: the kernel took them in a file that had its name then. `unsaved`: of these, the file
 * was found removed or not synced since.
 *
 * Each counter has one writing thread (named below) and relaxed order: a reader sees each number
 * whole, but not all numbers of one instant. After the threads are joined the numbers are exact. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define FP_COUNTERS_MAP(X)                                                                         \
    /* the engine's thread: the sampler, or the portable engine's process */                       \
    X(ticks)                /* ticks done */                                                       \
    X(missed)               /* ticks whose deadline had passed: not done */                        \
    X(attempted)            /* process-samples begun */                                            \
    X(inconsistent)         /* ... given up: the sum of these four causes: */                      \
    X(inconsistent_changed) /* the process changed during the read */                              \
    X(inconsistent_moved)   /* it had left the scheduler when that was captured */                 \
    X(inconsistent_unfound) /* the capture does not explain its stack */                           \
    X(inconsistent_late)    /* another capture was pending, or none came in time */                \
    X(dropped)              /* ... given up: the ring was full */                                  \
    X(exited)               /* ... given up: the process had exited */                             \
    X(retried)              /* stacks read twice, the first time inconsistent */                   \
    X(stacks)               /* stacks seen that were not in the table */                           \
    X(selections)           /* completed selections of the top N */                                \
    X(selected)             /* processes in the set now */                                         \
    X(growers)              /* ... of which by growth */                                           \
    X(processes)            /* slots in use at the last selection */                               \
    X(sampler_cpu_ns)       /* CPU time of the engine's thread */                                  \
    X(budget_step)          /* governor.h: how much is left out now */                             \
    X(budget_changes)       /* ... and how often that changed */                                   \
    X(select_interval_ms)   /* between selections, as the governor stretches it */                 \
    X(signals)              /* sent to schedulers */                                               \
    X(refused_signals)      /* ... that the kernel did not take: RLIMIT_SIGPENDING */              \
    X(refused_in_a_row)     /* ... since it took one */                                            \
    X(captures)             /* stacks that handlers copied */                                      \
    X(handler_ns)           /* time of the handlers, on the schedulers */                          \
    X(missed_traces)        /* samples without ids: the process changed them before the capture */ \
    X(lost_signal)          /* the captures' signal, while another handler has it */               \
    X(lost_schedulers)      /* whose captures stay pending now */                                  \
    /* the writer's thread */                                                                      \
    X(written)     /* process-samples that the kernel took, for a file */                          \
    X(unsaved)     /* ... in a file removed since, or not synced */                                \
    X(merged)      /* ... of which in the period of another sample */                              \
    X(lost)        /* ... formatted, but the file refused them */                                  \
    X(bytes)       /* of text, for the file */                                                     \
    X(evicted)     /* ... buffered for a trigger that did not fire in time */                      \
    X(own_samples) /* samples of the profiler itself, not in `written` */                          \
    X(flushes)     /* completed flushes */                                                         \
    X(errors)      /* failed file operations */                                                    \
    X(file_bytes)  /* bytes that the files took, compressed or not */                              \
    X(files_begun)                                                                                 \
    X(files_removed)     /* ... finished ones, because they were too old */                        \
    X(files_recovered)   /* ... of dead sessions, finished by this one */                          \
    X(unresolved)        /* frames whose address is in no known function */                        \
    X(broken_invariants) /* base/check.h: the first one ends the session */                        \
    X(recoded)           /* cached functions found replaced by other code */                       \
    X(writer_cpu_ns)     /* CPU time of the writer's thread */                                     \
    X(file_cpu_ns)       /* ... of which inside calls on files */                                  \
    X(compress_cpu_ns)   /* ... and in compression */

enum fp_counter {
#define FP_COUNTERS_ENUM(name) FP_COUNTER_##name,
    FP_COUNTERS_MAP(FP_COUNTERS_ENUM)
#undef FP_COUNTERS_ENUM
        FP_COUNTER_COUNT
};

struct fp_counters {
    _Atomic uint64_t counter[FP_COUNTER_COUNT];
};

/* By the counter's own thread only. */
static inline void fp_counters_add(struct fp_counters *counters, enum fp_counter counter,
                                   uint64_t n)
{
    uint64_t old = atomic_load_explicit(&counters->counter[counter], memory_order_relaxed);
    atomic_store_explicit(&counters->counter[counter], old + n, memory_order_relaxed);
}

static inline void fp_counters_set(struct fp_counters *counters, enum fp_counter counter,
                                   uint64_t n)
{
    atomic_store_explicit(&counters->counter[counter], n, memory_order_relaxed);
}

/* Any thread. */
static inline uint64_t fp_counters_get(const struct fp_counters *counters, enum fp_counter counter)
{
    return atomic_load_explicit(&counters->counter[counter], memory_order_relaxed);
}

const char *fp_counters_name(enum fp_counter counter);
