/* test_safe_read.c - reading memory that may not be there: the kernel's ways on real memory with
 * real holes, and the batches over a fake memory that counts. */
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/safe_read.h"
#include "fake_memory.h"
#include "test.h"

#define PAGE 4096u
#define PAGES 8u
#define HOLE 3u /* this page is not there */

struct way {
    const char *method;
    int (*open)(struct fp_memory *reader);
};

static const struct way ways[] = {
    {"process_vm_readv", fp_safe_read_open},
    {"/proc/self/mem", fp_safe_read_open_mem},
    {NULL, fp_safe_read_open_own}, /* the best that works here */
};
#define WAYS (sizeof ways / sizeof *ways)

static unsigned char *pages;

static uint64_t at(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static void lay_out(void)
{
    pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    for (size_t i = 0; i < PAGES * PAGE; i++)
        pages[i] = (unsigned char)(i * 7 + i / 256);
    CHECK_INT(munmap(pages + HOLE * PAGE, PAGE), 0);
}

static void tear_down(void)
{
    munmap(pages, PAGES * PAGE);
}

static void each_way(void (*test)(struct fp_memory *reader))
{
    lay_out();
    for (size_t w = 0; w < WAYS; w++) {
        struct fp_memory reader;

        CHECK_INT(ways[w].open(&reader), 0);
        if (ways[w].method != NULL)
            CHECK_TEXT(fp_safe_read_method(&reader), ways[w].method);
        test(&reader);
        fp_safe_read_close(&reader);
        fp_safe_read_close(&reader); /* harmless */
    }
    tear_down();
}

#define EACH_WAY(test)                                                                             \
    static void test##_this_way(struct fp_memory *reader);                                         \
    TEST(test)                                                                                     \
    {                                                                                              \
        each_way(test##_this_way);                                                                 \
    }                                                                                              \
    static void test##_this_way(struct fp_memory *reader)

EACH_WAY(each_way_reads_what_is_there)
{
    unsigned char into[3 * PAGE];

    for (size_t size = 0; size <= 3 * PAGE; size += 1 + size / 3)
        for (size_t from = 0; from + size <= 3 * PAGE; from += 1021) {
            memset(into, 0, sizeof into);
            CHECK_INT(fp_safe_read(reader, at(pages + from), into, size), 0);
            CHECK(memcmp(into, pages + from, size) == 0);
        }
}

/* A memfd is a file: beyond the limit the kernel ends the process with SIGXFSZ. */
TEST(a_limit_of_file_sizes_leaves_the_memfd_out)
{
    struct rlimit before, limit;
    struct fp_memory reader;

    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){PAGE, before.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_INT(fp_safe_read_open_own(&reader), 0);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK_TEXT(fp_safe_read_method(&reader), "process_vm_readv");
    fp_safe_read_close(&reader);
}

EACH_WAY(a_bad_address_is_an_answer)
{
    /* clang-format off */
    const uint64_t bad[] = {
        0, 1, 8, PAGE - 8, at(pages + HOLE * PAGE), at(pages + HOLE * PAGE + 1),
        at(pages + (HOLE + 1) * PAGE - 8), UINT64_C(0x0000800000000000),
        UINT64_C(0x00007ffffffff000), UINT64_C(0x4141414141414141), UINT64_C(0x7fffffffffffffff),
        UINT64_C(0x8000000000000000), UINT64_C(0xffff888000000000), UINT64_C(0xffffffff81000000),
        UINT64_C(0xfffffffffffffff0), UINT64_MAX,
    };
    /* clang-format on */
    uint64_t word;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(fp_safe_read_word(reader, bad[i], &word), FP_EFAULT);
    /* And it still works. */
    CHECK_INT(fp_safe_read_word(reader, at(pages), &word), 0);
}

EACH_WAY(a_read_that_runs_into_a_hole_fails)
{
    unsigned char into[4 * PAGE];
    uint64_t edge = at(pages + HOLE * PAGE);

    CHECK_INT(fp_safe_read(reader, edge - 8, into, 8), 0);
    for (uint64_t k = 1; k <= 8; k++)
        CHECK_INT(fp_safe_read(reader, edge - 8 + k, into, 8), FP_EFAULT);
    CHECK_INT(fp_safe_read(reader, edge - 2 * PAGE, into, 3 * PAGE), FP_EFAULT);
    /* The hole in between. */
    CHECK_INT(fp_safe_read(reader, edge - PAGE, into, 3 * PAGE), FP_EFAULT);
    CHECK_INT(fp_safe_read(reader, edge + PAGE - 1, into, 8), FP_EFAULT);
    CHECK_INT(fp_safe_read(reader, edge + PAGE, into, 8), 0);
}

EACH_WAY(memory_that_goes_away_is_an_answer_too)
{
    uint64_t word;
    void *page;

    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_INT(fp_safe_read_word(reader, at(page), &word), 0);
    CHECK_INT(munmap(page, PAGE), 0);
    CHECK_INT(fp_safe_read_word(reader, at(page), &word), FP_EFAULT);
}

TEST(a_large_piece_comes_whole)
{
    const size_t size = 3u << 20;
    unsigned char *from = malloc(size), *into = malloc(size);

    for (size_t i = 0; i < size; i++)
        from[i] = (unsigned char)(i * 31 + i / 4099);
    for (size_t w = 0; w < WAYS; w++) {
        struct fp_memory reader;
        struct fp_safe_read_span span[] = {{at(from), into, 8, -99},
                                           {at(from) + 8, into + 8, (uint32_t)size - 16, -99},
                                           {at(from) + size - 8, into + size - 8, 8, -99}};

        CHECK_INT(ways[w].open(&reader), 0);
        memset(into, 0, size);
        CHECK_INT(fp_safe_read_batch(&reader, span, 3), 3);
        CHECK(memcmp(from, into, size) == 0);
        fp_safe_read_close(&reader);
    }
    free(from);
    free(into);
}

/* -------------------------------------------------------------- batches -- */

enum kind { GOOD, HOLED, PARTIAL, EMPTY };

typedef size_t read_function(const struct fp_memory *, struct fp_safe_read_span *, size_t);

/* Spans of `kind[i]`, each with a result of its own, as read one by one. */
static void check_reading(const struct fp_memory *reader, read_function *read,
                          const enum kind *kind, size_t n)
{
    struct fp_safe_read_span *span = calloc(n + 1, sizeof *span);
    unsigned char *into = calloc(n + 1, 64);
    size_t good = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t hole = at(pages + HOLE * PAGE);

        span[i] = (struct fp_safe_read_span){at(pages + i * 5 % (2 * PAGE)), into + 64 * i,
                                             (uint32_t)(1 + i % 64), 77};
        if (kind[i] == HOLED)
            span[i].address = i % 2 == 0 ? 0 : hole + i % 1000;
        else if (kind[i] == PARTIAL) {
            span[i].address = hole - 8;
            span[i].size = 64;
        } else if (kind[i] == EMPTY)
            span[i].size = 0;
        good += kind[i] == GOOD || kind[i] == EMPTY;
    }
    span[n].result = 77;
    CHECK_INT(read(reader, span, n), good);
    for (size_t i = 0; i < n; i++) {
        int is_good = kind[i] == GOOD || kind[i] == EMPTY;

        CHECK_INT(span[i].result, is_good ? 0 : FP_EFAULT);
        if (is_good)
            CHECK(memcmp(span[i].into, pages + i * 5 % (2 * PAGE), span[i].size) == 0);
    }
    CHECK_INT(span[n].result, 77);
    free(span);
    free(into);
}

static void check_batch(const struct fp_memory *reader, const enum kind *kind, size_t n)
{
    check_reading(reader, fp_safe_read_batch, kind, n);
    check_reading(reader, fp_safe_read_view, kind, n);
    check_reading(reader, fp_safe_read_lines, kind, n);
}

/* In one piece of memory, which later reads of other kinds leave alone. */
TEST_BETWEEN(the_pieces_of_a_view_follow_each_other_without_gaps, lay_out(), tear_down())
{
    struct fp_memory reader;
    struct fp_safe_read_span span[100];
    unsigned char into[100 * 13], other[4096];

    CHECK_INT(fp_safe_read_open_own(&reader), 0);
    for (size_t i = 0; i < 100; i++)
        span[i] = (struct fp_safe_read_span){at(pages + 100 * i), into + 13 * i, 13, 77};
    CHECK_INT(fp_safe_read_view(&reader, span, 100), 100);
    CHECK_INT(fp_safe_read(&reader, at(pages), other, sizeof other), 0);
    for (size_t i = 0; i < 100; i++) {
        CHECK(span[i].into == (unsigned char *)span[0].into + 13 * i);
        CHECK(memcmp(span[i].into, pages + 100 * i, 13) == 0);
    }
    fp_safe_read_close(&reader);
}

/* A line never goes beyond its page. */
TEST_BETWEEN(lines_beside_a_hole_are_read, lay_out(), tear_down())
{
    static const uint32_t size[] = {1, 8, 63, 64, 65, 680};
    struct fp_memory reader;
    unsigned char into[2][680];

    CHECK_INT(fp_safe_read_open_own(&reader), 0);
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        const unsigned char *before = pages + HOLE * PAGE - size[i];
        const unsigned char *behind = pages + (HOLE + 1) * PAGE;
        struct fp_safe_read_span span[] = {{at(before), into[0], size[i], 77},
                                           {at(behind), into[1], size[i], 77}};

        CHECK_INT(fp_safe_read_lines(&reader, span, 2), 2);
        CHECK(memcmp(span[0].into, before, size[i]) == 0);
        CHECK(memcmp(span[1].into, behind, size[i]) == 0);
        /* In the window, each at its place in a line. */
        CHECK(span[0].into != into[0] && span[1].into != into[1]);
        CHECK_INT((uintptr_t)span[0].into % 64, at(before) % 64);
    }
    fp_safe_read_close(&reader);
}

