/* test_writer.c - the writer from ring to file, with code that is played by a table: tickets in
 * order, nothing left behind, counters that balance. Its steps are the test's but where threads are
 * what is tested. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/ring.h"
#include "broken.h"
#include "fake_code.h"
#include "faulty_disk.h"
#include "grammar.h"
#include "logs.h"
#include "records.h"
#include "session/writer.h"
#include "temporary.h"
#include "test.h"
#include "virtual_clock.h"

/* ---- a writer and what it said ---------------------------------------- */

struct notes {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t last_ticket; /* of FLUSHED */
    int flushes, flush_err;
    int stops, stop_err, broken;
    char stop_why[512];
    char thread_name[16];
    sigset_t blocked;
};

struct fixture {
    struct temporary directory;
    struct fake_code code;
    struct fp_symbolizer symbolizer;
    struct fp_counters stats;
    struct fp_gauges_mailbox node;
    struct fp_ring *ring;
    struct fp_writer *writer;
    struct notes notes;
    int64_t time_us;
    struct fp_sample_clock clock;
    uint64_t pushed; /* SAMPLE and REPEAT */
    int is_threaded;
    char path[512];
};

static void notify(void *arg, enum fp_writer_event event, uint64_t ticket, int err, const char *why)
{
    struct notes *notes = arg;

    CHECK((err != 0) == (why[0] != '\0' || event == FP_WRITER_BROKEN));
    pthread_mutex_lock(&notes->lock);
    CHECK_INT(notes->stops, 0);
    if (event == FP_WRITER_FLUSHED) {
        CHECK_INT(ticket, notes->last_ticket + 1);
        notes->last_ticket = ticket;
        notes->flush_err = err;
        notes->flushes++;
    } else if (event == FP_WRITER_BROKEN) {
        CHECK_INT(err, FP_EBROKEN);
        notes->broken++;
    } else {
        CHECK_INT(ticket, 0);
        notes->stops++;
        notes->stop_err = err;
        snprintf(notes->stop_why, sizeof(notes->stop_why), "%s", why);
        pthread_getname_np(pthread_self(), notes->thread_name, sizeof(notes->thread_name));
        pthread_sigmask(SIG_BLOCK, NULL, &notes->blocked);
    }
    pthread_cond_broadcast(&notes->changed);
    pthread_mutex_unlock(&notes->lock);
}

static void wait_for_ticket(struct notes *notes, uint64_t ticket)
{
    pthread_mutex_lock(&notes->lock);
    while (notes->last_ticket < ticket)
        pthread_cond_wait(&notes->changed, &notes->lock);
    pthread_mutex_unlock(&notes->lock);
}

static void wait_for_stop(struct notes *notes)
{
    pthread_mutex_lock(&notes->lock);
    while (notes->stops == 0)
        pthread_cond_wait(&notes->changed, &notes->lock);
    pthread_mutex_unlock(&notes->lock);
}

/* The time, where the steps are the test's; the system's clock has been set by so much. */
static int64_t now_ns, set_by_ns;

static int64_t read_clock(clockid_t clock)
{
    if (clock == CLOCK_THREAD_CPUTIME_ID)
        return system_clock_ns(clock);
    return now_ns + (clock == CLOCK_REALTIME ? INT64_C(1795237782000000000) + set_by_ns : 0);
}

/* Of the next setup. */
static struct {
    uint32_t flushes_per_file;
    int is_portable, is_elsewhere, is_threaded;
} special;

static const struct fake_function functions[] = {{"lists", "map", "lists.erl", 2},
                                                 {"gen_server", "loop", "", 7}};

