/* test_maps.c - texts of /proc/self/maps to where code and data are. */
#include <sys/mman.h>

#include "base/error.h"
#include "base/maps.h"
#include "test.h"

#define EXE "/usr/lib/erlang/erts-15.2/bin/beam.smp"

static const char stock[] = "557d01000000-557d01100000 r--p 00000000 08:01 1234      " EXE "\n"
                            "557d01100000-557d01600000 r-xp 00100000 08:01 1234      " EXE "\n"
                            "557d01700000-557d01740000 r--p 00700000 08:01 1234      " EXE "\n"
                            "557d01740000-557d01760000 rw-p 00740000 08:01 1234      " EXE "\n"
                            "557d01760000-557d017a0000 rw-p 00000000 00:00 0 \n"
                            "557d02000000-557d02100000 rw-p 00000000 00:00 0         [heap]\n"
                            "7f0000000000-7f0004000000 rw-s 00000000 00:01 99        "
                            "/memfd:vmem (deleted)\n"
                            "7f0010000000-7f0014000000 r-xs 00000000 00:01 99        "
                            "/memfd:vmem (deleted)\n"
                            "7f0020000000-7f0020100000 rw-p 00000000 00:00 0 \n"
                            "7f0030000000-7f0030028000 r--p 00000000 08:01 55        "
                            "/usr/lib/x86_64-linux-gnu/libc.so.6\n"
                            "7f0030028000-7f0030180000 r-xp 00028000 08:01 55        "
                            "/usr/lib/x86_64-linux-gnu/libc.so.6\n"
                            "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0         [stack]\n"
                            "7ffd00100000-7ffd00102000 r-xp 00000000 00:00 0         [vdso]\n"
                            "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

static void check(int got_err, const struct fp_ranges *got, int err, uint32_t n,
                  const struct fp_range *range)
{
    CHECK_INT(got_err, err);
    CHECK_INT(got->count, n);
    for (uint32_t i = 0; i < n; i++) {
        CHECK_INT(got->range[i].start, range[i].start);
        CHECK_INT(got->range[i].end, range[i].end);
    }
}

/* clang-format off */
static const struct {
    const char *name, *text;
    int is_data;
    uint32_t count; /* 0: there is none */
    struct fp_range range[2];
} cases[] = {
    {"a stock node has one mapping of code", stock, 0, 1, {{0x7f0010000000, 0x7f0014000000}}},
    {"a stock node has its data with bss", stock, 1, 1, {{0x557d01740000, 0x557d017a0000}}},
    {"anonymous executable memory is code: +JMsingle, +JPperf",
     "7f0000000000-7f0000100000 rwxp 00000000 00:00 0 \n"
     "7f0000200000-7f0000300000 rwxp 00000000 00:00 0\n"
     "7f0000300000-7f0000400000 r-xp 00000000 00:00 0 \n" /* next to it */
     "7f0000500000-7f0000600000 -wxp 00000000 00:00 0 \n" /* unreadable */
     "7f0000700000-7f0000800000 rwxp 00000000 00:00 0 [anon:x]\n",
     0, 2, {{0x7f0000000000, 0x7f0000100000}, {0x7f0000200000, 0x7f0000400000}}},
    {"data ends at a gap",
     "1000-2000 rw-p 00000000 08:01 1 " EXE "\n3000-4000 rw-p 00000000 00:00 0 \n",
     1, 1, {{0x1000, 0x2000}}},
    {"data is what follows the executable's without a gap",
     "1000-2000 rw-p 00000000 08:01 1 " EXE "\n"
     "2000-3000 rw-p 00000000 00:00 0 \n"
     "3000-4000 rw-p 00000000 00:00 0 \n"
     "4000-5000 rw-p 00000000 00:00 0 [heap]\n"
     "5000-6000 rw-p 00000000 00:00 0 \n", 1, 1, {{0x1000, 0x4000}}},
    {"data of others is none",
     "1000-2000 rw-p 00000000 08:01 1 " EXE ".old\n"
     "2000-3000 rw-p 00000000 08:01 1 /x" EXE "\n"
     "3000-4000 r--p 00000000 08:01 1 " EXE "\n"
     "4000-5000 rw-p 00000000 00:00 0 \n", 1, 0, {{0}}},
    {"no text has no code", "", 0, 0, {{0}}},
    {"empty lines have no code", "\n\n\n", 0, 0, {{0}}},
    {"other text has no code", "hello\nworld rwxp\n", 0, 0, {{0}}},
    {"a range alone is no code", "1000-2000", 0, 0, {{0}}},
    {"a line without its end is no data", "1000-2000 rwxp", 1, 0, {{0}}},
    {"a line without its inode is no code", "1000-2000 rwxp 0 00:00", 0, 0, {{0}}},
    /* No kernel writes such; a search of the ranges relies on their order. */
    {"ranges are sorted and disjoint in any order of the lines",
     "4000-5000 r-xp 00000000 00:00 0 \n"
     "3000-2000 r-xp 00000000 00:00 0 \n"
     "1000-2000 r-xp 00000000 00:00 0 \n"
     "4800-6000 r-xp 00000000 00:00 0 \n"
     "7000-7000 r-xp 00000000 00:00 0 \n"
     "8000-9000 r-x 00000000 00:00 0 \n"
     "a000-b000 r-xp 00000000 00:00 0 \n", 0, 2, {{0x4000, 0x5000}, {0xa000, 0xb000}}},
    {"the last line needs no newline", "1000-2000 rwxp 00000000 00:00 0", 0, 1, {{0x1000, 0x2000}}},
};
/* clang-format on */

