/*
 * index_rows.c - one pass over the rows writes all of the index's columns.
 */
#include "report/export_index.h"

/* Each column gets a piece of one block. */
static void give_buffers(struct fp_index *w)
{
    struct fp_column *column[] = {&w->time,    &w->process, &w->status,
                                  &w->node,    &w->period,  &w->schema,
                                  &w->event,   &w->file,    &w->run_time,
                                  &w->run_end, &w->own};
    uint8_t *at = w->buffers;

    for (size_t i = 0; i < sizeof(column) / sizeof(column[0]); i++) {
        column[i]->buffer = at;
        at += FP_INDEX_BUFFER_BYTES;
    }
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        struct fp_metric_columns *metric = &w->metric[m];

        metric->value.buffer = at;
        metric->delta.buffer = at + FP_INDEX_BUFFER_BYTES;
        metric->odd_row.buffer = at + 2 * FP_INDEX_BUFFER_BYTES;
        metric->odd_delta.buffer = at + 3 * FP_INDEX_BUFFER_BYTES;
        at += 4 * FP_INDEX_BUFFER_BYTES;
    }
}

/* Every metric has a number in every row: 0 where the schema has none. */
static void write_metrics(struct fp_index *w, const struct fp_row *row,
                          uint64_t number)
{
    const struct fp_schema *schema = &w->profile->schema[row->schema];
    int place_of[FP_METRICS_MOST];

    memset(place_of, 0xff, sizeof(place_of));
    for (uint32_t i = 0; i < schema->count; i++)
        place_of[schema->metric[i]] = (int)i;
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        struct fp_metric_columns *metric = &w->metric[m];
        int i = place_of[m];

        if (metric->is_sparse && i < 0)
            continue;
        if (metric->is_sparse)
            fp_index_put(w, &metric->odd_row, (int64_t)number);
        fp_index_put(w, &metric->value, i < 0 ? 0 : row->value[i]);
        if (!metric->is_derived) {
            fp_index_put(w, &metric->delta, i < 0 ? 0 : row->delta[i]);
        } else if (i >= 0 && row->odd >> i & 1) {
            fp_index_put(w, &metric->odd_row, (int64_t)number);
            fp_index_put(w, &metric->odd_delta, row->delta[i]);
        }
    }
}

static void write_time(struct fp_index *w, int64_t now, uint64_t number)
{
    if (!w->has_runs) {
        fp_index_put(w, &w->time, now);
        return;
    }
    if (number > 0 && now == w->run_last)
        return;
    if (number > 0)
        fp_index_put(w, &w->run_end, (int64_t)number);
    fp_index_put(w, &w->run_time, now);
    w->run_last = now;
}

static void write_row(struct fp_index *w, const struct fp_row *row,
                      uint64_t number)
{
    write_time(w, row->time_us - w->profile->first_us, number);
    fp_index_put(w, &w->process, row->process);
    fp_index_put(w, &w->status, w->status_of[row->stack]);
    fp_index_put(w, &w->node, w->profile->tree.stack[row->stack].node);
    fp_index_put(w, &w->period, row->period);
    fp_index_put(w, &w->schema, row->schema);
    fp_index_put(w, &w->event, row->event);
    fp_index_put(w, &w->file, row->file);
    if (w->profile->process[row->process].is_own)
        fp_index_put(w, &w->own, (int64_t)number);
    write_metrics(w, row, number);
}

static void flush_all(struct fp_index *w)
{
    fp_index_flush(w, &w->time);
    fp_index_flush(w, &w->run_time);
    fp_index_flush(w, &w->run_end);
    fp_index_flush(w, &w->process);
    fp_index_flush(w, &w->status);
    fp_index_flush(w, &w->node);
    fp_index_flush(w, &w->period);
    fp_index_flush(w, &w->schema);
    fp_index_flush(w, &w->event);
    fp_index_flush(w, &w->file);
    fp_index_flush(w, &w->own);
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        fp_index_flush(w, &w->metric[m].value);
        fp_index_flush(w, &w->metric[m].delta);
        fp_index_flush(w, &w->metric[m].odd_row);
        fp_index_flush(w, &w->metric[m].odd_delta);
    }
}

int fp_index_write_rows(struct fp_index *w)
{
    struct fp_profile *profile = w->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t number = 0;
    int more;

    give_buffers(w);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        write_row(w, &row, w->is_packed ? w->rank[number] : number);
        number++;
    }
    fp_cursor_close(&cursor);
    if (w->has_runs && number > 0)
        fp_index_put(w, &w->run_end, (int64_t)number);
    flush_all(w);
    return more;
}
