/* test_functions.c - all functions at one go, over modules that the test loads (fake_vm.c), with
 * holes and code that goes away meanwhile; and over a real memfd, that looking allocates nothing.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/functions.h"
#include "erts/resident.h"
#include "fake_vm.h"
#include "test.h"

#define BODIES 40u

struct fixture {
    struct fake_vm vm;
    struct fake_module module[10];
    uint32_t modules;
    struct fp_functions found;
    uint64_t name[3];
    struct fake_body body[FAKE_FUNCTIONS_MAX];
};

static const struct fake_module_options plain = {0, 16, 0, 0, 0};

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 64, 0);
    fake_vm_add_atoms(&f->vm);
    fake_vm_add_jit(&f->vm);
    f->name[0] = fake_atom_term(&f->vm, "alpha", 5);
    f->name[1] = fake_atom_term(&f->vm, "beta", 4);
    f->name[2] = fake_atom_term(&f->vm, "gamma", 5);
    for (uint32_t i = 0; i < FAKE_FUNCTIONS_MAX; i++) {
        char text[16];
        int len = snprintf(text, sizeof text, "f%u", i);

        f->body[i].function = fake_atom_term(&f->vm, text, (size_t)len);
        f->body[i].arity = i % 256;
        f->body[i].size = 32 + 8 * (i * 7 % 50);
    }
    return f;
}

static void destroy(struct fixture *f)
{
    fp_functions_free(&f->found);
    fake_vm_destroy(&f->vm);
    free(f);
}

static int look_in(struct fixture *f, const struct fp_ranges *ranges)
{
    fp_functions_free(&f->found);
    return fp_functions_read(&f->found, &f->vm.layout.release, &f->vm.memory.reader, ranges);
}

static void look(struct fixture *f)
{
    CHECK_INT(look_in(f, &f->vm.code), 0);
}

/* The next module, of the first `count` bodies; names take turns. */
static const struct fake_module *load(struct fixture *f, uint32_t count,
                                      const struct fake_module_options *options)
{
    struct fake_module *module = &f->module[f->modules];

    fake_load(&f->vm, module, f->name[f->modules++ % 3], f->body, count, options);
    return module;
}

/* What holds for any memory. */
static void check_order(const struct fixture *f)
{
    const struct fp_functions *found = &f->found;

    for (uint32_t i = 0; i < found->functions; i++) {
        const struct fp_function *it = &found->function[i];

        CHECK_INT(it->start, it->mfa_at + FP_MFA_SIZE);
        CHECK(it->end >= it->start);
        CHECK(it->module == FP_NO_MODULE || it->module < found->modules);
        CHECK(i == 0 || it[-1].mfa_at < it->mfa_at);
        CHECK(i == 0 || it[-1].end <= it->start);
    }
}

/* Module m of those found is this one, whole. */
static void expect_module(const struct fixture *f, uint32_t m, const struct fake_module *module)
{
    const struct fp_module *got = &f->found.module[m];

    CHECK(m < f->found.modules);
    CHECK_INT(got->name, module->name);
    CHECK_INT(got->start, module->header);
    CHECK_INT(got->end, module->end);
    CHECK_INT(got->count, module->count);
    for (uint32_t i = 0; i < module->count; i++) {
        const struct fp_function *it = &f->found.function[got->first + i];

        CHECK_INT(it->module, m);
        CHECK_INT(it->start, module->code[i]);
        CHECK_INT(it->end, i + 1 < module->count ? module->info[i + 1] : module->end);
        CHECK_INT(it->mfa[0], module->name);
        CHECK_INT(it->mfa[1], f->body[i].function);
        CHECK_INT(it->mfa[2], f->body[i].arity);
    }
}

TEST_WITH_EACH(every_function_of_every_module_is_found_in_order, create, 25, 26, 27, 28, 29)
{
    const struct fake_module *a = load(f, BODIES, &plain);
    const struct fake_module *b = load(f, 1, &plain);
    const struct fake_module *c = load(f, 599, &plain);

    look(f);
    CHECK_INT(f->found.functions, BODIES + 1 + 599);
    CHECK_INT(f->found.modules, 3);
    expect_module(f, 0, a);
    expect_module(f, 1, b);
    expect_module(f, 2, c);
    check_order(f);
}