/* A word of the VM that was taken for an address may be any. */
TEST(the_last_addresses_of_all_are_bad_ones)
{
    static const uint32_t size[] = {1, 8, 200, 4096};
    static read_function *const read[] = {fp_safe_read_batch, fp_safe_read_view,
                                          fp_safe_read_lines};
    struct fp_memory reader;
    unsigned char into[4096];

    CHECK_INT(fp_safe_read_open_own(&reader), 0);
    for (uint64_t from_end = 0; from_end < 4096 + 300; from_end++)
        for (size_t i = 0; i < sizeof size / sizeof *size; i++)
            for (size_t k = 0; k < sizeof read / sizeof *read; k++) {
                struct fp_safe_read_span span = {UINT64_MAX - from_end, into, size[i], 77};

                CHECK_INT(read[k](&reader, &span, 1), 0);
                CHECK_INT(span.result, FP_EFAULT);
                fp_safe_read_soon(span.address, span.size);
            }
    fp_safe_read_close(&reader);
}

EACH_WAY(every_entry_of_a_batch_has_its_own_result)
{
    uint64_t random = 3;
    enum kind kind[64];

    check_batch(reader, kind, 0);
    for (enum kind bad = HOLED; bad <= EMPTY; bad++)
        for (size_t n = 1; n <= 9; n++) {
            for (size_t where = 0; where < n; where++) {
                memset(kind, 0, sizeof kind);
                kind[where] = bad; /* at the start, amid, at the end */
                check_batch(reader, kind, n);
            }
            for (size_t i = 0; i < n; i++)
                kind[i] = bad; /* all of them */
            check_batch(reader, kind, n);
        }
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < 64; i++)
            kind[i] = run_below(&random, 2) == 0 ? GOOD : (enum kind)run_below(&random, 4);
        check_batch(reader, kind, 64);
    }
}

