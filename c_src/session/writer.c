/* writer.c - the writer thread: drains the ring every few milliseconds, and flushes the file.
 *
 *      drain_at_ms -> drain
 *      flush_at_ms -> drain, flush
 *      requests ----> drain, flush, notify of tickets;  or finish
 *
 * Other threads write `followed_until_ms`, which nothing depends on, and one word, `requests`:
 *
 *      bit 63        stop
 *      bit 62        write what is buffered
 *      bits 0..61    flush tickets issued
 *
 * One word gives flushes and the stop one order: a ticket is issued only while the stop bit is
 * clear, so the writer that sees the bit sees every ticket.
 *
 * The thread waits on a condition of libuv's, and not in a loop of libuv's: a loop holds six file
 * descriptors of the host, seven from libuv 1.45 on, and writes to files are synchronous anyway. */
#include "session/writer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/gauges.h"

#define DRAIN_MS 50
/* When the ring was found more than a quarter full. */
#define DRAIN_BUSY_MS 20

/* Between two sweeps of merged samples that are left, and readings of the clock. */
#define SWEEP_MS 1000
/* A step of the system's clock that begins another file; smaller ones wait for the next file, and
 * less than a millisecond is no step. */
#define STEP_US 1000000
#define NO_STEP_US 1000

/* Beside those of the flushes, so that a profile of ten seconds shows how the node fared. The first
 * one comes soon: what the node was like before is known of nothing else. At most so far apart,
 * if the options do not say it. */
#define NODE_INTERVAL_MS 5000
#define TELL_FIRST_MS 1000

/* How often samples reach the file while a reader follows it, and how long after it said so. */
#define PUBLISH_MS 1000
#define FOLLOWED_MS 10000

#define STOP_BIT (UINT64_C(1) << 63)
#define TRIGGER_BIT (UINT64_C(1) << 62)

_Static_assert(FP_COUNTER_COUNT + 2 <= FP_GAUGES_MAX, "own: the counters and two more");

struct fp_writer {
    struct fp_writer_options options;
    struct fp_perf_script *script;
    /* The gauges in the own sample of this flush, and of the one before. */
    struct fp_gauges own, own_before, node, node_before;
    int64_t rate_ns; /* time of the last rate, and the ticks until then */
    uint64_t rate_ticks;
    uv_mutex_t lock; /* for `wake` only: protects nothing */
    uv_cond_t wake;
    pthread_t thread;
    int64_t drain_at_ms, flush_at_ms;
    int64_t drained_ns;           /* what came since then may be in the ring */
    int64_t begun_ms, tell_at_ms; /* of the next own sample between flushes */
    int64_t published_ms;         /* or flushed */
    _Atomic int64_t followed_until_ms;
    int64_t swept_ms;  /* of the last sweep */
    uint64_t handled;  /* `requests` at the last step */
    uint64_t notified; /* the last ticket */
    uint64_t refused;  /* texts, by the sink */
    /* Of the times in the file: Unix time less monotonic time, and what of it is the step of the
     * system's clock since the start. */
    int64_t offset_us, step_us;
    uint64_t broken_before; /* fp_check_count() at the start */
    bool is_broken;         /* and FP_WRITER_BROKEN was notified */
    _Atomic uint64_t requests;
    /* 1: the sink does not buffer, or a trigger has come. The thread that sets it writes the note,
     * and publishes it by TRIGGER_BIT. */
    _Atomic int is_triggered;
    char note[FP_NOTE_ROOM], about[FP_NOTE_ROOM];
};

/* ---- the clock -------------------------------------------------------- */

/* Each file has an offset of its own. A large step ends the file, so that its times never decrease
 * and its name is right. */