TEST_WITH(what_comes_before_the_first_function_is_shared, create(27))
{
    const struct fake_module *a = load(f, BODIES, &plain);

    look(f);
    CHECK_INT(f->found.shared.count, 1);
    CHECK_INT(f->found.shared.range[0].start, FAKE_JIT);
    CHECK_INT(f->found.shared.range[0].end, a->header);
}

TEST_WITH(a_range_that_begins_with_a_module_has_nothing_shared, create(27))
{
    struct fake_module_options at_start = {0, 16, 0, 0, FAKE_JIT};
    const struct fake_module *a = load(f, 3, &at_start);

    look(f);
    expect_module(f, 0, a);
    CHECK_INT(f->found.shared.count, 0);
}

TEST_WITH(no_code_is_no_function, create(27))
{
    struct fp_ranges none = {.count = 0};

    look(f);
    CHECK_INT(f->found.functions + f->found.modules + f->found.shared.count, 0);
    CHECK_INT(look_in(f, &none), 0);
    CHECK_INT(f->found.functions, 0);
}

TEST_WITH(the_md5_is_read_where_there_is_one, create(29))
{
    const struct fake_module *a = load(f, 3, &plain);
    const struct fake_module *b = load(f, 3, &plain);

    fake_put(&f->vm.memory, FAKE_LINES, "0123456789abcdef", 16);
    fake_put_word(&f->vm.memory, a->functions - 16, FAKE_LINES);
    fake_put_word(&f->vm.memory, b->functions - 16, 0x1000); /* unreadable */
    look(f);
    CHECK(f->found.module[0].has_md5);
    CHECK_BYTES((const char *)f->found.module[0].md5, 16, "0123456789abcdef", 16);
    CHECK(!f->found.module[1].has_md5);
}

/* ------------------------------------------------------------- borders -- */

TEST(an_info_across_the_border_of_a_chunk_is_found)
{
    const uint64_t border = FAKE_JIT + FP_RESIDENT_MAX;

    for (uint64_t back = 0; back <= 96; back += 8) {
        struct fixture *f = create(27);
        struct fake_module_options at = {0, 16, 0, 0, FAKE_JIT + 8192};
        struct fake_module a;

        /* The second info begins `back` bytes before the border. */
        f->body[0].size = 32;
        fake_load(&f->vm, &a, f->name[0], f->body, BODIES, &at);
        f->body[0].size += (uint32_t)(border - back - a.info[1]);
        fake_load(&f->vm, &a, f->name[0], f->body, BODIES, &at);
        CHECK_INT(a.info[1], border - back);
        look(f);
        CHECK_INT(f->found.functions, BODIES);
        expect_module(f, 0, &a);
        check_order(f);
        destroy(f);
    }
}

TEST_WITH(code_up_to_the_very_end_of_a_range_is_found, create(27))
{
    const struct fake_module *a = load(f, BODIES, &plain);

    for (uint64_t spare = 0; spare <= 16; spare += 8) {
        struct fp_ranges tight = {1, {{FAKE_JIT, a->end + spare}}};

        CHECK_INT(look_in(f, &tight), 0);
        CHECK_INT(f->found.functions, BODIES);
        expect_module(f, 0, a);
    }
}

TEST_WITH(no_function_reaches_beyond_its_range, create(27))
{
    const struct fake_module *a = load(f, 3, &plain);

    for (uint64_t end = a->info[0]; end < a->end; end += 8) {
        struct fp_ranges cut = {1, {{FAKE_JIT, end}}};

        CHECK_INT(look_in(f, &cut), 0);
        CHECK_INT(f->found.modules, 0);
        check_order(f);
        for (uint32_t i = 0; i < f->found.functions; i++)
            CHECK(f->found.function[i].end <= end);
    }
}

