#include "base/clock.h"

#define TRIES 5

int64_t fp_clock_offset_ns(void)
{
    int64_t least = INT64_MAX, offset = 0;

    for (int i = 0; i < TRIES; i++) {
        int64_t before = fp_monotonic_ns();
        int64_t unix_ns = fp_clock_ns(CLOCK_REALTIME);
        int64_t took = fp_monotonic_ns() - before;

        if (took < least) {
            least = took;
            offset = unix_ns - (before + took / 2);
        }
    }
    return offset;
}
