/* heap.h - memory of a process, copied in blocks, and which of its objects were visited.
 *
 * Regions are the parts of memory in which terms of the process lie: its heaps, heap fragments, and
 * for a while the fragments of one message. An address outside of all regions is that of a
 * literal: fp_xray_find() says FP_ENOENT.
 *
 *   memory    | young heap |     | old heap |    | fragment |
 *   blocks    [0][1][2][3]       [0][1][2]       [0]            16 KB each, from a region's start
 *   bits      one a word, set by the walker at the first word of an object
 *
 * A bounded number of blocks is held; the one that was not used for longest makes room. Objects
 * that were made or collected together mostly lie together, so a walk meets few blocks at a time.
 *
 * What is copied is as the VM has it at that moment: the caller proves afterwards that the process
 * has not moved. One thread. Memory by whole pages (base/pages.h). */
#pragma once

#include <stdint.h>

#include "base/safe_read.h"

#define FP_XRAY_BLOCK 16384u
#define FP_XRAY_BLOCK_WORDS (FP_XRAY_BLOCK / 8u)
/* Blocks below which a heap cannot be read. */
#define FP_XRAY_BLOCKS_MIN 64u

struct fp_xray_region {
    uint64_t start, end;  /* addresses, multiples of 8 */
    uint64_t first_bit;   /* of its words, in the bits of all regions: a multiple of 64 */
    uint32_t first_block; /* likewise, in the table of blocks */
};

struct fp_xray_heap;

struct fp_xray_heap_limits {
    uint64_t bytes;   /* of this heap's own memory, at most */
    uint64_t words;   /* of the regions that are to be added, together */
    uint32_t regions; /* likewise, their number */
};

/* 0; FP_ENOMEM; FP_EFULL: that many words need more bytes (fp_xray_heap_bytes()). `memory` must
 * outlive it. */
int fp_xray_heap_create(struct fp_xray_heap **heap, const struct fp_memory *memory,
                        const struct fp_xray_heap_limits *limits);
void fp_xray_heap_destroy(struct fp_xray_heap *heap);

/* Without its regions, where it has room for others of so many words; its memory stays. 1; 0: it
 * has not. */
int fp_xray_heap_reuse(struct fp_xray_heap *heap, uint64_t words, uint32_t regions);

/* The bytes that heaps of so many words take at least. Pure. */
uint64_t fp_xray_heap_bytes(uint64_t words, uint32_t regions);

/* Regions that stay, from address `start` on; an empty one is none. 0; FP_EFULL, FP_ETORN: it
 * overlaps with another one, or is at no possible address. After the last one
 * fp_xray_heap_sort(). */
int fp_xray_heap_add(struct fp_xray_heap *heap, uint64_t start, uint64_t words);
int fp_xray_heap_sort(struct fp_xray_heap *heap);

/* One more, until fp_xray_heap_forget(): all that were pushed. 0; FP_EFULL, FP_ENOMEM, FP_ETORN. */
int fp_xray_heap_push(struct fp_xray_heap *heap, uint64_t start, uint64_t words);
void fp_xray_heap_forget(struct fp_xray_heap *heap);

/* Words of the regions that were added, and of all that were pushed. */
uint64_t fp_xray_heap_words(const struct fp_xray_heap *heap);

/* Copies all of the regions now, of which nothing is read again until one is pushed. 0; FP_EFULL:
 * they have more blocks than are held; FP_EFAULT. */
int fp_xray_heap_load(struct fp_xray_heap *heap);

/* The region of an address: 0 or FP_ENOENT. */
int fp_xray_find(struct fp_xray_heap *heap, uint64_t address, struct fp_xray_region *region);

/* The word at an address of a region. 0; FP_ENOENT: of none; FP_EFAULT. */
int fp_xray_word(struct fp_xray_heap *heap, uint64_t address, uint64_t *word);

/* 1 for the first time. `address` is in `region`. */
int fp_xray_visit(struct fp_xray_heap *heap, const struct fp_xray_region *region, uint64_t address);
