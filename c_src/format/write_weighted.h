/* write_weighted.h - a WEIGHTED record as a sample of doc/format.md's section on allocations: a
 * header with the weight alone, and the words in a line of their own. WRITER THREAD only. */
#pragma once

#include "format/record.h"
#include "format/write_process.h"
#include "format/write_stack.h"
#include "format/write_work.h"

/* A bound for what fp_put_weighted() writes beside the texts of process and stack. The event
 * has at most 40 bytes. */
#define FP_WEIGHTED_BYTES_MAX (640u + FP_WORK_BYTES_MAX)

/* Can it be written? The slots are not looked at. */
bool fp_weighted_is_valid(const struct fp_record_weighted *record);

/* The place behind it. An atom that the symbolizer does not know takes the message with it. */
char *fp_put_weighted(char *out, const char *event, int64_t time_us,
                      const struct fp_process_text *process, const struct fp_stack_text *stack,
                      struct fp_work_atoms *atoms, const struct fp_symbolizer *symbolizer,
                      const struct fp_record_weighted *record);
