/* test_code_index.c - addresses in JIT code to functions and lines, over modules that the test
 * loads (fake_vm.c), each with a known answer for every byte. */
#include <sys/mman.h>

#include "base/error.h"
#include "erts/code_index.h"
#include "erts/code_scan.h"
#include "fake_vm.h"
#include "test.h"

#define BODIES 40u

struct fixture {
    struct fake_vm vm;
    struct fake_module module[10];
    uint32_t modules;
    struct fp_code_index *code;
    uint64_t name[3];        /* module names */
    uint64_t own_file, file; /* strings */
    struct fake_body body[FAKE_FUNCTIONS_MAX];
};

static uint64_t string(struct fake_vm *vm, const char *text)
{
    uint32_t character[64], n = 0;

    while (text[n] != '\0') {
        character[n] = (unsigned char)text[n];
        n++;
    }
    return fake_string(vm, character, n);
}

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 64, 0);
    fake_vm_add_atoms(&f->vm);
    fake_vm_add_jit(&f->vm);
    f->name[0] = fake_atom_term(&f->vm, "alpha", 5);
    f->name[1] = fake_atom_term(&f->vm, "beta", 4);
    f->name[2] = fake_atom_term(&f->vm, "gamma", 5);
    f->own_file = string(&f->vm, "alpha.erl");
    f->file = string(&f->vm, "src/included.hrl");
    for (uint32_t i = 0; i < FAKE_FUNCTIONS_MAX; i++) {
        char text[16];
        int len = snprintf(text, sizeof text, "f%u", i);

        f->body[i].function = fake_atom_term(&f->vm, text, (size_t)len);
        f->body[i].arity = i % 256;
        f->body[i].size = 32 + 8 * (i * 7 % 50);
    }
    CHECK_INT(fp_code_index_create(&f->code, &f->vm.layout, &f->vm.memory.reader, &f->vm.code), 0);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_code_index_destroy(f->code);
    fake_vm_destroy(&f->vm);
    free(f);
}

static const struct fake_module_options four = {4, 16, 0, 0, 0};

/* The next module, of the first `count` bodies; names take turns. */
static const struct fake_module *load(struct fixture *f, uint32_t count,
                                      const struct fake_module_options *options)
{
    struct fake_module *module = &f->module[f->modules];

    fake_load(&f->vm, module, f->name[f->modules++ % 3], f->body, count, options);
    return module;
}

static void expect(struct fixture *f, uint64_t pc, const struct fake_module *module,
                   uint32_t function, const struct fake_module_options *options)
{
    struct fp_location location;
    uint32_t line = 0;

    CHECK_INT(fp_code_index_resolve(f->code, pc, &location), 0);
    CHECK(location.mfa[0] == module->name);
    CHECK(location.mfa[1] == f->body[function].function);
    CHECK(location.mfa[2] == f->body[function].arity);
    if (options->loc_size != 0)
        line = fake_line(module, function, pc, options);
    CHECK_INT(location.line, line);
    CHECK_INT(location.file, line == 0                             ? 0
                             : line % 2 == 1 && options->file != 0 ? options->file
                                                                   : options->own_file);
}

static void expect_all(struct fixture *f, const struct fake_module *module,
                       const struct fake_module_options *options)
{
    for (uint32_t i = 0; i < module->count; i++) {
        uint64_t first = module->code[i];
        uint64_t last = first + f->body[i].size - 1;

        expect(f, first, module, i, options);
        expect(f, first + (last - first) / 2, module, i, options);
        expect(f, last, module, i, options);
    }
}

static void expect_nothing(struct fixture *f, uint64_t pc)
{
    struct fp_location location;

    CHECK_INT(fp_code_index_resolve(f->code, pc, &location), FP_ENOENT);
}

