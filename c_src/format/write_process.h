/* write_process.h - what each sample of one process repeats: the beginning of its header, the words
 * of its metrics line, the frame lines at the root of each stack. Rendered once, when the process
 * is defined. WRITER THREAD only. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"
#include "format/perf_script.h"

struct fp_root {
    struct fp_slice line; /* empty: there is none */
    uint64_t function;    /* fp_frame_function() */
};

/* The slices are of `text`. */
struct fp_process_text {
    struct fp_kept text;    /* size 0: the process is not defined */
    struct fp_slice begin;  /* `worker 4242/71 [000] ` */
    struct fp_slice words;  /* `erl_pid=<0.71.0> ... ` */
    struct fp_root root[2]; /* initial call, $initial_call */
};

/* From a PROCESS record of at least its fixed size to `scratch`, which is overwritten and which
 * *rendered is of. 0, FP_ENOMEM, or FP_EINVAL: a length is beyond the record. */
int fp_process_text_render(struct fp_process_text *rendered, struct fp_buffer *scratch,
                           const struct fp_perf_script_options *options,
                           const struct fp_record_process *record);
/* Are the two of the same text? */
bool fp_process_text_equals(const struct fp_process_text *a, const struct fp_process_text *b);
/* Copy `rendered` to *process. 0, or FP_ENOMEM: that is not defined then. */
int fp_process_text_keep(struct fp_process_text *process, struct fp_arena *arena,
                         const struct fp_process_text *rendered);

/* Initial call and $initial_call, outwards from the stack's last frame, each unless it is already
 * there. The place behind them. */
char *fp_put_roots(char *out, const struct fp_process_text *process, uint64_t last_function);

/* Write `PID/TID [000] ` at `out`. The place behind it. */
char *fp_put_thread(char *out, uint32_t os_pid, uint32_t tid);
/* Over the `000] ` of fp_put_thread(), which `out` is behind. The place behind it. */
char *fp_put_scheduler(char *out, uint16_t scheduler);
/* Seconds and microseconds. */
char *fp_put_time(char *out, int64_t time_us);
/* The text of a word: percent-encoded, and the colon, too, as some readers look for the colons of a
 * header. At most three times the size. */
char *fp_put_word(char *out, struct fp_slice text);
/* A blank before each of these words `key=text`, whose texts are encoded as above. Fields that are
 * no words are left out. At most three times the size. */
char *fp_put_about(char *out, const char *about);
