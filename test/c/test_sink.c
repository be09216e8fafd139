/* test_sink.c - the files: whose they are, where they may not be, what they are called, when the
 * next one begins and which of the old ones go. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "base/error.h"
#include "logs.h"
#include "store/directory.h"
#include "store/log_name.h"
#include "store/sink.h"
#include "temporary.h"
#include "test.h"

#define MIB ((size_t)1 << 20)

static char why[512];

static struct fp_sink_options in(const char *directory)
{
    return (struct fp_sink_options){.directory = directory, .sync = FP_SYNC_CLOSE};
}

/* In a folder of its own, and options of a sink in it. */
#define FOLDER(test)                                                                               \
    static void test##_in(struct temporary t, struct fp_sink_options options);                     \
    TEST(test)                                                                                     \
    {                                                                                              \
        struct temporary t;                                                                        \
                                                                                                   \
        temporary_make(&t);                                                                        \
        test##_in(t, in(t.path));                                                                  \
        temporary_remove(&t);                                                                      \
    }                                                                                              \
    static void test##_in(struct temporary t __attribute__((unused)),                              \
                          struct fp_sink_options options __attribute__((unused)))

static struct fp_sink *open_sink(const struct fp_sink_options *options)
{
    struct fp_sink *sink = NULL;
    int err = fp_sink_open(&sink, options, why, sizeof(why));

    if (err != 0)
        RUN_FAIL("fp_sink_open: %s", why);
    CHECK_TEXT(fp_sink_error(sink), "");
    CHECK_INT(fp_sink_gauges(sink).errors, 0);
    return sink;
}

static void close_sink(struct fp_sink *sink)
{
    struct fp_sink_end end;

    CHECK_INT(fp_sink_close(sink, &end), 0);
    CHECK_INT(end.lost_weight, 0);
    CHECK_INT(end.lost_text, 0);
    CHECK_INT(end.gauges.errors, 0);
}

static void put(struct fp_sink *sink, const char *text)
{
    CHECK_INT(fp_sink_write(sink, text, strlen(text), 1), 0);
}

static void check_refused(const char *directory, const char *expected_why)
{
    struct fp_sink_options options = in(directory);
    struct fp_sink *sink = NULL;

    CHECK_INT(fp_sink_open(&sink, &options, why, sizeof(why)), FP_EIO);
    CHECK(sink == NULL);
    CHECK_TEXT(why, expected_why);
}

static mode_t mode_of(const char *path)
{
    struct stat info;

    CHECK(stat(path, &info) == 0);
    return info.st_mode & 07777;
}

static void make_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}

static void check_names(const char *directory, int n, const char *const *names)
{
    struct logs logs = logs_list(directory);

    for (int i = 0; i < n && i < logs.n; i++)
        CHECK_TEXT(logs.name[i], names[i]);
    CHECK_INT(logs.n, n);
}

static void check_all(const char *directory, const char *expected)
{
    size_t size;
    char *text = logs_read_all(directory, &size);

    CHECK_BYTES(text, size, expected, strlen(expected));
    free(text);
}

/* ---- names ------------------------------------------------------------ */

TEST(names_are_read_as_they_are_written)
{
    static const char *const ours[] = {
        "2026-11-21@0154.07.erl_perf.log",
        "2026-11-21@0154.07.erl_perf.log.part",
        "2026-11-21@0154.07.erl_perf.log.zst",
        "2026-11-21@0154.07_001.erl_perf.log.zst.part",
        "2026-11-21@0154.07_999_017.erl_perf.log.zst",
        "2026-11-21@0154.07.shop@host.erl_perf.log",
        "2026-11-21@0154.07_001.shop@host.example.org.erl_perf.log.zst.part",
        "2026-11-21@0154.07.a@b.erl_perf.log.erl_perf.log",
        "2026-11-21@0154.07_001.a@b.erl_perf.log.erl_alloc.log.zst.part",
    };
    struct fp_log_name name;
    char text[FP_LOG_NAME_ROOM];

    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++) {
        CHECK(fp_log_name_parse(&name, ours[i]));
        fp_log_name_print(&name, text);
        CHECK_TEXT(text, ours[i]);
    }
    CHECK(fp_log_name_parse(&name, ours[3]));
    CHECK_TEXT(name.key, "2026-11-21@0154.07_001");
    CHECK(name.is_zst && name.is_part);
    CHECK_TEXT(name.node, "");
    CHECK(fp_log_name_parse(&name, ours[6]));
    CHECK_TEXT(name.key, "2026-11-21@0154.07_001");
    CHECK_TEXT(name.node, "shop@host.example.org");
    CHECK(name.is_zst && name.is_part);
    CHECK(fp_log_name_parse(&name, ours[7]));
    CHECK_TEXT(name.node, "a@b.erl_perf.log");
    CHECK(name.kind == FP_LOG_SAMPLES);
    CHECK(fp_log_name_parse(&name, ours[8]));
    CHECK_TEXT(name.node, "a@b.erl_perf.log");
    CHECK(name.kind == FP_LOG_ALLOCATIONS);
}

