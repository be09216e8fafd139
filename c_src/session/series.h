/* series.h - the samples of one process, each with its growth since the one before: the way of both
 * engines into the ring. PRODUCER's thread only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/metric.h"
#include "base/ring.h"
#include "format/record.h"

/* All 0: nothing sampled yet. */
struct fp_series {
    uint8_t sampled; /* what follows is that of the last sample pushed */
    uint8_t status;
    uint16_t scheduler; /* of the next sample, for its head */
    uint32_t stack;
    int64_t value[FP_METRIC_COUNT];
};

/* Puts a SAMPLE, or a REPEAT when nothing has changed, into the ring. 0, or FP_EFULL: then the
 * series stays as it was, and the next sample's deltas reach back to the last one in the ring. The
 * first sample's deltas are 0. `work`: of this sample, or NULL. */
int fp_series_push(struct fp_series *series, struct fp_ring *ring, uint32_t process, uint32_t stack,
                   uint8_t status, int64_t time_us, const int64_t value[FP_METRIC_COUNT],
                   const struct fp_work *work);

/* A definition: a record of `size` bytes with its head, the rest 0, for fp_ring_commit(). NULL: the
 * ring is full. */
void *fp_record_begin(struct fp_ring *ring, enum fp_record_type type, size_t size);