static struct fixture *setup_merging(uint32_t flush_interval_ms, uint32_t lookback_ms,
                                     int coalesce_idle)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct fp_writer_options options;
    struct fp_sink_options files = {.sync = FP_SYNC_CLOSE};
    struct fp_sink *sink;
    char why[256];

    CHECK(f != NULL);
    temporary_make(&f->directory);
    pthread_mutex_init(&f->notes.lock, NULL);
    pthread_cond_init(&f->notes.changed, NULL);
    f->code.functions = functions;
    f->code.function_count = 2;
    f->symbolizer = fake_symbolizer(&f->code);
    CHECK_INT(fp_ring_create(&f->ring, 1u << 20), 0);
    files.directory = f->directory.path;
    files.lookback_ms = lookback_ms;
    files.flushes_per_file = special.flushes_per_file;
    f->is_threaded = special.is_threaded;
    virtual_clock = f->is_threaded ? NULL : read_clock;
    now_ns = 1000000000;
    set_by_ns = 0;
    if (!special.is_elsewhere)
        atomic_store(&f->clock.offset_us, fp_clock_offset_ns() / 1000);
    CHECK_INT(fp_sink_open(&sink, &files, why, sizeof(why)), 0);
    snprintf(f->path, sizeof(f->path), "%s", fp_sink_path(sink));
    options = (struct fp_writer_options){
        .ring = f->ring,
        .counters = &f->stats,
        .sink = sink,
        .script = {.os_pid = 1,
                   .symbolizer = &f->symbolizer,
                   .coalesce_idle = coalesce_idle,
                   .is_elsewhere = special.is_elsewhere,
                   .stats = &f->stats},
        .engine = "native",
        .about = "node=a:b@host no_word otp=25 empty= options=top=100,sync=close",
        .node = &f->node,
        .flush_interval_ms = flush_interval_ms,
        .note = "",
        .clock = &f->clock,
        .reads_clock = !special.is_portable,
        .notify = notify,
        .arg = &f->notes,
    };
    f->time_us = 1000001;
    CHECK_INT(fp_writer_create(&f->writer, &options), 0);
    if (f->is_threaded)
        CHECK_INT(fp_writer_start(f->writer), 0);
    return f;
}

static struct fixture *setup_holding(uint32_t flush_interval_ms, uint32_t lookback_ms)
{
    return setup_merging(flush_interval_ms, lookback_ms, 0);
}

static struct fixture *setup_threaded(uint32_t flush_interval_ms, uint32_t lookback_ms)
{
    struct fixture *f;

    special.is_threaded = 1;
    f = setup_holding(flush_interval_ms, lookback_ms);
    special.is_threaded = 0;
    return f;
}

static struct fixture *setup(uint32_t flush_interval_ms)
{
    return setup_holding(flush_interval_ms, 0);
}

/* So many milliseconds pass. */
static void pass(struct fixture *f, int64_t ms)
{
    int64_t until = now_ns + ms * 1000000, next = 0;

    for (; next < until; now_ns = next < until ? next : until)
        next = fp_writer_step(f->writer) * 1000000;
}

static void flush(struct fixture *f)
{
    uint64_t ticket = fp_writer_flush(f->writer);

    pass(f, 1);
    CHECK_INT(f->notes.last_ticket, ticket);
}

static void end(struct fixture *f)
{
    fp_writer_stop(f->writer);
    if (f->is_threaded) {
        wait_for_stop(&f->notes);
        fp_writer_join(f->writer);
        return;
    }
    CHECK_INT(fp_writer_step(f->writer), 0);
    CHECK_INT(f->notes.stops, 1);
    fp_writer_destroy(f->writer);
}

static void stop(struct fixture *f)
{
    end(f);
    if (!temporary_exists(f->path)) /* finished */
        f->path[strlen(f->path) - strlen(".part")] = '\0';
}

static void teardown(struct fixture *f)
{
    fp_gauges_mailbox_put(&f->node, NULL);
    fp_ring_destroy(f->ring);
    temporary_remove(&f->directory);
    pthread_mutex_destroy(&f->notes.lock);
    pthread_cond_destroy(&f->notes.changed);
    free(f);
}

static void push(struct fixture *f, const struct fp_record *record)
{
    void *room;

    while ((room = fp_ring_reserve(f->ring, record->size)) == NULL)
        f->is_threaded ? (void)sched_yield() : pass(f, 50);
    memcpy(room, record, record->size);
    fp_ring_commit(f->ring);
    f->pushed += record->type >= FP_RECORD_SAMPLE;
}