TEST(the_longest_name_fits)
{
    struct fp_log_name name = {.is_zst = true, .is_part = true}, again;
    char text[FP_LOG_NAME_ROOM];

    memset(name.key, '9', sizeof(name.key) - 1);
    memset(name.node, 'n', sizeof(name.node) - 1);
    fp_log_name_print(&name, text);
    CHECK_TEXT(text + strlen(text) - 9, ".zst.part");
    snprintf(name.key, sizeof(name.key), "2026-11-21@0154.07");
    name.node[1] = '@';
    fp_log_name_print(&name, text);
    CHECK(fp_log_name_parse(&again, text));
    CHECK_TEXT(again.node, name.node);
}

TEST(names_of_others_are_not_ours)
{
    static const char *const others[] = {
        "",
        ".",
        "core",
        "2026-11-21@0154.07",
        "2026-11-21@0154.07.log",
        "2026-11-21@0154.07.erl_perf.log.gz",
        "2026-11-21@0154.07.erl_other.log",
        "2026-11-21@0154.07.erl_perf.log.zst.part.bak",
        "2026-11-21@0154.07.erl_perf.log.part.zst",
        "2026-11-21@0154.07-1.erl_perf.log",
        "2026-11-21@0154.07_1.erl_perf.log",
        "2026-11-21@0154.07_001x.erl_perf.log",
        "x2026-11-21@0154.07.erl_perf.log",
        "2026-11-21@0154.07.bak.erl_perf.log",
        "2026-11-21@0154.07shop@host.erl_perf.log",
        "2026-11-21@0154.07..erl_perf.log",
        "2026-11-21@0154.07.a b@host.erl_perf.log",
        "2026-11-2x@0154.07.erl_perf.log",
    };
    struct fp_log_name name;

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        CHECK(!fp_log_name_parse(&name, others[i]));
}

/* As the names sort, so do the keys. */
TEST(increased_names_sort_in_order)
{
    struct fp_log_name before = {.is_zst = true}, after;
    char less[FP_LOG_NAME_ROOM], more[FP_LOG_NAME_ROOM];

    fp_log_key_of(before.key, 1795226047);
    for (int i = 0; i < 3000; i++) {
        after = before;
        fp_log_key_increase(after.key);
        fp_log_name_print(&before, less);
        fp_log_name_print(&after, more);
        CHECK(strcmp(less, more) < 0);
        CHECK(strcmp(before.key, after.key) < 0);
        before = after;
    }
    fp_log_key_of(after.key, 1795226048);
    CHECK(strcmp(before.key, after.key) < 0);
}

TEST(a_file_is_named_by_the_local_time)
{
    char key[FP_LOG_KEY_ROOM];

    setenv("TZ", "UTC-3", 1);
    tzset();
    fp_log_key_of(key, 1795226047);
    CHECK_TEXT(key, "2026-11-21@0454.07");
    setenv("TZ", "UTC", 1);
    tzset();
    fp_log_key_of(key, 1795226047);
    CHECK_TEXT(key, "2026-11-21@0154.07");
    fp_log_key_of(key, INT64_MAX / 2);
    CHECK_TEXT(key, "1970-01-01@0000.00");
}

/* ---- opening ---------------------------------------------------------- */

FOLDER(file_and_directory_are_the_owners_alone)
{
    struct fp_sink *sink;
    mode_t before = umask(0);

    options = in(temporary_at(&t, "new"));
    sink = open_sink(&options);
    CHECK_INT(mode_of(options.directory), 0700);
    CHECK_INT(mode_of(fp_sink_path(sink)), 0600);
    close_sink(sink);
    umask(before);
}

FOLDER(a_directory_that_is_there_is_left_as_it_is)
{
    CHECK(chmod(t.path, 0750) == 0);
    close_sink(open_sink(&options));
    CHECK_INT(mode_of(t.path), 0750);
}

