/*
 * writer.h - the WRITER THREAD: drains the ring, formats, flushes.
 *
 * A libuv loop of its own. Others only post: a flush, or the end. Answers are
 * given through `notify`, called on the writer thread.
 */
#ifndef FP_SESSION_WRITER_H
#define FP_SESSION_WRITER_H

#include <stdint.h>

#include "base/counters.h"
#include "base/ring.h"
#include "format/perf_script.h"
#include "store/sink.h"

struct fp_writer;

enum fp_writer_event { FP_WRITER_FLUSHED, FP_WRITER_STOPPED };

struct fp_writer_options {
    struct fp_ring *ring;
    struct fp_counters *stats;
    struct fp_sink *sink; /* the writer's from a successful start on */
    struct fp_perf_script_options script;
    const char *engine;             /* "native", "portable": static */
    struct fp_gauges_mailbox *node; /* what Erlang says of the node, or NULL */
    uint32_t flush_interval_ms;     /* 0: flushed only when asked */
    const char *note; /* for its own samples, or "" (perf_script.h); copied */
    /* The time of the samples less monotonic time (relaxed): the system's clock,
     * that may be set at any time, would move its own against the others. */
    const _Atomic int64_t *wall_offset_us;
    /* WRITER THREAD. `ticket` is what fp_writer_flush returned (0 with
     * FP_WRITER_STOPPED); err is 0 or FP_EIO, and `why` is "" or "path:
     * reason".
     * After FP_WRITER_STOPPED the thread touches nothing any more but its own
     * stack and what fp_writer_join frees; the file is closed. */
    void (*notify)(void *arg, enum fp_writer_event event, uint64_t ticket,
                   int err, const char *why);
    void *arg;
};

/* Any thread that may block. All that can fail but the thread: 0 or FP_ENOMEM. It
 * may be told anything from here on. */
int fp_writer_create(struct fp_writer **writer,
                     const struct fp_writer_options *options);
/* Without a thread, or when it could not be started: the sink stays the
 * caller's. */
void fp_writer_destroy(struct fp_writer *writer);

/* The thread. 0 or FP_ETHREAD. All signals are blocked in it. */
int fp_writer_start(struct fp_writer *writer);

/* ANY THREAD until fp_writer_join, never blocks. Everything in the ring at the
 * time of the call is written before FP_WRITER_FLUSHED comes with the returned
 * ticket (> 0; they are answered in order, each one before FP_WRITER_STOPPED).
 * 0 after fp_writer_stop: nothing will be answered. */
uint64_t fp_writer_flush(struct fp_writer *writer);

/* ANY THREAD until fp_writer_join, never blocks. Where the sink holds what comes:
 * everything that it has kept, and what is in the ring, goes to a file, with the
 * note. 0; FP_ESTATE: it does not hold, somebody was faster, or it stops. */
int fp_writer_commit(struct fp_writer *writer, const char *note);

/* ANY THREAD until fp_writer_join, never blocks; doing it twice does no harm.
 * Drain, close the file, notify, end. The producer must have stopped. */
void fp_writer_stop(struct fp_writer *writer);

/* A thread that may block, once, after fp_writer_stop: join and free. */
void fp_writer_join(struct fp_writer *writer);

#endif
