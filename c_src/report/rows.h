/* rows.h - the samples of a profile, in the order of the files, as a log that is read from its
 * beginning only.
 *
 * Most samples of a process repeat the one before: a row holds the differences, in varints. One
 * that repeats all takes about 4 bytes, one of a busy process about 30, instead of 700 of text. A
 * delta that is the difference of two values is left out.
 *
 *      flags       1 byte, HAS_*
 *      time        change since the row before, signed
 *      process
 *      [file]      HAS_SOURCE: otherwise the row before's
 *      [event]     HAS_SOURCE: otherwise 0
 *      [schema]    HAS_SCHEMA: otherwise the process' last
 *      [stack]     HAS_STACK: otherwise the process' last
 *      [period]    HAS_PERIOD: otherwise 1
 *      [scheduler] HAS_SCHEDULER: otherwise 0
 *      [words]     HAS_WORDS: 0: those of the process' last row with words, else 1 + 4 times the
 *                  number of the words + 2 where `serves` is new + 1 where `call` is
 *      [reference] number and thread of a new `serves`, then of a new `call`
 *      [set]       HAS_VALUES: the places of the schema whose values changed
 *      [set]       HAS_DELTAS: the places whose deltas are odd (struct fp_row)
 *      numbers     by place: the change and the delta, where the sets have it
 *
 * Not shared between threads. */
#pragma once

#include <stdint.h>

#include "format/parse.h"
#include "report/budget.h"

/* Of a process twenty; of the profiler itself, with the memory of its node, 200. */
#define FP_METRICS_MOST 256
#define FP_METRIC_WORDS (FP_METRICS_MOST / 64)

/* Metrics, or places of a schema, by their numbers. */
typedef struct {
    uint64_t word[FP_METRIC_WORDS];
} fp_metric_set;

static inline void fp_metric_add(fp_metric_set *set, unsigned n)
{
    set->word[n / 64] |= UINT64_C(1) << n % 64;
}

static inline void fp_metric_remove(fp_metric_set *set, unsigned n)
{
    set->word[n / 64] &= ~(UINT64_C(1) << n % 64);
}

static inline int fp_metric_has(const fp_metric_set *set, unsigned n)
{
    return set->word[n / 64] >> n % 64 & 1;
}

/* 1, and the least number, which is taken out; 0: the set is empty. */
static inline int fp_metric_take(fp_metric_set *set, unsigned *n)
{
    for (unsigned w = 0; w < FP_METRIC_WORDS; w++)
        if (set->word[w] != 0) {
            *n = 64 * w + (unsigned)__builtin_ctzll(set->word[w]);
            set->word[w] &= set->word[w] - 1;
            return 1;
        }
    return 0;
}

static inline fp_metric_set fp_metric_either(const fp_metric_set *a, const fp_metric_set *b)
{
    fp_metric_set both;

    for (unsigned w = 0; w < FP_METRIC_WORDS; w++)
        both.word[w] = a->word[w] | b->word[w];
    return both;
}

static inline int fp_metric_any(const fp_metric_set *set)
{
    uint64_t any = 0;

    for (unsigned w = 0; w < FP_METRIC_WORDS; w++)
        any |= set->word[w];
    return any != 0;
}

/* The metrics of a sample, in the order of its line. */
struct fp_schema {
    uint32_t count;
    uint8_t metric[FP_METRICS_MOST];
};

struct fp_row {
    int64_t time_us;
    int64_t period;
    uint32_t process, stack, schema, event, file, scheduler;
    uint32_t words;                   /* of the sample (struct fp_words); 0: none */
    struct fp_reference serves, call; /* where the words have them, else 0 */
    /* By the place in the schema. A delta is odd when it is not the difference to the value before
     * (for the first value of a process: not 0). fp_rows_add() and fp_cursor_next() set `odd`, and
     * `changed`: values that are not the value before (of the first one: that are not 0). */
    int64_t value[FP_METRICS_MOST], delta[FP_METRICS_MOST];
    /* fp_cursor_next(): the deltas, were none of them odd. */
    int64_t difference[FP_METRICS_MOST];
    fp_metric_set odd, changed;
};

/* The last row of a process. */
struct fp_track {
    uint32_t stack, schema, words;
    struct fp_reference serves, call;
    fp_metric_set seen; /* metrics of any of its rows */
    int64_t *value;     /* by metric */
    size_t room;
};

struct fp_tracks {
    struct fp_track *track;
    size_t room;
};

struct fp_rows {
    uint8_t *bytes;
    size_t size, room;
    uint64_t count;
    struct fp_tracks tracks;
    int64_t time_us;
    uint32_t file;
};

/* 0, FP_EFULL or FP_ENOMEM. */
int fp_rows_add(struct fp_rows *rows, struct fp_budget *budget, const struct fp_schema *schemas,
                struct fp_row *row);
void fp_rows_free(struct fp_rows *rows, struct fp_budget *budget);

/* Reads from the beginning. The budget counts the cursor's own memory. */
struct fp_cursor {
    const struct fp_rows *rows;
    const struct fp_schema *schemas;
    struct fp_budget *budget;
    const uint8_t *at;
    struct fp_tracks tracks;
    int64_t time_us;
    uint32_t file;
};

void fp_cursor_open(struct fp_cursor *cursor, const struct fp_rows *rows,
                    const struct fp_schema *schemas, struct fp_budget *budget);
/* 1 and the next row; 0 at the end; FP_EFULL or FP_ENOMEM. */
int fp_cursor_next(struct fp_cursor *cursor, struct fp_row *row);
void fp_cursor_close(struct fp_cursor *cursor);
