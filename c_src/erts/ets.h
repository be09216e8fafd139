/* ets.h - the ETS tables of the VM, read out of their structures: without ets:info, whose answer
 * about decentralized counters suspends the caller and exchanges the table's counters, and without
 * a lock.
 *
 *      ErtsSchedulerData   ets_tables: how many, -> the first DbTable of those made on it
 *      DbTable             all.next, all.prev: a ring | owner | heir | name | binary | counters |
 *                          status, keypos, compress
 *      magic Binary        its reference's three numbers | -> DbTable, or NULL of a deleted one
 *      ErtsFlxCtr          2, is_decentralized | objects, bytes; or -> block start, snapshot,
 *                          16 bytes behind it slots of 64 bytes: objects, bytes
 *
 * Sources: erl_db.c, erl_db_util.h, erl_flxctr.[ch], erl_binary.h of 25, 27 and 29. No offset is
 * taken from there: fp_ets_solve() finds each as the one at which all tables that Erlang made for
 * it hold what Erlang says of them. One offset, or a refusal with the field's name.
 *
 * How exact: a table's numbers are those of one moment each, some microseconds apart. A table is
 * reported if its ring led to it, its neighbours point to each other and its binary points back to
 * it. Decentralized counters are summed slot by slot while others write them: objects that come and
 * go meanwhile may be counted half. While an ets:info takes a snapshot they are not reported.
 *
 * For any thread, whose memory is `memory`; some 1 us a table. fp_ets_solve() takes milliseconds: a
 * dirty scheduler's work. */
#pragma once

#include "base/safe_read.h"
#include "erts/layout_solve.h"

/* Bits of a status (erl_db_util.h), the same in all listed releases; calibration meets all of them
 * but FP_ETS_DELETING. */
#define FP_ETS_PRIVATE (1u << 0)
#define FP_ETS_PROTECTED (1u << 1)
#define FP_ETS_PUBLIC (1u << 2)
#define FP_ETS_DELETING (1u << 3)
#define FP_ETS_SET (1u << 4)
#define FP_ETS_BAG (1u << 5)
#define FP_ETS_DUPLICATE_BAG (1u << 6)
#define FP_ETS_ORDERED_SET (1u << 7)
#define FP_ETS_CA_ORDERED_SET (1u << 8) /* ordered, with write_concurrency */
#define FP_ETS_FINE_LOCKED (1u << 9)    /* write_concurrency */
#define FP_ETS_FREQUENT_READ (1u << 10)
#define FP_ETS_NAMED (1u << 11)
#define FP_ETS_STATUS 0xff7u /* those that calibration compares */

/* X(field): what is looked for in a DbTable. */
#define FP_ETS_FIELDS(X) X(binary) X(owner) X(heir) X(name) X(status) X(counters) X(all)

enum fp_ets_field {
#define FP_ETS_FIELD(name) FP_ETS_FIELD_##name,
    FP_ETS_FIELDS(FP_ETS_FIELD)
#undef FP_ETS_FIELD
        FP_ETS_FIELD_COUNT
};

/* ERTS_MAX_FLXCTR_GROUPS, which +dcg limits, and the first one. */
#define FP_ETS_SLOTS_MAX 257u

struct fp_ets {
    uint64_t lists;      /* address of the first scheduler's {number, first table} */
    uint32_t stride;     /* to the next one's */
    uint32_t schedulers; /* normal ones */
    uint32_t slots;      /* of decentralized counters; 0: a VM of one scheduler makes none */
    uint16_t at[FP_ETS_FIELD_COUNT];
    uint16_t numbers, indirection; /* in the binary */
};

/* A table made for calibration, and what Erlang says of it. Facts of all kinds of tables: with two
 * owners, and two of them decentralized, but in a VM of one scheduler. */
struct fp_ets_fact {
    uint64_t binary; /* address, out of its reference */
    uint64_t owner, heir, name;
    uint64_t objects, words;
    uint32_t number[3];
    uint32_t status; /* FP_ETS_STATUS of it */
    uint32_t keypos;
    uint8_t is_decentralized, is_compressed;
};
#define FP_ETS_FACTS_MAX 16u

/* The address of the magic binary that a local reference term holds; 0: it is none. */
uint64_t fp_ets_binary(const struct fp_memory *memory, uint64_t term);

struct fp_ets_input {
    uint64_t data; /* ErtsSchedulerData of a normal scheduler, on which the tables were made */
    uint32_t schedulers; /* normal ones */
    /* Of decentralized counters: what a table has more of than a like one without. */
    uint32_t array_bytes;
    const struct fp_ets_fact *fact;
    uint32_t facts; /* up to FP_ETS_FACTS_MAX */
};

/* 0, or the refusal's err: FP_ENOENT also where a table came or went meanwhile, or the maker
 * changed its scheduler; again, then. */
int fp_ets_solve(struct fp_ets *tables, const struct fp_memory *memory,
                 const struct fp_layout *layout, const struct fp_ets_input *input,
                 struct fp_refusal *refusal);

struct fp_ets_table {
    uint64_t address, binary;
    uint64_t owner, name;   /* terms */
    int64_t objects, bytes; /* -1: a snapshot was under way */
    uint32_t number[3];     /* of its reference, which no other table ever has */
    uint32_t status, keypos;
    uint8_t is_decentralized, is_compressed;
};

struct fp_ets_list {
    struct fp_ets_table *table;
    uint32_t count, room;
    uint32_t incomplete; /* schedulers whose ring never stood still */
    uint32_t left_out;   /* tables that were freed while they were read */
};

/* More are not read: the last rings are then incomplete. */
#define FP_ETS_MAX (1u << 20)

/* All tables now, those that are being deleted, too. 0 or FP_ENOMEM. fp_ets_free() ends it. */
int fp_ets_read(const struct fp_ets *tables, const struct fp_memory *memory,
                struct fp_ets_list *list);
void fp_ets_free(struct fp_ets_list *list);
