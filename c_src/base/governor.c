#include "base/governor.h"

#include <string.h>

/* Seconds of the budget that may be owed before a step is taken: a spike of the program is sampled
 * in full, and so are the first seconds, which cost more than those that follow (code is looked up,
 * stacks are new). */
#define OWED_S 10
/* The largest debt that is remembered. */
#define DEBT_S 60
/* A debt is paid back within a minute of its beginning, so that no minute is above the budget: a
 * part of it is left for steps to show their effect. */
#define REPAY_NS INT64_C(45000000000)
#define REPAY_LEAST_S 5
/* CPU time used now must fit into each minute that ends within the next ten seconds. */
#define MINUTE_S 60
#define AHEAD_S 10
/* A step shows its effect before the next one is taken. */
#define LOWER_EVERY_NS INT64_C(500000000)
/* A judgement waits for that, or until so many seconds of the budget are used. */
#define UPDATE_NS INT64_C(1000000000)
#define UPDATE_USED_S 2
/* Percent of the budget that is used: what is used before a judgement has room in the rest. */
#define USED_PERCENT 95
/* One step back is taken when what it should cost then is below this share of the budget, in
 * percent, for so long; longer when the last one had to be taken again soon. */
#define LOW_PERCENT 90
#define RAISE_AFTER_NS INT64_C(10000000000)
#define RAISE_AGAIN_NS INT64_C(60000000000)
/* The first step saves that part of what the pass does not use, which is a guess. */
#define FIRST_STEP_PART 8
/* A pass below this part of the budget is not worth a step. */
#define PASS_PART 8

