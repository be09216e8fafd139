/* table.c - a table is at most three quarters full, so that a seek ends soon. */
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
    struct fp_table grown = {.room = table->room == 0 ? 64 : table->room * 2,
                             .count = table->count};
    int err = FP_ZEROS(budget, &grown.slot, grown.room);

    if (err != 0)
        return err;
    for (size_t i = 0; i < table->room; i++) {
        if (table->slot[i].id != 0)
            insert(&grown, table->slot[i]);
    }
    fp_table_free(table, budget);
    *table = grown;
    return 0;
}

int fp_table_put(struct fp_table *table, struct fp_budget *budget, uint64_t hash, uint32_t id)
{
    int err = id == UINT32_MAX ? FP_EFULL : 0;

    if (err == 0 && 4 * (table->count + 1) > 3 * table->room)
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
