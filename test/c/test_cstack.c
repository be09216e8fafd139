/* test_cstack.c - which library, which function: the real ones of this process, and such as are
 * made here to be stripped, replaced and broken. */
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/auxv.h>
#include <sys/wait.h>

#include "base/error.h"
#include "cstack/image.h"
#include "cstack_truth.h"
#include "test.h"

#define NAMES_SOURCE "test/c/cstack/names.c"

static struct fp_cstack *native_now(void)
{
    struct fp_cstack *native;

    CHECK_INT(fp_cstack_create(&native, SIZE_MAX), 0);
    return native;
}

static void expect(const struct fp_cstack *native, uint64_t pc, const char *expected_name,
                   const char *expected_library)
{
    const char *name, *library;

    CHECK_INT(fp_cstack_resolve(native, pc, &name, &library), 0);
    CHECK_TEXT(library, expected_library);
    if (expected_name == NULL && name != NULL)
        RUN_FAIL("a name, %s, for what has none", name);
    if (expected_name != NULL && name == NULL)
        RUN_FAIL("no name for %s", expected_name);
    if (name != NULL)
        CHECK_TEXT(name, expected_name);
}

/* ---- names ------------------------------------------------------------ */

static void build_names(const struct temporary *directory, const char *path, const char *flags)
{
    FILE *versions = fopen(temporary_at(directory, "versions"), "w");

    CHECK(versions != NULL);
    fputs("NAMES_2 { global: versioned; };\n", versions);
    fclose(versions);
    truth_shell("gcc -shared -fPIC -O1 %s -Wl,--version-script=%s "
                "-Wl,--default-symver -o %s " NAMES_SOURCE,
                flags, temporary_at(directory, "versions"), path);
}

static uint64_t hidden_function(void *library)
{
    void *(*hidden)(void) = (void *(*)(void))(uintptr_t)truth_symbol(library, "names_hidden");

    return (uint64_t)(uintptr_t)hidden();
}

static void expect_names(const struct fp_cstack *native, void *library, const char *file)
{
    uint64_t at = truth_symbol(library, "aliased");

    /* global before weak and local; fewer underscores; shorter */
    for (uint64_t i = 0; i < 4; i++)
        expect(native, at + i, "aliased", file);
    at = truth_symbol(library, "outer");
    expect(native, at, "outer", file);
    expect(native, at + 1, "inner", file);
    expect(native, at + 2, "inner", file);
    expect(native, at + 3, "outer", file);
    expect(native, at + 4, "outer", file);
    at = truth_symbol(library, "unsized");
    expect(native, at, "unsized", file);
    expect(native, at + 2, "unsized", file);
    expect(native, truth_symbol(library, "nothing_known"), NULL, file);
    expect(native, truth_symbol(library, "just_a_label"), NULL, file);
    expect(native, truth_symbol(library, "versioned"), "versioned", file);
    /* No dlsym: that would give what the resolver has chosen. */
    expect(native, truth_symbol(library, "versioned") + 2, "resolver", file);
}

TEST(names_are_those_that_cover_the_address)
{
    struct temporary directory;
    struct fp_cstack *native;
    const char *path;
    void *library;

    temporary_make(&directory);
    path = temporary_at(&directory, "libnames.so");
    build_names(&directory, path, "");
    library = truth_open(path);
    native = native_now();
    expect_names(native, library, "libnames.so");
    expect(native, hidden_function(library), "hidden", "libnames.so");
    fp_cstack_destroy(native);
    dlclose(library);
    temporary_remove(&directory);
}

TEST(a_stripped_library_names_no_internal_function)
{
    struct temporary directory;
    struct fp_cstack *native;
    char path[512];
    void *library;

    temporary_make(&directory);
    snprintf(path, sizeof path, "%s", temporary_at(&directory, "libstripped.so"));
    truth_build("gcc", "-O2", path);
    truth_shell("strip %s", path);
    library = truth_open(path);
    native = native_now();
    expect(native, truth_symbol(library, "chain_run"), "chain_run", "libstripped.so");
    expect(native, truth_symbol(library, "chain_call_hidden"), "chain_call_hidden",
           "libstripped.so");
    fp_cstack_destroy(native);
    dlclose(library);

    snprintf(path, sizeof path, "%s", temporary_at(&directory, "libbare.so"));
    build_names(&directory, path, "-s");
    library = truth_open(path);
    native = native_now();
    expect(native, truth_symbol(library, "outer"), "outer", "libbare.so");
    expect(native, hidden_function(library), NULL, "libbare.so");
    fp_cstack_destroy(native);
    dlclose(library);
    temporary_remove(&directory);
}

/* dladdr knows .dynsym only. What we name is the function that it names, by this name or another
 * that stands for the same address. */
