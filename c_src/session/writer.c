/*
 * writer.c - the writer thread: a libuv loop that takes records out of the
 * ring every few milliseconds and puts text into the file.
 *
 *      drain timer ---> drain
 *      flush timer ---> drain, flush
 *      wake (async) --> drain, flush, answer tickets;  or finish
 *
 * All that other threads ever write is one word, `requests`:
 *
 *      bit 63        stop was asked for
 *      bit 62        what is held is to be written
 *      bits 0..61    flush tickets handed out
 *
 * One word, so that the order between a flush and a stop is never in doubt: a
 * ticket is handed out only while the stop bit is clear, and the writer, when
 * it sees the bit, sees each ticket that there will ever be.
 *
 * The loop belongs to this thread while it runs. It is closed by the thread
 * that joins, because until then anybody may still send the async.
 */
#include "session/writer.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/clock.h"
#include "base/error.h"
#include "session/self_metrics.h"

#define DRAIN_MS 50
/* When the ring was found more than a quarter full. */
#define DRAIN_BUSY_MS 20

/* How often what is held is looked through. */
#define SWEEP_MS 1000

#define WHY_ROOM 4600

#define STOP_BIT (UINT64_C(1) << 63)
#define COMMIT_BIT (UINT64_C(1) << 62)

struct fp_writer {
    struct fp_writer_options options;
    struct fp_perf_script *script;
    struct fp_self_metrics self;
    uv_loop_t loop;
    uv_timer_t drain_timer;
    uv_timer_t flush_timer;
    uv_async_t wake;
    pthread_t thread;
    uint64_t swept_ms; /* when what nobody adds to was last written */
    uint64_t answered; /* the last ticket that was */
    _Atomic uint64_t requests;
    /* 1: nothing is held, or somebody has asked to write it. Who has set it
     * writes the note, and hands it over by COMMIT_BIT. */
    _Atomic int is_committed;
    char note[FP_NOTE_ROOM];
};

/* ---- draining --------------------------------------------------------- */

/* Text of so many samples is either written or lost; or held, and counted when
 * that is decided. */
static void write_text(struct fp_writer *writer, const char *text, size_t size,
                       uint64_t looks)
{
    struct fp_counters *stats = writer->options.stats;

    if (size == 0)
        return;
    if (fp_sink_write(writer->options.sink, text, size, looks) != 0) {
        fp_counters_add(stats, FP_COUNTER_lost, looks);
        return;
    }
    if (fp_sink_is_holding(writer->options.sink))
        return;
    fp_counters_add(stats, FP_COUNTER_written, looks);
    fp_counters_add(stats, FP_COUNTER_bytes, size);
}

/* The samples that were kept back to be merged with others. */
static void write_held(struct fp_writer *writer, enum fp_held which)
{
    const char *text;
    size_t size;

    while (fp_perf_script_held(writer->script, which, &text, &size) == 0 &&
           size > 0)
        write_text(writer, text, size, fp_perf_script_weight(writer->script));
}

static void revalidate(struct fp_writer *writer)
{
    const struct fp_symbolizer *symbolizer = writer->options.script.symbolizer;
    int recoded;

    if (symbolizer == NULL || symbolizer->revalidate == NULL)
        return;
    recoded = symbolizer->revalidate(symbolizer->self);
    if (recoded > 0) {
        write_held(writer, FP_HELD_ALL);
        fp_perf_script_recode(writer->script);
        fp_counters_add(writer->options.stats, FP_COUNTER_recoded,
                        (uint64_t)recoded);
    }
}

static bool is_sample(const struct fp_record *record)
{
    return record->type == FP_RECORD_SAMPLE || record->type == FP_RECORD_REPEAT;
}

/* Each SAMPLE and REPEAT that comes in here is written, held or lost. */
static void write_record(struct fp_writer *writer,
                         const struct fp_record *record, size_t span)
{
    const char *text = NULL;
    size_t size = 0;
    int err = FP_EINVAL;

    if (span < sizeof(*record))
        return;
    if (record->size <= span)
        err = fp_perf_script_record(writer->script, record, &text, &size);
    write_text(writer, text, size, fp_perf_script_weight(writer->script));
    if (err != 0 && is_sample(record))
        fp_counters_add(writer->options.stats, FP_COUNTER_lost, 1);
}

