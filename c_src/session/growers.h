/* growers.h - processes whose message queue or memory has grown since the previous selection.
 *
 * Some of them are sampled beside the top processes, so that what piles up is in the profile where
 * it costs few reductions, too. SAMPLER THREAD; after creation no allocation, and no system call
 * but reads.
 *
 * A pass by reductions reads a word of each process. The sizes lie in ten further cache lines, so a
 * pass reads them of a part of the processes only:
 *
 *   has run, is new   its sizes may differ. All, while there are at most some thousands; of more,
 *                     each second, fourth ... in turn
 *   has not run       it can only have got messages: of each sixteenth in turn (of all, on
 *                     a small node) the length of the queue that senders write to is read first */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/safe_read.h"
#include "erts/layout.h"
#include "erts/process.h"

struct fp_growers;

/* The data of a pass about a process whose reductions it has read. */
enum fp_change { FP_CHANGE_UNREADABLE, FP_CHANGE_NONE, FP_CHANGE_RAN, FP_CHANGE_NEW };

/* A process, and what it is selected for. Among equal scores the greater value is first: in a short
 * interval few processes have moved at all, and the places that are left go to those that have done
 * the most since their start. */
struct fp_candidate {
    int64_t score; /* the metric, or its growth */
    int64_t value; /* the metric itself */
    uint64_t id;   /* pid term */
    uint64_t address;
};

/* Most places. */
#define FP_GROWERS_MAX 100u

struct fp_growers_options {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    const uint64_t *excluded; /* pids that are never selected */
    size_t excluded_n;
    uint32_t places; /* from 1 on */
    /* Scratch of the caller. */
    struct fp_safe_read_span *span; /* FP_SAFE_READ_BATCH_MAX */
    unsigned char *bytes;           /* bytes_n, for one structure at least */
    size_t bytes_n;
};

/* 0 or FP_ENOMEM. The memory that the options point to must outlive it. */
int fp_growers_create(struct fp_growers **growers, const struct fp_growers_options *options);
/* NULL is nothing. */
void fp_growers_destroy(struct fp_growers *growers);

/* Processes of this pass, FP_SAFE_READ_BATCH_MAX at most: address, slot and enum fp_change of each.
 * Those whose turn it is are read. */
void fp_growers_read(struct fp_growers *growers, const uint64_t *address, const uint32_t *slot,
                     const uint8_t *change, uint32_t n);
/* A process of this pass that the caller has read already. */
void fp_growers_see(struct fp_growers *growers, uint64_t address, uint32_t slot, int is_new,
                    const struct fp_snapshot *now);

/* Ends a pass: those that grew most and are not among `ranked`, to `into`: how many. At most
 * the part `divisor` of the places, rounded up. */
size_t fp_growers_end(struct fp_growers *growers, const struct fp_candidate *ranked, size_t n,
                      uint32_t divisor, struct fp_candidate *into);
