/*
 * test_sink.c - the file: whose it is, where it may not be, and what happens
 * when it does not take bytes. A full disk is played by RLIMIT_FSIZE.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../../c_src/core/error.h"
#include "../../c_src/out/sink.h"
#include "run.h"
#include "temporary.h"

#define MIB ((size_t)1 << 20)

static uv_loop_t loop;
static char why[256];

static struct fp_sink *open_sink(const char *directory, const char *name)
{
    struct fp_sink *sink = NULL;
    int err = fp_sink_open(&sink, directory, name, why, sizeof(why));

    if (err != 0)
        RUN_FAIL("fp_sink_open: %s", why);
    CHECK_TEXT(fp_sink_error(sink), "");
    CHECK_INT(fp_sink_errors(sink), 0);
    return sink;
}

static void check_refused(const char *directory, const char *name,
                          const char *expected_why)
{
    struct fp_sink *sink = NULL;

    CHECK_INT(fp_sink_open(&sink, directory, name, why, sizeof(why)), FP_EIO);
    CHECK(sink == NULL);
    CHECK_TEXT(why, expected_why);
}

static void check_file(const char *path, const char *expected, size_t size)
{
    size_t got_size;
    char *got = temporary_read(path, &got_size);

    CHECK_INT(got_size, size);
    CHECK(memcmp(got, expected, size) == 0);
    free(got);
}

static mode_t mode_of(const char *path)
{
    struct stat info;

    CHECK(stat(path, &info) == 0);
    return info.st_mode & 07777;
}

/* ---- opening ---------------------------------------------------------- */

static void file_and_directory_are_the_owners_alone(void)
{
    struct temporary t;
    struct fp_sink *sink;
    mode_t before = umask(0);

    temporary_make(&t);
    sink = open_sink(temporary_at(&t, "new"), "a.2026-01-02.perf");
    CHECK_TEXT(fp_sink_path(sink), temporary_at(&t, "new/a.2026-01-02.perf"));
    CHECK_INT(mode_of(temporary_at(&t, "new")), 0700);
    CHECK_INT(mode_of(fp_sink_path(sink)), 0600);
    CHECK_INT(fp_sink_close(sink, &loop), 0);
    umask(before);
    temporary_remove(&t);
}

static void a_directory_that_is_there_is_left_as_it_is(void)
{
    struct temporary t;
    struct fp_sink *sink;

    temporary_make(&t);
    CHECK(chmod(t.path, 0750) == 0);
    sink = open_sink(t.path, "a.perf");
    CHECK_INT(mode_of(t.path), 0750);
    CHECK_INT(fp_sink_close(sink, &loop), 0);
    temporary_remove(&t);
}

static void check_suffix(const char *name, const char *first,
                         const char *second)
{
    struct fp_sink *a, *b, *c;
    struct temporary t;

    temporary_make(&t);
    a = open_sink(t.path, name);
    b = open_sink(t.path, name);
    c = open_sink(t.path, name);
    CHECK_TEXT(fp_sink_path(b), temporary_at(&t, first));
    CHECK_TEXT(fp_sink_path(c), temporary_at(&t, second));
    CHECK_INT(fp_sink_write(a, &loop, "a", 1), 0);
    CHECK_INT(fp_sink_write(b, &loop, "bb", 2), 0);
    CHECK_INT(fp_sink_close(a, &loop), 0);
    CHECK_INT(fp_sink_close(b, &loop), 0);
    CHECK_INT(fp_sink_close(c, &loop), 0);
    check_file(temporary_at(&t, name), "a", 1);
    check_file(temporary_at(&t, first), "bb", 2);
    temporary_remove(&t);
}

static void an_existing_file_is_never_written_to(void)
{
    check_suffix("f.20260102T101112.345Z.perf.txt",
                 "f.20260102T101112.345Z-1.perf.txt",
                 "f.20260102T101112.345Z-2.perf.txt");
    check_suffix("n@host.example.com-17.perf", "n@host.example.com-17-1.perf",
                 "n@host.example.com-17-2.perf");
    check_suffix("plain", "plain-1", "plain-2");
    check_suffix("x.perf", "x-1.perf", "x-2.perf");
    check_suffix(".hidden", ".hidden-1", ".hidden-2");
    check_suffix("x2", "x2-1", "x2-2");
}

