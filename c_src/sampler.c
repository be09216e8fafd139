#include "sampler.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/error.h"
#include "core/record.h"
#include "core/series.h"
#include "core/stack_table.h"
#include "selector.h"
#include "vm/names.h"
#include "vm/process.h"
#include "vm/ptab.h"
#include "vm/stack.h"

/* The first selection counts from each process' start; the next one follows
 * soon, so that what is chosen is what is busy now. */
#define SECOND_SELECTION_MS 500u
/* Longest sleep before the stop flag is looked at again. */
#define SLEEP_MAX_NS INT64_C(50000000)
/* Stacks are copied together, as many as fit here. */
#define STACK_WORDS (256u << 10)
/* CPU time is read every so many ticks: the call costs as much as a sample. */
#define CPU_TICKS 16u

/* A chosen process. Its place in the array is its slot in PROCESS records. */
struct target {
    uint64_t id, address;
    uint8_t live;    /* the place is taken */
    uint8_t defined; /* the writer has its PROCESS record */
    uint8_t kept;    /* chosen again by the selection in hand */
    /* `previous` holds the structure of the last sample pushed, with its stack
     * read: not of a running process, whose stack moves without it. */
    uint8_t repeatable;
    struct fp_series series;
    /* Of the last sample pushed: */
    uint32_t state;
    uint64_t stack_token;
    uint64_t i, stop, hend, registered_at;
    /* Its dictionary's array, sized anew when it is another one. */
    uint64_t dictionary;
    int64_t dictionary_bytes;
};

/* A process whose stack is being copied in this tick. */
struct capture {
    uint32_t target;
    uint32_t words, leaf_words;
    uint64_t *word;
    struct fp_snapshot before;
};

struct fp_sampler {
    struct fp_sampler_options options;
    const struct fp_layout *layout; /* options.layout */
    struct fp_ranges code;
    struct fp_stack_table *stacks;
    struct fp_selector *selector;
    uint32_t slots_per_tick;
    struct target *target; /* options.top of them */
    uint32_t *live;        /* indices of those in use, live_n of them */
    uint32_t live_n;
    /* options.top x snapshot_size: of this tick, and of the last sample */
    unsigned char *structure, *previous;
    unsigned char *again;      /* likewise: read after the stacks */
    struct fp_peek_span *span; /* 3 x options.top */
    struct capture *capture;   /* options.top */
    uint64_t *stack_words;     /* STACK_WORDS */
    uint32_t *by_id;           /* hash of live targets, by_id_mask + 1 */
    uint32_t by_id_mask;
    size_t bytes; /* of the mapping behind the arrays above */
    uint64_t random;
    int64_t wall_offset_ns; /* Unix time less monotonic time, at the start */
    int64_t last_us;
    pthread_t thread;
    _Atomic int stopping; /* set by fp_sampler_stop (relaxed: only a flag) */
};

/* --------------------------------------------------------------- clocks -- */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* xorshift64: enough to keep the ticks from beating with the program's own
 * timers. */
