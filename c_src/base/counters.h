/*
 * counters.h - the counters of a session, readable at any time by any thread.
 *
 * taken = written + torn + dropped + lost + gone + expired + pending, where pending samples are in
 * the ring or the writer's memory: 0 once a session has stopped.
 *
 * `written` samples were handed to the kernel in a file that had its name then; `unsaved` are those
 * of them that the session has since seen to be lost.
 *
 * Every counter has one writing thread (named here) and is stored with relaxed order: a reader sees
 * each number whole, but not all numbers of one instant. After the threads are joined they are
 * exact.
 */
#ifndef FP_BASE_COUNTERS_H
#define FP_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#define FP_COUNTERS_MAP(X)                                                                         \
    /* the engine's thread: the sampler, or the portable engine's process */                       \
    X(ticks)              /* ticks done */                                                         \
    X(missed)             /* ticks whose deadline had passed: not done */                          \
    X(taken)              /* process-samples begun */                                              \
    X(torn)               /* ... given up: the sum of these four causes: */                        \
    X(torn_changed)       /* it contradicted itself: it changed meanwhile */                       \
    X(torn_moved)         /* it had left the scheduler when that was captured */                   \
    X(torn_unfound)       /* its stack was not where it should be */                               \
    X(torn_late)          /* another capture was pending on its scheduler, or    \
                       * none came before the end */                 \
    X(dropped)            /* ... given up: the ring was full */                                    \
    X(gone)               /* ... given up: the process had exited */                               \
    X(retried)            /* stacks read twice because the first read was torn */                  \
    X(stacks)             /* stacks seen that were not in the table */                             \
    X(selections)         /* completed choices of the top N */                                     \
    X(selected)           /* processes in the set now */                                           \
    X(processes)          /* processes seen at the last selection */                               \
    X(sampler_cpu_ns)     /* CPU time of the engine's thread */                                    \
    X(budget_step)        /* governor.h: how much is left out now */                               \
    X(budget_changes)     /* ... and how often that was changed */                                 \
    X(select_interval_ms) /* between selections, as stretched by the governor */                   \
    X(signals)            /* sent to schedulers */                                                 \
    X(captures)           /* stacks of running processes taken by their handlers */                \
    X(handler_ns)         /* time that the handlers took, on the schedulers */                     \
    X(lost_signal)        /* the captures' signal, while another handler has it */                 \
    X(lost_schedulers)    /* that do not answer it now */                                          \
    /* the writer's thread */                                                                      \
    X(written)     /* process-samples handed to the kernel, for a file */                          \
    X(unsaved)     /* ... in a file removed meanwhile, or not synced */                            \
    X(merged)      /* ... of which in the period of another sample */                              \
    X(lost)        /* ... formatted, but the file refused them */                                  \
    X(bytes)       /* text bytes handed to the file */                                             \
    X(expired)     /* ... held for a trigger that did not fire in time */                          \
    X(own_samples) /* samples of the profiler itself, not in `written` */                          \
    X(flushes)     /* completed flushes */                                                         \
    X(errors)      /* failed file operations */                                                    \
    X(file_bytes)  /* bytes that the files took, compressed or not */                              \
    X(files_begun)                                                                                 \
    X(files_removed)   /* ... finished ones, because they were too old */                          \
    X(files_recovered) /* ... of dead sessions, finished by this one */                            \
    X(unresolved)      /* frames whose address is in no known function */                          \
    X(recoded)         /* cached functions found replaced by other code */                         \
    X(writer_cpu_ns)   /* CPU time of the writer's thread */                                       \
    X(file_cpu_ns)     /* ... of which inside calls on files */                                    \
    X(compress_cpu_ns) /* ... and in compression */

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

#endif
