/* test_ets_objects.c - objects of tables in fake memory: their places found by what was put there,
 * refused where nothing or two places fit, and walked while tables change. */
#include "erts/ets_objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fake_tables.h"
#include "test.h"

#define ROOM (8u << 20)
#define MAGIC_INDIRECTION 72u
/* Not read: it only has to be told. */
#define BINARY(n) (UINT64_C(0x7f0000000000) + 64 * (uint64_t)(n))
#define FACTS 7u

struct fixture {
    struct fake_memory memory;
    struct fake_tables tables;
    struct fp_ets ets;
    struct fp_ets_objects objects;
    struct fp_ets_objects_fact fact[FACTS];
    uint64_t table[FACTS];
    struct fp_refusal refusal;
    uint64_t binaries;
    struct fp_ets_walk walk;
};

/* Buckets; 0 and 1: a tree, one with write_concurrency. */
static const uint64_t kind[FACTS] = {256, 256, 700, 0, 0, 1, 1};
static const uint64_t count[FACTS] = {40, 12, 700, 7, 50, 9, 33};

static uint64_t next_binary(struct fixture *f, struct fp_ets_objects_fact *fact)
{
    uint64_t binary = BINARY(f->binaries++);

    fact->binaries++;
    fact->sum += fp_ets_objects_sum(binary);
    return binary;
}

static void fill(struct fixture *f, uint32_t k)
{
    struct fp_ets_objects_fact *fact = &f->fact[k];
    uint64_t magic = fake_tables_take(&f->tables, 128), table;

    table = kind[k] > 1    ? fake_hash_table(&f->tables, kind[k])
            : kind[k] == 1 ? fake_concurrent_tree(&f->tables)
                           : fake_tree(&f->tables);
    *fact = (struct fp_ets_objects_fact){.binary = magic,
                                         .buckets = kind[k] > 1 ? kind[k] : 0,
                                         .is_concurrent = kind[k] == 1,
                                         .objects = count[k]};
    fake_put_word(&f->memory, magic + MAGIC_INDIRECTION, table);
    for (uint64_t n = 0; n < count[k]; n++) {
        uint64_t first = n % 3 == 2 ? 0 : fake_off_heap(&f->tables, next_binary(f, fact), 0);

        if (n % 3 == 1)
            first = fake_off_heap(&f->tables, next_binary(f, fact), first);
        if (kind[k] > 1) /* one chain of many in the second table */
            fake_hash_insert(&f->tables, table, k == 1 ? 255 : n * 13 % kind[k], first);
        else if (kind[k] == 1)
            fake_concurrent_insert(&f->tables, table, n, first);
        else
            fake_tree_insert(&f->tables, table, n, first);
    }
    f->table[k] = table;
}

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_memory_create(&f->memory);
    fake_map(&f->memory, FAKE_BASE, ROOM);
    f->tables = (struct fake_tables){.memory = &f->memory, .at = FAKE_BASE, .otp = otp};
    f->ets.indirection = MAGIC_INDIRECTION;
    for (uint32_t k = 0; k < FACTS; k++)
        fill(f, k);
    return f;
}

static void destroy(struct fixture *f)
{
    fake_memory_destroy(&f->memory);
    free(f);
}

static int solve_with(struct fixture *f, uint32_t from, uint32_t facts)
{
    return fp_ets_objects_solve(&f->objects, &f->ets, &f->memory.reader, f->tables.otp,
                                f->fact + from, facts, &f->refusal);
}

static int solve(struct fixture *f)
{
    return solve_with(f, 0, FACTS);
}

/* ------------------------------------------------------------- calibration -- */

TEST_WITH_EACH(every_place_is_found_by_what_tables_were_given, create, 25, 27, 29)
{
    CHECK_INT(solve(f), 0);
    CHECK_INT(f->objects.active, FAKE_TABLE_ACTIVE);
    CHECK_INT(f->objects.segments, FAKE_TABLE_SEGMENTS);
    CHECK_INT(f->objects.root, FAKE_TABLE_ROOT);
    CHECK_INT(f->objects.base, FAKE_TABLE_BASE);
    CHECK_INT(f->objects.root_of_base, FAKE_ROOT_OF_BASE);
    CHECK_INT(f->objects.first_of_hash, FAKE_FIRST_OF_HASH);
    CHECK_INT(f->objects.first_of_tree, FAKE_FIRST_OF_TREE);
}