static uint64_t next_random(struct fp_sampler *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* -------------------------------------------------------------- records -- */

static void count(struct fp_sampler *s, enum fp_stat stat, uint64_t n)
{
    fp_stats_add(s->options.stats, stat, n);
}

static int push_process(struct fp_sampler *s, uint32_t slot,
                        const struct fp_snapshot *snapshot)
{
    struct fp_record_process *record =
        fp_ring_reserve(s->options.ring, sizeof *record);
    struct fp_names names;

    if (record == NULL)
        return FP_EFULL;
    fp_names_read(s->layout, s->options.peek, snapshot,
                  s->options.initial_call_key, &names);
    memset(record, 0, sizeof *record);
    record->head.size = sizeof *record;
    record->head.type = FP_RECORD_PROCESS;
    record->slot = slot;
    fp_pid_numbers(s->layout, snapshot->id, &record->number, &record->serial);
    record->registered_name = names.registered;
    record->initial_call = names.initial_call;
    record->proc_lib_initial_call = names.proc_lib;
    fp_ring_commit(s->options.ring);
    return 0;
}

/* The slot of these frames, defined for the writer. 0 or FP_EFULL. */
static int push_stack(struct fp_sampler *s, const struct fp_stack *stack,
                      uint32_t *slot)
{
    size_t size = sizeof(struct fp_record_stack) + 8u * stack->count;
    struct fp_record_stack *record;

    if (fp_stack_table_intern(s->stacks, stack->frame, stack->count, slot))
        return 0;
    count(s, FP_STAT_stacks, 1);
    record = fp_ring_reserve(s->options.ring, size);
    if (record == NULL) {
        fp_stack_table_forget(s->stacks, *slot);
        return FP_EFULL;
    }
    memset(record, 0, sizeof *record);
    record->head.size = (uint32_t)size;
    record->head.type = FP_RECORD_STACK;
    record->head.count = (uint16_t)stack->count;
    record->slot = *slot;
    memcpy(record->frame, stack->frame, 8u * stack->count);
    fp_ring_commit(s->options.ring);
    return 0;
}

/* One sample, with what it needs defined before it. Dropped when the ring is
 * full; then the next one's deltas reach back to the last that was not. */
static int push(struct fp_sampler *s, uint32_t slot,
                const struct fp_snapshot *now, const struct fp_stack *frames)
{
    struct target *target = &s->target[slot];
    uint32_t stack = target->series.stack;

    if (target->registered_at != now->registered_at)
        target->defined = 0;
    if (!target->defined) {
        if (push_process(s, slot, now) != 0)
            goto full;
        target->defined = 1;
        target->registered_at = now->registered_at;
    }
    if (frames != NULL && push_stack(s, frames, &stack) != 0)
        goto full;
    if (fp_series_push(&target->series, s->options.ring, slot, stack,
                       now->status, s->last_us, now->value) != 0)
        goto full;
    target->stack_token = fp_stack_table_token(s->stacks, stack);
    target->state = now->state;
    target->i = now->i;
    target->stop = now->stop;
    target->hend = now->hend;
    return 1;
full:
    count(s, FP_STAT_dropped, 1);
    return 0;
}

static void push_pseudo(struct fp_sampler *s, uint32_t slot,
                        const struct fp_snapshot *now, uint64_t frame)
{
    struct fp_stack stack;

    stack.count = 1;
    stack.frame[0] = frame;
    push(s, slot, now, &stack);
}

/* --------------------------------------------------------------- a tick -- */

static void release(struct fp_sampler *s, uint32_t slot)
{
    s->target[slot].live = 0;
}

/* The frame that stands for a stack that can not be read now; 0: it can. */
static uint64_t pseudo_frame(const struct fp_snapshot *now)
{
    if (now->status == FP_STATUS_garbage_collecting)
        return FP_FRAME_GC;
    return now->runs_erlang ? FP_FRAME_RUNNING : FP_FRAME_NONE;
}

/* Nothing that its stack depends on has moved since the last sample, and the
 * writer still knows that stack. */
static int stack_is_known(struct fp_sampler *s, const struct target *target,
                          const struct fp_snapshot *now)
{
    return target->series.sampled && target->state == now->state &&
           target->i == now->i && target->stop == now->stop &&
           target->hend == now->hend &&
           target->series.value[FP_METRIC_reductions] ==
               now->value[FP_METRIC_reductions] &&
           fp_stack_table_holds(s->stacks, target->series.stack,
                                target->stack_token);
}

static int decode_once(struct fp_sampler *s, struct target *target,
                       const unsigned char *bytes, struct fp_snapshot *now)
{
    int err = fp_process_decode(s->layout, bytes, now);

    if (err != 0 || now->id != target->id)
        return err;
    if (now->dictionary != target->dictionary) {
        target->dictionary = now->dictionary;
        target->dictionary_bytes =
            fp_dictionary_bytes(s->options.peek, now->dictionary);
    }
    now->value[FP_METRIC_memory] += target->dictionary_bytes;
    return 0;
}

/* Read once more what contradicted itself. */
static int decode(struct fp_sampler *s, struct target *target,
                  unsigned char *bytes, struct fp_snapshot *now)
{
    if (decode_once(s, target, bytes, now) == 0)
        return 0;
    if (now->id != target->id)
        return FP_EGONE;
    if (fp_peek_read(s->options.peek, target->address, bytes,
                     s->layout->snapshot_size) != 0)
        return FP_EGONE;
    return decode_once(s, target, bytes, now);
}

static void plan_capture(struct capture *capture, uint32_t slot,
                         const struct fp_snapshot *now)
{
    uint64_t words = (now->hend - now->stop) / 8;

    capture->target = slot;
    capture->before = *now;
    capture->words = (uint32_t)words;
    capture->leaf_words = (uint32_t)words;
    if (words > FP_STACK_WORDS_MAX) {
        capture->words = FP_STACK_WORDS_MAX;
        capture->leaf_words = FP_STACK_WORDS_LEAF;
    }
}

static void remember(struct fp_sampler *s, uint32_t slot,
                     const unsigned char *bytes)
{
    size_t size = s->layout->snapshot_size;

    memcpy(s->previous + slot * size, bytes, size);
    s->target[slot].repeatable = 1;
}

/* Most processes wait: their structure is what it was, byte for byte, and so
 * is everything that would be read out of it. 1 when that was the sample. */
static int repeat(struct fp_sampler *s, uint32_t slot,
                  const unsigned char *bytes)
{
    struct target *target = &s->target[slot];
    const unsigned char *before =
        s->previous + (size_t)slot * s->layout->snapshot_size;

    if (!target->repeatable ||
        memcmp(bytes, before, s->layout->snapshot_size) != 0 ||
        !fp_stack_table_holds(s->stacks, target->series.stack,
                              target->stack_token))
        return 0;
    count(s, FP_STAT_taken, 1);
    if (fp_series_push(&target->series, s->options.ring, slot,
                       target->series.stack, target->series.status, s->last_us,
                       target->series.value) != 0)
        count(s, FP_STAT_dropped, 1);
    return 1;
}

/* What one look at a chosen process comes to: a sample, a capture to do, or a
 * loss that is counted. 1 when a capture was planned. */
static int look_at(struct fp_sampler *s, uint32_t slot, unsigned char *bytes,
                   int readable, struct capture *capture)
{
    struct target *target = &s->target[slot];
    struct fp_snapshot now;
    uint64_t frame;
    int err;

    if (readable && repeat(s, slot, bytes))
        return 0;
    target->repeatable = 0;
    err = readable ? decode(s, target, bytes, &now) : FP_EGONE;

    if (err == FP_EGONE || now.id != target->id ||
        now.status == FP_STATUS_free) {
        count(s, FP_STAT_taken, 1);
        count(s, FP_STAT_gone, 1);
        release(s, slot);
        return 0;
    }
    if (s->options.status >= 0 && now.status != s->options.status)
        return 0; /* not asked for */
    count(s, FP_STAT_taken, 1);
    if (err != 0) {
        count(s, FP_STAT_torn, 1);
        return 0;
    }
    frame = pseudo_frame(&now);
    if (frame != FP_FRAME_NONE)
        push_pseudo(s, slot, &now, frame);
    else if (stack_is_known(s, target, &now)) {
        if (push(s, slot, &now, NULL))
            remember(s, slot, bytes);
    } else {
        plan_capture(capture, slot, &now);
        return 1;
    }
    return 0;
}

/* The stack's ends, then the structure once more, in this order. */
static uint32_t plan_spans(struct fp_sampler *s, struct capture *capture,
                           struct fp_peek_span *span)
{
    const struct fp_snapshot *before = &capture->before;
    uint32_t n = 0, root = capture->words - capture->leaf_words;
    unsigned char *again =
        s->again + (size_t)capture->target * s->layout->snapshot_size;

    if (capture->leaf_words > 0)
        span[n++] = (struct fp_peek_span){before->stop, capture->word,
                                          8 * capture->leaf_words, 0};
    if (root > 0)
        span[n++] = (struct fp_peek_span){before->hend - 8ull * root,
                                          capture->word + capture->leaf_words,
                                          8 * root, 0};
    span[n++] = (struct fp_peek_span){s->target[capture->target].address, again,
                                      s->layout->snapshot_size, 0};
    return n;
}

static int same_moment(const struct fp_snapshot *a, const struct fp_snapshot *b)
{
    return a->id == b->id && a->state == b->state && a->stop == b->stop &&
           a->hend == b->hend && a->i == b->i &&
           a->value[FP_METRIC_reductions] == b->value[FP_METRIC_reductions];
}

/* Did the process hold still while its stack was copied? */
static int is_whole(struct fp_sampler *s, const struct capture *capture,
                    const struct fp_peek_span *span, uint32_t n)
{
    const unsigned char *again =
        s->again + (size_t)capture->target * s->layout->snapshot_size;
    struct fp_snapshot after;

    for (uint32_t i = 0; i < n; i++)
        if (span[i].result != 0)
            return 0;
    return fp_process_decode(s->layout, again, &after) == 0 &&
           same_moment(&capture->before, &after);
}

static void push_capture(struct fp_sampler *s, const struct capture *capture)
{
    struct fp_stack frames;

    if (!fp_ranges_contain(&s->code, capture->before.i))
        atomic_store_explicit(&s->options.code->stale, 1, memory_order_relaxed);
    fp_stack_frames(&frames, &s->code, capture->before.i, capture->word,
                    capture->words, capture->leaf_words);
    if (frames.count == 0) {
        frames.count = 1;
        frames.frame[0] = FP_FRAME_UNREADABLE;
    }
    push(s, capture->target, &capture->before, &frames);
}

/* A second try for one that moved; after that it is counted as torn. */
static void retry(struct fp_sampler *s, struct capture *capture)
{
    struct target *target = &s->target[capture->target];
    unsigned char *bytes =
        s->structure + (size_t)capture->target * s->layout->snapshot_size;
    struct fp_peek_span span[3];
    struct fp_snapshot now;
    uint32_t n;
    int err;

    count(s, FP_STAT_retried, 1);
    if (fp_peek_read(s->options.peek, target->address, bytes,
                     s->layout->snapshot_size) != 0)
        err = FP_EGONE;
    else
        err = decode_once(s, target, bytes, &now);
    if (err == FP_EGONE || now.id != target->id ||
        now.status == FP_STATUS_free) {
        count(s, FP_STAT_gone, 1);
        release(s, capture->target);
        return;
    }
    /* Of another status now: not asked for, but begun, so torn. */
    if (s->options.status >= 0 && now.status != s->options.status)
        err = FP_ETORN;
    if (err == 0) {
        if (pseudo_frame(&now) != FP_FRAME_NONE) {
            push_pseudo(s, capture->target, &now, pseudo_frame(&now));
            return;
        }
        plan_capture(capture, capture->target, &now);
        capture->word = s->stack_words;
        n = plan_spans(s, capture, span);
        fp_peek_batch(s->options.peek, span, n);
        if (is_whole(s, capture, span, n)) {
            push_capture(s, capture);
            return;
        }
    }
    count(s, FP_STAT_torn, 1);
}

/* Captures [from, to): their stacks fit into the scratch together. */
static void capture_together(struct fp_sampler *s, uint32_t from, uint32_t to)
{
    uint32_t spans = 0, at = 0;
    uint32_t torn = 0;

    for (uint32_t i = from; i < to; i++)
        spans += plan_spans(s, &s->capture[i], s->span + spans);
    fp_peek_batch(s->options.peek, s->span, spans);
    for (uint32_t i = from; i < to; i++) {
        struct capture *capture = &s->capture[i];
        uint32_t root = capture->words - capture->leaf_words;
        uint32_t n =
            1u + (capture->leaf_words > 0 ? 1 : 0) + (root > 0 ? 1 : 0);

        if (is_whole(s, capture, s->span + at, n))
            push_capture(s, capture);
        else
            s->capture[from + torn++] = *capture;
        at += n;
    }
    /* After the others: these overwrite the scratch. */
    for (uint32_t i = from; i < from + torn; i++)
        retry(s, &s->capture[i]);
}

static void capture_all(struct fp_sampler *s, uint32_t n)
{
    uint32_t from = 0, used = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (used + s->capture[i].words > STACK_WORDS) {
            capture_together(s, from, i);
            from = i;
            used = 0;
        }
        s->capture[i].word = s->stack_words + used;
        used += s->capture[i].words;
    }
    capture_together(s, from, n);
}

