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

const struct fp_work *fp_work_with_trace(const struct fp_trace *trace, const struct fp_work *work,
                                         struct fp_work *room)
{
    if (trace->span == 0)
        return work;
    if (work == NULL)
        memset(room, 0, sizeof *room);
    else if (work != room)
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
    return fp_work_with_trace(&copy->trace, work, room);
}
