#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "session/sampler_internal.h"

#define SECOND_SELECTION_MS 500u
/* Slots of the process table in one slice, at least: its system calls take some 3 us. */
#define SLICE_SLOTS 4096u
/* Longest sleep before the stop flag is read again. */
#define SLEEP_MAX_NS INT64_C(50000000)
/* Least time from a tick's end to the next one. */
#define TICKS_APART_NS INT64_C(100000)
/* First poll for pending captures; each further one after that many times as long, as a wake-up
 * costs as much as 10 to 20 samples. Until a capture is handled its scheduler is closed to pstack,
 * which waits for it, and to a second session, which does not: the first poll is soon where there
 * are other users. */
#define CAPTURE_ALONE_NS INT64_C(10000000)
#define CAPTURE_NS INT64_C(100000)
#define CAPTURE_BACKOFF 8
/* In mode schedulers, the processes whose last values are kept. */
#define RECENT_PROCESSES 1024u
/* Ticks between two readings of CPU time: the call costs as much as a sample. */
#define CPU_TICKS 16u

/* -------------------------------------------------------- the selection -- */

static int64_t interval_ns(const struct fp_sampler *s)
{
    return (int64_t)s->options.interval_us * 1000 * s->governed.interval_factor;
}

static void set_slice(struct fp_sampler *s, uint32_t pass_ms)
{
    s->slots_per_tick =
        fp_governor_slots(&s->governor, fp_top_processes_slots(s->top), pass_ms, interval_ns(s));
}

/* By the CPU time of passes the governor decides how long they take. */
static int step_pass(struct fp_sampler *s, uint32_t slots)
{
    int64_t before = fp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int has_ended = fp_top_processes_step(s->top, slots);

    s->pass_ns += fp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    if (has_ended) {
        fp_targets_update(s);
        fp_sampler_count(s, FP_COUNTER_selections, 1);
        fp_counters_set(s->options.counters, FP_COUNTER_growers, fp_top_processes_growers(s->top));
    }
    return has_ended;
}

static int is_selecting(const struct fp_sampler *s)
{
    return s->options.mode == FP_MODE_PROCESSES && (s->options.rankings | s->options.growers) > 0;
}

/* A slice has a cost of its own: the slices of a stretched pass come rarer, at the same size. */
void fp_select_slice(struct fp_sampler *s)
{
    if (!is_selecting(s))
        return;
    s->slots_due += s->slots_per_tick;
    if (s->slots_due < SLICE_SLOTS && s->slots_due < fp_top_processes_slots(s->top))
        return;
    if (step_pass(s, s->slots_due))
        set_slice(s, s->options.select_interval_ms);
    s->slots_due = 0;
}

/* ---------------------------------------------------------- the thread -- */