static void push_definitions(struct fixture *f)
{
    const uint64_t frame[] = {fake_address(0, 1), fake_address(1, 2)};
    union record_buffer b;

    push(f, make_process(&b, 0, 71, 0, NO_BYTES, NO_CALL, NO_CALL));
    push(f, make_stack(&b, 0, frame, 2));
}

static void push_samples(struct fixture *f, unsigned count)
{
    union record_buffer b;

    for (unsigned i = 0; i < count; i++) {
        f->time_us += 100;
        if (i % 3 == 0)
            push(f, make_sample(&b, 0, 0, f->time_us, i, 1));
        else
            push(f, make_repeat(&b, 0, 0, f->time_us));
    }
}

static uint64_t counter(struct fixture *f, enum fp_counter stat)
{
    return fp_counters_get(&f->stats, stat);
}

/* How many samples the file holds; all of it must follow the grammar. */
static uint64_t samples_in_file(struct fixture *f)
{
    const char *wrong;
    uint64_t samples;
    size_t size;
    char *text = temporary_read(f->path, &size);

    wrong = grammar_check(text, size, &samples);
    if (wrong != NULL)
        RUN_FAIL("%s at %zu", wrong, grammar_offset);
    free(text);
    return samples;
}

/* ---- tests ------------------------------------------------------------ */

TEST(a_writer_with_nothing_to_do_stops)
{
    struct fixture *f = setup(0);

    stop(f);
    CHECK_INT(f->notes.stops, 1);
    CHECK_INT(f->notes.stop_err, 0);
    CHECK_INT(samples_in_file(f), 0);
    CHECK_INT(grammar_own, 1);
    teardown(f);
}

TEST(what_was_pushed_before_a_flush_is_in_the_file_after_it)
{
    struct fixture *f = setup(0);

    push_definitions(f);
    for (unsigned i = 1; i <= 50; i++) {
        push_samples(f, i);
        flush(f);
        CHECK_INT(f->notes.flush_err, 0);
        CHECK_INT(samples_in_file(f), f->pushed);
    }
    stop(f);
    teardown(f);
}

TEST(stopping_drains_everything_and_the_books_are_even)
{
    struct fixture *f = setup(0);
    struct stat info;

    push_definitions(f);
    push_samples(f, 20000);
    stop(f);
    CHECK_INT(f->notes.stop_err, 0);
    CHECK_INT(samples_in_file(f), f->pushed);
    CHECK_INT(counter(f, FP_COUNTER_written), f->pushed);
    CHECK_INT(counter(f, FP_COUNTER_lost), 0);
    CHECK_INT(counter(f, FP_COUNTER_errors), 0);
    CHECK(counter(f, FP_COUNTER_writer_cpu_ns) > 0);
    CHECK(stat(f->path, &info) == 0);
    CHECK_INT(counter(f, FP_COUNTER_bytes), info.st_size);
    CHECK_INT(fp_ring_used(f->ring), 0);
    teardown(f);
}

/* The flush finds nothing wrong; the file is synced and renamed after it. */
TEST(a_stop_reports_that_the_file_could_not_be_finished)
{
    struct fixture *f = setup(0);

    push_definitions(f);
    push_samples(f, 10);
    flush(f);
    CHECK_INT(f->notes.flush_err, 0);
    atomic_store(&faulty_syncs, 1);
    stop(f);
    CHECK_INT(f->notes.stop_err, FP_EIO);
    CHECK(strstr(f->notes.stop_why, f->directory.path) != NULL);
    CHECK_INT(counter(f, FP_COUNTER_errors), 1);
    CHECK_INT(counter(f, FP_COUNTER_unsaved), f->pushed);
    teardown(f);
}

