#include "session/session.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/ring.h"
#include "erts/code_scan.h"
#include "erts/symbolize.h"

struct fp_session {
    struct fp_session_options options;
    struct fp_counters counters;
    struct fp_live_ranges code;
    struct fp_live_cstack cstack;
    _Atomic uint32_t schedulers_online; /* relaxed: one number */
    struct fp_sample_clock clock;
    /* Native, and weights, which have the sampler's; fd -1: not open. */
    struct fp_memory sampler_memory, writer_memory;
    struct fp_ring *ring;
    struct fp_symbolize *symbols;
    struct fp_sampler *sampler; /* native */
    /* Native: to the sampler and from it. The flag of each is 1 during a call (acq_rel). */
    struct fp_triple_buffer *pinned, *selected;
    _Atomic int is_pinning, is_listing;
    struct fp_record_encoder *encoder; /* portable */
    struct fp_weight_encoder *weights; /* of words that were allocated */
    struct fp_writer *writer;
    struct fp_gauges_mailbox node;
    char path[4096];
    /* RUNNING -> STOPPING by the first call that stops (acq_rel exchange),
     * -> STOPPED by the writer (release); any thread reads it (acquire). */
    _Atomic int state;
    /* 1 between fp_session_enter and fp_session_leave (acq_rel). */
    _Atomic int is_entered;
    /* Guarded by `sessions_lock`: */
    struct fp_session *next;
    int is_abandoned;
};

/* Every session that is not freed yet. The lock is held for a few steps only. */
static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fp_session *sessions;

/* --------------------------------------------------------------- events -- */

static void send_event(struct fp_session *session, enum fp_session_event event, uint64_t ticket,
                       int err, const char *text)
{
    if (session->options.notify != NULL)
        session->options.notify(session->options.arg, event, ticket, err, text);
}

static void on_sink(void *arg, enum fp_sink_event event, const char *text)
{
    send_event(arg, (enum fp_session_event)(FP_SESSION_FILE + (int)event), 0, 0, text);
}

static void on_writer(void *arg, enum fp_writer_event event, uint64_t ticket, int err,
                      const char *why)
{
    struct fp_session *session = arg;

    if (event == FP_WRITER_BROKEN) {
        fp_session_stop(session);
        return;
    }
    if (event == FP_WRITER_STOPPED)
        atomic_store_explicit(&session->state, FP_SESSION_IS_STOPPED, memory_order_release);
    send_event(session, (enum fp_session_event)event, ticket, err, why);
}

static void on_sampler_ended(void *arg)
{
    fp_writer_stop(((struct fp_session *)arg)->writer);
}

static enum fp_session_state state(const struct fp_session *session)
{
    return (enum fp_session_state)atomic_load_explicit(&session->state, memory_order_acquire);
}

void fp_session_stop(struct fp_session *session)
{
    int running = FP_SESSION_IS_RUNNING;

    /* This and fp_session_leave() each write one word and read the other: with any weaker order
     * both could miss what the other wrote. */
    if (!atomic_compare_exchange_strong(&session->state, &running, FP_SESSION_IS_STOPPING))
        return;
    if (session->options.is_native)
        fp_sampler_stop(session->sampler);
    else if (atomic_exchange(&session->is_entered, 1) == 0)
        fp_writer_stop(session->writer);
    /* else fp_session_leave() stops the writer */
}

uint64_t fp_session_flush(struct fp_session *session)
{
    return fp_writer_flush(session->writer);
}

void fp_session_follow(struct fp_session *session)
{
    fp_writer_follow(session->writer);
}

int fp_session_commit(struct fp_session *session, const char *note)
{
    return fp_writer_trigger(session->writer, note);
}

static int may_enter(struct fp_session *session)
{
    return state(session) == FP_SESSION_IS_RUNNING &&
           !atomic_exchange_explicit(&session->is_entered, 1, memory_order_acq_rel);
}

struct fp_record_encoder *fp_session_enter(struct fp_session *session)
{
    return session->encoder != NULL && may_enter(session) ? session->encoder : NULL;
}

struct fp_weight_encoder *fp_session_enter_weights(struct fp_session *session)
{
    return session->weights != NULL && may_enter(session) ? session->weights : NULL;
}

void fp_session_leave(struct fp_session *session)
{
    atomic_store(&session->is_entered, 0);
    /* A fp_session_stop() since the enter left the writer to this call. */
    if (atomic_load(&session->state) == FP_SESSION_IS_STOPPING)
        fp_writer_stop(session->writer);
}

/* ---------------------------------------------------------------- access -- */

struct fp_session_info fp_session_info(const struct fp_session *session)
{
    return (struct fp_session_info){
        .state = state(session),
        .path = session->path,
        .reads = session->options.is_native ? fp_safe_read_method(&session->sampler_memory) : "",
        .code_ranges_left_out = atomic_load_explicit(&session->code.left_out, memory_order_relaxed),
        .libraries_left_out = atomic_load_explicit(&session->cstack.left_out, memory_order_relaxed),
    };
}

