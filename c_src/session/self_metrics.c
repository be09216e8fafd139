#include "session/self_metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

_Static_assert(FP_COUNTER_COUNT + 2 <= FP_GAUGES_MAX, "counters and two more");

void fp_self_metrics_init(struct fp_self_metrics *self, const struct fp_counters *stats,
                          struct fp_gauges_mailbox *mailbox)
{
    memset(self, 0, sizeof(*self));
    self->stats = stats;
    self->mailbox = mailbox;
    self->at_ns = fp_monotonic_ns();
}

static int64_t ticks(const struct fp_gauges *gauges)
{
    const struct fp_gauge *found = fp_gauges_find(gauges, "ticks");

    return found == NULL ? 0 : found->value;
}

/* Ticks in a thousand seconds, since the sample before. */
static int64_t rate(struct fp_self_metrics *self)
{
    int64_t now = fp_monotonic_ns(), passed = now - self->at_ns;
    int64_t done = ticks(&self->own) - ticks(&self->own_before);

    self->at_ns = now;
    return passed == 0 ? 0 : (int64_t)((double)done * 1e12 / (double)passed);
}

void fp_self_metrics_update(struct fp_self_metrics *self, int64_t clock_offset_us)
{
    struct fp_gauges *latest;

    self->own_before = self->own;
    self->node_before = self->node;
    self->own.n = 0;
    for (int i = 0; i < FP_COUNTER_COUNT; i++)
        fp_gauges_add(&self->own, fp_counters_name((enum fp_counter)i),
                      (int64_t)fp_counters_get(self->stats, (enum fp_counter)i));
    fp_gauges_add(&self->own, "rate_millihertz", rate(self));
    fp_gauges_add(&self->own, "clock_offset_us", clock_offset_us);
    latest = self->mailbox == NULL ? NULL : fp_gauges_mailbox_take(self->mailbox);
    if (latest != NULL)
        self->node = *latest;
    free(latest);
}
