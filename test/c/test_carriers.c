/* test_carriers.c - lists of carriers in fake memory: walked where they prove themselves, left out
 * where they do not. And the resident memory of this program, with carriers that it has made up. */
#include "erts/carriers.h"
#include "erts/rss.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/smaps.h"
#include "fake_memory.h"
#include "test.h"

#define INSTANCES 3u
#define STATISTICS 1088u
#define SINGLE (STATISTICS + 8 * FP_CALLS_WORDS)
#define MULTI (SINGLE + 8 * FP_CARRIERS_WORDS)
#define POOL 416u
#define LISTS 336u
#define INSTANCE_AT(k) (FAKE_BASE + (uint64_t)(k)*65536)
#define CARRIER_AT(k) (FAKE_BASE + (256u << 20) + (uint64_t)(k)*1048576)
#define SENTINEL_AT (FAKE_BASE + (128u << 20))

struct bench {
    struct fake_memory memory;
    struct fp_allocators *allocators;
    uint32_t carriers;
};

static struct bench b;

static void put(uint64_t address, uint64_t word)
{
    fake_put_word(&b.memory, address, word);
}

/* Carriers of 4096 x (k + 1) bytes; flags lie in the low bits of their sizes. */
static void put_list(uint64_t list, uint64_t counters, uint32_t n)
{
    uint64_t bytes = 0, before = 0;

    for (uint32_t k = 0; k < n; k++) {
        uint64_t at = CARRIER_AT(b.carriers++), size = 4096 * ((uint64_t)k + 1);

        fake_map(&b.memory, at, 4096);
        put(at, size | 1);
        put(at + 16, before);
        put(before == 0 ? list : before + 8, at);
        put(list + 8, at);
        before = at;
        bytes += size;
    }
    put(counters, n);
    put(counters + 8, bytes);
}

static void create(void)
{
    memset(&b, 0, sizeof b);
    fake_memory_create(&b.memory);
    b.allocators = calloc(1, sizeof *b.allocators + INSTANCES * sizeof *b.allocators->instance);
    CHECK(b.allocators != NULL);
    b.allocators->statistics = STATISTICS;
    b.allocators->pool = POOL;
    b.allocators->has_pool = 1;
    b.allocators->count = INSTANCES;
    for (uint32_t k = 0; k < INSTANCES; k++) {
        uint64_t at = INSTANCE_AT(k);

        fake_map(&b.memory, at, 8192);
        b.allocators->instance[k] =
            (struct fp_allocator_instance){.address = at, .number = (uint16_t)k, .allocator = 5};
        put_list(at + LISTS, at + MULTI, 3 + k);
        put_list(at + LISTS + 16, at + SINGLE, k);
    }
}

static void destroy(void)
{
    free(b.allocators);
    fake_memory_destroy(&b.memory);
}

TEST_BETWEEN(the_lists_are_found_and_walked, create(), destroy())
{
    struct fp_carriers carriers;

    CHECK_INT(fp_carriers_walk(b.allocators, &b.memory.reader, &carriers), FP_ENOENT);
    CHECK_INT(fp_carriers_solve(b.allocators, &b.memory.reader), 0);
    CHECK_INT(b.allocators->lists, LISTS);
    CHECK_INT(fp_carriers_walk(b.allocators, &b.memory.reader, &carriers), 0);
    CHECK_INT(carriers.count, 3 + 4 + 5 + 0 + 1 + 2);
    CHECK_INT(carriers.bytes, 4096 * (6 + 10 + 15 + 0 + 1 + 3));
    CHECK_INT(carriers.counted, carriers.bytes);
    for (uint32_t k = 0; k < carriers.count; k++)
        CHECK_INT(carriers.range[k].start, CARRIER_AT(k));
    fp_carriers_free(&carriers);
}

TEST_BETWEEN(a_list_that_is_not_as_counted_is_left_out, create(), destroy())
{
    struct fp_carriers carriers;

    CHECK_INT(fp_carriers_solve(b.allocators, &b.memory.reader), 0);
    put(INSTANCE_AT(1) + MULTI, 5);        /* one more than there are */
    put(CARRIER_AT(0) + 8, CARRIER_AT(0)); /* a ring */
    CHECK_INT(fp_carriers_walk(b.allocators, &b.memory.reader, &carriers), 0);
    CHECK_INT(carriers.count, 5 + 2);
    CHECK_INT(carriers.counted, 4096 * (6 + 10 + 15 + 0 + 1 + 3));
    fp_carriers_free(&carriers);
}

TEST_BETWEEN(lists_at_two_offsets_are_refused, create(), destroy())
{
    put(INSTANCE_AT(0) + 64, CARRIER_AT(0));
    put(INSTANCE_AT(0) + 72, CARRIER_AT(2));
    CHECK_INT(fp_carriers_solve(b.allocators, &b.memory.reader), FP_EAMBIGUOUS);
}

TEST_BETWEEN(lists_at_no_offset_are_refused, create(), destroy())
{
    for (uint32_t k = 0; k < INSTANCES; k++)
        put(INSTANCE_AT(k) + MULTI + 8, 1);
    CHECK_INT(fp_carriers_solve(b.allocators, &b.memory.reader), FP_ENOENT);
}