TEST(a_file_in_progress_is_told_from_a_finished_one)
{
    struct fp_sink_options options;
    struct fp_log_name name;
    struct fp_sink *sink;
    struct temporary t;
    struct logs logs;

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        temporary_make(&t);
        options = in(t.path);
        options.is_zst = is_zst;
        sink = open_sink(&options);
        logs = logs_list(t.path);
        CHECK_INT(logs.n, 1);
        CHECK(fp_log_name_parse(&name, logs.name[0]));
        CHECK(name.is_part && name.is_zst == is_zst);
        put(sink, "a\n\n");
        close_sink(sink);
        logs = logs_list(t.path);
        CHECK_INT(logs.n, 1);
        CHECK(fp_log_name_parse(&name, logs.name[0]));
        CHECK(!name.is_part && name.is_zst == is_zst);
        check_all(t.path, "a\n\n");
        temporary_remove(&t);
    }
}

FOLDER(a_file_without_samples_is_removed)
{
    close_sink(open_sink(&options));
    check_names(t.path, 0, NULL);
}

FOLDER(an_existing_file_is_never_written_to)
{
    struct fp_sink *sinks[5];

    for (int i = 0; i < 5; i++)
        sinks[i] = open_sink(&options);
    for (int i = 0; i < 5; i++) {
        char text[] = {(char)('a' + i), '\n', '\n', '\0'};

        put(sinks[i], text);
        close_sink(sinks[i]);
    }
    /* The order of their names is that in which they were begun. */
    CHECK_INT(logs_list(t.path).n, 5);
    check_all(t.path, "a\n\nb\n\nc\n\nd\n\ne\n\n");
}

FOLDER(a_name_that_is_taken_meanwhile_is_left_alone)
{
    struct fp_sink *sink;
    char finished[512];

    sink = open_sink(&options);
    snprintf(finished, sizeof(finished), "%s", fp_sink_path(sink));
    finished[strlen(finished) - strlen(".part")] = '\0';
    make_file(finished, "1\n\n");
    put(sink, "2\n\n");
    close_sink(sink);
    check_all(t.path, "1\n\n2\n\n");
}

FOLDER(a_directory_that_is_a_link_is_refused)
{
    char expected[512];

    CHECK(mkdir(temporary_at(&t, "real"), 0700) == 0);
    CHECK(symlink(temporary_at(&t, "real"), temporary_at(&t, "link")) == 0);
    snprintf(expected, sizeof(expected), "%s/link: is a symbolic link", t.path);
    check_refused(temporary_at(&t, "link"), expected);
    check_refused(temporary_at(&t, "link//"), expected);
    CHECK_INT(logs_list(temporary_at(&t, "real")).n, 0);
}

FOLDER(a_directory_that_is_a_file_is_refused)
{
    char expected[512];

    make_file(temporary_at(&t, "file"), "");
    snprintf(expected, sizeof(expected), "%s/file: not a directory", t.path);
    check_refused(temporary_at(&t, "file"), expected);
    snprintf(expected, sizeof(expected), "%s/file/x: not a directory", t.path);
    check_refused(temporary_at(&t, "file/x"), expected);
}

FOLDER(a_directory_without_parent_is_refused)
{
    char expected[512];

    snprintf(expected, sizeof(expected), "%s/no/such: no such file or directory", t.path);
    check_refused(temporary_at(&t, "no/such"), expected);
    CHECK(!temporary_exists(temporary_at(&t, "no")));
}

