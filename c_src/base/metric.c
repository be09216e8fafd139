/*
 * metric.c - the spelling of metrics and statuses, made from their lists.
 */
#include "base/metric.h"

#include <stddef.h>

static const char *const metric_names[FP_METRIC_COUNT] = {
#define FP_METRIC_ROW(name) [FP_METRIC_##name] = #name,
    FP_METRIC_MAP(FP_METRIC_ROW)
#undef FP_METRIC_ROW
};

static const char *const status_names[FP_STATUS_COUNT] = {
#define FP_STATUS_ROW(name) [FP_STATUS_##name] = #name,
    FP_STATUS_MAP(FP_STATUS_ROW)
#undef FP_STATUS_ROW
};

const char *fp_metric_name(int metric)
{
    if (metric < 0 || metric >= FP_METRIC_COUNT)
        return NULL;
    return metric_names[metric];
}

const char *fp_status_name(int status)
{
    if (status < 0 || status >= FP_STATUS_COUNT)
        return NULL;
    return status_names[status];
}
