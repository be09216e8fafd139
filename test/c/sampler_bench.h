/* sampler_bench.h - a sampler over a fake VM, without its thread, and the writer's side of the
 * ring: what is used was defined, and deltas are right. */
#pragma once

#include <stdatomic.h>

#include "fake_vm.h"
#include "format/record.h"
#include "run.h"
#include "sampler_run.h"
#include "session/sampler_internal.h"

struct known_process {
    int defined, sampled;
    int fresh; /* no SAMPLE since it was last defined */
    int is_scheduler;
    uint32_t number, stack;
    uint8_t status;
    uint64_t registered;
    int64_t value[FP_METRIC_COUNT];
};

struct known_stack {
    uint32_t count; /* 0: not defined */
    uint64_t frame[FP_STACK_FRAMES_MAX];
};

struct bench {
    struct fake_vm vm;
    struct fp_ring *ring;
    struct fp_counters counters;
    struct fp_sampler *sampler;
    struct fp_sampler_options options;
    /* What the writer would know. */
    struct known_process process[FP_PROCESS_SLOTS];
    struct known_stack stack[FP_STACK_SLOTS];
    uint64_t samples, repeats, definitions, stacks, names;
    uint64_t goes_on;           /* definitions of processes that kept their slots */
    struct fp_record_name name; /* the last one */
    int64_t last_us;
    struct fp_record_sample last; /* the last SAMPLE */
    struct fp_work work;          /* of the last sample of a process; zeros: none */
    uint64_t seen[64]; /* samples of process number n, unless is_late in the last drain */
    /* Of captures, whose samples come late: */
    int is_late;
    struct fp_live_cstack cstack;
    _Atomic uint32_t online;
    uint16_t ran_on[64]; /* by process: the scheduler that a sample named last */
    uint64_t idle[64];   /* by scheduler */
};

static struct bench *bench_create(unsigned otp, uint32_t limit, uint32_t processes)
{
    struct bench *b = calloc(1, sizeof *b);

    fake_vm_create(&b->vm, otp, limit, processes);
    CHECK_INT(fp_ring_create(&b->ring, 1u << 16), 0);
    b->options =
        (struct fp_sampler_options){.layout = b->vm.layout,
                                    .memory = &b->vm.memory.reader,
                                    .code = &b->vm.live_code,
                                    .ring = b->ring,
                                    .counters = &b->counters,
                                    .interval_us = 1000,
                                    .ranking = {{.top = processes, .is_delta = 1, .every = 1}},
                                    .rankings = 1,
                                    .select_interval_ms = 1000000,
                                    .status = -1};
    return b;
}

static void bench_destroy(struct bench *b)
{
    fp_sampler_destroy(b->sampler);
    fp_ring_destroy(b->ring);
    fake_vm_destroy(&b->vm);
    free(b);
}

static int is_first(const struct fp_record_sample *record)
{
    for (int m = 0; m < FP_METRIC_COUNT; m++)
        if (record->delta[m] != 0)
            return 0;
    return 1;
}

static void take_sample(struct bench *b, const struct fp_record_sample *record, size_t size)
{
    struct known_process *process = &b->process[record->process];
    int is_repeat = record->head.type == FP_RECORD_REPEAT;

    CHECK(record->process < FP_PROCESS_SLOTS);
    CHECK(process->defined);
    CHECK(record->stack < FP_STACK_SLOTS);
    CHECK(b->stack[record->stack].count > 0);
    CHECK(b->is_late || record->time_us >= b->last_us);
    b->last_us = record->time_us;
    b->samples++;
    if (!process->is_scheduler)
        memset(&b->work, 0, sizeof b->work);
    if (fp_record_work(&record->head) != NULL) {
        b->work = *fp_record_work(&record->head);
        size -= sizeof b->work;
    }
    CHECK(process->number < 64);
    if (process->is_scheduler) {
        b->idle[process->number]++;
    } else {
        b->seen[process->number]++;
        if (record->head.count != 0)
            b->ran_on[process->number] = record->head.count;
    }
    if (is_repeat) {
        b->repeats++;
        CHECK_INT(size, FP_RECORD_REPEAT_SIZE);
        CHECK(process->sampled);
        CHECK_INT(record->head.status, process->status);
        CHECK_INT(record->stack, process->stack);
        return;
    }
    CHECK_INT(size, sizeof *record);
    b->last = *record;
    /* Defined anew: chosen again with a new history, or under a new name. */
    if (process->fresh && is_first(record))
        process->sampled = 0;
    process->fresh = 0;
    for (int m = 0; m < FP_METRIC_COUNT; m++) {
        int64_t delta = record->value[m] - process->value[m];

        if (m == FP_METRIC_minor_gcs && delta < 0)
            delta = record->value[m];
        if (!process->sampled)
            delta = 0;
        CHECK_INT(record->delta[m], delta);
        process->value[m] = record->value[m];
    }
    process->sampled = 1;
    process->status = record->head.status;
    process->stack = record->stack;
}