static void follow_clock(struct fp_writer *writer)
{
    const struct fp_sample_clock *clock = writer->options.clock;
    int64_t offset_us = atomic_load_explicit(&clock->offset_us, memory_order_relaxed);
    int64_t step_us = writer->options.reads_clock
                          ? fp_clock_offset_ns() / 1000 - offset_us
                          : atomic_load_explicit(&clock->step_us, memory_order_relaxed);
    int64_t least = fp_sink_begins_file(writer->options.sink) ? NO_STEP_US : STEP_US;

    if (offset_us == 0 || (writer->offset_us != 0 && llabs(step_us - writer->step_us) < least))
        return;
    offset_us += step_us;
    if (fp_sink_set_offset(writer->options.sink, offset_us * 1000) != 0)
        return; /* too many blocks wait for the disk: the next sweep tries again */
    writer->offset_us = offset_us;
    writer->step_us = step_us;
    fp_perf_script_set_step(writer->script, step_us);
}

/* Before text is rendered. */
static void prepare_text(struct fp_writer *writer)
{
    if (fp_sink_begins_file(writer->options.sink))
        follow_clock(writer);
    /* Behind text that the sink refused, a sample cannot leave out what that had. */
    fp_perf_script_set_block(writer->script, fp_sink_block(writer->options.sink) + writer->refused);
}

/* ---- draining --------------------------------------------------------- */

/* Text of `weight` samples is written or lost; what the sink buffers is counted when it is written
 * or dropped. */
static void write_text(struct fp_writer *writer, const char *text, size_t size, uint64_t weight)
{
    struct fp_counters *counters = writer->options.counters;

    if (size == 0)
        return;
    if (fp_sink_write(writer->options.sink, text, size, weight) != 0) {
        fp_counters_add(counters, FP_COUNTER_lost, weight);
        writer->refused++;
        return;
    }
    if (fp_sink_is_buffering(writer->options.sink))
        return;
    fp_counters_add(counters, FP_COUNTER_written, weight);
    fp_counters_add(counters, FP_COUNTER_bytes, size);
}

static void write_merged(struct fp_writer *writer, enum fp_merged which)
{
    const char *text;
    size_t size;

    for (;;) {
        prepare_text(writer);
        if (fp_perf_script_merged(writer->script, which, &text, &size) != 0 || size == 0)
            return;
        write_text(writer, text, size, fp_perf_script_weight(writer->script));
    }
}

static void revalidate(struct fp_writer *writer)
{
    const struct fp_symbolizer *symbolizer = writer->options.script.symbolizer;
    int recoded;

    if (symbolizer == NULL || symbolizer->revalidate == NULL)
        return;
    recoded = symbolizer->revalidate(symbolizer->self);
    if (recoded > 0) {
        write_merged(writer, FP_MERGED_ALL);
        fp_perf_script_recode(writer->script);
        fp_counters_add(writer->options.counters, FP_COUNTER_recoded, (uint64_t)recoded);
    }
}

/* Each SAMPLE, REPEAT and WEIGHTED is written, buffered, merged or lost. */
static void write_record(struct fp_writer *writer, const struct fp_record *record, size_t span)
{
    const char *text = NULL;
    size_t size = 0;
    int err;

    if (!FP_CHECK(span >= sizeof(*record) && record->size <= span))
        return;
    prepare_text(writer);
    err = fp_perf_script_record(writer->script, record, &text, &size);
    write_text(writer, text, size, fp_perf_script_weight(writer->script));
    if (err != 0 && (record->type == FP_RECORD_SAMPLE || record->type == FP_RECORD_REPEAT ||
                     record->type == FP_RECORD_WEIGHTED))
        fp_counters_add(writer->options.counters, FP_COUNTER_lost, 1);
}

