/* test_holders_tables.c - the refc binaries of ETS tables in fake memory, beside those of
 * processes; tables that change while they are read. */
#include "xray/holders.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/process_terms.h"
#include "fake_tables.h"
#include "fake_terms.h"
#include "fake_vm.h"
#include "test.h"

#define TABLES (FAKE_BASE + UINT64_C(0xa00000000))
#define ROOM (1u << 20)
#define PID(n) ((uint64_t)(n) << 4 | 3)
#define NAME UINT64_C(0x4b)
#define MAGIC_BYTES 64u

struct fixture {
    struct fake_vm vm;
    struct fake_tables tables;
    struct fp_ets ets;
    struct fp_holders holders;
    uint64_t head; /* of the scheduler's list */
};

/* In a DbTable, and of a magic binary. */
static const struct fp_ets places = {.schedulers = 1,
                                     .numbers = 16,
                                     .indirection = 32,
                                     .at = {[FP_ETS_FIELD_binary] = 32,
                                            [FP_ETS_FIELD_owner] = 40,
                                            [FP_ETS_FIELD_heir] = 48,
                                            [FP_ETS_FIELD_name] = 56,
                                            [FP_ETS_FIELD_status] = 64,
                                            [FP_ETS_FIELD_counters] = 96,
                                            [FP_ETS_FIELD_all] = 160}};

static void put(struct fixture *f, uint64_t at, uint64_t word)
{
    fake_put_word(&f->vm.memory, at, word);
}

static uint64_t get(struct fixture *f, uint64_t at)
{
    return fake_word(&f->vm.memory, at);
}

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 16, 2);
    fake_vm_add_atoms(&f->vm);
    for (uint32_t n = 0; n < 2; n++)
        (void)fake_spawn(&f->vm, n, FAKE_JIT + 64);
    fake_map(&f->vm.memory, TABLES, ROOM);
    f->tables = (struct fake_tables){&f->vm.memory, TABLES, otp};
    f->ets = places;
    f->head = f->ets.lists = fake_tables_take(&f->tables, 16);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_holders_free(&f->holders);
    fake_vm_destroy(&f->vm);
    free(f);
}

/* The last of the list. */
static uint64_t add(struct fixture *f, uint64_t table, uint32_t status, uint64_t objects)
{
    uint64_t magic = fake_tables_take(&f->tables, MAGIC_BYTES), first = get(f, f->head + 8);
    uint64_t last = first == 0 ? table : get(f, first + 168);

    put(f, table + 32, magic);
    put(f, table + 40, PID(7));
    put(f, table + 56, NAME);
    put(f, table + 64, UINT64_C(1) << 32 | status);
    put(f, table + 104, objects);
    put(f, table + 112, 1000 + objects);
    put(f, magic + 16, get(f, f->head) + 5);
    put(f, magic + 32, table);
    first = first == 0 ? table : first;
    put(f, table + 160, first);
    put(f, table + 168, last);
    put(f, last + 160, table);
    put(f, first + 168, table);
    put(f, f->head, get(f, f->head) + 1);
    put(f, f->head + 8, first);
    return table;
}

static uint64_t add_hash(struct fixture *f, uint64_t objects)
{
    return add(f, fake_hash_table(&f->tables, 300), FP_ETS_SET, objects);
}

static uint64_t put_binary(struct fixture *f, uint64_t refs, uint64_t size, uint64_t block)
{
    uint64_t at = fake_tables_take(&f->tables, 80) + 8;
    uint64_t refc = at + (f->tables.otp < 27 ? 8 : 16);

    put(f, at - 8, UINT64_C(5) << 40 | block | 2);
    put(f, refc, refs);
    put(f, refc + 8, size);
    return at;
}

static uint64_t off_heap(struct fixture *f, uint64_t binary)
{
    return fake_off_heap(&f->tables, binary, 0);
}

static int look_with(struct fixture *f, uint64_t bytes, uint32_t time_ms)
{
    const struct fp_holders_options options = {.layout = &f->vm.layout,
                                               .memory = &f->vm.memory.reader,
                                               .bytes = bytes,
                                               .time_ms = time_ms,
                                               .tables = &f->ets,
                                               .objects = &fake_table_places};

    fp_holders_free(&f->holders);
    return fp_holders_look(&options, &f->holders);
}

static void look(struct fixture *f)
{
    CHECK_INT(look_with(f, 16u << 20, 10000), 0);
}

