#include "tracer/allocations.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/relaxed.h"
#include "base/ring.h"
#include "erts/fresh.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "tracer/collections.h"
#include "tracer/collector.h"

#define RING_BYTES (128u << 10)
/* Of more threads each has a quarter, so that all of them fit what a session reckons with. */
#define RING_THREADS 64u
/* Processes that are known by their last collection. One that another takes the place of is new. */
#define KNOWN (1u << 16)
/* A chance that a collection is looked at: its first and its least `every`. */
#define TIME_FIRST_NS 1e6
#define TIME_LEAST_NS 1e4
#define WINDOW_FIRST 4096.0
/* How fast a thread's usual window follows the windows. */
#define USUAL 0.05
/* A process takes turns that has so many collections in less than this time. */
#define OFTEN 16u
#define OFTEN_NS 320000000
/* A process whose last collection took so long: beside the next one, a look costs nothing. */
#define COSTLY_NS 1000000u
/* Relaxed: a place that two processes write at a time has a wrong guess, wrong times or an address
 * that is not the pid's. All of these only cost: the header says it of p and G, and fp_fresh_read()
 * refuses the address. */
struct fp_known_process {
    _Atomic uint64_t pid, address, end_ns, window;
    _Atomic uint64_t length_ns;      /* of its last collections the longest, halved with each */
    _Atomic uint64_t since_ns, seen; /* collections since then */
};

static void show(_Atomic uint64_t *at, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    atomic_store_explicit(at, bits, memory_order_relaxed);
}

/* ----------------------------------------------------------------- chance -- */

/* In (0, 1]. */
static double uniform(struct collector *thread)
{
    return 1 - fp_random_uniform(&thread->random);
}

/* x, or the whole number below or above it, such that the expectation is x. */
static uint64_t rounded(struct collector *thread, double x)
{
    return (uint64_t)(x + 1 - uniform(thread));
}

/* ------------------------------------------------------------------ looks -- */

static struct fp_known_process *known_of(struct fp_allocations *allocations, uint64_t pid)
{
    return &allocations->known[fp_pid_slot(allocations->options.layout, pid) & (KNOWN - 1)];
}

/* p: set by the past alone. */
static double probability(const struct fp_allocations *allocations, struct collector *thread,
                          int is_known, int64_t now)
{
    double window = thread->guess > 0 ? thread->guess : thread->usual;
    double looks = allocations->options.looks, m = thread->times, p;

    if (thread->turn != NULL)
        return fp_savings_chance(&thread->by_turn, looks / 2,
                                 window * m / (double)allocations->options.mean_words, now);
    if (!is_known)
        return fp_pace_chance(&thread->by_process, looks / 4, 1, now);
    p = fp_pace_chance(&thread->by_time, looks / 4, m * (double)thread->t_ns, now) +
        fp_pace_chance(&thread->by_window, looks / 2, m * window, now);
    return p < 1 ? p : 1;
}

static int read_process(const struct fp_allocations *allocations, struct fp_known_process *known,
                        uint64_t pid, struct fp_fresh *fresh)
{
    const struct fp_layout *layout = allocations->options.layout;
    const struct fp_memory *memory = allocations->options.memory;
    uint64_t address = fp_relaxed_get(&known->address);
    int err = FP_EGONE;

    if (fp_relaxed_get(&known->pid) == pid && address != 0)
        err = fp_fresh_read(layout, memory, address, pid, fresh);
    if (err != FP_EGONE && err != FP_EFAULT)
        return err;
    err = fp_process_table_lookup(layout, memory, pid, &address);
    if (err == 0)
        err = fp_fresh_read(layout, memory, address, pid, fresh);
    if (err == 0)
        fp_relaxed_put(&known->address, address);
    return err;
}

static void look(struct fp_allocations *allocations, struct collector *thread,
                 struct fp_known_process *known)
{
    uint64_t mean = allocations->options.mean_words;
    double words;

