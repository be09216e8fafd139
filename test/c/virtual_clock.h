/* virtual_clock.h - the time of c_src in a test's hands. The programs of the tests are linked such
 * that each clock_gettime and clock_nanosleep in them comes here, and goes on to the system's while
 * the test has set nothing. CPU clocks are clocks as any other. */
#pragma once

#include <stdint.h>
#include <time.h>

/* Set before there are threads. NULL: the system's. */
extern int64_t (*virtual_clock)(clockid_t clock);
/* Until this time of the monotonic clock. NULL: the system's. */
extern void (*virtual_sleep)(int64_t until_ns);

int64_t system_clock_ns(clockid_t clock);