TEST_ON(names_of_libc_are_dladdr_s, struct fp_cstack *, native, native_now(), fp_cstack_destroy)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    const char *name, *library;
    uint64_t random = 5;
    size_t named = 0;
    Dl_info info;

    CHECK(libc != NULL);
    CHECK(dladdr((void *)(uintptr_t)gnu_get_libc_version, &info) != 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t pc = (uint64_t)(uintptr_t)gnu_get_libc_version + run_below(&random, 1 << 20);
        void *symbol;

        CHECK(dladdr((void *)(uintptr_t)pc, &info) != 0);
        if (fp_cstack_resolve(native, pc, &name, &library) != 0)
            continue; /* behind the code */
        CHECK_TEXT(library, "libc.so.6");
        if (name == NULL)
            continue;
        symbol = dlsym(libc, name);
        if (symbol == NULL || info.dli_sname == NULL)
            continue; /* a libc that is not stripped: local names */
        if (info.dli_saddr != symbol && strcmp(info.dli_sname, name) != 0 &&
            dlvsym(libc, name, "GLIBC_2.2.5") != info.dli_saddr)
            RUN_FAIL("%#" PRIx64 " is %s for us, %s for dladdr", pc, name, info.dli_sname);
        named++;
    }
    printf("# %zu of 20000 addresses of libc have a name\n", named);
    CHECK(named > 2000);
    expect(native, (uint64_t)(uintptr_t)gnu_get_libc_version, "gnu_get_libc_version", "libc.so.6");
    dlclose(libc);
}

TEST_ON(the_executable_and_the_vdso_are_libraries, struct fp_cstack *, native, native_now(),
        fp_cstack_destroy)
{
    const char *name, *library;
    uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
    Dl_info info;
    size_t named = 0;

    expect(native, (uint64_t)(uintptr_t)fp_cstack_create, "fp_cstack_create", "test_cstack");
    /* A static function: the test is not stripped. */
    expect(native, (uint64_t)(uintptr_t)native_now, "native_now", "test_cstack");
    CHECK_INT(fp_cstack_resolve(native, 0x1000, &name, &library), FP_ENOENT);
    CHECK_INT(fp_cstack_resolve(native, (uint64_t)(uintptr_t)&info, &name, &library), FP_ENOENT);
    CHECK(!truth_contains(native, (uint64_t)(uintptr_t)&info));
    for (uint64_t at = vdso; truth_contains(native, at); at++) {
        CHECK_INT(fp_cstack_resolve(native, at, &name, &library), 0);
        CHECK_TEXT(library, "[vdso]");
        named += name != NULL && strstr(name, "clock_gettime") != NULL;
    }
    CHECK(vdso == 0 || named > 10);
}

/* ---- files that change ------------------------------------------------ */

struct loaded {
    struct temporary directory;
    char path[512], other[512];
    void *library;
    uint64_t run;
};

/* libchain.so is loaded; beside it there is one of other content. */
static struct loaded *load_chain(void)
{
    struct loaded *loaded = malloc(sizeof *loaded);

    CHECK(loaded != NULL);
    temporary_make(&loaded->directory);
    snprintf(loaded->path, sizeof loaded->path, "%s",
             temporary_at(&loaded->directory, "libchain.so"));
    snprintf(loaded->other, sizeof loaded->other, "%s",
             temporary_at(&loaded->directory, "other.so"));
    truth_build("gcc", "-O2", loaded->path);
    truth_build("gcc", "-O0", loaded->other);
    loaded->library = truth_open(loaded->path);
    loaded->run = truth_symbol(loaded->library, "chain_run");
    return loaded;
}

static void unload_chain(struct loaded *loaded)
{
    dlclose(loaded->library);
    temporary_remove(&loaded->directory);
    free(loaded);
}

#define CHAIN_TEST(test) TEST_ON(test, struct loaded *, loaded, load_chain(), unload_chain)

static void expect_now(uint64_t pc, const char *name, const char *library)
{
    struct fp_cstack *native = native_now();
    struct fp_registers registers = {.rip = pc, .rsp = 0x1000};
    uint64_t return_address = 0;
    struct fp_cstack_stack stack = {0x1000, (unsigned char *)&return_address,
                                    sizeof return_address};
    struct fp_cstack_end end;
    uint64_t frame;

    expect(native, pc, name, library);
    CHECK(truth_contains(native, pc));
    CHECK_INT(fp_cstack_unwind(native, &registers, &stack, &frame, 1, &end), 1);
    CHECK_INT(end.why, name == NULL ? FP_CSTACK_NO_CFI : FP_CSTACK_LEFT);
    fp_cstack_destroy(native);
}

CHAIN_TEST(a_replaced_file_is_known_by_name_only)
{
    expect_now(loaded->run, "chain_run", "libchain.so");
    truth_shell("mv %s %s", loaded->other, loaded->path);
    expect_now(loaded->run, NULL, "libchain.so");
}

CHAIN_TEST(a_deleted_file_is_known_by_name_only)
{
    CHECK(unlink(loaded->path) == 0);
    expect_now(loaded->run, NULL, "libchain.so");
    CHECK(mkfifo(loaded->path, 0600) == 0); /* which nobody writes to */
    expect_now(loaded->run, NULL, "libchain.so");
}

