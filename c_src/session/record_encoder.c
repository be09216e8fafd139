#include "session/record_encoder.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pages.h"
#include "session/series.h"

#define TEXT_MAX 1020u

struct fp_record_encoder {
    struct fp_ring *ring;
    struct fp_counters *counters;
    struct fp_sample_clock *clock;
    int64_t time_us;
    struct fp_series series[FP_PROCESS_SLOTS];
    /* Of the series: it goes on when the same process is defined again. */
    struct {
        uint32_t number, serial;
    } pid[FP_PROCESS_SLOTS];
    /* The writer has the definition: not where that found the ring full. */
    uint8_t process_defined[FP_PROCESS_SLOTS];
    uint8_t stack_defined[FP_STACK_SLOTS];
    /* A frame of this tick found the ring full. Stacks after it may name it: they are refused, too,
     * and their samples dropped, upon which the caller defines everything again. */
    int frame_refused;
};

int fp_record_encoder_create(struct fp_record_encoder **out, struct fp_ring *ring,
                             struct fp_counters *counters, struct fp_sample_clock *clock)
{
    struct fp_record_encoder *p = fp_pages_alloc(sizeof *p);

    if (p == NULL)
        return FP_ENOMEM;
    p->ring = ring;
    p->counters = counters;
    p->clock = clock;
    *out = p;
    return 0;
}

void fp_record_encoder_destroy(struct fp_record_encoder *p)
{
    fp_pages_free(p, sizeof *p);
}

int fp_record_encoder_tick(struct fp_record_encoder *p, uint64_t missed, int64_t time_us,
                           int64_t step_us)
{
    if (time_us <= 0 || time_us > FP_TIME_US_MAX || step_us < -FP_TIME_US_MAX ||
        step_us > FP_TIME_US_MAX - time_us)
        return FP_EINVAL;
    p->time_us = time_us > p->time_us ? time_us : p->time_us + 1;
    atomic_store_explicit(&p->clock->offset_us, p->time_us - fp_monotonic_ns() / 1000,
                          memory_order_relaxed);
    atomic_store_explicit(&p->clock->step_us, step_us, memory_order_relaxed);
    p->frame_refused = 0;
    fp_counters_add(p->counters, FP_COUNTER_ticks, 1);
    fp_counters_add(p->counters, FP_COUNTER_missed, missed);
    return 0;
}

void fp_record_encoder_lost(struct fp_record_encoder *p, uint64_t ticks, uint64_t missed,
                            uint64_t samples)
{
    fp_counters_add(p->counters, FP_COUNTER_ticks, ticks);
    fp_counters_add(p->counters, FP_COUNTER_missed, missed);
    fp_counters_add(p->counters, FP_COUNTER_taken, samples);
    fp_counters_add(p->counters, FP_COUNTER_dropped, samples);
}

static size_t padded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

static char *append(char *at, struct fp_text text)
{
    if (text.size > 0)
        memcpy(at, text.bytes, text.size);
    return at + text.size;
}

static int mfa_is_valid(const struct fp_mfa_text *mfa)
{
    return mfa->module.size <= TEXT_MAX && mfa->function.size <= TEXT_MAX && mfa->arity < 256 &&
           (mfa->module.size > 0) == mfa->is_some;
}

static char *append_mfa(char *at, const struct fp_mfa_text *mfa, struct fp_mfa_words *words)
{
    *words = (struct fp_mfa_words){mfa->module.size, mfa->function.size, mfa->arity};
    return append(append(at, mfa->module), mfa->function);
}

