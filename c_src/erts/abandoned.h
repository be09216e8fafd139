/* abandoned.h - a heap that a collection was put off on.
 *
 * A process that cannot be collected at once (its heap is large, so a dirty scheduler shall do it)
 * goes on in a fragment, and its heap is `abandoned` until the collection (erl_gc.c,
 * delay_garbage_collection):
 *
 *      abandoned_heap  high water   used words          filler          its last word: used words
 *      | survived       | allocated  |                                  |
 *
 * The high water is in the structure still (25), or in the word at the fragment's `hend` (27). Any
 * thread. */
#pragma once

#include <stdint.h>

#include "base/safe_read.h"

/* Behind `hend` in the structure (erl_process.h, all listed releases): the heap, or NULL; and the
 * words of the heap, of the abandoned one where there is one. */
#define FP_ABANDONED_BEHIND_HEND 8u
#define FP_SIZE_BEHIND_HEND 16u

/* Where the used words of the heap of `size` words end, and its high water: *high_water is the
 * structure's. One to three reads. 0; FP_EFAULT; FP_ETORN: the words do not fit each other. */
int fp_abandoned_read(const struct fp_memory *memory, uint64_t heap, uint64_t size, uint64_t hend,
                      uint64_t *high_water, uint64_t *top);
