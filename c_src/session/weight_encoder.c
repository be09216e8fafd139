#include "session/weight_encoder.h"

#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "erts/process.h"
#include "erts/process_names.h"
#include "erts/process_table.h"
#include "session/series.h"
#include "session/stack_table.h"

/* More than all records of one weight, with what the end of the ring costs. */
#define ROOM_BYTES 16384u
/* The names of a process are read again after this time. */
#define NAMES_NS INT64_C(5000000000)

struct fp_weight_encoder {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    struct fp_ring *ring;
    struct fp_counters *counters;
    const struct fp_sample_clock *clock;
    struct fp_stack_table *stacks;
    /* By the slot of PROCESS records: which process the writer has there, and since when. */
    struct {
        uint64_t pid; /* 0: none */
        int64_t named_ns;
    } named[FP_PROCESS_SLOTS];
};

int fp_weight_encoder_create(struct fp_weight_encoder **out, const struct fp_layout *layout,
                             const struct fp_memory *memory, struct fp_ring *ring,
                             struct fp_counters *counters, const struct fp_sample_clock *clock)
{
    struct fp_weight_encoder *made = fp_pages_alloc(sizeof *made);

    if (made == NULL)
        return FP_ENOMEM;
    made->layout = layout;
    made->memory = memory;
    made->ring = ring;
    made->counters = counters;
    made->clock = clock;
    if (fp_stack_table_create(&made->stacks) != 0) {
        fp_pages_free(made, sizeof *made);
        return FP_ENOMEM;
    }
    *out = made;
    return 0;
}

void fp_weight_encoder_destroy(struct fp_weight_encoder *encoder)
{
    if (encoder == NULL)
        return;
    fp_stack_table_destroy(encoder->stacks);
    fp_pages_free(encoder, sizeof *encoder);
}

/* 0; FP_EGONE or FP_EFAULT: the process has ended. */
static int read_names(const struct fp_weight_encoder *encoder, uint64_t pid,
                      struct fp_process_names *names)
{
    unsigned char bytes[FP_PROBE_WINDOW];
    struct fp_snapshot snapshot;
    uint64_t address;
    int err = fp_process_table_lookup(encoder->layout, encoder->memory, pid, &address);

    if (err == 0)
        err = fp_safe_read(encoder->memory, address, bytes, encoder->layout->snapshot_size);
    if (err != 0)
        return err;
    /* Its numbers may contradict each other, as it runs; the names do not depend on them. */
    (void)fp_process_decode(encoder->layout, bytes, &snapshot);
    if (snapshot.id != pid || snapshot.status == FP_STATUS_free)
        return FP_EGONE;
    fp_process_names_read(encoder->layout, encoder->memory, address, &snapshot, names);
    return 0;
}

/* The slot of the process, which the writer has then. One that has ended keeps the names that it
 * had, or has none. */
static int define_process(struct fp_weight_encoder *encoder, uint64_t pid, int64_t now,
                          uint32_t *slot)
{
    struct fp_process_names names = {.registered = 0};
    struct fp_record_process *record;
    int goes_on, err;

    *slot = fp_pid_slot(encoder->layout, pid) & (FP_PROCESS_SLOTS - 1);
    goes_on = encoder->named[*slot].pid == pid;
    if (goes_on && now - encoder->named[*slot].named_ns < NAMES_NS)
        return 0;
    err = read_names(encoder, pid, &names);
    if (err != 0 && goes_on) {
        encoder->named[*slot].named_ns = now;
        return 0;
    }
    record = fp_record_begin(encoder->ring, FP_RECORD_PROCESS, sizeof *record);
    if (record == NULL)
        return FP_EFULL;
    record->slot = *slot;
    record->goes_on = (uint8_t)goes_on;
    fp_pid_numbers(encoder->layout, pid, &record->number, &record->serial);
    record->registered_name = names.registered;
    record->initial_call = names.initial_call;
    record->proc_lib_initial_call = names.proc_lib;
    record->label = names.label;
    fp_ring_commit(encoder->ring);
    encoder->named[*slot].pid = pid;
    encoder->named[*slot].named_ns = now;
    return 0;
}

