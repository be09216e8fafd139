#include "session/self_metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

_Static_assert(FP_COUNTER_COUNT + 1 <= FP_GAUGES_MAX, "counters and the rate");

void fp_self_metrics_init(struct fp_self_metrics *self,
                          const struct fp_counters *stats,
                          struct fp_gauges_mailbox *node)
{
    memset(self, 0, sizeof(*self));
    self->stats = stats;
    self->node = node;
    self->at_ns = fp_clock_ns(CLOCK_MONOTONIC);
}

static int64_t ticks(const struct fp_gauges *figures)
{
    const struct fp_figure *found = fp_gauges_find(figures, "ticks");

    return found == NULL ? 0 : found->value;
}

/* Ticks in a thousand seconds, since the sample before. */
static int64_t rate(struct fp_self_metrics *self)
{
    uint64_t now = fp_clock_ns(CLOCK_MONOTONIC), passed = now - self->at_ns;
    int64_t done = ticks(&self->own) - ticks(&self->own_before);

    self->at_ns = now;
    return passed == 0 ? 0 : (int64_t)((double)done * 1e12 / (double)passed);
}

void fp_self_metrics_metrics_update(struct fp_self_metrics *self)
{
    struct fp_gauges *told;

    self->own_before = self->own;
    self->told_before = self->told;
    self->own.n = 0;
    for (int stat = 0; stat < FP_COUNTER_COUNT; stat++)
        fp_gauges_add(
            &self->own, fp_counters_name((enum fp_counter)stat),
            (int64_t)fp_counters_get(self->stats, (enum fp_counter)stat));
    fp_gauges_add(&self->own, "rate_millihertz", rate(self));
    told = self->node == NULL ? NULL : fp_gauges_mailbox_take(self->node);
    if (told != NULL)
        self->told = *told;
    free(told);
}