static void count_sink(struct fp_writer *writer, struct fp_sink_gauges gauges)
{
    struct fp_counters *counters = writer->options.counters;

    fp_counters_set(counters, FP_COUNTER_unsaved, gauges.unsaved);
    fp_counters_set(counters, FP_COUNTER_evicted, gauges.expired);
    fp_counters_set(counters, FP_COUNTER_errors, gauges.errors);
    fp_counters_set(counters, FP_COUNTER_file_bytes, gauges.bytes);
    fp_counters_set(counters, FP_COUNTER_files_begun, gauges.files);
    fp_counters_set(counters, FP_COUNTER_files_removed, gauges.removed);
    fp_counters_set(counters, FP_COUNTER_files_recovered, gauges.recovered);
    fp_counters_set(counters, FP_COUNTER_file_cpu_ns, gauges.file_ns);
    fp_counters_set(counters, FP_COUNTER_compress_cpu_ns, gauges.compress_ns);
    fp_counters_set(counters, FP_COUNTER_writer_cpu_ns, fp_thread_cpu_ns());
}

/* Writes what is in the ring now and leaves what comes meanwhile: timers and tickets wait for no
 * fast producer. The number of bytes. */
static size_t drain(struct fp_writer *writer)
{
    struct fp_ring *ring = writer->options.ring;
    size_t used, done = 0, span;
    const void *record;

    writer->drained_ns = fp_monotonic_ns();
    used = fp_ring_used(ring);
    revalidate(writer);
    while (done < used && (record = fp_ring_peek(ring, &span)) != NULL) {
        write_record(writer, record, span);
        fp_ring_release(ring);
        done += span;
    }
    if (fp_monotonic_ms() - writer->swept_ms >= SWEEP_MS) {
        writer->swept_ms = fp_monotonic_ms();
        write_merged(writer, FP_MERGED_LEFT);
        follow_clock(writer);
    }
    count_sink(writer, fp_sink_gauges(writer->options.sink));
    return used;
}

/* Ticks in a thousand seconds, since the last own sample. */
static int64_t rate(struct fp_writer *writer)
{
    uint64_t ticks = fp_counters_get(writer->options.counters, FP_COUNTER_ticks);
    int64_t now = fp_monotonic_ns(), passed = now - writer->rate_ns;
    double done = (double)(ticks - writer->rate_ticks);

    writer->rate_ns = now;
    writer->rate_ticks = ticks;
    return passed == 0 ? 0 : (int64_t)(done * 1e12 / (double)passed);
}

static void update_gauges(struct fp_writer *writer)
{
    struct fp_gauges_mailbox *mailbox = writer->options.node;
    struct fp_gauges *latest = mailbox == NULL ? NULL : fp_gauges_mailbox_take(mailbox);

    writer->own_before = writer->own;
    writer->node_before = writer->node;
    writer->own.n = 0;
    for (enum fp_counter i = 0; i < FP_COUNTER_COUNT && !writer->options.tells_node_alone; i++)
        fp_gauges_add(&writer->own, fp_counters_name(i),
                      (int64_t)fp_counters_get(writer->options.counters, i));
    if (!writer->options.tells_node_alone)
        fp_gauges_add(&writer->own, "rate_millihertz", rate(writer));
    fp_gauges_add(&writer->own, "clock_offset_us", writer->offset_us);
    if (latest != NULL)
        writer->node = *latest;
    free(latest);
}

/* The profiler's own sample, of the time until which the ring is drained: a write may have taken
 * long since, and times of a file do not decrease. A full sink refuses it, as any other. */
static void write_own_sample(struct fp_writer *writer)
{
    struct fp_self_sample sample = {
        .engine = writer->options.engine,
        .mode = writer->options.mode,
        .now = {&writer->node, &writer->own},
        .before = {&writer->node_before, &writer->own_before},
        .now_us = writer->drained_ns / 1000 +
                  atomic_load_explicit(&writer->options.clock->offset_us, memory_order_relaxed),
        .note = writer->note,
        .about = writer->about,
    };
    const char *text;
    size_t size;

    if (!fp_perf_script_has_time(writer->script))
        return;
    prepare_text(writer);
    update_gauges(writer);
    if (fp_perf_script_self(writer->script, &sample, &text, &size) != 0 ||
        fp_sink_write(writer->options.sink, text, size, 0) != 0)
        return;
    fp_counters_add(writer->options.counters, FP_COUNTER_own_samples, 1);
    fp_counters_add(writer->options.counters, FP_COUNTER_bytes, size);
}