TEST(lines_are_code_or_data_or_neither)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fp_ranges got;
        int err;

        run_name = cases[i].name;
        err = cases[i].is_data ? fp_maps_parse_data(cases[i].text, EXE, &got)
                               : fp_maps_parse_code(cases[i].text, NULL, &got);
        check(err, &got, cases[i].count > 0 ? 0 : FP_ENOENT, cases[i].count, cases[i].range);
    }
}

/* ------------------------------------------------------------ other JITs -- */

static char *many(uint32_t n);

struct accepted {
    uint64_t start[256]; /* what the filter was asked about */
    uint32_t n, every;   /* it accepts each such one */
};

static int accept_some(void *arg, const struct fp_range *range)
{
    struct accepted *accepted = arg;

    accepted->start[accepted->n++] = range->start;
    return accepted->every > 0 && (accepted->n - 1) % accepted->every == 0;
}

TEST(beside_the_vm_s_memfd_anonymous_mappings_are_of_others)
{
    static const struct fp_range code[] = {{0x7f0010000000, 0x7f0014000000}};
    struct accepted accepted = {.every = 1};
    struct fp_maps_filter filter = {accept_some, &accepted};
    char *others = many(80), *text = malloc(strlen(others) + sizeof stock);
    struct fp_ranges got;

    strcat(strcpy(text, others), stock);
    check(fp_maps_parse_code(text, &filter, &got), &got, 0, 1, code);
    strcat(strcpy(text, stock), others);
    check(fp_maps_parse_code(text, &filter, &got), &got, 0, 1, code);
    CHECK_INT(accepted.n, 0);
    free(text);
    free(others);
}

TEST(anonymous_ranges_are_those_that_the_filter_accepts)
{
    struct accepted accepted = {.every = 40};
    struct fp_maps_filter filter = {accept_some, &accepted};
    static const struct fp_range code[] = {
        {0x10000, 0x11000}, {0x290000, 0x291000}, {0x510000, 0x511000}};
    char *text = many(120);
    struct fp_ranges got;

    check(fp_maps_parse_code(text, &filter, &got), &got, 0, 3, code);
    CHECK_INT(accepted.n, 120);
    accepted = (struct accepted){.every = 0};
    check(fp_maps_parse_code(text, &filter, &got), &got, FP_ENOENT, 0, NULL);
    free(text);
}

TEST(neighbours_are_one_range_before_the_filter_sees_them)
{
    static const char text[] = "10000-20000 r-xp 00000000 00:00 0 \n"
                               "20000-30000 rwxp 00000000 00:00 0 \n"
                               "30000-40000 rw-p 00000000 00:00 0 \n"
                               "40000-50000 rwxp 00000000 00:00 0 \n"
                               "50000-60000 r-xp 00000000 00:00 0 \n"
                               "60000-70000 r-xp 00000000 00:00 0 [anon:x]\n";
    static const struct fp_range code[] = {{0x10000, 0x30000}, {0x40000, 0x60000}};
    struct accepted accepted = {.every = 1};
    struct fp_maps_filter filter = {accept_some, &accepted};
    struct fp_ranges got;

    check(fp_maps_parse_code(text, &filter, &got), &got, 0, 2, code);
    CHECK_INT(accepted.n, 2);
    CHECK_INT(accepted.start[0], 0x10000);
    CHECK_INT(accepted.start[1], 0x40000);
}

