/* self_metrics.h - the gauges in the profiler's own sample of each flush: the session's counters,
 * the rate it achieves, the offset of its clock, and the node's gauges, which Erlang puts into a
 * mailbox. WRITER THREAD only. */
#pragma once

#include "base/counters.h"
#include "base/gauges.h"

struct fp_self_metrics {
    const struct fp_counters *counters;
    struct fp_gauges_mailbox *mailbox; /* NULL: no gauges of the node */
    /* Of this sample, and of the one before. */
    struct fp_gauges own, own_before, node, node_before;
    int64_t at_ns; /* of this sample */
    uint64_t ticks;
};

void fp_self_metrics_init(struct fp_self_metrics *self, const struct fp_counters *counters,
                          struct fp_gauges_mailbox *mailbox);
/* All gauges as they are now. */
void fp_self_metrics_update(struct fp_self_metrics *self, int64_t clock_offset_us);
