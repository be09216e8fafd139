/*
 * perf_script.h - samples to Linux `perf script` text. WRITER THREAD only.
 *
 * The grammar is doc/format.md's. Stacks, names and metric lines are rendered
 * once and kept; a sample is then assembled by copying. No ERTS, no libuv.
 */
#ifndef FP_FORMAT_PERF_SCRIPT_H
#define FP_FORMAT_PERF_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/gauges.h"
#include "format/record.h"
#include "format/symbolizer.h"

struct fp_perf_script;

struct fp_perf_script_options {
    uint32_t os_pid;
    int is_elsewhere;         /* the VM that is sampled has another clock */
    uint32_t pid_number_bits; /* of a pid's data: 15 in OTP 25, else 28;
                                 0 is taken for 28 */
    int flatten_recursive;    /* merge neighbouring frames of one function */
    int merge_idle;           /* write REPEATs of waiting processes once a
                                 second, as one sample with a period */
    size_t text_bytes;        /* for the stacks' texts; 0: stack_text.h's */
    const struct fp_symbolizer *symbolizer; /* may be NULL: text frames only */
    struct fp_counters *stats;
};

/* 0 or FP_ENOMEM. `options` is copied, what it points to must outlive this. */
int fp_perf_script_create(struct fp_perf_script **script,
                          const struct fp_perf_script_options *options);
void fp_perf_script_destroy(struct fp_perf_script *script);

/* Take one record. *text / *size are the finished samples that came of it, valid
 * until the next call: that of a SAMPLE or REPEAT, unless it is held to be
 * merged with others; and with any record those that were held and can not be
 * any longer. With an error, too, there may be some of these.
 * 0; FP_ENOMEM; FP_EINVAL for a record that makes no sense (a bug of ours): a
 * slot that is not defined, a REPEAT of a process not sampled since its slot
 * was defined for it, lengths beyond head.size. The caller has made sure that
 * head.size bytes are there. */
int fp_perf_script_record(struct fp_perf_script *script,
                          const struct fp_record *record, const char **text,
                          size_t *size);

/* How many SAMPLEs and REPEATs the last text stands for. */
uint64_t fp_perf_script_weight(const struct fp_perf_script *script);

/* One of the samples that are held: of all, or of those of which nothing came
 * for a second, because nobody looks at the process any more. *size is 0 when
 * there are no more. 0 or FP_ENOMEM. */
enum fp_held { FP_HELD_ALL, FP_HELD_LEFT };
int fp_perf_script_held(struct fp_perf_script *script, enum fp_held which,
                        const char **text, size_t *size);

/* The sample of the profiler itself, in a frame of its own: all figures of `now`
 * with their change since `before`, where that has them. `now_us` is Unix time;
 * the time that is written may be up to a second earlier, as samples of that time
 * may still come, and is never before that of the last sample. 0 or FP_ENOMEM; *text is valid until the next call. */
#define FP_NOTE_ROOM 512 /* of a note, its end counted; longer ones are cut */
struct fp_self_sample {
    const char *engine;
    const struct fp_gauges *now[2], *before[2];
    int64_t now_us;
    const char *note; /* why there is a session; "" where nobody says */
};
int fp_perf_script_self(struct fp_perf_script *script,
                        const struct fp_self_sample *sample, const char **text,
                        size_t *size);

/* Whether there is a time for it yet: of a clock elsewhere nothing is known before
 * the first sample is written, and those that follow would be moved behind ours. */
int fp_perf_script_has_time(const struct fp_perf_script *script);

/* Forget every rendered text that came from code addresses: it is rendered
 * anew, from the kept frame words, when next used. What is held should have
 * been taken out before: it was sampled in the old code. */
void fp_perf_script_recode(struct fp_perf_script *script);

/* Percent-encode `size` bytes of UTF-8 as part of a symbol or a dso into
 * `out`, which has room for 3 * size. How many bytes were written. */
size_t fp_perf_script_encode(const char *text, size_t size, char *out);

#endif
