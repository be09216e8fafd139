/*
 * table.c - growth. At most three quarters full, so that a seek ends soon.
 */
#include "report/table.h"

static void insert(struct fp_table *table, struct fp_table_slot entry)
{
    size_t index = entry.hash & (table->room - 1);

    while (table->slot[index].id != 0)
        index = (index + 1) & (table->room - 1);
    table->slot[index] = entry;
}

static int grow(struct fp_table *table, struct fp_budget *budget)
{
    size_t room = table->room == 0 ? 64 : table->room * 2;
    struct fp_table old = *table;

    if (room * sizeof(*table->slot) > budget->limit - budget->used)
        return FP_EFULL;
    table->slot = calloc(room, sizeof(*table->slot));
    if (table->slot == NULL) {
        *table = old;
        return FP_ENOMEM;
    }
    budget->used += room * sizeof(*table->slot);
    table->room = room;
    for (size_t i = 0; i < old.room; i++) {
        if (old.slot[i].id != 0)
            insert(table, old.slot[i]);
    }
    FP_FREE(budget, old.slot, old.room);
    return 0;
}

int fp_table_put(struct fp_table *table, struct fp_budget *budget, uint64_t hash, uint32_t id)
{
    int err = 0;

    if (id == UINT32_MAX)
        return FP_EFULL;
    if (4 * (table->count + 1) > 3 * table->room)
        err = grow(table, budget);
    if (err != 0)
        return err;
    insert(table, (struct fp_table_slot){(uint32_t)hash, id + 1});
    table->count++;
    return 0;
}

void fp_table_clear(struct fp_table *table)
{
    if (table->room > 0)
        memset(table->slot, 0, table->room * sizeof(*table->slot));
    table->count = 0;
}

void fp_table_free(struct fp_table *table, struct fp_budget *budget)
{
    FP_FREE(budget, table->slot, table->room);
    *table = (struct fp_table){NULL, 0, 0};
}
