/*
 * blocks.h - whole samples on their way to a file.
 *
 * Samples come into the open block; a closed one is what is written in one
 * piece, or cut off again in one piece, and never divided: with compression
 * one zstd frame. Closed blocks wait in the order in which they came. Memory
 * is bounded and taken at the beginning. WRITER THREAD only.
 */
#ifndef FP_STORE_BLOCKS_H
#define FP_STORE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct fp_blocks;

struct fp_block {
    size_t bytes; /* as in the file */
    size_t text;  /* before it was compressed */
    uint64_t looks;
    time_t begun; /* when its first sample came */
    /* The same, and when it was closed; of the monotonic clock. */
    uint64_t begun_ms, ended_ms;
};

/* 0 or FP_ENOMEM. */
int fp_blocks_create(struct fp_blocks **blocks, bool is_zst);
void fp_blocks_destroy(struct fp_blocks *blocks);

/* 0; FP_EFULL or FP_ENOMEM: refused whole. `looks` is how many samples it stands
 * for. FP_ENOMEM, which only a failure of libzstd is, costs the open block too. */
int fp_blocks_put(struct fp_blocks *blocks, const char *text, size_t size,
                  uint64_t looks);
/* Close the open block, if there is anything in it. 0; FP_EFULL: it is still
 * open; FP_ENOMEM, as above. */
int fp_blocks_end(struct fp_blocks *blocks);

/* The oldest closed block, or NULL; valid until the next call. */
const struct fp_block *fp_blocks_first(const struct fp_blocks *blocks,
                                       const char **bytes);
void fp_blocks_drop_first(struct fp_blocks *blocks);
/* The open block; all 0 where there is nothing in it. */
const struct fp_block *fp_blocks_open(const struct fp_blocks *blocks);
/* Forget everything. */
void fp_blocks_clear(struct fp_blocks *blocks);

/* Text and looks of the open and all closed blocks. */
void fp_blocks_waiting(const struct fp_blocks *blocks, uint64_t *text,
                       uint64_t *looks);
/* CPU time of the calling thread that compression has taken so far. */
uint64_t fp_blocks_cpu_ns(const struct fp_blocks *blocks);
/* Bytes of memory that it has, or may come to have. */
size_t fp_blocks_memory(const struct fp_blocks *blocks);

#endif
