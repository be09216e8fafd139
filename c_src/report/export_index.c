/*
 * export_index.c - a profile as typed arrays that a browser maps as they are. The layout is
 * doc/index.md's; a change of it is a new INDEX_VERSION.
 *
 * Every column has its type and its place before the first row: one pass over the rows writes them
 * all, each through a buffer of its own.
 */
#include "report/export_index.h"

#include <stdlib.h>

/* There are few statuses and many stacks: one search a stack. */
static int find_statuses(struct fp_index *w)
{
    const struct fp_tree *tree = &w->profile->tree;
    struct fp_budget *budget = &w->profile->budget;
    int err = FP_ZEROS(budget, &w->status_of, tree->stack_count);

    for (size_t s = 0; s < tree->stack_count && err == 0; s++) {
        uint32_t text = tree->stack[s].status, i = 0;

        while (i < w->status_count && w->status_text[i] != text)
            i++;
        if (i == w->status_count) {
            err = FP_GROW(budget, &w->status_text, &w->status_room, i + 1u);
            if (err != 0)
                break;
            w->status_text[w->status_count++] = text;
        }
        w->status_of[s] = i;
    }
    return err;
}

/* ------------------------------------------------------------------- layout -- */

/* A column of a number a row. Packed ones have no place: they follow each other behind everything
 * else. */
static void place_rows_of(struct fp_index *w, uint32_t c, int64_t min, int64_t max)
{
    struct fp_column *column = &w->column[c];
    uint64_t rows = w->profile->rows.count;

    fp_index_place(w, column, min, max, w->is_packed ? 0 : rows);
    column->count = rows;
    if (w->is_packed && column->type != FP_COLUMN_CONST)
        column->type = FP_COLUMN_PACKED;
}

static void place_metric(struct fp_index *w, uint32_t m)
{
    const struct fp_metric_facts *facts = &w->profile->metric[m];
    struct fp_listed_rows *listed = &w->listed[m];
    uint32_t value = FP_ROW_VALUE + 2 * m, delta = value + 1;
    uint64_t few = w->profile->rows.count / 16;
    uint64_t count = facts->rows <= few ? facts->rows : facts->odd;

    listed->is_sparse = facts->rows <= few;
    listed->is_derived = !listed->is_sparse && facts->odd <= few;
    if (listed->is_sparse || listed->is_derived) {
        fp_index_place(w, &listed->row, 0, UINT32_MAX, count);
        fp_index_place(w, &w->column[delta], facts->delta_min, facts->delta_max, count);
    } else {
        place_rows_of(w, delta, facts->delta_min, facts->delta_max);
    }
    if (listed->is_sparse)
        fp_index_place(w, &w->column[value], facts->value_min, facts->value_max, count);
    else
        place_rows_of(w, value, facts->value_min, facts->value_max);
}

/* All samples of a tick have one time: runs are a hundredth of the rows. */
static void place_time(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;
    int64_t last = profile->last_us - profile->first_us;

    w->has_runs = !w->is_packed && profile->time_runs <= profile->rows.count / 4;
    if (!w->has_runs) {
        place_rows_of(w, FP_ROW_TIME, 0, last);
        return;
    }
    fp_index_place(w, &w->column[FP_ROW_TIME], 0, last, profile->time_runs);
    fp_index_place(w, &w->run_end, 0, (int64_t)profile->rows.count, profile->time_runs);
}

static int64_t last_of(size_t count)
{
    return count == 0 ? 0 : (int64_t)count - 1;
}

static void place_rows(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;

    place_time(w);
    place_rows_of(w, FP_ROW_PROCESS, 0, last_of(profile->process_count));
    place_rows_of(w, FP_ROW_STATUS, 0, last_of(w->status_count));
    place_rows_of(w, FP_ROW_NODE, 0, last_of(profile->tree.node_count));
    place_rows_of(w, FP_ROW_PERIOD, 1, profile->period_max);
    place_rows_of(w, FP_ROW_SCHEMA, 0, last_of(profile->schema_count));
    place_rows_of(w, FP_ROW_EVENT, 0, last_of(profile->event_count));
    place_rows_of(w, FP_ROW_FILE, 0, last_of(profile->file_count));
    fp_index_place(w, &w->own, 0, UINT32_MAX, profile->own_count);
    for (uint32_t m = 0; m < profile->metric_count; m++)
        place_metric(w, m);
}

