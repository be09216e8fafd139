/* test_ets.c - tables in fake memory: their fields found by what Erlang says of some, refused where
 * nothing or two places fit, and read while they come and go. */
#include "erts/ets.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fake_memory.h"
#include "test.h"

#define DATA FAKE_BASE
#define STRIDE 8256u
#define SCHEDULERS 3u
#define DATA_BYTES (SCHEDULERS * STRIDE + 4096u)
#define NUMBER_AT 96u
#define HEAD_AT 4240u

#define TABLES (FAKE_BASE + (16u << 20))
#define TABLE_BYTES 640u
#define BINARIES (FAKE_BASE + (32u << 20))
#define BINARY_BYTES 192u
#define ARRAYS (FAKE_BASE + (48u << 20))
#define SLOTS 4u
#define ARRAY_BYTES (16u + 64u + 64u * SLOTS)
#define HEAP (FAKE_BASE + (64u << 20))

/* Where this VM has what; none is where ERTS has it. */
#define BINARY_AT 200u
#define OWNER_AT 120u
#define HEIR_AT 136u
#define NAME_AT 160u
#define TYPE_AT 112u
#define STATUS_AT 288u
#define COUNTERS_AT 232u
#define ALL_AT 24u
#define OWNED_AT 48u
#define NUMBERS_AT 36u
#define INDIRECTION_AT 72u

#define FACTS 7u
#define MOST 64u
#define PID(n) ((uint64_t)(n) << 4 | 3)
#define ATOM(n) ((uint64_t)(n) << 6 | 0x0b)

struct bench {
    struct fake_memory memory;
    struct fp_layout layout;
    struct fp_ets tables;
    struct fp_ets_input input;
    struct fp_ets_fact fact[FACTS];
    struct fp_refusal refusal;
    struct fp_ets_list list;
    uint32_t count;
};

static struct bench b;

static uint64_t table_at(uint32_t k)
{
    return TABLES + (uint64_t)k * TABLE_BYTES;
}

static uint64_t binary_at(uint32_t k)
{
    return BINARIES + (uint64_t)k * BINARY_BYTES;
}

static uint64_t array_at(uint32_t k)
{
    return ARRAYS + (uint64_t)k * 1024 + 8;
}

static uint64_t head_of(uint32_t scheduler)
{
    return DATA + (uint64_t)(scheduler - 1) * STRIDE + HEAD_AT;
}

static void put_u32(uint64_t address, uint32_t value)
{
    fake_put(&b.memory, address, &value, 4);
}

/* Behind the last of a ring whose first is there, or alone. */
static void insert(uint64_t first, uint64_t table, uint32_t at)
{
    uint64_t last = first == 0 ? table : fake_word(&b.memory, first + at + 8);

    fake_put_word(&b.memory, table + at, first == 0 ? table : first);
    fake_put_word(&b.memory, table + at + 8, last);
    fake_put_word(&b.memory, last + at, table);
    if (first != 0)
        fake_put_word(&b.memory, first + at + 8, table);
}

static void add_to_scheduler(uint32_t scheduler, uint64_t table)
{
    uint64_t head = head_of(scheduler), first = fake_word(&b.memory, head + 8);

    insert(first, table, ALL_AT);
    fake_put_word(&b.memory, head, fake_word(&b.memory, head) + 1);
    if (first == 0)
        fake_put_word(&b.memory, head + 8, table);
}

static void remove_from_scheduler(uint32_t scheduler, uint64_t table)
{
    uint64_t head = head_of(scheduler);
    uint64_t next = fake_word(&b.memory, table + ALL_AT);
    uint64_t prev = fake_word(&b.memory, table + ALL_AT + 8);

    fake_put_word(&b.memory, prev + ALL_AT, next);
    fake_put_word(&b.memory, next + ALL_AT + 8, prev);
    fake_put_word(&b.memory, head, fake_word(&b.memory, head) - 1);
    if (fake_word(&b.memory, head + 8) == table)
        fake_put_word(&b.memory, head + 8, next == table ? 0 : next);
}

/* Each slot has a part of it; one is negative. */
static void put_array(uint32_t k, uint64_t objects, uint64_t bytes)
{
    uint64_t array = array_at(k);

    fake_put_word(&b.memory, array, array - 8);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        uint64_t at = array + 16 + 64 * (uint64_t)slot;

        fake_put_word(&b.memory, at, slot == 1 ? objects + 5 : slot == 2 ? (uint64_t)-5 : 0);
        fake_put_word(&b.memory, at + 8, slot == 1 ? bytes + 88 : slot == 3 ? (uint64_t)-88 : 0);
    }
    fake_put_word(&b.memory, table_at(k) + COUNTERS_AT + 8, array);
}