/* Root may write anywhere: another user tries, in a process of its own. */
FOLDER(a_directory_that_may_not_be_written_is_refused)
{
    char expected[512];
    int status;
    pid_t child;

    CHECK(chmod(t.path, 0555) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        snprintf(expected, sizeof(expected), "%s: permission denied", t.path);
        check_refused(t.path, expected);
        snprintf(expected, sizeof(expected), "%s/sub: permission denied", t.path);
        check_refused(temporary_at(&t, "sub"), expected);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

/* ---- writing ---------------------------------------------------------- */

TEST(what_was_taken_is_in_the_file_after_a_flush)
{
    struct fp_sink_options options;
    struct fp_sink *sink;
    struct temporary t;

    for (int i = 0; i < 6; i++) {
        temporary_make(&t);
        options = in(t.path);
        options.is_zst = i % 2;
        options.sync = (enum fp_sync)(i / 2);
        sink = open_sink(&options);
        put(sink, "one\n\n");
        put(sink, "two\n\n");
        check_all(t.path, "");
        CHECK_INT(fp_sink_flush(sink, true), 0);
        check_all(t.path, "one\n\ntwo\n\n");
        put(sink, "three\n\n");
        CHECK_INT(fp_sink_flush(sink, false), 0);
        check_all(t.path, "one\n\ntwo\n\nthree\n\n");
        CHECK_INT(fp_sink_flush(sink, true), 0);
        close_sink(sink);
        check_all(t.path, "one\n\ntwo\n\nthree\n\n");
        temporary_remove(&t);
    }
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

TEST(everything_comes_in_order_whatever_the_sizes)
{
    const size_t size = 20 * MIB;
    char *bytes = pattern(size), *got;
    struct fp_sink_options options;
    uint64_t random = 4;
    struct fp_sink *sink;
    struct temporary t;
    size_t got_size;

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        temporary_make(&t);
        options = in(t.path);
        options.is_zst = is_zst;
        options.max_file_bytes = 5 * MIB;
        sink = open_sink(&options);
        for (size_t at = 0, piece; at < size; at += piece) {
            piece = run_below(&random, run_below(&random, 50) ? 2000 : 3 * MIB);
            piece = piece > size - at ? size - at : piece;
            CHECK_INT(fp_sink_write(sink, bytes + at, piece, 1), 0);
        }
        close_sink(sink);
        CHECK(logs_list(t.path).n >= 3);
        got = logs_read_all(t.path, &got_size);
        CHECK_INT(got_size, size);
        CHECK(memcmp(got, bytes, size) == 0);
        free(got);
        temporary_remove(&t);
    }
    free(bytes);
}

FOLDER(what_can_never_fit_is_refused_whole)
{
    char *bytes = pattern(7 * MIB);
    struct fp_sink *sink;

    sink = open_sink(&options);
    put(sink, "a");
    CHECK_INT(fp_sink_write(sink, bytes, 7 * MIB, 1), FP_EFULL);
    put(sink, "b");
    close_sink(sink);
    check_all(t.path, "ab");
    free(bytes);
}

/* ---- holding ---------------------------------------------------------- */

TEST(what_is_held_is_in_no_file_and_forgotten_at_the_end)
{
    struct fp_sink_options options;
    struct fp_sink_end end;
    struct fp_sink *sink;
    struct temporary t;

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        temporary_make(&t);
        options = in(t.path);
        options.is_zst = is_zst;
        options.lookback_ms = 60000;
        sink = open_sink(&options);
        CHECK(fp_sink_is_buffering(sink));
        CHECK_TEXT(fp_sink_path(sink), "");
        put(sink, "one\n\n");
        CHECK_INT(fp_sink_flush(sink, true), 0);
        fp_sink_retry(sink);
        put(sink, "two\n\n");
        CHECK_INT(logs_list(t.path).n, 0);
        CHECK_INT(fp_sink_close(sink, &end), 0);
        CHECK_INT(end.lost_weight, 0);
        CHECK_INT(end.gauges.expired, 2);
        CHECK_INT(end.gauges.files, 0);
        CHECK_INT(logs_list(t.path).n, 0);
        temporary_remove(&t);
    }
}

TEST(what_is_held_comes_first_once_it_is_committed)
{
    struct fp_sink_options options;
    uint64_t text, looks;
    struct fp_sink *sink;
    struct temporary t;

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        temporary_make(&t);
        options = in(t.path);
        options.is_zst = is_zst;
        options.lookback_ms = 60000;
        sink = open_sink(&options);
        put(sink, "one\n\n");
        put(sink, "two\n\n");
        fp_sink_trigger(sink, &text, &looks);
        CHECK_INT(text, 10);
        CHECK_INT(looks, 2);
        CHECK(!fp_sink_is_buffering(sink));
        put(sink, "three\n\n");
        CHECK_INT(fp_sink_flush(sink, true), 0);
        check_all(t.path, "one\n\ntwo\n\nthree\n\n");
        fp_sink_trigger(sink, &text, &looks); /* again: nothing is held */
        CHECK_INT(looks, 0);
        CHECK_INT(fp_sink_gauges(sink).files, 1);
        close_sink(sink);
        temporary_remove(&t);
    }
}

