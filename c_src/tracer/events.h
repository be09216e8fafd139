/* events.h - events of a readable trace: which of them are written, the rings they go through, and
 * the counters.
 *
 *      scheduler 0  -- admit, reserve, commit -->  ring 0 --\
 *      scheduler 1  -- admit, reserve, commit -->  ring 1 ----> one reader
 *      ...
 *
 *      seen = written + dropped + lost
 *
 * Dropped: the rate or the number of events did not admit it, and nothing of it was copied. Lost:
 * it was admitted, and the ring had no room, or its thread has no ring, or it could not be read.
 *
 * The rate is a token bucket in one word, the time at which the bucket will be full again ("generic
 * cell rate algorithm", ITU-T I.371): an event is admitted where that is at most `burst` events
 * away. A flood only reads the word.
 *
 * No function but create and destroy allocates, locks or calls the system. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fp_events;

struct fp_events_limits {
    uint32_t rate;       /* events a second in the long run, at least 1 */
    uint32_t burst;      /* events at once, at least 1 */
    uint64_t events_max; /* then no event is admitted; 0: no limit */
    uint32_t threads;    /* that have a ring, at least 1 */
    size_t ring_bytes;   /* of each; rounded up to a power of two, at least 64 KiB */
};

struct fp_events_counters {
    uint64_t seen, written, dropped, lost;
    uint64_t missed; /* of dropped and lost: those that were to be acted upon */
};

/* 0, FP_ENOMEM or FP_EINVAL. *events belongs to the caller: fp_events_destroy, when no thread can
 * be in a function of it. */
int fp_events_create(struct fp_events **events, const struct fp_events_limits *limits);
void fp_events_destroy(struct fp_events *events);

/* ANY THREAD. Would an event be dropped now? It changes nothing. */
int fp_events_would_drop(const struct fp_events *events, int64_t now_ns);

/* ANY THREAD. Has the limit of events been reached? */
int fp_events_is_full(const struct fp_events *events);

/* THREAD `thread`. Counts an event; 1 where it is admitted: then reserve and commit, or lose,
 * follow. An `owed` event, a return of a call that was written, is admitted whatever the rate, and
 * takes its token all the same. A thread without a ring has a number of `threads` or more. */
int fp_events_admit(struct fp_events *events, uint32_t thread, int64_t now_ns, int is_owed);
/* THREAD `thread`. Counts `n` events as seen and dropped. */
void fp_events_drop(struct fp_events *events, uint32_t thread, uint64_t n);

/* THREAD `thread`. An event that was dropped or lost was one that the reader is to act upon. */
void fp_events_miss(struct fp_events *events, uint32_t thread);

/* THREAD `thread`. Room for an admitted event, or NULL: it is counted as lost. Visible to the
 * reader, and counted as written, with the commit. `size` is a multiple of 8. */
void *fp_events_reserve(struct fp_events *events, uint32_t thread, size_t size);
void fp_events_commit(struct fp_events *events, uint32_t thread);

/* ONE READER. The oldest event of all rings, or NULL: none is there of a time before `until_ns'. It
 * stays until the release. An event begins with its time, an int64_t in nanoseconds, which no
 * thread writes out of order; two threads may by the time between the clock and the commit. */
const void *fp_events_peek(struct fp_events *events, int64_t until_ns, size_t *size);
void fp_events_release(struct fp_events *events);
/* An event that cannot be read is lost, and not written. */
void fp_events_release_lost(struct fp_events *events);

/* ANY THREAD. Exact when no thread is within a function above. */
void fp_events_count(const struct fp_events *events, struct fp_events_counters *counters);
