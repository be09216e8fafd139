#include "fake_tables.h"

#define TABLE_BYTES 512u

const struct fp_ets_objects fake_table_places = {.active = FAKE_TABLE_ACTIVE,
                                                 .segments = FAKE_TABLE_SEGMENTS,
                                                 .root = FAKE_TABLE_ROOT,
                                                 .base = FAKE_TABLE_BASE,
                                                 .root_of_base = FAKE_ROOT_OF_BASE,
                                                 .first_of_hash = FAKE_FIRST_OF_HASH,
                                                 .first_of_tree = FAKE_FIRST_OF_TREE};

uint64_t fake_tables_take(struct fake_tables *tables, uint64_t bytes)
{
    uint64_t at = tables->at;

    tables->at += (bytes + 15) / 16 * 16;
    return at;
}

uint64_t fake_hash_table(struct fake_tables *tables, uint64_t active)
{
    uint64_t table = fake_tables_take(tables, TABLE_BYTES);
    uint64_t more = active <= 256 ? 0 : (active - 256 + 2047) / 2048;
    uint64_t segments = fake_tables_take(tables, 8 * (1 + more));

    fake_put_word(tables->memory, table + FAKE_TABLE_ACTIVE, active);
    fake_put_word(tables->memory, table + FAKE_TABLE_SEGMENTS, segments);
    for (uint64_t k = 0; k <= more; k++)
        fake_put_word(tables->memory, segments + 8 * k,
                      fake_tables_take(tables, 8 * (k == 0 ? 256 : 2048)));
    return table;
}

uint64_t fake_tree(struct fake_tables *tables)
{
    return fake_tables_take(tables, TABLE_BYTES);
}

uint64_t fake_concurrent_tree(struct fake_tables *tables)
{
    uint64_t table = fake_tables_take(tables, TABLE_BYTES), node = fake_tables_take(tables, 96);

    fake_put_word(tables->memory, node, UINT64_C(0xabcd) << 32 | 1);
    fake_put_word(tables->memory, table + FAKE_TABLE_BASE, node);
    return table;
}

uint64_t fake_off_heap(struct fake_tables *tables, uint64_t binary, uint64_t next)
{
    uint64_t at = fake_tables_take(tables, 48);

    fake_put_word(tables->memory, at, tables->otp < 27 ? 5u << 6 | 0x20 : 2u << 6 | 0x28);
    fake_put_word(tables->memory, at + 8, tables->otp < 27 ? 1000 : binary);
    fake_put_word(tables->memory, at + 16, next);
    fake_put_word(tables->memory, at + 24, tables->otp < 27 ? binary : 0);
    return at;
}

uint64_t fake_bucket(struct fake_tables *tables, uint64_t table, uint64_t bucket)
{
    uint64_t segments = fake_word(tables->memory, table + FAKE_TABLE_SEGMENTS);
    uint64_t segment = bucket < 256 ? 0 : 1 + (bucket - 256) / 2048;

    return fake_word(tables->memory, segments + 8 * segment) + 8 * (bucket % 2048);
}

uint64_t fake_hash_insert(struct fake_tables *tables, uint64_t table, uint64_t bucket,
                          uint64_t first)
{
    uint64_t head = fake_bucket(tables, table, bucket), object = fake_tables_take(tables, 64);

    fake_put_word(tables->memory, object, fake_word(tables->memory, head));
    fake_put_word(tables->memory, object + 8, bucket * 77 + 1);
    fake_put_word(tables->memory, object + 8 * FAKE_FIRST_OF_HASH, first);
    fake_put_word(tables->memory, head, object);
    return object;
}

static uint64_t insert(struct fake_tables *tables, uint64_t at, uint64_t path, uint64_t first)
{
    uint64_t object = fake_tables_take(tables, 64), there;

    for (; (there = fake_word(tables->memory, at)) != 0; path /= 2)
        at = there + 8 * (path % 2);
    fake_put_word(tables->memory, object + 16, 1);
    fake_put_word(tables->memory, object + 8 * FAKE_FIRST_OF_TREE, first);
    fake_put_word(tables->memory, at, object);
    return object;
}

uint64_t fake_tree_insert(struct fake_tables *tables, uint64_t table, uint64_t path, uint64_t first)
{
    return insert(tables, table + FAKE_TABLE_ROOT, path, first);
}

uint64_t fake_concurrent_insert(struct fake_tables *tables, uint64_t table, uint64_t path,
                                uint64_t first)
{
    return insert(tables, fake_word(tables->memory, table + FAKE_TABLE_BASE) + FAKE_ROOT_OF_BASE,
                  path, first);
}