static struct fp_ets_fact fact_of(uint32_t k)
{
    return (struct fp_ets_fact){
        .binary = binary_at(k),
        .owner = PID(k == 2 ? 77 : 70),
        .heir = k == 0   ? PID(77)
                : k == 2 ? PID(70)
                         : ATOM(5),
        .name = ATOM(100 + k),
        .objects = 3 + k * k,
        .words = 300 + 11 * k,
        .number = {1000 + k, 7, 9},
        .status = (k % 2 ? FP_ETS_PUBLIC : FP_ETS_PROTECTED) | FP_ETS_SET << (k % 4),
        .keypos = 1 + k % 3,
        .is_decentralized = k == 4 || k == 5,
        .is_compressed = k == 3,
    };
}

static uint64_t make_table(const struct fp_ets_fact *fact)
{
    uint32_t k = b.count++;
    uint64_t table = table_at(k), binary = binary_at(k);

    fake_put_word(&b.memory, table + BINARY_AT, binary);
    fake_put_word(&b.memory, table + OWNER_AT, fact->owner);
    fake_put_word(&b.memory, table + HEIR_AT, fact->heir);
    fake_put_word(&b.memory, table + NAME_AT, fact->name);
    put_u32(table + TYPE_AT, fact->status);
    put_u32(table + STATUS_AT, fact->status);
    put_u32(table + STATUS_AT + 4, fact->keypos);
    put_u32(table + STATUS_AT + 8, fact->is_compressed);
    put_u32(table + COUNTERS_AT, 2);
    /* A bool, beside what was there. */
    put_u32(table + COUNTERS_AT + 4, 0xabcdef00u | fact->is_decentralized);
    fake_put_word(&b.memory, table + COUNTERS_AT + 8, fact->objects);
    fake_put_word(&b.memory, table + COUNTERS_AT + 16, 8 * fact->words - 3);
    if (fact->is_decentralized)
        put_array(k, fact->objects, 8 * fact->words - 3);
    fake_put(&b.memory, binary + NUMBERS_AT, fact->number, sizeof fact->number);
    fake_put_word(&b.memory, binary + INDIRECTION_AT, table);
    return table;
}

static void create(void)
{
    uint64_t owned = 0;

    memset(&b, 0, sizeof b);
    fake_memory_create(&b.memory);
    fake_map(&b.memory, DATA, DATA_BYTES);
    fake_map(&b.memory, TABLES, MOST * TABLE_BYTES);
    fake_map(&b.memory, BINARIES, MOST * BINARY_BYTES);
    fake_map(&b.memory, ARRAYS, MOST * 1024);
    fake_map(&b.memory, HEAP, 4096);
    b.layout.release.running.number = NUMBER_AT;
    for (uint32_t k = 1; k <= SCHEDULERS; k++) {
        uint64_t data = DATA + (uint64_t)(k - 1) * STRIDE;

        fake_put_word(&b.memory, data, HEAP);
        fake_put_word(&b.memory, data + 8, HEAP + 64);
        fake_put_word(&b.memory, data + NUMBER_AT - 8, 0xffff00000001);
        fake_put_word(&b.memory, data + NUMBER_AT, k);
    }
    for (uint32_t k = 0; k < FACTS; k++) {
        uint64_t table;

        b.fact[k] = fact_of(k);
        table = make_table(&b.fact[k]);
        add_to_scheduler(2, table);
        if (k == 2) {
            insert(0, table, OWNED_AT);
        } else {
            insert(owned, table, OWNED_AT);
            owned = owned == 0 ? table : owned;
        }
    }
    b.input = (struct fp_ets_input){.data = DATA + STRIDE,
                                    .schedulers = SCHEDULERS,
                                    .array_bytes = ARRAY_BYTES,
                                    .fact = b.fact,
                                    .facts = FACTS};
}

static void destroy(void)
{
    fp_ets_free(&b.list);
    fake_memory_destroy(&b.memory);
}

static int solve(void)
{
    return fp_ets_solve(&b.tables, &b.memory.reader, &b.layout, &b.input, &b.refusal);
}

static void create_and_solve(void)
{
    create();
    CHECK_INT(solve(), 0);
}

static void read_all(void)
{
    fp_ets_free(&b.list);
    CHECK_INT(fp_ets_read(&b.tables, &b.memory.reader, &b.list), 0);
}

static uint64_t add(uint32_t scheduler)
{
    struct fp_ets_fact fact = fact_of(b.count);
    uint64_t table = make_table(&fact);

    add_to_scheduler(scheduler, table);
    return table;
}

