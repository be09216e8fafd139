/* test_allocator_parts.c - trees of carriers, lists of fixed sizes and the sizes of a super carrier
 * in fake memory: found where they prove themselves, unknown where they do not. */
#include "erts/allocators_solve.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fake_memory.h"
#include "test.h"

#define INSTANCES 3u
#define STATISTICS 1024u
#define MULTI (STATISTICS + 8 * (FP_CALLS_WORDS + FP_CARRIERS_WORDS))
#define ROOT (STATISTICS + 8 * FP_STATISTICS_WORDS)
#define FIX 800u
#define INSTANCE_AT(k) (FAKE_BASE + (uint64_t)(k)*65536)
#define CARRIER_AT(k, n) (FAKE_BASE + (256u << 20) + ((uint64_t)(k)*8 + (n)) * 65536)
#define NODE 328u
#define NODE_AT(k, n) (CARRIER_AT(k, n) + NODE)
#define LISTS_AT(k) (FAKE_BASE + (64u << 20) + (uint64_t)(k)*65536)
#define DATA (FAKE_BASE + (128u << 20))
#define TYPES 5u

struct bench {
    struct fake_memory memory;
    struct fp_allocators *allocators;
    struct fp_fix_fact fact[INSTANCES];
};

static struct bench b;

static void put(uint64_t address, uint64_t word)
{
    fake_put_word(&b.memory, address, word);
}

/* Flags and the largest size of all below are two halves of a word. */
static void put_node(uint64_t at, uint64_t size, uint64_t parent, uint64_t left, uint64_t right,
                     uint64_t max)
{
    put(at, size);
    put(at + 8, parent);
    put(at + 16, left);
    put(at + 24, right);
    put(at + 32, 0x7f00dead);
    put(at + 40, max << 32 | 2);
}

/* Three carriers, of which the right one has the largest hole. */
static void put_tree(uint32_t k, uint64_t largest)
{
    put_node(NODE_AT(k, 0), 500, 0, NODE_AT(k, 1), NODE_AT(k, 2), largest);
    put_node(NODE_AT(k, 1), 90, NODE_AT(k, 0), 0, 0, 90);
    put_node(NODE_AT(k, 2), largest, NODE_AT(k, 0), 0, 0, largest);
    put(INSTANCE_AT(k) + ROOT, NODE_AT(k, 0));
}

static void put_fixes(uint32_t k)
{
    static const uint64_t sizes[TYPES] = {96, 40, 16, 32, 128};
    int is_pooled = k > 0;

    fake_map(&b.memory, LISTS_AT(k), 4096);
    b.fact[k] = (struct fp_fix_fact){.number = k, .types = TYPES};
    put(INSTANCE_AT(k) + FIX, LISTS_AT(k));
    for (uint32_t i = 0; i < TYPES; i++) {
        uint64_t at = LISTS_AT(k) + 64 * (uint64_t)i, allocated = 10 * (k + 1) + i;

        put(at, sizes[i]);
        put(at + (is_pooled ? 32 : 40), allocated);
        put(at + (is_pooled ? 40 : 48), allocated - 3);
        put(at + 56, 100 + i);
        b.fact[k].bytes[i] = sizes[i] * allocated;
    }
}

static void create(void)
{
    memset(&b, 0, sizeof b);
    fake_memory_create(&b.memory);
    fake_map(&b.memory, DATA, 256u << 10);
    b.allocators = calloc(1, sizeof *b.allocators + INSTANCES * sizeof *b.allocators->instance);
    CHECK(b.allocators != NULL);
    b.allocators->statistics = STATISTICS;
    b.allocators->pool = 64;
    b.allocators->count = INSTANCES;
    for (uint32_t k = 0; k < INSTANCES; k++) {
        fake_map(&b.memory, INSTANCE_AT(k), 8192);
        b.allocators->instance[k] =
            (struct fp_allocator_instance){.address = INSTANCE_AT(k),
                                           .number = (uint16_t)k,
                                           .allocator = FP_ALLOCATOR_fix_alloc,
                                           .is_pooled = k > 0,
                                           .has_tree = 1};
        put(INSTANCE_AT(k) + MULTI, 3);
        put(INSTANCE_AT(k) + MULTI + 8, 3 * 65536);
        for (uint32_t n = 0; n < 3; n++) {
            fake_map(&b.memory, CARRIER_AT(k, n), 4096);
            put(CARRIER_AT(k, n) + 24, INSTANCE_AT(k) | 3);
        }
        put_tree(k, 7000 + k);
        put_fixes(k);
    }
}