/* Twenty times what there is room for: the end of it is kept, in order. */
TEST(what_is_held_takes_no_more_memory_than_there_is)
{
    const size_t size = 60 * MIB, piece = 1000;
    char *bytes = pattern(size), *got;
    uint64_t text, looks, expired;
    struct fp_sink_options options;
    struct fp_sink *sink;
    struct temporary t;
    size_t got_size;

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        temporary_make(&t);
        options = in(t.path);
        options.is_zst = is_zst;
        options.lookback_ms = 3600000;
        sink = open_sink(&options);
        for (size_t at = 0; at + piece <= size; at += piece)
            CHECK_INT(fp_sink_write(sink, bytes + at, piece, 1), 0);
        expired = fp_sink_gauges(sink).expired;
        fp_sink_trigger(sink, &text, &looks);
        CHECK(expired > 0 && looks > 0);
        CHECK_INT(expired + looks, size / piece);
        CHECK(text <= 10 * MIB);
        close_sink(sink);
        got = logs_read_all(t.path, &got_size);
        CHECK_INT(got_size, text);
        CHECK(memcmp(got, bytes + size / piece * piece - text, text) == 0);
        free(got);
        temporary_remove(&t);
    }
    free(bytes);
}

/* The table: as many frames as there are, and their sizes. */
FOLDER(a_finished_file_ends_with_its_table)
{
    const unsigned char *end;
    struct fp_sink *sink;
    size_t size;
    char *bytes;

    options.is_zst = true;
    sink = open_sink(&options);
    for (int i = 0; i < 3; i++) {
        put(sink, "text\n\n");
        CHECK_INT(fp_sink_flush(sink, true), 0);
    }
    close_sink(sink);
    bytes = temporary_read(temporary_at(&t, logs_list(t.path).name[0]), &size);
    end = (const unsigned char *)bytes + size;
    CHECK(memcmp(end - 4, "\xb1\xea\x92\x8f", 4) == 0);
    CHECK(memcmp(end - 9, "\3\0\0\0\0", 5) == 0);
    CHECK(memcmp(end - 9 - 24 - 8, "\x5e\x2a\x4d\x18\x21\0\0\0", 8) == 0);
    CHECK_INT(end[-9 - 4], 6);
    CHECK_INT(3 * end[-9 - 8] + 9 + 24 + 8, size);
    free(bytes);
}

/* ---- the next file ---------------------------------------------------- */

FOLDER(a_file_takes_so_many_flushes)
{
    struct fp_sink *sink;

    options.flushes_per_file = 3;
    sink = open_sink(&options);
    for (int i = 1; i <= 10; i++) {
        put(sink, "text\n\n");
        CHECK_INT(fp_sink_flush(sink, true), 0);
        CHECK_INT(logs_list(t.path).n, (i + 2) / 3);
        CHECK_INT(fp_sink_gauges(sink).files, (i + 2) / 3);
    }
    close_sink(sink);
    CHECK_INT(logs_list(t.path).n, 4);
}

struct told {
    int begun, finished, removed, failed, healed;
    char last[512];
};

static void on_event(void *arg, enum fp_sink_event event, const char *text)
{
    struct told *told = arg;

    told->begun += event == FP_SINK_BEGUN;
    told->finished += event == FP_SINK_FINISHED;
    told->removed += event == FP_SINK_REMOVED;
    told->failed += event == FP_SINK_FAILED;
    told->healed += event == FP_SINK_HEALED;
    snprintf(told->last, sizeof(told->last), "%s", text);
    CHECK((event == FP_SINK_REMOVED) != temporary_exists(text) || event == FP_SINK_FAILED);
}

FOLDER(everything_that_happens_to_files_is_told)
{
    struct told told = {.begun = 0};
    struct fp_sink *sink;

    options.flushes_per_file = 1;
    options.max_files = 2;
    sink = open_sink(&options);
    fp_sink_listen(sink, on_event, &told);
    for (int i = 0; i < 5; i++) {
        put(sink, "text\n\n");
        CHECK_INT(fp_sink_flush(sink, true), 0);
    }
    close_sink(sink);
    CHECK_INT(told.begun, 4);
    CHECK_INT(told.finished, 5);
    CHECK_INT(told.removed, 3);
    CHECK_INT(told.failed + told.healed, 0);
}

/* ---- retention -------------------------------------------------------- */

