/* blocks.h - whole samples on their way to a file.
 *
 * Samples come into the open block. A closed block is written, or cut off again, in one piece: with
 * compression it is one zstd frame. Closed blocks wait in order. All memory is mapped at creation.
 * WRITER THREAD only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_blocks;

struct fp_block {
    size_t bytes; /* as in the file */
    size_t text;  /* before compression */
    uint64_t weight;
    int64_t offset_ns; /* Unix time less monotonic time, of its samples */
    /* Monotonic: of its first sample, and of its end. */
    int64_t begun_ns, ended_ns;
};

/* 0 or FP_ENOMEM. */
int fp_blocks_create(struct fp_blocks **blocks, bool is_zst);
void fp_blocks_destroy(struct fp_blocks *blocks);

/* Text of `weight` samples; a block that is full is closed behind it. 0; FP_EFULL or FP_ENOMEM:
 * refused whole. FP_ENOMEM, a failure of libzstd, costs the open block too. `offset_ns` is the same
 * for all samples of a block. */
int fp_blocks_put(struct fp_blocks *blocks, const char *text, size_t size, uint64_t weight,
                  int64_t offset_ns);
/* Closes the open block where it has text. 0; FP_EFULL: it is still open; FP_ENOMEM, as above. */
int fp_blocks_end(struct fp_blocks *blocks);

/* The oldest closed block, or NULL; valid until the next call. */
const struct fp_block *fp_blocks_first(const struct fp_blocks *blocks, const char **bytes);
void fp_blocks_drop_first(struct fp_blocks *blocks);
/* Of the open block, also while that is empty: no two have the same, and none has 0. */
uint64_t fp_blocks_number(const struct fp_blocks *blocks);
/* The open block; all 0 where it is empty. */
const struct fp_block *fp_blocks_open(const struct fp_blocks *blocks);
void fp_blocks_clear(struct fp_blocks *blocks);

/* Text and weight of the open and all closed blocks. */
void fp_blocks_waiting(const struct fp_blocks *blocks, uint64_t *text, uint64_t *weight);
/* CPU time of the calling thread that compression has taken so far. */
uint64_t fp_blocks_cpu_ns(const struct fp_blocks *blocks);
