/* clock.h - the clocks of the system, and sleeping: nothing else in c_src reads a clock or sleeps
 * (the writer's wait for requests apart, which is of libuv's). Any thread; reading in signal
 * handlers, too. The C tests link their own clock_gettime and clock_nanosleep
 * (test/c/virtual_clock.h). */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds; 0 for a clock that does not exist. */
static inline int64_t fp_clock_ns(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) != 0)
        return 0;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t fp_monotonic_ns(void)
{
    return fp_clock_ns(CLOCK_MONOTONIC);
}

static inline int64_t fp_monotonic_ms(void)
{
    return fp_monotonic_ns() / 1000000;
}

/* CPU time of the calling thread. */
static inline uint64_t fp_thread_cpu_ns(void)
{
    return (uint64_t)fp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Until a time of the monotonic clock; a signal may end it earlier. */
static inline void fp_sleep_until(int64_t at_ns)
{
    struct timespec at = {at_ns / 1000000000, at_ns % 1000000000};

    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Less than a second. */
static inline void fp_sleep(long ns)
{
    struct timespec time = {0, ns};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Unix time less monotonic time, in nanoseconds. Samples have monotonic times, which no step of the
 * system's clock moves; files have Unix times. A thread may lose its CPU between the readings of
 * the two clocks: the closest of several readings counts, off by at most half of its duration. */
int64_t fp_clock_offset_ns(void);

/* The time of a session's samples, which never steps. Relaxed. */
struct fp_sample_clock {
    /* Less this host's monotonic time. 0: another node's, before its first tick. */
    _Atomic int64_t offset_us;
    /* How far the system's clock of the profiled node has moved against it; kept by the portable
     * engine's ticks only. */
    _Atomic int64_t step_us;
};