int fp_record_encoder_process(struct fp_record_encoder *p, uint32_t slot, uint32_t number,
                              uint32_t serial, struct fp_text name, struct fp_text label,
                              const struct fp_mfa_text *initial_call,
                              const struct fp_mfa_text *proc_lib_initial_call)
{
    size_t size;
    struct fp_record_process *record;
    char *at;

    if (slot >= FP_PROCESS_SLOTS || name.size > TEXT_MAX || label.size > TEXT_MAX ||
        !mfa_is_valid(initial_call) || !mfa_is_valid(proc_lib_initial_call))
        return FP_EINVAL;
    size = padded(sizeof *record + name.size + label.size + initial_call->module.size +
                  initial_call->function.size + proc_lib_initial_call->module.size +
                  proc_lib_initial_call->function.size);
    if (p->pid[slot].number != number || p->pid[slot].serial != serial)
        memset(&p->series[slot], 0, sizeof p->series[slot]);
    p->pid[slot].number = number;
    p->pid[slot].serial = serial;
    record = fp_record_begin(p->ring, FP_RECORD_PROCESS, size);
    p->process_defined[slot] = record != NULL;
    if (record == NULL)
        return FP_EFULL;
    record->slot = slot;
    record->is_text = 1;
    record->number = number;
    record->serial = serial;
    record->registered_name = name.size;
    record->label = label.size;
    at = append(append(record->text, name), label);
    at = append_mfa(at, initial_call, &record->initial_call);
    append_mfa(at, proc_lib_initial_call, &record->proc_lib_initial_call);
    fp_ring_commit(p->ring);
    return 0;
}

int fp_record_encoder_frame(struct fp_record_encoder *p, uint32_t id, struct fp_text module,
                            struct fp_text function, uint32_t arity, uint32_t line,
                            struct fp_text file)
{
    size_t size;
    struct fp_record_frame *record;

    if (id >= FP_FRAME_TEXT_MAX || module.size > TEXT_MAX || module.size == 0 ||
        function.size > TEXT_MAX || file.size > TEXT_MAX || arity > 255)
        return FP_EINVAL;
    size = padded(sizeof *record + module.size + function.size + file.size);
    record = fp_record_begin(p->ring, FP_RECORD_FRAME, size);
    if (record == NULL) {
        p->frame_refused = 1;
        return FP_EFULL;
    }
    record->id = FP_FRAME_TEXT | id;
    record->line = line;
    record->arity = (uint16_t)arity;
    record->module_len = (uint16_t)module.size;
    record->function_len = (uint16_t)function.size;
    record->file_len = (uint16_t)file.size;
    append(append(append(record->text, module), function), file);
    fp_ring_commit(p->ring);
    return 0;
}

/* 0 for a frame that is none. */
static uint64_t frame_word(int32_t frame)
{
    if (frame == -1)
        return FP_FRAME_TRUNCATED;
    if (frame == -2)
        return FP_FRAME_RUNNING;
    return frame >= 0 && (uint32_t)frame < FP_FRAME_TEXT_MAX ? FP_FRAME_TEXT | (uint32_t)frame : 0;
}

int fp_record_encoder_stack(struct fp_record_encoder *p, uint32_t slot, const int32_t *frame,
                            size_t n)
{
    struct fp_record_stack *record = NULL;

    if (slot >= FP_STACK_SLOTS || n > FP_STACK_FRAMES_MAX)
        return FP_EINVAL;
    p->stack_defined[slot] = 0;
    if (!p->frame_refused)
        record = fp_record_begin(p->ring, FP_RECORD_STACK, sizeof *record + 8 * n);
    if (record == NULL)
        return FP_EFULL;
    record->head.count = (uint16_t)n;
    record->slot = slot;
    for (size_t i = 0; i < n; i++) {
        record->frame[i] = frame_word(frame[i]);
        if (record->frame[i] == 0)
            return FP_EINVAL; /* not committed: the reservation lapses */
    }
    p->stack_defined[slot] = 1;
    fp_counters_add(p->counters, FP_COUNTER_stacks, 1);
    fp_ring_commit(p->ring);
    return 0;
}

int fp_record_encoder_sample(struct fp_record_encoder *p, uint32_t process, uint32_t stack,
                             uint32_t status, const int64_t value[FP_METRIC_COUNT])
{
    if (process >= FP_PROCESS_SLOTS || stack >= FP_STACK_SLOTS || status >= FP_STATUS_free)
        return FP_EINVAL;
    fp_counters_add(p->counters, FP_COUNTER_taken, 1);
    if (p->process_defined[process] && p->stack_defined[stack] &&
        fp_series_push(&p->series[process], p->ring, process, stack, (uint8_t)status, p->time_us,
                       value) == 0)
        return 0;
    fp_counters_add(p->counters, FP_COUNTER_dropped, 1);
    return FP_EFULL;
}