static void check_refused(struct fixture *f, int err, const char *why)
{
    CHECK_INT(solve(f), err);
    CHECK_INT(f->refusal.err, err);
    CHECK(strstr(f->refusal.why, why) != NULL);
}

TEST_WITH(what_is_not_as_erlang_has_put_it_is_refused_by_name, create(27))
{
    for (uint32_t k = 0; k < FACTS; k++) {
        const char *why = kind[k] > 1    ? "segments: no place"
                          : kind[k] == 1 ? "root of a tree with locks: no place"
                                         : "root of a tree: no place";

        f->fact[k].sum++; /* another binary */
        check_refused(f, FP_ENOENT, why);
        f->fact[k].sum--;
        f->fact[k].objects++;
        check_refused(f, FP_ENOENT, why);
        f->fact[k].objects--;
        f->fact[k].binaries--;
        check_refused(f, FP_ENOENT, why);
        f->fact[k].binaries++;
    }
}

TEST_WITH(other_buckets_are_refused_by_name, create(25))
{
    f->fact[2].buckets = 701;
    check_refused(f, FP_ENOENT, "buckets in use: no place");
    f->fact[2].buckets = 700;
    for (uint32_t k = 0; k < FACTS; k++)
        if (kind[k] > 1)
            fake_put_word(&f->memory, f->table[k] + 128, kind[k]);
    check_refused(f, FP_EAMBIGUOUS, "buckets in use: more than one");
}

TEST_WITH(two_roots_that_fit_are_refused, create(29))
{
    for (uint32_t k = 0; k < FACTS; k++)
        if (kind[k] == 0)
            fake_put_word(&f->memory, f->table[k] + 64,
                          fake_word(&f->memory, f->table[k] + FAKE_TABLE_ROOT));
    check_refused(f, FP_EAMBIGUOUS, "root of a tree: more than one");
}

TEST_WITH(without_tables_nothing_is_found, create(25))
{
    CHECK_INT(solve_with(f, 0, 0), FP_EAMBIGUOUS);
    CHECK_INT(solve_with(f, 0, 3), FP_EAMBIGUOUS); /* no tree */
    CHECK_INT(solve_with(f, 3, 4), FP_EAMBIGUOUS); /* trees only */
}

/* -------------------------------------------------------------------- walk -- */

static void begin(struct fixture *f, uint32_t k)
{
    struct fp_ets_table table = {.address = f->table[k],
                                 .status = kind[k] > 1    ? FP_ETS_BAG
                                           : kind[k] == 1 ? FP_ETS_CA_ORDERED_SET
                                                          : FP_ETS_ORDERED_SET,
                                 .objects = (int64_t)count[k]};

    fp_ets_walk_begin(&f->walk, &fake_table_places, &f->memory.reader, &table);
}

/* Objects that the walk meets, each with its link. */
static uint64_t walk(struct fixture *f)
{
    uint64_t n = 0;

    while (fp_ets_walk_next(&f->walk) > 0)
        for (uint32_t k = 0; k < f->walk.objects; k++, n++)
            CHECK(fake_word(&f->memory, f->walk.object[k].link.at) ==
                  f->walk.object[k].link.object);
    return n;
}

TEST_WITH(each_object_is_met_once_with_its_link, create(27))
{
    for (uint32_t k = 0; k < FACTS; k++) {
        begin(f, k);
        CHECK_INT(walk(f), count[k]);
        CHECK_INT(f->walk.lost, 0);
        CHECK(!f->walk.has_shrunk && !f->walk.is_split);
    }
}

TEST_WITH(buckets_beyond_those_in_use_are_not_read, create(27))
{
    /* What is there was never written. */
    fake_put_word(&f->memory, fake_bucket(&f->tables, f->table[2], 700), 0x5a5a5a5a5a5a5a58);
    begin(f, 2);
    CHECK_INT(walk(f), 700);
    CHECK_INT(f->walk.lost, 0);
}

static uint64_t resized; /* the table */
static uint64_t resized_to;

static void resize(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    (void)size;
    if (address == *(const uint64_t *)arg) {
        memory->before_read = NULL;
        fake_put_word(memory, resized + FAKE_TABLE_ACTIVE, resized_to);
    }
}

