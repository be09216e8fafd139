#include "report/messages.h"

int fp_messages_take(struct fp_messages *messages, const struct fp_sample *sample, uint64_t line)
{
    if (sample->kind == FP_IS_SAMPLE)
        return 0;
    if (sample->kind == FP_IS_MESSAGE) {
        messages->count++;
        messages->lost_events += sample->header.lost;
    } else if (messages->text++ == 0) {
        messages->line = line;
    }
    return 1;
}

uint64_t fp_messages_judge(struct fp_messages *messages, enum fp_dialect dialect)
{
    uint64_t text = messages->text;

    messages->text = 0;
    if (dialect != FP_PERF)
        return text;
    messages->count += text;
    return 0;
}
