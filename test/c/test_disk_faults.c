/* test_disk_faults.c - every call on files fails once, and for a while, with every error that there
 * is: no flushed sample is missing, none is there twice, and every finished file is whole. */
#include "base/error.h"
#include "faulty_disk.h"
#include "logs.h"
#include "store/sink.h"
#include "temporary.h"
#include "test.h"

static const int errors[] = {ENOSPC, EDQUOT, EIO, EROFS, EACCES, ENOENT, EMFILE, EFBIG};
#define ERRORS (sizeof(errors) / sizeof(*errors))
#define SAMPLES 12
#define SAMPLE_SIZE 12

struct outcome {
    int calls;          /* on the disk */
    int taken, flushed; /* samples, from the first one on */
    uint64_t lost;
    int err; /* of the start, or of the close */
};

static char why[512];

static void put_samples(struct fp_sink *sink, struct outcome *outcome)
{
    for (int i = 0; i < SAMPLES; i++) {
        char text[SAMPLE_SIZE + 1];

        snprintf(text, sizeof(text), "sample %03d\n\n", i);
        CHECK_INT(fp_sink_write(sink, text, SAMPLE_SIZE, 1), 0);
        outcome->taken++;
        if (i % 2 == 0 && fp_sink_flush(sink, true) == 0)
            outcome->flushed = outcome->taken;
        CHECK((fp_sink_error(sink)[0] != '\0') == (fp_sink_gauges(sink).errors > 0));
    }
}

static struct outcome run(const struct fp_sink_options *options)
{
    struct outcome outcome = {.calls = 0};
    struct fp_sink_end end;
    struct fp_sink *sink;

    outcome.err = fp_sink_open(&sink, options, why, sizeof(why));
    if (outcome.err == 0) {
        put_samples(sink, &outcome);
        outcome.err = fp_sink_close(sink, &end);
        outcome.lost = end.lost_weight;
        if (outcome.err == 0)
            outcome.flushed = outcome.taken;
    }
    outcome.calls = atomic_load(&faulty_calls);
    return outcome;
}

/* Files in progress are finished by who comes next. */
static void recover(const struct fp_sink_options *options)
{
    struct fp_sink_end end;
    struct fp_sink *sink;

    faulty_disk_mend();
    CHECK_INT(fp_sink_open(&sink, options, why, sizeof(why)), 0);
    CHECK_INT(fp_sink_close(sink, &end), 0);
}

/* A plain file that cannot be cut back keeps the samples of a block that was half written, which
 * come again in the next file: a reader sees them twice. A frame that was half written is none. */
static void check(const char *directory, const struct outcome *outcome, bool may_repeat)
{
    size_t size;
    char *text = logs_read_all(directory, &size), expected[SAMPLE_SIZE + 1];
    int last = -1;

    CHECK_INT(size % SAMPLE_SIZE, 0);
    for (size_t at = 0; at < size; at += SAMPLE_SIZE) {
        snprintf(expected, sizeof(expected), "sample %03d\n\n", last + 1);
        if (memcmp(text + at, expected, SAMPLE_SIZE) == 0)
            last++;
        else if (!may_repeat)
            CHECK_BYTES(text + at, (size_t)SAMPLE_SIZE, expected, (size_t)SAMPLE_SIZE);
        else
            CHECK_INT(sscanf(text + at, "sample %03d", &last), 1);
    }
    CHECK(last + 1 >= outcome->flushed);
    if (!may_repeat)
        CHECK_INT(last + 1, outcome->taken - (int)outcome->lost);
    free(text);
}

/* `n` calls from each one on. */
static void break_everywhere(struct fp_sink_options options, int n, int err)
{
    struct outcome outcome;
    struct temporary t;
    int first = 0;

    do {
        temporary_make(&t);
        options.directory = temporary_at(&t, "logs");
        faulty_disk_break(first, n, err);
        outcome = run(&options);
        recover(&options);
        check(temporary_at(&t, "logs"), &outcome, !options.is_zst && n > 1);
        temporary_remove(&t);
    } while (first++ < outcome.calls);
    CHECK(first > 20);
}