struct fp_counters *fp_session_counters(struct fp_session *session)
{
    return &session->counters;
}

void fp_session_set_schedulers_online(struct fp_session *session, uint32_t n)
{
    atomic_store_explicit(&session->schedulers_online, n, memory_order_relaxed);
}

struct fp_gauges_mailbox *fp_session_node(struct fp_session *session)
{
    return &session->node;
}

int fp_session_pin(struct fp_session *session, const uint64_t *words, size_t n)
{
    if (!session->options.is_native || n > FP_PINNED_MAX)
        return FP_EINVAL;
    if (atomic_exchange_explicit(&session->is_pinning, 1, memory_order_acq_rel))
        return FP_ESTATE;
    memcpy(fp_triple_buffer_begin(session->pinned), words, n * FP_PINNED_WORDS * sizeof *words);
    fp_triple_buffer_publish(session->pinned, n * FP_PINNED_WORDS);
    atomic_store_explicit(&session->is_pinning, 0, memory_order_release);
    return 0;
}

size_t fp_session_selected(struct fp_session *session, uint64_t *pid, size_t room)
{
    const uint64_t *word;
    size_t n;
    int is_new;

    if (!session->options.is_native ||
        atomic_exchange_explicit(&session->is_listing, 1, memory_order_acq_rel))
        return 0;
    word = fp_triple_buffer_take(session->selected, &n, &is_new);
    if (n > room)
        n = room;
    memcpy(pid, word, n * sizeof *pid);
    atomic_store_explicit(&session->is_listing, 0, memory_order_release);
    return n;
}

/* ----------------------------------------------------- creation and end -- */

static void session_free(struct fp_session *session)
{
    fp_sampler_destroy(session->sampler);
    fp_record_encoder_destroy(session->encoder);
    fp_weight_encoder_destroy(session->weights);
    fp_symbolize_destroy(session->symbols);
    fp_ring_destroy(session->ring);
    fp_triple_buffer_destroy(session->pinned);
    fp_triple_buffer_destroy(session->selected);
    fp_gauges_mailbox_put(&session->node, NULL);
    fp_safe_read_close(&session->sampler_memory);
    fp_safe_read_close(&session->writer_memory);
    free(session);
}

static int create_sampler(struct fp_session *session)
{
    struct fp_sampler_options *options = &session->options.sampler;

    options->cstack = &session->cstack;
    options->schedulers_online = &session->schedulers_online;
    options->memory = &session->sampler_memory;
    options->code = &session->code;
    options->ring = session->ring;
    options->counters = &session->counters;
    options->clock_offset_ns =
        1000 * atomic_load_explicit(&session->clock.offset_us, memory_order_relaxed);
    options->pinned = session->pinned;
    options->selected = session->selected;
    options->ended = on_sampler_ended;
    options->arg = session;
    return fp_sampler_create(&session->sampler, options);
}

/* The readers of the VM: memory, and the names of code. */
static int create_symbols(struct fp_session *session)
{
    struct fp_ranges mapped;
    int err = fp_safe_read_open_own(&session->sampler_memory);

    if (err == 0)
        err = fp_safe_read_open_own(&session->writer_memory);
    if (err == 0)
        err = fp_code_ranges(&session->writer_memory, &mapped);
    if (err != 0)
        return err;
    fp_live_ranges_update(&session->code, &mapped);
    return fp_symbolize_create(&session->symbols, &session->options.sampler.layout,
                               &session->writer_memory, &session->code,
                               session->options.sampler.running_stacks ? &session->cstack : NULL);
}

static int create_native(struct fp_session *session)
{
    int err = fp_triple_buffer_create(&session->pinned, FP_PINNED_MAX * FP_PINNED_WORDS);

    if (err == 0)
        err = fp_triple_buffer_create(&session->selected,
                                      FP_TOP_MAX + FP_GROWERS_MAX + FP_PINNED_MAX);
    if (err == 0)
        err = create_symbols(session);
    return err == 0 ? create_sampler(session) : err;
}

static int create_weights(struct fp_session *session)
{
    int err = create_symbols(session);

    return err != 0 ? err
                    : fp_weight_encoder_create(&session->weights, &session->options.sampler.layout,
                                               &session->sampler_memory, session->ring,
                                               &session->counters, &session->clock);
}

static int create_writer(struct fp_session *session, struct fp_sink *sink)
{
    struct fp_writer_options *options = &session->options.writer;
    struct fp_perf_script_options *script = &options->script;
    int is_native = session->symbols != NULL;

    options->ring = session->ring;
    options->counters = &session->counters;
    options->sink = sink;
    options->engine = is_native ? "native" : "portable";
    options->mode = session->options.sampler.mode == FP_MODE_SCHEDULERS ? "schedulers" : NULL;
    options->node = &session->node;
    options->clock = &session->clock;
    options->reads_clock = is_native;
    options->notify = on_writer;
    options->arg = session;
    script->is_elsewhere = script->os_pid != 0;
    if (!script->is_elsewhere)
        script->os_pid = (uint32_t)getpid();
    if (is_native)
        script->symbolizer = fp_symbolize_interface(session->symbols);
    if (session->options.is_weighted)
        script->event = "alloc-words";
    options->tells_node_alone = session->options.is_weighted;
    script->stats = &session->counters;
    fp_sink_listen(sink, on_sink, session);
    return fp_writer_create(&session->writer, options);
}

