/* export_index.c - a profile as typed arrays that a browser maps as they are. The layout is
 * doc/dev/viewer_index.md's; a change of it is a new INDEX_VERSION.
 *
 * One pass over the rows writes all columns. */
#include "report/export_index.h"

#include "base/clock.h"

/* ------------------------------------------------------------------- layout -- */

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
        w->status_of[s] = i;
        if (i < w->status_count)
            continue;
        err = FP_GROW(budget, &w->status_text, &w->status_room, i + 1u);
        if (err == 0)
            w->status_text[w->status_count++] = text;
    }
    return err;
}

/* A column of a number a row. Packed ones have no place: they follow each other behind everything
 * else. */
static void place_rows_of(struct fp_index *w, uint32_t c, int64_t min, int64_t max)
{
    struct fp_column *column = &w->column[c];

    fp_index_place(w, column, min, max, w->is_packed ? 0 : w->rows);
    column->count = w->rows;
    if (w->is_packed && column->type != FP_COLUMN_CONST)
        column->type = FP_COLUMN_PACKED;
}

static void place_metric(struct fp_index *w, uint32_t m)
{
    const struct fp_metric_facts *facts = &w->profile->metric[m];
    struct fp_listed_rows *listed = &w->listed[m];
    uint32_t value = FP_ROW_VALUE + 2 * m, delta = value + 1;
    uint64_t few = w->rows / 16;
    uint64_t rows = facts->rows - w->from->metric_rows[m];
    uint64_t odd = facts->odd - w->from->metric_odd[m];
    uint64_t count = rows <= few ? rows : odd;

    listed->is_sparse = rows <= few;
    if (!listed->is_sparse)
        fp_metric_add(&w->in_rows, m);
    listed->is_derived = !listed->is_sparse && odd <= few;
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

    w->has_runs =
        !w->is_packed && w->from->rows == 0 && profile->time_runs <= profile->rows.count / 4;
    if (!w->has_runs) {
        place_rows_of(w, FP_ROW_TIME, 0, last);
        return;
    }
    fp_index_place(w, &w->column[FP_ROW_TIME], 0, last, profile->time_runs);
    fp_index_place(w, &w->run_end, 0, (int64_t)profile->rows.count, profile->time_runs);
}

static void place_numbers(struct fp_index *w, uint32_t c, size_t count)
{
    place_rows_of(w, c, 0, count == 0 ? 0 : (int64_t)count - 1);
}

static void place_all(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;

    fp_index_place_tables(w);
    place_time(w);
    place_numbers(w, FP_ROW_PROCESS, profile->process_count);
    place_numbers(w, FP_ROW_STATUS, w->status_count);
    place_numbers(w, FP_ROW_NODE, profile->tree.node_count);
    place_rows_of(w, FP_ROW_PERIOD, profile->period_min, profile->period_max);
    place_numbers(w, FP_ROW_SCHEMA, profile->schema_count);
    place_numbers(w, FP_ROW_EVENT, profile->event_count);
    place_numbers(w, FP_ROW_FILE, profile->file_count);
    place_rows_of(w, FP_ROW_SCHEDULER, 0, profile->scheduler_max);
    fp_index_place(w, &w->own, 0, UINT32_MAX, profile->own_count - w->from->own_rows);
    fp_index_place(w, &w->message_row, 0, UINT32_MAX,
                   profile->message_rows - w->from->message_rows);
    fp_index_place(w, &w->message, 0, UINT32_MAX, profile->message_rows - w->from->message_rows);
    fp_index_place(w, &w->wait_row, 0, UINT32_MAX, profile->wait_rows - w->from->wait_rows);
    fp_index_place(w, &w->waits_for, 0, UINT32_MAX, profile->wait_rows - w->from->wait_rows);
    fp_index_place(w, &w->request, 0, UINT32_MAX, profile->wait_rows - w->from->wait_rows);
    fp_index_place(w, &w->trace_row, 0, UINT32_MAX, profile->trace_rows - w->from->trace_rows);
    fp_index_place(w, &w->trace, 0, UINT32_MAX, profile->trace_rows - w->from->trace_rows);
    fp_index_place(w, &w->span, 0, UINT32_MAX, profile->trace_rows - w->from->trace_rows);
    fp_index_place(w, &w->collection_row, 0, UINT32_MAX,
                   profile->collection_rows - w->from->collection_rows);
    fp_index_place(w, &w->collection, 0, UINT32_MAX,
                   profile->collection_rows - w->from->collection_rows);
    for (uint32_t m = 0; m < profile->metric_count; m++)
        place_metric(w, m);
}