    COUNT(thread, looks, 1);
    if (read_process(allocations, known, thread->pid, &thread->fresh) != 0) {
        COUNT(thread, unreadable, 1);
        return;
    }
    thread->is_looked = 1;
    thread->usual += USUAL * ((double)thread->fresh.words - thread->usual);
    if (!FP_CHECK(thread->p > 0 && thread->p <= 1))
        thread->p = 1;
    words = (double)thread->fresh.words * thread->times / thread->p;
    thread->weight = rounded(thread, words / (double)mean) * mean;
}

static void begin(struct fp_allocations *allocations, struct collector *thread, uint64_t pid,
                  int is_minor, int is_dirty)
{
    struct fp_known_process *known = known_of(allocations, pid);
    int64_t now = fp_monotonic_ns(), t = 1;
    int is_known = fp_relaxed_get(&known->pid) == pid;

    thread->share_weight = fp_share_weight(&allocations->share, pid);
    thread->turn = fp_turns_find(allocations->turns, pid);
    thread->times =
        thread->share_weight * (thread->turn == NULL ? 1 : fp_turn_weight(thread->turn));
    if (thread->times <= 0)
        return;
    if (is_known)
        t = now - (int64_t)fp_relaxed_get(&known->end_ns);
    if (!is_minor && thread->last_pid == pid)
        t += thread->last_t_ns;
    thread->pid = pid;
    thread->start_ns = now;
    thread->t_ns = t < 1 ? 1 : t;
    thread->guess = is_known ? (double)fp_relaxed_get(&known->window) : 0;
    thread->p = is_known && fp_relaxed_get(&known->length_ns) >= COSTLY_NS
                    ? 1
                    : probability(allocations, thread, is_known, now);
    thread->is_open = 1;
    thread->is_looked = 0;
    thread->is_minor = (uint8_t)is_minor;
    thread->is_dirty = (uint8_t)is_dirty;
    thread->weight = 0;
    if (is_minor)
        COUNT(thread, minor, rounded(thread, thread->times));
    else
        COUNT(thread, major, rounded(thread, thread->times));
    thread->words += thread->guess * thread->times;
    if (thread->p >= 1 || uniform(thread) <= thread->p) {
        if (!is_known)
            fp_relaxed_put(&known->address, 0);
        look(allocations, thread, known);
        if (!thread->is_looked)
            thread->words -=
                thread->guess * thread->times; /* it is unknown: unreadable, and counted there */
        COUNT(thread, look_ns, (uint64_t)(fp_monotonic_ns() - now));
    }
}

/* ------------------------------------------------------------------- ends -- */

static void count_window(struct collector *thread)
{
    double less = (double)thread->fresh.words - thread->guess, m = thread->times;

    thread->words += m * less / thread->p;
    thread->variance += m * m * less * less * (1 - thread->p) / (thread->p * thread->p);
    show(&thread->shown_variance, thread->variance);
}

/* Nothing was collected? Else no word is allocated since the collection. The heap's address does
 * not tell: a new heap that grows may come to where the old one was. */
static int is_same(const struct fp_fresh *before, const struct fp_fresh *after)
{
    return before->heap == after->heap && before->words > 0 && before->words == after->words;
}

/* Collected often, and each time after few words? Then it takes turns. */
static void join(struct fp_allocations *allocations, struct fp_known_process *known, uint64_t pid,
                 int64_t now)
{
    uint64_t seen = fp_relaxed_get(&known->seen) + 1, window = fp_relaxed_get(&known->window);

    if (fp_relaxed_get(&known->pid) == pid && seen < OFTEN) {
        fp_relaxed_put(&known->seen, seen);
        return;
    }
    if (fp_relaxed_get(&known->pid) == pid &&
        now - (int64_t)fp_relaxed_get(&known->since_ns) < OFTEN_NS && window > 0 &&
        2 * window < allocations->options.mean_words)
        fp_turns_join(allocations->turns, pid);
    fp_relaxed_put(&known->since_ns, (uint64_t)now);
    fp_relaxed_put(&known->seen, 0);
}