static void destroy(void)
{
    free(b.allocators);
    fake_memory_destroy(&b.memory);
}

static int solve_trees(void)
{
    b.allocators->tree = 0;
    return fp_free_trees_solve(b.allocators, &b.memory.reader);
}

static struct fp_allocator_figures read_one(uint32_t k)
{
    struct fp_allocator_figures figures[INSTANCES];

    CHECK_INT(fp_allocators_read(b.allocators, &b.memory.reader, 0, b.allocators->count, figures),
              INSTANCES);
    return figures[k];
}

/* -------------------------------------------------------------------- trees -- */

TEST_BETWEEN(the_largest_free_block_is_that_of_the_root, create(), destroy())
{
    CHECK_INT(solve_trees(), 0);
    CHECK_INT(b.allocators->tree, ROOT);
    CHECK(read_one(2).has_largest_free);
    CHECK_INT(read_one(2).largest_free, 7002);
    put_tree(2, 65000);
    CHECK_INT(read_one(2).largest_free, 65000);
    put(INSTANCE_AT(2) + ROOT, 0);
    CHECK(read_one(2).has_largest_free);
    CHECK_INT(read_one(2).largest_free, 0);
}

TEST_BETWEEN(a_node_that_is_no_root_tells_nothing, create(), destroy())
{
    CHECK_INT(solve_trees(), 0);
    put(INSTANCE_AT(1) + ROOT, NODE_AT(1, 1));
    CHECK(!read_one(1).has_largest_free);
    put(INSTANCE_AT(1) + ROOT, 0x1000);
    CHECK(!read_one(1).has_largest_free);
    CHECK(read_one(0).has_largest_free);
    b.allocators->instance[0].has_tree = 0;
    CHECK(!read_one(0).has_largest_free);
}

/* Each time that the root is read, it is another one. */
static void turn_root(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    (void)size;
    (void)arg;
    if (address == INSTANCE_AT(1) + ROOT)
        fake_put_word(memory, address,
                      fake_word(memory, address) == NODE_AT(1, 0) ? NODE_AT(2, 0) : NODE_AT(1, 0));
}

TEST_BETWEEN(a_tree_whose_root_changes_meanwhile_tells_nothing, create(), destroy())
{
    CHECK_INT(solve_trees(), 0);
    b.memory.before_read = turn_root;
    CHECK(!read_one(1).has_largest_free);
    CHECK_INT(read_one(1).multi.mseg_carriers, 3);
    CHECK_INT(read_one(2).largest_free, 7002);
}

TEST_BETWEEN(a_tree_that_does_not_prove_itself_is_not_believed, create(), destroy())
{
    put(INSTANCE_AT(0) + MULTI, 4); /* carriers, of which the tree has three */
    put(CARRIER_AT(1, 2) + 24, INSTANCE_AT(0));
    CHECK_INT(solve_trees(), FP_ENOENT);
    CHECK_INT(b.allocators->tree, 0);
    put(INSTANCE_AT(0) + MULTI, 3);
    CHECK_INT(solve_trees(), 0);
    put(NODE_AT(0, 2), 9999); /* larger than what its root tells */
    CHECK_INT(solve_trees(), FP_ENOENT);
}

TEST_BETWEEN(trees_at_two_offsets_are_refused, create(), destroy())
{
    for (uint32_t k = 0; k < INSTANCES; k++)
        put(INSTANCE_AT(k) + ROOT + 8, NODE_AT(k, 0));
    CHECK_INT(solve_trees(), FP_EAMBIGUOUS);
    CHECK_INT(b.allocators->tree, 0);
}

/* -------------------------------------------------------------- fixed sizes -- */

static int solve_fixes(void)
{
    return fp_fix_solve(b.allocators, &b.memory.reader, b.fact, INSTANCES, 1u << 0 | 1u << 3);
}

