/* test_perf_map.c - functions to lines, and lines to a file, where another file may be already. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/error.h"
#include "erts/perf_map.h"
#include "fake_vm.h"
#include "store/perf_map_file.h"
#include "temporary.h"
#include "test.h"

/* ------------------------------------------------------------ the text -- */

struct fixture {
    struct fake_vm vm;
    struct fp_functions found;
    struct fp_buffer text;
    struct fp_perf_map_count count;
    struct fake_body body[4];
};

static const struct fake_module_options plain = {0, 16, 0, 0, 0};

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 64, 0);
    fake_vm_add_atoms(&f->vm);
    fake_vm_add_jit(&f->vm);
    f->body[0] = (struct fake_body){fake_text_atom(&f->vm, "start"), 0, 64};
    f->body[1] = (struct fake_body){fake_text_atom(&f->vm, "-loop/3-fun-0-"), 255, 1024};
    f->body[2] = (struct fake_body){fake_text_atom(&f->vm, "two words\nand a\tline"), 1, 32};
    f->body[3] = (struct fake_body){fake_text_atom(&f->vm, "gr\xc3\xb6\xc3\x9f"
                                                           "e"),
                                    2, 32};
    return f;
}

static void destroy(struct fixture *f)
{
    fp_functions_free(&f->found);
    fp_buffer_free(&f->text);
    fake_vm_destroy(&f->vm);
    free(f);
}

static void write_text(struct fixture *f, struct fp_loaded *loaded, size_t n)
{
    f->text.size = 0;
    fp_functions_free(&f->found);
    CHECK_INT(
        fp_functions_read(&f->found, &f->vm.layout.release, &f->vm.memory.reader, &f->vm.code), 0);
    CHECK_INT(fp_perf_map_text(&f->text, &f->found, loaded, n, &f->vm.layout, &f->vm.memory.reader,
                               &f->count),
              0);
}

static void set_md5(struct fixture *f, const struct fake_module *module, const char *md5)
{
    uint64_t at = FAKE_LINES + (1u << 20) + (module->header - FAKE_JIT);

    fake_put(&f->vm.memory, at, md5, FP_MD5_SIZE);
    fake_put_word(&f->vm.memory, module->functions - 16, at);
}

static struct fp_loaded loaded_as(uint64_t name, const char *md5, int has_old)
{
    struct fp_loaded loaded = {.name = name, .has_old = has_old};

    loaded.has_md5 = md5 != NULL;
    if (md5 != NULL)
        memcpy(loaded.md5, md5, FP_MD5_SIZE);
    return loaded;
}

TEST_WITH_EACH(each_function_is_a_line_with_its_place_and_name, create, 25, 27, 29)
{
    uint64_t name = fake_text_atom(&f->vm, "Elixir.Some.Module");
    struct fp_loaded loaded = loaded_as(name, NULL, 0);
    struct fake_module a;
    char expected[1024];

    fake_load(&f->vm, &a, name, f->body, 4, &plain);
    write_text(f, &loaded, 1);
    snprintf(expected, sizeof expected,
             "%" PRIx64 " %" PRIx64 " [jit shared]\n"
             "%" PRIx64 " 40 Elixir.Some.Module:start/0\n"
             "%" PRIx64 " 400 Elixir.Some.Module:-loop/3-fun-0-/255\n"
             "%" PRIx64 " 20 Elixir.Some.Module:two%%20words%%0Aand%%20a%%09line/1\n"
             "%" PRIx64 " 20 Elixir.Some.Module:gr\xc3\xb6\xc3\x9f"
             "e/2\n",
             FAKE_JIT, a.header - FAKE_JIT, a.code[0], a.code[1], a.code[2], a.code[3]);
    CHECK_BYTES(f->text.bytes, f->text.size, expected, strlen(expected));
    CHECK_INT(f->count.functions, 4);
    CHECK_INT(f->count.left_out, 0);
}

TEST_WITH(what_is_not_loaded_is_left_out, create(27))
{
    uint64_t name[2] = {fake_text_atom(&f->vm, "alpha"), fake_text_atom(&f->vm, "beta")};
    struct fp_loaded loaded = loaded_as(name[1], NULL, 0);
    struct fake_module a, b;

    fake_load(&f->vm, &a, name[0], f->body, 4, &plain);
    fake_load(&f->vm, &b, name[1], f->body, 1, &plain);
    write_text(f, &loaded, 1);
    CHECK_INT(f->count.functions, 1);
    CHECK_INT(f->count.left_out, 4);
    CHECK(memmem(f->text.bytes, f->text.size, "alpha", 5) == NULL);
    CHECK(memmem(f->text.bytes, f->text.size, "beta:start/0\n", 13) != NULL);
    write_text(f, NULL, 0);
    CHECK_INT(f->count.functions, 0);
    CHECK_INT(f->count.left_out, 5);
}

/* How often alpha's two copies are there: both have `start`. */
static int copies(struct fixture *f, struct fp_loaded loaded)
{
    write_text(f, &loaded, 1);
    CHECK_INT(f->count.functions + f->count.left_out, 5);
    return (int)f->count.functions;
}

TEST_WITH(a_replaced_copy_is_told_by_its_md5, create(27))
{
    static const char old_md5[] = "0123456789abcdef", md5[] = "fedcba9876543210";
    uint64_t alpha = fake_text_atom(&f->vm, "alpha");
    struct fake_module a, b;

    fake_load(&f->vm, &a, alpha, f->body, 1, &plain);
    fake_load(&f->vm, &b, alpha, f->body, 4, &plain);
    set_md5(f, &a, old_md5);
    set_md5(f, &b, md5);
    CHECK_INT(copies(f, loaded_as(alpha, md5, 0)), 4);
    CHECK_INT(copies(f, loaded_as(alpha, old_md5, 0)), 1);
    /* Old code that was not purged runs; nothing tells which it is. */
    CHECK_INT(copies(f, loaded_as(alpha, md5, 1)), 5);
    CHECK_INT(copies(f, loaded_as(alpha, NULL, 1)), 5);
}

