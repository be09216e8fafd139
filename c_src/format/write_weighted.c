#include "format/write_weighted.h"

#include <string.h>

#include "base/buffer.h"
#include "format/write_frame.h"
#include "format/write_numbers.h"

static char *put_text(char *out, const char *text)
{
    return fp_put(out, text, strlen(text));
}

bool fp_weighted_is_valid(const struct fp_record_weighted *record)
{
    return record->time_us <= FP_TIME_US_MAX && record->fate < FP_HEAP_FATES &&
           record->cause < FP_GC_CAUSES && record->weight > 0 && record->weight <= INT64_MAX;
}

static char *put_header(char *out, const char *event, int64_t time_us,
                        const struct fp_process_text *process,
                        const struct fp_record_weighted *record)
{
    out = fp_put(out, process->begin.at, process->begin.size);
    out = FP_PUT_LITERAL(fp_put_time(out, time_us), ": ");
    if (record->weight > 1)
        out = FP_PUT_LITERAL(fp_put_u64(out, record->weight), " ");
    return FP_PUT_LITERAL(put_text(out, event), ":\n");
}

/* The words, whose they are, the message in work, and the collection when that was long. */
static char *put_metrics(char *out, const struct fp_process_text *process,
                         struct fp_work_atoms *atoms, const struct fp_symbolizer *symbolizer,
                         const struct fp_record_weighted *record)
{
    struct fp_work work = {.kind = record->message_kind, .message = record->message};
    int64_t words = (int64_t)record->weight;

    out = fp_put_number(FP_PUT_LITERAL(out, "# words"), words, words);
    out = fp_put(out, process->words.at, process->words.size);
    out = fp_put_work(out, atoms, symbolizer, &work);
    if (record->is_long) {
        out = fp_put_u64(FP_PUT_LITERAL(out, "collection_us="), record->collection_us);
        out = put_text(out, record->is_major ? " collection=major " : " collection=minor ");
        if (record->cause != FP_GC_CAUSE_unknown)
            out = FP_PUT_LITERAL(
                put_text(FP_PUT_LITERAL(out, "cause="), fp_gc_cause_name(record->cause)), " ");
    }
    return FP_PUT_LITERAL(out, "(metrics)\n");
}

/* On the root side stand what became of the words, and the status. */
static char *put_frames(char *out, const struct fp_process_text *process,
                        const struct fp_stack_text *stack, const struct fp_record_weighted *record)
{
    static const char *const fates[] = {
#define FATE_LINE(name) FP_FRAME_ADDRESS #name " (heap)\n",
        FP_HEAP_FATE_MAP(FATE_LINE)
#undef FATE_LINE
    };
    char *frames;

    if (record->cause == FP_GC_CAUSE_fragments)
        out = FP_PUT_LITERAL(out, FP_FRAME_ADDRESS "fragments (heap)\n");
    frames = out;
    out = fp_put(out, stack->lines.at, stack->lines.size);
    out = fp_put_roots(out, process, stack->last_function);
    if (out == frames)
        out = FP_PUT_LITERAL(out, FP_FRAME_ADDRESS "no_frames (flame_prof)\n");
    out = put_text(out, fates[record->fate]);
    return FP_PUT_LITERAL(out, FP_FRAME_ADDRESS "garbage_collecting (status)\n\n");
}

char *fp_put_weighted(char *out, const char *event, int64_t time_us,
                      const struct fp_process_text *process, const struct fp_stack_text *stack,
                      struct fp_work_atoms *atoms, const struct fp_symbolizer *symbolizer,
                      const struct fp_record_weighted *record)
{
    out = put_header(out, event, time_us, process, record);
    out = put_metrics(out, process, atoms, symbolizer, record);
    return put_frames(out, process, stack, record);
}