TEST(the_thread_has_a_name_and_takes_no_signals)
{
    struct fixture *f = setup_threaded(0, 0);
    sigset_t mine;

    stop(f);
    CHECK_TEXT(f->notes.thread_name, "flame_prof_wr");
    CHECK(sigismember(&f->notes.blocked, SIGTERM) == 1);
    CHECK(sigismember(&f->notes.blocked, SIGPROF) == 1);
    CHECK(sigismember(&f->notes.blocked, SIGXFSZ) == 1);
    pthread_sigmask(SIG_BLOCK, NULL, &mine);
    CHECK(sigismember(&mine, SIGTERM) == 0);
    teardown(f);
}

static int has(struct fixture *f, const char *what)
{
    size_t size;
    char *text = temporary_read(f->path, &size);
    int found = strstr(text, what) != NULL;

    free(text);
    return found;
}

/* Microseconds of the samples' clock. */
static int64_t sample_time(const struct fixture *f)
{
    return fp_monotonic_ns() / 1000 + atomic_load(&f->clock.offset_us);
}

static void push_now(struct fixture *f, unsigned count)
{
    f->time_us = sample_time(f) - 100 * (int64_t)count;
    push_samples(f, count);
}

struct checked_file {
    uint64_t samples;
    int64_t first_us, last_us, offset_us;
};

/* File number `at` follows the grammar, which forbids that time decreases in it; its name is the
 * second of its first sample, or the one before. */
static struct checked_file check_file(struct fixture *f, int at)
{
    struct logs logs = logs_list(f->directory.path);
    struct checked_file file = {.samples = 0};
    char path[600], named[64], *text;
    const char *wrong;
    size_t size;
    int matches = 0;

    CHECK(at < logs.n);
    snprintf(path, sizeof(path), "%s/%s", f->directory.path, logs.name[at]);
    text = temporary_read(path, &size);
    wrong = grammar_check(text, size, &file.samples);
    if (wrong != NULL)
        RUN_FAIL("%s at %zu", wrong, grammar_offset);
    for (char *line = text; line != NULL; line = strchr(line, '\n')) {
        long long s, us, offset;

        line += *line == '\n';
        if (sscanf(line, "%*[^ \t] %*d/%*d [%*d] %lld.%lld:", &s, &us) == 2) {
            file.last_us = s * 1000000 + us;
            if (file.first_us == 0)
                file.first_us = file.last_us;
        }
        if (file.offset_us == 0 && strncmp(line, "flame_prof ", 11) == 0 &&
            sscanf(strstr(line, " clock_offset_us="), " clock_offset_us=%lld", &offset) == 1)
            file.offset_us = offset;
    }
    for (int i = 0; i <= 1; i++) {
        time_t second = file.first_us / 1000000 + i;

        strftime(named, sizeof(named), "%Y-%m-%d@%H%M.%S", localtime(&second));
        matches += strncmp(named, logs.name[at], strlen(named)) == 0;
    }
    if (!matches)
        RUN_FAIL("%s begins at %s or the second before", logs.name[at], named);
    free(text);
    return file;
}

/* Two hours back, in the middle of a file, and two days forth in the next. */
TEST(a_step_of_the_systems_clock_begins_another_file)
{
    const int64_t steps[] = {0, INT64_C(-7200) * 1000000, INT64_C(172800) * 1000000};
    struct fixture *f = setup(0);
    struct checked_file file[3];

    push_definitions(f);
    for (int i = 0; i < 3; i++) {
        set_by_ns = steps[i] * 1000;
        pass(f, 1000);
        push_now(f, 10);
        flush(f);
        CHECK_INT(counter(f, FP_COUNTER_files_begun), i + 1);
    }
    end(f);
    /* In the order of their names. */
    file[1] = check_file(f, 0);
    file[0] = check_file(f, 1);
    file[2] = check_file(f, 2);
    CHECK_INT(file[0].samples + file[1].samples + file[2].samples, f->pushed);
    for (int i = 0; i < 3; i++) {
        int64_t offset_us = atomic_load(&f->clock.offset_us) + steps[i];

        CHECK(llabs(file[i].offset_us - offset_us) < 1000);
        CHECK(file[i].last_us <= fp_monotonic_ns() / 1000 + offset_us);
        CHECK(file[i].last_us >= fp_monotonic_ns() / 1000 + offset_us - INT64_C(600000000));
    }
    teardown(f);
}