static void a_symbolic_link_is_never_followed(void)
{
    struct fp_sink *sink;
    struct temporary t;

    temporary_make(&t);
    CHECK(symlink(temporary_at(&t, "target"), temporary_at(&t, "a.perf")) == 0);
    sink = open_sink(t.path, "a.perf");
    CHECK_TEXT(fp_sink_path(sink), temporary_at(&t, "a-1.perf"));
    CHECK_INT(fp_sink_close(sink, &loop), 0);
    CHECK(!temporary_exists(temporary_at(&t, "target")));
    temporary_remove(&t);
}

static void a_directory_that_is_a_file_is_refused(void)
{
    char expected[512];
    struct fp_sink *sink;
    struct temporary t;

    temporary_make(&t);
    sink = open_sink(t.path, "file");
    CHECK_INT(fp_sink_close(sink, &loop), 0);
    snprintf(expected, sizeof(expected), "%s/file: not a directory", t.path);
    check_refused(temporary_at(&t, "file"), "a.perf", expected);
    snprintf(expected, sizeof(expected), "%s/file/x: not a directory", t.path);
    check_refused(temporary_at(&t, "file/x"), "a.perf", expected);
    temporary_remove(&t);
}

static void a_directory_without_parent_is_refused(void)
{
    char expected[512];
    struct temporary t;

    temporary_make(&t);
    snprintf(expected, sizeof(expected),
             "%s/no/such: no such file or directory", t.path);
    check_refused(temporary_at(&t, "no/such"), "a.perf", expected);
    CHECK(!temporary_exists(temporary_at(&t, "no")));
    temporary_remove(&t);
}

static void a_name_with_a_slash_is_refused(void)
{
    check_refused("/tmp", "../a.perf", "../a.perf: invalid argument");
    check_refused("/tmp", "", ": invalid argument");
}

/* Root may write anywhere: ask as somebody else, in a process of its own. */
static void a_directory_that_may_not_be_written_is_refused(void)
{
    char expected[512];
    struct temporary t;
    int status;
    pid_t child;

    temporary_make(&t);
    CHECK(chmod(t.path, 0555) == 0);
    snprintf(expected, sizeof(expected), "%s/a.perf: permission denied",
             t.path);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        check_refused(t.path, "a.perf", expected);
        snprintf(expected, sizeof(expected), "%s/sub: permission denied",
                 t.path);
        check_refused(temporary_at(&t, "sub"), "a.perf", expected);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    temporary_remove(&t);
}

/* ---- writing ---------------------------------------------------------- */

static void bytes_reach_the_file_at_a_flush(void)
{
    struct fp_sink *sink;
    struct temporary t;

    temporary_make(&t);
    sink = open_sink(t.path, "a.perf");
    CHECK_INT(fp_sink_write(sink, &loop, "one ", 4), 0);
    CHECK_INT(fp_sink_write(sink, &loop, "two", 3), 0);
    CHECK_INT(fp_sink_waiting(sink), 7);
    check_file(fp_sink_path(sink), "", 0);
    CHECK_INT(fp_sink_flush(sink, &loop), 0);
    CHECK_INT(fp_sink_waiting(sink), 0);
    check_file(fp_sink_path(sink), "one two", 7);
    CHECK_INT(fp_sink_flush(sink, &loop), 0);
    CHECK_INT(fp_sink_close(sink, &loop), 0);
    temporary_remove(&t);
}

static char *pattern(size_t size)
{
    char *bytes = malloc(size);
    uint64_t random = 1;

    CHECK(bytes != NULL);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)run_random(&random);
    return bytes;
}

static void everything_comes_in_order_whatever_the_sizes(void)
{
    const size_t size = 20 * MIB;
    char *bytes = pattern(size);
    uint64_t random = 4;
    struct fp_sink *sink;
    struct temporary t;
    size_t at = 0;

    temporary_make(&t);
    sink = open_sink(t.path, "a.perf");
    while (at < size) {
        size_t piece =
            run_below(&random, run_below(&random, 50) ? 2000 : 3 * MIB);

        piece = piece > size - at ? size - at : piece;
        CHECK_INT(fp_sink_write(sink, &loop, bytes + at, piece), 0);
        at += piece;
        CHECK(fp_sink_waiting(sink) < MIB);
    }
    CHECK_INT(fp_sink_flush(sink, &loop), 0);
    check_file(fp_sink_path(sink), bytes, size);
    CHECK_INT(fp_sink_close(sink, &loop), 0);
    free(bytes);
    temporary_remove(&t);
}

