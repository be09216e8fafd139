/* The life of a sample, from fp_sampler_tick() downwards. SAMPLER THREAD.
 *
 *   read     the structures of all targets, in one pass
 *   decide   by the structure alone: sample() is the whole decision
 *   stack    off CPU, copied with the stacks of others; on CPU, captured by the
 *            scheduler (on_cpu.c), and emitted when that capture is there
 *   verify   by the structure, read again behind the stack
 *   emit     records into the ring */
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "erts/process_names.h"
#include "erts/process_table.h"
#include "session/sampler_internal.h"

/* A process that moves during the first attempt has a second. */
enum attempt { FIRST, SECOND };

static void begin_tick(struct fp_sampler *s);
static void read_structures(struct fp_sampler *s);
static int sample(struct fp_sampler *s, uint32_t slot, unsigned char *bytes, enum attempt attempt,
                  struct target_copy *copy);
static void copy_stacks(struct fp_sampler *s, uint32_t n);
static int is_repeat(struct fp_sampler *s, struct target *target, const unsigned char *bytes);
static void emit_repeat(struct fp_sampler *s, uint32_t slot);
static int read_again(struct fp_sampler *s, struct target *target, unsigned char *bytes);
static int decode(struct fp_sampler *s, uint32_t slot, unsigned char *bytes, enum attempt attempt,
                  struct fp_snapshot *now);
static void emit_without_stack(struct fp_sampler *s, uint32_t slot, struct fp_snapshot *now);
static void emit_not_sampled(struct fp_sampler *s, uint32_t slot, const struct fp_snapshot *now);
static uint64_t name_nif(struct fp_sampler *s, const uint64_t mfa[3]);
static int names_may_differ(const struct fp_sampler *s, const struct target *target,
                            uint64_t registered_at, uint64_t dictionary, int64_t reductions);

void fp_sampler_tick(struct fp_sampler *s)
{
    uint32_t copies = 0;

    fp_on_cpu_poll(s); /* captures that earlier ticks requested */
    begin_tick(s);
    if (s->options.mode == FP_MODE_SCHEDULERS) {
        fp_on_cpu_request_all(s);
        return;
    }
    read_structures(s);
    for (uint32_t k = 0; k < s->live_n; k++)
        copies += (uint32_t)sample(s, s->live[k], s->span[k].result == 0 ? s->span[k].into : NULL,
                                   FIRST, &s->copy[copies]);
    copy_stacks(s, copies);
    fp_select_slice(s); /* the targets of later ticks */
}

/* One process in this tick: a sample, or a loss that is counted. `bytes`: its structure, NULL when
 * unreadable. 1 when the stack is to be copied first: *copy. */
static int sample(struct fp_sampler *s, uint32_t slot, unsigned char *bytes, enum attempt attempt,
                  struct target_copy *copy)
{
    struct target *target = &s->target[slot];
    struct fp_snapshot now;
    int err;

