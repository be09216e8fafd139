/* profile.h - files read whole: texts, frames, the tree of stacks, processes, and one row for each
 * sample.
 *
 *      fp_profile_create(&profile, limit);
 *      fp_profile_begin(profile, source, "a.log");
 *      while ((more = fp_profile_step(profile, bytes)) > 0)
 *          ;
 *      fp_cursor_open(&cursor, &profile->rows, profile->schema, ...);
 *
 * Only profile.c writes the fields. A profile never holds more than its limit: the step returns
 * FP_EFULL, and the profile has what was read before. One thread at a time. */
#pragma once

#include <stdbool.h>

#include "report/carry.h"
#include "report/messages.h"
#include "report/tree.h"
#include "store/source.h"

#define FP_SCHEMAS_MOST 64
#define FP_WARNINGS_MOST 32
#define FP_FILES_MOST 65535
#define FP_EVENTS_MOST 256

/* thread, comm, words to proc_lib_initial_call: texts. The words are those of its last sample. */
struct fp_process {
    uint32_t thread; /* "4242/71" (with its command before format 2), "0.71.0" */
    uint32_t comm;
    uint64_t pid, tid;
    uint32_t words; /* all of them, as in the file */
    uint32_t erl_pid, name, label, initial_call, proc_lib_initial_call;
    uint32_t file; /* of its first sample */
    uint32_t node; /* the first process of its OS process */
    int is_own;    /* the profiler itself, see fp_sample_is_own() */
    uint64_t samples;
    int64_t first_us, last_us;
};

/* The words of a sample, without references, which stand in its row. Texts. */
struct fp_words {
    uint32_t message; /* `call:{get,_}`; 0: it has none, as below */
    uint32_t waits_for, request;
    uint32_t references; /* 1: `serves`, 2: `call` */
    uint32_t trace, span;
    uint32_t collection; /* `12345 major heap`: microseconds, kind and cause of a long one */
    uint32_t unused;
};

#define FP_WORDS_SERVES 1u
#define FP_WORDS_CALL 2u

struct fp_metric_facts {
    uint32_t name;
    int64_t value_min, value_max, delta_min, delta_max; /* 0 is among them */
    uint64_t rows;                                      /* with this metric */
    uint64_t samples;                                   /* of these, without the profiler's own */
    uint64_t odd;                                       /* of these, whose delta is odd (rows.h) */
};

struct fp_file {
    uint32_t path;
    enum fp_dialect dialect; /* of its first sample */
    struct fp_source_state source;
    uint64_t samples, bad; /* without the profiler's own */
    uint64_t observations; /* the sum of fp_row_count() over these samples */
    uint64_t left_out;     /* samples of events that were not selected */
    uint64_t shortened;    /* samples of which frames were left out */
    uint32_t event;        /* of its first sample, by its number; it has one if it has a dialect */
    struct fp_messages messages;
    uint32_t own;  /* text: the fields of the profiler's last own sample */
    uint32_t node; /* text; 0: unknown, or mixed up with another one (other_nodes.h) */
    uint64_t pid;  /* its OS process, where the node is known */
    struct fp_formats formats;
    int64_t first_us, last_us; /* least and greatest */
};

struct fp_warning {
    uint32_t file;
    uint64_t line; /* 0: of the file as a whole */
    const char *what;
};

/* The contents of the pieces of the index so far: fp_export_index_piece() of export.h. */
struct fp_index_mark {
    bool is_set, has_failed;
    struct fp_cursor cursor; /* behind the last row, which is at `row_bytes` */
    size_t row_bytes;
    uint64_t rows, own_rows, message_rows, wait_rows, trace_rows, collection_rows;
    size_t strings, string_bytes, frames, nodes;
    uint64_t metric_rows[FP_METRICS_MOST], metric_odd[FP_METRICS_MOST];
    int64_t first_us;
};