/* A slot is given to a process anew: its history begins. The sampler says so with a PROCESS record,
 * as it does when a name has changed. */
static void take_process(struct bench *b, const struct fp_record_process *record)
{
    struct known_process *process = &b->process[record->slot];

    CHECK(record->slot < FP_PROCESS_SLOTS);
    b->definitions++;
    b->goes_on += record->goes_on;
    if (record->goes_on) /* the writer may carry on from its last sample there */
        CHECK(process->sampled && process->number == record->number);
    if (!process->defined || process->number != record->number)
        memset(process, 0, sizeof *process);
    process->defined = process->fresh = 1;
    process->number = record->number;
    process->is_scheduler = record->is_scheduler;
    process->registered = record->registered_name;
}

static void take_record(struct bench *b, const struct fp_record *record, size_t size)
{
    const struct fp_record_stack *stack = (const void *)record;

    CHECK_INT(record->size, size);
    switch (record->type) {
    case FP_RECORD_PROCESS:
        take_process(b, (const void *)record);
        break;
    case FP_RECORD_STACK:
        CHECK(stack->slot < FP_STACK_SLOTS);
        CHECK(record->count > 0 && record->count <= FP_STACK_FRAMES_MAX);
        CHECK_INT(size, sizeof *stack + 8u * record->count);
        b->stack[stack->slot].count = record->count;
        memcpy(b->stack[stack->slot].frame, stack->frame, 8u * record->count);
        b->stacks++;
        break;
    case FP_RECORD_NAME:
        CHECK_INT(size, sizeof(struct fp_record_name));
        b->names++;
        b->name = *(const struct fp_record_name *)record;
        break;
    case FP_RECORD_SAMPLE:
    case FP_RECORD_REPEAT:
        take_sample(b, (const void *)record, size);
        break;
    default:
        RUN_FAIL("a record of type %d", record->type);
    }
    fp_ring_release(b->ring);
}

static void drain(struct bench *b)
{
    const struct fp_record *record;
    size_t size;

    if (!b->is_late)
        memset(b->seen, 0, sizeof b->seen);
    while ((record = fp_ring_peek(b->ring, &size)) != NULL)
        take_record(b, record, size);
}

static uint64_t stat(struct bench *b, enum fp_counter stat)
{
    return fp_counters_get(&b->counters, stat);
}

/* Samples that wait for a capture are begun and not ended. */
static uint64_t pending(const struct bench *b)
{
    uint64_t ticks = 0;

    for (unsigned at = 0; b->sampler != NULL && at < b->sampler->schedulers; at++)
        if (b->sampler->pending[at].is_open)
            ticks += b->sampler->pending[at].ticks;
    return ticks;
}

static void check_books(struct bench *b)
{
    CHECK_INT(stat(b, FP_COUNTER_attempted), b->samples + stat(b, FP_COUNTER_inconsistent) +
                                                 stat(b, FP_COUNTER_dropped) +
                                                 stat(b, FP_COUNTER_exited) + pending(b));
    CHECK_INT(stat(b, FP_COUNTER_inconsistent),
              stat(b, FP_COUNTER_inconsistent_changed) + stat(b, FP_COUNTER_inconsistent_moved) +
                  stat(b, FP_COUNTER_inconsistent_unfound) + stat(b, FP_COUNTER_inconsistent_late));
}

static void bench_end(struct bench *b)
{
    check_books(b);
    bench_destroy(b);
}

static void start(struct bench *b)
{
    CHECK_INT(fp_sampler_create(&b->sampler, &b->options), 0);
}

static void tick(struct bench *b)
{
    sampler_run(b->sampler, 1);
    drain(b);
}

/* The frames of the last SAMPLE. */
static const struct known_stack *last_stack(const struct bench *b)
{
    return &b->stack[b->last.stack];
}