TEST_WITH_EACH(every_function_is_found_at_its_first_middle_and_last_byte, create, 25, 26, 27, 28,
               29)
{
    struct fake_module_options with_file = {4, 24, f->own_file, f->file, 0};
    const struct fake_module *a = load(f, BODIES, &four);
    const struct fake_module *b = load(f, BODIES, &with_file);

    expect_all(f, a, &four);
    expect_all(f, b, &with_file);
    expect_all(f, a, &four); /* from the cache */
    CHECK_INT(fp_code_index_size(f->code), 2 * BODIES);
}

TEST_WITH(every_byte_of_a_module_has_the_right_answer, create(27))
{
    const struct fake_module *a = load(f, BODIES, &four);

    for (uint32_t i = 0; i < BODIES; i++) {
        /* Its ErtsCodeInfo is code of no function. */
        for (uint64_t pc = a->info[i]; pc < a->code[i]; pc++)
            expect_nothing(f, pc);
        for (uint64_t k = 0; k < f->body[i].size; k++)
            expect(f, a->code[i] + k, a, i, &four);
    }
}

/* With locations of two bytes, without lines, and at the beginning of a mapping. */
TEST_WITH(modules_of_other_forms_are_found, create(29))
{
    const struct fake_module_options forms[] = {
        {2, 8, f->own_file, 0, 0}, {0, 8, 0, 0, 0}, {4, 16, 0, 0, FAKE_JIT}};

    for (size_t i = 0; i < 3; i++)
        expect_all(f, load(f, i == 2 ? 3 : BODIES, &forms[i]), &forms[i]);
}

TEST_WITH(a_line_table_that_is_no_such_gives_no_line, create(27))
{
    struct fp_location location;
    uint64_t table;
    const struct fake_module *a = load(f, 3, &four);

    table = fake_word(&f->vm.memory, a->functions - 8 * 8);
    fake_put(&f->vm.memory, table + 8, "\3\0\0\0", 4); /* loc_size 3 */
    CHECK_INT(fp_code_index_resolve(f->code, a->code[0], &location), 0);
    CHECK_INT(location.line, 0);
    fake_put(&f->vm.memory, table + 8, "\4\0\0\0", 4);
    fake_put_word(&f->vm.memory, table + 24 + 8, UINT64_MAX); /* func_tab[1] */
    CHECK_INT(fp_code_index_resolve(f->code, a->code[1], &location), 0);
    CHECK_INT(location.line, 0);
    fake_put_word(&f->vm.memory, a->functions - 8 * 8, 0x1000); /* unreadable */
    CHECK_INT(fp_code_index_resolve(f->code, a->code[2], &location), 0);
    CHECK_INT(location.line, 0);
}

TEST_WITH(shared_code_before_the_first_function_is_no_function, create(27))
{
    const struct fake_module *a = load(f, BODIES, &four);

    for (uint64_t pc = FAKE_JIT; pc < a->code[0]; pc += 3)
        expect_nothing(f, pc);
}

TEST_WITH(between_and_behind_modules_is_no_function, create(27))
{
    const struct fake_module *a = load(f, BODIES, &four);
    const struct fake_module *b = load(f, BODIES, &four);

    for (uint64_t pc = a->end; pc < b->code[0]; pc++)
        expect_nothing(f, pc);
    for (uint64_t pc = b->end; pc < b->end + 20000; pc += 7)
        expect_nothing(f, pc);
    /* And again when the modules' neighbours are known. */
    expect_all(f, a, &four);
    expect_all(f, b, &four);
    for (uint64_t pc = a->end; pc < b->code[0]; pc += 2)
        expect_nothing(f, pc + 1);
    expect_nothing(f, b->end + 1);
}

TEST_WITH(addresses_outside_of_the_ranges_are_no_function, create(27))
{
    static const uint64_t far[] = {
        0, 1, 8, FAKE_JIT - 1, FAKE_JIT + FAKE_JIT_SIZE, FAKE_LINES, UINT64_MAX, UINT64_MAX - 8};

    load(f, BODIES, &four);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        expect_nothing(f, far[i]);
}

