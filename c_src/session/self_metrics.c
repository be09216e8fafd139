#include "session/self_metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

_Static_assert(FP_COUNTER_COUNT + 2 <= FP_GAUGES_MAX, "counters and two more");

void fp_self_metrics_init(struct fp_self_metrics *self, const struct fp_counters *counters,
                          struct fp_gauges_mailbox *mailbox)
{
    memset(self, 0, sizeof(*self));
    self->counters = counters;
    self->mailbox = mailbox;
    self->at_ns = fp_monotonic_ns();
}

/* Ticks in a thousand seconds, since the sample before. */
static int64_t rate(struct fp_self_metrics *self)
{
    uint64_t ticks = fp_counters_get(self->counters, FP_COUNTER_ticks);
    int64_t now = fp_monotonic_ns(), passed = now - self->at_ns;
    double done = (double)(ticks - self->ticks);

    self->at_ns = now;
    self->ticks = ticks;
    return passed == 0 ? 0 : (int64_t)(done * 1e12 / (double)passed);
}

void fp_self_metrics_update(struct fp_self_metrics *self, int64_t clock_offset_us)
{
    struct fp_gauges *latest;

    self->own_before = self->own;
    self->node_before = self->node;
    self->own.n = 0;
    for (int i = 0; i < FP_COUNTER_COUNT; i++)
        fp_gauges_add(&self->own, fp_counters_name((enum fp_counter)i),
                      (int64_t)fp_counters_get(self->counters, (enum fp_counter)i));
    fp_gauges_add(&self->own, "rate_millihertz", rate(self));
    fp_gauges_add(&self->own, "clock_offset_us", clock_offset_us);
    latest = self->mailbox == NULL ? NULL : fp_gauges_mailbox_take(self->mailbox);
    if (latest != NULL)
        self->node = *latest;
    free(latest);
}