static void resize_while(struct fixture *f, uint64_t to, uint64_t *when)
{
    resized = f->table[2];
    resized_to = to;
    *when = fake_bucket(&f->tables, f->table[2], 256);
    fake_hook(&f->memory, resize, when);
    begin(f, 2);
}

TEST_WITH(a_table_that_grows_is_walked_to_its_new_end, create(27))
{
    uint64_t when;

    fake_hash_insert(&f->tables, f->table[2], 900, 0);
    resize_while(f, 901, &when);
    CHECK_INT(walk(f), 701);
    CHECK(f->memory.before_read == NULL);
    CHECK(!f->walk.has_shrunk);
}

TEST_WITH(a_table_that_shrinks_is_told, create(27))
{
    uint64_t when;

    resize_while(f, 512, &when);
    CHECK(walk(f) < 700);
    CHECK(f->memory.before_read == NULL);
    CHECK(f->walk.has_shrunk);
}

TEST_WITH(a_circle_ends, create(27))
{
    uint64_t object = fake_bucket(&f->tables, f->table[1], 255), root;

    object = fake_word(&f->memory, object);
    fake_put_word(&f->memory, object, object);
    begin(f, 1);
    CHECK(walk(f) >= 2 * count[1]);
    CHECK(f->walk.lost > 0);
    root = fake_word(&f->memory, f->table[4] + FAKE_TABLE_ROOT);
    fake_put_word(&f->memory, root + 8, root);
    begin(f, 4);
    CHECK(walk(f) >= 2 * count[4]);
    CHECK(f->walk.lost > 0);
}

TEST(what_cannot_be_read_is_lost_and_counted)
{
    static const uint64_t bad[] = {8, 0x5a5a5a5a5a5a5a58, FAKE_BASE + 4, UINT64_MAX};

    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        struct fixture *f = create(27);
        uint64_t segments = fake_word(&f->memory, f->table[2] + FAKE_TABLE_SEGMENTS);

        fake_put_word(&f->memory, fake_bucket(&f->tables, f->table[0], 0), bad[k]);
        begin(f, 0);
        (void)walk(f);
        CHECK_INT(f->walk.lost, 1);
        fake_put_word(&f->memory, segments + 8, bad[k]);
        begin(f, 2);
        CHECK(walk(f) <= 256);
        CHECK(f->walk.lost >= 1);
        fake_put_word(&f->memory, f->table[2] + FAKE_TABLE_ACTIVE, bad[k] | UINT64_C(1) << 50);
        begin(f, 2);
        CHECK_INT(walk(f), 0);
        CHECK_INT(f->walk.lost, 1);
        fake_put_word(&f->memory, f->table[5] + FAKE_TABLE_BASE, bad[k]);
        begin(f, 5);
        CHECK_INT(walk(f), 0);
        CHECK(f->walk.lost == 1 || f->walk.is_split);
        destroy(f);
    }
}

/* As in memory that another has by now. Were each bucket looked for, this would take hours. */
TEST_WITH(many_buckets_without_segments_are_given_up, create(27))
{
    fake_put_word(&f->memory, f->table[2] + FAKE_TABLE_ACTIVE, UINT64_C(1) << 39);
    fake_put_word(&f->memory, f->table[2] + FAKE_TABLE_SEGMENTS, 8);
    begin(f, 2);
    CHECK_INT(walk(f), 0);
    CHECK_INT(f->walk.lost, 1);
}

TEST_WITH(a_tree_that_its_writers_split_is_told, create(27))
{
    uint64_t node = fake_word(&f->memory, f->table[6] + FAKE_TABLE_BASE);

    fake_put_word(&f->memory, node, 0);
    begin(f, 6);
    CHECK_INT(walk(f), 0);
    CHECK(f->walk.is_split);
    CHECK_INT(f->walk.lost, 0);
}

/* As OTP 29 has it: a bool, and three bytes that nothing is written to. */
TEST_WITH(the_first_byte_of_a_node_says_what_it_is, create(29))
{
    uint64_t node = fake_word(&f->memory, f->table[6] + FAKE_TABLE_BASE);

    fake_put_word(&f->memory, node, 0xa5a5a501);
    begin(f, 6);
    CHECK(walk(f) > 0);
    CHECK(!f->walk.is_split);
    fake_put_word(&f->memory, node, 0xa5a5a500);
    begin(f, 6);
    CHECK_INT(walk(f), 0);
    CHECK(f->walk.is_split);
}
