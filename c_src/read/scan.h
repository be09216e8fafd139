/*
 * scan.h - text to pieces: one sample each, not yet understood.
 *
 *      beam 4242/71 [003] 12.011367: cpu-clock:         header
 *      # reductions=9/12 ... (metrics)                  metrics, may be missing
 *      	ffffffff erlang:apply/2 (erlang.erl)           stack: lines that begin
 *      	ffffffff waiting (status)                      with a blank or a TAB
 *                                                       an empty line
 *
 * A line that does not begin with a blank or a TAB ends the sample before it,
 * whatever it holds: damage costs the piece it is in. Memory: a window of 1 MiB
 * that grows to SCAN_SAMPLE_MOST at the most.
 */
#ifndef FP_READ_SCAN_H
#define FP_READ_SCAN_H

#include <stdint.h>

#include "source.h"
#include "strings.h"

/* The longest sample that we write: 255 frames of two atoms of 255 characters,
 * each of them three times as long when it is encoded. What is longer is none. */
#define FP_SCAN_SAMPLE_MOST ((size_t)4 << 20)

struct fp_scan {
    struct fp_source *source;
    char *window;
    size_t room, begin, end;
    uint64_t line; /* number of the line at `begin`, from 1 */
    int is_at_end, is_skipping;
};

struct fp_piece {
    struct fp_slice header;  /* these two without their line end */
    struct fp_slice metrics; /* size 0: none */
    struct fp_slice stack;   /* whole lines; size 0: none */
    int is_ended;            /* an empty line follows */
    uint64_t line;           /* of the header, from 1 */
    const char *bad;         /* why this is no sample; NULL */
};

/* 0 or FP_ENOMEM. The source stays the caller's. */
int fp_scan_open(struct fp_scan *scan, struct fp_source *source);
void fp_scan_close(struct fp_scan *scan);

/* FP_SCAN_PIECE and the next piece, valid until the next call; FP_SCAN_MORE:
 * text was read and no piece was in it yet, which lets callers count what a call
 * of theirs may take; 0 at the end; FP_EIO or FP_ENOMEM. */
#define FP_SCAN_PIECE 1
#define FP_SCAN_MORE 2
int fp_scan_next(struct fp_scan *scan, struct fp_piece *piece);

#endif