/* Smaller ones wait for the next file, which has an offset of its own; here by what the portable
 * engine says of its clock. */
TEST(each_file_has_the_offset_of_its_beginning)
{
    struct checked_file file[3];
    struct fixture *f;

    special.flushes_per_file = 1;
    special.is_portable = 1;
    f = setup(0);
    push_definitions(f);
    for (int i = 0; i < 3; i++) {
        atomic_store(&f->clock.step_us, 300000 * i);
        push_now(f, 2);
        flush(f);
        pass(f, 1100); /* names of seconds of their own */
    }
    end(f);
    CHECK_INT(counter(f, FP_COUNTER_files_begun), 3 + 1);
    for (int i = 0; i < 3; i++) {
        file[i] = check_file(f, i);
        CHECK_INT(file[i].samples, 2);
        CHECK_INT(file[i].offset_us - file[0].offset_us, 300000 * i);
    }
    memset(&special, 0, sizeof(special));
    teardown(f);
}

/* The first file is begun before anything is known of that clock. */
TEST(files_of_another_node_are_named_by_its_clock)
{
    struct fixture *f;

    special.is_portable = special.is_elsewhere = 1;
    f = setup(0);
    push_definitions(f);
    flush(f);
    atomic_store(&f->clock.offset_us, fp_clock_offset_ns() / 1000 - INT64_C(100000) * 1000000);
    push_now(f, 5);
    end(f);
    CHECK_INT(logs_list(f->directory.path).n, 1);
    CHECK_INT(check_file(f, 0).samples, 5);
    memset(&special, 0, sizeof(special));
    teardown(f);
}

TEST(replaced_code_is_rendered_anew_and_counted)
{
    static const struct fake_function newer[] = {{"m", "newer", "", 1}, {"m", "other", "", 1}};
    struct fixture *f = setup(0);

    push_definitions(f);
    push_samples(f, 2);
    flush(f);
    CHECK(has(f, "lists:map/2") && !has(f, "m:newer/1"));
    CHECK_INT(counter(f, FP_COUNTER_recoded), 0);
    f->code.newer = newer;
    atomic_store(&f->code.recoded, 3);
    push_samples(f, 2);
    flush(f);
    CHECK(has(f, "m:newer/1"));
    CHECK_INT(counter(f, FP_COUNTER_recoded), 3);
    stop(f);
    CHECK_INT(f->code.resolved, 4); /* two frames, twice */
    teardown(f);
}

/* The figure of the last sample that the profiler took of itself: *delta is its change. */
static long long own_figure(struct fixture *f, const char *name, long long *delta)
{
    char key[64], *text, *last = NULL, *found;
    long long value;
    size_t size;

    text = temporary_read(f->path, &size);
    for (char *at = text; (at = strstr(at, "\nflame_prof ")) != NULL; at++)
        last = at;
    CHECK(last != NULL);
    *strchr(last + 1, '\n') = '\0';
    snprintf(key, sizeof(key), " %s=", name);
    found = strstr(last, key);
    if (found == NULL)
        RUN_FAIL("no %s in %s", name, last);
    CHECK_INT(sscanf(found + strlen(key), "%lld/%lld", &value, delta), 2);
    free(text);
    return value;
}

static void offer(struct fixture *f, int64_t value)
{
    struct fp_gauges *figures = calloc(1, sizeof(*figures));

    CHECK(figures != NULL);
    CHECK_INT(fp_gauges_add(figures, "node_processes", value), 0);
    fp_gauges_mailbox_put(&f->node, figures);
}

