/*
 * clock_offset.h - what has to be added to monotonic time to get Unix time. Any thread.
 *
 * Samples have monotonic time, so that a step of the system's clock does not
 * tear them apart; files have Unix time. The two clocks can not be read at once,
 * and a thread that is kept from its CPU between them would move all samples of a
 * session by as long. So the one is read before and after the other, a few times,
 * and the closest of these is believed.
 */
#ifndef FP_BASE_CLOCK_OFFSET_H
#define FP_BASE_CLOCK_OFFSET_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds; the tests have clocks of their own. */
typedef int64_t fp_clock(clockid_t);

/* Unix time less monotonic time, in nanoseconds: off by half of the shortest
 * time that reading took. */
int64_t fp_clock_offset_ns(fp_clock *read);

#endif
