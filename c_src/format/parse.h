/* parse.h - a piece of text to what it says. Three dialects:
 *
 *      FP_FLAME_PROF  doc/format.md: metrics behind the time, in format 1 on a `#` line; the status
 *                     is the root frame
 *      FP_ORIGINAL    the first flame_prof: `waiting TAB 0.71.0 [000] 12.0: cpu-clock:TAB
 *                     metric_erlang_reductions: 9, 12 TAB ...`, frames as `mod:fun/1;123
 *                     (file.erl)`
 *      FP_PERF        `perf script` of Linux, and report_sample.py of simpleperf
 *
 * Slices are parts of the piece, but for texts that have to be encoded. A function that returns a
 * sentence returns NULL, or why the sample is damaged. Any bytes may come. */
#pragma once

#include <stdint.h>

#include "format/record.h"
#include "format/scan.h"

enum fp_dialect { FP_NO_DIALECT, FP_FLAME_PROF, FP_ORIGINAL, FP_PERF };

const char *fp_dialect_name(enum fp_dialect dialect);

struct fp_header {
    enum fp_dialect dialect; /* by the header alone */
    struct fp_slice thread;  /* "beam 4242/71", "0.71.0" */
    struct fp_slice comm;    /* "beam"; empty in the original's */
    uint64_t pid, tid;       /* 0 in the original's, and if perf has -1 */
    int has_time;            /* of a session's header, 0 */
    int64_t time_us;
    int64_t period;         /* 1 where none is given; in perf's 0: it weighs nothing */
    uint32_t scheduler;     /* from 1 on, 0: none or unknown; in perf's the CPU and 1 */
    struct fp_slice fields; /* between the time and the event: a session's, from format 2 on */
    struct fp_slice event;
    struct fp_slice status; /* the original's */
    struct fp_slice rest;   /* behind the event: the original's metrics, or the only frame of a perf
                               sample without a stack */
    int is_record;          /* a record of perf's that is no sample */
    uint64_t lost;          /* events that such a one says are lost */
};

/* MESSAGE: what perf script prints beside samples: other records, and its warnings, which a shell
 * has put into the same file. TEXT: lines without a time, before the file's first sample: messages
 * if that is perf's, else damage. */
enum fp_sample_kind { FP_IS_SAMPLE, FP_IS_MESSAGE, FP_IS_TEXT };

struct fp_sample {
    enum fp_sample_kind kind; /* TEXT only of a damaged one */
    struct fp_header header;
    enum fp_dialect dialect;
    struct fp_slice fields; /* numbers, then words: not parsed yet */
    int is_carried;         /* numbers and words that are missing are those of the process' sample
                               before (doc/format.md, What a sample leaves out) */
    struct fp_slice stack;  /* frames: not parsed yet */
};

/* `known` is the dialect of the file's samples before, or FP_NO_DIALECT. */
const char *fp_sample_read(const struct fp_scan_piece *piece, enum fp_dialect known,
                           struct fp_sample *sample);

/* Is it the profiler's sample of itself, with its own metrics and one frame? */
int fp_sample_is_own(const struct fp_sample *sample);
/* The formats of a file's own samples: how many FP_FORMAT or earlier, and how many later. One bit
 * makes a later one of any. */
struct fp_formats {
    uint64_t known, newer;
};

/* Counts what this sample says, if it is own. A later format is damage, unless the file is refused
 * for it. */
const char *fp_check_format(const struct fp_sample *sample, struct fp_formats *formats);
/* Is the format of the file not known? Two samples say so before any other, or at its end the only
 * one does. */
int fp_format_is_newer(const struct fp_formats *formats, int is_at_end);

struct fp_number {
    struct fp_slice key;
    int64_t value, delta;
    int is_change; /* no value: it is the one before and the delta */
};

/* One `key=value/delta`, `key+delta` or `key-delta`, or the original's `metric_erlang_key: value,
 * delta`, at *at, which moves behind it and a separator. `hint` is a key that is likely (its size
 * may be 0). 1; 0: no number is there. */
