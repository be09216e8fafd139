/*
 * sample.h - a piece of text as a sample: which dialect it is, where its parts are. Numbers and
 * frames are not parsed yet.
 */
#ifndef FP_FORMAT_SAMPLE_H
#define FP_FORMAT_SAMPLE_H

#include "format/parse.h"

struct fp_sample {
    struct fp_header header;
    enum fp_dialect dialect;
    struct fp_slice fields; /* numbers, then words */
    struct fp_slice stack;
};

/* Is it the profiler's sample of itself, with its own metrics and one frame? */
int fp_sample_is_own(const struct fp_sample *sample);

/* `known` is the dialect of the file's samples before, or FP_NO_DIALECT. NULL, or why this is no
 * sample. */
const char *fp_sample_read(const struct fp_scan_piece *piece, enum fp_dialect known,
                           struct fp_sample *sample);

#endif