static int flush(struct fp_writer *writer, bool is_asked)
{
    int err;

    if (fp_sink_is_buffering(writer->options.sink))
        return 0;
    writer->published_ms = fp_monotonic_ms();
    write_merged(writer, FP_MERGED_ALL);
    write_own_sample(writer);
    err = fp_sink_flush(writer->options.sink, is_asked);
    if (err == 0)
        fp_counters_add(writer->options.counters, FP_COUNTER_flushes, 1);
    count_sink(writer, fp_sink_gauges(writer->options.sink));
    return err;
}

/* The profiler's own sample, with the note, stands between what was buffered and what comes. */
static void trigger(struct fp_writer *writer)
{
    uint64_t text, weight;

    drain(writer);
    write_merged(writer, FP_MERGED_ALL);
    fp_sink_trigger(writer->options.sink, &text, &weight);
    fp_counters_add(writer->options.counters, FP_COUNTER_written, weight);
    fp_counters_add(writer->options.counters, FP_COUNTER_bytes, text);
    flush(writer, true);
}

/* ---- the thread ------------------------------------------------------- */

static void notify_flushed(struct fp_writer *writer, uint64_t last_ticket, int err)
{
    while (writer->notified < last_ticket) {
        writer->notified++;
        writer->options.notify(writer->options.arg, FP_WRITER_FLUSHED, writer->notified, err,
                               err == 0 ? "" : fp_sink_error(writer->options.sink));
    }
}

/* Samples that are in the sink and in no file are lost, and not written. */
static int close_file(struct fp_writer *writer, struct fp_sink_end *end)
{
    struct fp_counters *counters = writer->options.counters;
    int err = fp_sink_close(writer->options.sink, end);

    writer->options.sink = NULL;
    fp_counters_add(counters, FP_COUNTER_lost, end->lost_weight);
    fp_counters_add(counters, FP_COUNTER_written, 0 - end->lost_weight);
    fp_counters_add(counters, FP_COUNTER_bytes, 0 - end->lost_text);
    count_sink(writer, end->gauges);
    return err;
}

/* By whatever of the library: its memory may have been written over. */
static bool is_broken(struct fp_writer *writer)
{
    uint64_t broken = fp_check_count() - writer->broken_before;

    fp_counters_set(writer->options.counters, FP_COUNTER_broken_invariants, broken);
    return broken > 0;
}

/* Empties the ring for good and closes the file. */
static void finish(struct fp_writer *writer, uint64_t last_ticket)
{
    struct fp_sink_end end;
    int err;

    while (drain(writer) > 0 && !is_broken(writer))
        ;
    /* The flush below does nothing in a sink that buffers. */
    write_merged(writer, FP_MERGED_ALL);
    notify_flushed(writer, last_ticket, flush(writer, true));
    err = close_file(writer, &end); /* tries once more if the flush failed */
    if (is_broken(writer)) {
        err = FP_EBROKEN;
        fp_check_print(end.why + sprintf(end.why, "a broken invariant: "));
    }
    fp_perf_script_destroy(writer->script);
    writer->script = NULL;
    writer->options.notify(writer->options.arg, FP_WRITER_STOPPED, 0, err, end.why);
}

static void handle_requests(struct fp_writer *writer, uint64_t requests)
{
    uint64_t last_ticket = requests & ~(STOP_BIT | TRIGGER_BIT);

    if ((requests & TRIGGER_BIT) != 0 && fp_sink_is_buffering(writer->options.sink))
        trigger(writer);
    if ((requests & STOP_BIT) != 0) {
        finish(writer, last_ticket);
    } else if (writer->notified < last_ticket) {
        drain(writer);
        notify_flushed(writer, last_ticket, flush(writer, true));
    }
}