static void note_books(struct fp_writer *writer,
                       const struct fp_sink_figures *figures)
{
    struct fp_counters *stats = writer->options.stats;

    fp_counters_set(stats, FP_COUNTER_expired, figures->expired);
    fp_counters_set(stats, FP_COUNTER_errors, figures->errors);
    fp_counters_set(stats, FP_COUNTER_file_bytes, figures->bytes);
    fp_counters_set(stats, FP_COUNTER_files_begun, figures->files);
    fp_counters_set(stats, FP_COUNTER_files_removed, figures->removed);
    fp_counters_set(stats, FP_COUNTER_files_recovered, figures->recovered);
    fp_counters_set(stats, FP_COUNTER_file_cpu_ns, figures->file_ns);
    fp_counters_set(stats, FP_COUNTER_compress_cpu_ns, figures->compress_ns);
    fp_counters_set(stats, FP_COUNTER_writer_cpu_ns, fp_thread_cpu_ns());
}

static void note_sink(struct fp_writer *writer)
{
    struct fp_sink_figures figures = fp_sink_figures(writer->options.sink);

    note_books(writer, &figures);
}

/* What is in the ring now, not what comes meanwhile: a fast producer must not
 * keep us from the timers and the tickets. How many bytes that was. */
static size_t drain(struct fp_writer *writer)
{
    struct fp_ring *ring = writer->options.ring;
    size_t used = fp_ring_used(ring);
    size_t done = 0;
    const void *record;
    size_t span;

    revalidate(writer);
    while (done < used && (record = fp_ring_peek(ring, &span)) != NULL) {
        write_record(writer, record, span);
        fp_ring_release(ring);
        done += span;
    }
    if (fp_monotonic_ms() - writer->swept_ms >= SWEEP_MS) {
        writer->swept_ms = fp_monotonic_ms();
        write_held(writer, FP_HELD_LEFT);
    }
    note_sink(writer);
    return used;
}

static int64_t now_us(const struct fp_writer *writer)
{
    return (int64_t)(fp_clock_ns(CLOCK_MONOTONIC) / 1000u) +
           atomic_load_explicit(writer->options.wall_offset_us,
                                memory_order_relaxed);
}

/* What a file has to tell of how it came about. On a full disk it is left out
 * like any other sample. */
static void write_own_sample(struct fp_writer *writer)
{
    struct fp_self_metrics *self = &writer->self;
    struct fp_self_sample sample = {
        .engine = writer->options.engine,
        .now = {&self->own, &self->told},
        .before = {&self->own_before, &self->told_before},
        .now_us = now_us(writer),
        .note = writer->note,
    };
    const char *text;
    size_t size;

    if (!fp_perf_script_has_time(writer->script))
        return;
    fp_self_metrics_metrics_update(self);
    if (fp_perf_script_self(writer->script, &sample, &text, &size) != 0 ||
        fp_sink_write(writer->options.sink, text, size, 0) != 0)
        return;
    fp_counters_add(writer->options.stats, FP_COUNTER_own_samples, 1);
    fp_counters_add(writer->options.stats, FP_COUNTER_bytes, size);
}

static int flush(struct fp_writer *writer, bool is_asked)
{
    int err;

    if (fp_sink_is_holding(writer->options.sink))
        return 0;
    write_held(writer, FP_HELD_ALL);
    write_own_sample(writer);
    err = fp_sink_flush(writer->options.sink, is_asked);
    if (err == 0)
        fp_counters_add(writer->options.stats, FP_COUNTER_flushes, 1);
    note_sink(writer);
    return err;
}

/* From now on it is a session like any other; its own sample, with the note, stands
 * between what came before and what comes. */
static void commit(struct fp_writer *writer)
{
    uint64_t text, looks;

    drain(writer);
    write_held(writer, FP_HELD_ALL);
    fp_sink_commit(writer->options.sink, &text, &looks);
    fp_counters_add(writer->options.stats, FP_COUNTER_written, looks);
    fp_counters_add(writer->options.stats, FP_COUNTER_bytes, text);
    flush(writer, true);
}