/* An upgrade replaced it on disk. */
TEST(a_deleted_executable_has_data)
{
    static const char text[] = "1000-2000 rw-p 00000000 08:01 1 " EXE " (deleted)\n"
                               "2000-3000 rw-p 00000000 00:00 0 \n";
    struct fp_ranges got;

    CHECK_INT(fp_maps_parse_data(text, EXE " (deleted)", &got), 0);
    CHECK_INT(got.count, 1);
    CHECK_INT(got.range[0].end, 0x3000);
}

TEST(a_long_name_is_no_harm)
{
    struct fp_ranges got;
    char text[8192];
    int n = snprintf(text, sizeof text, "1000-2000 r-xp 00000000 08:01 1 /");

    memset(text + n, 'x', 5000);
    snprintf(text + n + 5000, sizeof text - (size_t)n - 5000,
             "\n3000-4000 r-xp 00000000 00:00 0\n");
    CHECK_INT(fp_maps_parse_code(text, NULL, &got), 0);
    CHECK_INT(got.count, 1);
    CHECK_INT(got.range[0].start, 0x3000);
}

static char *many(uint32_t n)
{
    char *text = malloc(64u * n + 1), *at = text;

    *at = '\0';
    for (uint32_t i = 0; i < n; i++)
        at += sprintf(at, "%x-%x rwxp 00000000 00:00 0\n", 0x10000 * (i + 1),
                      0x10000 * (i + 1) + 0x1000);
    return text;
}

TEST(more_ranges_than_there_is_room_for_are_refused)
{
    struct fp_ranges got;
    char *text = many(FP_RANGES_MAX);

    CHECK_INT(fp_maps_parse_code(text, NULL, &got), 0);
    CHECK_INT(got.count, FP_RANGES_MAX);
    CHECK(fp_ranges_contain(&got, 0x10000 * FP_RANGES_MAX));
    free(text);
    for (uint32_t n = FP_RANGES_MAX + 1; n < FP_RANGES_MAX + 40; n += 13) {
        text = many(n);
        CHECK_INT(fp_maps_parse_code(text, NULL, &got), FP_EFULL);
        CHECK_INT(got.count, FP_RANGES_MAX);
        free(text);
    }
}

TEST(a_range_has_its_start_and_not_its_end)
{
    static const struct fp_ranges ranges = {2, {{0x1000, 0x2000}, {0x3000, 0x4000}}};

    CHECK(!fp_ranges_contain(&ranges, 0xfff));
    CHECK(fp_ranges_contain(&ranges, 0x1000));
    CHECK(fp_ranges_contain(&ranges, 0x1fff));
    CHECK(!fp_ranges_contain(&ranges, 0x2000));
    CHECK(!fp_ranges_contain(&ranges, 0x2fff)); /* never min..max */
    CHECK(fp_ranges_contain(&ranges, 0x3fff));
    CHECK(!fp_ranges_contain(&ranges, 0));
    CHECK(!fp_ranges_contain(&ranges, UINT64_MAX));
}

static int writable;

TEST(this_process_has_data_and_no_jit_until_it_maps_some)
{
    struct fp_ranges got;
    void *page;

    CHECK_INT(fp_maps_data(&got), 0);
    CHECK(fp_ranges_contain(&got, (uint64_t)(uintptr_t)&writable));
    page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK_INT(fp_maps_code(NULL, &got), 0);
    CHECK(fp_ranges_contain(&got, (uint64_t)(uintptr_t)page));
    munmap(page, 4096);
}

TEST(lines_of_maps_are_libraries_or_are_not)
{
    static const char maps[] = "1000-2000 r--p 00000000 08:01 7   /usr/bin/beam.smp\n"
                               "2000-3000 r-xp 00001000 fe:01f 7   /usr/bin/beam.smp\n"
                               "3000-4000 rwxp 00000000 00:00 0 \n"
                               "4000-5000 r-xs 00000000 00:01 9   /memfd:vmem (deleted)\n"
                               "5000-6000 r-xp 00002000 08:01 8   /opt/my lib.so (deleted)\n"
                               "6000-7000 r-xp 00000000 00:05 8   /dev/zero (deleted)\n"
                               "7000-8000 r-xp 00000000 00:00 0   [vdso]\n"
                               "8000-9000 r-xs 00000000 00:01 8   /SYSV00000000 (deleted)\n"
                               "7800-9000 r-xp 00000000 08:01 8   /lib/overlaps.so\n"
                               "9000-9000 r-xp 00000000 08:01 8   /lib/empty.so\n"
                               "hello\n\n9000-a000 r-xp\n"
                               "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]";
    struct fp_mapped_files files;

    CHECK_INT(fp_mapped_files_parse(&files, strdup(maps)), 0);
    CHECK_INT(files.count, 3);
    CHECK_TEXT(files.of[0].path, "/usr/bin/beam.smp");
    CHECK_INT(files.of[0].start, 0x2000);
    CHECK_INT(files.of[0].end, 0x3000);
    CHECK_INT(files.of[0].offset, 0x1000);
    CHECK_INT(files.of[0].device_major, 0xfe);
    CHECK_INT(files.of[0].device_minor, 0x1f);
    CHECK_INT(files.of[0].inode, 7);
    CHECK_TEXT(files.of[1].path, "/opt/my lib.so");
    CHECK_TEXT(files.of[2].path, "[vdso]");
    fp_mapped_files_free(&files);
    CHECK_INT(fp_mapped_files_parse(&files, strdup("")), 0);
    CHECK_INT(files.count, 0);
    fp_mapped_files_free(&files);
}

