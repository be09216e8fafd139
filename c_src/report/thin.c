#include "report/thin.h"

#include <stdbool.h>

#define SECOND_US 1000000
/* Rows that stay in fine seconds: half a megabyte of a report. */
#define FINE_ROWS_MOST 50000
/* A second is fine if a sum of its changes is this many times that of a mean second. */
#define FINE_TIMES 8
#define SECONDS_MOST ((int64_t)10 << 20)

/* ---- seconds in which something happened -------------------------------- */

static const struct fp_slice watched[] = {
    FP_SLICE("message_queue_len"), FP_SLICE("memory"), FP_SLICE("bin_vheap_size"),
    FP_SLICE("minor_gcs"),         FP_SLICE("missed"), FP_SLICE("node_run_queues"),
};

#define WATCHED (sizeof(watched) / sizeof(*watched))

struct thin_second {
    double change[WATCHED]; /* of all processes together */
    double score;
    uint64_t rows;
    int64_t number;
};

static double size_of(double number)
{
    return number < 0 ? -number : number;
}

static int64_t second_of(const struct fp_profile *profile, const struct fp_row *row)
{
    return (row->time_us - profile->first_us) / SECOND_US;
}

static int add_up(struct fp_profile *profile, struct thin_second *second)
{
    int metric[WATCHED], more;
    struct fp_cursor cursor;
    struct fp_row row;

    for (size_t i = 0; i < WATCHED; i++)
        metric[i] = fp_profile_metric(profile, watched[i]);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        struct thin_second *one = &second[second_of(profile, &row)];

        one->rows++;
        for (size_t i = 0; i < WATCHED; i++) {
            int place = metric[i] < 0 ? -1 : fp_profile_place(profile, &row, metric[i]);

            if (place >= 0)
                one->change[i] += (double)row.delta[place];
        }
    }
    fp_cursor_close(&cursor);
    return more;
}

static void score(struct thin_second *second, int64_t count)
{
    for (size_t i = 0; i < WATCHED; i++) {
        double sum = 0;

        for (int64_t s = 0; s < count; s++)
            sum += size_of(second[s].change[i]);
        for (int64_t s = 0; s < count && sum > 0; s++) {
            double times = size_of(second[s].change[i]) * (double)count / sum;

            if (times > second[s].score)
                second[s].score = times;
        }
    }
    for (int64_t s = 0; s < count; s++)
        second[s].number = s;
}

static int by_score(const void *a, const void *b)
{
    const struct thin_second *x = a, *y = b;

    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->number < y->number ? -1 : 1;
}

static int find_fine(struct fp_profile *profile)
{
    int64_t count = (profile->last_us - profile->first_us) / SECOND_US + 1;
    struct fp_budget *budget = &profile->budget;
    struct thin_second *second;
    uint64_t rows = 0;
    int err;

    if (count > SECONDS_MOST)
        return 0;
    err = FP_ZEROS(budget, &second, (size_t)count);
    if (err != 0)
        return err;
    err = FP_ZEROS(budget, &profile->fine, (size_t)count);
    if (err == 0) {
        profile->fine_count = (size_t)count;
        err = add_up(profile, second);
    }
    if (err == 0) {
        score(second, count);
        qsort(second, (size_t)count, sizeof(*second), by_score);
    }
    for (int64_t s = 0; s < count && err == 0 && second[s].score >= FINE_TIMES; s++) {
        rows += second[s].rows;
        if (rows > FINE_ROWS_MOST)
            break;
        profile->fine[second[s].number] = 1;
    }
    FP_FREE(budget, second, (size_t)count);
    return err;
}

/* ---- merged rows -------------------------------------------------------- */

/* Of the interval that is being read. */
struct merged {
    int64_t time_us, period;
    uint32_t process, stack, schema, event, file, scheduler;
    uint64_t last; /* number of its last sample */
    size_t number; /* place of its values and deltas */
};

struct thinning {
    struct fp_profile *profile;
    int64_t interval_us, cell;
    struct fp_table table;
    struct merged *merged;
    size_t count, room;
    int64_t *number; /* of the merged: values, then deltas, by the place in the schema */
    size_t number_count, number_room;
    struct fp_rows rows;
    uint64_t samples;
    struct fp_row row;
};

static bool is_same(const struct merged *merged, const struct fp_row *row)
{
    return merged->process == row->process && merged->stack == row->stack &&
           merged->schema == row->schema && merged->event == row->event &&
           merged->file == row->file && merged->scheduler == row->scheduler;
}

/* Only a period that is a number of observations, and no row of the profiler itself. */
static bool may_merge(const struct thinning *thinning, const struct fp_row *row)
{
    const struct fp_profile *profile = thinning->profile;
    int64_t second = second_of(profile, row);

    return profile->file[row->file].dialect == FP_FLAME_PROF &&
           profile->schema[row->schema].count != 1 && !profile->process[row->process].is_own &&
           !((size_t)second < profile->fine_count && profile->fine[second]);
}

