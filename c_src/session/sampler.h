/*
 * sampler.h - the SAMPLER THREAD: looks at every chosen process at every tick.
 *
 * It wakes at absolute deadlines, reads the chosen processes' structures and the stacks of those
 * that moved, asks the schedulers for the stacks of those that run, and puts records into the ring.
 * What a scheduler answers is taken in between two ticks or at the next, as a sample of the tick
 * that asked. After fp_sampler_start() it allocates nothing, takes no lock, does no I/O and calls
 * neither the VM nor libuv; it never waits for anybody.
 */
#ifndef FP_SESSION_SAMPLER_H
#define FP_SESSION_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/maps.h"
#include "base/ring.h"
#include "base/safe_read.h"
#include "base/triple_buffer.h"
#include "cstack/live.h"
#include "erts/layout.h"
#include "session/top_processes.h"

struct fp_sampler;

/* The processes that a tick samples. */
enum fp_mode {
    FP_MODE_PROCESSES, /* the chosen processes, whatever they do */
    FP_MODE_SCHEDULERS /* whatever process each normal scheduler runs */
};

struct fp_sampler_options {
    enum fp_mode mode;
    /* Ask schedulers for the stacks of running processes. They have to be registered before;
     * FP_MODE_SCHEDULERS needs it. */
    int running_stacks;
    int native_frames;                   /* with their C frames */
    struct fp_live_cstack *native;       /* running_stacks */
    _Atomic uint32_t *schedulers_online; /* FP_MODE_SCHEDULERS (relaxed) */
    struct fp_layout layout;             /* copied */
    const struct fp_memory *peek;
    struct fp_live_ranges *code;
    struct fp_ring *ring;
    struct fp_counters *stats;
    int64_t wall_offset_ns; /* Unix time less monotonic time, at the start */
    uint32_t interval_us;
    /* Of one core, for all that profiling does; 0: any. */
    uint32_t cpu_permille;
    struct fp_ranking rule[FP_RANKINGS_MAX];
    uint32_t rules;              /* 0: nobody is chosen */
    uint32_t select_interval_ms; /* between passes of the selection */
    /* Who is looked at whatever the rules say: FP_PINNED_WORDS for each. Taken at each tick. NULL:
     * nobody. */
    struct fp_triple_buffer *wanted;
    /* The pids looked at, after each change. NULL: not to be told. */
    struct fp_triple_buffer *chosen;
    int status;               /* only samples of this status; -1: all */
    const uint64_t *excluded; /* pids never chosen; copied */
    size_t excluded_n;
    /* SAMPLER THREAD, its last act. */
    void (*ended)(void *arg);
    void *arg;
};

/* Highest sum of the rules' `top`, and most in `wanted`: every process that is looked at has a slot
 * (record.h). */
#define FP_TOP_MAX 10000u
#define FP_PINNED_MAX 1024u
/* The pid, the status to sample it in (all ones: any), and whether nobody has named this one: then
 * it may be left out to keep within the budget. */
#define FP_PINNED_WORDS 3u

/* Any thread that may block. All that can fail but the thread: 0, FP_ENOMEM, FP_EINVAL, or
 * FP_ESTATE while the schedulers are being retired. */
int fp_sampler_create(struct fp_sampler **sampler, const struct fp_sampler_options *options);
/* Without a thread, or when it could not be started; NULL is nobody. */
void fp_sampler_destroy(struct fp_sampler *sampler);

/* The thread. 0 or FP_ETHREAD. All signals are blocked in it. */
int fp_sampler_start(struct fp_sampler *sampler);

/* ANY THREAD, never blocks: the thread sees it within 50 ms, and waits another 100 ms at most for
 * what schedulers answer yet. */
void fp_sampler_stop(struct fp_sampler *sampler);

/* A thread that may block, once, after fp_sampler_stop: join and free. */
void fp_sampler_join(struct fp_sampler *sampler);

#endif