/* --------------------------------------------------------------------- rows -- */

static void write_metric(struct fp_index *w, const struct fp_row *row, uint32_t i, uint64_t number)
{
    uint32_t m = w->profile->schema[row->schema].metric[i];
    struct fp_listed_rows *listed = &w->listed[m];
    struct fp_column *value = &w->column[FP_ROW_VALUE + 2 * m];
    bool is_listed = listed->is_sparse || (listed->is_derived && fp_metric_has(&row->odd, i));

    if (is_listed)
        fp_index_put(w, &listed->row, (int64_t)number);
    fp_index_put(w, value, row->value[i]);
    if (is_listed || !listed->is_derived)
        fp_index_put(w, value + 1, row->delta[i]);
}

/* A row without the metric has the numbers 0 and is not listed. Most metrics are sparse, or in
 * every row. */
static void write_metrics(struct fp_index *w, const struct fp_row *row, uint64_t number)
{
    const struct fp_schema *schema = &w->profile->schema[row->schema];
    fp_metric_set missing = w->in_rows;

    unsigned m;

    for (uint32_t i = 0; i < schema->count; i++) {
        write_metric(w, row, i, number);
        fp_metric_remove(&missing, schema->metric[i]);
    }
    while (fp_metric_take(&missing, &m)) {
        fp_index_put(w, &w->column[FP_ROW_VALUE + 2 * m], 0);
        if (!w->listed[m].is_derived)
            fp_index_put(w, &w->column[FP_ROW_VALUE + 2 * m + 1], 0);
    }
}

/* True where the row's time is written: every row's, or the first one's of a run. */
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
    int64_t numbers[FP_ROW_VALUE];
    const struct fp_words *words = fp_row_words(w->profile, row);

    fp_index_row_numbers(w, row, numbers);
    for (uint32_t c = 0; c < FP_ROW_VALUE; c++) {
        if (c != FP_ROW_TIME || begins_run(w, row, number))
            fp_index_put(w, &w->column[c], numbers[c]);
    }
    if (w->profile->process[row->process].is_own)
        fp_index_put(w, &w->own, (int64_t)number);
    if (words->message != 0) {
        fp_index_put(w, &w->message_row, (int64_t)number);
        fp_index_put(w, &w->message, words->message);
    }
    if (words->waits_for != 0) {
        fp_index_put(w, &w->wait_row, (int64_t)number);
        fp_index_put(w, &w->waits_for, words->waits_for);
        fp_index_put(w, &w->request, words->request);
    }
    if (words->trace != 0) {
        fp_index_put(w, &w->trace_row, (int64_t)number);
        fp_index_put(w, &w->trace, words->trace);
        fp_index_put(w, &w->span, words->span);
    }
    if (words->collection != 0) {
        fp_index_put(w, &w->collection_row, (int64_t)number);
        fp_index_put(w, &w->collection, words->collection);
    }
    write_metrics(w, row, number);
}

static int write_rows(struct fp_index *w, struct fp_cursor *cursor)
{
    uint64_t number = w->from->rows;
    struct fp_row row;
    int more;

    while ((more = fp_cursor_next(cursor, &row)) > 0) {
        write_row(w, &row, w->is_packed ? w->order.rank[w->order.place[number]] : number);
        number++;
    }
    if (w->has_runs && number > 0)
        fp_index_put(w, &w->run_end, (int64_t)number);
    return more;
}

