/*
 * index.c - a profile as typed arrays that a browser maps as they are. The
 * layout is doc/index.md's; a change of it is a new INDEX_VERSION.
 *
 * The facts of a profile tell the range of every column, so that its type and
 * its place are known before the first row: one pass writes them all, each
 * through a buffer of its own.
 */
#include "report/export_index.h"

#include <stdlib.h>

#define COLUMNS_MOST (11 + 4 * FP_METRICS_MOST)

const struct fp_column_kind fp_column_kind[] = {
    [FP_COLUMN_CONST] = {"const", 0},   [FP_COLUMN_U8] = {"u8", 1},
    [FP_COLUMN_I8] = {"i8", 1},         [FP_COLUMN_U16] = {"u16", 2},
    [FP_COLUMN_I16] = {"i16", 2},       [FP_COLUMN_U32] = {"u32", 4},
    [FP_COLUMN_I32] = {"i32", 4},       [FP_COLUMN_F64] = {"f64", 8},
    [FP_COLUMN_PACKED] = {"packed", 0},
};

/* ------------------------------------------------------------------ columns -- */

static enum fp_column_type type_for(int64_t min, int64_t max)
{
    if (min == max)
        return FP_COLUMN_CONST;
    if (min >= 0)
        return max <= UINT8_MAX    ? FP_COLUMN_U8
               : max <= UINT16_MAX ? FP_COLUMN_U16
               : max <= UINT32_MAX ? FP_COLUMN_U32
                                   : FP_COLUMN_F64;
    if (min >= INT8_MIN && max <= INT8_MAX)
        return FP_COLUMN_I8;
    if (min >= INT16_MIN && max <= INT16_MAX)
        return FP_COLUMN_I16;
    return min >= INT32_MIN && max <= INT32_MAX ? FP_COLUMN_I32 : FP_COLUMN_F64;
}

uint64_t fp_index_aligned(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

static void place(struct fp_index *w, struct fp_column *column, int64_t min,
                  int64_t max, uint64_t count)
{
    column->type = type_for(min, max);
    column->constant = min;
    column->count = count;
    column->offset = w->end;
    w->end += fp_index_aligned(count * fp_column_kind[column->type].size);
}

/* A column of a number a row. Packed ones have no place: they follow each other
 * behind everything else. */
static void place_row_column(struct fp_index *w, struct fp_column *column,
                             int64_t min, int64_t max)
{
    place(w, column, min, max, w->is_packed ? 0 : w->profile->rows.count);
    column->count = w->profile->rows.count;
    if (w->is_packed && column->type != FP_COLUMN_CONST)
        column->type = FP_COLUMN_PACKED;
}

void fp_index_flush(struct fp_index *w, struct fp_column *column)
{
    fp_output_at(w->output, w->base + column->offset + column->written,
                 column->buffer, column->used);
    column->written += column->used;
    column->used = 0;
}

/* ----------------------------------------------------------------- statuses -- */

/* Few statuses, many stacks: each stack is asked once. */
static int find_statuses(struct fp_index *w)
{
    const struct fp_tree *tree = &w->profile->tree;
    struct fp_budget *budget = &w->profile->budget;
    int err =
        FP_GROW(budget, &w->status_of, &w->status_of_room, tree->stack_count);

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

static int64_t last_of(size_t count)
{
    return count == 0 ? 0 : (int64_t)count - 1;
}

static void place_metric(struct fp_index *w, uint32_t m)
{
    const struct fp_metric_facts *facts = &w->profile->metric[m];
    struct fp_metric_columns *metric = &w->metric[m];
    uint64_t rows = w->profile->rows.count;

    metric->is_sparse = facts->rows <= rows / 16;
    if (metric->is_sparse) {
        place(w, &metric->odd_row, 0, (int64_t)UINT32_MAX, facts->rows);
        place(w, &metric->value, facts->value_min, facts->value_max,
              facts->rows);
        place(w, &metric->delta, facts->delta_min, facts->delta_max,
              facts->rows);
        return;
    }
    place_row_column(w, &metric->value, facts->value_min, facts->value_max);
    metric->is_derived = facts->odd <= rows / 16;
    if (!metric->is_derived) {
        place_row_column(w, &metric->delta, facts->delta_min, facts->delta_max);
        return;
    }
    place(w, &metric->odd_row, 0, (int64_t)UINT32_MAX, facts->odd);
    place(w, &metric->odd_delta, facts->delta_min, facts->delta_max,
          facts->odd);
}

/* All samples of a tick are of one time: a hundredth of the rows' number. */
static void place_time(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;
    int64_t last = profile->last_us - profile->first_us;

    w->has_runs =
        !w->is_packed && profile->time_runs <= profile->rows.count / 4;
    if (!w->has_runs) {
        place_row_column(w, &w->time, 0, last);
        return;
    }
    place(w, &w->run_time, 0, last, profile->time_runs);
    place(w, &w->run_end, 0, (int64_t)profile->rows.count, profile->time_runs);
}

static void place_rows(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;

    place_time(w);
    place_row_column(w, &w->process, 0, last_of(profile->process_count));
    place_row_column(w, &w->status, 0, last_of(w->status_count));
    place_row_column(w, &w->node, 0, last_of(profile->tree.node_count));
    place_row_column(w, &w->period, 1, profile->period_max);
    place_row_column(w, &w->schema, 0, last_of(profile->schema_count));
    place_row_column(w, &w->event, 0, last_of(profile->event_count));
    place_row_column(w, &w->file, 0, last_of(profile->file_count));
    place(w, &w->own, 0, (int64_t)UINT32_MAX, profile->own_count);
    for (uint32_t m = 0; m < profile->metric_count; m++)
        place_metric(w, m);
}

/* --------------------------------------------------------------------- whole -- */

static int write_all(struct fp_index *w)
{
    struct fp_column columns[FP_INDEX_TABLES];
    int err = find_statuses(w);

    if (err == 0 && w->is_packed)
        err = fp_index_find_order(w);
    if (err != 0)
        return err;
    for (int t = 0; t < FP_INDEX_TABLES; t++)
        fp_index_place_table(w, &columns[t], (enum fp_index_table)t);
    place_rows(w);
    fp_index_write_header(w, columns);
    for (int t = 0; t < FP_INDEX_TABLES; t++)
        fp_index_write_table(w, &columns[t], (enum fp_index_table)t);
    err = fp_index_write_rows(w);
    /* The padding behind the last column is part of the file. */
    fp_output_extend(w->output, w->base + w->end);
    return err == 0 && w->is_packed ? fp_index_write_packed(w) : err;
}

int fp_export_index(struct fp_profile *profile, struct fp_output *output,
                    int is_packed)
{
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
    w->buffers = malloc(COLUMNS_MOST * FP_INDEX_BUFFER_BYTES);
    err = w->buffers == NULL ? FP_ENOMEM : write_all(w);
    fp_budget_free(&profile->budget, w->status_text, sizeof(*w->status_text),
                   w->status_room);
    fp_budget_free(&profile->budget, w->status_of, sizeof(*w->status_of),
                   w->status_of_room);
    fp_budget_free(&profile->budget, w->order, sizeof(*w->order),
                   w->order_room);
    fp_budget_free(&profile->budget, w->rank, sizeof(*w->rank), w->rank_room);
    free(w->buffers);
    free(w);
    return err;
}