static void limit_file_size(rlim_t size)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = size;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void a_file_that_is_full_keeps_what_waits_and_goes_on_later(void)
{
    const size_t size = 10 * MIB, piece = 1000;
    char *bytes = pattern(size), *expected = malloc(size);
    char error[512];
    size_t at = 0, taken = 0, refused = 0;
    struct fp_sink *sink;
    struct temporary t;

    CHECK(expected != NULL);
    temporary_make(&t);
    sink = open_sink(t.path, "a.perf");
    limit_file_size(MIB + MIB / 2 + 7);
    for (; at + piece <= size; at += piece) {
        int err = fp_sink_write(sink, &loop, bytes + at, piece);

        CHECK(err == 0 || err == FP_EFULL);
        refused += err != 0;
        if (err == 0) {
            memcpy(expected + taken, bytes + at, piece);
            taken += piece;
        }
    }
    CHECK(refused > 1000);
    /* Not one system call for each sample that is refused. */
    CHECK_INT(fp_sink_errors(sink), 1);
    snprintf(error, sizeof(error), "%s: file too large", fp_sink_path(sink));
    CHECK_TEXT(fp_sink_error(sink), error);
    CHECK_INT(fp_sink_flush(sink, &loop), FP_EIO);
    CHECK_INT(fp_sink_errors(sink), 2);
    CHECK(fp_sink_waiting(sink) > 3 * MIB);
    check_file(fp_sink_path(sink), expected, MIB + MIB / 2 + 7);

    limit_file_size(RLIM_INFINITY);
    CHECK_INT(fp_sink_flush(sink, &loop), 0);
    check_file(fp_sink_path(sink), expected, taken);
    CHECK_INT(fp_sink_write(sink, &loop, "more", 4), 0);
    CHECK_INT(fp_sink_close(sink, &loop), 0);
    free(bytes);
    free(expected);
    temporary_remove(&t);
}

static void closing_a_full_file_says_so_and_leaks_nothing(void)
{
    struct fp_sink *sink;
    struct temporary t;

    temporary_make(&t);
    sink = open_sink(t.path, "a.perf");
    limit_file_size(2);
    CHECK_INT(fp_sink_write(sink, &loop, "abc", 3), 0);
    CHECK_INT(fp_sink_close(sink, &loop), FP_EIO);
    limit_file_size(RLIM_INFINITY);
    check_file(temporary_at(&t, "a.perf"), "ab", 2);
    temporary_remove(&t);
}

static void what_can_never_fit_is_refused_whole(void)
{
    char *bytes = pattern(5 * MIB);
    struct fp_sink *sink;
    struct temporary t;

    temporary_make(&t);
    sink = open_sink(t.path, "a.perf");
    CHECK_INT(fp_sink_write(sink, &loop, "a", 1), 0);
    CHECK_INT(fp_sink_write(sink, &loop, bytes, 5 * MIB), FP_EFULL);
    CHECK_INT(fp_sink_write(sink, &loop, "b", 1), 0);
    CHECK_INT(fp_sink_flush(sink, &loop), 0);
    check_file(fp_sink_path(sink), "ab", 2);
    CHECK_INT(fp_sink_close(sink, &loop), 0);
    free(bytes);
    temporary_remove(&t);
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    CHECK(uv_loop_init(&loop) == 0);
    RUN(file_and_directory_are_the_owners_alone);
    RUN(a_directory_that_is_there_is_left_as_it_is);
    RUN(an_existing_file_is_never_written_to);
    RUN(a_symbolic_link_is_never_followed);
    RUN(a_directory_that_is_a_file_is_refused);
    RUN(a_directory_without_parent_is_refused);
    RUN(a_name_with_a_slash_is_refused);
    RUN(a_directory_that_may_not_be_written_is_refused);
    RUN(bytes_reach_the_file_at_a_flush);
    RUN(everything_comes_in_order_whatever_the_sizes);
    RUN(a_file_that_is_full_keeps_what_waits_and_goes_on_later);
    RUN(closing_a_full_file_says_so_and_leaks_nothing);
    RUN(what_can_never_fit_is_refused_whole);
    CHECK_INT(uv_loop_close(&loop), 0);
    return RUN_END();
}