FOLDER(the_oldest_files_go_and_no_others)
{
    static const char *const left[] = {
        "2001-01-01@0000.00.erl_perf.log.gz",
        "2001-01-01@0000.00.erl_perf.log.zst", /* a link */
        "2001-01-01@0000.01.erl_perf.log",     /* a directory */
        "2001-01-03@0000.00.erl_perf.log.zst",
    };
    struct logs logs;

    make_file(temporary_at(&t, "outside"), "keep");
    CHECK(mkdir(temporary_at(&t, "in"), 0700) == 0);
    make_file(temporary_at(&t, "in/2001-01-01@0000.00.erl_perf.log.gz"), "x");
    CHECK(symlink("../outside", temporary_at(&t, "in/2001-01-01@0000.00.erl_perf.log.zst")) == 0);
    CHECK(mkdir(temporary_at(&t, "in/2001-01-01@0000.01.erl_perf.log"), 0700) == 0);
    make_file(temporary_at(&t, "in/2001-01-02@0000.00.erl_perf.log"), "2");
    make_file(temporary_at(&t, "in/2001-01-02@0000.00_001.erl_perf.log"), "3");
    make_file(temporary_at(&t, "in/2001-01-03@0000.00.erl_perf.log.zst"), "4");
    options = in(temporary_at(&t, "in"));
    options.max_files = 2;
    close_sink(open_sink(&options));
    logs = logs_list(temporary_at(&t, "in"));
    CHECK_INT(logs.n, 4);
    for (int i = 0; i < 4; i++)
        CHECK_TEXT(logs.name[i], left[i]);
    CHECK(temporary_exists(temporary_at(&t, "outside")));
}

static uint64_t bytes_in(const char *directory)
{
    struct logs logs = logs_list(directory);
    uint64_t bytes = 0;

    for (int i = 0; i < logs.n; i++) {
        char path[512];
        struct stat info;

        snprintf(path, sizeof(path), "%s/%s", directory, logs.name[i]);
        CHECK(stat(path, &info) == 0);
        bytes += (uint64_t)info.st_size;
    }
    return bytes;
}

/* If there is room for a small file only, old files are removed while a large one is written. */
FOLDER(a_file_that_grows_takes_the_place_of_old_ones)
{
    const size_t limit = 4 * MIB, piece = 80000;
    char *bytes = pattern(MIB);
    struct fp_sink *sink;

    options.max_total_bytes = limit;
    options.flushes_per_file = 1;
    sink = open_sink(&options);
    for (int i = 0; i < 100; i++) {
        CHECK_INT(fp_sink_write(sink, bytes, piece, 1), 0);
        CHECK_INT(fp_sink_flush(sink, true), 0);
    }
    CHECK(bytes_in(t.path) > limit - 3 * piece);
    for (size_t at = 0; at + piece <= MIB; at += piece) {
        CHECK_INT(fp_sink_write(sink, bytes + at, piece, 1), 0);
        CHECK(bytes_in(t.path) <= limit + 262144 + piece);
    }
    close_sink(sink);
    free(bytes);
}

/* Of three nodes, each keeps its own number of files. */
FOLDER(other_nodes_files_neither_go_nor_count)
{
    static const char *const nodes[] = {"a@host", "b@host", ""};
    struct logs logs;

    make_file(temporary_at(&t, "2001-01-01@0000.00.a@host.erl_perf.log"), "a\n\n");
    make_file(temporary_at(&t, "2001-01-01@0000.00.b@host.erl_perf.log"), "b\n\n");
    make_file(temporary_at(&t, "2001-01-01@0000.00.erl_perf.log"), "0\n\n");
    options.max_files = 2;
    for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
        struct fp_sink *sink;

        snprintf(options.node, sizeof(options.node), "%s", nodes[i]);
        sink = open_sink(&options);
        put(sink, "1\n\n");
        close_sink(sink);
        CHECK_INT(logs_list(t.path).n, 4 + (int)i);
    }
    options.max_files = 1;
    snprintf(options.node, sizeof(options.node), "%s", "b@host");
    close_sink(open_sink(&options));
    logs = logs_list(t.path);
    CHECK_INT(logs.n, 4);
    CHECK_TEXT(logs.name[0], "2001-01-01@0000.00.a@host.erl_perf.log");
    CHECK_TEXT(logs.name[1], "2001-01-01@0000.00.erl_perf.log");
}

static void ignore(void *arg, const char *name)
{
    (void)arg;
    (void)name;
}

static void finish_files(const struct fp_sink_options *options, char from, char to)
{
    for (char c = from; c <= to; c++) {
        char text[] = {c, '\n', '\n', '\0'};
        struct fp_sink *sink = open_sink(options);

        put(sink, text);
        close_sink(sink);
    }
}

