/* facts.h - what rules judge of each process: how its observations fared, how few numbers went over
 * time, what it waited for and served, and how long it stayed in one BIF, NIF or collection.
 *
 * Two passes over the rows. The numbers over time (`parts`) are those of processes whose numbers
 * are large enough to matter, FP_FACTS_PARTS to a process, in equal parts of its own time.
 *
 * A stay is of consecutive samples with the same reductions: the VM adds to them whenever a process
 * leaves its scheduler, so that one stay is one call of a BIF or NIF that does not yield, or one
 * collection. Files without the metric have none.
 *
 * Not shared between threads. */
#pragma once

#include "report/profile.h"

#define FP_FACTS_PARTS 32

/* By number: what a process does; the rest is `other`. */
enum fp_facts_status {
    FP_FACTS_RUNNING,
    FP_FACTS_RUNNABLE,
    FP_FACTS_WAITING,
    FP_FACTS_GC,
    FP_FACTS_OTHER,
    FP_FACTS_STATUSES
};

/* Messages; bytes; words in binaries of the young and the old heap; words that the last collection
 * left, in both heaps. */
enum fp_facts_number {
    FP_FACTS_QUEUE,
    FP_FACTS_MEMORY,
    FP_FACTS_BIN_VHEAP,
    FP_FACTS_SURVIVED,
    FP_FACTS_NUMBERS
};

struct fp_facts_range {
    int64_t first, last, min, max;
};

struct fp_facts_part {
    int64_t time_us; /* of the first sample in it; 0: it has none */
    struct fp_facts_range of[FP_FACTS_NUMBERS];
};

#define FP_FACTS_NO_FRAME UINT32_MAX

struct fp_stay {
    int64_t since_us, until_us; /* of its first and its last sample */
    uint32_t frame;             /* of the tree: the BIF or NIF, else the function; or: */
    uint32_t scheduler;         /* a normal one; 0: a collection */
    uint32_t samples;           /* 0: there was none */
};

/* The longest stay, and those of FP_FACTS_LONG_US and three samples at least. */
struct fp_stays {
    struct fp_stay longest;
    uint64_t count, us;
};

#define FP_FACTS_LONG_US 50000

struct fp_process_facts {
    uint64_t observations[FP_FACTS_STATUSES];
    uint64_t seen; /* samples with numbers: without, ranges are 0 */
    struct fp_facts_range range[FP_FACTS_NUMBERS];
    int64_t reductions; /* in the time of its samples */
    struct fp_stays native, collections;
    struct fp_facts_part *part; /* FP_FACTS_PARTS, or NULL */
};

/* How many observations of a process name a text: what it waits for, or what it serves. */
struct fp_facts_text {
    uint32_t first;  /* the process */
    uint32_t second; /* twice the text, plus 1: it serves it */
    uint64_t observations;
};

struct fp_facts {
    struct fp_process_facts *process; /* by process of the profile */
    size_t process_count;
    struct fp_facts_text *text;
    size_t text_count, text_room;
    struct fp_table texts;
    uint32_t own; /* the profiler's process with the most samples; UINT32_MAX: there is none */
    size_t parts; /* processes that have them */
};

/* 0, FP_EFULL or FP_ENOMEM; free it in any case. */
int fp_facts_make(struct fp_facts *facts, struct fp_profile *profile);
void fp_facts_free(struct fp_facts *facts, struct fp_budget *budget);
