/* on_cpu.h - the C frames of a capture, for the sampler and for inspect.c. Any thread; allocates
 * nothing. */
#pragma once

#include "cstack/cstack.h"
#include "erts/capture/explain.h"

/* As fp_capture_code.unwind (explain.h). */
size_t fp_on_cpu_unwind(const struct fp_cstack *cstack, const struct fp_capture *capture,
                        uint64_t *pc, size_t max, struct fp_registers *at_entry, int *complete);