TEST(a_function_may_be_longer_than_a_block_and_cross_borders)
{
    for (uint32_t shift = 0; shift < 64; shift += 8) {
        struct fixture *f = create(27);
        struct fake_module_options coarse = {4, 512, 0, 0, 0};

        f->body[0].size = 8192 - 1024 + 8 * shift;
        f->body[1].size = 40960 + shift;
        f->body[2].size = 8192 - 40;
        f->body[3].size = 8192;
        f->body[4].size = 200000;
        const struct fake_module *a = load(f, 6, &coarse);
        /* Last first: nothing is known when the walk is longest. */
        for (uint32_t i = 6; i-- > 0;)
            for (uint64_t k = 0; k < f->body[i].size; k += 61) {
                uint64_t pc = a->code[i] + f->body[i].size - 1 - k;

                expect(f, pc, a, i, &coarse);
            }
        destroy(f);
    }
}

TEST_WITH(a_module_with_hundreds_of_functions_is_found_from_its_last, create(25))
{
    const struct fake_module *a = load(f, 599, &four);

    expect(f, a->code[598] + 9, a, 598, &four);
    expect_all(f, a, &four);
}

TEST_WITH(code_up_to_the_very_end_of_a_mapping_is_found, create(27))
{
    const struct fake_module *a = load(f, BODIES, &four);

    for (uint64_t spare = 0; spare <= 16; spare += 8) {
        struct fp_ranges tight = {1, {{FAKE_JIT, a->end + spare}}};

        fp_code_index_set_ranges(f->code, &tight);
        expect_all(f, a, &four);
    }
}

/* ------------------------------------------------------- code that changes */

TEST_WITH(a_function_replaced_at_the_same_place_is_noticed, create(27))
{
    struct fake_module_options here = four;
    const struct fake_module *a = load(f, BODIES, &four);

    expect_all(f, a, &four);
    CHECK_INT(fp_code_index_revalidate(f->code), 0);
    CHECK_INT(fp_code_index_size(f->code), BODIES);
    here.at = a->header;
    const struct fake_module *b = load(f, BODIES, &here);
    CHECK(fp_code_index_revalidate(f->code) > 0);
    CHECK_INT(fp_code_index_size(f->code), 0);
    expect_all(f, b, &here);
    CHECK_INT(fp_code_index_revalidate(f->code), 0);
}

TEST_WITH(the_same_functions_with_other_lines_are_noticed, create(27))
{
    struct fake_module a, b;
    struct fake_module_options other = {4, 8, 0, f->file, 0};

    fake_load(&f->vm, &a, f->name[0], f->body, BODIES, &four);
    expect_all(f, &a, &four);
    other.at = a.header;
    fake_load(&f->vm, &b, f->name[0], f->body, BODIES, &other);
    CHECK(fp_code_index_revalidate(f->code) > 0);
    expect_all(f, &b, &other);
}

TEST_WITH(a_replaced_module_does_not_answer_before_it_is_noticed_either, create(27))
{
    struct fake_module_options here = {4, 8, 0, 0, 0};
    const struct fake_module *a = load(f, BODIES, &four);

    expect(f, a->code[3] + 4, a, 3, &four);
    here.at = a->header;
    const struct fake_module *b = load(f, BODIES, &here);
    /* Addresses that are not cached: without revalidation, right at once. */
    expect(f, b->code[7] + 5, b, 7, &here);
    expect(f, b->code[39] + 5, b, 39, &here);
}

TEST_WITH(a_removed_module_is_forgotten, create(27))
{
    const struct fake_module *a = load(f, BODIES, &four);

    expect_all(f, a, &four);
    memset(fake_at(&f->vm.memory, a->header, a->end - a->header), 0xcc, a->end - a->header);
    CHECK(fp_code_index_revalidate(f->code) >= (int)BODIES);
    for (uint32_t i = 0; i < BODIES; i++)
        expect_nothing(f, a->code[i]);
    fake_unmap(&f->vm.memory, FAKE_JIT);
    CHECK_INT(fp_code_index_revalidate(f->code), 0);
    expect_nothing(f, a->code[0] + 1);
}