static int write_all(struct fp_index *w, struct fp_cursor *cursor)
{
    int err = find_statuses(w);

    if (err == 0 && w->is_packed)
        err = fp_index_find_order(w);
    if (err != 0)
        return err;
    place_all(w);
    if (w->err != 0)
        return w->err;
    if (w->is_packed)
        fp_index_find_bases(w);
    fp_index_write_header(w);
    fp_index_write_tables(w);
    err = write_rows(w, cursor);
    for (size_t i = 0; i < w->placed_count; i++)
        fp_index_flush(w, w->placed[i]);
    /* The padding behind the last column is part of the file. */
    fp_output_extend(w->output, w->base + w->end);
    return err == 0 && w->is_packed ? fp_index_write_packed(w) : err;
}

static int export(struct fp_profile *profile, struct fp_output *output, int is_packed,
                  const struct fp_index_mark *from, struct fp_cursor *cursor)
{
    struct fp_budget *budget = &profile->budget;
    struct fp_index *w;
    int err = FP_ENOMEM;

    if (profile->rows.count > UINT32_MAX || profile->strings.size > UINT32_MAX)
        return FP_EFULL;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return FP_ENOMEM;
    w->profile = profile;
    w->output = output;
    w->is_packed = is_packed;
    w->from = from;
    w->rows = profile->rows.count - from->rows;
    w->buffers = malloc(FP_INDEX_COLUMNS * FP_INDEX_BUFFER_BYTES);
    if (w->buffers != NULL)
        err = write_all(w, cursor);
    FP_FREE(budget, w->status_text, w->status_room);
    FP_FREE(budget, w->status_of, profile->tree.stack_count);
    fp_index_free_order(w);
    for (size_t i = 0; i < w->placed_count; i++)
        FP_FREE(budget, w->placed[i]->number, w->placed[i]->count);
    free(w->buffers);
    free(w);
    return err;
}

int fp_export_index(struct fp_profile *profile, struct fp_output *output, int is_packed)
{
    const struct fp_index_mark nothing = {0};
    struct fp_cursor cursor;
    int err;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    err = export(profile, output, is_packed, &nothing, &cursor);
    fp_cursor_close(&cursor);
    return err;
}

/* ------------------------------------------------------------------- pieces -- */

static void set_mark(struct fp_profile *profile)
{
    struct fp_index_mark *mark = &profile->indexed;

    mark->row_bytes = profile->rows.size;
    mark->rows = profile->rows.count;
    mark->own_rows = profile->own_count;
    mark->message_rows = profile->message_rows;
    mark->wait_rows = profile->wait_rows;
    mark->trace_rows = profile->trace_rows;
    mark->collection_rows = profile->collection_rows;
    mark->strings = profile->strings.count;
    mark->string_bytes = profile->strings.size;
    mark->frames = profile->tree.frame_count;
    mark->nodes = profile->tree.node_count;
    mark->first_us = profile->first_us;
    for (uint32_t m = 0; m < profile->metric_count; m++) {
        mark->metric_rows[m] = profile->metric[m].rows;
        mark->metric_odd[m] = profile->metric[m].odd;
    }
}

int fp_export_index_piece(struct fp_profile *profile, struct fp_output *output)
{
    struct fp_index_mark *mark = &profile->indexed;
    uint64_t before = fp_thread_cpu_ns();
    int err;

    if (mark->has_failed || profile->coarse_us != 0 ||
        (mark->rows > 0 && profile->first_us != mark->first_us))
        return FP_ESTATE;
    if (!mark->is_set)
        fp_cursor_open(&mark->cursor, &profile->rows, profile->schema, &profile->budget);
    mark->cursor.at = profile->rows.bytes + mark->row_bytes; /* they move when they grow */
    err = export(profile, output, 0, mark, &mark->cursor);
    mark->is_set = true;
    mark->has_failed = err != 0;
    set_mark(profile);
    profile->cpu_ns += fp_thread_cpu_ns() - before;
    return err;
}
