/* sampler.h - the SAMPLER THREAD: samples the selected processes at every tick.
 *
 * It wakes at absolute deadlines, reads the structures of the processes and the stacks of those
 * that moved, requests captures of those on CPU, and puts records into the ring. A capture is
 * handled between two ticks or at the next, as a sample of the tick that requested it. After
 * fp_sampler_start() the thread allocates nothing, takes no lock, does no I/O, calls neither the VM
 * nor libuv, and waits for no other thread. */
#pragma once

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
    FP_MODE_PROCESSES, /* the selected processes, whatever they do */
    FP_MODE_SCHEDULERS /* the process that each normal scheduler runs */
};

struct fp_sampler_options {
    enum fp_mode mode;
    /* Capture the stacks of processes on CPU; the schedulers are registered by then.
     * FP_MODE_SCHEDULERS needs it. */
    int running_stacks;
    int c_frames;                        /* with their C frames */
    int messages;                        /* with what processes have in work, and wait for */
    int otel;                            /* with OpenTelemetry's trace and span (term/otel.h) */
    struct fp_live_cstack *cstack;       /* running_stacks */
    _Atomic uint32_t *schedulers_online; /* FP_MODE_SCHEDULERS (relaxed) */
    struct fp_layout layout;             /* copied */
    const struct fp_memory *memory;
    struct fp_live_ranges *code;
    struct fp_ring *ring;
    struct fp_counters *counters;
    int64_t clock_offset_ns; /* Unix time less monotonic time, at the start */
    uint32_t interval_us;
    uint32_t cpu_permille; /* of one core, for all that profiling does; 0: any */
    struct fp_ranking ranking[FP_RANKINGS_MAX];
    uint32_t rankings;           /* without growers, 0: pinned processes only */
    uint32_t growers;            /* places for processes that grow, at most FP_GROWERS_MAX */
    uint32_t select_interval_ms; /* between passes of the selection */
    /* Processes that are sampled whatever the rankings say: FP_PINNED_WORDS for each. Read at each
     * tick. NULL: none. */
    struct fp_triple_buffer *pinned;
    /* The pids of all targets, after each change. NULL: not published. */
    struct fp_triple_buffer *selected;
    int status;               /* only samples of this status; -1: all */
    const uint64_t *excluded; /* pids never selected; copied */
    size_t excluded_n;
    /* SAMPLER THREAD, its last act. */
    void (*ended)(void *arg);
    void *arg;
};

/* Highest sum of the rankings' `top`, and most in `pinned`: every target has a slot (record.h). */
#define FP_TOP_MAX 10000u
#define FP_PINNED_MAX 1024u
/* The pid; the status to sample it in (all ones: any); 1 where a ranking of Erlang's selected it,
 * and the budget may leave it out. */
#define FP_PINNED_WORDS 3u

/* Any thread that may block. All that can fail but the thread: 0, FP_ENOMEM, FP_EINVAL, or
 * FP_ESTATE during a shutdown of the captures. */
int fp_sampler_create(struct fp_sampler **sampler, const struct fp_sampler_options *options);
/* Without a thread. NULL is nothing. */
void fp_sampler_destroy(struct fp_sampler *sampler);

/* The thread. 0 or FP_ETHREAD. All signals are blocked in it. */
int fp_sampler_start(struct fp_sampler *sampler);

/* ANY THREAD, never blocks: the thread sees it within 50 ms, and waits another 100 ms at most for
 * captures that are pending. */
void fp_sampler_stop(struct fp_sampler *sampler);

/* A thread that may block, once, after fp_sampler_stop: join and free. */
void fp_sampler_join(struct fp_sampler *sampler);
