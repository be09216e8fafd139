/*
 * code_ranges.h - where the JIT's code is, in a process that other JITs share.
 *
 * A thread that may block: reads /proc/self/maps.
 */
#ifndef FP_ERTS_CODE_RANGES_H
#define FP_ERTS_CODE_RANGES_H

#include "base/maps.h"
#include "base/safe_read.h"

/* fp_maps_code(), of the anonymous ranges those that hold an ErtsCodeInfo (code_info.h). Its
 * results; with FP_EFULL the first FP_RANGES_MAX ranges. */
int fp_code_ranges(const struct fp_memory *memory, struct fp_ranges *ranges);

/* A sentence on that result. */
const char *fp_code_ranges_why(int err);

#endif
