/* weight_encoder.h - words that processes have allocated, into the ring.
 *
 * Who measures them gives one struct fp_weight for each sample of words; here that becomes the
 * PROCESS, STACK and WEIGHTED records that the writer makes a file of allocations of. One caller at
 * a time, of any thread. */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/ring.h"
#include "erts/layout.h"
#include "format/record.h"

struct fp_weight_encoder;

struct fp_weight {
    uint64_t pid;
    int64_t end_ns;            /* monotonic time */
    uint64_t words;            /* 0: told only where `is_long` */
    uint64_t window, survived; /* of `window` words so many are kept; window 0: not known */
    uint64_t length_ns;        /* of the collection */
    uint8_t cause;             /* enum fp_gc_cause */
    uint8_t is_long, is_major; /* a long collection is told */
    uint8_t message_kind;      /* enum fp_work_kind of the message in work */
    uint32_t count;
    const uint64_t *frame; /* leaf first */
    struct fp_work_tag message;
};

/* 0 or FP_ENOMEM. What is pointed to must outlive it; no other thread uses `memory`. */
int fp_weight_encoder_create(struct fp_weight_encoder **encoder, const struct fp_layout *layout,
                             const struct fp_memory *memory, struct fp_ring *ring,
                             struct fp_counters *counters, const struct fp_sample_clock *clock);
void fp_weight_encoder_destroy(struct fp_weight_encoder *encoder);

/* One or two samples, whose words are those of *weight. 0; FP_EFULL: nothing was written, and the
 * caller tries again later. */
int fp_weight_encoder_put(struct fp_weight_encoder *encoder, const struct fp_weight *weight);