TEST_WITH(an_unmapped_range_is_forgotten, create(29))
{
    const struct fake_module *a = load(f, BODIES, &four);

    expect_all(f, a, &four);
    fake_unmap(&f->vm.memory, FAKE_JIT);
    CHECK_INT(fp_code_index_revalidate(f->code), BODIES + 1);
    expect_nothing(f, a->code[1]);
}

/* floor lookup without an end bound would give the next module's code to the one before. */
TEST_WITH(code_loaded_later_is_not_given_to_its_neighbour, create(27))
{
    const struct fake_module *a = load(f, BODIES, &four);

    expect_all(f, a, &four);
    const struct fake_module *b = load(f, BODIES, &four);
    expect_all(f, b, &four);
    const struct fake_module *c = load(f, 1, &four);
    expect_all(f, c, &four);
}

TEST_WITH(what_looks_like_a_header_and_is_none_is_passed_over, create(27))
{
    struct fake_module_options later = {4, 16, 0, 0, 0};

    f->body[0].size = 400;
    const struct fake_module *a = load(f, BODIES, &later);
    /* In function 0's own code: pointers to its info, counts before them. */
    for (uint64_t at = a->code[0] + 40; at + 8 < a->code[0] + 400; at += 8)
        fake_put_word(&f->vm.memory, at, at % 16 == 0 ? a->info[0] : a->info[1]);
    expect_all(f, a, &later);
}

TEST_WITH(new_ranges_make_unknown_addresses_known, create(27))
{
    struct fp_ranges none = {1, {{FAKE_MISC, FAKE_MISC + 4096}}};
    const struct fake_module *a = load(f, BODIES, &four);

    fp_code_index_set_ranges(f->code, &none);
    expect_nothing(f, a->code[0]);
    fp_code_index_set_ranges(f->code, &f->vm.code);
    expect_all(f, a, &four);
}

/* --------------------------------------------------------------- bounds -- */

TEST_WITH(caches_that_fill_up_begin_anew, create(27))
{
    static struct fake_module a[10];
    struct fake_module_options coarse = {4, 256, 0, 0, 0};

    for (uint32_t i = 0; i < FAKE_FUNCTIONS_MAX; i++)
        f->body[i].size = 32;
    for (uint32_t m = 0; m < 10; m++)
        fake_load(&f->vm, &a[m], f->name[m % 3], f->body, 500, &coarse);
    for (int round = 0; round < 2; round++)
        for (uint32_t m = 0; m < 10; m++)
            for (uint32_t i = 0; i < 500; i++)
                expect(f, a[m].code[i] + 3, &a[m], i, &coarse);
    CHECK(fp_code_index_size(f->code) <= 4096);
    CHECK_INT(fp_code_index_revalidate(f->code), 0);
}

TEST_WITH(atoms_are_cached_and_what_is_no_atom_has_no_text, create(29))
{
    uint32_t len = 0;
    const char *text = fp_code_index_atom(f->code, f->name[0], &len);

    CHECK(text != NULL);
    CHECK_BYTES(text, len, "alpha", 5);
    f->vm.memory.calls = 0;
    CHECK(fp_code_index_atom(f->code, f->name[0], &len) == text);
    CHECK_INT(f->vm.memory.calls, 0);
    CHECK(fp_code_index_atom(f->code, 0, &len) == NULL);
    CHECK(fp_code_index_atom(f->code, 0x0f, &len) == NULL);
    CHECK(fp_code_index_atom(f->code, 1999u << 6 | 0x0b, &len) == NULL);
}