static const struct fp_holder *of_table(const struct fixture *f, uint64_t table)
{
    for (uint32_t k = 0; k < f->holders.holders; k++) {
        const struct fp_holder *holder = &f->holders.holder[k];

        if (holder->table > 0 && f->holders.tables.table[holder->table - 1].address == table)
            return holder;
    }
    return NULL;
}

TEST_WITH_EACH(binaries_of_each_kind_of_table_are_found, create, 25, 27, 29)
{
    uint64_t hash = add_hash(f, 2), tree, concurrent;

    tree = add(f, fake_tree(&f->tables), FP_ETS_ORDERED_SET, 2);
    concurrent = add(f, fake_concurrent_tree(&f->tables), FP_ETS_CA_ORDERED_SET, 2);
    for (uint64_t n = 0; n < 2; n++) {
        fake_hash_insert(&f->tables, hash, 299 * n, off_heap(f, put_binary(f, 1, 100, 152)));
        fake_tree_insert(&f->tables, tree, n, off_heap(f, put_binary(f, 1, 200, 256)));
        fake_concurrent_insert(&f->tables, concurrent, n, off_heap(f, put_binary(f, 1, 300, 352)));
    }
    look(f);
    CHECK_INT(f->holders.holders, 3);
    CHECK_INT(f->holders.bytes, 2 * (152 + 256 + 352));
    CHECK_INT(of_table(f, hash)->bytes, 2 * 152);
    CHECK_INT(of_table(f, tree)->bytes, 2 * 256);
    CHECK_INT(of_table(f, concurrent)->bytes, 2 * 352);
    CHECK_INT(of_table(f, concurrent)->alone_bytes, 2 * 352);
    CHECK(!of_table(f, hash)->is_partial && !of_table(f, tree)->is_partial);
    CHECK_INT(f->holders.tables_moved, 0);
    CHECK_INT(f->holders.inconsistent_objects, 0);
    CHECK_INT(f->holders.tables.count, 3);
}

TEST_WITH(a_binary_of_several_counts_once_and_is_alone_with_none, create(25))
{
    uint64_t one = add_hash(f, 2), two = add_hash(f, 1), both = put_binary(f, 4, 1000, 1056);
    struct fake_terms heap = {&f->vm.memory, fake_heap_at(1)};
    const uint64_t word[] = {1000, 0, both, both + 24, 0};

    put(f, fake_process_at(1) + f->vm.layout.release.offset[FP_FIELD_bin_vheap] - 8u,
        fake_boxed(&heap, 5u << 6 | 0x20, word, 5) - 2);
    fake_hash_insert(&f->tables, one, 4, off_heap(f, both));
    fake_hash_insert(&f->tables, one, 260, off_heap(f, both));
    fake_hash_insert(&f->tables, two, 4, off_heap(f, both));
    look(f);
    CHECK_INT(f->holders.holders, 3);
    CHECK_INT(f->holders.table.used, 1);
    CHECK_INT(f->holders.bytes, 1056);
    CHECK_INT(of_table(f, one)->binaries, 1);
    CHECK_INT(of_table(f, one)->alone_bytes, 0);
    CHECK_INT(of_table(f, two)->bytes, 1056);
    CHECK_INT(f->holders.elsewhere, 0);
}

/* As compressed objects have it on 25. */
TEST_WITH(an_object_anywhere_is_read, create(25))
{
    uint64_t table = add_hash(f, 1), binary = put_binary(f, 1, 1000, 1056);
    uint64_t at = fake_tables_take(&f->tables, 64) + 3;

    put(f, at, 5u << 6 | 0x20);
    put(f, at + 24, binary);
    fake_hash_insert(&f->tables, table, 17, at);
    look(f);
    CHECK_INT(of_table(f, table)->bytes, 1056);
}

/* ------------------------------------------------------------------ changes -- */

struct change {
    uint64_t when; /* this is read */
    uint64_t at, word;
    uint32_t times;
};

/* One a read. */
static void change(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    (void)size;
    for (struct change *now = arg; now->when != 0; now++)
        if (address == now->when && now->times > 0) {
            now->times--;
            fake_put_word(memory, now->at, now->word);
            return;
        }
}

static void look_while(struct fixture *f, const struct change *changes, size_t n)
{
    struct change now[3] = {{0}};

    memcpy(now, changes, n * sizeof *now);
    fake_hook(&f->vm.memory, change, now);
    look(f);
    f->vm.memory.before_read = NULL;
    for (size_t k = 0; k < n; k++)
        CHECK_INT(now[k].times, 0);
}