int fp_parse_number(enum fp_dialect dialect, const char **at, const char *end, struct fp_slice hint,
                    struct fp_number *number);

/* What stands behind the numbers has to be words, by its first one: a damaged number is none. In
 * format 2 (is_carried) words make a sample a whole one, whose first word tells whose it is. */
const char *fp_parse_words(const struct fp_sample *sample, struct fp_slice words);
/* All of them, each key once. */
const char *fp_check_words(struct fp_slice words);

/* The `key=text` at *at, which moves behind it and a blank. 1; 0: none. */
int fp_parse_word(const char **at, const char *end, struct fp_slice *key, struct fp_slice *text);

/* The event of files that tell who allocates: a period is so many words of memory. */
#define FP_EVENT_ALLOCATIONS "alloc-words"

static inline int fp_is_allocation(struct fp_slice event)
{
    return fp_slice_is(event, FP_SLICE(FP_EVENT_ALLOCATIONS));
}

/* Words of one sample (doc/format.md): those of the process stand before them, and only in a whole
 * sample. None of them is carried to the next sample. */
#define FP_SAMPLE_WORD_MAP(X)                                                                      \
    X(message)   /* what a server has in work: `call/{get,_}` */                                   \
    X(serves)    /* the reference of that call */                                                  \
    X(waits_for) /* `<0.71.0>`, `timer`, ... */                                                    \
    X(call)      /* the reference that is waited for */                                            \
    X(request)   /* the tag of the request that is waited for */                                   \
    X(trace)     /* of OpenTelemetry */                                                            \
    X(span)                                                                                        \
    X(collection_us) /* how long a collection of garbage took; `minor` or `major`; its cause */    \
    X(collection)                                                                                  \
    X(cause)

enum fp_sample_word {
#define FP_SAMPLE_WORD_VALUE(name) FP_WORD_##name,
    FP_SAMPLE_WORD_MAP(FP_SAMPLE_WORD_VALUE)
#undef FP_SAMPLE_WORD_VALUE
        FP_SAMPLE_WORDS
};

/* Cuts the words of the sample off the end of `words`. *of_sample gets them. */
const char *fp_split_words(const struct fp_sample *sample, struct fp_slice *words,
                           struct fp_slice *of_sample);
/* By word, size 0: it has none. `of_sample` is from fp_split_words(). */
void fp_sample_words(struct fp_slice of_sample, struct fp_slice text[FP_SAMPLE_WORDS]);

/* `n[2].n[1].n[0]` of a reference: a number that a thread counts up, and the thread. */
struct fp_reference {
    uint64_t number;
    uint32_t thread;
};

/* 1; 0: the text is none. */
int fp_parse_reference(struct fp_slice text, struct fp_reference *reference);

/* The most frames of a sample; a session's have at most 255. */
#define FP_FRAMES_MOST 1024
/* Longer lines are refused. */
#define FP_FRAME_BYTES_MOST 16384

struct fp_frame_text {
    struct fp_slice symbol; /* percent-encoded, line as `:123` */
    struct fp_slice dso;
};

/* Room for a symbol and a dso, each byte of them percent-encoded. */
#define FP_ENCODED_BYTES ((size_t)6 * FP_FRAME_BYTES_MOST)

/* The frame at *at, up to its line end; *at moves behind that. `encoded` has FP_ENCODED_BYTES for
 * texts that are not encoded yet. */
const char *fp_parse_frame(enum fp_dialect dialect, const char **at, const char *end, char *encoded,
                           struct fp_frame_text *frame);

/* Moves *at behind the line of the source that perf script -F +srcline prints below a frame. */
void fp_skip_source_line(enum fp_dialect dialect, const char **at, const char *end);

/* Is this root frame of a session's sample the status? */
static inline int fp_is_status(const struct fp_frame_text *frame)
{
    return fp_slice_is(frame->dso, FP_SLICE("status"));
}