/* All that needs no file. */
static int create_engine(struct fp_session *session)
{
    int err = fp_ring_create(&session->ring, session->options.ring_bytes);

    if (err != 0)
        return err;
    if (session->options.is_native)
        return create_native(session);
    if (session->options.is_weighted)
        return create_weights(session);
    return fp_record_encoder_create(&session->encoder, session->ring, &session->counters,
                                    &session->clock);
}

/* The writer's thread last: once it runs it may write to the file. */
static int start_threads(struct fp_session *session)
{
    int err = session->sampler == NULL ? 0 : fp_sampler_start(session->sampler);

    if (err != 0)
        return err;
    err = fp_writer_start(session->writer);
    if (err != 0 && session->sampler != NULL) {
        fp_sampler_stop(session->sampler);
        fp_sampler_join(session->sampler);
        session->sampler = NULL;
    }
    return err;
}

/* The place of a broken invariant that an earlier session ended by is not that of this one. */
static void forget_broken(void)
{
    pthread_mutex_lock(&sessions_lock);
    if (sessions == NULL)
        fp_check_forget();
    pthread_mutex_unlock(&sessions_lock);
}

int fp_session_start(struct fp_session **out, const struct fp_session_options *options, char *why,
                     size_t why_size)
{
    struct fp_session *session = calloc(1, sizeof *session);
    struct fp_sink *sink = NULL;
    struct fp_sink_end end;
    int err = FP_ENOMEM;

    if (session == NULL)
        goto fail;
    forget_broken();
    session->options = *options;
    session->sampler_memory.fd = session->writer_memory.fd = -1;
    session->cstack.bytes_max = options->libraries_bytes;
    if (session->options.writer.script.os_pid == 0)
        atomic_init(&session->clock.offset_us, fp_clock_offset_ns() / 1000);
    fp_session_set_schedulers_online(session, options->schedulers_online);
    err = create_engine(session);
    if (err != 0)
        goto fail_session;
    session->options.files.kind = options->is_weighted ? FP_LOG_ALLOCATIONS : FP_LOG_SAMPLES;
    err = fp_sink_open(&sink, &session->options.files, why, why_size);
    if (err != 0) {
        session_free(session);
        return err;
    }
    snprintf(session->path, sizeof session->path, "%s", fp_sink_path(sink));
    err = create_writer(session, sink);
    if (err != 0)
        goto fail_sink;
    err = start_threads(session);
    if (err != 0)
        goto fail_writer;
    pthread_mutex_lock(&sessions_lock);
    session->next = sessions;
    sessions = session;
    pthread_mutex_unlock(&sessions_lock);
    *out = session;
    return 0;
fail_writer:
    fp_writer_destroy(session->writer);
fail_sink:
    session->options.notify = NULL; /* a session that did not start has no events */
    fp_sink_close(sink, &end);
fail_session:
    session_free(session);
fail:
    snprintf(why, why_size, "%s",
             err == FP_ESTATE ? "the schedulers are being retired" : fp_err_text(err));
    return err;
}

/* Takes one off the list: `only`, or else one of this owner that was abandoned and has stopped, or
 * `any` of this owner. NULL: there is none. */
static struct fp_session *unlist(const struct fp_session *only, const void *owner, int any)
{
    struct fp_session **at = &sessions, *found;

    pthread_mutex_lock(&sessions_lock);
    for (; (found = *at) != NULL; at = &found->next)
        if (only != NULL
                ? found == only
                : found->options.owner == owner &&
                      (any || (found->is_abandoned && state(found) == FP_SESSION_IS_STOPPED)))
            break;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&sessions_lock);
    return found;
}

/* Without the lock: its last message may abandon it. */
static void join(struct fp_session *session)
{
    fp_session_stop(session);
    if (session->sampler != NULL)
        fp_sampler_join(session->sampler);
    session->sampler = NULL;
    fp_writer_join(session->writer);
    session_free(session);
}

void fp_session_close(struct fp_session *session)
{
    join(unlist(session, NULL, 0));
}

void fp_session_abandon(struct fp_session *session)
{
    fp_session_stop(session);
    pthread_mutex_lock(&sessions_lock);
    session->is_abandoned = 1;
    pthread_mutex_unlock(&sessions_lock);
}

static void join_each(const void *owner, int any)
{
    struct fp_session *session;

    while ((session = unlist(NULL, owner, any)) != NULL)
        join(session);
}

void fp_session_reap(const void *owner)
{
    join_each(owner, 0);
}

void fp_session_join_all(const void *owner)
{
    join_each(owner, 1);
}
