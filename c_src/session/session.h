/* session.h - one profiling run: ring, engine, writer and file, from creation to end.
 *
 *             fp_session_start
 *                    v
 *   RUNNING   sampler, or an encoder -> ring -> writer -> file
 *                    | fp_session_stop: by a call, the owner's death or the unload
 *                    v
 *   STOPPING  the sampler ends and, as its last act, stops the writer;
 *             the writer drains the ring, closes the file, notifies
 *                    | FP_SESSION_STOPPED
 *                    v
 *   STOPPED   nothing runs, the counters are final
 *                    | fp_session_close: joined and freed
 *
 * A session whose owner has died is given up with fp_session_abandon(), which never blocks;
 * fp_session_reap() frees those that have stopped since. fp_session_join_all() stops and joins
 * every session of an owner: no thread outlives the library. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/gauges.h"
#include "session/record_encoder.h"
#include "session/sampler.h"
#include "session/weight_encoder.h"
#include "session/writer.h"
#include "store/sink.h"

struct fp_session;

enum fp_session_event {
    FP_SESSION_FLUSHED = FP_WRITER_FLUSHED,
    FP_SESSION_STOPPED = FP_WRITER_STOPPED,
    FP_SESSION_FILE /* + enum fp_sink_event */
};

/* Copied. fp_session_start() sets the members of the leaf structs that belong to the session: ring,
 * counters, memory, callbacks. */
struct fp_session_options {
    int is_native; /* else the portable engine, and no sampler */
    /* 1: no engine samples. Words come by fp_session_enter_weights(), for a file of allocations,
     * and code has names as with the native engine. Then is_native is 0. */
    int is_weighted;
    struct fp_sampler_options sampler;
    struct fp_writer_options writer; /* script.os_pid 0: of this VM */
    struct fp_sink_options files;    /* lookback_ms: until fp_session_commit */
    size_t ring_bytes;
    size_t libraries_bytes; /* of a set of C libraries; two sets exist at most */
    uint32_t schedulers_online;
    /* WRITER THREAD. FLUSHED with the ticket; STOPPED with ticket 0, as the writer's last act; err
     * is 0, FP_EIO with "path: reason" as text, or FP_EBROKEN with the place. FILE with the text of
     * sink.h, from the second file on. */
    void (*notify)(void *arg, enum fp_session_event event, uint64_t ticket, int err,
                   const char *text);
    void *arg;
    /* For fp_session_reap and fp_session_join_all: after a purge, two loaded instances of the
     * library can share this code. */
    const void *owner;
};

/* A thread that may block. 0, or FP_EINVAL, FP_ENOMEM, FP_EIO, FP_ETHREAD, FP_EDENIED, FP_ESTATE
 * (running_stacks, during a shutdown of the captures) with a sentence in *why: then no thread runs,
 * and there is no file. */
int fp_session_start(struct fp_session **session, const struct fp_session_options *options,
                     char *why, size_t why_size);

/* ANY THREAD until fp_session_close, none blocks. The ticket, or 0 when the session is stopping. */
uint64_t fp_session_flush(struct fp_session *session);
/* fp_writer_follow() and fp_writer_trigger() of writer.h. */
void fp_session_follow(struct fp_session *session);
int fp_session_commit(struct fp_session *session, const char *note);
void fp_session_stop(struct fp_session *session);

enum fp_session_state { FP_SESSION_IS_RUNNING, FP_SESSION_IS_STOPPING, FP_SESSION_IS_STOPPED };
struct fp_session_info {
    enum fp_session_state state;
    const char *path;  /* of the first file, while it was written; "" where the sink buffered */
    const char *reads; /* fp_safe_read_method of the sampler; "" for the portable engine */
    uint32_t code_ranges_left_out; /* mappings of code that had no room */
    uint32_t libraries_left_out;   /* C libraries that had no room */
};
struct fp_session_info fp_session_info(const struct fp_session *session);
/* Those of the portable engine are counted by Erlang. */
struct fp_counters *fp_session_counters(struct fp_session *session);
/* Schedulers beyond these are offline, not idle. */
void fp_session_set_schedulers_online(struct fp_session *session, uint32_t n);
/* For the node's gauges, which each flush writes. */
struct fp_gauges_mailbox *fp_session_node(struct fp_session *session);

/* Samples these processes whatever the rankings say, from the next tick until the next call:
 * FP_PINNED_WORDS for each (sampler.h). 0; FP_EINVAL for more than FP_PINNED_MAX or the portable
 * engine, FP_ESTATE during another call. ANY THREAD, never blocks. */
int fp_session_pin(struct fp_session *session, const uint64_t *words, size_t n);
/* The pids that the native engine samples: up to `room`, how many. 0 during another call. ANY
 * THREAD, never blocks. */
size_t fp_session_selected(struct fp_session *session, uint64_t *pid, size_t room);

/* The record encoder of the portable engine, until fp_session_leave(). NULL when the session is
 * native or stopping, or another caller has it. */
struct fp_record_encoder *fp_session_enter(struct fp_session *session);
void fp_session_leave(struct fp_session *session);

/* The same for words that were allocated. */
struct fp_weight_encoder *fp_session_enter_weights(struct fp_session *session);

/* A thread that may block. Stops, waits, frees. Must not be called from notify. */
void fp_session_close(struct fp_session *session);

/* ANY THREAD, never blocks: stop; fp_session_reap frees it later. */
void fp_session_abandon(struct fp_session *session);
/* Threads that may block. */
void fp_session_reap(const void *owner);
void fp_session_join_all(const void *owner);
