/*
 * session.h - one profiling run: ring, engine, writer and file, with their life and death in one
 * place.
 *
 *              fp_session_start
 *                     v
 *   RUNNING: sampler (or fp_session_push by the portable engine) -> ring ->
 *                     |                                    writer -> file
 *                     | fp_session_stop, from anybody: the owner, its death,
 *                     v                                  or the unload
 *   STOPPING: the sampler ends by itself and, as its last act, tells the
 *             writer, which drains the ring, closes the file and
 *                     |  notifies FP_SESSION_STOPPED
 *                     v
 *   STOPPED: nothing runs. The books are final.
 *                     | fp_session_close
 *                     v
 *   joined and freed
 *
 * A session that nobody closes (its owner died) is given up with fp_session_abandon(), which never
 * blocks; fp_session_reap() frees those that were and have stopped. fp_session_join_all() stops and
 * joins every session of an owner: so no thread outlives the library.
 */
#ifndef FP_SESSION_SESSION_H
#define FP_SESSION_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/gauges.h"
#include "session/record_encoder.h"
#include "session/sampler.h"
#include "session/writer.h"
#include "store/sink.h"

struct fp_session;

enum fp_session_event {
    FP_SESSION_FLUSHED,
    FP_SESSION_STOPPED,
    /* Of its files: enum fp_sink_event says what the text is. */
    FP_SESSION_FILE_BEGUN,
    FP_SESSION_FILE_FINISHED,
    FP_SESSION_FILE_REMOVED,
    FP_SESSION_FILE_FAILED,
    FP_SESSION_FILE_HEALED
};

/* Copied. fp_session_start() fills in what the leaf structs point to of the session's own: ring,
 * counters, memory, calls back. */
struct fp_session_options {
    int is_native; /* else the portable engine, and no sampler */
    struct fp_sampler_options sampler;
    struct fp_writer_options writer; /* script.os_pid 0: of this VM */
    struct fp_sink_options files;    /* buffer_ms: until fp_session_commit */
    size_t ring_bytes;
    uint32_t schedulers_online;
    /* WRITER THREAD. FLUSHED with the ticket; STOPPED with ticket 0, as the writer's last act; err
     * is 0, or FP_EIO with "path: reason" as text. FILE_* with the text of sink.h; of the first
     * file nobody is told. */
    void (*notify)(void *arg, enum fp_session_event event, uint64_t ticket, int err,
                   const char *text);
    void *arg;
    /* Whose session it is, for fp_session_reap and fp_session_join_all: after a purge, two loaded
     * instances of the library can share this code. */
    const void *owner;
};

/* A thread that may block. 0, or FP_EINVAL, FP_ENOMEM, FP_EIO, FP_ETHREAD, FP_EDENIED, FP_ESTATE
 * (running_stacks, while the schedulers are being retired) with a sentence in *why: then nothing
 * was started, and there is no file. */
int fp_session_start(struct fp_session **session, const struct fp_session_options *options,
                     char *why, size_t why_size);

/* ANY THREAD until fp_session_close, none blocks. The ticket, or 0 when the session is stopping. */
uint64_t fp_session_flush(struct fp_session *session);
/* fp_writer_trigger() of writer.h. */
int fp_session_commit(struct fp_session *session, const char *note);
void fp_session_stop(struct fp_session *session);

enum fp_session_state { FP_SESSION_IS_RUNNING, FP_SESSION_IS_STOPPING, FP_SESSION_IS_STOPPED };
enum fp_session_state fp_session_state(const struct fp_session *session);
const struct fp_counters *fp_session_stats(const struct fp_session *session);
/* Schedulers beyond these are offline, not idle. */
void fp_session_set_schedulers_online(struct fp_session *session, uint32_t n);
/* For counters that Erlang keeps (the portable engine's). */
struct fp_counters *fp_session_stats_mutable(struct fp_session *session);
/* Of the first file, while it was written; "" where it began by buffering. */
const char *fp_session_path(const struct fp_session *session);
/* How the sampler reads memory: fp_safe_read_method; "" for the portable engine. */
const char *fp_session_reads(const struct fp_session *session);
/* Mappings of code that had no room; 0 for the portable engine. */
uint32_t fp_session_code_ranges_left_out(const struct fp_session *session);
/* Where Erlang puts what is written of the node at each flush. */
struct fp_gauges_mailbox *fp_session_node(struct fp_session *session);

/* Sample these processes whatever the rules say, from the next tick on and until others are named:
 * FP_PINNED_WORDS for each (sampler.h). 0; FP_EINVAL for more than FP_PINNED_MAX or the portable
 * engine, FP_ESTATE while another caller is at it. ANY THREAD, never blocks. */
int fp_session_pin(struct fp_session *session, const uint64_t *words, size_t n);
/* The pids that the native engine looks at: up to `room`, how many. 0 while another caller is at
 * it. ANY THREAD, never blocks. */
size_t fp_session_selected(struct fp_session *session, uint64_t *pid, size_t room);

/* The portable engine's door, for one caller at a time: NULL when the session is native, stopping,
 * or somebody is inside. fp_session_leave() after it. */
struct fp_record_encoder *fp_session_enter(struct fp_session *session);
void fp_session_leave(struct fp_session *session);

/* A thread that may block. Stops, waits, frees. Must not be called from notify. */
void fp_session_close(struct fp_session *session);

/* ANY THREAD, never blocks: stop; fp_session_reap frees it later. */
void fp_session_abandon(struct fp_session *session);
/* Threads that may block. */
void fp_session_reap(const void *owner);
void fp_session_join_all(const void *owner);

#endif