/* Regions of their own with nothing between them, in one range and in many. */
TEST_WITH(holes_are_passed_over, create(27))
{
    const uint64_t far = FAKE_JIT + (UINT64_C(8) << 20);
    struct fp_ranges one = {1, {{FAKE_JIT, far + (1u << 20)}}};
    struct fp_ranges two = {2,
                            {{FAKE_JIT, FAKE_JIT + FAKE_JIT_SIZE}, {far - 4096, far + (1u << 20)}}};
    struct fake_module_options there = {0, 16, 0, 0, far};

    fake_map(&f->vm.memory, far, 3 * 4096);
    const struct fake_module *a = load(f, BODIES, &plain);
    const struct fake_module *b = load(f, 5, &there);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(look_in(f, i == 0 ? &one : &two), 0);
        CHECK_INT(f->found.functions, BODIES + 5);
        CHECK_INT(f->found.modules, 2);
        expect_module(f, 0, a);
        expect_module(f, 1, b);
        check_order(f);
    }
}

TEST(an_info_that_a_hole_cuts_is_none)
{
    const uint64_t page = FAKE_JIT + (UINT64_C(8) << 20), border = page + 4096;

    for (uint64_t cut = 8; cut <= 40; cut += 8) {
        struct fixture *f = create(27);
        struct fp_ranges range = {1, {{page - 4096, border + 4096}}};
        struct fake_module_options at = {0, 16, 0, 0, page};
        struct fake_module a;

        fake_map(&f->vm.memory, page, 2 * 4096);
        fake_load(&f->vm, &a, f->name[0], f->body, 2, &at);
        f->body[0].size += (uint32_t)(border - cut - a.info[1]);
        fake_load(&f->vm, &a, f->name[0], f->body, 2, &at);
        CHECK_INT(look_in(f, &range), 0);
        CHECK_INT(f->found.functions, 2);
        CHECK_INT(f->found.modules, 1);
        /* The second page goes, and with it a part of the second info. */
        {
            unsigned char first[4096];

            memcpy(first, fake_at(&f->vm.memory, page, 4096), sizeof first);
            fake_unmap(&f->vm.memory, page);
            fake_map(&f->vm.memory, page, 4096);
            fake_put(&f->vm.memory, page, first, sizeof first);
        }
        CHECK_INT(look_in(f, &range), 0);
        CHECK_INT(f->found.functions, 1);
        CHECK_INT(f->found.modules, 0); /* it is not whole any more */
        destroy(f);
    }
}

/* ------------------------------------------------------- code that goes -- */

struct vanishing {
    uint64_t reads_left, at;
};

static void vanish(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct vanishing *it = arg;

    (void)address;
    (void)size;
    if (it->at != 0 && it->reads_left-- == 0) {
        fake_unmap(memory, it->at);
        it->at = 0;
    }
}

TEST(a_range_may_vanish_before_any_read)
{
    const uint64_t far = FAKE_JIT + (UINT64_C(8) << 20);
    int reached = 1; /* the n-th read; when not, all have been tried */

    for (uint64_t n = 0; reached; n++) {
        struct fixture *f = create(27);
        struct fp_ranges two = {2, {{FAKE_JIT, FAKE_JIT + FAKE_JIT_SIZE}, {far, far + (1u << 16)}}};
        struct fake_module_options there = {0, 16, 0, 0, far};
        struct vanishing going = {n, FAKE_JIT};

        fake_map(&f->vm.memory, far, 1u << 16);
        load(f, BODIES, &plain);
        const struct fake_module *b = load(f, BODIES, &there);
        fake_hook(&f->vm.memory, vanish, &going);
        CHECK_INT(look_in(f, &two), 0);
        reached = going.at == 0;
        check_order(f);
        CHECK(f->found.modules >= 1);
        expect_module(f, f->found.modules - 1, b);
        destroy(f);
    }
}

TEST_WITH(what_is_left_of_an_overwritten_module_belongs_to_none, create(27))
{
    struct fake_module_options here = plain;
    const struct fake_module *old = load(f, BODIES, &plain);

    here.at = old->header;
    const struct fake_module *new = load(f, 3, &here);
    look(f);
    CHECK_INT(f->found.modules, 1);
    expect_module(f, 0, new);
    CHECK(f->found.functions > BODIES / 2);
    for (uint32_t i = 3; i < f->found.functions; i++) {
        CHECK_INT(f->found.function[i].module, FP_NO_MODULE);
        CHECK_INT(f->found.function[i].mfa[0], f->name[0]);
    }
    check_order(f);
}