static int define_stack(struct fp_weight_encoder *encoder, const uint64_t *frame, uint32_t count,
                        uint32_t *slot)
{
    struct fp_record_stack *record;

    if (fp_stack_table_intern(encoder->stacks, frame, count, slot))
        return 0;
    fp_counters_add(encoder->counters, FP_COUNTER_stacks, 1);
    record = fp_record_begin(encoder->ring, FP_RECORD_STACK, sizeof *record + 8 * (size_t)count);
    if (record == NULL) {
        fp_stack_table_forget(encoder->stacks, *slot);
        return FP_EFULL;
    }
    record->head.count = (uint16_t)count;
    record->slot = *slot;
    memcpy(record->frame, frame, 8 * (size_t)count);
    fp_ring_commit(encoder->ring);
    return 0;
}

static void push(struct fp_weight_encoder *encoder, struct fp_record_weighted sample)
{
    struct fp_record_weighted *record =
        fp_record_begin(encoder->ring, FP_RECORD_WEIGHTED, sizeof *record);

    fp_counters_add(encoder->counters, FP_COUNTER_attempted, 1);
    if (record == NULL) { /* not with ROOM_BYTES */
        fp_counters_add(encoder->counters, FP_COUNTER_dropped, 1);
        return;
    }
    sample.head = record->head;
    *record = sample;
    fp_ring_commit(encoder->ring);
}

/* The words that are kept: the part of the window that has survived, rounded. */
static uint64_t kept_of(const struct fp_weight *weight)
{
    long double part = (long double)weight->survived / (long double)weight->window;

    return part >= 1 ? weight->words : (uint64_t)(part * (long double)weight->words + 0.5L);
}

/* The first one tells the collection. */
static void push_parts(struct fp_weight_encoder *encoder, const struct fp_weight *weight,
                       struct fp_record_weighted sample)
{
    uint64_t kept = weight->window > 0 ? kept_of(weight) : 0;

    if (weight->words == 0 || weight->window == 0) {
        sample.weight = weight->words > 0 ? weight->words : 1;
        sample.fate = FP_HEAP_FATE_not_known;
        push(encoder, sample);
        return;
    }
    sample.weight = kept;
    sample.fate = FP_HEAP_FATE_kept;
    if (kept > 0) {
        push(encoder, sample);
        sample.is_long = 0;
    }
    sample.weight = weight->words - kept;
    sample.fate = FP_HEAP_FATE_garbage;
    if (kept < weight->words)
        push(encoder, sample);
}

/* 0; FP_EFULL: nothing was written. */
static int put(struct fp_weight_encoder *encoder, const struct fp_weight *weight)
{
    int64_t offset_us = atomic_load_explicit(&encoder->clock->offset_us, memory_order_relaxed);
    struct fp_record_weighted sample = {
        .time_us = weight->end_ns / 1000 + offset_us,
        .cause = weight->cause,
        .is_long = weight->is_long,
        .is_major = weight->is_major,
        .collection_us = weight->length_ns / 1000,
        .message_kind = weight->message_kind,
        .message = weight->message,
    };
    int err = 0;

    if (fp_ring_capacity(encoder->ring) - fp_ring_used(encoder->ring) < ROOM_BYTES)
        return FP_EFULL;
    if (weight->words == 0 && !weight->is_long)
        return 0;
    err = define_process(encoder, weight->pid, weight->end_ns, &sample.process);
    if (err == 0)
        err = define_stack(encoder, weight->frame, weight->count, &sample.stack);
    if (err == 0)
        push_parts(encoder, weight, sample);
    return err;
}

int fp_weight_encoder_put_bytes(struct fp_weight_encoder *encoder, const unsigned char *bytes,
                                size_t size, size_t *taken)
{
    uint64_t frame[FP_STACK_FRAMES_MAX];
    struct fp_weight weight;

    for (*taken = 0; *taken < size; *taken += fp_weight_bytes(&weight)) {
        const unsigned char *at = bytes + *taken;
        size_t left = size - *taken;
        int err;

        if (left < sizeof weight)
            return FP_EINVAL;
        memcpy(&weight, at, sizeof weight);
        if (weight.count > FP_STACK_FRAMES_MAX || fp_weight_bytes(&weight) > left ||
            !fp_term_is_pid(weight.pid))
            return FP_EINVAL;
        memcpy(frame, at + sizeof weight, weight.count * sizeof *frame);
        weight.frame = frame;
        err = put(encoder, &weight);
        if (err != 0)
            return err;
    }
    return 0;
}
