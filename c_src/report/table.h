/* table.h - from a hash to small numbers: the index of every array of report/.
 *
 * Open addressing over pairs of a 32-bit hash and a number. The caller compares the entries:
 *
 *      fp_table_seek(&table, hash, &at);
 *      while (fp_table_next(&table, &at, &id))
 *          if (is_equal(id))
 *              return id;
 *      fp_table_put(&table, budget, hash, id);
 *
 * Entries stay. Not shared between threads. */
#pragma once

#include <stdint.h>

#include "base/assume.h"
#include "base/hash.h"
#include "report/budget.h"

struct fp_table_slot {
    uint32_t hash;
    uint32_t id; /* plus 1; 0: empty */
};

struct fp_table {
    struct fp_table_slot *slot;
    size_t room; /* a power of two, or 0 */
    size_t count;
};

struct fp_table_at {
    uint32_t hash;
    size_t index;
};

static inline void fp_table_seek(const struct fp_table *table, uint64_t hash,
                                 struct fp_table_at *at)
{
    at->hash = (uint32_t)hash;
    at->index = table->room == 0 ? 0 : at->hash & (table->room - 1);
}

/* 1 and the next number of this hash; 0: there are no more. */
static inline int fp_table_next(const struct fp_table *table, struct fp_table_at *at, uint32_t *id)
{
    if (table->room == 0)
        return 0;
    for (;;) {
        const struct fp_table_slot *slot = &table->slot[at->index];

        if (slot->id == 0)
            return 0;
        at->index = (at->index + 1) & (table->room - 1);
        if (slot->hash == at->hash) {
            *id = slot->id - 1;
            return 1;
        }
    }
}

/* 0, FP_EFULL or FP_ENOMEM. */
int fp_table_put(struct fp_table *table, struct fp_budget *budget, uint64_t hash, uint32_t id);
/* Empty the table; its memory stays. */
void fp_table_clear(struct fp_table *table);
void fp_table_free(struct fp_table *table, struct fp_budget *budget);

/* Defines a function that finds `pair` in the owner's `array`, or appends it: 0 and its place in
 * *id; FP_EFULL or FP_ENOMEM. The owner has array, array_count, array_room, and `table`, which
 * indexes the array. */
#define FP_INTERN_PAIR(name, owner_type, type, array, table, first, second)                        \
    static int name(owner_type *owner, struct fp_budget *budget, type pair, uint32_t *id)          \
    {                                                                                              \
        uint64_t hash = fp_hash_two((uint64_t)pair.first, (uint64_t)pair.second);                  \
        struct fp_table_at at;                                                                     \
        int err;                                                                                   \
                                                                                                   \
        fp_table_seek(&owner->table, hash, &at);                                                   \
        while (fp_table_next(&owner->table, &at, id)) {                                            \
            FP_ASSUME(owner->array != NULL); /* the table has its places */                        \
            if (owner->array[*id].first == pair.first && owner->array[*id].second == pair.second)  \
                return 0;                                                                          \
        }                                                                                          \
        *id = (uint32_t)owner->array##_count;                                                      \
        err = FP_GROW(budget, &owner->array, &owner->array##_room, owner->array##_count + 1);      \
        if (err == 0)                                                                              \
            err = fp_table_put(&owner->table, budget, hash, *id);                                  \
        if (err == 0)                                                                              \
            owner->array[owner->array##_count++] = pair;                                           \
        return err;                                                                                \
    }
