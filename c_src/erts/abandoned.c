#include "erts/abandoned.h"

#include "base/error.h"

/* A header of a positive bignum of n words: it fills the rest of the heap (erl_term.h). */
#define FILLER(n) ((uint64_t)(n) << 6 | 0x08)

static int is_between(uint64_t from, uint64_t at, uint64_t to)
{
    return from <= at && at <= to && ((from | at | to) & 7) == 0;
}

static int read_top(const struct fp_memory *memory, uint64_t heap, uint64_t size, uint64_t *top)
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

int fp_abandoned_read(const struct fp_memory *memory, uint64_t heap, uint64_t size, uint64_t hend,
                      uint64_t *high_water, uint64_t *top)
{
    int err = read_top(memory, heap, size, top);

    if (err != 0)
        return err;
    if (!is_between(heap, *high_water, *top) &&
        (fp_safe_read_word(memory, hend, high_water) != 0 || !is_between(heap, *high_water, *top)))
        return FP_ETORN;
    return 0;
}