/* ---- what the loop calls ---------------------------------------------- */

static void on_drain_timer(uv_timer_t *timer)
{
    struct fp_writer *writer = timer->data;
    size_t used;
    bool is_busy;

    used = drain(writer);
    fp_sink_tend(writer->options.sink);
    is_busy = used > fp_ring_capacity(writer->options.ring) / 4;

    uv_timer_start(timer, on_drain_timer, is_busy ? DRAIN_BUSY_MS : DRAIN_MS,
                   0);
}

static void on_flush_timer(uv_timer_t *timer)
{
    struct fp_writer *writer = timer->data;

    drain(writer);
    flush(writer, false);
}

static void answer(struct fp_writer *writer, uint64_t last_ticket, int err)
{
    while (writer->answered < last_ticket) {
        writer->answered++;
        writer->options.notify(
            writer->options.arg, FP_WRITER_FLUSHED, writer->answered, err,
            err == 0 ? "" : fp_sink_error(writer->options.sink));
    }
}

/* What was taken and no file took was not written after all. */
static int close_file(struct fp_writer *writer)
{
    struct fp_counters *stats = writer->options.stats;
    struct fp_sink_end end;
    int err = fp_sink_close(writer->options.sink, &end);

    writer->options.sink = NULL;
    fp_counters_add(stats, FP_COUNTER_lost, end.lost_looks);
    fp_counters_add(stats, FP_COUNTER_written, 0 - end.lost_looks);
    fp_counters_add(stats, FP_COUNTER_bytes, 0 - end.lost_text);
    note_books(writer, &end.figures);
    return err;
}

/* The ring is emptied for good, the file closed, the loop left. */
static void finish(struct fp_writer *writer, uint64_t last_ticket)
{
    char why[WHY_ROOM];
    int err;

    uv_timer_stop(&writer->drain_timer);
    uv_timer_stop(&writer->flush_timer);
    while (drain(writer) > 0)
        ;
    /* Also where the flush does nothing, because all is only held. */
    write_held(writer, FP_HELD_ALL);
    answer(writer, last_ticket, flush(writer, true));
    snprintf(why, sizeof(why), "%s", fp_sink_error(writer->options.sink));
    err = close_file(writer); /* tries once more what the flush could not */
    fp_perf_script_destroy(writer->script);
    writer->script = NULL;
    uv_stop(&writer->loop);
    writer->options.notify(writer->options.arg, FP_WRITER_STOPPED, 0, err,
                           err == 0 ? "" : why);
}

static void on_wake(uv_async_t *wake)
{
    struct fp_writer *writer = wake->data;
    /* acquire: partners are the releases in fp_writer_flush() and
     * fp_writer_stop(). What the caller had pushed (or had seen pushed)
     * before it asked is in the ring for the drain that follows. */
    uint64_t requests =
        atomic_load_explicit(&writer->requests, memory_order_acquire);
    uint64_t last_ticket = requests & ~(STOP_BIT | COMMIT_BIT);

    if (writer->script == NULL)
        return; /* woken once more after finish() */
    if ((requests & COMMIT_BIT) != 0 &&
        fp_sink_is_holding(writer->options.sink))
        commit(writer);
    if ((requests & STOP_BIT) != 0) {
        finish(writer, last_ticket);
    } else if (writer->answered < last_ticket) {
        drain(writer);
        answer(writer, last_ticket, flush(writer, true));
    }
}

