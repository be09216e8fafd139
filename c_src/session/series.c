#include "session/series.h"

#include <string.h>

#include "base/check.h"
#include "base/error.h"

int fp_series_push(struct fp_series *series, struct fp_ring *ring, uint32_t process, uint32_t stack,
                   uint8_t status, int64_t time_us, const int64_t value[FP_METRIC_COUNT],
                   const struct fp_work *work)
{
    int is_repeat =
        series->sampled && series->stack == stack && series->status == status &&
        (value == series->value || memcmp(series->value, value, sizeof series->value) == 0);
    size_t own = is_repeat ? FP_RECORD_REPEAT_SIZE : sizeof(struct fp_record_sample);
    size_t size = own + (work == NULL ? 0 : sizeof *work);
    struct fp_record_sample *record;

    if (!FP_CHECK(process < FP_PROCESS_SLOTS && stack < FP_STACK_SLOTS) ||
        !FP_CHECK(status < FP_STATUS_COUNT && series->status < FP_STATUS_COUNT))
        return FP_EFULL;
    record = fp_ring_reserve(ring, size);
    if (record == NULL)
        return FP_EFULL;
    record->head = (struct fp_record){(uint32_t)size,
                                      (uint8_t)(is_repeat ? FP_RECORD_REPEAT : FP_RECORD_SAMPLE),
                                      status, series->scheduler};
    record->process = process;
    record->stack = stack;
    record->time_us = time_us;
    for (int metric = 0; !is_repeat && metric < FP_METRIC_COUNT; metric++) {
        record->value[metric] = value[metric];
        record->delta[metric] =
            series->sampled ? fp_metric_delta(metric, series->value[metric], value[metric]) : 0;
    }
    if (work != NULL)
        memcpy((char *)record + own, work, sizeof *work);
    fp_ring_commit(ring);
    if (!is_repeat) {
        series->sampled = 1;
        series->status = status;
        series->stack = stack;
        memcpy(series->value, value, sizeof series->value);
    }
    return 0;
}

void *fp_record_begin(struct fp_ring *ring, enum fp_record_type type, size_t size)
{
    struct fp_record *record = fp_ring_reserve(ring, size);

    if (record == NULL)
        return NULL;
    memset(record, 0, size);
    record->size = (uint32_t)size;
    record->type = (uint8_t)type;
    return record;
}