    if (bytes != NULL && attempt == FIRST && is_repeat(s, target, bytes)) {
        emit_repeat(s, slot);
        return 0;
    }
    err = bytes != NULL ? decode(s, slot, bytes, attempt, &now) : FP_EGONE;
    if (err == FP_EGONE) {
        fp_sampler_count(s, FP_COUNTER_attempted, attempt == FIRST);
        fp_sampler_count(s, FP_COUNTER_exited, 1);
        target->is_live = 0;
        return 0;
    }
    if (!fp_target_admits(target, now.status)) {
        if (attempt == SECOND)
            fp_sampler_give_up(s, FP_COUNTER_inconsistent_changed, 1);
        return 0;
    }
    fp_sampler_count(s, FP_COUNTER_attempted, attempt == FIRST);
    /* On CPU: the scheduler's capture is right, whatever was read here. */
    if (now.runs_erlang && s->options.running_stacks && fp_on_cpu_request(s, slot) == 0)
        return 0;
    if (err != 0 && fp_target_keep_sizes(s, target, &now) == 0)
        emit_not_sampled(s, slot, &now);
    else if (err != 0)
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_changed, 1);
    else if (now.runs_erlang)
        emit_without_stack(s, slot, &now);
    else {
        copy->slot = slot;
        fp_stack_copy_plan(&copy->stack, target->address, &now);
        fp_safe_read_soon(copy->stack.before.stop, 8 * (size_t)copy->stack.leaf_words);
        fp_off_cpu_work_plan(s, copy, bytes);
        return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- stacks -- */

static uint32_t plan_spans(struct fp_sampler *s, struct target_copy *copy, uint64_t *word,
                           struct fp_safe_read_span *span)
{
    uint32_t heap = fp_off_cpu_work_spans(copy, word + copy->stack.words, span);

    copy->stack.word = word;
    copy->stack.again = s->again + (size_t)copy->slot * s->layout->snapshot_size;
    copy->spans = heap + fp_stack_copy_spans(&copy->stack, s->layout, span + heap);
    return copy->spans;
}

static uint32_t words_of(const struct target_copy *copy)
{
    return copy->stack.words + fp_off_cpu_work_room(copy);
}

static void find_copy(const struct fp_sampler *s, struct target_copy *copy,
                      const struct fp_safe_read_span *span)
{
    uint32_t heap = fp_off_cpu_work_found(copy, span);

    fp_stack_copy_found(&copy->stack, span + heap);
    copy->is_whole =
        fp_stack_copy_is_whole(&copy->stack, s->layout, span + heap, copy->spans - heap);
}

static void emit_copy(struct fp_sampler *s, struct target_copy *copy, const struct fp_work *work)
{
    struct fp_stack_copy *stack = &copy->stack;
    uint64_t mfa[3], nif = FP_FRAME_NONE;
    struct fp_work with_trace;
    struct fp_stack frames;

    if (!fp_ranges_contain(&s->code, stack->before.i)) {
        if (fp_stack_dirty_nif(s->options.memory, stack->before.i, mfa))
            nif = name_nif(s, mfa);
        else
            atomic_store_explicit(&s->options.code->stale, 1, memory_order_relaxed);
    }
    fp_stack_copy_frames(stack, s->layout, s->options.memory, &s->code, nif, &frames);
    fp_target_add_dictionary(&stack->before, fp_dictionary_bytes(&stack->dictionary));
    /* An abandoned heap may change where the words do not. */
    s->target[copy->slot].is_of_words =
        fp_emit_sample(s, copy->slot, &stack->before, &frames,
                       fp_off_cpu_trace(s, copy, work, &with_trace)) &&
        stack->before.abandoned == 0;
}

/* The process moved during the first attempt. */
static void sample_again(struct fp_sampler *s, struct target_copy *copy)
{
    struct fp_safe_read_span span[FP_STACK_COPY_SPANS + FP_HEAP_COPY_SPANS];
    uint32_t slot = copy->slot;
    unsigned char *bytes = s->structure + (size_t)slot * s->layout->snapshot_size;

    fp_sampler_count(s, FP_COUNTER_retried, 1);
    if (read_again(s, &s->target[slot], bytes) != 0)
        bytes = NULL;
    if (!sample(s, slot, bytes, SECOND, copy))
        return;
    fp_off_cpu_otel(s, copy, 1);
    fp_safe_read_batch(s->options.memory, span, plan_spans(s, copy, s->stack_words, span));
    find_copy(s, copy, span);
    if (copy->is_whole) {
        fp_off_cpu_work_read(s, copy, 1);
        emit_copy(s, copy, fp_off_cpu_work(s, 0));
    } else if (copy->stack.before.status == FP_STATUS_garbage_collecting) {
        /* A collection is certain without the stack. */
        emit_without_stack(s, slot, &copy->stack.before);
    } else {
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_changed, 1);
    }
}

/* Reads for the copies [from, to), which fit into the scratch together. False: not one is known. */
static bool read_together(struct fp_sampler *s, uint32_t from, uint32_t to)
{
    uint32_t spans = 0, at = 0;
    uint64_t *word = s->stack_words;

    fp_off_cpu_otel(s, s->copy + from, to - from);
    for (uint32_t i = from; i < to; i++) {
        spans += plan_spans(s, &s->copy[i], word, s->span + spans);
        word += words_of(&s->copy[i]);
    }
    if (!FP_CHECK(word <= s->stack_words + FP_SAMPLER_STACK_WORDS))
        return false;
    fp_safe_read_view(s->options.memory, s->span, spans);
    for (uint32_t i = from; i < to; i++) {
        find_copy(s, &s->copy[i], s->span + at);
        at += s->copy[i].spans;
    }
    return FP_CHECK(at == spans);
}

