/* governor.h - how much is sampled, so that profiling stays within its CPU budget. Pure: clocks and
 * CPU times are arguments. One thread.
 *
 * No minute is above the budget. CPU time beyond the budget is a debt, the first pass of the
 * selection with it, and is paid back within a minute; CPU time that was not used is not saved. A
 * debt of up to ten seconds of budget is no reason for a step while the minute has room for it, so
 * that a spike of the program is sampled in full. Else as many steps are taken as it needs, at most
 * twice a second, in this order:
 *
 *   stretch  the pass of the selection takes 2, 4 ... 256 times as long; only
 *            while it uses an eighth of the budget or more
 *   step 1   of waiting processes, only changes are written
 *   2..5     half as many ticks a second at each step
 *   6..8     half as many selected processes at each step
 *
 * Steps are taken back in the reverse order, when the dearer one should fit. */
#pragma once

#include <stdint.h>

#define FP_GOVERNOR_STEPS 9u
#define FP_GOVERNOR_STRETCH_MAX 8u

/* CPU time since the start, in ns. */
struct fp_cpu_used {
    int64_t total_ns; /* of all that profiling does */
    int64_t pass_ns;  /* ... of which for the passes of the selection */
};

/* CPU time that was used until then, and that was allowed. */
struct fp_cpu_moment {
    int64_t ns, total_ns, allowed_ns;
};
/* One a second, for a minute and more. */
#define FP_GOVERNOR_MOMENTS 80u

struct fp_governor {
    int64_t permille;   /* the budget, of one core; 0: none. May change between updates. */
    int64_t credit_ns;  /* a debt, or 0 */
    int64_t allowed_ns; /* since a minute before the start, each interval at its own budget */
    int64_t owes_since_ns;
    int64_t last_ns; /* of the last update */
    struct fp_cpu_moment moment[FP_GOVERNOR_MOMENTS];
    uint32_t moments;
    int was_early; /* the last update, by what was used */
    struct fp_cpu_used used;
    int64_t lowered_ns, low_since_ns, raised_ns, raise_after_ns;
    uint32_t step;
    uint32_t stretch; /* the pass takes 2^stretch as long */
};

/* The meaning of a step. */
struct fp_governed {
    int coalesce_idle;
    uint32_t interval_factor; /* of the ticks' interval */
    uint32_t top_divisor;     /* of the number of selected processes */
};

/* After the first pass. `permille` of one core, 0 for no limit; `used` is a debt. Another such pass
 * every `interval_ms` that would take more than half of the budget is stretched until it takes at
 * most a quarter. Times are monotonic. */
void fp_governor_init(struct fp_governor *governor, uint32_t permille, int64_t now_ns,
                      struct fp_cpu_used used, uint32_t interval_ms);

/* Is it time for an update: is a second over, or much of the budget used since the last one? */
int fp_governor_is_due(const struct fp_governor *governor, int64_t now_ns, int64_t total_ns);
/* When it is due. 1 when `step` or `stretch` has changed. */
int fp_governor_update(struct fp_governor *governor, int64_t now_ns, struct fp_cpu_used used);

struct fp_governed fp_governed(uint32_t step);

/* Slots of the process table to read at each tick for a pass of `pass_ms`. */
uint32_t fp_governor_slots(const struct fp_governor *governor, uint32_t slots, uint32_t pass_ms,
                           int64_t interval_ns);
