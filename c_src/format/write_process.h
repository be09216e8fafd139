/*
 * write_process.h - what each sample of one process repeats: the beginning of its header, the words
 * of its metrics line, its root lines. Rendered once, when the process is defined. WRITER THREAD
 * only.
 */
#ifndef FP_FORMAT_WRITE_PROCESS_H
#define FP_FORMAT_WRITE_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "format/record.h"
#include "format/symbolizer.h"
#include "format/write_frame.h"

struct fp_root {
    struct fp_piece line; /* empty: there is none */
    uint64_t function;    /* fp_frame_function() */
};

/* The pieces point into `bytes`. */
struct fp_process_text {
    char *bytes;           /* NULL: nothing is rendered */
    size_t size;           /* of all */
    struct fp_piece begin; /* `beam 4242/71 [000] ` */
    struct fp_piece words; /* ` erl_pid=<0.71.0> ... (metrics)` LF */
    struct fp_root initial, proc_lib;
};

/* From a PROCESS record, as a piece of `pool`. `scratch` is used and left to the caller.
 * `number_bits`: how many bits of a pid are its number (perf_script.h). 0, FP_ENOMEM, or FP_EINVAL
 * when the record's lengths make no sense; `text` is written on 0 only. */
int fp_process_text_render(struct fp_process_text *text, struct fp_pool *pool,
                           struct fp_buffer *scratch, uint32_t os_pid, uint32_t number_bits,
                           const struct fp_symbolizer *symbolizer,
                           const struct fp_record_process *record);
void fp_process_text_free(struct fp_process_text *text, struct fp_pool *pool);

#endif