TEST(batches_beyond_what_the_kernel_takes_are_cut)
{
    static enum kind kind[5000];

    lay_out();
    for (size_t w = 0; w < WAYS; w++) {
        static const size_t sizes[] = {1023, 1024, 1025, 2048, 2500, 5000};
        struct fp_memory reader;

        CHECK_INT(ways[w].open(&reader), 0);
        for (size_t i = 0; i < 6; i++) {
            memset(kind, 0, sizeof kind);
            check_batch(&reader, kind, sizes[i]);
            /* Around the cuts. */
            kind[0] = kind[1022] = HOLED;
            kind[1023] = kind[1024] = PARTIAL;
            kind[2047] = kind[2048] = kind[sizes[i] - 1] = HOLED;
            check_batch(&reader, kind, sizes[i]);
        }
        fp_safe_read_close(&reader);
    }
    tear_down();
}

TEST(a_bad_entry_costs_one_more_call)
{
    struct fake_memory memory;
    struct fp_safe_read_span span[2500];
    uint64_t word[2500];

    fake_memory_create(&memory);
    fake_map(&memory, FAKE_BASE, 4096);
    for (size_t i = 0; i < 2500; i++)
        span[i] =
            (struct fp_safe_read_span){i % 100 == 50 ? 0 : FAKE_BASE + i % 4000, &word[i], 8, 77};
    CHECK_INT(fp_safe_read_batch(&memory.reader, span, 2500), 2475);
    CHECK(memory.calls <= 3 + 25);
    memory.calls = 0;
    CHECK_INT(fp_safe_read_batch(&memory.reader, span, 50), 50);
    CHECK_INT(memory.calls, 1);
    fake_memory_destroy(&memory);
}