/* A broken invariant ends the thread too, and so the session. */
static int is_stopping(struct fp_sampler *s)
{
    return atomic_load_explicit(&s->stopping, memory_order_relaxed) ||
           fp_check_count() != s->broken_before;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void account_cpu(struct fp_sampler *s)
{
    fp_counters_set(s->options.counters, FP_COUNTER_sampler_cpu_ns,
                    (uint64_t)fp_clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

/* As it was last read. */
static int64_t counted_ns(const struct fp_sampler *s)
{
    const struct fp_counters *counters = s->options.counters;

    return (int64_t)(fp_counters_get(counters, FP_COUNTER_sampler_cpu_ns) +
                     fp_counters_get(counters, FP_COUNTER_writer_cpu_ns) +
                     fp_counters_get(counters, FP_COUNTER_handler_ns));
}

static struct fp_cpu_used cpu_used(struct fp_sampler *s)
{
    account_cpu(s);
    return (struct fp_cpu_used){counted_ns(s), s->pass_ns};
}

static void publish_select_interval(struct fp_sampler *s)
{
    fp_counters_set(s->options.counters, FP_COUNTER_select_interval_ms,
                    (uint64_t)s->options.select_interval_ms << s->governor.stretch);
}

/* Samplers that have begun and have not ended: each has its part of its budget, so that a look
 * beside a session costs the node no more than the session alone may. */
static _Atomic uint32_t samplers; /* relaxed: only a number */

static uint32_t budget_part(const struct fp_sampler *s)
{
    uint32_t n = atomic_load_explicit(&samplers, memory_order_relaxed);
    uint32_t permille = s->options.cpu_permille;

    return n > 0 && permille >= n ? permille / n : permille;
}

static void leave_budget(struct fp_sampler *s)
{
    if (s->has_begun)
        atomic_fetch_sub_explicit(&samplers, 1, memory_order_relaxed);
    s->has_begun = 0;
}

/* The first selection counts from each process' start. The second follows soon, so that it selects
 * what is busy now; not where that pass alone would use up the budget. */
static void govern_from_now(struct fp_sampler *s, int64_t now)
{
    uint32_t pass_ms = s->options.select_interval_ms;

    fp_governor_init(&s->governor, budget_part(s), now, cpu_used(s), pass_ms);
    if (s->governor.stretch == 0 && pass_ms > SECOND_SELECTION_MS)
        pass_ms = SECOND_SELECTION_MS;
    set_slice(s, pass_ms);
    publish_select_interval(s);
}

int fp_sampler_govern(struct fp_sampler *s)
{
    int64_t now = fp_monotonic_ns();
    uint32_t factor = s->governed.interval_factor;
    uint32_t divisor = s->governed.top_divisor;

    s->governor.permille = budget_part(s);
    if (!fp_governor_is_due(&s->governor, now, counted_ns(s)) ||
        !fp_governor_update(&s->governor, now, cpu_used(s)))
        return 0;
    s->governed = fp_governed(s->governor.step);
    fp_counters_set(s->options.counters, FP_COUNTER_budget_step, s->governor.step);
    fp_sampler_count(s, FP_COUNTER_budget_changes, 1);
    publish_select_interval(s);
    fp_top_processes_divide(s->top, s->governed.top_divisor);
    if (s->governed.top_divisor != divisor && s->pinned_n > 0)
        fp_targets_update(s);
    set_slice(s, s->options.select_interval_ms);
    return s->governed.interval_factor != factor;
}

int64_t fp_sampler_begin(struct fp_sampler *s)
{
    int64_t now;

    s->has_begun = 1;
    atomic_fetch_add_explicit(&samplers, 1, memory_order_relaxed);
    if (is_selecting(s))
        step_pass(s, fp_top_processes_slots(s->top));
    now = fp_monotonic_ns();
    govern_from_now(s, now);
    return now;
}

/* Tick k is due at start + k x interval, and a delay; after a tick that was late, not at once:
 * readers take samples of nearly the same time for those of one tick. */
static void plan_tick(struct fp_sampler *s)
{
    int64_t interval = interval_ns(s), soon = fp_monotonic_ns() + TICKS_APART_NS;

    s->due_ns =
        s->start_ns + s->tick * interval + fp_tick_delay_ns(interval, fp_random(&s->random));
    if (s->due_ns < soon)
        s->due_ns = soon;
    s->poll_ns = fp_sigcapture_users() > 1 ? CAPTURE_NS : CAPTURE_ALONE_NS;
    s->is_pending = fp_on_cpu_poll(s) > 0;
}

/* Ticks whose time has passed meanwhile are counted and left out. */
static void do_tick(struct fp_sampler *s)
{
    int64_t interval = interval_ns(s), passed;

    fp_sampler_tick(s);
    passed = (fp_monotonic_ns() - s->start_ns) / interval;
    if (passed > s->tick) {
        fp_sampler_count(s, FP_COUNTER_missed, (uint64_t)(passed - s->tick));
        s->tick = passed;
    }
    s->tick++;
    if (s->tick % CPU_TICKS == 0)
        account_cpu(s);
    if (fp_sampler_govern(s)) {
        s->start_ns += s->tick * interval;
        s->tick = 0;
    }
    plan_tick(s);
}

int64_t fp_sampler_step(struct fp_sampler *s)
{
    if (!s->has_begun) {
        s->start_ns = fp_sampler_begin(s);
        plan_tick(s);
    } else if (fp_monotonic_ns() >= s->due_ns) {
        do_tick(s);
    } else if (s->is_pending) {
        s->is_pending = fp_on_cpu_poll(s) > 0;
        s->poll_ns = least(CAPTURE_BACKOFF * s->poll_ns, SLEEP_MAX_NS);
    }
    return least(s->due_ns, fp_monotonic_ns() + (s->is_pending ? s->poll_ns : SLEEP_MAX_NS));
}

void fp_sampler_end(struct fp_sampler *s)
{
    fp_on_cpu_drain(s);
    account_cpu(s);
    leave_budget(s);
}

static void *sampler_main(void *arg)
{
    struct fp_sampler *s = arg;

    while (!is_stopping(s))
        fp_sleep_until(fp_sampler_step(s));
    fp_sampler_end(s);
    s->options.ended(s->options.arg);
    return NULL;
}

/* ----------------------------------------------------- creation and end -- */

/* The next piece of the mapping at `base`; without one, only its size. */
static void *carve(unsigned char *base, size_t *used, size_t size)
{
    size_t at = *used;

    *used += (size + 63) & ~(size_t)63;
    return base == NULL ? NULL : base + at;
}

static size_t carve_arrays(struct fp_sampler *s, unsigned char *base)
{
    size_t n = s->targets, size = s->layout->snapshot_size, used = 0;
    size_t spans = (FP_STACK_COPY_SPANS + FP_HEAP_COPY_SPANS) * (n + 1);

    if (spans < s->schedulers)
        spans = s->schedulers;

    s->by_id_mask = 1;
    while (s->by_id_mask < 4 * n + 4)
        s->by_id_mask *= 2;
    s->target = carve(base, &used, n * sizeof *s->target);
    s->live = carve(base, &used, n * sizeof *s->live);
    s->structure = carve(base, &used, n * size);
    s->again = carve(base, &used, n * size);
    s->span = carve(base, &used, spans * sizeof *s->span);
    s->copy = carve(base, &used, (n + 1) * sizeof *s->copy);
    if (s->options.messages)
        s->work = carve(base, &used, fp_off_cpu_work_bytes());
    s->by_id = carve(base, &used, s->by_id_mask * sizeof *s->by_id);
    s->stack_words = carve(base, &used, FP_SAMPLER_STACK_WORDS * sizeof *s->stack_words);
    s->pending = carve(base, &used, (s->schedulers + 1) * sizeof *s->pending);
    s->current = carve(base, &used, (s->schedulers + 1) * sizeof *s->current);
    s->named = carve(base, &used, FP_NAMED_SLOTS * sizeof *s->named);
    s->otel = carve(base, &used, (s->options.otel ? FP_OTEL_TOGETHER : 0) * sizeof *s->otel);
    s->by_id_mask--;
    return used;
}

static int map_arrays(struct fp_sampler *s)
{
    unsigned char *base;

    s->bytes = carve_arrays(s, NULL);
    base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                -1, 0);
    if (base == MAP_FAILED) {
        s->bytes = 0;
        return FP_ENOMEM;
    }
    carve_arrays(s, base);
    return 0;
}

int fp_sampler_create(struct fp_sampler **out, const struct fp_sampler_options *options)
{
    uint64_t top;
    struct fp_sampler *s;
    int err;

    if (options->rankings > FP_RANKINGS_MAX)
        return FP_EINVAL;
    top = fp_rankings_top(options->ranking, options->rankings);
    if (options->interval_us == 0 || top > FP_TOP_MAX || options->growers > FP_GROWERS_MAX ||
        (options->mode == FP_MODE_SCHEDULERS && !options->running_stacks))
        return FP_EINVAL;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return FP_ENOMEM;
    s->options = *options;
    s->layout = &s->options.layout;
    s->governed = fp_governed(0);
    err = options->running_stacks ? fp_sigcapture_acquire() : 0;
    if (err != 0)
        goto fail;
    s->is_acquired = options->running_stacks;
    if (s->is_acquired && options->messages)
        fp_serving_captures_begin();
    if (s->is_acquired)
        s->schedulers = fp_sigcapture_count();
    s->targets = options->mode == FP_MODE_SCHEDULERS ? s->schedulers + RECENT_PROCESSES
                                                     : (uint32_t)top + options->growers;
    if (options->mode == FP_MODE_PROCESSES && options->pinned != NULL)
        s->targets += FP_PINNED_MAX;
    fp_on_cpu_create(s);
    s->random = (uint64_t)fp_monotonic_ns() | 1;
    s->broken_before = fp_check_count();
    err = map_arrays(s);
    if (err == 0)
        err = fp_stack_table_create(&s->stacks);
    if (err == 0)
        err = fp_top_processes_create(&s->top, s->layout, options->memory, options->ranking,
                                      options->rankings, options->growers, options->excluded,
                                      options->excluded_n);
    if (err != 0)
        goto fail;
    *out = s;
    return 0;
fail:
    fp_sampler_destroy(s);
    return err;
}

void fp_sampler_destroy(struct fp_sampler *s)
{
    if (s == NULL)
        return;
    leave_budget(s); /* where it had no thread */
    fp_top_processes_destroy(s->top);
    fp_stack_table_destroy(s->stacks);
    if (s->bytes > 0)
        munmap(s->target, s->bytes);
    if (s->is_acquired && s->options.messages)
        fp_serving_captures_end();
    if (s->is_acquired)
        fp_sigcapture_release();
    free(s);
}

int fp_sampler_start(struct fp_sampler *s)
{
    sigset_t all, old;
    int err;

    /* The VM's signals are for the VM's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&s->thread, NULL, sampler_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err != 0)
        return FP_ETHREAD;
    pthread_setname_np(s->thread, "flame_prof_smp");
    return 0;
}

void fp_sampler_stop(struct fp_sampler *s)
{
    atomic_store_explicit(&s->stopping, 1, memory_order_relaxed);
}

void fp_sampler_join(struct fp_sampler *s)
{
    pthread_join(s->thread, NULL);
    fp_sampler_destroy(s);
}