/* Of CPU time, that may be used. */
static int64_t per_second(const struct fp_governor *governor)
{
    return INT64_C(10000) * USED_PERCENT * governor->permille;
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

/* Unused CPU time is not saved: a later minute that uses it would be above the budget. */
static void settle(struct fp_governor *governor, int64_t now_ns, int64_t ns)
{
    int64_t least = -DEBT_S * per_second(governor);

    if (governor->credit_ns >= 0)
        governor->owes_since_ns = now_ns;
    governor->credit_ns += ns;
    if (governor->credit_ns > 0)
        governor->credit_ns = 0;
    if (governor->credit_ns < least)
        governor->credit_ns = least;
}

/* CPU time used and allowed until now, for left_since(): once a second. */
static void remember(struct fp_governor *governor, int64_t now_ns)
{
    uint32_t n = governor->moments;

    if (n > 0 && now_ns - governor->moment[(n - 1) % FP_GOVERNOR_MOMENTS].ns < UPDATE_NS * 9 / 10)
        return;
    governor->moment[n % FP_GOVERNOR_MOMENTS] =
        (struct fp_cpu_moment){now_ns, governor->used.total_ns, governor->allowed_ns};
    governor->moments++;
}

/* Of what was allowed since then, what is not used: of a budget that has changed, each second at
 * its own. `since_ns` is before the last moment. */
static int64_t left_since(const struct fp_governor *governor, int64_t since_ns)
{
    uint32_t last = governor->moments, at = last - 2;
    const struct fp_cpu_moment *from, *to;
    int64_t each_ms, allowed;

    while (at > 0 && last - at < FP_GOVERNOR_MOMENTS &&
           governor->moment[at % FP_GOVERNOR_MOMENTS].ns > since_ns)
        at--;
    from = &governor->moment[at % FP_GOVERNOR_MOMENTS];
    to = &governor->moment[(at + 1) % FP_GOVERNOR_MOMENTS];
    /* All CPU time between the two may belong to the time after. */
    each_ms = (to->allowed_ns - from->allowed_ns) / ((to->ns - from->ns) / 1000000);
    allowed = from->allowed_ns + each_ms * ((since_ns - from->ns) / 1000000);
    return governor->allowed_ns - allowed - (governor->used.total_ns - from->total_ns);
}

void fp_governor_init(struct fp_governor *governor, uint32_t permille, int64_t now_ns,
                      struct fp_cpu_used used, uint32_t interval_ms)
{
    memset(governor, 0, sizeof *governor);
    governor->permille = permille;
    governor->last_ns = governor->low_since_ns = now_ns;
    governor->lowered_ns = now_ns - LOWER_EVERY_NS;
    governor->raised_ns = now_ns - RAISE_AGAIN_NS;
    governor->raise_after_ns = RAISE_AFTER_NS;
    /* The minute before, in which nothing was used: what the first pass used belongs to it. */
    remember(governor, now_ns - MINUTE_S * INT64_C(1000000000));
    governor->allowed_ns = MINUTE_S * per_second(governor);
    governor->used = used;
    remember(governor, now_ns);
    if (permille == 0)
        return;
    settle(governor, now_ns, -used.total_ns);
    stretch(governor, used.pass_ns, interval_ms);
}

/* Seconds until the debt must be paid. */
static int64_t repay_s(const struct fp_governor *governor, int64_t now_ns)
{
    int64_t left = (governor->owes_since_ns + REPAY_NS - now_ns) / INT64_C(1000000000);

    return left > REPAY_LEAST_S ? left : REPAY_LEAST_S;
}

/* What a second may use, for the next ten, that no minute is above the budget. */
static int64_t room(const struct fp_governor *governor, int64_t now_ns)
{
    int64_t least = INT64_MAX;

    for (int64_t ahead = 1; ahead <= AHEAD_S; ahead++) {
        int64_t left = left_since(governor, now_ns - (MINUTE_S - ahead) * INT64_C(1000000000));
        int64_t each = per_second(governor) + left / ahead;

        least = each < least ? each : least;
    }
    return least;
}

/* Steps until a second uses no more than `most`, of `pass` and `other` now; at least one. Their
 * savings are known, except those of the first one, which depend on the program. */
static int lower(struct fp_governor *governor, int64_t now_ns, int64_t most, int64_t pass,
                 int64_t other)
{
    int is_lower = 0;

    if (now_ns - governor->lowered_ns < LOWER_EVERY_NS)
        return 0;
    while (!is_lower || pass + other > most) {
        if (governor->stretch < FP_GOVERNOR_STRETCH_MAX &&
            pass * PASS_PART >= per_second(governor)) {
            governor->stretch++;
            pass /= 2;
        } else if (governor->step < FP_GOVERNOR_STEPS - 1) {
            governor->step++;
            other = governor->step == 1 ? other - other / FIRST_STEP_PART : other / 2;
        } else {
            break;
        }
        is_lower = 1;
    }
    if (!is_lower)
        return 0;
    governor->raise_after_ns =
        now_ns - governor->raised_ns < RAISE_AGAIN_NS ? RAISE_AGAIN_NS : RAISE_AFTER_NS;
    governor->lowered_ns = governor->low_since_ns = now_ns;
    return 1;
}

/* CPU time of a second with one step less. */
static int64_t with_less(const struct fp_governor *governor, int64_t pass, int64_t other)
{
    if (governor->step == 0)
        return 2 * pass + other;
    return pass + other + (governor->step == 1 ? other / (FIRST_STEP_PART - 1) : other);
}

static int raise(struct fp_governor *governor, int64_t now_ns)
{
    if (now_ns - governor->low_since_ns < governor->raise_after_ns)
        return 0;
    if (governor->step > 0)
        governor->step--;
    else if (governor->stretch > 0)
        governor->stretch--;
    else
        return 0;
    governor->low_since_ns = governor->raised_ns = now_ns;
    governor->raise_after_ns = RAISE_AFTER_NS;
    return 1;
}

int fp_governor_is_due(const struct fp_governor *governor, int64_t now_ns, int64_t total_ns)
{
    return now_ns - governor->last_ns >= UPDATE_NS ||
           (governor->permille != 0 &&
            total_ns - governor->used.total_ns > UPDATE_USED_S * per_second(governor));
}

int fp_governor_update(struct fp_governor *governor, int64_t now_ns, struct fp_cpu_used used)
{
    int64_t elapsed_us = (now_ns - governor->last_ns) / 1000;
    int64_t total = used.total_ns - governor->used.total_ns;
    int64_t pass = used.pass_ns - governor->used.pass_ns;
    int64_t allowed = elapsed_us * per_second(governor) / 1000000;
    /* A burst that is judged early is what a second uses; it is a rate when it goes on. */
    int is_early = elapsed_us < UPDATE_NS / 1000;
    int64_t judged_us = is_early && !governor->was_early ? UPDATE_NS / 1000 : elapsed_us;
    int64_t debt, most, fits, other;

    governor->last_ns = now_ns;
    governor->used = used;
    if (governor->permille == 0 || elapsed_us == 0)
        return 0;
    governor->was_early = is_early;
    governor->allowed_ns += allowed;
    settle(governor, now_ns, allowed - total);
    remember(governor, now_ns);
    pass = pass * 1000000 / judged_us;
    other = total * 1000000 / judged_us - pass;
    debt = -governor->credit_ns;
    if (debt > 0 || with_less(governor, pass, other) * 100 > per_second(governor) * LOW_PERCENT)
        governor->low_since_ns = now_ns;
    most = per_second(governor) - debt / repay_s(governor, now_ns);
    fits = room(governor, now_ns);
    if (debt > 0 && pass + other > most &&
        (debt > OWED_S * per_second(governor) || pass + other > fits))
        return lower(governor, now_ns, most < fits ? most : fits, pass, other);
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