/* Files that a clock far ahead has named: those that follow have the names of their own time, and
 * are the newest. */
FOLDER(files_from_the_future_name_no_others_and_go_first)
{
    struct logs logs;

    make_file(temporary_at(&t, "2001-01-01@0000.00.erl_perf.log"), "0\n\n");
    make_file(temporary_at(&t, "2999-01-01@0000.00.erl_perf.log"), "1\n\n");
    make_file(temporary_at(&t, "2999-01-02@0000.00.erl_perf.log"), "2\n\n");
    options.max_files = 4;
    options.flushes_per_file = 1;
    finish_files(&options, '3', '4');
    logs = logs_list(t.path);
    CHECK_INT(logs.n, 4);
    CHECK_TEXT(logs.name[0], "2001-01-01@0000.00.erl_perf.log");
    CHECK(strcmp(logs.name[1], "2026") > 0 && strcmp(logs.name[2], "2999") < 0);
    CHECK_TEXT(logs.name[3], "2999-01-02@0000.00.erl_perf.log");
    finish_files(&options, '5', '7');
    check_all(t.path, "4\n\n5\n\n6\n\n7\n\n");
}

/* A clock that is set back in a session: what was written since is the newest, then what was
 * written before, whatever the names say. */
FOLDER(what_was_begun_since_the_clock_was_set_back_is_kept)
{
    const struct fp_directory_sum limits = {.files = 3};
    struct fp_directory_keys keys = {.last = ""};
    struct fp_directory_sum kept;
    const time_t ahead = 1800003600, now = 1800000000;
    struct fp_log_name name;
    char text[8][16];
    int folder;

    folder = open(t.path, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 6; i++) {
        int file;

        name = (struct fp_log_name){.is_zst = false};
        file = fp_directory_create(folder, i < 3 ? ahead + i : now + i, &name);

        CHECK(file >= 0);
        snprintf(text[i], sizeof(text[i]), "%d\n\n", i);
        CHECK(write(file, text[i], 3) == 3);
        close(file);
        CHECK_INT(fp_directory_finish(folder, &name), 0);
        fp_directory_note_key(&keys, name.key);
        CHECK_INT(fp_directory_retain(folder, &limits, &keys, i < 3 ? ahead + i : now + i,
                                      (struct fp_directory_sum){0, 0}, ignore, NULL, &kept),
                  0);
    }
    CHECK_INT(kept.files, 3);
    check_all(t.path, "3\n\n4\n\n5\n\n");
    close(folder);
}

/* ---- what dead sessions left ------------------------------------------ */

/* A file in progress as a kill leaves it: not closed, the lock given up. */
static void leave(const struct fp_sink_options *options, int samples)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        struct fp_sink *sink = open_sink(options);

        for (int i = 0; i < samples; i++) {
            put(sink, "a sample\n\n");
            CHECK_INT(fp_sink_flush(sink, true), 0);
        }
        put(sink, "never flushed\n\n");
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

TEST(a_leftover_is_finished_by_the_next_session)
{
    struct fp_sink_options options;
    struct fp_log_name name;
    struct temporary t;
    struct logs logs;

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        temporary_make(&t);
        options = in(t.path);
        options.is_zst = is_zst;
        leave(&options, 3);
        logs = logs_list(t.path);
        CHECK_INT(logs.n, 1);
        CHECK(fp_log_name_parse(&name, logs.name[0]) && name.is_part);
        close_sink(open_sink(&options));
        logs = logs_list(t.path);
        CHECK_INT(logs.n, 1);
        CHECK(fp_log_name_parse(&name, logs.name[0]) && !name.is_part);
        check_all(t.path, "a sample\n\na sample\n\na sample\n\n");
        temporary_remove(&t);
    }
}

TEST(a_leftover_without_samples_is_removed)
{
    struct fp_sink_options options;
    struct temporary t;

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        temporary_make(&t);
        options = in(t.path);
        options.is_zst = is_zst;
        leave(&options, 0);
        CHECK_INT(logs_list(t.path).n, 1);
        close_sink(open_sink(&options));
        CHECK_INT(logs_list(t.path).n, 0);
        temporary_remove(&t);
    }
}