/* At equal parts of the flush interval, when the node's figures are fresh (flame_prof_node.erl). */
static void tell_later(struct fp_writer *writer)
{
    uint32_t flush_ms = writer->options.flush_interval_ms;
    int64_t part_ms = flush_ms / (1 + (flush_ms - 1) / writer->options.node_interval_ms);
    int64_t past = (fp_monotonic_ms() - writer->begun_ms) / part_ms;

    writer->tell_at_ms = writer->begun_ms + (past + 1) * part_ms;
}

static void drain_and_flush(struct fp_writer *writer)
{
    uint32_t flush_ms = writer->options.flush_interval_ms;
    bool is_busy;

    if (fp_monotonic_ms() >= writer->drain_at_ms) {
        is_busy = drain(writer) > fp_ring_capacity(writer->options.ring) / 4;
        fp_sink_retry(writer->options.sink);
        writer->drain_at_ms = fp_monotonic_ms() + (is_busy ? DRAIN_BUSY_MS : DRAIN_MS);
    }
    if (flush_ms > 0 && fp_monotonic_ms() >= writer->flush_at_ms) {
        writer->flush_at_ms = fp_monotonic_ms() + flush_ms;
        drain(writer);
        flush(writer, false);
        tell_later(writer);
    } else if (flush_ms > writer->options.node_interval_ms &&
               fp_monotonic_ms() >= writer->tell_at_ms) {
        if (!fp_sink_is_buffering(writer->options.sink))
            write_own_sample(writer);
        tell_later(writer);
    }
}

static void publish(struct fp_writer *writer)
{
    int64_t now = fp_monotonic_ms();

    if (now >= atomic_load_explicit(&writer->followed_until_ms, memory_order_relaxed) ||
        now - writer->published_ms < PUBLISH_MS)
        return;
    writer->published_ms = now;
    fp_sink_publish(writer->options.sink);
}

static void begin(struct fp_writer *writer)
{
    writer->begun_ms = fp_monotonic_ms();
    writer->drain_at_ms = writer->begun_ms + DRAIN_MS;
    writer->flush_at_ms = writer->begun_ms + writer->options.flush_interval_ms;
    writer->tell_at_ms = writer->begun_ms + TELL_FIRST_MS;
}

int64_t fp_writer_step(struct fp_writer *writer)
{
    /* acquire: partners are the releases in request() and fp_writer_stop(). Records pushed before
     * the request are in the ring for the next drain. */
    uint64_t requests = atomic_load_explicit(&writer->requests, memory_order_acquire);

    if (writer->drain_at_ms == 0)
        begin(writer);
    if (requests != writer->handled)
        handle_requests(writer, requests);
    if ((requests & STOP_BIT) != 0)
        return 0;
    if (is_broken(writer) && !writer->is_broken) {
        writer->is_broken = true;
        writer->options.notify(writer->options.arg, FP_WRITER_BROKEN, 0, FP_EBROKEN, "");
    }
    writer->handled = requests;
    drain_and_flush(writer);
    publish(writer);
    return writer->options.flush_interval_ms > 0 && writer->flush_at_ms < writer->drain_at_ms
               ? writer->flush_at_ms
               : writer->drain_at_ms;
}

/* Until then or a request. Requests come without the lock, so that no thread of the VM waits for
 * this one: one that comes between the load and the wait is handled after the next drain. */
static void wait_until(struct fp_writer *writer, int64_t until_ms)
{
    int64_t left_ms = until_ms - fp_monotonic_ms();

    uv_mutex_lock(&writer->lock);
    if (left_ms > 0 &&
        atomic_load_explicit(&writer->requests, memory_order_relaxed) == writer->handled)
        uv_cond_timedwait(&writer->wake, &writer->lock, (uint64_t)left_ms * 1000000);
    uv_mutex_unlock(&writer->lock);
}

static void *run(void *arg)
{
    struct fp_writer *writer = arg;
    int64_t until_ms;

    pthread_setname_np(pthread_self(), "flame_prof_wr");
    while ((until_ms = fp_writer_step(writer)) != 0)
        wait_until(writer, until_ms);
    return NULL;
}