/* A ring of two carriers, marked pointers and all, made by the instances 0 and 2. */
static void put_ring(uint64_t next)
{
    uint64_t first = CARRIER_AT(100), second = CARRIER_AT(101);

    fake_map(&b.memory, SENTINEL_AT, 4096);
    fake_map(&b.memory, first, 4096);
    fake_map(&b.memory, second, 4096);
    put(first, 8192);
    put(second, 4096 | 1);
    put(SENTINEL_AT + next, (first + 32) | 1);
    put(first + 32 + next, second + 32);
    put(second + 32 + next, SENTINEL_AT | 2);
    for (uint32_t k = 0; k < INSTANCES; k++)
        put(INSTANCE_AT(k) + LISTS + 56, SENTINEL_AT);
    for (uint32_t k = 0; k < INSTANCES; k += 2) {
        uint64_t counters = INSTANCE_AT(k) + POOL + 8 * (FP_POOL_OPTIONS + 2 * FP_ALLOCATOR_COUNT);

        put(counters, k == 0 ? 8192 : 4096);
        put(counters + 8, 1);
    }
}

TEST(the_pool_is_walked_once)
{
    for (uint64_t next = 24; next <= 32; next += 8) {
        struct fp_carriers carriers;

        create();
        put_ring(next);
        CHECK_INT(fp_carriers_solve(b.allocators, &b.memory.reader), 0);
        CHECK_INT(fp_carriers_walk(b.allocators, &b.memory.reader, &carriers), 0);
        CHECK_INT(carriers.count, 3 + 4 + 5 + 0 + 1 + 2 + 2);
        CHECK_INT(carriers.range[carriers.count - 2].start, CARRIER_AT(100));
        CHECK_INT(carriers.bytes, carriers.counted);
        fp_carriers_free(&carriers);
        destroy();
    }
}

/* ---------------------------------------------------------------- resident -- */

#define MIB (1u << 20)

static unsigned char *touched(size_t bytes)
{
    unsigned char *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(at != MAP_FAILED);
    memset(at, 1, bytes);
    return at;
}

TEST(a_page_belongs_to_the_carrier_that_it_lies_in)
{
    struct fp_memory memory;
    struct fp_rss before, after;
    struct fp_carriers carriers = {0};
    struct fp_allocators *allocators = calloc(1, sizeof *allocators + sizeof *allocators->instance);
    unsigned char *at = touched(8 * MIB);
    uint64_t start = (uint64_t)(uintptr_t)at;
    struct fp_range range = {start + MIB, start + 3 * MIB + 100};
    uint64_t chunk[2] = {0, MIB | 2}, gone[4] = {2 * MIB + 1, 0, 0, INSTANCE_AT(7) | 1};

    CHECK(allocators != NULL);
    CHECK_INT(fp_safe_read_open(&memory), 0);
    allocators->count = 1;
    allocators->instance[0].address = INSTANCE_AT(7);
    CHECK_INT(fp_rss_read(&memory, allocators, &carriers, &before), 0);
    CHECK_INT(before.bytes[FP_RSS_carriers], 0);
    memcpy(at + 4 * MIB, chunk, sizeof chunk);
    memcpy(at + 5 * MIB, gone, sizeof gone);
    carriers = (struct fp_carriers){.range = &range, .count = 1};
    CHECK_INT(fp_rss_read(&memory, allocators, &carriers, &after), 0);
    CHECK(after.has_carriers);
    CHECK_INT(after.bytes[FP_RSS_carriers], 2 * MIB + 4096);
    CHECK_INT(after.bytes[FP_RSS_malloc] - before.bytes[FP_RSS_malloc], MIB);
    CHECK_INT(after.bytes[FP_RSS_cached] - before.bytes[FP_RSS_cached], 2 * MIB);
    CHECK_INT(fp_rss_read(&memory, NULL, NULL, &after), 0);
    CHECK(!after.has_carriers);
    fp_safe_read_close(&memory);
    munmap(at, 8 * MIB);
    free(allocators);
}

/* ------------------------------------------------------------------- smaps -- */

static const char smaps[] = "557d01000000-557d01100000 r--p 00000000 08:01 1234      /bin/a b\n"
                            "Size:               1024 kB\nRss:                 400 kB\n"
                            "Pss:                 100 kB\nVmFlags: rd mr\n"
                            "7f0000000000-7f0004000000 rw-p 00000000 00:00 0 \n"
                            "Size:  65536 kB\nRss:   8 kB\n"
                            "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0         [stack]\n"
                            "Rss:                  40 kB\n";

static void check_map(void *arg, const struct fp_smap *map)
{
    static const struct {
        uint64_t start, rss;
        const char *perms, *name;
    } expected[] = {{0x557d01000000, 400 << 10, "r--p", "/bin/a b"},
                    {0x7f0000000000, 8 << 10, "rw-p", ""},
                    {0x7ffd00000000, 40 << 10, "rw-p", "[stack]"}};
    uint32_t *n = arg;

    CHECK(*n < 3);
    CHECK_INT(map->start, expected[*n].start);
    CHECK_INT(map->rss, expected[*n].rss);
    CHECK(strcmp(map->perms, expected[*n].perms) == 0);
    CHECK(strcmp(map->name, expected[*n].name) == 0);
    ++*n;
}

TEST(each_mapping_is_visited_with_its_resident_memory)
{
    uint32_t n = 0;
    FILE *file = fmemopen((void *)(uintptr_t)smaps, sizeof smaps - 1, "r");

    CHECK(file != NULL);
    fp_smaps_parse(file, check_map, &n);
    fclose(file);
    CHECK_INT(n, 3);
}