static void copy_together(struct fp_sampler *s, uint32_t from, uint32_t to)
{
    uint32_t some;

    if (!read_together(s, from, to)) {
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_changed, to - from);
        return;
    }
    for (uint32_t i = from; i < to; i += some) {
        some = fp_off_cpu_work_read(s, &s->copy[i], to - i);
        for (uint32_t k = 0; k < some; k++)
            if (s->copy[i + k].is_whole)
                emit_copy(s, &s->copy[i + k], fp_off_cpu_work(s, k));
    }
    /* After the others: a second attempt overwrites the scratch. */
    for (uint32_t i = from; i < to; i++)
        if (!s->copy[i].is_whole)
            sample_again(s, &s->copy[i]);
}

static void copy_stacks(struct fp_sampler *s, uint32_t n)
{
    uint32_t from = 0, words = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (words + words_of(&s->copy[i]) > FP_SAMPLER_STACK_WORDS) {
            copy_together(s, from, i);
            from = i;
            words = 0;
        }
        words += words_of(&s->copy[i]);
    }
    copy_together(s, from, n);
}

/* --------------------------------------------------------------- reading -- */

static void begin_tick(struct fp_sampler *s)
{
    int64_t us = (fp_monotonic_ns() + s->options.clock_offset_ns) / 1000;
    uint32_t ranges = s->code.count;
    size_t words;
    int is_new;

    /* Each tick has a time of its own, whatever the clock's grain. */
    s->tick_us = us > s->tick_us ? us : s->tick_us + 1;
    fp_sampler_count(s, FP_COUNTER_ticks, 1);
    fp_live_ranges_copy(s->options.code, &s->code);
    /* A stack that was read with other ranges may lack frames. */
    if (ranges != 0 && s->code.count != ranges)
        fp_targets_forget_stacks(s);
    fp_off_cpu_work_begin(s);
    if (s->options.mode == FP_MODE_SCHEDULERS || s->options.pinned == NULL)
        return;
    s->pinned = fp_triple_buffer_take(s->options.pinned, &words, &is_new);
    s->pinned_n = words / FP_PINNED_WORDS;
    if (is_new)
        fp_targets_update(s);
}

/* fp_safe_read_lines() may point the spans to where the bytes are. */
static void read_structures(struct fp_sampler *s)
{
    uint32_t size = s->layout->snapshot_size;

    fp_targets_drop_exited(s);
    for (uint32_t k = 0; k < s->live_n; k++) {
        uint32_t slot = s->live[k];

        s->span[k] = (struct fp_safe_read_span){s->target[slot].address,
                                                s->structure + (size_t)slot * size, size, 0};
    }
    fp_safe_read_lines(s->options.memory, s->span, s->live_n);
}

static int read_again(struct fp_sampler *s, struct target *target, unsigned char *bytes)
{
    if (fp_safe_read(s->options.memory, target->address, bytes, s->layout->snapshot_size) != 0)
        return FP_EGONE;
    fp_process_words_read(s->layout, bytes, &target->words);
    return 0;
}

/* 0; FP_EGONE when the process has exited; FP_ETORN when the structure contradicts itself, at the
 * first attempt twice. */
static int decode(struct fp_sampler *s, uint32_t slot, unsigned char *bytes, enum attempt attempt,
                  struct fp_snapshot *now)
{
    struct target *target = &s->target[slot];
    int err = fp_process_decode_whole(s->layout, s->options.memory, bytes, now);

    if (err != 0 && attempt == FIRST && now->id == target->id) {
        if (read_again(s, target, bytes) != 0)
            return FP_EGONE;
        err = fp_process_decode_whole(s->layout, s->options.memory, bytes, now);
    }
    /* An end that the second attempt finds is no sample of the first one's process. */
    if (now->id != target->id || now->status == FP_STATUS_free ||
        (attempt == SECOND && now->status == FP_STATUS_exiting))
        return FP_EGONE;
    return err;
}

/* -------------------------------------------------- what has not changed -- */

/* The sample would equal the last one: that one was made of the same words, and all else that a
 * sample depends on is as it was. */