struct fp_profile {
    struct fp_budget budget;
    struct fp_strings strings;
    struct fp_tree tree;
    struct fp_rows rows;
    struct fp_process *process;
    size_t process_count, process_room;
    struct fp_table processes; /* by thread and erl_pid; the first of a node: by pid, too */
    struct fp_words *words;    /* of samples; number 0 has none */
    size_t words_count, words_room;
    struct fp_table words_table;
    uint64_t message_rows, call_rows, wait_rows, trace_rows, collection_rows; /* with these words */
    uint32_t *last; /* by text of a thread: its last process, from 1 on */
    size_t last_room;
    struct fp_metric_facts metric[FP_METRICS_MOST];
    uint32_t metric_count;
    struct fp_schema schema[FP_SCHEMAS_MOST];
    uint32_t schema_count, last_schema;
    uint64_t own_count; /* rows that are the profiler's own */
    uint64_t time_runs; /* rows of another time than the row before */
    uint32_t *event;    /* texts */
    size_t event_count, event_room;
    uint64_t event_samples[FP_EVENTS_MOST]; /* of files, also of those that were not selected */
    enum fp_choice { FP_FIRST_EVENT, FP_ALL_EVENTS, FP_ONE_EVENT } choice;
    uint32_t selected;   /* ONE: the text; else 0 */
    int64_t period_seen; /* of a sample of which it is no number of observations; -1: of none */
    bool has_periods;    /* there are different ones of such samples */
    int64_t period_min;  /* 0 or 1 */
    int64_t process_us;  /* the time of the first sample of a process; INT64_MAX: there is none */
    struct fp_file *file;
    size_t file_count, file_room;
    struct fp_warning warning[FP_WARNINGS_MOST]; /* the first ones */
    uint64_t warning_count;                      /* of all */
    int64_t first_us, last_us, period_max;
    uint32_t scheduler_max;
    int is_ordered; /* no row is earlier than the one before it */
    struct fp_index_mark indexed;
    uint64_t cpu_ns;               /* of all steps, by their caller, and all pieces */
    struct fp_source_state before; /* of the last file, when it was continued */
    uint64_t next_line;            /* of it */
    int64_t coarse_us;             /* thin.h: the interval; 0: every row is a sample */
    uint8_t *fine;                 /* by second from first_us on: its rows are samples */
    size_t fine_count;
    /* while a file is read */
    struct fp_source *source;
    bool is_followed; /* fp_profile_continue() was called: it will be again */
    struct fp_source *resting;
    struct fp_scan scan;
    struct fp_carry carry;
    struct fp_fields fields; /* of the last sample */
    struct fp_row row;
    const char *bad; /* why the last sample is damaged */
};

/* 0 or FP_ENOMEM. `limit` in bytes. */
int fp_profile_create(struct fp_profile **profile, size_t limit);
void fp_profile_destroy(struct fp_profile *profile);

/* Which samples are read where there are several events, which count different things: those of the
 * first one of all files, if nothing is said; before the first file. 0 or FP_ENOMEM. */
int fp_profile_choose_event(struct fp_profile *profile, enum fp_choice choice,
                            struct fp_slice name);

/* Begins a file. The profile closes the source, also after an error: FP_ENOMEM, FP_EFULL,
 * FP_ESTATE: another one is being read. */
int fp_profile_begin(struct fp_profile *profile, struct fp_source *source, struct fp_slice path);
/* The same for what was written to the last file since it was read: the source begins where that
 * one's `bytes_in` ended. The file may have another path now. FP_ESTATE: also without a file. */
int fp_profile_continue(struct fp_profile *profile, struct fp_source *source, struct fp_slice path);
/* The source of the last file that was continued, for fp_source_reopen(); NULL: there is none. */
struct fp_source *fp_profile_take_source(struct fp_profile *profile);
/* Read about `bytes` of text. 1: there is more; 0: the file is at its end; FP_EIO, FP_EFULL,
 * FP_ENOMEM, FP_ENEWER, FP_EMIXED: it ends here. */
int fp_profile_step(struct fp_profile *profile, uint64_t bytes);

/* For thin.h: adds a row that replaces others to `rows`, and notes what is in it. */
int fp_profile_keep_row(struct fp_profile *profile, struct fp_rows *rows, struct fp_row *row);

static inline struct fp_slice fp_profile_text(const struct fp_profile *profile, uint32_t id)
{
    return fp_strings_at(&profile->strings, id);
}

/* Of the sample itself. */
static inline const struct fp_words *fp_row_words(const struct fp_profile *profile,
                                                  const struct fp_row *row)
{
    static const struct fp_words none;

    return row->words == 0 ? &none : &profile->words[row->words];
}

/* By name; -1: there is none. */
int fp_profile_metric(const struct fp_profile *profile, struct fp_slice name);
/* The place of a metric in the row's schema; -1: the row does not have it. */
int fp_profile_place(const struct fp_profile *profile, const struct fp_row *row, int metric);

/* Does it weigh words of memory, of which its samples tell who has allocated them? */
static inline int fp_profile_is_of_allocations(const struct fp_profile *profile)
{
    return profile->event_count > 0 &&
           fp_is_allocation(fp_profile_text(profile, profile->event[0]));
}

/* How many observations a sample stands for: its period in a session's file (doc/sampling.md, What
 * waits and does not move). 1 where a period means something else: in perf's files, and in weighted
 * exports. */
int64_t fp_row_count(const struct fp_profile *profile, const struct fp_row *row);

/* The sum of two numbers that are not negative, at most INT64_MAX: a damaged file may hold any
 * numbers. */
static inline uint64_t fp_sum(uint64_t a, uint64_t b)
{
    return a + b < a || a + b > INT64_MAX ? INT64_MAX : a + b;
}
