/* carriers.h - where the carriers of the VM's allocators are, by their lists: an Allctr_t has the
 * first and the last carrier with many blocks, then of those with one, and later the ring of
 * carriers in the pool. A carrier begins with its size and the address of the next one.
 *
 * A walk is proof of itself: carriers and bytes are those of the instance's counters, or what was
 * walked is left out. An instance at work is tried some times.
 *
 * Any thread; some 400 ns for each carrier: a dirty scheduler's work. */
#pragma once

#include "erts/allocators.h"

/* Sets allocators->lists: the one offset at which the lists of FP_ALLOCATORS_AGREE instances agree
 * with their counters. 0, FP_ENOENT, FP_EAMBIGUOUS or FP_ENOMEM. */
int fp_carriers_solve(struct fp_allocators *allocators, const struct fp_memory *memory);

struct fp_carriers {
    struct fp_range
        *range; /* by address; those of walks that did not prove themselves are not in */
    uint32_t count, room;
    uint64_t bytes;   /* of them */
    uint64_t counted; /* bytes by the counters of all instances */
};

/* 0, FP_ENOENT (lists are not known), FP_EFAULT (an instance is not readable) or FP_ENOMEM.
 * fp_carriers_free() after 0 only. */
int fp_carriers_walk(const struct fp_allocators *allocators, const struct fp_memory *memory,
                     struct fp_carriers *carriers);
void fp_carriers_free(struct fp_carriers *carriers);