static void count_length(struct fp_allocations *allocations, struct collector *thread,
                         int64_t length)
{
    fp_collections_add(allocations->collections, (uint32_t)(thread - allocations->thread),
                       fp_pid_slot(allocations->options.layout, thread->pid), thread->pid,
                       !thread->is_minor, (uint64_t)length,
                       (uint32_t)rounded(thread, thread->times));
}

static void count_group(const struct fp_allocations *allocations, struct collector *thread,
                        double words)
{
    uint32_t i = fp_share_group(&allocations->share, thread->pid);

    thread->group[i] += words;
    show(&thread->shown_group[i], thread->group[i]);
}

/* `has_ended`: it was told; else another one begins on this thread. */
static void end(struct fp_allocations *allocations, struct collector *thread, int has_ended)
{
    struct fp_known_process *known = known_of(allocations, thread->pid);
    int64_t now = has_ended ? fp_monotonic_ns() : thread->start_ns;
    int64_t length = now - thread->start_ns, long_ns = allocations->options.long_ns;
    int is_long = has_ended && long_ns > 0 && length >= long_ns, has_after = 0, has_failed = 0;
    struct fp_fresh after;
    double counted = thread->guess;
    uint64_t longest;

    (void)FP_CHECK(thread->is_open && thread->times > 0);
    thread->is_open = 0;
    thread->last_pid = thread->is_minor ? thread->pid : 0;
    thread->last_t_ns = thread->t_ns;
    if (has_ended && (thread->is_looked || is_long))
        has_after = read_process(allocations, known, thread->pid, &after) == 0;
    if (thread->is_looked && thread->is_minor && has_after && is_same(&thread->fresh, &after)) {
        has_failed = 1;
        /* For those without a look, too. */
        COUNT(thread, failed, rounded(thread, thread->times / thread->p));
        thread->weight = thread->fresh.words = 0;
    }
    if (thread->is_looked)
        count_window(thread);
    if (thread->is_looked)
        counted += ((double)thread->fresh.words - thread->guess) / thread->p;
    if (thread->turn != NULL)
        fp_turn_count(thread->turn, counted);
    if (thread->share_weight > 1)
        count_group(allocations, thread, thread->times * counted);
    show(&thread->shown_words, thread->words);
    if (thread->weight > 0 || (is_long && !has_failed && (has_after || thread->is_looked)))
        fp_collector_commit(allocations, thread, has_after ? &after : NULL, length,
                            is_long ? FP_ALLOCATION_LONG : 0);
    COUNT(thread, collection_ns, rounded(thread, (double)length * thread->times));
    if ((uint64_t)length > fp_relaxed_get(&thread->counter[COUNT_longest_ns]))
        fp_relaxed_put(&thread->counter[COUNT_longest_ns], (uint64_t)length);
    if (has_failed)
        return; /* the next one has its time */
    if (has_ended)
        count_length(allocations, thread, length);
    if (thread->is_looked)
        fp_collector_add(thread, COUNT_by_unknown + fp_collector_cause(&thread->fresh),
                         rounded(thread, thread->times / thread->p));
    if (thread->is_looked)
        fp_relaxed_put(&known->window, thread->fresh.words);
    else if (fp_relaxed_get(&known->pid) != thread->pid) {
        fp_relaxed_put(&known->window, 0);
        fp_relaxed_put(&known->address, 0);
    }
    longest =
        fp_relaxed_get(&known->pid) == thread->pid ? fp_relaxed_get(&known->length_ns) / 2 : 0;
    fp_relaxed_put(&known->length_ns, longest > (uint64_t)length ? longest : (uint64_t)length);
    if (thread->turn == NULL)
        join(allocations, known, thread->pid, now);
    fp_relaxed_put(&known->pid, thread->pid);
    fp_relaxed_put(&known->end_ns, (uint64_t)now);
    if (has_after)
        COUNT(thread, look_ns, (uint64_t)(fp_monotonic_ns() - now));
}

