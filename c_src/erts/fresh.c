#include "erts/fresh.h"

#include "base/error.h"
#include "erts/process.h"

/* The heap's words, behind the abandoned one. */
#define SIZE_BEHIND_HEND 16u

/* A header of a positive bignum of n words: it fills the rest of an abandoned heap (erl_term.h). */
#define FILLER(n) ((uint64_t)(n) << 6 | 0x08)

/* Is from <= at <= to, all of them addresses of words? */
static int is_between(uint64_t from, uint64_t at, uint64_t to)
{
    return from <= at && at <= to && ((from | at | to) & 7) == 0 && to - from < UINT64_C(1) << 49;
}

/* Where the words in use of an abandoned heap of `size` words end. 0, FP_EFAULT or FP_ETORN. */
static int abandoned_top(const struct fp_memory *memory, uint64_t heap, uint64_t size,
                         uint64_t *top)
{
    uint64_t used, filler;

    if (size == 0 || size >> 46 != 0 ||
        fp_safe_read_word(memory, heap + 8 * (size - 1), &used) != 0)
        return FP_EFAULT;
    *top = heap + 8 * size;
    if (used >= size - 1)
        return 0; /* it is full: the word is a part of the stack that was there */
    if (fp_safe_read_word(memory, heap + 8 * used, &filler) != 0)
        return FP_EFAULT;
    if (filler != FILLER(size - used - 1))
        return FP_ETORN;
    *top = heap + 8 * used;
    return 0;
}

static int decode_abandoned(const struct fp_memory *memory, uint64_t heap, uint64_t size,
                            uint64_t high_water, struct fp_fresh *fresh)
{
    uint64_t top;
    int err = abandoned_top(memory, heap, size, &top);

    if (err != 0)
        return err;
    if (!is_between(heap, high_water, top) &&
        (fp_safe_read_word(memory, fresh->hend, &high_water) != 0 ||
         !is_between(heap, high_water, top)))
        return FP_ETORN;
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
    uint64_t size = fp_word_at(structure, hend_at + SIZE_BEHIND_HEND);
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