/* Those released in the last tick are not looked at again. */
static void drop_released(struct fp_sampler *s)
{
    uint32_t kept = 0;

    for (uint32_t k = 0; k < s->live_n; k++)
        if (s->target[s->live[k]].live)
            s->live[kept++] = s->live[k];
    s->live_n = kept;
    fp_stats_set(s->options.stats, FP_STAT_selected, kept);
}

static void sample_all(struct fp_sampler *s)
{
    size_t size = s->layout->snapshot_size;
    uint32_t captures = 0;

    drop_released(s);
    for (uint32_t k = 0; k < s->live_n; k++) {
        uint32_t slot = s->live[k];

        s->span[k] = (struct fp_peek_span){s->target[slot].address,
                                           s->structure + slot * size,
                                           (uint32_t)size, 0};
    }
    fp_peek_view(s->options.peek, s->span, s->live_n);
    for (uint32_t k = 0; k < s->live_n; k++) {
        uint32_t slot = s->live[k];

        captures +=
            (uint32_t)look_at(s, slot, s->span[k].into, s->span[k].result == 0,
                              &s->capture[captures]);
    }
    capture_all(s, captures);
}

/* ----------------------------------------------------------- the choice -- */

static uint32_t *place_of(struct fp_sampler *s, uint64_t id)
{
    uint64_t at = id * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    for (;; at++) {
        uint32_t *place = &s->by_id[at & s->by_id_mask];

        if (*place == UINT32_MAX || s->target[*place].id == id)
            return place;
    }
}