TEST(a_long_time_without_a_flush_tells_of_the_node)
{
    struct fixture *f = setup(60000);
    long long delta;

    push_definitions(f);
    push_samples(f, 10);
    offer(f, 70);
    pass(f, 1100);
    CHECK_INT(counter(f, FP_COUNTER_own_samples), 1);
    CHECK_INT(counter(f, FP_COUNTER_flushes), 0);
    stop(f);
    CHECK_INT(own_figure(f, "node_processes", &delta), 70);
    CHECK_INT(samples_in_file(f), 10);
    teardown(f);
}

TEST(who_follows_has_the_samples_without_a_flush)
{
    struct fixture *f = setup(0);

    push_definitions(f);
    push_samples(f, 10);
    pass(f, 1100);
    CHECK_INT(samples_in_file(f), 0);
    fp_writer_follow(f->writer);
    pass(f, 1100);
    CHECK_INT(samples_in_file(f), 10);
    CHECK_INT(counter(f, FP_COUNTER_flushes), 0);
    stop(f);
    CHECK_INT(samples_in_file(f), 10);
    teardown(f);
}

TEST(each_flush_writes_the_books_and_the_nodes_figures)
{
    struct fixture *f = setup(0);
    long long delta;

    push_definitions(f);
    push_samples(f, 10);
    offer(f, 1);
    offer(f, 70); /* instead of the one that was not taken */
    flush(f);
    CHECK_INT(own_figure(f, "written", &delta), 10);
    CHECK_INT(delta, 0); /* there is nothing before it */
    CHECK_INT(own_figure(f, "node_processes", &delta), 70);
    push_samples(f, 5);
    offer(f, 65);
    flush(f);
    CHECK_INT(own_figure(f, "written", &delta), 15);
    CHECK_INT(delta, 5);
    CHECK_INT(own_figure(f, "node_processes", &delta), 65);
    CHECK_INT(delta, -5);
    CHECK_INT(own_figure(f, "own_samples", &delta), 1);
    flush(f);
    CHECK_INT(own_figure(f, "node_processes", &delta), 65); /* no news */
    CHECK_INT(delta, 0);
    stop(f);
    CHECK_INT(samples_in_file(f), 15);
    CHECK_INT(grammar_own, 4);
    CHECK_INT(counter(f, FP_COUNTER_own_samples), 4);
    teardown(f);
}

/* ---- holding ---------------------------------------------------------- */

/* The one file that a holding writer has begun. */
static void find_file(struct fixture *f)
{
    struct logs logs = logs_list(f->directory.path);

    CHECK_INT(logs.n, 1);
    snprintf(f->path, sizeof(f->path), "%s/%s", f->directory.path, logs.name[0]);
}

TEST(what_a_writer_holds_is_written_when_committed)
{
    struct fixture *f = setup_holding(20, 60000);

    CHECK_TEXT(f->path, "");
    push_definitions(f);
    push_samples(f, 30);
    flush(f);
    CHECK_INT(f->notes.flush_err, 0);
    CHECK_INT(counter(f, FP_COUNTER_written), 0);
    CHECK_INT(logs_list(f->directory.path).n, 0);
    CHECK_INT(fp_writer_trigger(f->writer, "run_queue=9 (of 5)"), 0);
    CHECK_INT(fp_writer_trigger(f->writer, "too late"), FP_ESTATE);
    push_samples(f, 12);
    flush(f);
    find_file(f);
    CHECK_INT(samples_in_file(f), 42);
    CHECK(has(f, "flame_prof engine=native format=3 node=a%3Ab@host otp=25"
                 " options=top=100,sync=close trigger=run_queue=9%20%28of%205%29 "
                 "cpu-clock:\n"));
    CHECK(!has(f, "too%20late"));
    stop(f);
    CHECK_INT(samples_in_file(f), 42);
    CHECK_INT(counter(f, FP_COUNTER_written), 42);
    CHECK_INT(counter(f, FP_COUNTER_evicted), 0);
    teardown(f);
}