/* The same build, installed again. */
CHAIN_TEST(a_file_replaced_by_its_like_is_known)
{
    truth_shell("cp %s %s", loaded->path, loaded->other);
    truth_shell("mv %s %s", loaded->other, loaded->path);
    expect_now(loaded->run, "chain_run", "libchain.so");
}

CHAIN_TEST(without_a_build_id_the_inode_decides)
{
    dlclose(loaded->library);
    truth_build("gcc", "-O2 -Wl,--build-id=none", loaded->path);
    loaded->library = truth_open(loaded->path);
    loaded->run = truth_symbol(loaded->library, "chain_run");
    expect_now(loaded->run, "chain_run", "libchain.so");
    truth_shell("cp %s %s", loaded->path, loaded->other);
    truth_shell("mv %s %s", loaded->other, loaded->path);
    expect_now(loaded->run, NULL, "libchain.so");
}

static void truncate_chain(void)
{
    struct loaded *loaded = load_chain();

    CHECK(truncate(loaded->path, 5000) == 0);
    expect_now(loaded->run, NULL, "libchain.so");
    CHECK(truncate(loaded->path, 0) == 0);
    expect_now(loaded->run, NULL, "libchain.so");
    temporary_remove(&loaded->directory);
}

/* Its pages are gone: reading them through the mapping would be a SIGBUS. In a process of its own,
 * because its data and its finalizers are gone as well. */
TEST(a_truncated_file_is_no_harm)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        truncate_chain();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

CHAIN_TEST(a_set_is_current_until_a_library_comes_or_goes)
{
    struct fp_cstack *before, *with;

    dlclose(loaded->library);
    before = native_now();
    CHECK(fp_cstack_is_current(before));
    loaded->library = truth_open(loaded->path);
    loaded->run = truth_symbol(loaded->library, "chain_run");
    CHECK(!fp_cstack_is_current(before));
    CHECK(!truth_contains(before, loaded->run));
    with = native_now();
    CHECK(fp_cstack_is_current(with));
    CHECK(truth_contains(with, loaded->run));
    dlclose(loaded->library);
    CHECK(!fp_cstack_is_current(with));
    expect(with, loaded->run, "chain_run", "libchain.so"); /* it stays */
    fp_cstack_destroy(before);
    fp_cstack_destroy(with);
    loaded->library = truth_open(loaded->path);
}

/* ---- a bound ---------------------------------------------------------- */

static struct fp_cstack *native_within(size_t bytes_max)
{
    struct fp_cstack *native;

    CHECK_INT(fp_cstack_create(&native, bytes_max), 0);
    CHECK(native->bytes <= bytes_max);
    return native;
}

TEST(libraries_without_room_are_known_by_name_only)
{
    struct fp_cstack *whole = native_now(), *none = native_within(0);
    uint64_t random = 3, pc = (uint64_t)(uintptr_t)native_now;
    struct fp_registers registers = {.rip = pc, .rsp = 0x1000};
    struct fp_cstack_stack stack = {0x1000, (unsigned char *)&pc, sizeof pc};
    uint32_t partly = 0;
    struct fp_cstack_end end;
    uint64_t frame;

    CHECK_INT(whole->left_out, 0);
    CHECK(none->left_out > 2);
    CHECK_INT(none->bytes, 0);
    expect(none, pc, NULL, "test_cstack");
    CHECK_INT(fp_cstack_unwind(none, &registers, &stack, &frame, 1, &end), 1);
    CHECK_INT(end.why, FP_CSTACK_NO_CFI);
    for (int i = 0; i < 20; i++) {
        struct fp_cstack *some = native_within(run_below(&random, 2 * (uint32_t)whole->bytes));

        partly += some->left_out > 0 && some->left_out < none->left_out;
        CHECK_INT(some->libraries, whole->libraries);
        fp_cstack_destroy(some);
    }
    CHECK(partly > 3);
    fp_cstack_destroy(whole);
    fp_cstack_destroy(none);
}

/* ---- broken files ----------------------------------------------------- */

struct bytes {
    unsigned char *at;
    size_t size;
};

static int read_bytes(void *self, uint64_t offset, void *into, size_t size)
{
    const struct bytes *bytes = self;

    if (offset > bytes->size || size > bytes->size - offset)
        return FP_EIO;
    memcpy(into, bytes->at + offset, size);
    return 0;
}

TEST(what_is_no_elf_file_is_refused)
{
    unsigned char bytes[256] = "\177ELF";
    struct bytes file = {bytes, sizeof bytes};
    struct fp_elf_source source = {read_bytes, &file};
    struct fp_image image;

    CHECK_INT(fp_image_load(&image, &source, SIZE_MAX), FP_EINVAL);
    file.size = 10;
    CHECK_INT(fp_image_load(&image, &source, SIZE_MAX), FP_EIO);
    file.size = 0;
    CHECK_INT(fp_image_load(&image, &source, SIZE_MAX), FP_EIO);
    CHECK_INT(image.rows.count, 0);
}