void fp_allocations_event(struct fp_allocations *allocations, uint32_t at, enum fp_gc_event event,
                          uint64_t pid, int is_dirty)
{
    struct collector *thread;
    int is_start = event == FP_GC_MINOR_START || event == FP_GC_MAJOR_START;

    if (at >= allocations->options.threads)
        return;
    thread = &allocations->thread[at];
    /* A process that is killed for its heap's size has no end of its collection. */
    if (thread->is_open && (is_start || thread->pid != pid))
        end(allocations, thread, 0);
    if (is_start)
        begin(allocations, thread, pid, event == FP_GC_MINOR_START, is_dirty);
    else if (thread->is_open)
        end(allocations, thread, 1);
}

int fp_allocations_keeps(struct fp_allocations *allocations, uint32_t at, uint64_t pid)
{
    double weight = fp_share_weight(&allocations->share, pid), words = 0, variance = 0;
    struct fp_turn *turn = fp_turns_find(allocations->turns, pid);
    struct collector *thread;
    int keeps;

    if (weight <= 0 && turn != NULL)
        fp_turn_leave(turn);
    if (weight <= 0 || turn == NULL || at >= allocations->options.threads)
        return weight > 0;
    thread = &allocations->thread[at];
    keeps = fp_turn_keeps(allocations->turns, turn, &words, &variance);
    thread->words += weight * words;
    thread->variance += weight * weight * variance;
    show(&thread->shown_words, thread->words);
    show(&thread->shown_variance, thread->variance);
    return keeps;
}

void fp_allocations_born(struct fp_allocations *allocations, uint32_t thread)
{
    COUNT(&allocations->thread[thread], born, 1);
}

void fp_allocations_press(struct fp_allocations *allocations, uint32_t pressure)
{
    uint64_t processes = allocations->processes;

    for (uint32_t i = 0; i < allocations->options.threads; i++)
        processes += fp_relaxed_get(&allocations->thread[i].counter[COUNT_born]);
    fp_share_press(&allocations->share, pressure, fp_monotonic_ns(), processes);
}

uint32_t fp_allocations_due(struct fp_allocations *allocations, uint64_t *pids, uint32_t most)
{
    return fp_turns_poll(allocations->turns, &allocations->share, pids, most);
}

/* ---------------------------------------------------------------- readers -- */

const struct fp_allocation *fp_allocations_peek(struct fp_allocations *allocations, uint32_t thread)
{
    size_t size;

    return fp_ring_peek(allocations->thread[thread].ring, &size);
}

void fp_allocations_release(struct fp_allocations *allocations, uint32_t thread)
{
    fp_ring_release(allocations->thread[thread].ring);
}