TEST_WITH(files_are_strings_in_utf8, create(27))
{
    static const uint32_t text[] = {'a', 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff};
    static const char utf8[] = "a\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"
                               "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
    static const uint32_t no_text[] = {'a', 0x110000};
    uint32_t much[1000], len = 0;
    const char *got;

    got = fp_code_index_file(f->code, f->file, &len);
    CHECK(got != NULL);
    CHECK_BYTES(got, len, "src/included.hrl", 16);
    got = fp_code_index_file(f->code, fake_string(&f->vm, text, 8), &len);
    CHECK(got != NULL);
    CHECK_BYTES(got, len, utf8, sizeof utf8 - 1);
    for (size_t i = 0; i < 1000; i++)
        much[i] = i % 2 == 0 ? 0x1f600 : 'x';
    got = fp_code_index_file(f->code, fake_string(&f->vm, much, 1000), &len);
    CHECK(got != NULL && len > 200 && len <= 255);
    CHECK(fp_code_index_file(f->code, fake_string(&f->vm, no_text, 2), &len) == NULL);
    CHECK(fp_code_index_file(f->code, FAKE_BASE | 1, &len) == NULL);
    CHECK(fp_code_index_file(f->code, 0, &len) == NULL);
}

/* A literal area that was given back is used for another module's strings. */
TEST_WITH(a_file_of_a_replaced_module_is_not_that_of_the_new_one, create(27))
{
    struct fake_module_options with_file = {4, 16, f->own_file, f->file, 0};
    uint32_t len = 0;
    const char *text;
    const struct fake_module *a = load(f, 3, &with_file);

    expect(f, a->code[0], a, 0, &with_file);
    text = fp_code_index_file(f->code, f->file, &len);
    CHECK(text != NULL);
    fake_put_word(&f->vm.memory, (f->file & ~UINT64_C(7)), 'X' << 4 | 0x0f);
    with_file.at = a->header;
    load(f, 3, &with_file);
    CHECK(fp_code_index_revalidate(f->code) > 0);
    text = fp_code_index_file(f->code, f->file, &len);
    CHECK(text != NULL);
    CHECK_BYTES(text, len, "Xrc/included.hrl", 16);
}

/* ------------------------------------------------- what all share, and not */

/* 0: there is none. */
static uint64_t first_from(struct fixture *f, const struct fp_range *range, uint64_t at)
{
    uint64_t info = 0;
    int err = fp_code_first(&f->vm.memory.reader, range, at, &info);

    CHECK_INT(err, info == 0 ? FP_ENOENT : 0);
    return info;
}

TEST(the_first_function_behind_shared_code_is_found)
{
    for (uint64_t gap = 0; gap < 3 * 8192; gap += 1000) {
        struct fixture *f = create(27);
        struct fake_module_options far = four;
        struct fp_range range = f->vm.code.range[0];
        const struct fake_module *a;

        far.at = (FAKE_JIT + 4096 + gap) & ~UINT64_C(63);
        a = load(f, 3, &far);
        CHECK(first_from(f, &range, FAKE_JIT) == a->info[0]);
        CHECK(first_from(f, &range, FAKE_JIT + 777) == a->info[0]);
        /* From itself on, and from behind its beginning. */
        CHECK(first_from(f, &range, a->info[0]) == a->info[0]);
        CHECK(first_from(f, &range, a->info[0] + 1) == a->info[1]);
        destroy(f);
    }
}

TEST_WITH(the_first_function_may_be_at_the_very_end_of_a_range, create(27))
{
    const struct fake_module *a = load(f, 1, &four);

    /* Its MFA and the word behind belong to it; less is no function. */
    for (uint64_t cut = 0; cut < 4; cut++) {
        struct fp_range range = {f->vm.code.range[0].start, a->code[0] + 8 - cut};

        CHECK(first_from(f, &range, FAKE_JIT) == (cut == 0 ? a->info[0] : 0));
    }
}

TEST_WITH(where_there_is_no_function_none_is_found, create(27))
{
    struct fp_range range = f->vm.code.range[0], none = {range.start, range.start};
    struct fp_range unreadable = {FAKE_MISC, FAKE_MISC + 65536};
    const uint64_t from[] = {FAKE_JIT, FAKE_JIT - 8, range.end, range.end - 4, UINT64_MAX};

    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        CHECK(first_from(f, &range, from[i]) == 0);
    CHECK(first_from(f, &none, FAKE_JIT) == 0);
    CHECK(first_from(f, &unreadable, FAKE_MISC) == 0);
}

