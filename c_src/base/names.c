/* names.c - the names of counters, metrics, statuses and errors, made from their lists. */
#include <stddef.h>

#include "base/counters.h"
#include "base/error.h"
#include "base/metric.h"

#define NAME(name) #name,
#define ERR_NAME(name, atom, text) atom,
#define ERR_TEXT(name, atom, text) text,

static const char *const counter_names[] = {FP_COUNTERS_MAP(NAME)};
static const char *const metric_names[] = {FP_METRIC_MAP(NAME)};
static const char *const status_names[] = {FP_STATUS_MAP(NAME)};
static const char *const err_names[] = {FP_ERR_MAP(ERR_NAME)};
static const char *const err_texts[] = {FP_ERR_MAP(ERR_TEXT)};

const char *fp_counters_name(enum fp_counter counter)
{
    return (unsigned)counter < FP_COUNTER_COUNT ? counter_names[counter] : NULL;
}

const char *fp_metric_name(int metric)
{
    return metric >= 0 && metric < FP_METRIC_COUNT ? metric_names[metric] : NULL;
}

const char *fp_status_name(int status)
{
    return status >= 0 && status < FP_STATUS_COUNT ? status_names[status] : NULL;
}

/* Without negating `err`: INT_MIN has no opposite. */
static int is_listed(int err)
{
    return err < 0 && err >= -FP_ERR_COUNT;
}

const char *fp_err_name(int err)
{
    if (err == FP_OK)
        return "ok";
    return is_listed(err) ? err_names[-1 - err] : "unknown";
}

const char *fp_err_text(int err)
{
    if (err == FP_OK)
        return "no error";
    return is_listed(err) ? err_texts[-1 - err] : "an error without a text";
}
