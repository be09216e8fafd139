#include "erts/fresh.h"

#include "base/error.h"
#include "erts/abandoned.h"
#include "erts/process.h"

/* Is from <= at <= to, all of them addresses of words? */
static int is_between(uint64_t from, uint64_t at, uint64_t to)
{
    return from <= at && at <= to && ((from | at | to) & 7) == 0 && to - from < UINT64_C(1) << 49;
}

static int decode_abandoned(const struct fp_memory *memory, uint64_t heap, uint64_t size,
                            uint64_t high_water, struct fp_fresh *fresh)
{
    uint64_t top;
    int err = fp_abandoned_read(memory, heap, size, fresh->hend, &high_water, &top);

    if (err != 0)
        return err;
    /* In front of it are the words of the fragment that it goes on in. */
    fresh->fragment += fresh->words;
    fresh->words += (top - high_water) / 8;
    fresh->survived = (high_water - heap) / 8;
    fresh->heap = heap;
    return 0;
}

int fp_fresh_decode(const struct fp_layout *layout, const struct fp_memory *memory,
                    const unsigned char *structure, struct fp_fresh *fresh)
{
#define FIELD(name) fp_process_field(layout, structure, FP_FIELD_##name)
    uint32_t hend_at = layout->release.offset[FP_FIELD_hend];
    uint64_t abandoned = fp_word_at(structure, hend_at + FP_ABANDONED_BEHIND_HEND);
    uint64_t size = fp_word_at(structure, hend_at + FP_SIZE_BEHIND_HEND);
    uint64_t htop = FIELD(htop), high_water = FIELD(high_water), mbuf = FIELD(mbuf_size);
    int err = 0;

    fresh->heap = FIELD(heap);
    fresh->stop = FIELD(stop);
    fresh->hend = FIELD(hend);
    fresh->i = FIELD(i);
    fresh->binaries = FIELD(bin_vheap) >= FIELD(bin_vheap_block);
    if (!is_between(fresh->heap, htop, fresh->stop) ||
        !is_between(fresh->heap, fresh->stop, fresh->hend) || mbuf >> 46 != 0)
        return FP_ETORN;
    fresh->fragment = mbuf;
    fresh->is_abandoned = abandoned != 0;
    if (abandoned != 0) {
        fresh->words = (htop - fresh->heap) / 8;
        err = decode_abandoned(memory, abandoned, size, high_water, fresh);
    } else if (!is_between(fresh->heap, high_water, htop) ||
               size != (fresh->hend - fresh->heap) / 8) {
        return FP_ETORN;
    } else {
        fresh->words = (htop - high_water) / 8;
        fresh->survived = (high_water - fresh->heap) / 8;
    }
    if (err != 0)
        return err;
    fresh->words += mbuf;
    fresh->live = fresh->survived + fresh->words;
    if (FIELD(old_heap) != 0 && is_between(FIELD(old_heap), FIELD(old_htop), FIELD(old_hend)))
        fresh->live += (FIELD(old_htop) - FIELD(old_heap)) / 8;
    return 0;
#undef FIELD
}

int fp_fresh_read(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t address,
                  uint64_t pid, struct fp_fresh *fresh)
{
    unsigned char structure[FP_PROBE_WINDOW];

    if (fp_safe_read(memory, address, structure, layout->snapshot_size) != 0)
        return FP_EFAULT;
    if (fp_process_field(layout, structure, FP_FIELD_id) != pid)
        return FP_EGONE;
    return fp_fresh_decode(layout, memory, structure, fresh);
}