TEST(what_nobody_commits_is_forgotten_and_counted)
{
    struct fixture *f = setup_holding(0, 60000);

    push_definitions(f);
    push_samples(f, 1000);
    end(f);
    CHECK_INT(f->notes.stop_err, 0);
    CHECK_INT(counter(f, FP_COUNTER_evicted), 1000);
    CHECK_INT(counter(f, FP_COUNTER_written), 0);
    CHECK_INT(counter(f, FP_COUNTER_bytes), 0);
    CHECK_INT(logs_list(f->directory.path).n, 0);
    teardown(f);
}

TEST(what_was_kept_back_to_be_merged_is_counted_too)
{
    struct fixture *f = setup_merging(0, 60000, 1);

    push_definitions(f);
    push_samples(f, 1);
    for (int i = 0; i < 99; i++) {
        union record_buffer b;

        f->time_us += 100;
        push(f, make_repeat(&b, 0, 0, f->time_us));
    }
    fp_writer_stop(f->writer);
    CHECK_INT(fp_writer_trigger(f->writer, "too late"), FP_ESTATE);
    end(f);
    CHECK_INT(counter(f, FP_COUNTER_evicted), 100);
    teardown(f);
}

TEST(a_writer_that_does_not_hold_can_not_be_committed)
{
    struct fixture *f = setup(0);

    CHECK_INT(fp_writer_trigger(f->writer, "why"), FP_ESTATE);
    stop(f);
    CHECK(!has(f, "trigger="));
    teardown(f);
}

static void *committer(void *arg)
{
    struct fixture *f = arg;

    return fp_writer_trigger(f->writer, "one of several") == 0 ? f : NULL;
}

TEST(of_all_that_commit_one_is_the_first)
{
    struct fixture *f = setup_threaded(0, 60000);
    pthread_t thread[4];
    int firsts = 0;
    void *is_first;

    push_definitions(f);
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, committer, f), 0);
    push_samples(f, 5000);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &is_first);
        firsts += is_first != NULL;
    }
    CHECK_INT(firsts, 1);
    wait_for_ticket(&f->notes, fp_writer_flush(f->writer));
    find_file(f);
    stop(f);
    CHECK_INT(samples_in_file(f), 5000);
    CHECK_INT(counter(f, FP_COUNTER_written), 5000);
    teardown(f);
}

TEST(any_figures_are_written)
{
    struct fixture *f = setup(0);
    long long delta;

    for (int i = 0; i < 2; i++) {
        offer(f, i == 0 ? INT64_MAX : INT64_MIN);
        flush(f);
    }
    CHECK(own_figure(f, "node_processes", &delta) == INT64_MIN);
    CHECK_INT(delta, 1);
    stop(f);
    teardown(f);
}

TEST(figures_have_names_and_a_limit)
{
    static struct fp_gauges figures;

    CHECK_INT(fp_gauges_add(&figures, "", 1), FP_EINVAL);
    CHECK_INT(fp_gauges_add(&figures, "a b", 1), FP_EINVAL);
    CHECK_INT(fp_gauges_add(&figures, "A", 1), FP_EINVAL);
    CHECK_INT(fp_gauges_add(&figures, "a=1/2", 1), FP_EINVAL);
    CHECK_INT(fp_gauges_add(&figures, "forty_letters_are_too_many_for_one_figure", 1), FP_EINVAL);
    for (unsigned i = 0; i < FP_GAUGES_MAX; i++)
        CHECK_INT(fp_gauges_add(&figures, "a", INT64_MIN), 0);
    CHECK_INT(fp_gauges_add(&figures, "a", 1), FP_EFULL);
}

TEST(nonsense_in_the_ring_is_lost_and_counted)
{
    struct fixture *f = setup(0);
    union record_buffer b;

    push(f, make_sample(&b, 0, 0, 1, 0, 0)); /* nothing is defined */
    push_definitions(f);
    make_sample(&b, 0, 0, 1, 0, 0);
    b.head.size = 8; /* what it says of itself */
    b.head.type = 99;
    push(f, &b.head);
    push(f, make_sample(&b, 9, 0, 1, 0, 0));
    push_samples(f, 2);
    f->pushed--; /* the record of type 99 is no sample */
    stop(f);
    CHECK_INT(counter(f, FP_COUNTER_written), 2);
    CHECK_INT(counter(f, FP_COUNTER_lost), 2);
    CHECK_INT(counter(f, FP_COUNTER_written) + counter(f, FP_COUNTER_lost), f->pushed);
    CHECK_INT(samples_in_file(f), 2);
    teardown(f);
}

