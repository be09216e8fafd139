#include "tracer/tracer.h"

#include <stddef.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/relaxed.h"

/* Events of a thread between two charges, each of which reads a clock and writes a line that all
 * threads share. */
#define BATCH 32u
/* What may be spent ahead of time. */
#define CPU_BURST_NS INT64_C(250000000)
#define EVENTS_BURST_NS INT64_C(1000000000)
#define WAIT_NS INT64_C(1000000000)
#define PAUSE_NS 100000
/* In which an owner, or who guards it, tells the VM of the end. */
#define OWNER_NS INT64_C(2000000000)

#ifdef CLOCK_MONOTONIC_COARSE
#define COARSE CLOCK_MONOTONIC_COARSE /* a third of the price, to a few milliseconds */
#else
#define COARSE CLOCK_MONOTONIC
#endif

/* The rule of a leaky bucket in one word: the time at which all that was spent is paid for. */
struct bucket {
    _Alignas(64) _Atomic int64_t paid_at;
};

static struct {
    _Atomic uint64_t running; /* the generation, or 0 */
    _Atomic int ended;        /* enum fp_tracer_end, of `generation' */
    _Atomic int64_t ended_ns; /* by the clock, or 0; at the latest with `ended' */
    _Atomic int64_t heartbeat_until;
    _Atomic uint32_t pressure;
    uint64_t generation;    /* the last one, or 0 */
    uint64_t broken_before; /* fp_check_count() at its start */
    int is_kept;            /* since it started, until it is reset */
    int64_t ends_at;
    struct fp_tracer_limits limits;
    struct bucket cpu, rate;
    _Alignas(64) _Atomic uint64_t charged_events;
    _Atomic uint32_t lines;
    _Atomic uint64_t lineless;
    struct fp_tracer_counters before;
} tracer;

static struct fp_tracer_line lines[FP_TRACER_LINES];

/* 1 more than its index in `lines'; 0: the thread has none yet. */
static FP_THREAD_LOCAL uint32_t own_line;

static struct fp_tracer_line *line_of_thread(void)
{
    struct fp_tracer_line *line;

    if (own_line == 0) {
        /* Before the store to `inside' in one order of all threads: wait() sees this line, or the
         * thread sees the end. */
        uint32_t taken = atomic_fetch_add(&tracer.lines, 1);

        own_line = taken < FP_TRACER_LINES ? taken + 1 : FP_TRACER_LINES + 1;
        if (taken < FP_TRACER_LINES) {
            lines[taken].random = UINT64_C(0x9e3779b97f4a7c15) * (taken + 1);
            lines[taken].index = taken;
        }
    }
    if (own_line > FP_TRACER_LINES) {
        atomic_fetch_add_explicit(&tracer.lineless, 1, memory_order_relaxed);
        return NULL;
    }
    line = &lines[own_line - 1];
    return line;
}

static void end_once(enum fp_tracer_end why)
{
    int running = FP_TRACER_running;
    int64_t never = 0;

    atomic_compare_exchange_strong(&tracer.ended_ns, &never, fp_monotonic_ns());
    atomic_compare_exchange_strong(&tracer.ended, &running, (int)why);
}

/* What a broken invariant has left is not measured on. */
static void end_if_broken(void)
{
    if (fp_check_count() != tracer.broken_before)
        end_once(FP_TRACER_broken_invariant);
}

/* Whether more than `burst_ns' is spent ahead. `ahead': how much. */
static int charge(struct bucket *bucket, int64_t now, int64_t wall_ns, int64_t burst_ns,
                  int64_t *ahead)
{
    int64_t old = atomic_load_explicit(&bucket->paid_at, memory_order_relaxed), next;

    do {
        next = (old > now ? old : now) + wall_ns;
    } while (!atomic_compare_exchange_weak_explicit(&bucket->paid_at, &old, next,
                                                    memory_order_relaxed, memory_order_relaxed));
    *ahead = next - now;
    return *ahead > burst_ns;
}

static int64_t wall_ns(uint64_t amount, uint64_t per_second)
{
    return (int64_t)((double)amount * 1e9 / (double)per_second);
}

/* Not less than `least'. */
static uint32_t part_of_255(int64_t ahead, int64_t burst_ns, uint32_t least)
{
    int64_t part = ahead * 256 / burst_ns;

    if (part > 255)
        part = 255;
    return part > (int64_t)least ? (uint32_t)part : least;
}