TEST_BETWEEN(fixed_sizes_of_processes_are_added, create(), destroy())
{
    uint64_t bytes;

    CHECK_INT(fp_fix_read(b.allocators, &b.memory.reader, &bytes), FP_ENOENT);
    CHECK_INT(solve_fixes(), 0);
    CHECK_INT(fp_fix_read(b.allocators, &b.memory.reader, &bytes), 0);
    CHECK_INT(bytes, 96 * (10 + 20 + 30) + 32 * (13 + 23 + 33));
    put(LISTS_AT(2) + 32, 31);
    CHECK_INT(fp_fix_read(b.allocators, &b.memory.reader, &bytes), 0);
    CHECK_INT(bytes, 96 * (10 + 20 + 31) + 32 * (13 + 23 + 33));
    fake_unmap(&b.memory, LISTS_AT(2));
    CHECK_INT(fp_fix_read(b.allocators, &b.memory.reader, &bytes), FP_EFAULT);
}

/* Processes come and go between the answer of the VM and the look. */
TEST_BETWEEN(an_instance_at_work_is_found, create(), destroy())
{
    uint64_t bytes;

    b.fact[2].bytes[0] += 96;
    b.fact[2].bytes[4] -= 128;
    CHECK_INT(solve_fixes(), 0);
    CHECK_INT(fp_fix_read(b.allocators, &b.memory.reader, &bytes), 0);
    CHECK_INT(bytes, 96 * (10 + 20 + 30) + 32 * (13 + 23 + 33));
}

TEST_BETWEEN(lists_that_say_something_else_are_not_believed, create(), destroy())
{
    b.fact[2].bytes[4] += 8;
    CHECK_INT(solve_fixes(), FP_ENOENT);
    b.fact[2].bytes[4] -= 8;
    for (uint32_t i = 0; i < TYPES; i++)
        b.fact[1].bytes[i] += 128 * 240;
    CHECK_INT(solve_fixes(), FP_ENOENT);
    for (uint32_t i = 0; i < TYPES; i++)
        b.fact[1].bytes[i] -= 128 * 240;
    b.fact[2].number = 9;
    CHECK_INT(solve_fixes(), FP_ENOENT);
    b.fact[2].number = 2;
    b.fact[2].types--;
    CHECK_INT(solve_fixes(), FP_ENOENT);
    b.fact[2].types++;
    for (uint32_t k = 0; k < INSTANCES; k++)
        put(INSTANCE_AT(k) + 16, LISTS_AT(k));
    CHECK_INT(solve_fixes(), FP_EAMBIGUOUS);
    CHECK_INT(b.allocators->fix_types, 0);
}

/* ------------------------------------------------------------ super carrier -- */

TEST_BETWEEN(the_super_carrier_is_found_by_its_sizes, create(), destroy())
{
    struct fp_ranges data = {1, {{DATA, DATA + (256u << 10)}}};
    struct fp_super_carrier fact = {1 << 29, 21 << 20, 16 << 20, 1 << 20}, carrier;
    uint64_t at = DATA + 65536 - 40; /* across the border of two chunks */

    CHECK_INT(fp_super_carrier_solve(b.allocators, &b.memory.reader, &data, &fact), FP_ENOENT);
    CHECK_INT(fp_super_carrier_read(b.allocators, &b.memory.reader, &carrier), FP_ENOENT);
    fake_put(&b.memory, at, &fact, sizeof fact);
    CHECK_INT(fp_super_carrier_solve(b.allocators, &b.memory.reader, &data, &fact), 0);
    put(at + 8, 22 << 20);
    CHECK_INT(fp_super_carrier_read(b.allocators, &b.memory.reader, &carrier), 0);
    CHECK_INT(carrier.size, 1 << 29);
    CHECK_INT(carrier.used, 22 << 20);
    put(at + 8, 21 << 20);
    fake_put(&b.memory, DATA + 131072, &fact, sizeof fact);
    CHECK_INT(fp_super_carrier_solve(b.allocators, &b.memory.reader, &data, &fact), FP_EAMBIGUOUS);
}
