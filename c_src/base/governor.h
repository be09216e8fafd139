/*
 * governor.h - how much is sampled, so that profiling costs no more CPU than it
 * may. Pure: told what was used, answers what to do. One thread's.
 *
 * The budget fills a bucket at its rate, and what is used is taken out of it.
 * What a spike of the program costs comes out of what was saved before, for some
 * ten seconds of it: spikes are what a profiler is for. Only when the bucket is
 * empty is one step taken down, and one up again when the use has been low
 * enough for long enough that the dearer step should fit:
 *
 *   0       everything, as asked for
 *   1       of processes that wait, only what changes
 *   2..5    half as many ticks a second at each step
 *   6..8    half as many processes at each step, but all that somebody has named
 */
#ifndef FP_BASE_GOVERNOR_H
#define FP_BASE_GOVERNOR_H

#include <stdint.h>

#define FP_GOVERNOR_STEPS 9u

struct fp_governor {
    int64_t permille; /* the budget, of one core; 0: there is none */
    int64_t credit_ns;
    int64_t last_ns,
        used_ns; /* when it was asked last, and what was used then */
    int64_t lowered_ns, low_since_ns;
    uint32_t step;
};

/* What a step means. */
struct fp_governed {
    int merge_idle;
    uint32_t interval_factor; /* of the ticks' interval */
    uint32_t top_divisor;     /* of the number of processes */
};

/* `permille` of one core, 0 for no limit. Times are monotonic. */
void fp_governor_init(struct fp_governor *governor, uint32_t permille,
                      int64_t now_ns);

/* `used_ns`: CPU time since the beginning, of everything that profiling does.
 * Asked about once a second. 1 when the step has changed. */
int fp_governor_ask(struct fp_governor *governor, int64_t now_ns,
                    int64_t used_ns);

struct fp_governed fp_governed(uint32_t step);

#endif
