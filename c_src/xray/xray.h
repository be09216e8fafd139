/* xray.h - what a process of this node holds, and by which way from its roots.
 *
 * The process is not asked and does not notice. Its memory is copied in blocks (heap.h) and walked
 * outside of the VM (walker.h), from its roots in this order:
 *
 *   stack, from the leaf on; registers; dictionary; messages; what the structure itself holds
 *
 * What two of them share counts at the first. What none leads to is garbage, which the next
 * collection lets go; refc binaries that only garbage refers to are counted apart.
 *
 * The answer is exact: the process structure is the same before and after (process_terms.h). Where
 * it is not, the look begins again, for as long as the time limit says; then there is no answer,
 * but an error. Where all of its memory fits into the limit it is copied first, with the sizes of
 * its binaries: then it must stand still for the copy only (begin.c). Messages that are appended
 * meanwhile are not in it.
 *
 * One thread, which may pause; limits->bytes of memory. */
#pragma once

#include "base/maps.h"
#include "erts/layout.h"
#include "xray/paths.h"

struct fp_xray_limits {
    uint64_t bytes; /* of its own memory */
    uint32_t time_ms;
};

struct fp_xray_binaries_sum {
    uint64_t count, bytes;
    uint64_t shared_bytes; /* of those that others refer to, too */
};

struct fp_xray_answer {
    int err; /* 0; FP_EGONE; FP_ETORN: it ran, or never held still; FP_EFULL; FP_ELAYOUT; ... */
    int is_complete;
    uint32_t attempts;
    uint64_t bytes_needed; /* FP_EFULL: limits->bytes at least */
    /* In words; what is in use of: */
    uint64_t young_words, old_words, fragment_words, message_words, stack_words;
    uint64_t block_words; /* of both heaps, used or not */
    uint64_t reached_words;
    uint64_t root_words[FP_XRAY_OWN + 1]; /* of these, by the root's step */
    uint64_t dictionary_bytes;            /* of its array */
    uint64_t memory_bytes;                /* of all of this, as process_info(Pid, memory) */
    uint64_t messages, undecoded;
    uint64_t message_bytes; /* of their structures; `message_words` lie beside these */
    uint64_t literals;      /* references to literals: not in any of these numbers */
    uint64_t left_out;      /* objects that lay too deep, with all behind them */
    uint64_t binaries_untold;
    struct fp_xray_binaries_sum binaries, garbage;
    /* Sums, from node 0 on. A shape's words are its own; valid as long as the look. */
    const struct fp_xray_paths *paths, *types;
};

struct fp_xray;

/* 0; FP_EGONE, FP_EFAULT, FP_ENOMEM. `layout`, `memory` and `code`, the ranges of return addresses,
 * must outlive it. */
int fp_xray_open(struct fp_xray **xray, const struct fp_layout *layout,
                 const struct fp_memory *memory, const struct fp_ranges *code, uint64_t pid,
                 const struct fp_xray_limits *limits);
void fp_xray_close(struct fp_xray *xray);

/* Visits some objects more. 1: the answer stands. */
int fp_xray_step(struct fp_xray *xray, uint32_t objects);
const struct fp_xray_answer *fp_xray_answer(const struct fp_xray *xray);
