/* allocations.h - which code allocates: an estimate by the collections of garbage.
 *
 * The VM asks the tracer before and after each collection. Then the process stands still, and
 * erts/fresh.h says how many words it has allocated since its last collection: the `window` W of
 * the collection. The stack is that of the code whose next term had no room.
 *
 * To read a window costs two system calls, more than a small collection may cost. So two choices
 * are made at random, one after the other:
 *
 *   look     the collection is looked at with probability p = min(1, t / T + G / L), where t is the
 *            time since the process's last collection, and G the window at the last look at this
 *            process. T and L are kept such that a thread looks at no more than `looks` a second of
 *            its CPU time.
 *            Windows that resemble the one before are looked at in proportion to their words; a
 *            window that is suddenly large has taken long to fill. For the first collection that is
 *            seen of a process, p is 1 as long as such looks are no more than a quarter of all; and
 *            it is 1 after a collection of 1 ms or more, so that long ones have their cause.
 *   sample   a window that was looked at counts for W / p words, and has m samples of M words each:
 *            W / (p * M) rounded to the whole number below or above by chance, such that the
 *            expectation is right. Where m is not 0, the stack is taken, with weight m * M.
 *
 * Processes with many collections of few words are traced in turns: turns.h has what a turn stands
 * for, its weight m. In a turn p is m G / M, 0.05 at least and 1 at most; less, in proportion to
 * the looks that are left, where the turns of this thread have more than `looks` / 2 a second
 * (pace.h). Where only a share of the processes is traced (share.h), each stands for several: m is
 * so many times as much. t and G are then m times as much, too. All of it is known before the
 * collection. W, below, is m times the window.
 *
 * WHY THE WEIGHTS ARE RIGHT. Let F be all that has happened before collection k: p was set by it.
 *
 *   1. m is floor(w / M) + 1 with the probability that is the fraction of w / M, else floor(w / M).
 *      So E[m * M | w] = w.
 *   2. w is W / p with probability p, else 0. So E[w | F, W] = W.
 *
 *   By both, E[weight of k | F, W] = W. For any set S of collections that is told from the past
 *   and the collection itself - those of a stack, of a process - the sum of the weights in S less
 *   the sum of the windows in S is a martingale: its expectation is 0, for every number of
 *   collections, for every program, and although T and L follow the load. Its variance is
 *
 *      sum over S of  W^2 (1 - p) / p  +  p * M^2 * f (1 - f)      f: the fraction of W / (p * M)
 *
 *   The first part is of the looks. W / p is at most L W / G, which is L where windows resemble
 *   each other, and at most r * T for a process that allocates r words a nanosecond. The second
 *   part is of the samples, at most M * W: a share s of n samples has a standard error of at most
 *   sqrt(s (1 - s) / n), half a point at 10,000 samples.
 *
 * THE SUM OF ALL WINDOWS has less noise. Let G be a guess made before collection k, the window of
 * the last look at this process. G + (W - G) / p when looked at, else G, has the expectation W by
 * the same reasoning, and the variance (W - G)^2 (1 - p) / p: next to nothing where windows
 * resemble each other. `words` is the sum of these, and `variance` an estimate of its variance,
 * which is (W - G)^2 (1 - p) / p^2 for each look.
 *
 * WHAT MAY NOT BE CONCLUDED. Each window counts for the stack at its end, not for the code that
 * filled it. Over many windows that is right when an end may lie on any word of what the program
 * allocates: then the code that allocates a share s of the words ends a share s of the windows. A
 * program that fills the same heap with the same words, over and over, has all ends in the same
 * places. flame_prof_allocations tells that from the windows, which then are of few sizes.
 * What a process has allocated since its last collection is in no window when it exits: processes
 * that end before their first collection are not seen at all.
 *
 * Two more things end a window: a stack that grows into the last free words of the heap (a function
 * that calls others ends some windows though it allocates nothing), and fragments. A message, or a
 * term of a BIF that has no room, is put into a fragment, and the collection may come later, in
 * other code: where fragments are a part of the window that matters, that is the cause that is
 * told.
 *
 * A collection may fail: a minor one that finds the old heap too small collects nothing, and a
 * major one follows. Its words are still words since the last collection: its window counts as 0
 * words, here, and is the major one's.
 *
 * THREADS  event: a scheduler, at each event, for its own thread number; no lock, no allocation.
 *          drain: one at a time. The others: any thread. */
#pragma once

#include <stdint.h>

#include "erts/layout.h"
#include "format/record.h"
#include "tracer/collections.h"
#include "tracer/share.h"

enum fp_gc_event { FP_GC_MINOR_START, FP_GC_MINOR_END, FP_GC_MAJOR_START, FP_GC_MAJOR_END };

#define FP_ALLOCATION_LONG 2u     /* it took `long_ns` or more */
#define FP_ALLOCATION_MAJOR 4u    /* the collection was a major one */
#define FP_ALLOCATION_SURVIVED 8u /* `survived` is known: of a minor one */
#define FP_ALLOCATION_WINDOW 16u  /* `window` is known */

