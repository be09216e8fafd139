/* stamp.h - has a process moved between two readings of its structure? Any thread.
 *
 * The words of a stamp change while a process runs, handles signals or collects. Two equal stamps
 * of a process that is off CPU in both readings prove of the time between them:
 *
 *   reds, state, i   It has run no code: a turn that goes on in its code costs a reduction. So its
 *                    stack is the same, and each value that only its code sets.
 *   heap, hend, stop, gen_gcs
 *                    Its terms are where they were. A collection that another process requests may
 *                    cost no reduction: the stamp does not show one that brings the heap back to
 *                    its place and size.
 *   dictionary       Its array is where it was, and of its size.
 *   monitors         The tree has the same root; a node below it may have come or gone.
 *
 * They do not prove what others write: senders put a message into the queue, and its terms on the
 * heap from `htop` on; register/2 names another process.
 *
 * While a process collects, one stamp may stand for several moments of the collection. */
#pragma once

#include <string.h>

#include "base/safe_read.h"
#include "erts/layout.h"

struct fp_stamp {
    uint64_t id, i, stop, hend, heap, reds, dictionary, monitors;
    uint32_t state, gen_gcs;
    uint64_t htop; /* not compared */
};

/* Bytes of a structure, from its start, that hold them. */
uint32_t fp_stamp_bytes(const struct fp_layout *layout);

static inline void fp_stamp_decode(const struct fp_layout *layout, const unsigned char *bytes,
                                   struct fp_stamp *stamp)
{
    const uint16_t *offset = layout->release.offset;
    uint16_t gen_gcs;

    memcpy(&stamp->id, bytes + offset[FP_FIELD_id], FP_WIDTH_id);
    memcpy(&stamp->i, bytes + offset[FP_FIELD_i], FP_WIDTH_i);
    memcpy(&stamp->stop, bytes + offset[FP_FIELD_stop], FP_WIDTH_stop);
    memcpy(&stamp->hend, bytes + offset[FP_FIELD_hend], FP_WIDTH_hend);
    memcpy(&stamp->heap, bytes + offset[FP_FIELD_heap], FP_WIDTH_heap);
    memcpy(&stamp->htop, bytes + offset[FP_FIELD_htop], FP_WIDTH_htop);
    memcpy(&stamp->reds, bytes + offset[FP_FIELD_reds], FP_WIDTH_reds);
    memcpy(&stamp->dictionary, bytes + offset[FP_FIELD_dictionary], FP_WIDTH_dictionary);
    memcpy(&stamp->state, bytes + offset[FP_FIELD_state], FP_WIDTH_state);
    memcpy(&gen_gcs, bytes + offset[FP_FIELD_gen_gcs], FP_WIDTH_gen_gcs);
    memcpy(&stamp->monitors, bytes + fp_monitors_offset(layout), 8);
    stamp->gen_gcs = gen_gcs;
}

/* 0 or FP_EGONE. */
int fp_stamp_read(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t address,
                  struct fp_stamp *stamp);

/* The same process, which has not collected: it may have run. */
static inline int fp_stamp_has_same_heap(const struct fp_stamp *a, const struct fp_stamp *b)
{
    return a->id == b->id && a->heap == b->heap && a->hend == b->hend && a->gen_gcs == b->gen_gcs;
}

static inline int fp_stamp_is_same(const struct fp_stamp *a, const struct fp_stamp *b)
{
    return a->reds == b->reds && a->state == b->state && a->i == b->i && a->stop == b->stop &&
           a->dictionary == b->dictionary && a->monitors == b->monitors &&
           fp_stamp_has_same_heap(a, b);
}

/* The stack is [stop, hend), behind the heap. A process that is being spawned is in the table with
 * no heap, and `i`, `stop`, `hend` and monitors of the process that had its structure before. */
static inline int fp_stamp_has_stack(const struct fp_stamp *stamp)
{
    return stamp->heap != 0 && (stamp->stop & 7) == 0 && (stamp->hend & 7) == 0 &&
           stamp->stop <= stamp->hend && stamp->heap <= stamp->stop;
}