/* --------------------------------------------------------------------- rows -- */

/* A row without the metric has the numbers 0 and is not listed. */
static void write_metrics(struct fp_index *w, const struct fp_row *row, uint64_t number)
{
    const struct fp_schema *schema = &w->profile->schema[row->schema];
    int place_of[FP_METRICS_MOST];

    memset(place_of, 0xff, sizeof(place_of));
    for (uint32_t i = 0; i < schema->count; i++)
        place_of[schema->metric[i]] = (int)i;
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        struct fp_listed_rows *listed = &w->listed[m];
        struct fp_column *value = &w->column[FP_ROW_VALUE + 2 * m];
        int i = place_of[m];
        bool is_listed = listed->is_sparse    ? i >= 0
                         : listed->is_derived ? i >= 0 && row->odd >> i & 1
                                              : false;

        if (is_listed)
            fp_index_put(w, &listed->row, (int64_t)number);
        if (is_listed || !listed->is_sparse)
            fp_index_put(w, value, i < 0 ? 0 : row->value[i]);
        if (is_listed || !(listed->is_sparse || listed->is_derived))
            fp_index_put(w, value + 1, i < 0 ? 0 : row->delta[i]);
    }
}

/* 1 where the time begins a run. */
static bool begins_run(struct fp_index *w, const struct fp_row *row, uint64_t number)
{
    if (!w->has_runs)
        return true;
    if (number > 0 && row->time_us == w->run_us)
        return false;
    if (number > 0)
        fp_index_put(w, &w->run_end, (int64_t)number);
    w->run_us = row->time_us;
    return true;
}

static void write_row(struct fp_index *w, const struct fp_row *row, uint64_t number)
{
    for (uint32_t c = 0; c < FP_ROW_VALUE; c++) {
        struct fp_column *column = &w->column[c];

        if (fp_column_kind[column->type].size > 0 &&
            (c != FP_ROW_TIME || begins_run(w, row, number)))
            fp_index_put(w, column, fp_index_number(w, c, row));
    }
    if (w->profile->process[row->process].is_own)
        fp_index_put(w, &w->own, (int64_t)number);
    write_metrics(w, row, number);
}

static int write_rows(struct fp_index *w)
{
    struct fp_profile *profile = w->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t number = 0;
    int more;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        write_row(w, &row, w->is_packed ? w->rank[number] : number);
        number++;
    }
    fp_cursor_close(&cursor);
    if (w->has_runs && number > 0)
        fp_index_put(w, &w->run_end, (int64_t)number);
    return more;
}

/* --------------------------------------------------------------------- whole -- */

static int write_all(struct fp_index *w)
{
    int err = find_statuses(w);

    if (err == 0 && w->is_packed)
        err = fp_index_find_order(w);
    if (err != 0)
        return err;
    fp_index_place_tables(w);
    place_rows(w);
    fp_index_write_header(w);
    fp_index_write_tables(w);
    err = write_rows(w);
    for (size_t i = 0; i < w->placed_count; i++)
        fp_index_flush(w, w->placed[i]);
    /* The padding behind the last column is part of the file. */
    fp_output_extend(w->output, w->base + w->end);
    return err == 0 && w->is_packed ? fp_index_write_packed(w) : err;
}

int fp_export_index(struct fp_profile *profile, struct fp_output *output, int is_packed)
{
    struct fp_budget *budget = &profile->budget;
    struct fp_index *w;
    int err;

    if (profile->rows.count > UINT32_MAX || profile->strings.size > UINT32_MAX)
        return FP_EFULL;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return FP_ENOMEM;
    w->profile = profile;
    w->output = output;
    w->is_packed = is_packed;
    w->buffers = malloc(FP_INDEX_COLUMNS * FP_INDEX_BUFFER_BYTES);
    err = w->buffers == NULL ? FP_ENOMEM : write_all(w);
    FP_FREE(budget, w->status_text, w->status_room);
    FP_FREE(budget, w->status_of, profile->tree.stack_count);
    FP_FREE(budget, w->order, profile->rows.count);
    FP_FREE(budget, w->rank, profile->rows.count);
    free(w->buffers);
    free(w);
    return err;
}
