/* test_allocators.c - the arrays of allocators and the counters of their instances in fake memory:
 * found by their form and by what Erlang says, refused where two places fit, read as they were
 * written. */
#include "erts/allocators_solve.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fake_memory.h"
#include "test.h"

#define DATA FAKE_BASE
#define DATA_BYTES (256u << 10)
/* Across the border of two chunks of a scan. */
#define TABLE (DATA + 65536 - 128)
#define INFO (DATA + 131072)
#define POINTERS (FAKE_BASE + (64u << 20))
#define INSTANCES (FAKE_BASE + (128u << 20))
#define INSTANCE_BYTES 8192u
#define STATISTICS 1088u
#define POOL 416u

/* Each allocator has three instances but for literal_alloc, which has one of its own, and
 * test_alloc, which is off. */
#define PER_ALLOCATOR 3u
#define FACTS (9u * PER_ALLOCATOR + 1u)

struct bench {
    struct fake_memory memory;
    struct fp_ranges data;
    struct fp_allocators *allocators;
    struct fp_refusal refusal;
    struct fp_allocator_fact fact[FACTS];
    uint32_t facts;
    uint64_t seed;
};

static struct bench b;

static void put_u32(uint64_t address, uint32_t value)
{
    fake_put(&b.memory, address, &value, 4);
}

static uint64_t instance_at(uint32_t k)
{
    return INSTANCES + (uint64_t)k * INSTANCE_BYTES;
}

static void put_words(uint64_t address, const uint64_t *word, uint32_t n)
{
    fake_put(&b.memory, address, word, n * 8);
}

/* A fact, and the instance that it is of. */
static void add_instance(enum fp_allocator allocator, uint32_t number, int has_pool)
{
    struct fp_allocator_fact *fact = &b.fact[b.facts];
    uint64_t at = instance_at(b.facts);
    uint64_t cp = allocator;

    fake_map(&b.memory, at, INSTANCE_BYTES);
    *fact =
        (struct fp_allocator_fact){.allocator = allocator, .number = number, .has_pool = has_pool};
    for (uint32_t i = 0; i < FP_STATISTICS_WORDS; i++)
        fact->statistics[i] = run_random(&b.seed) % 100000;
    for (uint32_t i = 0; has_pool && i < FP_POOL_WORDS; i++)
        fact->pool[i] = 1 + run_random(&b.seed) % 1000;
    fact->pool[4] = 0;
    put_words(at + STATISTICS, fact->statistics, FP_STATISTICS_WORDS);
    put_words(at + POOL, fact->pool, FP_POOL_WORDS);
    put_words(at + POOL + 4 * 8, &cp, 1);
    b.facts++;
}

static void put_entry(uint32_t allocator, uint32_t size)
{
    uint64_t thread = TABLE + (allocator - 1) * 24, info = INFO + (allocator - 1) * 24;
    uint64_t pointers = POINTERS + allocator * 4096;

    put_u32(thread + 8, allocator + 1);
    if (size == 0)
        return;
    put_u32(thread, 1);
    put_u32(thread + 4, allocator != FP_ALLOCATOR_temp_alloc);
    put_u32(thread + 12, size);
    fake_put_word(&b.memory, thread + 16, pointers);
    put_u32(info, 1);
    put_u32(info + 4, 1);
    put_u32(info + 8, size);
    fake_put_word(&b.memory, info + 16, thread);
    fake_map(&b.memory, pointers, 8 * size);
    for (uint32_t i = 0; i < size; i++) {
        fake_put_word(&b.memory, pointers + 8 * i, instance_at(b.facts));
        add_instance(allocator, i, allocator != FP_ALLOCATOR_temp_alloc && i > 0);
    }
}

static void create(void)
{
    memset(&b, 0, sizeof b);
    b.seed = 7;
    fake_memory_create(&b.memory);
    fake_map(&b.memory, DATA, DATA_BYTES);
    b.data = (struct fp_ranges){1, {{DATA, DATA + DATA_BYTES}}};
    for (uint32_t i = FP_ALLOCATOR_temp_alloc; i < FP_ALLOCATOR_COUNT; i++)
        put_entry(
            i, i == FP_ALLOCATOR_literal_alloc || i == FP_ALLOCATOR_test_alloc ? 0 : PER_ALLOCATOR);
    put_u32(INFO + (FP_ALLOCATOR_literal_alloc - 1) * 24, 1);
    put_u32(INFO + (FP_ALLOCATOR_literal_alloc - 1) * 24 + 4, 1);
    fake_put_word(&b.memory, INFO + (FP_ALLOCATOR_literal_alloc - 1) * 24 + 16,
                  instance_at(b.facts));
    add_instance(FP_ALLOCATOR_literal_alloc, 0, 0);
}

static void destroy(void)
{
    free(b.allocators);
    fake_memory_destroy(&b.memory);
}

static int find(void)
{
    free(b.allocators);
    b.allocators = NULL;
    return fp_allocators_find(&b.allocators, &b.memory.reader, &b.data, &b.refusal);
}

static int solve(void)
{
    int err = find();

    return err != 0
               ? err
               : fp_allocators_solve(b.allocators, &b.memory.reader, b.fact, b.facts, &b.refusal);
}

TEST_BETWEEN(instances_and_counters_are_found_without_a_symbol, create(), destroy())
{
    CHECK_INT(solve(), 0);
    CHECK_INT(b.allocators->count, FACTS);
    CHECK_INT(b.allocators->statistics, STATISTICS);
    CHECK_INT(b.allocators->pool, POOL);
    CHECK(b.allocators->has_pool);
}

