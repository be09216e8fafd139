/*
 * self_metrics.h - the session's figures of itself, for the sample that it takes of
 * itself at each flush: its counters, the rate that it achieved, and what Erlang
 * has said of the node. WRITER THREAD only.
 */
#ifndef FP_SESSION_SELF_METRICS_H
#define FP_SESSION_SELF_METRICS_H

#include "base/counters.h"
#include "base/gauges.h"

struct fp_self_metrics {
    const struct fp_counters *stats;
    struct fp_gauges_mailbox *node; /* NULL: nobody says anything of the node */
    /* Of this sample, and of the one before. */
    struct fp_gauges own, own_before, told, told_before;
    uint64_t at_ns;
};

void fp_self_metrics_init(struct fp_self_metrics *self,
                          const struct fp_counters *stats,
                          struct fp_gauges_mailbox *node);
/* Look at everything now. */
void fp_self_metrics_metrics_update(struct fp_self_metrics *self);

#endif
