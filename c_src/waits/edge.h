/* edge.h - what one process waits for, by copies of the top of its stack and of what its slots
 * point to. Called by waits.c; by itself for tests. Any thread that may use the walk's memory. */
#pragma once

#include "erts/frames.h"
#include "waits/waits.h"

/* Words of a stack's top that are copied, and frames that are looked at. */
#define FP_TOP_WORDS 40u
#define FP_TOP_FRAMES 8u

struct fp_top {
    uint64_t i;
    uint64_t monitors; /* root of the monitor tree */
    uint32_t words;
    uint32_t is_cut; /* the stack has more */
    uint64_t word[FP_TOP_WORDS];
    uint32_t frames;
    struct fp_frame frame[FP_TOP_FRAMES];
    int site; /* of `i`, or -1 */
};

/* Finds the frames. `i`, `words`, `is_cut` and `word` are set. */
void fp_top_frames(struct fp_top *top, const struct fp_ranges *code, const struct fp_sites *sites,
                   const uint8_t *is_valid);

/* Words that fp_top_edge() will walk on. How many, `room` at most. */
uint32_t fp_top_wanted(const struct fp_top *top, const struct fp_sites *sites,
                       const uint8_t *is_valid, uint64_t *word, uint32_t room);

/* All but the pid. */
void fp_top_edge(const struct fp_top *top, const struct fp_sites *sites, const uint8_t *is_valid,
                 const struct fp_envelopes *envelope, struct fp_walk *walk, struct fp_wait *wait);