/* ------------------------------------------------------------ live ranges */

static int live_contains(struct fp_live_ranges *live, uint64_t address)
{
    struct fp_ranges copy = {0};

    fp_live_ranges_copy(live, &copy);
    return fp_ranges_contain(&copy, address);
}

TEST(live_ranges_grow_and_never_forget)
{
    struct fp_live_ranges live = {0};
    struct fp_ranges now = {1, {{0x10000, 0x20000}}}, copy = {0};

    CHECK_INT(fp_live_ranges_update(&live, &now), 1);
    CHECK_INT(fp_live_ranges_update(&live, &now), 0);
    fp_live_ranges_copy(&live, &copy);
    CHECK_INT(copy.count, 1);
    now.range[0].end = 0x30000; /* the mapping grew upwards */
    CHECK_INT(fp_live_ranges_update(&live, &now), 1);
    CHECK_INT(fp_live_ranges_update(&live, &now), 0);
    now.range[0].start = 0x8000; /* and downwards */
    CHECK_INT(fp_live_ranges_update(&live, &now), 1);
    CHECK_INT(fp_live_ranges_update(&live, &now), 0);
    now = (struct fp_ranges){1, {{0x50000, 0x60000}}}; /* all others gone */
    CHECK_INT(fp_live_ranges_update(&live, &now), 1);
    CHECK(live_contains(&live, 0x8000));
    CHECK(live_contains(&live, 0x2ffff));
    CHECK(live_contains(&live, 0x50000));
    CHECK(!live_contains(&live, 0x30000));
    CHECK(!live_contains(&live, 0x7fff));
    /* A copy made before grows into the new one. */
    fp_live_ranges_copy(&live, &copy);
    CHECK(fp_ranges_contain(&copy, 0x50000));
}

TEST(live_ranges_that_are_full_count_what_has_no_room)
{
    struct fp_live_ranges live = {0};

    for (uint64_t i = 0; i < 2 * FP_RANGES_MAX; i++) {
        struct fp_ranges now = {1, {{i << 20, (i << 20) + 4096}}};

        CHECK_INT(fp_live_ranges_update(&live, &now), i < FP_RANGES_MAX);
        CHECK_INT(atomic_load(&live.left_out), i >= FP_RANGES_MAX);
    }
    for (uint64_t n = 1; n < 8; n++) { /* and tell how many there are now */
        struct fp_ranges now = {.count = 0};

        for (uint64_t i = 0; i < n; i++)
            now.range[now.count++] = (struct fp_range){(i + 100) << 20, (i + 100) << 20 | 4096};
        CHECK_INT(fp_live_ranges_update(&live, &now), 0);
        CHECK_INT(atomic_load(&live.left_out), n);
    }
    CHECK(live_contains(&live, UINT64_C(63) << 20));
    CHECK(!live_contains(&live, UINT64_C(64) << 20));
}

TEST(random_updates_contain_all_that_was)
{
    uint64_t random = 4;

    for (int round = 0; round < 2000; round++) {
        struct fp_live_ranges live = {0};
        unsigned char was[256] = {0};

        for (int step = 0; step < 8; step++) {
            struct fp_ranges now = {0};
            uint32_t at = run_below(&random, 20);

            while (at < 250 && now.count < 5) {
                uint32_t end = at + 1 + run_below(&random, 30);

                if (end > 255)
                    end = 255;
                now.range[now.count++] = (struct fp_range){at * 4096ull, end * 4096ull};
                memset(was + at, 1, end - at);
                at = end + 1 + run_below(&random, 60);
            }
            fp_live_ranges_update(&live, &now);
            for (uint32_t i = 0; i < 256; i++)
                CHECK_INT(live_contains(&live, i * 4096ull), was[i]);
        }
    }
}
