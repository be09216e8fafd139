/*
 * stats.c - the spelling of the counters, made from their list. The counters
 * themselves are inline in stats.h: they are on the sampler's path.
 */
#include "base/counters.h"

#include <stddef.h>

static const char *const stat_names[FP_STAT_COUNT] = {
#define FP_STATS_ROW(name) [FP_STAT_##name] = #name,
    FP_STATS_MAP(FP_STATS_ROW)
#undef FP_STATS_ROW
};

const char *fp_stats_name(enum fp_stat stat)
{
    if ((unsigned)stat >= FP_STAT_COUNT)
        return NULL;
    return stat_names[stat];
}
