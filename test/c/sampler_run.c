#include "sampler_run.h"

#include "session/sampler_internal.h"

void sampler_run(struct fp_sampler *s, uint32_t n)
{
    if (fp_counters_get(s->options.counters, FP_COUNTER_selections) == 0)
        fp_sampler_begin(s);
    for (uint32_t i = 0; i < n; i++)
        fp_sampler_tick(s);
}
