#include "base/governor.h"

#include <string.h>

/* How many seconds of the budget can be saved. */
#define SAVED_S 10
/* A step shows its effect before the next one is taken. */
#define LOWER_EVERY_NS INT64_C(2000000000)
/* One step up can double the cost: it is taken when less than this share of the
 * budget, in percent, was used all the time for so long. */
#define LOW_PERCENT 45
#define RAISE_AFTER_NS INT64_C(10000000000)

void fp_governor_init(struct fp_governor *governor, uint32_t permille,
                      int64_t now_ns)
{
    memset(governor, 0, sizeof *governor);
    governor->permille = permille;
    governor->last_ns = governor->low_since_ns = now_ns;
    governor->lowered_ns = now_ns - LOWER_EVERY_NS;
    governor->credit_ns = SAVED_S * INT64_C(1000000) * (int64_t)permille;
}

static int lower(struct fp_governor *governor, int64_t now_ns)
{
    if (governor->step == FP_GOVERNOR_STEPS - 1 ||
        now_ns - governor->lowered_ns < LOWER_EVERY_NS)
        return 0;
    governor->step++;
    governor->lowered_ns = now_ns;
    /* What was overdrawn is paid by the lower step, not twice. */
    governor->credit_ns = 0;
    return 1;
}

static int raise(struct fp_governor *governor, int64_t now_ns)
{
    if (governor->step == 0 || now_ns - governor->low_since_ns < RAISE_AFTER_NS)
        return 0;
    governor->step--;
    governor->low_since_ns = now_ns;
    return 1;
}

int fp_governor_ask(struct fp_governor *governor, int64_t now_ns,
                    int64_t used_ns)
{
    int64_t elapsed = now_ns - governor->last_ns;
    int64_t used = used_ns - governor->used_ns;
    int64_t allowed = elapsed / 1000 * governor->permille;
    int64_t most = SAVED_S * INT64_C(1000000) * governor->permille;

    governor->last_ns = now_ns;
    governor->used_ns = used_ns;
    if (governor->permille == 0)
        return 0;
    governor->credit_ns += allowed - used;
    if (governor->credit_ns > most)
        governor->credit_ns = most;
    if (used * 100 >= allowed * LOW_PERCENT)
        governor->low_since_ns = now_ns;
    if (governor->credit_ns < 0)
        return lower(governor, now_ns);
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
