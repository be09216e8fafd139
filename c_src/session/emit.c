#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "erts/process_names.h"
#include "erts/process_table.h"
#include "session/sampler_internal.h"

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
uint64_t fp_emit_nif_name(struct fp_sampler *s, const uint64_t mfa[3])
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

static int may_have_label(const struct fp_sampler *s, const struct fp_snapshot *now)
{
    return s->layout->term.process_label != 0 && now->dictionary != 0;
}

static int names_may_differ(const struct fp_sampler *s, const struct target *target,
                            const struct fp_snapshot *now)
{
    int64_t age = s->tick_us - target->named_us;
    int has_run = now->value[FP_METRIC_reductions] != target->named_reductions;

    return target->registered_at != now->registered_at ||
           (age >= LABEL_US && has_run && may_have_label(s, now)) ||
           (age >= NAMES_US && (has_run || now->registered_at != 0));
}

int fp_emit_sample(struct fp_sampler *s, uint32_t slot, const struct fp_snapshot *now,
                   const struct fp_stack *frames, const struct fp_work *work)
{
    struct target *target = &s->target[slot];
    uint32_t stack = target->series.stack;
    int64_t value[FP_METRIC_COUNT];

    memcpy(value, now->value, sizeof value);
    if (target->series.sampled &&
        value[FP_METRIC_reductions] < target->series.value[FP_METRIC_reductions])
        value[FP_METRIC_reductions] = target->series.value[FP_METRIC_reductions];
    if (names_may_differ(s, target, now))
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
    if ((frames != NULL && push_stack(s, frames, &stack) != 0) ||
        fp_series_push(&target->series, s->options.ring, slot, stack, now->status, s->tick_us,
                       value, work) != 0)
        goto full;
    target->stack_token = fp_stack_table_token(s->stacks, stack);
    target->has_work = work != NULL;
    if (work != NULL && work != &target->work)
        target->work = *work;
    target->stamp = now->stamp;
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
