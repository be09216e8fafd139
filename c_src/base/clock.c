#include "base/clock.h"

#define TRIES 5

int64_t fp_clock_offset_ns(fp_clock *read)
{
    int64_t least = INT64_MAX, offset = 0;

    for (int i = 0; i < TRIES; i++) {
        int64_t before = read(CLOCK_MONOTONIC);
        int64_t unix_ns = read(CLOCK_REALTIME);
        int64_t took = read(CLOCK_MONOTONIC) - before;

        if (took < least) {
            least = took;
            offset = unix_ns - (before + took / 2);
        }
    }
    return offset;
}