static void list_live(struct fp_sampler *s)
{
    s->live_n = 0;
    for (uint32_t slot = 0; slot < s->options.top; slot++)
        if (s->target[slot].live)
            s->live[s->live_n++] = slot;
    fp_stats_set(s->options.stats, FP_STAT_selected, s->live_n);
}

static void admit(struct fp_sampler *s, const struct fp_candidate *candidate,
                  uint32_t *next)
{
    while (s->target[*next].live)
        ++*next;
    s->target[*next] = (struct target){.id = candidate->id,
                                       .address = candidate->address,
                                       .live = 1,
                                       .kept = 1};
    /* Two slots of a table in motion may have named it: once is enough. */
    *place_of(s, candidate->id) = *next;
    ++*next;
}

/* Make the chosen the set: who stays keeps its slot and its history. */
static void adopt(struct fp_sampler *s)
{
    const struct fp_candidate *chosen;
    uint64_t processes;
    uint32_t next = 0;
    size_t n;

    chosen = fp_selector_chosen(s->selector, &n, &processes);
    memset(s->by_id, 0xff, (s->by_id_mask + 1) * sizeof *s->by_id);
    for (uint32_t slot = 0; slot < s->options.top; slot++) {
        s->target[slot].kept = 0;
        if (s->target[slot].live)
            *place_of(s, s->target[slot].id) = slot;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t slot = *place_of(s, chosen[i].id);

        if (slot != UINT32_MAX)
            s->target[slot].kept = 1;
    }
    for (uint32_t slot = 0; slot < s->options.top; slot++)
        if (s->target[slot].live && !s->target[slot].kept)
            release(s, slot);
    for (size_t i = 0; i < n; i++)
        if (*place_of(s, chosen[i].id) == UINT32_MAX)
            admit(s, &chosen[i], &next);
    list_live(s);
    count(s, FP_STAT_selections, 1);
    fp_stats_set(s->options.stats, FP_STAT_processes, processes);
}

