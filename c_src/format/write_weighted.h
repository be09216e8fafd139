/* write_weighted.h - a WEIGHTED record as a sample of doc/format.md's section on allocations: a
 * header with the weight alone, and the words in a line of their own. WRITER THREAD only. */
#pragma once

#include "format/record.h"
#include "format/write_process.h"
#include "format/write_stack.h"

/* A bound for what fp_put_weighted() writes beside the texts of process and stack. The event has at
 * most 40 bytes. */
#define FP_WEIGHTED_BYTES_MAX 640u

/* Can it be written? The slots are not looked at. */
bool fp_weighted_is_valid(const struct fp_record_weighted *record);

/* The place behind it. */
char *fp_put_weighted(char *out, const char *event, int64_t time_us,
                      const struct fp_process_text *process, const struct fp_stack_text *stack,
                      const struct fp_record_weighted *record);