TEST_BETWEEN(what_an_instance_has_now_is_read, create(), destroy())
{
    static const uint64_t carriers[] = {2, 2000, 3, 3000, 0, 0, 90, 91, 92, 93};
    static const uint64_t blocks[] = {5, 500, 60, 6000, 61, 6100};
    static const uint64_t calls[] = {1, 20, 300, 4000, 50000, 600000};
    struct fp_allocator_figures figures[FACTS];
    uint64_t multi = instance_at(4) + STATISTICS + (FP_CALLS_WORDS + FP_CARRIERS_WORDS) * 8;

    CHECK_INT(solve(), 0);
    memset(fake_at(&b.memory, instance_at(4) + STATISTICS, FP_STATISTICS_WORDS * 8), 0,
           FP_STATISTICS_WORDS * 8);
    memset(fake_at(&b.memory, instance_at(4) + POOL, FP_POOL_WORDS * 8), 0, FP_POOL_WORDS * 8);
    put_words(instance_at(4) + STATISTICS, calls, 6);
    put_words(multi, carriers, 10);
    put_words(multi + 80, blocks, 6);
    put_words(multi + 80 + 48 * (FP_ALLOCATOR_COUNT - 1), blocks, 6);
    fake_put_word(&b.memory, instance_at(4) + POOL + 8 * 5, 70);   /* bytes of blocks */
    fake_put_word(&b.memory, instance_at(4) + POOL + 8 * 28, 7);   /* blocks, of the last one */
    fake_put_word(&b.memory, instance_at(4) + POOL + 8 * 29, 800); /* bytes */
    fake_put_word(&b.memory, instance_at(4) + POOL + 8 * 30, 8);   /* carriers */
    CHECK_INT(fp_allocators_read(b.allocators, &b.memory.reader, 0, b.allocators->count, figures),
              FACTS);
    CHECK_INT(b.allocators->instance[4].allocator, FP_ALLOCATOR_sl_alloc);
    CHECK_INT(b.allocators->instance[4].number, 1);
    CHECK_INT(figures[4].multi.mseg_carriers, 2);
    CHECK_INT(figures[4].multi.mseg_bytes, 2000);
    CHECK_INT(figures[4].multi.sys_carriers, 3);
    CHECK_INT(figures[4].multi.sys_bytes, 3000);
    CHECK_INT(figures[4].multi.blocks, 10);
    CHECK_INT(figures[4].multi.blocks_bytes, 1000);
    CHECK_INT(figures[4].single.blocks, 0);
    CHECK_INT(figures[4].pool_carriers, 8);
    CHECK_INT(figures[4].pool_bytes, 800);
    CHECK_INT(figures[4].pool_blocks, 7);
    CHECK_INT(figures[4].pool_blocks_bytes, 70);
    CHECK_INT(figures[4].taken, 4001);
    CHECK_INT(figures[4].given_back, 50020);
    CHECK(!figures[4].has_largest_free);
}

TEST_BETWEEN(an_instance_that_is_gone_is_no_figure, create(), destroy())
{
    struct fp_allocator_figures figures[FACTS];

    CHECK_INT(solve(), 0);
    fake_unmap(&b.memory, instance_at(4));
    CHECK_INT(fp_allocators_read(b.allocators, &b.memory.reader, 0, b.allocators->count, figures),
              FACTS - 1);
    CHECK_INT(figures[4].err, FP_EFAULT);
    CHECK_INT(figures[3].err, 0);
    CHECK_INT(figures[5].err, 0);
}

TEST_BETWEEN(another_table_and_another_end_are_refused, create(), destroy())
{
    memcpy(fake_at(&b.memory, DATA + 8192, 264), fake_at(&b.memory, TABLE, 264), 264);
    CHECK_INT(find(), FP_EAMBIGUOUS);
    memset(fake_at(&b.memory, DATA + 8192, 264), 0, 264);
    put_u32(TABLE + 8, 77);
    CHECK_INT(find(), FP_ENOENT);
}

TEST_BETWEEN(two_offsets_of_statistics_are_refused, create(), destroy())
{
    put_words(instance_at(9) + STATISTICS + 1368, b.fact[9].statistics, FP_STATISTICS_WORDS);
    CHECK_INT(solve(), FP_EAMBIGUOUS);
}

TEST_BETWEEN(two_offsets_of_the_pool_are_refused, create(), destroy())
{
    put_words(instance_at(4) + 8, b.fact[4].pool, FP_POOL_WORDS);
    CHECK_INT(solve(), FP_EAMBIGUOUS);
}

/* All are at work, but one. */
TEST_BETWEEN(one_instance_that_agrees_is_not_enough, create(), destroy())
{
    for (uint32_t i = 1; i < b.facts; i++)
        b.fact[i].statistics[11]++;
    CHECK_INT(solve(), FP_ENOENT);
    b.fact[1].statistics[11]--;
    CHECK_INT(solve(), 0);
}

TEST_BETWEEN(a_pool_that_is_nowhere_is_refused, create(), destroy())
{
    for (uint32_t i = 0; i < b.facts; i++)
        b.fact[i].pool[0]++;
    CHECK_INT(solve(), FP_ENOENT);
    for (uint32_t i = 0; i < b.facts; i++)
        b.fact[i].has_pool = 0;
    CHECK_INT(solve(), 0);
    CHECK(!b.allocators->has_pool);
}

TEST_BETWEEN(an_instance_that_only_erlang_knows_is_refused, create(), destroy())
{
    b.fact[3].number = 40;
    CHECK_INT(solve(), FP_ENOENT);
}