static uint32_t slots_per_tick(const struct fp_sampler *s, uint32_t pass_ms)
{
    uint64_t ticks = (uint64_t)pass_ms * 1000 / s->options.interval_us;

    if (ticks == 0)
        ticks = 1;
    return (uint32_t)((fp_selector_slots(s->selector) + ticks - 1) / ticks);
}

static void select_slice(struct fp_sampler *s)
{
    if (s->options.top == 0 ||
        !fp_selector_step(s->selector, s->slots_per_tick))
        return;
    adopt(s);
    s->slots_per_tick = slots_per_tick(s, s->options.select_interval_ms);
}

static void select_first(struct fp_sampler *s)
{
    uint32_t soon = s->options.select_interval_ms < SECOND_SELECTION_MS
                        ? s->options.select_interval_ms
                        : SECOND_SELECTION_MS;

    s->slots_per_tick = slots_per_tick(s, soon);
    if (s->options.top > 0 &&
        fp_selector_step(s->selector, fp_selector_slots(s->selector)))
        adopt(s);
}

/* ---------------------------------------------------------- the thread -- */

static void tick(struct fp_sampler *s)
{
    int64_t us = (clock_ns(CLOCK_MONOTONIC) + s->wall_offset_ns) / 1000;

    /* Each tick has a time of its own, whatever the clock's grain. */
    s->last_us = us > s->last_us ? us : s->last_us + 1;
    fp_live_ranges_copy(s->options.code, &s->code);
    count(s, FP_STAT_ticks, 1);
    sample_all(s);
    select_slice(s);
}

static int is_stopping(struct fp_sampler *s)
{
    return atomic_load_explicit(&s->stopping, memory_order_relaxed);
}