static void break_with_all_options(int n)
{
    for (size_t i = 0; i < ERRORS; i++) {
        struct fp_sink_options options = {
            .is_zst = i % 2 == 0, .sync = (enum fp_sync)(i % 3), .flushes_per_file = 2};

        break_everywhere(options, n, errors[i]);
        options.is_zst = !options.is_zst;
        options.sync = FP_SYNC_FLUSH;
        options.flushes_per_file = 0;
        break_everywhere(options, n, errors[i]);
    }
}

TEST(one_call_that_fails_costs_nothing_that_was_flushed)
{
    break_with_all_options(1);
}

TEST(some_calls_that_fail_cost_nothing_that_was_flushed)
{
    break_with_all_options(3);
    break_with_all_options(8);
}

TEST(a_disk_that_never_mends_keeps_what_was_flushed)
{
    break_with_all_options(1000000);
}

/* The oldest stays: what finds no room is refused, and counted by the caller. */
TEST(what_waits_for_a_full_disk_is_bounded_and_the_oldest)
{
    struct fp_sink_options options = {.sync = FP_SYNC_NONE};
    const size_t size = 1000, samples = 20000;
    struct fp_sink_gauges gauges;
    char sample[1000], *text;
    struct fp_sink_end end;
    struct fp_sink *sink;
    struct temporary t;
    size_t taken = 0, got;

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        uint64_t random = 5;

        temporary_make(&t);
        options.directory = t.path;
        options.is_zst = is_zst;
        CHECK_INT(fp_sink_open(&sink, &options, why, sizeof(why)), 0);
        faulty_disk_room(100000);
        taken = 0;
        for (size_t i = 0; i < samples; i++) {
            for (size_t k = 0; k < size; k++)
                sample[k] = (char)run_random(&random);
            memcpy(sample, &i, sizeof(i));
            if (fp_sink_write(sink, sample, size, 1) == 0) {
                CHECK_INT(i, taken); /* nothing behind a gap, until it heals */
                taken++;
            }
        }
        CHECK(taken > 4000 && taken < 12000);
        gauges = fp_sink_gauges(sink);
        CHECK(gauges.errors >= 1 && gauges.errors < 10);
        CHECK(strstr(fp_sink_error(sink), t.path) != NULL);
        CHECK(strstr(fp_sink_error(sink), "no space left on device") != NULL);
        CHECK_INT(fp_sink_flush(sink, true), FP_EIO);
        CHECK(fp_sink_gauges(sink).errors > gauges.errors);
        /* The disk is asked again in two seconds at the earliest: not by this flush. */
        gauges = fp_sink_gauges(sink);
        CHECK_INT(fp_sink_flush(sink, false), FP_EIO);
        CHECK_INT(fp_sink_gauges(sink).errors, gauges.errors);
        faulty_disk_mend();
        CHECK_INT(fp_sink_close(sink, &end), 0);
        text = logs_read_all(t.path, &got);
        CHECK_INT(got, taken * size);
        for (size_t i = 0; i < taken; i++)
            CHECK(memcmp(text + i * size, &i, sizeof(i)) == 0);
        CHECK_INT(logs_list(t.path).n, 1); /* the same file went on */
        free(text);
        temporary_remove(&t);
    }
}

/* ---- faults that need no help ----------------------------------------- */

static void put(struct fp_sink *sink, const char *text)
{
    CHECK_INT(fp_sink_write(sink, text, strlen(text), 1), 0);
}

struct fixture {
    struct temporary t;
    char logs[PATH_MAX];
    struct fp_sink_options options;
    struct fp_sink *sink;
    struct fp_sink_end end;
};

static struct fixture *create(struct fp_sink_options options)
{
    struct fixture *f = calloc(1, sizeof *f);

    temporary_make(&f->t);
    snprintf(f->logs, sizeof f->logs, "%s", temporary_at(&f->t, "logs"));
    f->options = options;
    f->options.directory = f->logs;
    CHECK_INT(fp_sink_open(&f->sink, &f->options, why, sizeof(why)), 0);
    return f;
}

static void destroy(struct fixture *f)
{
    temporary_remove(&f->t);
    free(f);
}