TEST_WITH(a_name_that_is_no_atom_is_left_out, create(27))
{
    struct fake_module a;
    uint64_t alpha = fake_text_atom(&f->vm, "alpha");
    struct fp_loaded loaded = loaded_as(alpha, NULL, 0);

    f->body[1].function = UINT64_C(0x0b) | UINT64_C(1900) << 6;
    fake_load(&f->vm, &a, alpha, f->body, 4, &plain);
    write_text(f, &loaded, 1);
    CHECK_INT(f->count.functions, 3);
    CHECK_INT(f->count.left_out, 1);
}

/* ------------------------------------------------------------ the file -- */

static const char map[] = "1000 20 alpha:start/0\n";
#define MAP_SIZE (sizeof map - 1)

static struct temporary dir;
static char why[512];

static int put(const char *path)
{
    why[0] = '\0';
    return fp_perf_map_write(path, map, MAP_SIZE, why, sizeof why);
}

static char *make_path(void)
{
    temporary_make(&dir);
    return strdup(temporary_at(&dir, "perf-1.map"));
}

static void forget_path(char *path)
{
    free(path);
    temporary_remove(&dir);
}

#define FILE_TEST(test) TEST_ON(test, char *, path, make_path(), forget_path)

static void expect_bytes(const char *path, const char *expected, size_t expected_size)
{
    size_t size;
    char *bytes = temporary_read(path, &size);

    CHECK_BYTES(bytes, size, expected, expected_size);
    free(bytes);
}

static void expect_file(const char *path)
{
    struct stat info;

    CHECK(lstat(path, &info) == 0 && S_ISREG(info.st_mode));
    CHECK_INT(info.st_mode & 07777, 0600);
    expect_bytes(path, map, MAP_SIZE);
}

static int entries(void)
{
    DIR *listing = opendir(dir.path);
    int n = -2; /* . and .. */

    CHECK(listing != NULL);
    while (readdir(listing) != NULL)
        n++;
    closedir(listing);
    return n;
}

static void fill_with(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    CHECK(fd >= 0 && fchmod(fd, mode) == 0);
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

FILE_TEST(the_file_is_private_whatever_the_umask)
{
    static const mode_t masks[] = {0, 022, 0777};

    for (size_t i = 0; i < 3; i++) {
        mode_t before = umask(masks[i]);
        int err = put(path);

        umask(before);
        CHECK_INT(err, 0);
        expect_file(path);
        CHECK_INT(entries(), 1);
    }
}

FILE_TEST(a_file_that_is_there_is_replaced_as_a_whole)
{
    int reader;
    char text[64];

    fill_with(path, "older and longer than what will take its place", 0644);
    reader = open(path, O_RDONLY);
    CHECK_INT(put(path), 0);
    expect_file(path);
    CHECK_INT(entries(), 1);
    /* A reader that has it open keeps the old one, whole. */
    CHECK_INT(read(reader, text, sizeof text), 46);
    close(reader);
}

FILE_TEST(a_link_is_replaced_and_not_followed)
{
    const char *target;

    target = temporary_at(&dir, "precious");
    fill_with(target, "precious", 0644);
    CHECK(symlink(target, path) == 0);
    CHECK_INT(put(path), 0);
    expect_file(path);
    expect_bytes(target, "precious", 8);
    CHECK(unlink(path) == 0 && unlink(target) == 0);
    CHECK(symlink(target, path) == 0); /* to nothing */
    CHECK_INT(put(path), 0);
    expect_file(path);
    CHECK(!temporary_exists(target));
    CHECK_INT(entries(), 1);
}

static void expect_refusal(const char *path, int err, const char *reason)
{
    CHECK_INT(put(path), err);
    CHECK(strncmp(why, path, strlen(path)) == 0);
    CHECK(strstr(why, reason) != NULL);
}

FILE_TEST(a_directory_at_its_place_is_an_error_and_nothing_stays)
{
    CHECK(mkdir(path, 0700) == 0);
    expect_refusal(path, FP_EIO, "Is a directory");
    CHECK_INT(entries(), 1);
}

TEST_BETWEEN(a_folder_that_is_missing_is_an_error, temporary_make(&dir), temporary_remove(&dir))
{
    expect_refusal(temporary_at(&dir, "none/perf-1.map"), FP_EIO, "No such");
    CHECK_INT(entries(), 0);
}

FILE_TEST(when_the_bytes_do_not_fit_the_old_file_stays)
{
    struct rlimit before, small = {MAP_SIZE - 1, RLIM_INFINITY};
    int err;

    fill_with(path, "old", 0600);
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    err = put(path);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    signal(SIGXFSZ, SIG_DFL);
    CHECK_INT(err, FP_EIO);
    CHECK(strstr(why, "File too large") != NULL);
    expect_bytes(path, "old", 3);
    CHECK_INT(entries(), 1);
}

/* As the VM does with its own. */
FILE_TEST(a_file_that_this_process_writes_is_left_alone)
{
    int fd;

    fill_with(path, "the VM's own", 0644);
    fd = open(path, O_WRONLY | O_APPEND);
    expect_refusal(path, FP_ESTATE, "+JPperf");
    expect_bytes(path, "the VM's own", 12);
    CHECK_INT(entries(), 1);
    close(fd);
    fd = open(path, O_RDONLY); /* to look at it is no claim */
    CHECK_INT(put(path), 0);
    expect_file(path);
    close(fd);
}
