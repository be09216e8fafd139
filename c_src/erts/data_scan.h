/* data_scan.h - searches for a structure in the writable data of the VM; what refuses a layout, and
 * why. */
#pragma once

#include "base/maps.h"
#include "base/safe_read.h"

struct fp_refusal {
    int err;        /* FP_ELAYOUT, FP_EAMBIGUOUS, FP_ENOENT ... */
    char field[32]; /* a field, "process_table", ... */
    char why[160];  /* one sentence */
};

/* Returns err. */
__attribute__((format(printf, 4, 5))) int fp_refuse(struct fp_refusal *refusal, int err,
                                                    const char *field, const char *why, ...);

/* 0: there is one; FP_ENOENT or FP_EAMBIGUOUS. */
int fp_scan_judge(uint32_t candidates);

/* The one word of these ranges for which `fits` is not 0. It gets the word's address, and a copy of
 * `bytes` (at most FP_SCAN_BYTES) from there, which end in the range. 0, as above, or FP_ENOMEM. */
#define FP_SCAN_BYTES 4096u
int fp_scan(const struct fp_memory *memory, const struct fp_ranges *data, uint32_t bytes,
            int (*fits)(void *arg, uint64_t at, const unsigned char *copy), void *arg,
            uint64_t *found);
