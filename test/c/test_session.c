/* test_session.c - a session that cannot start: nothing of it is left, and its error has the
 * reason. The start of its threads fails on request, all else is real. */
#include "base/error.h"
#include "session/sampler.h"
#include "session/writer.h"

static int sampler_err, writer_err;

static int start_sampler_thread(struct fp_sampler *sampler)
{
    return sampler_err != 0 ? sampler_err : fp_sampler_start(sampler);
}

static int start_writer_thread(struct fp_writer *writer)
{
    return writer_err != 0 ? writer_err : fp_writer_start(writer);
}

#define fp_sampler_start start_sampler_thread
#define fp_writer_start start_writer_thread
#include "session/session.c"

#include "erts/capture/sigcapture.h"

#include <dirent.h>
#include <sys/mman.h>

#include "broken.h"
#include "logs.h"
#include "temporary.h"
#include "test.h"

struct fixture {
    struct temporary directory;
    struct fp_session_options options;
    _Atomic int stopped, told; /* what was told: STOPPED, and all */
    int stop_err;              /* of STOPPED, with its text */
    char text[256];
};

static void notify(void *arg, enum fp_session_event event, uint64_t ticket, int err,
                   const char *text)
{
    struct fixture *f = arg;

    (void)ticket;
    if (event == FP_SESSION_STOPPED) {
        f->stop_err = err;
        snprintf(f->text, sizeof f->text, "%s", text);
    }
    atomic_fetch_add(&f->told, 1);
    atomic_fetch_add(&f->stopped, event == FP_SESSION_STOPPED);
}

/* Without any a VM has no JIT. */
static void map_code(void)
{
    static int fd = -1;

    if (fd >= 0)
        return;
    fd = memfd_create("vmem", MFD_CLOEXEC);
    CHECK_INT(ftruncate(fd, 1 << 16), 0);
    CHECK(mmap(NULL, 1u << 16, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) != MAP_FAILED);
}

static struct fixture *create(unsigned is_native)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct fp_layout layout = {.process_limit = 1024};

    CHECK(f != NULL);
    map_code();
    temporary_make(&f->directory);
    layout.release = *fp_release_find(25);
    layout.snapshot_size = layout.release.process_size;
    f->options = (struct fp_session_options){
        .is_native = (int)is_native,
        .sampler = {.layout = layout,
                    .status = -1,
                    .select_interval_ms = 1000,
                    .interval_us = 1000},
        .writer = {.note = ""},
        .files = {.directory = f->directory.path, .max_files = 1},
        .notify = notify,
        .arg = f,
        .owner = f,
    };
    return f;
}

static void destroy(struct fixture *f)
{
    temporary_remove(&f->directory);
    free(f);
}

static int files(const struct fixture *f)
{
    DIR *directory = opendir(f->directory.path);
    const struct dirent *entry;
    int n = 0;

    CHECK(directory != NULL);
    while ((entry = readdir(directory)) != NULL)
        n += entry->d_name[0] != '.';
    closedir(directory);
    return n;
}

static void does_not_start(struct fixture *f, int err, const char *says)
{
    struct fp_session *session = NULL;
    char why[512] = "";

    CHECK_INT(fp_session_start(&session, &f->options, why, sizeof why), err);
    CHECK_TEXT(why, says);
    CHECK(session == NULL);
    CHECK_INT(atomic_load(&f->told), 0);
    CHECK_INT(files(f), 0);
}

static void starts(struct fixture *f)
{
    struct fp_session *session;
    char why[512];

    CHECK_INT(fp_session_start(&session, &f->options, why, sizeof why), 0);
    fp_session_close(session);
    CHECK_INT(atomic_load(&f->stopped), 1);
    CHECK_INT(files(f), 1);
}

/* ---- tests ------------------------------------------------------------ */

TEST_WITH_EACH(a_session_starts_and_ends, create, 0, 1)
{
    starts(f);
}

TEST_WITH(what_the_sampler_refuses_leaves_no_file, create(1))
{
    f->options.sampler.mode = FP_MODE_SCHEDULERS; /* without running_stacks */
    does_not_start(f, FP_EINVAL, fp_err_text(FP_EINVAL));
}

TEST_WITH(while_the_schedulers_retire_that_is_what_it_says, create(1))
{
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    f->options.sampler.running_stacks = 1;
    does_not_start(f, FP_ESTATE, "the schedulers are being retired");
    f->options.sampler.running_stacks = 0;
    starts(f);
    CHECK_INT(fp_sigcapture_shutdown_end(1), 0);
}

