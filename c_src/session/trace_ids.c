#include <string.h>

#include "base/error.h"
#include "session/sampler_internal.h"

/* Those of a tick whose traces are read together. */
struct together {
    struct target_copy *copy;
    uint32_t open; /* that are not done yet */
    uint8_t number[FP_OTEL_TOGETHER];
    uint64_t key; /* what is the key in one map is mostly the key in all: a literal */
    uint32_t spans;
    struct fp_safe_read_span span[FP_OTEL_TOGETHER * FP_OTEL_PLACES];
};

static void read_spans(struct fp_sampler *s, struct together *all)
{
    fp_safe_read_batch(s->options.memory, all->span, all->spans);
    for (uint32_t k = 0; k < all->spans; k++)
        fp_otel_was_read(&all->span[k]);
    all->spans = 0;
}

/* The next windows of each that is not done. */
static void find_all(struct fp_sampler *s, struct together *all)
{
    uint32_t left = 0;

    for (uint32_t k = 0; k < all->open; k++) {
        uint8_t i = all->number[k];
        struct target_copy *copy = &all->copy[i];
        struct fp_otel_places *places = &s->target[copy->slot].otel;
        struct fp_otel *otel = &s->otel[i];

        if (otel->key == 0)
            otel->key = all->key;
        if (fp_otel_find(otel, s->layout, &copy->trace) == FP_ESTATE) {
            all->spans += fp_otel_windows(otel, places, all->span + all->spans);
            all->number[left++] = i;
        } else {
            *places = otel->places;
        }
        all->key = otel->key;
    }
    all->open = left;
    read_spans(s, all);
}

static void read_together(struct fp_sampler *s, struct target_copy *copy, uint32_t n)
{
    struct together all;

    all.copy = copy;
    all.open = all.spans = 0;
    all.key = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct fp_snapshot *before = &copy[i].stack.before;

        memset(&copy[i].trace, 0, sizeof copy[i].trace);
        if (before->dictionary == 0 || before->status == FP_STATUS_garbage_collecting)
            continue;
        fp_otel_start(&s->otel[i], before->dictionary, 0);
        all.number[all.open++] = (uint8_t)i;
    }
    while (all.open > 0)
        find_all(s, &all);
}

void fp_off_cpu_otel(struct fp_sampler *s, struct target_copy *copy, uint32_t n)
{
    for (uint32_t i = 0; s->options.otel && i < n; i += FP_OTEL_TOGETHER)
        read_together(s, copy + i, n - i < FP_OTEL_TOGETHER ? n - i : FP_OTEL_TOGETHER);
}

/* Puts the trace, if there is one, to the work, which may be NULL: then it is *room. */
static const struct fp_work *with_trace(const struct fp_trace *trace, const struct fp_work *work,
                                        struct fp_work *room)
{
    if (trace->span == 0)
        return work;
    if (work == NULL)
        memset(room, 0, sizeof *room);
    else
        *room = *work;
    room->trace = *trace;
    return room;
}

/* A collection that another process or the VM asked for may leave all that the stack is compared
 * by as it was. */
const struct fp_work *fp_off_cpu_trace(const struct fp_sampler *s, const struct target_copy *copy,
                                       const struct fp_work *work, struct fp_work *room)
{
    const struct fp_stack_copy *stack = &copy->stack;
    uint64_t heap = fp_process_field(s->layout, stack->again, FP_FIELD_heap);
    uint64_t minor_gcs = fp_process_field(s->layout, stack->again, FP_FIELD_gen_gcs);

    if (!s->options.otel || heap != stack->before.heap ||
        minor_gcs != (uint64_t)stack->before.value[FP_METRIC_minor_gcs])
        return work;
    return with_trace(&copy->trace, work, room);
}

/* The process runs while its memory is read: the windows say where its ids were just now. */
const struct fp_windows *fp_trace_windows(struct fp_sampler *s, uint64_t process)
{
    struct fp_trace trace;
    uint64_t dictionary = 0;

    if (!s->options.otel)
        return NULL;
    (void)fp_safe_read_word(s->options.memory,
                            process + s->layout->release.offset[FP_FIELD_dictionary], &dictionary);
    fp_otel_start(s->otel, dictionary, 0);
    (void)fp_otel_read(s->otel, s->layout, s->options.memory, &trace);
    return &s->otel->windows;
}

/* The windows of a capture are of the moment of its structure: the thread stood still. During a
 * collection the words may be of either heap. */
const struct fp_work *fp_capture_trace(struct fp_sampler *s, const struct fp_capture *capture,
                                       uint32_t samples, const struct fp_work *work,
                                       struct fp_work *room)
{
    const struct fp_windows *windows = &capture->windows;
    struct fp_otel *otel = s->otel;
    struct fp_trace trace;

    if (!s->options.otel ||
        (fp_process_field(s->layout, capture->structure, FP_FIELD_state) & FP_PSFLG_GC) != 0)
        return work;
    fp_otel_start(otel, fp_process_field(s->layout, capture->structure, FP_FIELD_dictionary), 0);
    otel->windows.count = windows->count;
    memcpy(otel->windows.window, windows->window, windows->count * sizeof *windows->window);
    if (fp_otel_find(otel, s->layout, &trace) != FP_OK && otel->lacks.address != 0)
        fp_sampler_count(s, FP_COUNTER_missed_traces, samples);
    return with_trace(&trace, work, room);
}
