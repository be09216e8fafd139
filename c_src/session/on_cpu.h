/* on_cpu.h - the C frames of a capture, for the sampler and for inspect.c. Allocates nothing. */
#pragma once

#include "cstack/live.h"
#include "erts/capture/explain.h"

/* As fp_capture_code.unwind (explain.h); `live` is a struct fp_live_cstack, read by this thread
 * only. */
size_t fp_on_cpu_unwind(void *live, const struct fp_capture *capture, uint64_t *pc, size_t max,
                        struct fp_registers *at_entry, int *complete);