#define SINK_TEST(test, ...) TEST_WITH(test, create((struct fp_sink_options){__VA_ARGS__}))

static void check_all(const char *directory, const char *expected)
{
    size_t size;
    char *text = logs_read_all(directory, &size);

    CHECK_BYTES(text, size, expected, strlen(expected));
    free(text);
}

SINK_TEST(a_file_that_was_removed_is_followed_by_another, .sync = FP_SYNC_CLOSE)
{
    put(f->sink, "1\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), 0);
    CHECK(remove(fp_sink_path(f->sink)) == 0);
    put(f->sink, "2\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), 0);
    CHECK(strstr(fp_sink_error(f->sink), "removed or replaced") != NULL);
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
    CHECK_INT(f->end.gauges.errors, 1);
    CHECK_INT(f->end.gauges.unsaved, 1);
    check_all(f->logs, "2\n\n");
}

/* Removed after the last flush, so that only the end finds out. */
SINK_TEST(a_file_that_is_gone_at_the_end_is_counted, .sync = FP_SYNC_CLOSE)
{
    put(f->sink, "1\n\n");
    put(f->sink, "2\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), 0);
    CHECK_INT(fp_sink_gauges(f->sink).unsaved, 0);
    CHECK(remove(fp_sink_path(f->sink)) == 0);
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
    CHECK_INT(f->end.gauges.unsaved, 2);
    CHECK_INT(f->end.lost_weight, 0);
}

/* What the disk did not take when it was asked to: the kernel drops such data, and says so once. */
SINK_TEST(what_was_not_synced_is_counted, .sync = FP_SYNC_FLUSH)
{
    size_t size;

    put(f->sink, "1\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), 0);
    put(f->sink, "2\n\n");
    put(f->sink, "3\n\n");
    atomic_store(&faulty_syncs, 1);
    CHECK_INT(fp_sink_flush(f->sink, true), FP_EIO);
    CHECK_INT(fp_sink_gauges(f->sink).unsaved, 2);
    put(f->sink, "4\n\n");
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
    CHECK_INT(f->end.gauges.unsaved, 2);
    free(logs_read_all(f->logs, &size));
    CHECK_INT(size, 12);
}

/* Each call of the last finish fails once: the table, the sync, the rename, the folder's sync. */
TEST(a_file_that_cannot_be_finished_at_the_end_is_an_error_with_its_reason)
{
    struct fp_sink_options options = {.sync = FP_SYNC_CLOSE};

    for (int is_zst = 0; is_zst <= 1; is_zst++) {
        int failed = 0, calls = 0;

        options.is_zst = is_zst;
        for (int call = 0; call <= calls; call++) {
            struct fp_sink_end end;
            struct fp_sink *sink;
            struct temporary t;
            int err;

            temporary_make(&t);
            options.directory = t.path;
            CHECK_INT(fp_sink_open(&sink, &options, why, sizeof(why)), 0);
            put(sink, "1\n\n");
            CHECK_INT(fp_sink_flush(sink, true), 0);
            faulty_disk_break(call, 1, EIO);
            err = fp_sink_close(sink, &end);
            calls = atomic_load(&faulty_calls);
            CHECK_INT(err, call < calls ? FP_EIO : 0);
            CHECK((err != 0) == (strstr(end.why, t.path) != NULL));
            CHECK((err != 0) == (strstr(end.why, ": ") != NULL));
            CHECK_INT(end.gauges.errors, err != 0);
            failed += err != 0;
            faulty_disk_mend();
            temporary_remove(&t);
        }
        CHECK(failed >= 3);
    }
}

/* After an error that healed, a close without one has no reason. */
TEST(the_reason_of_a_close_is_not_an_older_one)
{
    struct fp_sink_options options = {.sync = FP_SYNC_FLUSH};
    struct fp_sink_end end;
    struct fp_sink *sink;
    struct temporary t;

    for (int fails_again = 0; fails_again <= 1; fails_again++) {
        temporary_make(&t);
        options.directory = t.path;
        CHECK_INT(fp_sink_open(&sink, &options, why, sizeof(why)), 0);
        faulty_disk_room(0);
        put(sink, "1\n\n");
        CHECK_INT(fp_sink_flush(sink, true), FP_EIO);
        CHECK(strstr(fp_sink_error(sink), "no space left on device") != NULL);
        faulty_disk_mend();
        CHECK_INT(fp_sink_flush(sink, true), 0);
        faulty_disk_break(0, fails_again, EIO);
        CHECK_INT(fp_sink_close(sink, &end), fails_again ? FP_EIO : 0);
        CHECK(strstr(end.why, "no space left on device") == NULL);
        CHECK((end.why[0] != '\0') == fails_again);
        faulty_disk_mend();
        temporary_remove(&t);
    }
}

SINK_TEST(a_flush_that_finishes_a_file_reports_what_fails_in_it, .sync = FP_SYNC_CLOSE,
          .flushes_per_file = 2)
{
    put(f->sink, "1\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), 0);
    put(f->sink, "2\n\n");
    atomic_store(&faulty_syncs, 1);
    CHECK_INT(fp_sink_flush(f->sink, true), FP_EIO);
    CHECK_INT(fp_sink_gauges(f->sink).unsaved, 2);
    put(f->sink, "3\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), 0); /* reported once */
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
}

/* A file that became too large is finished by a write, which reports no error of files. */
SINK_TEST(the_next_flush_reports_a_file_that_could_not_be_finished_before, .sync = FP_SYNC_CLOSE,
          .max_file_bytes = 1)
{
    put(f->sink, "1\n\n");
    atomic_store(&faulty_syncs, 1);
    fp_sink_publish(f->sink);
    CHECK_INT(atomic_load(&faulty_syncs), 0);
    put(f->sink, "2\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), FP_EIO);
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
}

/* Moved away, and a link put in its place. */
SINK_TEST(a_directory_that_was_replaced_is_noticed, .sync = FP_SYNC_CLOSE, .is_zst = true)
{
    put(f->sink, "1\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), 0);
    CHECK(mkdir(temporary_at(&f->t, "elsewhere"), 0700) == 0);
    CHECK(rename(f->logs, temporary_at(&f->t, "moved")) == 0);
    CHECK(symlink(temporary_at(&f->t, "elsewhere"), f->logs) == 0);
    put(f->sink, "2\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), FP_EIO);
    CHECK(strstr(fp_sink_error(f->sink), "logs: is a symbolic link") != NULL);
    CHECK(remove(f->logs) == 0);
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
    CHECK_INT(logs_list(temporary_at(&f->t, "elsewhere")).n, 0);
    check_all(temporary_at(&f->t, "moved"), "1\n\n");
    check_all(f->logs, "2\n\n");
}

SINK_TEST(a_directory_that_was_removed_is_made_anew, .sync = FP_SYNC_FLUSH)
{
    CHECK(remove(fp_sink_path(f->sink)) == 0);
    CHECK(rmdir(f->logs) == 0);
    put(f->sink, "1\n\n");
    CHECK_INT(fp_sink_flush(f->sink, true), 0);
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
    check_all(f->logs, "1\n\n");
}

/* In a directory of many files that are of others. */
SINK_TEST(files_of_others_are_never_looked_up, .max_files = 2, .max_total_bytes = 1000,
          .flushes_per_file = 1)
{
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
    for (int i = 0; i < 300; i++) {
        char name[32];
        FILE *file;

        snprintf(name, sizeof(name), "logs/other.%d", i);
        file = fopen(temporary_at(&f->t, name), "w");
        CHECK(file != NULL && fclose(file) == 0);
    }
    atomic_store(&disk_stats, 0);
    atomic_store(&disk_foreign_stats, 0);
    CHECK_INT(fp_sink_open(&f->sink, &f->options, why, sizeof(why)), 0);
    for (int i = 0; i < 5; i++) {
        put(f->sink, "1\n\n");
        CHECK_INT(fp_sink_flush(f->sink, true), 0);
    }
    CHECK_INT(fp_sink_close(f->sink, &f->end), 0);
    CHECK_INT(atomic_load(&disk_foreign_stats), 0);
    CHECK(atomic_load(&disk_stats) > 0);
}
