/* record_encoder.h - the items of the portable engine, into the ring.
 *
 * flame_prof_portable samples with process_info/2, keeps the tables of frames, stacks and processes
 * itself and names their slots; here its items become the records that the sampler makes, too. One
 * caller at a time. Every argument is checked: FP_EINVAL where it is out of range. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/metric.h"
#include "base/ring.h"

struct fp_record_encoder;

struct fp_text {
    const unsigned char *bytes;
    size_t size; /* at most 1020 */
};

struct fp_mfa_text {
    int is_some; /* 0: the rest is 0, too */
    struct fp_text module, function;
    uint32_t arity;
};

/* 0 or FP_ENOMEM. Each tick sets *clock. */
int fp_record_encoder_create(struct fp_record_encoder **encoder, struct fp_ring *ring,
                             struct fp_counters *counters, struct fp_sample_clock *clock);
void fp_record_encoder_destroy(struct fp_record_encoder *encoder);

/* A tick began at this time: Unix time by the node's clock as of the start; `step_us` is how far
 * that clock has moved since. `missed` deadlines passed before it. 0, or FP_EINVAL for a time
 * before 1970 or after 9999. */
int fp_record_encoder_tick(struct fp_record_encoder *encoder, uint64_t missed, int64_t time_us,
                           int64_t step_us);
/* Only counted: ticks done, ticks missed, and samples taken and dropped, which the engine had no
 * room for. */
void fp_record_encoder_lost(struct fp_record_encoder *encoder, uint64_t ticks, uint64_t missed,
                            uint64_t samples);

/* Definitions. 0, FP_EINVAL, or FP_EFULL: the caller defines again before it uses the slot; samples
 * until then are dropped. */
int fp_record_encoder_process(struct fp_record_encoder *encoder, uint32_t slot, uint32_t number,
                              uint32_t serial, struct fp_text name, struct fp_text label,
                              const struct fp_mfa_text *initial,
                              const struct fp_mfa_text *proc_lib);
int fp_record_encoder_frame(struct fp_record_encoder *encoder, uint32_t id, struct fp_text module,
                            struct fp_text function, uint32_t arity, uint32_t line,
                            struct fp_text file);
/* Frames: an id, or -1 truncated, -2 running. */
int fp_record_encoder_stack(struct fp_record_encoder *encoder, uint32_t slot, const int32_t *frame,
                            size_t n);

/* One process-sample, at the time of the last tick; counted as taken, and as dropped when the ring
 * is full. 0, FP_EINVAL or FP_EFULL. */
int fp_record_encoder_sample(struct fp_record_encoder *encoder, uint32_t process, uint32_t stack,
                             uint32_t status, const int64_t value[FP_METRIC_COUNT]);
