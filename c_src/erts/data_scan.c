#include "erts/data_scan.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/pages.h"

#define BLOCK 65536u

int fp_refuse(struct fp_refusal *refusal, int err, const char *field, const char *why, ...)
{
    va_list args;

    refusal->err = err;
    snprintf(refusal->field, sizeof refusal->field, "%s", field);
    va_start(args, why);
    vsnprintf(refusal->why, sizeof refusal->why, why, args);
    va_end(args);
    return err;
}

int fp_scan_judge(uint32_t candidates)
{
    return candidates == 1 ? 0 : candidates == 0 ? FP_ENOENT : FP_EAMBIGUOUS;
}

/* Copies overlap: each word is looked at once, with all that follows it. */
int fp_scan(const struct fp_memory *memory, const struct fp_ranges *data, uint32_t bytes,
            int (*fits)(void *arg, uint64_t at, const unsigned char *copy), void *arg,
            uint64_t *found)
{
    unsigned char *copy = fp_pages_alloc(BLOCK + FP_SCAN_BYTES);
    uint32_t candidates = 0;

    if (copy == NULL)
        return FP_ENOMEM;
    for (uint32_t r = 0; r < data->count; r++)
        for (uint64_t at = data->range[r].start; at < data->range[r].end; at += BLOCK) {
            uint64_t left = data->range[r].end - at;
            size_t size = left < BLOCK + bytes ? (size_t)left : BLOCK + bytes;

            if (fp_safe_read(memory, at, copy, size) != 0)
                continue;
            for (size_t k = 0; k + bytes <= size && k < BLOCK; k += 8)
                if (fits(arg, at + k, copy + k)) {
                    *found = at + k;
                    candidates++;
                }
        }
    fp_pages_free(copy, BLOCK + FP_SCAN_BYTES);
    return fp_scan_judge(candidates);
}