/* Each time that its Binary is read. */
TEST_WITH(an_object_that_changes_at_each_reading_is_torn, create(27))
{
    uint64_t table = add_hash(f, 3), one = put_binary(f, 1, 1000, 1056), other, bucket;
    struct change now[2];

    fake_hash_insert(&f->tables, table, 17, off_heap(f, put_binary(f, 1, 100, 152)));
    other = fake_hash_insert(&f->tables, table, 18, off_heap(f, one));
    bucket = fake_bucket(&f->tables, table, 18);
    put(f, bucket, 0);
    now[0] = (struct change){.when = one - 8, .at = bucket, .word = other, .times = 1};
    fake_hash_insert(&f->tables, table, 18, off_heap(f, one));
    now[1] = (struct change){.when = one - 8, .at = bucket, .times = 1};
    fake_hash_insert(&f->tables, table, 19, off_heap(f, put_binary(f, 1, 100, 152)));
    look_while(f, now, 2);
    CHECK_INT(f->holders.inconsistent_objects, 1);
    CHECK_INT(f->holders.tables_moved, 1);
    CHECK_INT(of_table(f, table)->binaries, 2);
    CHECK_INT(f->holders.bytes, 2 * 152);
    CHECK(of_table(f, table)->is_partial);
}

TEST_WITH(an_object_that_is_deleted_is_not_told, create(27))
{
    uint64_t table = add_hash(f, 2), gone = put_binary(f, 1, 1000, 1056);
    struct change now = {.when = gone - 8, .times = 1};

    fake_hash_insert(&f->tables, table, 18, off_heap(f, gone));
    fake_hash_insert(&f->tables, table, 20, off_heap(f, put_binary(f, 1, 100, 152)));
    now.at = fake_bucket(&f->tables, table, 18);
    look_while(f, &now, 1);
    CHECK_INT(f->holders.inconsistent_objects, 0);
    CHECK_INT(of_table(f, table)->bytes, 152);
    CHECK(!of_table(f, table)->is_partial);
}

/* The old one may be behind the new one. */
TEST_WITH(an_object_in_place_of_another_is_told_in_part, create(27))
{
    uint64_t table = add_hash(f, 1), was = put_binary(f, 1, 2000, 2056), bucket, other;
    struct change now = {.when = was - 8, .times = 1};

    bucket = fake_bucket(&f->tables, table, 20);
    other = fake_hash_insert(&f->tables, table, 20, off_heap(f, put_binary(f, 1, 3000, 3056)));
    put(f, bucket, 0);
    fake_hash_insert(&f->tables, table, 20, off_heap(f, was));
    now.at = bucket;
    now.word = other;
    look_while(f, &now, 1);
    CHECK_INT(f->holders.inconsistent_objects, 0);
    CHECK_INT(f->holders.tables_moved, 1);
    CHECK_INT(of_table(f, table)->bytes, 3056);
    CHECK(of_table(f, table)->is_partial);
}

TEST_WITH(a_tree_that_is_rebalanced_is_told_in_part, create(27))
{
    uint64_t table = add(f, fake_tree(&f->tables), FP_ETS_ORDERED_SET, 1);
    uint64_t moved = put_binary(f, 1, 2000, 2056);
    struct change now = {.when = moved - 8, .at = table + FAKE_TABLE_ROOT, .times = 1};

    fake_tree_insert(&f->tables, table, 0, off_heap(f, moved));
    look_while(f, &now, 1);
    CHECK_INT(f->holders.tables_moved, 1);
    CHECK_INT(f->holders.holders, 0);
}

/* More binaries than are read at once: while the second lot is read the object is not linked. */
TEST_WITH(references_that_are_read_again_count_once, create(29))
{
    uint64_t table = add_hash(f, 1), list = 0, late = 0;
    uint64_t unused = fake_tables_take(&f->tables, 8), object, bucket;
    struct change now[4] = {{0}};

    for (unsigned k = 0; k < 1500; k++) {
        uint64_t binary = put_binary(f, 2, 100, 152);

        list = fake_off_heap(&f->tables, binary, list);
        late = k == 300 ? binary : late;
    }
    object = fake_hash_insert(&f->tables, table, 18, list);
    bucket = fake_bucket(&f->tables, table, 18);
    now[0] = (struct change){.when = late - 8, .at = bucket, .times = 1};
    now[1] = (struct change){.when = bucket, .at = unused, .times = 2};
    now[2] = (struct change){.when = bucket, .at = bucket, .word = object, .times = 1};
    fake_hook(&f->vm.memory, change, now);
    look(f);
    CHECK_INT(now[0].times + now[1].times, 0);
    CHECK_INT(of_table(f, table)->alone_bytes, 0);
    CHECK_INT(f->holders.elsewhere, f->holders.table.used);
    CHECK(of_table(f, table)->is_partial);
}

