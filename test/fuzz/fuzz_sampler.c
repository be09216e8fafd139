/* fuzz_sampler.c - a few ticks of the sampler over any process table, structures and stacks, which
 * change while it reads: the records in its ring are valid for the writer, and its counters
 * balance. */
#include "fuzz.h"

#include "base/ring.h"
#include "format/record.h"
#include "sampler_run.h"
#include "session/sampler.h"

#define TICKS 3
#define TOP 4u

struct writer {
    uint8_t is_process[FP_PROCESS_SLOTS], is_stack[FP_STACK_SLOTS];
    uint64_t samples;
    int64_t last_us;
};

static void take_stack(struct writer *writer, const struct fp_record_stack *record)
{
    FUZZ_CHECK(record->slot < FP_STACK_SLOTS);
    FUZZ_CHECK(record->head.count > 0 && record->head.count <= FP_STACK_FRAMES_MAX);
    FUZZ_CHECK(record->head.size == sizeof *record + 8u * (size_t)record->head.count);
    writer->is_stack[record->slot] = 1;
}

static void take_sample(struct writer *writer, const struct fp_record_sample *record)
{
    FUZZ_CHECK(record->process < FP_PROCESS_SLOTS && writer->is_process[record->process]);
    FUZZ_CHECK(record->stack < FP_STACK_SLOTS && writer->is_stack[record->stack]);
    FUZZ_CHECK(record->head.status < FP_STATUS_COUNT);
    FUZZ_CHECK(record->time_us >= writer->last_us);
    writer->last_us = record->time_us;
    writer->samples++;
    for (int metric = 0; record->head.type == FP_RECORD_SAMPLE && metric < FP_METRIC_COUNT;
         metric++)
        FUZZ_CHECK(record->value[metric] >= 0);
}

static void take(struct writer *writer, const struct fp_record *record)
{
    const struct fp_record_process *process = (const void *)record;
    const struct fp_record_name *name = (const void *)record;

    switch (record->type) {
    case FP_RECORD_PROCESS:
        FUZZ_CHECK(process->slot < FP_PROCESS_SLOTS);
        writer->is_process[process->slot] = 1;
        break;
    case FP_RECORD_STACK:
        take_stack(writer, (const void *)record);
        break;
    case FP_RECORD_NAME:
        FUZZ_CHECK(name->slot < FP_NAMED_SLOTS && name->mfa.module != 0);
        break;
    default:
        FUZZ_CHECK(record->type == FP_RECORD_SAMPLE || record->type == FP_RECORD_REPEAT);
        take_sample(writer, (const void *)record);
    }
}

static void drain(struct writer *writer, struct fp_ring *ring)
{
    const struct fp_record *record;
    size_t size;

    while ((record = fp_ring_peek(ring, &size)) != NULL) {
        FUZZ_CHECK(record->size == size && size % 8 == 0);
        take(writer, record);
        fp_ring_release(ring);
    }
}

static void check_counters(const struct writer *writer, const struct fp_counters *stats)
{
    FUZZ_CHECK(fp_counters_get(stats, FP_COUNTER_attempted) ==
               writer->samples + fp_counters_get(stats, FP_COUNTER_inconsistent) +
                   fp_counters_get(stats, FP_COUNTER_dropped) +
                   fp_counters_get(stats, FP_COUNTER_exited));
    FUZZ_CHECK(fp_counters_get(stats, FP_COUNTER_inconsistent) ==
               fp_counters_get(stats, FP_COUNTER_inconsistent_changed) +
                   fp_counters_get(stats, FP_COUNTER_inconsistent_moved) +
                   fp_counters_get(stats, FP_COUNTER_inconsistent_unfound) +
                   fp_counters_get(stats, FP_COUNTER_inconsistent_late));
}

static void run(const struct fp_sampler_options *options, struct fuzz_memory *memory)
{
    static struct writer writer;
    struct fp_sampler *sampler;
    uint32_t slots = options->layout.process_limit;

    memset(&writer, 0, sizeof writer);
    FUZZ_CHECK(fp_sampler_create(&sampler, options) == 0);
    for (int tick = 0; tick < TICKS; tick++) {
        uint64_t asked = fuzz_memory_asked(memory);

        sampler_run(sampler, 1);
        drain(&writer, options->ring);
        check_counters(&writer, options->counters);
        /* A selection, and two looks at each: structure, stack, names. */
        FUZZ_CHECK(fuzz_memory_asked(memory) - asked <= 3ull * slots + 1 + 160 * TOP);
    }
    fp_sampler_destroy(sampler);
}

void fuzz_sampler(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct fp_sampler_options options = {.interval_us = 1000,
                                         .rankings = 1,
                                         .ranking = {{.top = TOP, .every = 1}},
                                         .select_interval_ms = 1};
    struct fp_live_ranges code = {0};
    struct fp_counters stats = {0};
    struct fuzz_memory memory;
    struct fp_ranges ranges;

    fuzz_layout_of(&input, &options.layout);
    options.layout.process_limit = 8;
    fuzz_ranges(&input, &ranges);
    fp_live_ranges_update(&code, &ranges);
    options.ranking[0].metric = fuzz_u8(&input) % FP_METRIC_COUNT;
    options.ranking[0].is_delta = fuzz_u8(&input) & 1;
    options.status = (int)(fuzz_u8(&input) % (FP_STATUS_COUNT + 8)) - 8;
    if (options.status < 0)
        options.status = -1;
    options.layout.term.initial_call = fuzz_u32(&input);
    options.memory = &memory.memory.reader;
    options.code = &code;
    options.counters = &stats;
    if (fp_ring_create(&options.ring, 1u << 16) != 0)
        return;
    fuzz_memory_create(&memory, &input);
    run(&options, &memory);
    fuzz_memory_destroy(&memory);
    fp_ring_destroy(options.ring);
}