static void charge_line(struct fp_tracer_line *line)
{
    const struct fp_tracer_limits *limits = &tracer.limits;
    int64_t now = fp_monotonic_ns(), ahead = 0;
    uint32_t pressure = 0;
    uint64_t ns = line->uncharged_ns, events = line->uncharged_events, all;

    line->uncharged_ns = line->uncharged_events = line->batch = 0;
    if (!FP_CHECK(events <= BATCH))
        return;
    if (limits->cpu_ns_per_second != 0) {
        if (charge(&tracer.cpu, now, wall_ns(ns, limits->cpu_ns_per_second), CPU_BURST_NS, &ahead))
            end_once(FP_TRACER_max_cpu_percent);
        pressure = part_of_255(ahead, CPU_BURST_NS, pressure);
    }
    if (limits->events_per_second != 0) {
        if (charge(&tracer.rate, now, wall_ns(events, limits->events_per_second), EVENTS_BURST_NS,
                   &ahead))
            end_once(FP_TRACER_max_events_per_second);
        pressure = part_of_255(ahead, EVENTS_BURST_NS, pressure);
    }
    atomic_store_explicit(&tracer.pressure, pressure, memory_order_relaxed);
    all = atomic_fetch_add_explicit(&tracer.charged_events, events, memory_order_relaxed) + events;
    if (limits->events != 0 && all >= limits->events)
        end_once(FP_TRACER_max_events);
}

/* ---------------------------------------------------------- at each event -- */

int fp_tracer_is_on(uint64_t state)
{
    return atomic_load_explicit(&tracer.running, memory_order_relaxed) ==
               state >> FP_TRACER_INDEX_BITS &&
           atomic_load_explicit(&tracer.ended, memory_order_relaxed) == FP_TRACER_running;
}

/* 0, and ends what is over. */
static int is_in_time(void)
{
    int64_t now = fp_clock_ns(COARSE);
    int64_t heartbeat_until = atomic_load_explicit(&tracer.heartbeat_until, memory_order_relaxed);

    if (now <= heartbeat_until && now <= tracer.ends_at)
        return 1;
    if (now > tracer.ends_at)
        end_once(FP_TRACER_max_seconds);
    else if (now > heartbeat_until + FP_TRACER_SILENCE_NS)
        end_once(FP_TRACER_heartbeat);
    return 0;
}

static int is_always(void)
{
    return 1;
}

static struct fp_tracer_line *enter(uint64_t generation, int (*may_enter)(void))
{
    struct fp_tracer_line *line = line_of_thread();

    if (line == NULL)
        return NULL;
    /* wait() sees this store, or the load below sees that it is off: both are seq_cst. */
    atomic_store(&line->inside, generation);
    if (atomic_load(&tracer.running) == generation && may_enter()) {
        if (line->uncharged_of != generation) {
            line->uncharged_of = generation;
            line->uncharged_ns = line->uncharged_events = line->batch = 0;
        }
        return line;
    }
    /* The heartbeat is late, which is no end yet. */
    if (fp_tracer_is_on(generation << FP_TRACER_INDEX_BITS))
        fp_tracer_count_lost(line);
    atomic_store_explicit(&line->inside, 0, memory_order_release);
    return NULL;
}

struct fp_tracer_line *fp_tracer_enter(uint64_t state)
{
    return fp_tracer_is_on(state) ? enter(state >> FP_TRACER_INDEX_BITS, is_in_time) : NULL;
}

struct fp_tracer_line *fp_tracer_enter_end(uint64_t state)
{
    uint64_t generation = state >> FP_TRACER_INDEX_BITS;

    if (atomic_load_explicit(&tracer.running, memory_order_relaxed) != generation)
        return NULL;
    return enter(generation, is_always);
}

static uint32_t lines_in_use(void)
{
    uint32_t taken = atomic_load(&tracer.lines);

    return taken < FP_TRACER_LINES ? taken : FP_TRACER_LINES;
}

/* What threads have not charged yet may reach the limit. */
static int is_near_the_last(void)
{
    uint64_t limit = tracer.limits.events;

    return limit != 0 && atomic_load_explicit(&tracer.charged_events, memory_order_relaxed) +
                                 (uint64_t)BATCH * lines_in_use() >=
                             limit;
}

void fp_tracer_leave(struct fp_tracer_line *line, enum fp_tracer_cost cost)
{
    if (cost == FP_TRACER_EVENT) {
        fp_relaxed_add(&line->events, 1);
        line->uncharged_ns += tracer.limits.event_ns;
        line->uncharged_events++;
        if (is_near_the_last())
            line->batch = BATCH;
    } else if (cost == FP_TRACER_DISCARD) {
        fp_relaxed_add(&line->discarded, 1);
        line->uncharged_ns += tracer.limits.discard_ns;
    } else if (cost == FP_TRACER_QUESTION) {
        line->uncharged_ns += tracer.limits.question_ns;
    } else if (cost == FP_TRACER_BIRTH) {
        line->uncharged_ns += tracer.limits.birth_ns;
    }
    if (cost != FP_TRACER_FREE && ++line->batch >= BATCH)
        charge_line(line);
    (void)FP_CHECK(fp_relaxed_get(&line->inside) != 0);
    end_if_broken();
    atomic_store_explicit(&line->inside, 0, memory_order_release);
}

uint32_t fp_tracer_pressure(void)
{
    return atomic_load_explicit(&tracer.pressure, memory_order_relaxed);
}

/* ------------------------------------------------------ its beginning and end -- */

static struct fp_tracer_counters sum(void)
{
    uint32_t in_use = lines_in_use();
    struct fp_tracer_counters all = {
        .lost = atomic_load_explicit(&tracer.lineless, memory_order_relaxed)};