static double shown(const _Atomic uint64_t *at)
{
    uint64_t bits = fp_relaxed_get(at);
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

void fp_allocations_count(const struct fp_allocations *allocations,
                          struct fp_allocations_counters *counters)
{
    double group[FP_SHARE_GROUPS] = {0};

    memset(counters, 0, sizeof *counters);
    for (uint32_t i = 0; i < allocations->options.threads; i++) {
        const struct collector *thread = &allocations->thread[i];
        uint64_t longest = counters->longest_ns,
                 own = fp_relaxed_get(&thread->counter[COUNT_longest_ns]);

#define SUM(name) counters->name += fp_relaxed_get(&thread->counter[COUNT_##name]);
        FP_ALLOCATIONS_COUNTERS(SUM)
#undef SUM
        counters->longest_ns = longest > own ? longest : own;
        counters->words += shown(&thread->shown_words);
        counters->variance += shown(&thread->shown_variance);
        for (uint32_t g = 0; g < FP_SHARE_GROUPS; g++)
            group[g] += shown(&thread->shown_group[g]);
    }
    counters->words += fp_turns_debt(allocations->turns);
    counters->share = fp_share_of(&allocations->share);
    counters->variance += fp_share_variance(&allocations->share, group);
}

const struct fp_collections *fp_allocations_collections(const struct fp_allocations *allocations)
{
    return allocations->collections;
}

/* ----------------------------------------------------------------- choice -- */

struct choice {
    const struct fp_layout *layout;
    uint64_t *pid;
    uint32_t count;
};

static int add_process(void *arg, uint64_t address, const unsigned char *structure)
{
    struct choice *choice = arg;

    (void)address;
    /* Slots may be read twice while processes come and go. */
    if (choice->count < choice->layout->process_limit)
        choice->pid[choice->count++] = fp_process_field(choice->layout, structure, FP_FIELD_id);
    return 0;
}

int fp_allocations_choose(struct fp_allocations *allocations, uint64_t **pids, uint32_t *count)
{
    struct choice choice = {.layout = allocations->options.layout};
    int err;

    choice.pid = malloc(choice.layout->process_limit * sizeof *choice.pid);
    if (choice.pid == NULL)
        return FP_ENOMEM;
    err = fp_processes_each(choice.layout, allocations->options.own, add_process, &choice);
    if (err != 0) {
        free(choice.pid);
        return err;
    }
    allocations->processes = choice.count;
    fp_share_fit(&allocations->share, choice.count);
    *count = 0;
    for (uint32_t i = 0; i < choice.count; i++)
        if (fp_share_weight(&allocations->share, choice.pid[i]) > 0)
            choice.pid[(*count)++] = choice.pid[i];
    *pids = choice.pid;
    return 0;
}

/* --------------------------------------------------------------- lifetime -- */

int fp_allocations_create(struct fp_allocations **out, const struct fp_allocations_options *options)
{
    struct fp_allocations *made = calloc(1, sizeof *made);
    int err =
        options->threads == 0 || options->mean_words == 0 || options->looks == 0 ? FP_EINVAL : 0;

    if (made == NULL)
        return FP_ENOMEM;
    made->options = *options;
    made->known = calloc(KNOWN, sizeof *made->known);
    if (err == 0)
        made->collections = fp_collections_create(options->threads, options->layout->process_limit);
    if (err == 0 &&
        (made->known == NULL || made->collections == NULL ||
         posix_memalign((void **)&made->thread, 128, options->threads * sizeof *made->thread) != 0))
        err = FP_ENOMEM;
    if (err == 0)
        memset(made->thread, 0, options->threads * sizeof *made->thread);
    if (err == 0)
        err = fp_turns_create(&made->turns, options->layout, options->memory, options->mean_words,
                              options->seed);
    fp_share_init(&made->share, options->layout, options->seed);
    for (uint32_t i = 0; err == 0 && i < options->threads; i++) {
        struct collector *thread = &made->thread[i];

        thread->random = (options->seed + i + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        thread->by_turn.cpu_ns = -1;
        thread->by_time = (struct fp_pace){TIME_FIRST_NS, TIME_LEAST_NS, 0, fp_monotonic_ns(), -1};
        thread->by_window = (struct fp_pace){WINDOW_FIRST, 1, 0, fp_monotonic_ns(), -1};
        thread->by_process = (struct fp_pace){1, 1, 0, fp_monotonic_ns(), -1};
        err = fp_ring_create(&thread->ring,
                             options->threads > RING_THREADS ? RING_BYTES / 4 : RING_BYTES);
    }
    if (err != 0)
        fp_allocations_destroy(made);
    else
        *out = made;
    return err;
}

void fp_allocations_destroy(struct fp_allocations *allocations)
{
    for (uint32_t i = 0; allocations->thread != NULL && i < allocations->options.threads; i++)
        fp_ring_destroy(allocations->thread[i].ring);
    fp_turns_destroy(allocations->turns);
    free(allocations->thread);
    free(allocations->known);
    fp_collections_destroy(allocations->collections);
    free(allocations);
}