TEST_WITH(a_sampler_without_a_thread_leaves_nothing, create(1))
{
    sampler_err = FP_ETHREAD;
    does_not_start(f, FP_ETHREAD, fp_err_text(FP_ETHREAD));
    sampler_err = 0;
    starts(f);
}

TEST_WITH_EACH(a_writer_without_a_thread_leaves_nothing, create, 0, 1)
{
    writer_err = FP_ETHREAD;
    does_not_start(f, FP_ETHREAD, fp_err_text(FP_ETHREAD));
    writer_err = 0;
    starts(f);
}

static int has(const char *text, size_t size, const char *what)
{
    return memmem(text, size, what, strlen(what)) != NULL;
}

/* What is put is in a file of allocations when the session has ended. The process cannot be read:
 * it has no names. */
TEST_WITH(words_that_are_put_are_in_a_file_of_their_own, create(0))
{
    const uint64_t frame[] = {FP_FRAME_UNREADABLE};
    struct fp_weight weight = {.pid = 0x123,
                               .end_ns = fp_monotonic_ns(),
                               .words = 1000,
                               .window = 4,
                               .survived = 1,
                               .count = 1,
                               .frame = frame};
    unsigned char bytes[sizeof weight + sizeof frame];
    struct fp_weight_encoder *encoder;
    struct fp_session *session;
    struct fp_log_name name;
    char why[512], *text;
    struct logs logs;
    size_t size, taken;

    f->options.is_weighted = 1;
    CHECK_INT(fp_session_start(&session, &f->options, why, sizeof why), 0);
    CHECK(fp_session_enter(session) == NULL);
    encoder = fp_session_enter_weights(session);
    fp_weight_write(&weight, bytes);
    CHECK_INT(fp_weight_encoder_put_bytes(encoder, bytes, sizeof bytes, &taken), 0);
    CHECK_INT(taken, sizeof bytes);
    /* Bytes that are cut off, and a word that is no pid, are refused. */
    for (size = 1; size < sizeof bytes; size++)
        CHECK_INT(fp_weight_encoder_put_bytes(encoder, bytes, size, &taken), FP_EINVAL);
    weight.pid = 0x0b;
    fp_weight_write(&weight, bytes);
    CHECK_INT(fp_weight_encoder_put_bytes(encoder, bytes, sizeof bytes, &taken), FP_EINVAL);
    weight.pid = 0x123;
    weight.count = FP_STACK_FRAMES_MAX + 1;
    memcpy(bytes, &weight, sizeof weight);
    CHECK_INT(fp_weight_encoder_put_bytes(encoder, bytes, sizeof bytes, &taken), FP_EINVAL);
    CHECK(fp_session_enter_weights(session) == NULL); /* one at a time */
    fp_session_leave(session);
    fp_session_close(session);
    CHECK_INT(atomic_load(&f->stopped), 1);
    logs = logs_list(f->directory.path);
    CHECK_INT(logs.n, 1);
    CHECK(fp_log_name_parse(&name, logs.name[0]));
    CHECK(name.kind == FP_LOG_ALLOCATIONS && !name.is_part);
    text = logs_read_all(f->directory.path, &size);
    CHECK(has(text, size, ": 250 alloc-words:\n# words=250/250 erl_pid=<0."));
    CHECK(has(text, size, ": 750 alloc-words:\n# words=750/750 erl_pid=<0."));
    free(text);
}

static void wait_until_stopped(const struct fixture *f)
{
    while (!atomic_load(&f->stopped))
        fp_sleep(1000000);
}

/* By the thread of the sampler, or without one by the writer. */
TEST_WITH_EACH(a_broken_invariant_ends_the_session_with_its_place, create, 0, 1)
{
    struct fp_session *session;
    char why[512];

    CHECK_INT(fp_session_start(&session, &f->options, why, sizeof why), 0);
    CHECK_BROKEN("session/series.c", {
        (void)fp_check_broken("c_src/session/series.c", 41, "stack < FP_STACK_SLOTS");
        wait_until_stopped(f);
    });
    CHECK_INT(f->stop_err, FP_EBROKEN);
    CHECK_TEXT(f->text, "a broken invariant: session/series.c:41: stack < FP_STACK_SLOTS");
    CHECK_INT(fp_counters_get(fp_session_counters(session), FP_COUNTER_broken_invariants), 1);
    fp_session_close(session);
    /* It is not that of the next session. */
    atomic_store(&f->stopped, 0);
    f->options.files.max_files = 2;
    CHECK_INT(fp_session_start(&session, &f->options, why, sizeof why), 0);
    fp_session_close(session);
    CHECK_INT(f->stop_err, 0);
}