static int is_repeat(struct fp_sampler *s, struct target *target, const unsigned char *bytes)
{
    const uint64_t *word = target->words.word;
    struct fp_process_words words;
    int is_same;

    fp_process_words_read(s->layout, bytes, &words);
    is_same = target->is_of_words && memcmp(&words, &target->words, sizeof words) == 0;
    if (!is_same)
        target->words = words;
    target->is_of_words = 0;
    return is_same && fp_target_admits(target, target->series.status) &&
           !names_may_differ(s, target, word[FP_FIELD_registered], word[FP_FIELD_dictionary],
                             (int64_t)word[FP_FIELD_reds]) &&
           fp_stack_table_holds(s->stacks, target->series.stack, target->stack_token);
}

static void emit_repeat(struct fp_sampler *s, uint32_t slot)
{
    struct target *target = &s->target[slot];

    fp_sampler_count(s, FP_COUNTER_attempted, 1);
    target->series.scheduler = s->on_scheduler;
    if (fp_series_push(&target->series, s->options.ring, slot, target->series.stack,
                       target->series.status, s->tick_us, target->series.value,
                       target->has_work ? &target->work : NULL) != 0)
        fp_sampler_count(s, FP_COUNTER_dropped, 1);
    target->is_of_words = 1;
}

static void emit_without_stack(struct fp_sampler *s, uint32_t slot, struct fp_snapshot *now)
{
    if (fp_target_read_dictionary(s, slot, now) != 0)
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_changed, 1);
    else
        emit_not_sampled(s, slot, now);
}

static void emit_not_sampled(struct fp_sampler *s, uint32_t slot, const struct fp_snapshot *now)
{
    struct fp_stack stack;

    fp_stack_not_sampled(&stack, now->status);
    fp_emit_sample(s, slot, now, &stack, NULL);
}

/* --------------------------------------------------------------- records -- */

/* The names of a process that has run are read again after this time, as it may have set its label;
 * those of a registered one in any case: another registration may stand where the one before it
 * stood, which another process may have made. */
#define LABEL_US INT64_C(1000000)
#define NAMES_US INT64_C(5000000)

static int push_process(struct fp_sampler *s, uint32_t slot, const struct fp_snapshot *snapshot)
{
    struct fp_record_process *record =
        fp_record_begin(s->options.ring, FP_RECORD_PROCESS, sizeof *record);
    struct fp_process_names names;

    if (record == NULL)
        return FP_EFULL;
    fp_process_names_read(s->layout, s->options.memory, s->target[slot].address, snapshot, &names);
    record->slot = slot;
    record->goes_on = s->target[slot].series.sampled != 0;
    fp_pid_numbers(s->layout, snapshot->id, &record->number, &record->serial);
    record->registered_name = names.registered;
    record->initial_call = names.initial_call;
    record->proc_lib_initial_call = names.proc_lib;
    record->label = names.label;
    fp_ring_commit(s->options.ring);
    return 0;
}

/* Few NIFs are dirty: the table is never emptied, and its slots never change. */
static uint64_t name_nif(struct fp_sampler *s, const uint64_t mfa[3])
{
    uint64_t hash = fp_hash(mfa, 3 * sizeof mfa[0]);
    struct fp_record_name *record;
    uint32_t slot = 0, tried;

    for (tried = 0; tried < FP_NAMED_SLOTS; tried++) {
        slot = (uint32_t)(hash + tried) % FP_NAMED_SLOTS;
        if (memcmp(s->named[slot], mfa, sizeof s->named[slot]) == 0)
            return FP_FRAME_NIF | FP_FRAME_SLOT | slot;
        if (s->named[slot][0] == 0)
            break;
    }
    record = tried == FP_NAMED_SLOTS
                 ? NULL
                 : fp_record_begin(s->options.ring, FP_RECORD_NAME, sizeof *record);
    if (record == NULL)
        return FP_FRAME_NONE;
    record->slot = slot;
    record->mfa = (struct fp_mfa_words){mfa[0], mfa[1], mfa[2]};
    fp_ring_commit(s->options.ring);
    memcpy(s->named[slot], mfa, sizeof s->named[slot]);
    return FP_FRAME_NIF | FP_FRAME_SLOT | slot;
}

