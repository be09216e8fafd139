/* scan.h - text to pieces of one sample each, which parse.h parses.
 *
 *      beam 4242/71 [003] 12.011367: cpu-clock:         header
 *      # reductions=9/12 ... (metrics)                  metrics, may be missing
 *      	ffffffff erlang:apply/2 (erlang.erl)           stack: lines that begin
 *      	ffffffff waiting (status)                      with a blank or a TAB
 *                                                       an empty line
 *
 * A line that does not begin with a blank or a TAB ends the sample before it, so damage costs the
 * piece it is in; so does one with the time of a header behind blanks, as perf script prints
 * samples without a call chain. CR LF is a line end where it ends the first line. Memory: a window
 * of 64 KiB that grows to FP_SCAN_SAMPLE_MOST at most. */
#pragma once

#include <stdint.h>

#include "base/slice.h"

/* More than the writer's longest sample: 255 frames of two atoms of 255 characters, each of them
 * three times as long when it is encoded. */
#define FP_SCAN_SAMPLE_MOST ((size_t)4 << 20)

/* Reads up to `room` (at least 1) bytes to `to`; *size is 0 at the end. 0 or a negative error,
 * which fp_scan_next() returns. store/source.h's fp_source_read() is one. */
typedef int fp_scan_read(void *arg, char *to, size_t room, size_t *size);

struct fp_scan {
    fp_scan_read *read;
    void *arg;
    char *window;
    size_t room, begin, end;
    uint64_t line; /* number of the line at `begin`, from 1 */
    int is_at_end, is_skipping;
    int is_crlf; /* 1, -1; 0: no line end was read yet */
};

struct fp_scan_piece {
    struct fp_slice header;  /* these two without their line end */
    struct fp_slice metrics; /* size 0: none */
    struct fp_slice stack;   /* whole lines; size 0: none */
    int is_ended;            /* an empty line follows */
    int is_last;             /* nothing follows */
    uint64_t line;           /* of the header, from 1 */
    const char *bad;         /* why this is no sample; NULL: it is one */
};

/* The time in a header: digits, a dot, six digits or more, a colon; behind a blank. */
struct fp_scan_time {
    const char *begin, *dot, *end; /* `end` is its colon */
};

int fp_scan_time(struct fp_slice line, struct fp_scan_time *time);
/* The same with at least `digits` digits behind the dot. */
int fp_scan_time_of(struct fp_slice line, int digits, struct fp_scan_time *time);

/* 0 or FP_ENOMEM. `arg` is given to `read`. */
int fp_scan_open(struct fp_scan *scan, fp_scan_read *read, void *arg);
void fp_scan_close(struct fp_scan *scan);

/* FP_SCAN_PIECE and the next piece, valid until the next call; FP_SCAN_MORE: text was read and has
 * no whole piece yet, so a caller can bound the text of one call; 0 at the end; FP_EIO or
 * FP_ENOMEM. */
#define FP_SCAN_PIECE 1
#define FP_SCAN_MORE 2
int fp_scan_next(struct fp_scan *scan, struct fp_scan_piece *piece);