/* Of which none has been touched. */
static unsigned char *untouched(size_t pages)
{
    unsigned char *page =
        mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    return page;
}

/* A page that was swapped out may hold an earlier function. Real memory: the kernel says what is
 * resident. */
TEST(a_page_that_is_not_there_leaves_the_first_function_unknown)
{
    const uint64_t info[] = {0xe8, 0, 5 << 6 | 0x0b, 6 << 6 | 0x0b, 1, 0xeb};
    unsigned char *page = untouched(4);
    uint64_t start = (uint64_t)(uintptr_t)page, found = 0;
    struct fp_range range = {start, start + 4 * 4096};
    struct fp_memory reader;

    CHECK_INT(fp_safe_read_open(&reader), 0);
    memcpy(page + 4096 + 64, info, sizeof info);
    CHECK_INT(fp_code_first(&reader, &range, start, &found), FP_ENOENT);
    page[8] = 1; /* now it is there */
    CHECK_INT(fp_code_first(&reader, &range, start, &found), 0);
    CHECK(found == start + 4096 + 64);
    fp_safe_read_close(&reader);
    munmap(page, 4 * 4096);
}

static int64_t count_reads(void *self, const struct iovec *local, const struct iovec *remote,
                           size_t n)
{
    ++*(int *)self;
    for (size_t i = 0; i < n; i++)
        memcpy(local[i].iov_base, remote[i].iov_base, remote[i].iov_len);
    return (int64_t)remote[0].iov_len;
}

/* No function is before it: looked for once, not as often as 32 MiB have blocks. */
TEST(pages_that_are_not_there_end_the_search_at_once)
{
    unsigned char *page = untouched(8);
    uint64_t start = (uint64_t)(uintptr_t)page, mfa[3], at;
    struct fp_ranges ranges = {1, {{start, start + 8 * 4096}}};
    int reads = 0;
    struct fp_memory reader = {.readv = count_reads, .self = &reads};

    memset(page + 6 * 4096, 0x90, 2 * 4096);
    CHECK_INT(fp_code_nearest(&reader, &ranges, start + 7 * 4096, mfa, &at), FP_ENOENT);
    CHECK(reads <= 4);
    munmap(page, 8 * 4096);
}

/* A header is one piece with its functions, too. */
TEST(pages_that_are_not_there_end_the_search_for_a_module)
{
    const uint64_t info[] = {0xe8, 0, 5 << 6 | 0x0b, 6 << 6 | 0x0b, 1, 0xeb};
    unsigned char *page = untouched(8);
    uint64_t start = (uint64_t)(uintptr_t)page;
    struct fp_ranges ranges = {1, {{start, start + 8 * 4096}}};
    struct fp_layout layout = {.release = *fp_release_find(27)};
    int reads = 0;
    struct fp_memory reader = {.readv = count_reads, .self = &reads};
    struct fp_location location;
    struct fp_code_index *code;

    memcpy(page + 6 * 4096 + 64, info, sizeof info);
    page[7 * 4096] = 1;
    CHECK_INT(fp_code_index_create(&code, &layout, &reader, &ranges), 0);
    CHECK_INT(fp_code_index_resolve(code, start + 6 * 4096 + 160, &location), FP_ENOENT);
    CHECK(reads <= 8);
    fp_code_index_destroy(code);
    munmap(page, 8 * 4096);
}

/* A tracer's frame: on the stack stands where an MFA does, of one's own module or of the next. */
TEST_WITH(a_pointer_to_an_mfa_is_no_return_address, create(27))
{
    const struct fake_module *a = load(f, BODIES, &four);
    const struct fake_module *b = load(f, BODIES, &four);

    for (uint32_t i = 0; i < BODIES; i++) {
        expect_nothing(f, a->code[i] - 24 - 1);
        expect_nothing(f, b->code[i] - 24 - 1);
        expect(f, a->code[i] + 7, a, i, &four);
    }
}