/* The slot of these frames, which the writer has then. 0 or FP_EFULL. */
static int push_stack(struct fp_sampler *s, const struct fp_stack *stack, uint32_t *slot)
{
    struct fp_record_stack *record;

    if (!FP_CHECK(stack->count > 0 && stack->count <= FP_STACK_FRAMES_MAX))
        return FP_EFULL;
    if (fp_stack_table_intern(s->stacks, stack->frame, stack->count, slot))
        return 0;
    fp_sampler_count(s, FP_COUNTER_stacks, 1);
    record = fp_record_begin(s->options.ring, FP_RECORD_STACK,
                             sizeof *record + sizeof *stack->frame * stack->count);
    if (record == NULL) {
        fp_stack_table_forget(s->stacks, *slot);
        return FP_EFULL;
    }
    record->head.count = (uint16_t)stack->count;
    record->slot = *slot;
    memcpy(record->frame, stack->frame, sizeof *stack->frame * stack->count);
    fp_ring_commit(s->options.ring);
    return 0;
}

static int names_may_differ(const struct fp_sampler *s, const struct target *target,
                            uint64_t registered_at, uint64_t dictionary, int64_t reductions)
{
    int may_have_label = s->layout->term.process_label != 0 && dictionary != 0;
    int64_t age = s->tick_us - target->named_us;
    int has_run = reductions != target->named_reductions;

    return target->registered_at != registered_at ||
           (age >= LABEL_US && has_run && may_have_label) ||
           (age >= NAMES_US && (has_run || registered_at != 0));
}

int fp_emit_sample(struct fp_sampler *s, uint32_t slot, const struct fp_snapshot *now,
                   const struct fp_stack *frames, const struct fp_work *work)
{
    struct target *target = &s->target[slot];
    uint32_t stack;
    int64_t value[FP_METRIC_COUNT];

    target->is_of_words = 0;
    memcpy(value, now->value, sizeof value);
    if (target->series.sampled &&
        value[FP_METRIC_reductions] < target->series.value[FP_METRIC_reductions])
        value[FP_METRIC_reductions] = target->series.value[FP_METRIC_reductions];
    if (names_may_differ(s, target, now->registered_at, now->dictionary,
                         now->value[FP_METRIC_reductions]))
        target->is_defined = 0;
    if (!target->is_defined) {
        if (push_process(s, slot, now) != 0)
            goto full;
        target->is_defined = 1;
        target->registered_at = now->registered_at;
        target->named_us = s->tick_us;
        target->named_reductions = now->value[FP_METRIC_reductions];
    }
    target->series.scheduler = s->on_scheduler;
    if (push_stack(s, frames, &stack) != 0 ||
        fp_series_push(&target->series, s->options.ring, slot, stack, now->status, s->tick_us,
                       value, work) != 0)
        goto full;
    target->stack_token = fp_stack_table_token(s->stacks, stack);
    target->has_work = work != NULL;
    if (work != NULL && work != &target->work)
        target->work = *work;
    return 1;
full:
    fp_sampler_count(s, FP_COUNTER_dropped, 1);
    return 0;
}

static int push_scheduler(struct fp_sampler *s, uint32_t slot, uint32_t number)
{
    struct fp_record_process *record =
        fp_record_begin(s->options.ring, FP_RECORD_PROCESS, sizeof *record);

    if (record == NULL)
        return FP_EFULL;
    record->is_scheduler = 1;
    record->slot = slot;
    record->number = number;
    fp_ring_commit(s->options.ring);
    s->target[slot].is_defined = 1;
    return 0;
}

void fp_emit_idle(struct fp_sampler *s, uint32_t slot, uint32_t number)
{
    static const int64_t nothing[FP_METRIC_COUNT];
    static const struct fp_stack idle = {.count = 1, .frame = {FP_FRAME_IDLE}};
    struct target *target = &s->target[slot];
    uint32_t stack;

    fp_sampler_count(s, FP_COUNTER_attempted, 1);
    target->series.scheduler = (uint16_t)number;
    if ((!target->is_defined && push_scheduler(s, slot, number) != 0) ||
        push_stack(s, &idle, &stack) != 0 ||
        fp_series_push(&target->series, s->options.ring, slot, stack, FP_STATUS_waiting, s->tick_us,
                       nothing, NULL) != 0)
        fp_sampler_count(s, FP_COUNTER_dropped, 1);
}
