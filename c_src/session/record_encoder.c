#include "session/record_encoder.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
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
    fp_counters_add(p->counters, FP_COUNTER_attempted, samples);
    fp_counters_add(p->counters, FP_COUNTER_dropped, samples);
}

/* The record's size, from `head` bytes on; 0 when a text is too long. */
static size_t size_with(size_t head, const struct fp_text *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i].size > TEXT_MAX)
            return 0;
        head += text[i].size;
    }
    return (head + 7) & ~(size_t)7;
}

/* Texts from `at` on, which is up to a word before the head's end, to the record's last word, and
 * the commit. 0, or FP_EINVAL: they do not end there, and the reservation lapses. */
static int commit_texts(struct fp_record_encoder *p, const struct fp_record *record, char *at,
                        const struct fp_text *text, size_t n)
{
    const char *end = (const char *)record + record->size;

    for (size_t i = 0; i < n; at += text[i++].size)
        if (text[i].size > 0 && FP_CHECK(text[i].size <= (size_t)(end - at)))
            memcpy(at, text[i].bytes, text[i].size);
    if (!FP_CHECK((size_t)(end - at) < 16))
        return FP_EINVAL;
    fp_ring_commit(p->ring);
    return 0;
}

static int mfa_is_valid(const struct fp_mfa_text *mfa)
{
    return mfa->arity < 256 && (mfa->module.size > 0) == mfa->is_some;
}

static struct fp_mfa_words mfa_words(const struct fp_mfa_text *mfa)
{
    return (struct fp_mfa_words){mfa->module.size, mfa->function.size, mfa->arity};
}

int fp_record_encoder_process(struct fp_record_encoder *p, uint32_t slot, uint32_t number,
                              uint32_t serial, struct fp_text name, struct fp_text label,
                              const struct fp_mfa_text *initial, const struct fp_mfa_text *proc_lib)
{
    const struct fp_text text[] = {
        name, label, initial->module, initial->function, proc_lib->module, proc_lib->function};
    struct fp_record_process *record;
    size_t size = size_with(sizeof *record, text, 6);

    if (slot >= FP_PROCESS_SLOTS || size == 0 || !mfa_is_valid(initial) || !mfa_is_valid(proc_lib))
        return FP_EINVAL;
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
    record->initial_call = mfa_words(initial);
    record->proc_lib_initial_call = mfa_words(proc_lib);
    return commit_texts(p, &record->head, record->text, text, 6);
}

int fp_record_encoder_frame(struct fp_record_encoder *p, uint32_t id, struct fp_text module,
                            struct fp_text function, uint32_t arity, uint32_t line,
                            struct fp_text file)
{
    const struct fp_text text[] = {module, function, file};
    struct fp_record_frame *record;
    size_t size = size_with(sizeof *record, text, 3);

    if (id >= FP_FRAME_TEXT_MAX || size == 0 || module.size == 0 || arity > 255)
        return FP_EINVAL;
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
    return commit_texts(p, &record->head, record->text, text, 3);
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
    fp_counters_add(p->counters, FP_COUNTER_attempted, 1);
    if (FP_CHECK(p->time_us > 0) && p->process_defined[process] && p->stack_defined[stack] &&
        fp_series_push(&p->series[process], p->ring, process, stack, (uint8_t)status, p->time_us,
                       value, NULL) == 0)
        return 0;
    fp_counters_add(p->counters, FP_COUNTER_dropped, 1);
    return FP_EFULL;
}
