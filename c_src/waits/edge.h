/* edge.h - what one process waits for, by copies of the top of its stack and of what its slots
 * point to. Called by waits.c; by itself for tests. Any thread that may use the walk's memory. */
#pragma once

#include "erts/frames.h"
#include "waits/waits.h"

/* Words of a stack's top that are copied, and frames that are looked at: a call's and its caller's
 * take some 12 of them. */
#define FP_TOP_WORDS 24u
#define FP_TOP_FRAMES 8u

/* What is read before the walk: the root of the monitors with its reference, which lies behind it,
 * and the beginnings of the terms that slots point to. */
#define FP_TOP_ROOT_WORDS 18u
#define FP_TOP_TERM_WORDS 4u
#define FP_TOP_TERMS 3u

struct fp_top_term {
    uint64_t address;
    uint32_t words; /* 0: it could not be read */
    uint64_t word[FP_TOP_TERM_WORDS];
};

struct fp_top {
    uint64_t i;
    uint64_t monitors; /* address of the monitor tree's root */
    uint32_t words;
    uint32_t is_cut; /* the stack has more */
    uint64_t word[FP_TOP_WORDS];
    uint32_t frames;
    struct fp_stack_frame frame[FP_TOP_FRAMES];
    int site;            /* of `i`, or -1 */
    uint32_t root_words; /* 0: it could not be read */
    uint64_t root[FP_TOP_ROOT_WORDS];
    uint32_t terms;
    struct fp_top_term term[FP_TOP_TERMS];
};

/* Finds the frames. `i`, `words`, `is_cut` and `word` are set. */
void fp_top_frames(struct fp_top *top, const struct fp_ranges *code, const struct fp_sites *sites,
                   const uint8_t *is_valid);

/* Where `term` is to be read: what fp_top_edge() will walk on first. */
void fp_top_wanted(struct fp_top *top, const struct fp_sites *sites, const uint8_t *is_valid);

/* All but the pid. The walk is begun anew. */
void fp_top_edge(const struct fp_top *top, const struct fp_sites *sites, const uint8_t *is_valid,
                 struct fp_walk *walk, struct fp_wait *wait);
