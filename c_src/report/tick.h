/* tick.h - the samples of one tick together: those of one file with equal times, which stand behind
 * each other (doc/format.md). At the same tick one process waits for the work of another one.
 *
 * Not shared between threads. */
#pragma once

#include "report/profile.h"

struct fp_tick_sample {
    uint32_t process, stack, words;
    struct fp_reference serves, call;
    int64_t count; /* fp_row_count() */
};

struct fp_tick {
    struct fp_profile *profile;
    struct fp_cursor cursor;
    struct fp_row row; /* of the next tick, if has_row */
    bool has_row;
    int64_t time_us;
    struct fp_tick_sample *sample; /* without the profiler's own */
    size_t count, room;
    uint32_t *place; /* by process: its sample, plus 1; 0: it has none at this tick */
    size_t place_room;
    struct fp_table pids; /* processes, by OS process and pid */
};

/* 0, FP_EFULL or FP_ENOMEM. Close it in any case. */
int fp_tick_open(struct fp_tick *tick, struct fp_profile *profile);
/* 1 and the samples of the next tick; 0 at the end; FP_EFULL or FP_ENOMEM. */
int fp_tick_next(struct fp_tick *tick);
void fp_tick_close(struct fp_tick *tick);

/* The process that `waits_for` (a text) names in the words of a sample of `process`; of two with
 * one pid the one that has a sample at this tick. UINT32_MAX: it is not in the profile. */
uint32_t fp_tick_target(const struct fp_tick *tick, uint32_t process, uint32_t waits_for);
/* Its sample at this tick, or NULL. `process` may be UINT32_MAX. */
const struct fp_tick_sample *fp_tick_sample_of(const struct fp_tick *tick, uint32_t process);
