/* moment.h - the fields of a process structure that say whether the process has run. Any thread. */
#pragma once

#include <string.h>

#include "base/safe_read.h"
#include "erts/layout.h"
#include "erts/monitors.h"

struct fp_moment {
    uint64_t id, i, stop, hend, heap, reds, monitors;
    uint32_t state, gen_gcs;
    uint64_t htop; /* says nothing: senders put messages there */
};

/* Bytes of a structure, from its start, that hold them. */
uint32_t fp_moment_bytes(const struct fp_layout *layout);

static inline void fp_moment_decode(const struct fp_layout *layout, const unsigned char *bytes,
                                    struct fp_moment *now)
{
    const uint16_t *offset = layout->release.offset;
    uint16_t gen_gcs;

    memcpy(&now->id, bytes + offset[FP_FIELD_id], FP_WIDTH_id);
    memcpy(&now->i, bytes + offset[FP_FIELD_i], FP_WIDTH_i);
    memcpy(&now->stop, bytes + offset[FP_FIELD_stop], FP_WIDTH_stop);
    memcpy(&now->hend, bytes + offset[FP_FIELD_hend], FP_WIDTH_hend);
    memcpy(&now->heap, bytes + offset[FP_FIELD_heap], FP_WIDTH_heap);
    memcpy(&now->htop, bytes + offset[FP_FIELD_htop], FP_WIDTH_htop);
    memcpy(&now->reds, bytes + offset[FP_FIELD_reds], FP_WIDTH_reds);
    memcpy(&now->state, bytes + offset[FP_FIELD_state], FP_WIDTH_state);
    memcpy(&gen_gcs, bytes + offset[FP_FIELD_gen_gcs], FP_WIDTH_gen_gcs);
    memcpy(&now->monitors, bytes + fp_monitors_offset(layout), 8);
    now->gen_gcs = gen_gcs;
}

/* 0 or FP_EGONE. */
int fp_moment_read(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t address,
                   struct fp_moment *now);

static inline int fp_moment_is_same(const struct fp_moment *a, const struct fp_moment *b)
{
    return a->id == b->id && a->i == b->i && a->stop == b->stop && a->hend == b->hend &&
           a->heap == b->heap && a->reds == b->reds && a->monitors == b->monitors &&
           a->state == b->state && a->gen_gcs == b->gen_gcs;
}

/* The stack is [stop, hend), behind the heap. A process that is being spawned is in the table with
 * no heap, and `i`, `stop`, `hend` and monitors of the process that had its structure before. */
static inline int fp_moment_has_stack(const struct fp_moment *now)
{
    return now->heap != 0 && (now->stop & 7) == 0 && (now->hend & 7) == 0 &&
           now->stop <= now->hend && now->heap <= now->stop;
}
