/*
 * clock.h - the clocks of the writer's rooms. Any thread.
 */
#ifndef FP_BASE_CLOCK_H
#define FP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t fp_clock_ns(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t fp_thread_cpu_ns(void)
{
    return fp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t fp_monotonic_ms(void)
{
    return fp_clock_ns(CLOCK_MONOTONIC) / 1000000u;
}

#endif
