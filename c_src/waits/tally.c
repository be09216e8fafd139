#include "waits/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

int fp_tally_create(struct fp_tally *tally, uint32_t rows)
{
    *tally = (struct fp_tally){.row = calloc(rows, sizeof *tally->row), .rows = rows};
    return tally->row == NULL ? FP_ENOMEM : 0;
}

void fp_tally_destroy(struct fp_tally *tally)
{
    free(tally->row);
}

void fp_tally_clear(struct fp_tally *tally)
{
    memset(tally->row, 0, tally->rows * sizeof *tally->row);
    tally->used = 0;
    tally->others = 0;
}

void fp_tally_add(struct fp_tally *tally, uint64_t a, uint64_t b)
{
    uint32_t at = (uint32_t)fp_hash_two(a, b) & (tally->rows - 1);
    struct fp_tally_row *row;

    for (;; at = (at + 1) & (tally->rows - 1)) {
        row = &tally->row[at];
        if (row->count == 0 || (row->key[0] == a && row->key[1] == b))
            break;
    }
    if (row->count == 0) {
        if (tally->used >= tally->rows / 4 * 3 || !FP_CHECK(row->key[0] == 0)) {
            tally->others++;
            return;
        }
        tally->used++;
        row->key[0] = a;
        row->key[1] = b;
    }
    row->count++;
}

static int compare(const void *a, const void *b)
{
    const struct fp_tally_row *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    if (x->key[0] != y->key[0])
        return x->key[0] < y->key[0] ? -1 : 1;
    return (x->key[1] > y->key[1]) - (x->key[1] < y->key[1]);
}

void fp_tally_sort(struct fp_tally *tally)
{
    uint32_t n = 0;

    for (uint32_t k = 0; n < tally->used && FP_CHECK(k < tally->rows); k++)
        if (tally->row[k].count != 0)
            tally->row[n++] = tally->row[k];
    qsort(tally->row, n, sizeof *tally->row, compare);
}