    for (uint32_t i = 0; i < in_use; i++) {
        all.events += fp_relaxed_get(&lines[i].events);
        all.discarded += fp_relaxed_get(&lines[i].discarded);
        all.lost += fp_relaxed_get(&lines[i].lost);
    }
    return all;
}

uint64_t fp_tracer_start(const struct fp_tracer_limits *limits, int64_t heartbeat_ns)
{
    int64_t now = fp_monotonic_ns();

    if (tracer.is_kept)
        return 0;
    tracer.is_kept = 1;
    /* By the clock, in milliseconds: what was left on in the VM by a library that was loaded before
     * is of an earlier generation. State and generation are no bignum for years. */
    if (tracer.generation == 0)
        tracer.generation = (uint64_t)now >> 20;
    tracer.limits = *limits;
    tracer.before = sum();
    tracer.broken_before = fp_check_count();
    tracer.ends_at = limits->seconds == 0 ? INT64_MAX : now + (int64_t)limits->seconds * 1000000000;
    atomic_store(&tracer.cpu.paid_at, 0);
    atomic_store(&tracer.rate.paid_at, 0);
    atomic_store(&tracer.charged_events, 0);
    atomic_store(&tracer.pressure, 0);
    atomic_store(&tracer.heartbeat_until, now + heartbeat_ns);
    atomic_store(&tracer.ended_ns, 0);
    atomic_store(&tracer.ended, FP_TRACER_running);
    atomic_store(&tracer.running, ++tracer.generation);
    return tracer.generation;
}

static int64_t ahead_of(const struct bucket *bucket, int64_t now)
{
    int64_t paid_at = atomic_load_explicit(&bucket->paid_at, memory_order_relaxed);

    return paid_at > now ? paid_at - now : 0;
}

/* Without events nothing else tells that it has gone. */
static void refresh_pressure(int64_t now)
{
    uint32_t pressure = part_of_255(ahead_of(&tracer.cpu, now), CPU_BURST_NS, 0);

    pressure = part_of_255(ahead_of(&tracer.rate, now), EVENTS_BURST_NS, pressure);
    atomic_store_explicit(&tracer.pressure, pressure, memory_order_relaxed);
}

enum fp_tracer_end fp_tracer_heartbeat(uint64_t generation, int64_t next_ns)
{
    int64_t now = fp_monotonic_ns();

    if (atomic_load(&tracer.running) != generation)
        return FP_TRACER_asked;
    end_if_broken();
    if (now > tracer.ends_at)
        end_once(FP_TRACER_max_seconds);
    if (now > atomic_load(&tracer.heartbeat_until) + FP_TRACER_SILENCE_NS)
        end_once(FP_TRACER_heartbeat);
    else
        atomic_store(&tracer.heartbeat_until, now + next_ns);
    if (atomic_load(&tracer.ended) == FP_TRACER_running)
        refresh_pressure(now);
    return (enum fp_tracer_end)atomic_load(&tracer.ended);
}

void fp_tracer_end(uint64_t generation, enum fp_tracer_end why)
{
    if (atomic_load(&tracer.running) == generation)
        end_once(why);
}

int64_t fp_tracer_ended_for_ns(void)
{
    int64_t ended_ns = atomic_load(&tracer.ended_ns);

    return ended_ns == 0 ? 0 : fp_monotonic_ns() - ended_ns;
}

int fp_tracer_is_open(uint64_t state)
{
    return fp_tracer_is_on(state) ||
           (atomic_load(&tracer.running) == state >> FP_TRACER_INDEX_BITS &&
            fp_tracer_ended_for_ns() < OWNER_NS);
}

int fp_tracer_is_abandoned(void)
{
    return tracer.is_kept &&
           fp_monotonic_ns() > atomic_load(&tracer.heartbeat_until) + FP_TRACER_SILENCE_NS;
}

int fp_tracer_wait(void)
{
    int64_t until = fp_monotonic_ns() + WAIT_NS;

    end_once(FP_TRACER_asked);
    atomic_store(&tracer.running, 0);
    for (uint32_t i = 0; i < lines_in_use(); i++)
        while (atomic_load(&lines[i].inside) != 0) {
            if (fp_monotonic_ns() > until)
                return FP_ESTATE;
            fp_sleep(PAUSE_NS);
        }
    return 0;
}

void fp_tracer_reset(void)
{
    tracer.is_kept = 0;
}

struct fp_tracer_counters fp_tracer_counters(void)
{
    struct fp_tracer_counters all = sum();

    all.events -= tracer.before.events;
    all.discarded -= tracer.before.discarded;
    all.lost -= tracer.before.lost;
    all.broken_invariants = fp_check_count() - tracer.broken_before;
    return all;
}

const char *fp_tracer_end_name(enum fp_tracer_end why)
{
    static const char *const names[] = {
#define NAME(name) #name,
        FP_TRACER_ENDS(NAME)
#undef NAME
    };

    return names[why];
}