struct fp_allocation {
    uint64_t pid;
    uint64_t window, weight; /* words */
    uint64_t survived;       /* words of the window */
    uint64_t live;           /* words of the process before it; 0: not known */
    uint64_t length_ns;      /* 0: no end was seen */
    int64_t end_ns;          /* monotonic time */
    uint16_t flags;
    uint8_t cause;        /* enum fp_gc_cause (record.h) */
    uint8_t message_kind; /* enum fp_message_kind; FP_MESSAGE_unknown: none, or it is not known */
    uint32_t count;
    struct fp_tag message; /* that the process has in work, by its stack: erts/serving.h */
    uint64_t frame[];      /* leaf first, as record.h says */
};

#define FP_ALLOCATION_FRAMES_MAX FP_STACK_FRAMES_MAX

struct fp_allocations_options {
    const struct fp_layout *layout;
    const struct fp_memory *memory; /* for any thread */
    const struct fp_memory *own;    /* of who looks */
    struct fp_live_ranges *code;
    uint32_t threads;
    uint64_t mean_words;
    uint32_t looks;  /* of a thread, a second of its CPU time; half as many more in turns */
    int64_t long_ns; /* 0: no collection is long */
    uint64_t seed;
};

struct fp_allocations;

/* 0, FP_ENOMEM or FP_EINVAL. The memory that the options point to must outlive it. */
int fp_allocations_create(struct fp_allocations **allocations,
                          const struct fp_allocations_options *options);
/* No thread is inside. */
void fp_allocations_destroy(struct fp_allocations *allocations);

/* What happened to `pid`, on this thread; is_dirty: it is no normal scheduler. */
void fp_allocations_event(struct fp_allocations *allocations, uint32_t thread,
                          enum fp_gc_event event, uint64_t pid, int is_dirty);

/* The processes whose flags are to be set, before anything else, in memory that the caller frees.
 * A dirty scheduler's work: some 10 ms for 100,000 processes. 0, FP_ENOMEM or FP_EFAULT. */
int fp_allocations_choose(struct fp_allocations *allocations, uint64_t **pids, uint32_t *count);
/* `pid` is scheduled in, by a normal scheduler. 0: its flag is to go, as its turn is over, and
 * fp_allocations_due() will have it; or it is not of the share any more. */
int fp_allocations_keeps(struct fp_allocations *allocations, uint32_t thread, uint64_t pid);
/* Processes whose flags are to be set before the next call; at most so many, the others then. Some
 * 20 ms after the last call. */
uint32_t fp_allocations_due(struct fp_allocations *allocations, uint64_t *pids, uint32_t most);
/* A process is about to be born with the flag, by this thread. */
void fp_allocations_born(struct fp_allocations *allocations, uint32_t thread);
/* As fp_share_press(), of a pressure of FP_SHARE_PRESSURE or more. */
void fp_allocations_press(struct fp_allocations *allocations, uint32_t pressure);

/* The oldest record of a thread, or NULL. Valid until the release. */
const struct fp_allocation *fp_allocations_peek(struct fp_allocations *allocations,
                                                uint32_t thread);
void fp_allocations_release(struct fp_allocations *allocations, uint32_t thread);

#define FP_ALLOCATIONS_COUNTERS(X)                                                                 \
    X(minor) /* collections that began */                                                          \
    X(major)                                                                                       \
    X(looks)         /* ... that were looked at */                                                 \
    X(failed)        /* minor ones that collected nothing: estimated */                            \
    X(unreadable)    /* ... whose process could not be read */                                     \
    X(collection_ns) /* time of all collections */                                                 \
    X(longest_ns)                                                                                  \
    X(look_ns)       /* time that looking has cost */                                              \
    X(born)          /* processes, with the flag */                                                \
    X(samples)       /* stacks taken */                                                            \
    X(dropped)       /* ... for which there was no room */                                         \
    X(dropped_words) /* ... their weight */                                                        \
    /* Collections by enum fp_gc_cause, in its order: estimated by those that were looked at. */   \
    X(by_unknown)                                                                                  \
    X(by_heap)                                                                                     \
    X(by_fragments)                                                                                \
    X(by_binaries)                                                                                 \
    X(by_other)

struct fp_allocations_counters {
#define FP_ALLOCATIONS_COUNTER(name) uint64_t name;
    FP_ALLOCATIONS_COUNTERS(FP_ALLOCATIONS_COUNTER)
#undef FP_ALLOCATIONS_COUNTER
    double words, variance; /* the sum of all windows */
    uint32_t share;         /* 1 in so many processes is traced */
};

void fp_allocations_count(const struct fp_allocations *allocations,
                          struct fp_allocations_counters *counters);

/* How long collections took. One stands for as many as share.h and turns.h say; those whose end was
 * not seen, and those that are known to have failed, are left out. */
const struct fp_collections *fp_allocations_collections(const struct fp_allocations *allocations);

/* The words that all processes but `except` have allocated since their last collections, of what
 * can be read, and how many processes: what no window has yet. A dirty scheduler's work: some 10 ms
 * for 100,000 processes. 0, FP_ENOMEM or FP_EFAULT. */
int fp_allocations_open_words(const struct fp_layout *layout, const struct fp_memory *memory,
                              uint64_t except, uint64_t *words, uint32_t *processes);
