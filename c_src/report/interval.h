/* interval.h - how far apart a profile's samples are. */
#pragma once

#include <stdbool.h>

#include "report/profile.h"

/* From one time that samples have to the next, on average, in microseconds. */
int64_t fp_interval_us(const struct fp_profile *profile);

/* Is each file of a session with `mode => schedulers`? A process has a sample there only while a
 * scheduler runs it. */
bool fp_is_of_schedulers(const struct fp_profile *profile);

/* The length of a tick, in microseconds: of what the profiler's own samples tell, and where there
 * are no two of one file the interval. 0, or an error of the cursor. */
int fp_tick_length(struct fp_profile *profile, int64_t *us);