/* ----------------------------------------------------------------- layout -- */

TEST_BETWEEN(every_field_is_found_by_what_erlang_says, create(), destroy())
{
    CHECK_INT(solve(), 0);
    CHECK_INT(b.tables.at[FP_ETS_FIELD_binary], BINARY_AT);
    CHECK_INT(b.tables.at[FP_ETS_FIELD_owner], OWNER_AT);
    CHECK_INT(b.tables.at[FP_ETS_FIELD_heir], HEIR_AT);
    CHECK_INT(b.tables.at[FP_ETS_FIELD_name], NAME_AT);
    CHECK_INT(b.tables.at[FP_ETS_FIELD_status], STATUS_AT);
    CHECK_INT(b.tables.at[FP_ETS_FIELD_counters], COUNTERS_AT);
    CHECK_INT(b.tables.at[FP_ETS_FIELD_all], ALL_AT);
    CHECK_INT(b.tables.numbers, NUMBERS_AT);
    CHECK_INT(b.tables.indirection, INDIRECTION_AT);
    CHECK_INT(b.tables.slots, SLOTS);
    CHECK_INT(b.tables.lists, DATA + HEAD_AT);
    CHECK_INT(b.tables.stride, STRIDE);
}

TEST(a_field_that_differs_in_one_table_is_refused)
{
    static const uint32_t at[] = {OWNER_AT,        HEIR_AT,          NAME_AT,
                                  STATUS_AT,       STATUS_AT + 8,    COUNTERS_AT,
                                  COUNTERS_AT + 8, COUNTERS_AT + 16, BINARY_AT};

    for (uint32_t i = 0; i < sizeof at / sizeof *at; i++) {
        create();
        put_u32(table_at(1) + at[i], 0x5a5a5a);
        CHECK_INT(solve(), FP_ENOENT);
        CHECK(strstr(b.refusal.why, "no place") != NULL);
        destroy();
    }
}

TEST_BETWEEN(two_places_that_fit_are_refused, create(), destroy())
{
    for (uint32_t k = 0; k < FACTS; k++)
        fake_put_word(&b.memory, table_at(k) + NAME_AT + 8, b.fact[k].name);
    CHECK_INT(solve(), FP_EAMBIGUOUS);
    CHECK(strstr(b.refusal.why, "name: more than one") != NULL);
}

TEST_BETWEEN(a_field_at_the_end_of_the_structure_is_found_and_read, create(), destroy())
{
    for (uint32_t k = 0; k < FACTS; k++) {
        fake_put_word(&b.memory, table_at(k) + NAME_AT, 0);
        fake_put_word(&b.memory, table_at(k) + 504, b.fact[k].name);
    }
    CHECK_INT(solve(), 0);
    CHECK_INT(b.tables.at[FP_ETS_FIELD_name], 504);
    read_all();
    CHECK_INT(b.list.count, FACTS);
    CHECK(b.list.table[1].name == ATOM(101));
}

TEST_BETWEEN(counters_of_another_size_or_sum_are_refused, create(), destroy())
{
    b.input.array_bytes += 8;
    CHECK_INT(solve(), FP_ELAYOUT);
    b.input.array_bytes = ARRAY_BYTES - 64;
    CHECK_INT(solve(), FP_ENOENT);
    CHECK(strstr(b.refusal.why, "sums") != NULL);
    b.input.array_bytes = ARRAY_BYTES;
    fake_put_word(&b.memory, array_at(4) + 8, 1); /* a snapshot */
    CHECK_INT(solve(), FP_ENOENT);
}

/* The ring of one owner's tables has links just like those of all. */
TEST_BETWEEN(the_ring_of_an_owner_is_not_that_of_a_scheduler, create(), destroy())
{
    fake_put_word(&b.memory, head_of(2), FACTS - 1);
    CHECK_INT(solve(), FP_ENOENT);
    CHECK(strstr(b.refusal.why, "list of a scheduler") != NULL);
}

TEST_BETWEEN(schedulers_that_are_not_alike_are_refused, create(), destroy())
{
    fake_put_word(&b.memory, DATA + 2 * STRIDE + NUMBER_AT, 4);
    CHECK_INT(solve(), FP_ENOENT);
    fake_put_word(&b.memory, DATA + 2 * STRIDE + NUMBER_AT, 3);
    fake_put_word(&b.memory, DATA + 2 * STRIDE + NUMBER_AT + 8, 1); /* a dirty one */
    CHECK_INT(solve(), FP_ENOENT);
    fake_put_word(&b.memory, DATA + 2 * STRIDE + NUMBER_AT + 8, 0);
    CHECK_INT(solve(), 0);
    b.input.schedulers = 1; /* and this is the second */
    CHECK_INT(solve(), FP_ELAYOUT);
}

