/*
 * top_processes.h - the top N processes by each of some rules.
 *
 * One pass over the process table, cut into slices so that no tick is lost to it; SAMPLER THREAD
 * only, no allocation after creation. The N largest are kept in a heap whose root is the smallest
 * of them: O(n log N), nothing is sorted but addresses, and those only because reading neighbours
 * together costs the kernel less.
 */
#ifndef FP_SESSION_TOP_PROCESSES_H
#define FP_SESSION_TOP_PROCESSES_H

#include <stddef.h>
#include <stdint.h>

#include "base/metric.h"
#include "base/safe_read.h"
#include "erts/layout.h"

struct fp_top_processes;

/* A ranking of the processes, and how many of its first are targets. */
struct fp_ranking {
    uint8_t metric;   /* enum fp_metric */
    uint8_t is_delta; /* what it has grown by since the rule's last pass; since
                         the process' start when that is new */
    uint32_t top;     /* how many */
    uint32_t every;   /* passes: 1 for each, 2 for every other */
};
#define FP_RANKINGS_MAX 8u

/* Of equal figures the greater value wins: in a short or starved interval few have moved at all,
 * and the places that are left go to the processes that have done the most since their start, not
 * to the first that come. */
struct fp_candidate {
    int64_t figure; /* what the rule goes by */
    int64_t value;  /* the metric itself */
    uint64_t id;    /* pid term */
    uint64_t address;
};

/* Processes never chosen, by pid: our own. */
#define FP_EXCLUDED_MAX 32u

/* 0, FP_ENOMEM or FP_EINVAL. `layout` and `peek` must outlive it; rules and pids are copied. */
int fp_top_processes_create(struct fp_top_processes **selector, const struct fp_layout *layout,
                            const struct fp_memory *peek, const struct fp_ranking *rule,
                            size_t rules, const uint64_t *excluded, size_t n);
void fp_top_processes_destroy(struct fp_top_processes *selector);

/* Look at the next `slots` of the table. 1 when that ended a pass: its result stands until the next
 * call. */
int fp_top_processes_step(struct fp_top_processes *selector, uint32_t slots);

/* Of the pass that has ended: the chosen, in no order, rule after rule (so that one may be there
 * twice), and how many processes there were. A rule that had no part in that pass stays with its
 * last choice. */
const struct fp_candidate *fp_top_processes_selected(const struct fp_top_processes *selector,
                                                     size_t *n, uint64_t *processes);

/* Choose only this part of each rule's `top`, rounded up (1: all), from the next pass on. */
void fp_top_processes_divide(struct fp_top_processes *selector, uint32_t divisor);

/* Slots of the whole table. */
uint32_t fp_top_processes_slots(const struct fp_top_processes *selector);

#endif
