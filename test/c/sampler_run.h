/* sampler_run.h - ticks of a sampler without its thread. */
#pragma once

#include "session/sampler.h"

/* `n` ticks now, in the calling thread; before the first of them, what the thread does first. */
void sampler_run(struct fp_sampler *sampler, uint32_t n);
