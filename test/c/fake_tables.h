/* fake_tables.h - ETS tables with objects in fake memory, laid out as no ERTS does: a DbTable's
 * places are others, what is at an object's start is the same.
 *
 *      struct fake_tables tables = {.memory = &memory, .at = FAKE_BASE, .otp = 27};
 *      fake_map(&memory, FAKE_BASE, 1u << 20);
 *      uint64_t table = fake_hash_table(&tables, 300);
 *      fake_hash_insert(&tables, table, 299, fake_off_heap(&tables, binary, 0)); */
#pragma once

#include "erts/ets_objects.h"
#include "fake_memory.h"

/* In a DbTable, in bytes; in an object, in words. */
#define FAKE_TABLE_ACTIVE 304u
#define FAKE_TABLE_SEGMENTS 344u
#define FAKE_TABLE_ROOT 280u
#define FAKE_TABLE_BASE 320u
#define FAKE_ROOT_OF_BASE 72u
#define FAKE_FIRST_OF_HASH 3u
#define FAKE_FIRST_OF_TREE 3u

struct fake_tables {
    struct fake_memory *memory;
    uint64_t at; /* what is mapped from here on is free */
    unsigned otp;
};

extern const struct fp_ets_objects fake_table_places;

uint64_t fake_tables_take(struct fake_tables *tables, uint64_t bytes);

/* The tables' addresses. */
uint64_t fake_hash_table(struct fake_tables *tables, uint64_t active);
uint64_t fake_tree(struct fake_tables *tables);
uint64_t fake_concurrent_tree(struct fake_tables *tables);

/* The address of an off-heap object, for the two below and for itself. */
uint64_t fake_off_heap(struct fake_tables *tables, uint64_t binary, uint64_t next);

/* The address of an object, the first of its bucket; where its bucket is. */
uint64_t fake_hash_insert(struct fake_tables *tables, uint64_t table, uint64_t bucket,
                          uint64_t first);
uint64_t fake_bucket(struct fake_tables *tables, uint64_t table, uint64_t bucket);
/* As the path's bits go, 0 left. */
uint64_t fake_tree_insert(struct fake_tables *tables, uint64_t table, uint64_t path,
                          uint64_t first);
uint64_t fake_concurrent_insert(struct fake_tables *tables, uint64_t table, uint64_t path,
                                uint64_t first);
