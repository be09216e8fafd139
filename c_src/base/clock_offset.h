/*
 * clock_offset.h - Unix time less monotonic time. Any thread.
 *
 * Samples have monotonic times, which no step of the system's clock moves; files have Unix times.
 * The two clocks cannot be read at once, and a thread may lose its CPU between the readings: so the
 * one is read before and after the other, a few times, and the closest readings count.
 */
#ifndef FP_BASE_CLOCK_OFFSET_H
#define FP_BASE_CLOCK_OFFSET_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* fp_clock_ns(), or a test's. */
typedef int64_t fp_clock(clockid_t);

/* Unix time less monotonic time, in nanoseconds: off by half of the shortest time that reading
 * took. */
int64_t fp_clock_offset_ns(fp_clock *read);

/* The time of a session's samples, which never steps. Relaxed. */
struct fp_sample_clock {
    /* Less this host's monotonic time. 0: another node's, before its first tick. */
    _Atomic int64_t offset_us;
    /* How far the system's clock of the profiled node has moved against it; kept by the portable
     * engine's ticks only. */
    _Atomic int64_t step_us;
};

#endif