/* Wherever it was cut, and whatever stands behind the cut. */
TEST(a_leftover_is_cut_behind_its_last_good_sample)
{
    static const char zeros[100];
    struct fp_sink_options options;
    struct temporary t;
    size_t size, text_size;

    for (int round = 0; round < 4; round++) {
        char path[512], *whole, *text;

        temporary_make(&t);
        options = in(t.path);
        options.is_zst = round % 2;
        leave(&options, 4);
        snprintf(path, sizeof(path), "%s/%s", t.path, logs_list(t.path).name[0]);
        whole = temporary_read(path, &size);
        for (size_t cut = 0; cut <= size; cut++) {
            FILE *file = fopen(path, "wb");

            CHECK(file != NULL);
            CHECK(fwrite(whole, 1, cut, file) == cut);
            if (round / 2 == 1)
                CHECK(fwrite(zeros, 1, sizeof(zeros), file) == sizeof(zeros));
            fclose(file);
            close_sink(open_sink(&options));
            text = logs_read_all(t.path, &text_size);
            CHECK_INT(text_size, cut / (size / 4) * 10);
            if (text_size > 0)
                CHECK(memcmp(text + text_size - 10, "a sample\n\n", 10) == 0);
            free(text);
            if (logs_list(t.path).n > 0)
                CHECK(remove(temporary_at(&t, logs_list(t.path).name[0])) == 0);
        }
        free(whole);
        temporary_remove(&t);
    }
}

/* Its length and its frames are right, the bytes are not. */
FOLDER(a_leftover_frame_that_can_not_be_read_is_cut_off)
{
    size_t size;
    char path[512], *whole;
    FILE *file;

    options.is_zst = true;
    leave(&options, 3);
    snprintf(path, sizeof(path), "%s/%s", t.path, logs_list(t.path).name[0]);
    whole = temporary_read(path, &size);
    whole[size - 10] ^= 1;
    file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(whole, 1, size, file) == size);
    fclose(file);
    close_sink(open_sink(&options));
    check_all(t.path, "a sample\n\na sample\n\n");
    free(whole);
}

FOLDER(any_bytes_may_be_left_over)
{
    uint64_t random = 7;

    for (int i = 0; i < 500; i++) {
        const char *path = temporary_at(&t, "2020-01-01@0000.00.erl_perf.log.zst.part");
        FILE *file = fopen(path, "wb");
        uint32_t size = run_below(&random, 300);

        CHECK(file != NULL);
        if (i % 3 != 0) /* a frame's beginning, with a checksum */
            fwrite("\x28\xb5\x2f\xfd\x24", 1, 5, file);
        for (uint32_t k = 0; k < size; k++)
            fputc((int)run_below(&random, i % 2 ? 256 : 4), file);
        fclose(file);
        close_sink(open_sink(&options));
        CHECK_INT(logs_list(t.path).n, 0);
    }
}

FOLDER(what_somebody_still_writes_is_no_leftover)
{
    struct fp_sink *first, *second;

    first = open_sink(&options);
    put(first, "1\n\n");
    CHECK_INT(fp_sink_flush(first, true), 0);
    second = open_sink(&options);
    put(first, "2\n\n");
    put(second, "3\n\n");
    close_sink(second);
    close_sink(first);
    check_all(t.path, "1\n\n2\n\n3\n\n");
}

/* Another name of a foreign file, a pipe, a link. */
FOLDER(what_is_not_ours_alone_is_no_leftover)
{
    size_t size;
    char *text;

    CHECK(mkdir(temporary_at(&t, "in"), 0700) == 0);
    make_file(temporary_at(&t, "mine"), "no sample");
    CHECK(link(temporary_at(&t, "mine"),
               temporary_at(&t, "in/2020-01-01@0000.00.erl_perf.log.part")) == 0);
    CHECK(symlink("../mine", temporary_at(&t, "in/2020-01-02@0000.00.erl_perf.log.part")) == 0);
    CHECK(mkfifo(temporary_at(&t, "in/2020-01-03@0000.00.erl_perf.log.part"), 0600) == 0);
    options = in(temporary_at(&t, "in"));
    close_sink(open_sink(&options));
    CHECK_INT(logs_list(options.directory).n, 3);
    text = temporary_read(temporary_at(&t, "mine"), &size);
    CHECK_BYTES(text, size, "no sample", strlen("no sample"));
    free(text);
}

FOLDER(leftovers_count_as_files)
{
    options.max_files = 3;
    for (int i = 0; i < 6; i++)
        leave(&options, 1);
    CHECK_INT(logs_list(t.path).n, 3);
    close_sink(open_sink(&options));
    CHECK_INT(logs_list(t.path).n, 2);
}
