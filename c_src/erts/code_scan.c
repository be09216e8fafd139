#include "erts/code_scan.h"

#include "base/error.h"
#include "erts/code_index.h"
#include "erts/resident.h"

/* The lowest address from `low` on whose pages are all resident up to `top`. */
static uint64_t resident_from(uint64_t low, uint64_t top)
{
    uint64_t from = low;
    int resident;

    for (uint64_t at = low; at < top;) {
        at = fp_resident_until(at, top, &resident);
        if (!resident)
            from = at;
    }
    return from;
}

int fp_code_window_load(struct fp_code_window *w, uint64_t top, uint32_t overlap)
{
    uint64_t low = top - w->floor > FP_CODE_BLOCK ? top - FP_CODE_BLOCK : w->floor;

    low = resident_from(low, top + overlap);
    if (low >= top)
        return FP_ENOENT;
    if (fp_safe_read(w->memory, low, w->byte, (size_t)(top + overlap - low)) != 0)
        return FP_EFAULT;
    w->low = low;
    w->top = top + overlap;
    return 0;
}

const struct fp_range *fp_range_of(const struct fp_ranges *ranges, uint64_t pc)
{
    for (uint32_t i = 0; i < ranges->count; i++)
        if (pc >= ranges->range[i].start && pc < ranges->range[i].end)
            return &ranges->range[i];
    return NULL;
}

int fp_code_index_nearest(const struct fp_memory *memory, const struct fp_ranges *ranges,
                          uint64_t pc, uint64_t mfa[3], uint64_t *mfa_at)
{
    const struct fp_range *range = fp_range_of(ranges, pc);
    struct fp_code_window w = {.memory = memory};
    uint64_t at, walked = 0;

    if (range == NULL || pc - range->start < FP_MFA_IN_INFO + FP_MFA_SIZE)
        return FP_ENOENT;
    w.floor = range->start;
    /* The last place where an MFA can stand whose code has begun at pc. */
    at = (pc - FP_MFA_SIZE) & ~UINT64_C(7);
    for (;;) {
        uint64_t top = at + FP_MFA_SIZE + 8; /* the entry byte is needed too */

        /* Pages that are not there end it: nothing lies across them. */
        if (top > range->end || fp_code_window_load(&w, top, 0) != 0 || at < w.low + FP_MFA_IN_INFO)
            return FP_ENOENT;
        for (; at >= w.low + FP_MFA_IN_INFO; at -= 8) {
            if (!fp_code_window_is_mfa(&w, at))
                continue;
            for (size_t i = 0; i < 3; i++)
                mfa[i] = fp_code_window_word(&w, at + 8 * i);
            *mfa_at = at;
            return 0;
        }
        walked += FP_CODE_BLOCK;
        if (w.low <= w.floor || walked > FP_WALK_BACK_MAX)
            return FP_ENOENT;
    }
}

int fp_code_index_first(const struct fp_memory *memory, const struct fp_range *range, uint64_t from,
                        uint64_t *info)
{
    struct fp_code_window w = {.memory = memory, .floor = range->start};
    uint64_t low = (from + 7) & ~UINT64_C(7);

    if (from < range->start)
        return FP_ENOENT;
    while (low < range->end && low - from <= FP_WALK_BACK_MAX) {
        uint64_t left = range->end - low;

        /* Pages that are not there might hold an earlier one. */
        if (fp_code_window_load(&w, left > FP_CODE_BLOCK ? low + FP_CODE_BLOCK : range->end, 0) !=
                0 ||
            w.low > low)
            return FP_ENOENT;
        for (uint64_t at = low + FP_MFA_IN_INFO; at + FP_MFA_SIZE + 8 <= w.top; at += 8)
            if (fp_code_window_is_mfa(&w, at)) {
                *info = at - FP_MFA_IN_INFO;
                return 0;
            }
        if (left <= FP_CODE_BLOCK)
            return FP_ENOENT;
        low += FP_CODE_BLOCK - FP_MFA_IN_INFO - FP_MFA_SIZE - 8;
    }
    return FP_ENOENT;
}

int fp_code_is_before_mfa(const struct fp_memory *memory, uint64_t pc)
{
    struct fp_code_window w = {.memory = memory};
    uint64_t at = pc + 1;

    if ((at & 7) != 0)
        return 0;
    w.low = at - FP_MFA_IN_INFO;
    return fp_safe_read(memory, w.low, w.byte, FP_MFA_IN_INFO + FP_MFA_SIZE + 8) == 0 &&
           fp_code_window_is_mfa(&w, at);
}
