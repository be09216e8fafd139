/* writer.h - the WRITER THREAD: drains the ring, formats, flushes.
 *
 * Other threads only post requests; the writer thread reports each by `notify`. */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/ring.h"
#include "format/perf_script.h"
#include "store/sink.h"

struct fp_writer;

enum fp_writer_event {
    FP_WRITER_FLUSHED,
    FP_WRITER_STOPPED,
    FP_WRITER_BROKEN /* an invariant is broken (base/check.h): stop the producer and the writer */
};

struct fp_writer_options {
    struct fp_ring *ring;
    struct fp_counters *counters;
    struct fp_sink *sink; /* the writer's from a successful start on */
    struct fp_perf_script_options script;
    const char *engine;             /* "native", "portable": static */
    const char *mode;               /* "schedulers", or NULL */
    struct fp_gauges_mailbox *node; /* gauges of the node, or NULL */
    int tells_node_alone;           /* the own samples have no counters of samples */
    uint32_t flush_interval_ms;     /* 0: flushed only by request */
    uint32_t node_interval_ms;      /* longest time between two own samples; 0: 5 s */
    const char *note;               /* for the own samples, or "" (perf_script.h); copied */
    const char *about;              /* the same; NULL: none */
    const struct fp_sample_clock *clock;
    /* The clocks are this host's; 0: the portable engine keeps clock->step_us, by those of its
     * node. */
    int reads_clock;
    /* WRITER THREAD. `ticket` is what fp_writer_flush returned, or 0; err is 0, FP_EIO with "path:
     * reason" in `why`, or FP_EBROKEN, with the place of the first in `why` of FP_WRITER_STOPPED;
     * else `why` is "". After FP_WRITER_STOPPED the thread touches only its own stack and what
     * fp_writer_join frees; the file is closed. */
    void (*notify)(void *arg, enum fp_writer_event event, uint64_t ticket, int err,
                   const char *why);
    void *arg;
};

/* Any thread that may block. Everything that can fail but the thread: 0 or FP_ENOMEM. Requests may
 * come from here on. */
int fp_writer_create(struct fp_writer **writer, const struct fp_writer_options *options);
/* Without a thread only; the sink stays the caller's. */
void fp_writer_destroy(struct fp_writer *writer);

/* The thread. 0 or FP_ETHREAD. All signals are blocked in it. */
int fp_writer_start(struct fp_writer *writer);

/* Does what is due, the requests first. The monotonic time of the next step, in milliseconds, if no
 * request comes before; 0 after the last one, which a stop asks for. */
/* For tests. */
int64_t fp_writer_step(struct fp_writer *writer);

/* fp_writer_flush, _follow, _trigger and _stop: ANY THREAD until fp_writer_join. None takes a lock
 * of the writer's or waits for its work. Each but _follow wakes it by pthread_cond_signal, inside
 * of which glibc has a lock that either thread holds for a few instructions. A wake-up between the
 * writer's check of `requests` and its wait is lost: the request then waits for the next drain,
 * 50 ms at most. */

/* Everything in the ring at the time of the call is written before FP_WRITER_FLUSHED comes with the
 * returned ticket (> 0; in order, each before FP_WRITER_STOPPED). 0 after fp_writer_stop: no event
 * comes. */
uint64_t fp_writer_flush(struct fp_writer *writer);

/* A reader follows the file: for the next few seconds the samples reach it each second. */
void fp_writer_follow(struct fp_writer *writer);

/* Writes what the sink buffers, and what is in the ring, to a file, with the note. 0; FP_ESTATE:
 * the sink does not buffer, another trigger was first, or the writer stops. */
int fp_writer_trigger(struct fp_writer *writer, const char *note);

/* Twice does no harm. Drain, close the file, notify, end. The producer must have stopped. */
void fp_writer_stop(struct fp_writer *writer);

/* A thread that may block, once, after fp_writer_stop: join and free. */
void fp_writer_join(struct fp_writer *writer);