TEST_BETWEEN(one_scheduler_has_no_decentralized_counters, create(), destroy())
{
    b.input.schedulers = 1;
    b.input.array_bytes = 0;
    fake_put_word(&b.memory, DATA + STRIDE + NUMBER_AT, 1);
    CHECK_INT(solve(), 0);
    CHECK_INT(b.tables.slots, 0);
    CHECK_INT(b.tables.lists, DATA + STRIDE + HEAD_AT);
}

TEST_BETWEEN(a_reference_tells_its_binary_only_where_it_is_magic, create(), destroy())
{
    fake_put_word(&b.memory, HEAP + 128, UINT64_C(2) << 6 | 0x10);
    fake_put_word(&b.memory, HEAP + 136, binary_at(3));
    CHECK_INT(fp_ets_binary(&b.memory.reader, (HEAP + 128) | 2), binary_at(3));
    CHECK_INT(fp_ets_binary(&b.memory.reader, (HEAP + 128) | 1), 0);
    fake_put_word(&b.memory, HEAP + 136, UINT64_C(77) << 32 | 0xffffffff);
    CHECK_INT(fp_ets_binary(&b.memory.reader, (HEAP + 128) | 2), 0);
    CHECK_INT(fp_ets_binary(&b.memory.reader, (HEAP + (64u << 20)) | 2), 0);
}

/* ---------------------------------------------------------------- reading -- */

TEST_BETWEEN(tables_of_all_schedulers_are_read, create_and_solve(), destroy())
{
    const struct fp_ets_table *table;

    (void)add(3);
    (void)add(3);
    read_all();
    CHECK_INT(b.list.count, FACTS + 2);
    CHECK_INT(b.list.incomplete, 0);
    CHECK_INT(b.list.left_out, 0);
    for (uint32_t k = 0; k < FACTS + 2; k++) {
        struct fp_ets_fact fact = fact_of(k);

        table = &b.list.table[k];
        CHECK_INT(table->address, table_at(k));
        CHECK_INT(table->owner, fact.owner);
        CHECK_INT(table->name, fact.name);
        CHECK_INT(table->status, fact.status);
        CHECK_INT(table->keypos, fact.keypos);
        CHECK_INT(table->objects, fact.objects);
        CHECK_INT(table->bytes, 8 * fact.words - 3);
        CHECK_INT(table->number[0], fact.number[0]);
        CHECK_INT(table->is_compressed, fact.is_compressed);
        CHECK_INT(table->is_decentralized, fact.is_decentralized);
    }
}

TEST_BETWEEN(counters_in_a_snapshot_are_not_told, create_and_solve(), destroy())
{
    fake_put_word(&b.memory, array_at(5) + 8, 1);
    read_all();
    CHECK_INT(b.list.table[4].objects, fact_of(4).objects);
    CHECK_INT(b.list.table[5].objects, -1);
    CHECK_INT(b.list.table[5].bytes, -1);
    fake_unmap(&b.memory, ARRAYS);
    read_all();
    CHECK_INT(b.list.count, FACTS);
    CHECK_INT(b.list.table[4].objects, -1);
}

/* An array that was let go holds something else: no table has so few bytes, or so many objects. */
TEST_BETWEEN(sums_that_no_table_has_are_not_told, create_and_solve(), destroy())
{
    put_array(4, 0, 0);
    put_array(5, UINT64_C(1) << 40, 4000);
    read_all();
    CHECK_INT(b.list.table[4].objects, -1);
    CHECK_INT(b.list.table[5].objects, -1);
}

TEST_BETWEEN(a_deleted_table_is_told_by_its_status, create_and_solve(), destroy())
{
    fake_put_word(&b.memory, binary_at(1) + INDIRECTION_AT, 0);
    read_all();
    CHECK_INT(b.list.count, FACTS - 1);
    CHECK_INT(b.list.left_out, 1);
    put_u32(table_at(1) + STATUS_AT, b.fact[1].status | FP_ETS_DELETING);
    read_all();
    CHECK_INT(b.list.count, FACTS);
    CHECK(b.list.table[1].status & FP_ETS_DELETING);
}

/* It was freed, and holds something else. */
TEST_BETWEEN(a_deleted_table_without_its_reference_is_left_out, create_and_solve(), destroy())
{
    const uint32_t number[] = {0x7fffffff, 7, 9};

    put_u32(table_at(1) + STATUS_AT, b.fact[1].status | FP_ETS_DELETING);
    fake_put_word(&b.memory, binary_at(1) + INDIRECTION_AT, 0);
    fake_put(&b.memory, binary_at(1) + NUMBERS_AT, number, sizeof number);
    read_all();
    CHECK_INT(b.list.count, FACTS - 1);
    CHECK_INT(b.list.left_out, 1);
}