static void *run(void *arg)
{
    struct fp_writer *writer = arg;

    pthread_setname_np(pthread_self(), "flame_prof_wr");
    uv_run(&writer->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* ---- start, ask, join ------------------------------------------------- */

/* The VM's signals are the VM's: none may be delivered to our thread. */
int fp_writer_start(struct fp_writer *writer)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&writer->thread, NULL, run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err == 0 ? 0 : FP_ETHREAD;
}

/* Give back all that the loop holds. Only when nobody runs it or sends. */
static void close_loop(struct fp_writer *writer)
{
    int err;

    uv_close((uv_handle_t *)&writer->drain_timer, NULL);
    uv_close((uv_handle_t *)&writer->flush_timer, NULL);
    uv_close((uv_handle_t *)&writer->wake, NULL);
    uv_run(&writer->loop, UV_RUN_DEFAULT);
    err = uv_loop_close(&writer->loop);
    assert(err == 0);
    (void)err;
}

static int open_loop(struct fp_writer *writer)
{
    uint32_t flush_ms = writer->options.flush_interval_ms;

    if (uv_loop_init(&writer->loop) != 0)
        return FP_ENOMEM;
    if (uv_async_init(&writer->loop, &writer->wake, on_wake) != 0) {
        uv_loop_close(&writer->loop);
        return FP_ENOMEM;
    }
    /* Timers can not fail. */
    uv_timer_init(&writer->loop, &writer->drain_timer);
    uv_timer_init(&writer->loop, &writer->flush_timer);
    writer->wake.data = writer;
    writer->drain_timer.data = writer;
    writer->flush_timer.data = writer;
    uv_timer_start(&writer->drain_timer, on_drain_timer, DRAIN_MS, 0);
    if (flush_ms > 0)
        uv_timer_start(&writer->flush_timer, on_flush_timer, flush_ms,
                       flush_ms);
    return 0;
}

static void set_note(struct fp_writer *writer, const char *note)
{
    snprintf(writer->note, sizeof(writer->note), "%s", note);
}

int fp_writer_create(struct fp_writer **writer,
                     const struct fp_writer_options *options)
{
    struct fp_writer *made = calloc(1, sizeof(*made));
    int err;

    if (made == NULL)
        return FP_ENOMEM;
    made->options = *options;
    atomic_init(&made->requests, 0);
    atomic_init(&made->is_committed, !fp_sink_is_holding(options->sink));
    set_note(made, options->note);
    fp_self_metrics_init(&made->self, options->stats, options->node);
    err = fp_perf_script_create(&made->script, &options->script);
    if (err != 0)
        goto fail_writer;
    err = open_loop(made);
    if (err != 0)
        goto fail_script;
    *writer = made;
    return 0;

fail_script:
    fp_perf_script_destroy(made->script);
fail_writer:
    free(made);
    return err;
}

void fp_writer_destroy(struct fp_writer *writer)
{
    close_loop(writer);
    fp_perf_script_destroy(writer->script);
    free(writer);
}

uint64_t fp_writer_flush(struct fp_writer *writer)
{
    /* relaxed: only a guess, which the exchange below checks. */
    uint64_t seen =
        atomic_load_explicit(&writer->requests, memory_order_relaxed);

    do {
        if ((seen & STOP_BIT) != 0)
            return 0;
        /* release: partner is the acquire in on_wake(). */
    } while (!atomic_compare_exchange_weak_explicit(
        &writer->requests, &seen, seen + 1, memory_order_release,
        memory_order_relaxed));
    uv_async_send(&writer->wake);
    return (seen & ~COMMIT_BIT) + 1;
}

int fp_writer_commit(struct fp_writer *writer, const char *note)
{
    uint64_t seen;

    /* acq_rel: of all that come, one is the first. */
    if (atomic_exchange_explicit(&writer->is_committed, 1,
                                 memory_order_acq_rel))
        return FP_ESTATE;
    set_note(writer, note);
    seen = atomic_load_explicit(&writer->requests, memory_order_relaxed);
    do {
        if ((seen & STOP_BIT) != 0)
            return FP_ESTATE;
        /* release: partner is the acquire in on_wake(). */
    } while (!atomic_compare_exchange_weak_explicit(
        &writer->requests, &seen, seen | COMMIT_BIT, memory_order_release,
        memory_order_relaxed));
    uv_async_send(&writer->wake);
    return 0;
}

void fp_writer_stop(struct fp_writer *writer)
{
    /* release: partner is the acquire in on_wake(). */
    atomic_fetch_or_explicit(&writer->requests, STOP_BIT, memory_order_release);
    uv_async_send(&writer->wake);
}

void fp_writer_join(struct fp_writer *writer)
{
    pthread_join(writer->thread, NULL);
    fp_writer_destroy(writer);
}