/* ---- start, requests, join -------------------------------------------- */

/* Blocks all signals: the VM's are for the VM's threads. */
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

int fp_writer_create(struct fp_writer **writer, const struct fp_writer_options *options)
{
    struct fp_writer *made = calloc(1, sizeof(*made));
    int err;

    if (made == NULL)
        return FP_ENOMEM;
    made->options = *options;
    if (made->options.node_interval_ms == 0)
        made->options.node_interval_ms = NODE_INTERVAL_MS;
    atomic_init(&made->requests, 0);
    atomic_init(&made->followed_until_ms, INT64_MIN);
    atomic_init(&made->is_triggered, !fp_sink_is_buffering(options->sink));
    made->offset_us = atomic_load_explicit(&options->clock->offset_us, memory_order_relaxed);
    snprintf(made->note, sizeof(made->note), "%s", options->note);
    snprintf(made->about, sizeof(made->about), "%s", options->about == NULL ? "" : options->about);
    made->rate_ns = fp_monotonic_ns();
    made->broken_before = fp_check_count();
    err = fp_perf_script_create(&made->script, &options->script);
    if (err != 0)
        goto fail_writer;
    err = FP_ENOMEM;
    if (uv_mutex_init(&made->lock) != 0)
        goto fail_script;
    if (uv_cond_init(&made->wake) != 0)
        goto fail_lock;
    *writer = made;
    return 0;

fail_lock:
    uv_mutex_destroy(&made->lock);
fail_script:
    fp_perf_script_destroy(made->script);
fail_writer:
    free(made);
    return err;
}

void fp_writer_destroy(struct fp_writer *writer)
{
    uv_cond_destroy(&writer->wake);
    uv_mutex_destroy(&writer->lock);
    fp_perf_script_destroy(writer->script);
    free(writer);
}

/* Adds a ticket or TRIGGER_BIT to the requests and returns their previous state: with STOP_BIT
 * nothing was added. */
static uint64_t request(struct fp_writer *writer, uint64_t more)
{
    /* relaxed: the exchange below checks it. */
    uint64_t seen = atomic_load_explicit(&writer->requests, memory_order_relaxed);

    do {
        if ((seen & STOP_BIT) != 0)
            return seen;
        /* release: partner is the acquire in fp_writer_step(). */
    } while (!atomic_compare_exchange_weak_explicit(&writer->requests, &seen, seen + more,
                                                    memory_order_release, memory_order_relaxed));
    uv_cond_signal(&writer->wake);
    return seen;
}

uint64_t fp_writer_flush(struct fp_writer *writer)
{
    uint64_t seen = request(writer, 1);

    return (seen & STOP_BIT) != 0 ? 0 : (seen & ~TRIGGER_BIT) + 1;
}

void fp_writer_follow(struct fp_writer *writer)
{
    atomic_store_explicit(&writer->followed_until_ms, fp_monotonic_ms() + FOLLOWED_MS,
                          memory_order_relaxed);
}

int fp_writer_trigger(struct fp_writer *writer, const char *note)
{
    /* acq_rel: one of all callers is the first, and adds the bit once. */
    if (atomic_exchange_explicit(&writer->is_triggered, 1, memory_order_acq_rel))
        return FP_ESTATE;
    snprintf(writer->note, sizeof(writer->note), "%s", note);
    return (request(writer, TRIGGER_BIT) & STOP_BIT) != 0 ? FP_ESTATE : 0;
}

void fp_writer_stop(struct fp_writer *writer)
{
    /* release: partner is the acquire in fp_writer_step(). */
    atomic_fetch_or_explicit(&writer->requests, STOP_BIT, memory_order_release);
    uv_cond_signal(&writer->wake);
}

void fp_writer_join(struct fp_writer *writer)
{
    pthread_join(writer->thread, NULL);
    fp_writer_destroy(writer);
}
