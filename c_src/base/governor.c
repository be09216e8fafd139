#include "base/governor.h"

#include <string.h>

/* Seconds of the budget that the bucket holds, and of the largest debt. */
#define SAVED_S 10
#define DEBT_S 30
/* What it holds at the start: the first seconds cost more than those that follow (code is looked
 * up, stacks are new), and a short session is not judged by them. Where the first pass alone was
 * dear, it holds nothing. */
#define START_S SAVED_S
/* A debt that is paid back sooner than that is no reason for a step. */
#define REPAY_S 60
/* A step shows its effect before the next one is taken. */
#define LOWER_EVERY_NS INT64_C(2000000000)
/* One step back can double the cost of what it is about. It is taken when this share of the budget,
 * in percent, was not exceeded for so long: ... */
#define LOW_PERCENT 45
/* ... and with the doubled pass, where that is all that comes back. */
#define STRETCHED_LOW_PERCENT 85
#define RAISE_AFTER_NS INT64_C(10000000000)
/* A pass below this part of the budget is not worth a step. */
#define PASS_PART 8

static int64_t per_second(const struct fp_governor *governor)
{
    return INT64_C(1000000) * governor->permille;
}

/* The second pass is too early to be governed by what the first seconds cost. */
static void stretch(struct fp_governor *governor, int64_t pass_ns, uint32_t interval_ms)
{
    int64_t allowed = per_second(governor) * interval_ms / 1000;

    if (pass_ns * 2 <= allowed)
        return;
    while (governor->stretch < FP_GOVERNOR_STRETCH_MAX &&
           (pass_ns >> governor->stretch) * 4 > allowed)
        governor->stretch++;
}

static void settle(struct fp_governor *governor, int64_t ns)
{
    int64_t most = SAVED_S * per_second(governor);
    int64_t least = -DEBT_S * per_second(governor);

    governor->credit_ns += ns;
    if (governor->credit_ns > most)
        governor->credit_ns = most;
    if (governor->credit_ns < least)
        governor->credit_ns = least;
}

void fp_governor_init(struct fp_governor *governor, uint32_t permille, int64_t now_ns,
                      struct fp_cpu_used used, uint32_t interval_ms)
{
    memset(governor, 0, sizeof *governor);
    governor->permille = permille;
    governor->last_ns = governor->low_since_ns = now_ns;
    governor->lowered_ns = now_ns - LOWER_EVERY_NS;
    governor->used = used;
    if (permille == 0)
        return;
    if (used.pass_ns * PASS_PART < per_second(governor))
        settle(governor, START_S * per_second(governor));
    settle(governor, -used.total_ns);
    stretch(governor, used.pass_ns, interval_ms);
}

static int lower(struct fp_governor *governor, int64_t now_ns, int64_t allowed, int64_t pass_ns)
{
    if (now_ns - governor->lowered_ns < LOWER_EVERY_NS)
        return 0;
    if (governor->stretch < FP_GOVERNOR_STRETCH_MAX && pass_ns * PASS_PART >= allowed)
        governor->stretch++;
    else if (governor->step < FP_GOVERNOR_STEPS - 1)
        governor->step++;
    else
        return 0;
    governor->lowered_ns = governor->low_since_ns = now_ns;
    return 1;
}

static int raise(struct fp_governor *governor, int64_t now_ns)
{
    if (now_ns - governor->low_since_ns < RAISE_AFTER_NS)
        return 0;
    if (governor->step > 0)
        governor->step--;
    else if (governor->stretch > 0)
        governor->stretch--;
    else
        return 0;
    governor->low_since_ns = now_ns;
    return 1;
}

int fp_governor_update(struct fp_governor *governor, int64_t now_ns, struct fp_cpu_used used)
{
    int64_t elapsed = now_ns - governor->last_ns;
    int64_t total = used.total_ns - governor->used.total_ns;
    int64_t pass = used.pass_ns - governor->used.pass_ns;
    int64_t allowed = elapsed / 1000 * governor->permille;
    int is_low;

    governor->last_ns = now_ns;
    governor->used = used;
    if (governor->permille == 0)
        return 0;
    settle(governor, allowed - total);
    is_low = governor->step > 0 ? total * 100 < allowed * LOW_PERCENT
                                : (total + pass) * 100 < allowed * STRETCHED_LOW_PERCENT;
    if (!is_low || governor->credit_ns < 0)
        governor->low_since_ns = now_ns;
    if (governor->credit_ns < 0 &&
        (allowed - total) * (REPAY_S * INT64_C(1000000000) / elapsed) < -governor->credit_ns)
        return lower(governor, now_ns, allowed, pass);
    return raise(governor, now_ns);
}

struct fp_governed fp_governed(uint32_t step)
{
    struct fp_governed governed = {step >= 1, 1, 1};

    if (step > 1)
        governed.interval_factor = 1u << (step < 5 ? step - 1 : 4);
    if (step > 5)
        governed.top_divisor = 1u << (step - 5);
    return governed;
}

uint32_t fp_governor_slots(const struct fp_governor *governor, uint32_t slots, uint32_t pass_ms,
                           int64_t interval_ns)
{
    int64_t ticks = ((int64_t)pass_ms << governor->stretch) * 1000000 / interval_ns;

    if (ticks == 0)
        ticks = 1;
    return (uint32_t)((slots + ticks - 1) / ticks);
}
