/* carry.h - the numbers and words of a sample, whole.
 *
 * A session's file of format 2 leaves out what is as it was in the process' sample before. The
 * first sample of a process in each block of the file has all, and only such a sample has words of
 * its process. Words of a sample (format 3) are never carried.
 *
 * After damage the sample before is not known: numbers and words of a process are absent, not
 * wrong, until its next whole sample.
 *
 * Not shared between threads. */
#pragma once

#include <stdbool.h>

#include "format/parse.h"
#include "report/rows.h"
#include "report/strings.h"

struct fp_carried; /* the last sample of one process */

/* All 0: no sample yet. */
struct fp_carry {
    struct fp_table table; /* by pid and tid */
    struct fp_carried *process;
    size_t count, room;
    uint32_t damages;
    /* The first numbers of a sample of the profiler itself that goes on in the next one. */
    struct fp_carried_numbers {
        uint32_t count, damages;
        uint32_t key[FP_METRICS_MOST];
        int64_t value[FP_METRICS_MOST], delta[FP_METRICS_MOST];
    } begun;
};

/* Of one sample. `is_begun`: it has no fields, and goes on in the next sample. Texts are of the
 * strings that fp_carry_read() gets. */
struct fp_fields {
    uint32_t count;
    uint32_t key[FP_METRICS_MOST];
    int64_t value[FP_METRICS_MOST], delta[FP_METRICS_MOST];
    uint32_t words;
    bool is_begun;
    struct fp_slice of_sample; /* fp_split_words(): part of the sample's text */
};

/* The fields of `sample`. *fields has those of any sample before, whose keys are likely again. 0;
 * FP_EINVAL and why in *bad; FP_EFULL or FP_ENOMEM. */
int fp_carry_read(struct fp_carry *carry, struct fp_strings *strings, struct fp_budget *budget,
                  const struct fp_sample *sample, struct fp_fields *fields, const char **bad);
/* A sample was damaged, or another file begins. */
void fp_carry_damage(struct fp_carry *carry);
void fp_carry_free(struct fp_carry *carry, struct fp_budget *budget);
