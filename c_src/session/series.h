/*
 * series.h - the samples of one process, each with its change since the one before. Both engines'
 * way into the ring. PRODUCER's thread only.
 */
#ifndef FP_SESSION_SERIES_H
#define FP_SESSION_SERIES_H

#include <stdint.h>

#include "base/metric.h"
#include "base/ring.h"

/* All 0: nothing sampled yet. */
struct fp_series {
    uint8_t sampled; /* what follows is that of the last sample pushed */
    uint8_t status;
    uint32_t stack;
    int64_t value[FP_METRIC_COUNT];
};

/* Put a SAMPLE, or a REPEAT when nothing has changed, into the ring. 0, or FP_EFULL: then the
 * series is as it was, and the next sample's deltas reach back to the last one that was taken. The
 * first sample's deltas are 0. */
int fp_series_push(struct fp_series *series, struct fp_ring *ring, uint32_t process, uint32_t stack,
                   uint8_t status, int64_t time_us, const int64_t value[FP_METRIC_COUNT]);

#endif
