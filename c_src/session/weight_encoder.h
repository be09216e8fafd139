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
#include "format/weight.h"

struct fp_weight_encoder;

/* 0 or FP_ENOMEM. What is pointed to must outlive it; no other thread uses `memory`. */
int fp_weight_encoder_create(struct fp_weight_encoder **encoder, const struct fp_layout *layout,
                             const struct fp_memory *memory, struct fp_ring *ring,
                             struct fp_counters *counters, const struct fp_sample_clock *clock);
void fp_weight_encoder_destroy(struct fp_weight_encoder *encoder);

/* Samples as bytes (format/weight.h), from the first on; each becomes one sample of the file, or
 * two. *taken: the bytes of those that were put. 0; FP_EINVAL; FP_EFULL: the ring has no room, and
 * the caller tries the rest later. */
int fp_weight_encoder_put_bytes(struct fp_weight_encoder *encoder, const unsigned char *bytes,
                                size_t size, size_t *taken);
