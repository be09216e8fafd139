/* share.h - which processes are traced: 1 in 2^k, by a hash of the pid.
 *
 * k is 0 on most nodes: all processes are traced, new ones too. It is more from the start if a node
 * has more than FP_SHARE_MOST processes, since to set a flag costs some 10 us. It grows by one each
 * time that the tracing comes near its limit of CPU time: half of the processes lose their flags,
 * each when it is scheduled in, and the others count twice.
 *
 * WHAT IS RIGHT. The leading k bits of the hash are 0 for a process of the share. The hash has a
 * random number that nothing else knows, so a process is in the share with the chance 2^-k, and its
 * words with the weight 2^k have the expectation that they should have. Each process of a smaller
 * share is in the larger one, too: no flag that was lost is needed again. Numbers of pids follow
 * each other, and their multiples of the golden ratio are spread evenly: a share has as many of
 * each kind of process, but for one or two, even if every second or third process is of one kind.
 *
 * WHAT IS CHANCE. Processes differ. fp_share_variance() is by sums of FP_SHARE_GROUPS random groups
 * of the processes in the share. It cannot know of a process that does most of the work and is not
 * in the share: that one is missing.
 *
 * THREADS  any. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "erts/layout.h"

#define FP_SHARE_MOST 8192u
#define FP_SHARE_GROUPS 32u

struct fp_share {
    const struct fp_layout *layout;
    uint32_t seed;
    _Atomic uint32_t k, pressure; /* pressure: at the last step */
    _Atomic int64_t stepped_ns;
};

void fp_share_init(struct fp_share *share, const struct fp_layout *layout, uint64_t seed);
/* 2^k; 0: the process is not of the share. */
double fp_share_weight(const struct fp_share *share, uint64_t pid);
/* 1 in so many processes. */
uint32_t fp_share_of(const struct fp_share *share);
uint32_t fp_share_group(const struct fp_share *share, uint64_t pid);
/* Before the tracing: of so many processes. */
void fp_share_fit(struct fp_share *share, uint64_t processes);
/* A smaller share, if the pressure on the limit of CPU time (fp_tracer_pressure()) is high and
 * grows, unless fewer than FP_SHARE_LEAST of `processes` would be left: then the limit is to end
 * the tracing. */
#define FP_SHARE_LEAST 64u
void fp_share_press(struct fp_share *share, uint32_t pressure, int64_t now_ns, uint64_t processes);
/* The variance of the sum of `words`, the words of each group with a weight of more than 1. */
double fp_share_variance(const struct fp_share *share, const double words[FP_SHARE_GROUPS]);

/* What fp_share_press() need not be called for. */
#define FP_SHARE_PRESSURE 64u
