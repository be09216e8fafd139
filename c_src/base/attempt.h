/* attempt.h - a look tries again while what it reads moves: after a pause, so many times or until a
 * deadline.
 *
 *      fp_attempts_open(&attempts, time_ms, (struct fp_attempts){.most = 5, .pause_ns = 1000000});
 *      while (fp_attempts_next(&attempts) && look() == FP_ETORN)
 *          ;
 *
 * One thread. */
#pragma once

#include <stdint.h>

#include "base/clock.h"

struct fp_attempts {
    uint32_t most;       /* 0: until the deadline */
    uint32_t at_once;    /* so many come without a pause, the first always */
    int64_t pause_ns;    /* before each of the others */
    int64_t deadline_ms; /* 0: none */
    uint32_t made;
};

static inline void fp_attempts_open(struct fp_attempts *attempts, uint32_t time_ms,
                                    struct fp_attempts limits)
{
    *attempts = limits;
    attempts->deadline_ms = fp_monotonic_ms() + time_ms;
}

static inline int fp_attempts_are_late(const struct fp_attempts *attempts)
{
    return attempts->deadline_ms != 0 && fp_monotonic_ms() >= attempts->deadline_ms;
}

/* 1: another one may be made now. The first one is made however late it is. */
static inline int fp_attempts_next(struct fp_attempts *attempts)
{
    if (attempts->made > 0 && ((attempts->most != 0 && attempts->made >= attempts->most) ||
                               fp_attempts_are_late(attempts)))
        return 0;
    if (attempts->made > 0 && attempts->made >= attempts->at_once)
        fp_sleep(attempts->pause_ns);
    attempts->made++;
    return 1;
}