TEST_WITH(an_unloaded_module_that_is_whole_is_one_like_any_other, create(27))
{
    struct fake_module old, new;

    fake_load(&f->vm, &old, f->name[0], f->body, BODIES, &plain);
    fake_load(&f->vm, &new, f->name[0], f->body, 3, &plain);
    look(f);
    CHECK_INT(f->found.modules, 2);
    expect_module(f, 0, &old);
    expect_module(f, 1, &new);
}

TEST_WITH(a_table_that_lists_other_functions_makes_no_module, create(27))
{
    static const uint64_t counts[] = {0, BODIES - 1, BODIES + 1, 65536, UINT64_MAX};
    const struct fake_module *a = load(f, BODIES, &plain);

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        fake_put_word(&f->vm.memory, a->header, counts[i]);
        look(f);
        CHECK_INT(f->found.functions, BODIES);
        /* One less: its last function's info looks like the end of code. */
        CHECK_INT(f->found.modules, counts[i] == BODIES - 1);
        check_order(f);
    }
    fake_put_word(&f->vm.memory, a->header, BODIES);
    fake_put_word(&f->vm.memory, a->functions + 8 * 7, a->info[7] + 8);
    look(f);
    CHECK_INT(f->found.modules, 0);
    fake_put_word(&f->vm.memory, a->functions + 8 * 7, a->info[7]);
    fake_put_word(&f->vm.memory, a->functions + 8 * BODIES, UINT64_MAX);
    look(f);
    CHECK_INT(f->found.modules, 0);
}

/* --------------------------------------------------------- real memory -- */

static void put_info(unsigned char *at, uint64_t name)
{
    uint64_t mfa[3] = {name, name, 2};

    at[0] = 0xe8;
    memcpy(at + FP_MFA_IN_INFO, mfa, sizeof mfa);
    at[FP_MFA_IN_INFO + FP_MFA_SIZE] = 0xeb;
}

/* The pages of a memfd, mapped as the JIT maps it, that nothing was put in. */
TEST(looking_allocates_nothing)
{
    const size_t size = 64u << 20;
    int fd = memfd_create("vmem", MFD_CLOEXEC);
    struct fp_release release = *fp_release_find(27);
    struct fp_functions found;
    struct fp_ranges range = {.count = 1};
    struct stat before, after;
    struct fp_memory reader;
    unsigned char *rw, *rx, byte;

    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    rw = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    rx = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    CHECK(rw != MAP_FAILED && rx != MAP_FAILED);
    /* Two pages that a border of pages runs through, and one further on. */
    put_info(rw + 3 * 4096 - 24, 0x0b | 7 << 6);
    put_info(rw + size - 8192, 0x0b | 9 << 6);
    range.range[0] = (struct fp_range){(uintptr_t)rx, (uintptr_t)rx + (uintptr_t)size};
    CHECK_INT(fp_safe_read_open(&reader), 0);
    CHECK(fstat(fd, &before) == 0);
    CHECK_INT(fp_functions_read(&found, &release, &reader, &range), 0);
    CHECK(fstat(fd, &after) == 0);
    CHECK_INT(found.functions, 2);
    CHECK_INT(found.function[0].mfa[0], 0x0b | 7 << 6);
    CHECK_INT(found.function[1].mfa[0], 0x0b | 9 << 6);
    CHECK_INT(after.st_blocks, before.st_blocks);
    /* So it would have been seen: a single byte of another page. */
    CHECK_INT(fp_safe_read(&reader, (uintptr_t)rx + 100 * 4096, &byte, 1), 0);
    CHECK(fstat(fd, &after) == 0);
    CHECK(after.st_blocks > before.st_blocks);
    fp_functions_free(&found);
    fp_safe_read_close(&reader);
    munmap(rw, size);
    munmap(rx, size);
    close(fd);
}
