/*
 * self_metrics.h - the session's figures of itself, for the sample that it takes of
 * itself at each flush: its counters, the rate that it achieved, and what Erlang
 * has said of the node. WRITER THREAD only.
 */
#ifndef FP_SESSION_SELF_METRICS_H
#define FP_SESSION_SELF_METRICS_H

#include "base/counters.h"
#include "base/gauges.h"

struct fp_self {
    const struct fp_stats *stats;
    struct fp_figures_box *node; /* NULL: nobody says anything of the node */
    /* Of this sample, and of the one before. */
    struct fp_figures own, own_before, told, told_before;
    uint64_t at_ns;
};

void fp_self_init(struct fp_self *self, const struct fp_stats *stats,
                  struct fp_figures_box *node);
/* Look at everything now. */
void fp_self_look(struct fp_self *self);

#endif
