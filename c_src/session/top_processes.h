/* top_processes.h - the top N processes by each of some rankings.
 *
 * A pass reads the process table once, in slices, so that no tick is lost to it. SAMPLER THREAD
 * only; after creation no allocation, and no system call but reads. O(n log N): a heap keeps the N
 * largest, with the least at its root. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/metric.h"
#include "base/safe_read.h"
#include "erts/layout.h"
#include "session/growers.h"

struct fp_top_processes;

/* A ranking of the processes, and how many of its first are selected. */
struct fp_ranking {
    uint8_t metric;   /* enum fp_metric */
    uint8_t is_delta; /* its growth since the ranking's last pass, or since the process' start */
    uint32_t top;     /* how many */
    uint32_t every;   /* passes: 1 for each, 2 for every other */
};
#define FP_RANKINGS_MAX 8u

/* The sum of `top`. */
uint64_t fp_rankings_top(const struct fp_ranking *ranking, size_t rankings);

/* Processes that are never selected: the profiler's own. */
#define FP_EXCLUDED_MAX 32u

/* 0, FP_ENOMEM or FP_EINVAL. `layout` and `memory` must outlive it; rankings and pids are
 * copied. `growers`: places for processes that grow, beside those that the rankings select. */
int fp_top_processes_create(struct fp_top_processes **top, const struct fp_layout *layout,
                            const struct fp_memory *memory, const struct fp_ranking *ranking,
                            size_t rankings, uint32_t growers, const uint64_t *excluded,
                            size_t excluded_n);
void fp_top_processes_destroy(struct fp_top_processes *top);

/* Reads the next `slots` of the table. 1 when that ends a pass: its result stands until the next
 * call. */
int fp_top_processes_step(struct fp_top_processes *top, uint32_t slots);

/* The result of the last pass, in no order: ranking after ranking, so a process may be in it twice,
 * and then the growers, which are in no ranking. A ranking that had no part in the pass keeps its
 * last result. *processes: the slots in use. */
const struct fp_candidate *fp_top_processes_selected(const struct fp_top_processes *top, size_t *n,
                                                     uint64_t *processes);

/* Of these, the growers. */
size_t fp_top_processes_growers(const struct fp_top_processes *top);

/* Selects only this part of each ranking's `top` and of the growers, rounded up (1: all), from the
 * next pass on. */
void fp_top_processes_divide(struct fp_top_processes *top, uint32_t divisor);

/* Slots of the whole table. */
uint32_t fp_top_processes_slots(const struct fp_top_processes *top);
