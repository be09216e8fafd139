/* budget.h - the memory that one profile may hold.
 *
 * Every table of report/ grows by these functions, so that a file of any size and of any bytes
 * costs at most `limit` bytes. The budget counts the tables' own bytes, not malloc's. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct fp_budget {
    size_t used, limit;
};

/* Room for `count` items of `item` bytes in *bytes, which has *room items: at least doubled. 0,
 * FP_EFULL (more than the budget) or FP_ENOMEM. */
static inline int fp_budget_grow(struct fp_budget *budget, void **bytes, size_t item, size_t *room,
                                 size_t count)
{
    size_t more = *room < 16 ? 16 : *room;
    void *moved;

    if (count <= *room)
        return 0;
    while (*room + more < count)
        more *= 2;
    if (more > (budget->limit - budget->used) / item)
        return FP_EFULL;
    moved = realloc(*bytes, (*room + more) * item);
    if (moved == NULL)
        return FP_ENOMEM;
    budget->used += more * item;
    *bytes = moved;
    *room += more;
    return 0;
}

/* The same; the new items are zeros. */
static inline int fp_budget_grow_zeros(struct fp_budget *budget, void **bytes, size_t item,
                                       size_t *room, size_t count)
{
    size_t had = *room;
    int err = fp_budget_grow(budget, bytes, item, room, count);

    if (*room > had)
        memset((char *)*bytes + had * item, 0, (*room - had) * item);
    return err;
}

/* An array of `count` zeros (at least one) in *bytes. 0, FP_EFULL or FP_ENOMEM. */
static inline int fp_budget_zeros(struct fp_budget *budget, void **bytes, size_t item, size_t count)
{
    if (count > (budget->limit - budget->used) / item)
        return FP_EFULL;
    *bytes = calloc(count > 0 ? count : 1, item);
    if (*bytes == NULL)
        return FP_ENOMEM;
    budget->used += item * count;
    return 0;
}

static inline void fp_budget_free(struct fp_budget *budget, void *bytes, size_t item, size_t room)
{
    if (bytes != NULL)
        budget->used -= item * room;
    free(bytes);
}

/* The same for an array of any type: FP_GROW(budget, &array, &room, count). */
#define FP_GROW(budget, array, room, count)                                                        \
    fp_budget_grow((budget), (void **)(array), sizeof(**(array)), (room), (count))
#define FP_GROW_ZEROS(budget, array, room, count)                                                  \
    fp_budget_grow_zeros((budget), (void **)(array), sizeof(**(array)), (room), (count))
#define FP_ZEROS(budget, array, count)                                                             \
    fp_budget_zeros((budget), (void **)(array), sizeof(**(array)), (count))
#define FP_FREE(budget, array, room) fp_budget_free((budget), (array), sizeof(*(array)), (room))