TEST_WITH(many_binaries_of_several_objects_are_whole, create(29))
{
    uint64_t table = add_hash(f, 3);

    for (unsigned n = 0; n < 3; n++) {
        uint64_t list = 0;

        for (unsigned k = 0; k < 600; k++)
            list = fake_off_heap(&f->tables, put_binary(f, 1, 100, 152), list);
        fake_hash_insert(&f->tables, table, n, list);
    }
    look(f);
    CHECK_INT(of_table(f, table)->binaries, 1800);
    CHECK_INT(of_table(f, table)->alone_bytes, 1800 * 152);
    CHECK(!of_table(f, table)->is_partial);
}

/* As where a rotation or the end of an object takes the way to others: none of these has a binary
 * yet that was read, and the counter tells that they are there. */
TEST_WITH(a_tree_that_loses_a_link_meanwhile_is_partial, create(27))
{
    uint64_t table = add(f, fake_tree(&f->tables), FP_ETS_ORDERED_SET, 100);
    struct change now = {.times = 1};

    for (unsigned n = 0; n < 100; n++) /* each below the one before, on the left */
        fake_tree_insert(&f->tables, table, 0,
                         n == 0 || n == 90 ? off_heap(f, put_binary(f, 1, 100, 152)) : 0);
    now.when = get(f, get(f, table + FAKE_TABLE_ROOT));
    now.at = now.when; /* its left */
    look_while(f, &now, 1);
    CHECK_INT(of_table(f, table)->binaries, 1);
    CHECK(of_table(f, table)->is_partial);
    CHECK_INT(f->holders.tables_moved, 1);
}

TEST_WITH(a_table_that_goes_is_partial, create(29))
{
    uint64_t table = add_hash(f, 1), binary = put_binary(f, 1, 1000, 1056);
    struct change now = {.when = binary - 8, .at = get(f, table + 32) + 32, .times = 1};

    fake_hash_insert(&f->tables, table, 18, off_heap(f, binary));
    look_while(f, &now, 1);
    CHECK_INT(of_table(f, table)->bytes, 1056);
    CHECK(of_table(f, table)->is_partial);
    CHECK_INT(f->holders.tables_moved, 1);
}

TEST(damaged_lists_of_objects_end_and_are_counted)
{
    static const uint64_t bad[] = {8, UINT64_C(0x5a5a5a5a5a5a5a58), UINT64_MAX - 7, 1};

    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        struct fixture *f = create(27);
        uint64_t table = add_hash(f, 3), circle = off_heap(f, put_binary(f, 1, 1000, 1056));

        fake_hash_insert(&f->tables, table, 1, bad[k]);
        put(f, circle + 16, circle);
        fake_hash_insert(&f->tables, table, 2, circle);
        fake_hash_insert(&f->tables, table, 3, off_heap(f, put_binary(f, 1, 100, 152)));
        look(f);
        CHECK_INT(f->holders.inconsistent_objects, 2);
        CHECK_INT(of_table(f, table)->bytes, 152);
        CHECK(of_table(f, table)->is_partial);
        destroy(f);
    }
}

TEST_WITH(a_split_tree_is_counted_and_nothing_else, create(27))
{
    uint64_t table = add(f, fake_concurrent_tree(&f->tables), FP_ETS_CA_ORDERED_SET, 2);

    put(f, get(f, table + FAKE_TABLE_BASE), 0);
    look(f);
    CHECK_INT(f->holders.tables_unread, 1);
    CHECK_INT(f->holders.tables_moved, 0);
    CHECK_INT(f->holders.holders, 0);
}

TEST_WITH(tables_that_the_time_is_over_for_are_late, create(27))
{
    uint64_t table = add_hash(f, 1);

    (void)add_hash(f, 0);
    fake_hash_insert(&f->tables, table, 1, off_heap(f, put_binary(f, 1, 100, 152)));
    CHECK_INT(look_with(f, 16u << 20, 0), 0);
    CHECK_INT(f->holders.tables_late, 1);
    CHECK_INT(f->holders.holders, 0);
}

TEST_WITH(more_tables_than_there_is_memory_for_are_left_out, create(27))
{
    (void)add_hash(f, 1);
    (void)add_hash(f, 1);
    CHECK_INT(look_with(f, 128u << 10, 10000), 0);
    CHECK_INT(f->holders.tables.left_out, 2);
    CHECK_INT(f->holders.tables.count, 0);
    CHECK_INT(f->holders.processes, 2);
}