static void sleep_until(struct fp_sampler *s, int64_t deadline_ns)
{
    while (!is_stopping(s)) {
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        int64_t until =
            deadline_ns - now > SLEEP_MAX_NS ? now + SLEEP_MAX_NS : deadline_ns;
        struct timespec at = {until / 1000000000, until % 1000000000};

        if (now >= deadline_ns)
            return;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
}

static void account_cpu(struct fp_sampler *s)
{
    fp_stats_set(s->options.stats, FP_STAT_sampler_cpu_ns,
                 (uint64_t)clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

/* Tick k is due at start + k x interval, plus a jitter of up to a sixteenth;
 * ticks whose time has passed are counted, never caught up with. */
static void *sampler_main(void *arg)
{
    struct fp_sampler *s = arg;
    int64_t interval = (int64_t)s->options.interval_us * 1000, start;
    int64_t k = 0;

    select_first(s);
    start = clock_ns(CLOCK_MONOTONIC);
    while (!is_stopping(s)) {
        int64_t jitter = (int64_t)(next_random(s) % (uint64_t)interval) / 16;
        int64_t due;

        sleep_until(s, start + k * interval + jitter);
        if (is_stopping(s))
            break;
        tick(s);
        due = (clock_ns(CLOCK_MONOTONIC) - start) / interval;
        if (due > k) {
            count(s, FP_STAT_missed, (uint64_t)(due - k));
            k = due;
        }
        k++;
        if (k % CPU_TICKS == 0)
            account_cpu(s);
    }
    account_cpu(s);
    s->options.ended(s->options.arg);
    return NULL;
}

/* ------------------------------------------------------ life and death -- */

/* The next piece of the mapping at `base`; without one, only its size. */
static void *carve(unsigned char *base, size_t *used, size_t size)
{
    size_t at = *used;

    *used += (size + 63) & ~(size_t)63;
    return base == NULL ? NULL : base + at;
}

static size_t carve_arrays(struct fp_sampler *s, unsigned char *base)
{
    size_t top = s->options.top, size = s->layout->snapshot_size, used = 0;

    s->by_id_mask = 1;
    while (s->by_id_mask < 4 * top + 4)
        s->by_id_mask *= 2;
    s->target = carve(base, &used, top * sizeof *s->target);
    s->live = carve(base, &used, top * sizeof *s->live);
    s->structure = carve(base, &used, top * size);
    s->previous = carve(base, &used, top * size);
    s->again = carve(base, &used, top * size);
    s->span = carve(base, &used, 3 * (top + 1) * sizeof *s->span);
    s->capture = carve(base, &used, (top + 1) * sizeof *s->capture);
    s->by_id = carve(base, &used, s->by_id_mask * sizeof *s->by_id);
    s->stack_words = carve(base, &used, STACK_WORDS * sizeof *s->stack_words);
    s->by_id_mask--;
    return used;
}

static int map_arrays(struct fp_sampler *s)
{
    unsigned char *base;

    s->bytes = carve_arrays(s, NULL);
    base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (base == MAP_FAILED) {
        s->bytes = 0;
        return FP_ENOMEM;
    }
    carve_arrays(s, base);
    return 0;
}

int fp_sampler_create(struct fp_sampler **out,
                      const struct fp_sampler_options *options)
{
    struct fp_sampler *s;
    int err = FP_ENOMEM;

    if (options->interval_us == 0 || options->top > FP_TOP_MAX)
        return FP_EINVAL;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return FP_ENOMEM;
    s->options = *options;
    s->layout = &s->options.layout;
    s->random = (uint64_t)clock_ns(CLOCK_MONOTONIC) | 1;
    s->wall_offset_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    if (map_arrays(s) != 0 || fp_stack_table_create(&s->stacks) != 0 ||
        fp_selector_create(&s->selector, s->layout, options->peek, options->top,
                           options->excluded, options->excluded_n) != 0)
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
    fp_selector_destroy(s->selector);
    fp_stack_table_destroy(s->stacks);
    if (s->bytes > 0)
        munmap(s->target, s->bytes);
    free(s);
}

uint64_t fp_sampler_run(struct fp_sampler *s, uint32_t n)
{
    int64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    if (fp_stats_get(s->options.stats, FP_STAT_selections) == 0)
        select_first(s);
    for (uint32_t i = 0; i < n; i++)
        tick(s);
    return (uint64_t)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
}

int fp_sampler_start(struct fp_sampler **out,
                     const struct fp_sampler_options *options)
{
    struct fp_sampler *s;
    sigset_t all, old;
    int err = fp_sampler_create(&s, options);

    if (err != 0)
        return err;
    /* The VM's signals are the VM's threads' business. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&s->thread, NULL, sampler_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err != 0) {
        fp_sampler_destroy(s);
        return FP_ETHREAD;
    }
    pthread_setname_np(s->thread, "flame_prof_smp");
    *out = s;
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
