/* latency.h - how long calls of some functions take: histograms, parts by caller and by process.
 *
 * A call is timed from its begin to its return, or to the exception that leaves it. Calls that
 * return are in the histogram; the others are counted apart. Own time is the call's without that of
 * measured functions that it has called.
 *
 * Under pressure one of 2^k calls is measured: a call that is left out costs a random number. A
 * function that has been seen to call itself is not sampled: what is inside of a call that was left
 * out would look like an outermost one.
 *
 * THREADS  begin, caller, end: the thread that runs the process; `thread' is its own number. No
 *          lock, no allocation. read, drain, sweep: one thread at a time, beside the others. */
#pragma once

#include <stdint.h>

#include "base/histogram.h"
#include "tracer/open_calls.h"

#define FP_LATENCY_FUNCTIONS 64u

struct fp_latency_config {
    uint32_t functions; /* 1 to FP_LATENCY_FUNCTIONS */
    uint32_t threads;   /* the numbers of threads are below it */
    int by_caller, by_process;
};

/* Of a function, all threads together. */
struct fp_latency_totals {
    struct fp_histogram_copy returned;
    uint64_t own_ns; /* 0 where one function is measured, here and in parts */
    uint64_t exceptions, exceptions_ns;
    uint64_t left_out; /* calls, by sampling */
};

/* The calls of one caller, or of one process. */
struct fp_latency_part {
    uint32_t function;
    uint64_t key[3]; /* all 0: those for which there was no room */
    uint64_t calls, total_ns, own_ns, max_ns;
};

/* How many calls of a part took that long. */
struct fp_latency_bucket {
    uint32_t function;
    uint64_t key[3];
    size_t bucket; /* FP_HISTOGRAM_BUCKETS: from FP_HISTOGRAM_END_NS on */
    uint64_t count;
};

struct fp_latency_lost {
    uint64_t processes;                   /* calls: too many processes had open ones */
    uint64_t nested;                      /* calls: inside of too many other measured ones */
    uint64_t threads;                     /* calls: of a thread beyond `threads' */
    uint64_t caller_times, process_times; /* in buckets of parts: too many buckets */
};

struct fp_latency;

/* NULL: no memory. */
struct fp_latency *fp_latency_create(const struct fp_latency_config *config);
void fp_latency_destroy(struct fp_latency *latency);

/* 1: the call is measured. */
int fp_latency_begin(struct fp_latency *latency, uint32_t thread, uint32_t function, uint64_t pid,
                     uint32_t pressure, uint64_t random);
/* Of the call that began last. With `by_caller', its time begins here: what the VM has done in
 * between is no time of the call. */
void fp_latency_caller(struct fp_latency *latency, uint32_t function, uint64_t pid,
                       const uint64_t caller[3]);
void fp_latency_end(struct fp_latency *latency, uint32_t thread, uint32_t function, uint64_t pid,
                    int is_exception);

/* Since the beginning. */
void fp_latency_read(const struct fp_latency *latency, uint32_t function,
                     struct fp_latency_totals *totals);
/* Since the last time; `totals' are those of read. */
void fp_latency_interval(struct fp_latency *latency, uint32_t function,
                         struct fp_latency_totals *totals);
/* The greatest k since the last call of this. */
uint32_t fp_latency_take_shift(struct fp_latency *latency);
struct fp_latency_lost fp_latency_lost(const struct fp_latency *latency);
/* Adds to open[0 .. functions). */
void fp_latency_open(const struct fp_latency *latency, uint64_t *open);

/* Calls these with what came since the last time; buckets, of which one may come twice, before the
 * parts. `lives', of a process's key[0]: what did not call and does not live makes room. */
typedef int fp_latency_lives(void *with, uint64_t pid);
struct fp_latency_reader {
    void (*bucket)(void *with, const struct fp_latency_bucket *bucket);
    void (*part)(void *with, const struct fp_latency_part *part);
    void *with;
};
void fp_latency_drain_callers(struct fp_latency *latency, const struct fp_latency_reader *reader);
void fp_latency_drain_processes(struct fp_latency *latency, const struct fp_latency_reader *reader,
                                fp_latency_lives *lives);
/* Open calls of processes that do not live. */
void fp_latency_sweep(struct fp_latency *latency, fp_latency_lives *lives, void *with);
