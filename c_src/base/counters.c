/*
 * stats.c - the spelling of the counters, made from their list. The counters themselves are inline
 * in stats.h: they are on the sampler's path.
 */
#include "base/counters.h"

#include <stddef.h>

static const char *const stat_names[FP_COUNTER_COUNT] = {
#define FP_COUNTERS_ROW(name) [FP_COUNTER_##name] = #name,
    FP_COUNTERS_MAP(FP_COUNTERS_ROW)
#undef FP_COUNTERS_ROW
};

const char *fp_counters_name(enum fp_counter stat)
{
    if ((unsigned)stat >= FP_COUNTER_COUNT)
        return NULL;
    return stat_names[stat];
}