TEST_BETWEEN(a_binary_of_another_table_leaves_the_table_out, create_and_solve(), destroy())
{
    fake_put_word(&b.memory, binary_at(2) + INDIRECTION_AT, table_at(3));
    fake_put_word(&b.memory, table_at(4) + BINARY_AT, HEAP + (64u << 20));
    read_all();
    CHECK_INT(b.list.count, FACTS - 2);
    CHECK_INT(b.list.left_out, 2);
    CHECK_INT(b.list.table[2].address, table_at(3));
}

/* Just before a table is read for the first time, some others go, and one comes. */
struct churn {
    uint64_t when;
    uint32_t remove[4];
    uint32_t removals;
    int adds, wipes;
};

static void churn_once(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct churn *churn = arg;

    (void)size;
    if (address != churn->when)
        return;
    memory->before_read = NULL;
    for (uint32_t i = 0; i < churn->removals; i++) {
        uint64_t table = table_at(churn->remove[i]);

        remove_from_scheduler(2, table);
        if (churn->wipes)
            memset(fake_at(memory, table, TABLE_BYTES), 0xa5, TABLE_BYTES);
    }
    if (churn->adds)
        (void)add(2);
}

static void read_in_churn(struct churn *churn, uint32_t expected)
{
    create_and_solve();
    for (uint32_t k = 0; k < 6; k++)
        (void)add(2);
    fake_hook(&b.memory, churn_once, churn);
    read_all();
    CHECK(b.memory.before_read == NULL);
    CHECK_INT(b.list.incomplete, 0);
    CHECK_INT(b.list.count, expected);
    for (uint32_t i = 0; i < b.list.count; i++) {
        for (uint32_t j = 0; j < i; j++)
            CHECK(b.list.table[i].address != b.list.table[j].address);
        for (uint32_t k = 0; churn->wipes && k < churn->removals; k++)
            CHECK(b.list.table[i].address != table_at(churn->remove[k]));
    }
    destroy();
}

/* Of 13 tables in the ring. */
TEST(tables_that_go_while_the_ring_is_read_hide_no_other)
{
    read_in_churn(&(struct churn){table_at(5), {5}, 1, 0, 1}, 12);
    read_in_churn(&(struct churn){table_at(5), {4}, 1, 0, 1}, 12);
    read_in_churn(&(struct churn){table_at(5), {3, 4}, 2, 0, 1}, 11);
    read_in_churn(&(struct churn){table_at(5), {2, 3, 4, 5}, 4, 0, 1}, 9);
    read_in_churn(&(struct churn){table_at(5), {6}, 1, 1, 1}, 13);
    read_in_churn(&(struct churn){table_at(12), {12}, 1, 1, 1}, 13);
    read_in_churn(&(struct churn){table_at(12), {10, 11}, 2, 0, 1}, 11);
}

TEST(a_first_table_that_goes_is_no_endless_walk)
{
    read_in_churn(&(struct churn){table_at(5), {0}, 1, 0, 1}, 12);
    read_in_churn(&(struct churn){table_at(5), {0}, 1, 0, 0}, 12);
    read_in_churn(&(struct churn){table_at(5), {0, 1}, 2, 1, 1}, 12);
    read_in_churn(&(struct churn){table_at(0), {0}, 1, 0, 1}, 12);
    read_in_churn(&(struct churn){table_at(1), {0, 1}, 2, 0, 1}, 11);
}

TEST(a_table_that_comes_is_told)
{
    read_in_churn(&(struct churn){table_at(5), {0}, 0, 1, 0}, 14);
}

TEST_BETWEEN(a_ring_that_is_none_is_incomplete, create_and_solve(), destroy())
{
    (void)add(3);
    fake_put_word(&b.memory, table_at(3) + ALL_AT, table_at(1));
    read_all();
    CHECK_INT(b.list.incomplete, 1);
    CHECK_INT(b.list.table[b.list.count - 1].address, table_at(FACTS));
    fake_put_word(&b.memory, table_at(3) + ALL_AT, HEAP + (64u << 20));
    read_all();
    CHECK_INT(b.list.incomplete, 1);
    fake_put_word(&b.memory, table_at(3) + ALL_AT, table_at(4));
    fake_unmap(&b.memory, DATA);
    read_all();
    CHECK_INT(b.list.incomplete, SCHEDULERS);
    CHECK_INT(b.list.count, 0);
}