static int add_merged(struct thinning *thinning, const struct fp_row *row, struct merged **merged)
{
    struct fp_budget *budget = &thinning->profile->budget;
    uint32_t count = thinning->profile->schema[row->schema].count;
    int err = FP_GROW(budget, &thinning->merged, &thinning->room, thinning->count + 1);

    if (err == 0)
        err = FP_GROW(budget, &thinning->number, &thinning->number_room,
                      thinning->number_count + 2 * FP_METRICS_MOST);
    if (err != 0)
        return err;
    *merged = &thinning->merged[thinning->count++];
    **merged = (struct merged){.process = row->process,
                               .stack = row->stack,
                               .schema = row->schema,
                               .event = row->event,
                               .file = row->file,
                               .scheduler = row->scheduler,
                               .number = thinning->number_count};
    memset(thinning->number + thinning->number_count, 0, 2 * count * sizeof(*thinning->number));
    thinning->number_count += 2 * count;
    return 0;
}

static int merged_of(struct thinning *thinning, const struct fp_row *row, struct merged **merged)
{
    uint64_t hash = fp_hash_two((uint64_t)row->process << 32 | row->stack, row->scheduler);
    struct fp_table_at at;
    uint32_t id;
    int err;

    if (!may_merge(thinning, row))
        return add_merged(thinning, row, merged);
    fp_table_seek(&thinning->table, hash, &at);
    while (fp_table_next(&thinning->table, &at, &id)) {
        *merged = &thinning->merged[id];
        if (is_same(*merged, row))
            return 0;
    }
    err =
        fp_table_put(&thinning->table, &thinning->profile->budget, hash, (uint32_t)thinning->count);
    return err == 0 ? add_merged(thinning, row, merged) : err;
}

static int by_last(const void *a, const void *b)
{
    uint64_t x = ((const struct merged *)a)->last, y = ((const struct merged *)b)->last;

    return x < y ? -1 : x > y;
}

static int keep(struct thinning *thinning, const struct merged *merged)
{
    struct fp_profile *profile = thinning->profile;
    struct fp_row *row = &thinning->row;
    uint32_t count = profile->schema[merged->schema].count;

    row->time_us = merged->time_us;
    row->period = merged->period;
    row->process = merged->process;
    row->stack = merged->stack;
    row->schema = merged->schema;
    row->event = merged->event;
    row->file = merged->file;
    row->scheduler = merged->scheduler;
    memcpy(row->value, thinning->number + merged->number, count * sizeof(*row->value));
    memcpy(row->delta, thinning->number + merged->number + count, count * sizeof(*row->delta));
    return fp_profile_keep_row(profile, &thinning->rows, row);
}

/* The rows of the interval that was read, in the order of their last samples. */
static int keep_all(struct thinning *thinning)
{
    int err = 0;

    if (thinning->count > 0)
        qsort(thinning->merged, thinning->count, sizeof(*thinning->merged), by_last);
    for (size_t i = 0; i < thinning->count && err == 0; i++)
        err = keep(thinning, &thinning->merged[i]);
    fp_table_clear(&thinning->table);
    thinning->count = thinning->number_count = 0;
    return err;
}

static int merge(struct thinning *thinning, const struct fp_row *row)
{
    const struct fp_profile *profile = thinning->profile;
    int64_t cell = (row->time_us - profile->first_us) / thinning->interval_us;
    uint32_t count = profile->schema[row->schema].count;
    struct merged *merged;
    int64_t *value, *delta;
    int err = cell != thinning->cell ? keep_all(thinning) : 0;

    thinning->cell = cell;
    if (err == 0)
        err = merged_of(thinning, row, &merged);
    if (err != 0)
        return err;
    value = thinning->number + merged->number;
    delta = value + count;
    merged->time_us = row->time_us;
    merged->period = (int64_t)fp_sum((uint64_t)merged->period, (uint64_t)row->period);
    merged->last = thinning->samples++;
    for (uint32_t i = 0; i < count; i++) {
        value[i] = row->value[i];
        delta[i] = (int64_t)((uint64_t)delta[i] + (uint64_t)row->delta[i]);
    }
    return 0;
}

/* Ranges stay: they are of what was merged, too. */
static void forget_rows(struct fp_profile *profile)
{
    profile->own_count = profile->time_runs = 0;
    profile->message_rows = profile->call_rows = profile->wait_rows = 0;
    profile->trace_rows = profile->collection_rows = 0;
    for (uint32_t m = 0; m < profile->metric_count; m++) {
        struct fp_metric_facts *facts = &profile->metric[m];

        *facts = (struct fp_metric_facts){.name = facts->name};
    }
    for (size_t p = 0; p < profile->process_count; p++)
        profile->process[p].samples = 0;
}

int fp_profile_thin(struct fp_profile *profile, int64_t interval_us)
{
    struct fp_budget *budget = &profile->budget;
    struct thinning thinning = {.profile = profile, .interval_us = interval_us};
    struct fp_cursor cursor;
    struct fp_row row;
    int err = 0, more = 1;

    if (profile->source != NULL || profile->indexed.is_set)
        return FP_ESTATE;
    if (profile->coarse_us == 0)
        err = find_fine(profile);
    if (err != 0)
        return err;
    forget_rows(profile);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, budget);
    while (err == 0 && (more = fp_cursor_next(&cursor, &row)) > 0)
        err = merge(&thinning, &row);
    fp_cursor_close(&cursor);
    if (err == 0)
        err = more < 0 ? more : keep_all(&thinning);
    fp_table_free(&thinning.table, budget);
    FP_FREE(budget, thinning.merged, thinning.room);
    FP_FREE(budget, thinning.number, thinning.number_room);
    fp_rows_free(&profile->rows, budget);
    profile->rows = thinning.rows;
    profile->coarse_us = interval_us;
    return err;
}