/* A producer at full speed, two threads that ask for flushes, then the end. */

static void *ask_for_flushes(void *arg)
{
    struct fixture *f = arg;
    uint64_t last = 0;

    for (int i = 0; i < 100; i++) {
        uint64_t ticket = fp_writer_flush(f->writer);

        CHECK(ticket > last);
        last = ticket;
        if (i % 4 == 0)
            wait_for_ticket(&f->notes, ticket);
    }
    return NULL;
}

static void *push_many(void *arg)
{
    push_samples(arg, 50000);
    return NULL;
}

TEST(tickets_are_answered_in_order_under_load)
{
    struct fixture *f = setup_threaded(5, 0);
    pthread_t producer, a, b;

    push_definitions(f);
    CHECK_INT(pthread_create(&producer, NULL, push_many, f), 0);
    CHECK_INT(pthread_create(&a, NULL, ask_for_flushes, f), 0);
    CHECK_INT(pthread_create(&b, NULL, ask_for_flushes, f), 0);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(producer, NULL);
    stop(f);
    CHECK_INT(f->notes.flushes, 200);
    CHECK_INT(samples_in_file(f), f->pushed);
    CHECK_INT(counter(f, FP_COUNTER_written) + counter(f, FP_COUNTER_lost), f->pushed);
    teardown(f);
}

/* Every ticket that was handed out is answered, even when the stop comes at the same moment; none
 * is handed out that would not be. */
static _Atomic uint64_t handed_out;

static void *ask_until_refused(void *arg)
{
    struct fixture *f = arg;
    uint64_t ticket;

    while ((ticket = fp_writer_flush(f->writer)) != 0)
        atomic_store(&handed_out, ticket);
    return NULL;
}

TEST(a_stop_amid_flushes_leaves_no_ticket_open)
{
    for (int round = 0; round < 20; round++) {
        struct fixture *f = setup_threaded(1, 0);
        pthread_t asker;

        atomic_store(&handed_out, 0);
        CHECK_INT(pthread_create(&asker, NULL, ask_until_refused, f), 0);
        while (atomic_load(&handed_out) < 1 + (uint64_t)round % 3)
            sched_yield();
        fp_writer_stop(f->writer);
        fp_writer_stop(f->writer);
        wait_for_stop(&f->notes);
        pthread_join(asker, NULL);
        CHECK_INT(fp_writer_flush(f->writer), 0);
        fp_writer_join(f->writer);
        CHECK_INT(f->notes.last_ticket, atomic_load(&handed_out));
        teardown(f);
    }
}

/* ---- broken ----------------------------------------------------------- */

/* One event, by which the session stops the producer; then the stop has the place. */
TEST(a_broken_invariant_is_counted_and_ends_with_its_place)
{
    struct fixture *f = setup(0);
    struct fp_record *record;

    push_definitions(f);
    push_samples(f, 10);
    pass(f, 100);
    record = fp_ring_reserve(f->ring, 16);
    *record = (struct fp_record){.size = 24, .type = FP_RECORD_SAMPLE};
    fp_ring_commit(f->ring);
    push_samples(f, 3);
    CHECK_BROKEN("session/writer.c", pass(f, 300));
    CHECK_INT(f->notes.broken, 1);
    CHECK_INT(counter(f, FP_COUNTER_broken_invariants), 1);
    stop(f);
    CHECK_INT(f->notes.stop_err, FP_EBROKEN);
    CHECK(strncmp(f->notes.stop_why, "a broken invariant: session/writer.c:", 37) == 0);
    CHECK_INT(samples_in_file(f), 13);
    teardown(f);
}
