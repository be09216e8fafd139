/* perf_script.h - records to Linux `perf script` text, by the grammar of doc/format.md. WRITER
 * THREAD only. Stacks, names and metric lines are rendered once and kept; a sample is assembled by
 * copying. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/gauges.h"
#include "format/record.h"
#include "format/symbolizer.h"
#include "format/write_self.h"

struct fp_perf_script;

struct fp_perf_script_options {
    const char *event; /* a constant; NULL: cpu-clock */
    uint32_t os_pid;
    int is_elsewhere;         /* the profiled VM is on another node */
    uint32_t pid_number_bits; /* of a pid's data: 15 in OTP 25, else 28; 0: 28 */
    int collapse_recursion;   /* merge neighbouring frames of one function */
    int coalesce_idle;        /* write the REPEATs of a waiting process once a second, as one
                                 sample with a period */
    size_t text_bytes;        /* a bound for the memory of the stacks' texts; 0: 32 MiB */
    const struct fp_symbolizer *symbolizer; /* NULL: text frames only */
    struct fp_counters *stats;
};

/* 0 or FP_ENOMEM. `options` is copied; what it points to must outlive this. */
int fp_perf_script_create(struct fp_perf_script **script,
                          const struct fp_perf_script_options *options);
void fp_perf_script_destroy(struct fp_perf_script *script);

/* *text / *size are the samples that this record completes, valid until the next call: its own,
 * unless that is merged with others, and merged ones that end with it; some of these also on an
 * error. 0; FP_ENOMEM; FP_EINVAL for a record that makes no sense (a bug): a slot that is not
 * defined, a REPEAT of a process not sampled since its slot was defined for it, lengths beyond
 * head.size. The caller guarantees head.size bytes. */
int fp_perf_script_record(struct fp_perf_script *script, const struct fp_record *record,
                          const char **text, size_t *size);

/* The text that follows goes to this block of the file, a number that is not 0. A sample leaves out
 * what is as it was in its process' sample before in the same block: the first one in a block is
 * whole, so that each block can be read alone. */
void fp_perf_script_set_block(struct fp_perf_script *script, uint64_t block);

/* How many SAMPLEs and REPEATs the last text stands for. */
uint64_t fp_perf_script_weight(const struct fp_perf_script *script);

/* Added to all times from now on: how far the system's clock has moved against that of the samples.
 * Before the first sample of a file only, as the times in a file never decrease. */
void fp_perf_script_set_step(struct fp_perf_script *script, int64_t step_us);

/* One of the merged samples: of all, or of those that no REPEAT has joined for a second, as their
 * process is not sampled any more. *size is 0 after the last one. 0 or FP_ENOMEM. */
enum fp_merged { FP_MERGED_ALL, FP_MERGED_LEFT };
int fp_perf_script_merged(struct fp_perf_script *script, enum fp_merged which, const char **text,
                          size_t *size);

/* The sample of the profiler itself, with a frame of its own: all gauges of `now` with their change
 * since `before`, where that has them. `now_us` is of the samples' clock. The time that is written
 * may be up to a second earlier, as samples of that time may still come, and is never before that
 * of the last sample. 0 or FP_ENOMEM; *text is valid until the next call. */
int fp_perf_script_self(struct fp_perf_script *script, const struct fp_self_sample *sample,
                        const char **text, size_t *size);

/* False until the first sample of another node: its clock is not known before, and a sample with
 * this node's time might move all others behind itself. */
int fp_perf_script_has_time(const struct fp_perf_script *script);

/* Forget every text that was rendered from code addresses: it is rendered anew, from the kept frame
 * words, at its next use. Write what is merged before: it was sampled in the old code. */
void fp_perf_script_recode(struct fp_perf_script *script);
