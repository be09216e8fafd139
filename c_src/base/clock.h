/*
 * clock.h - the clocks of the system. Any thread, signal handlers included.
 */
#ifndef FP_BASE_CLOCK_H
#define FP_BASE_CLOCK_H

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

#endif
