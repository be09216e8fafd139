/* export_index_packed.c - the rows of a report in few bytes: process by process, and only what
 * changed. gzip behind it finds what repeats. */
#include "report/export_index.h"

/* One bit each: a number of the stream has 28 of them in four bytes. */
#define GROUP_COLUMNS 28

struct packing {
    struct fp_index *w;
    struct fp_column stream;
    uint32_t column[FP_ROW_COLUMNS], columns; /* those that are packed */
    double *cell;                             /* by place and packed column */
};

/* -------------------------------------------------------------------- order -- */

/* The rows of a run are in the order of their places, which is that of their processes. */
static void rank_rows(struct fp_packed_order *order, uint32_t *begin, size_t rows)
{
    for (size_t place = 0; place < rows; place++)
        order->rank[place] = begin[order->run[place]]++;
}

static int place_rows(struct fp_index *w, uint32_t *end, uint32_t *begin)
{
    struct fp_profile *profile = w->profile;
    struct fp_packed_order *order = &w->order;
    uint32_t number = 0;
    int64_t last_us = 0;
    struct fp_cursor cursor;
    struct fp_row row;
    int more;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        if (number == 0 || row.time_us != last_us) {
            begin[order->runs] = number;
            order->run_us[order->runs++] = row.time_us - profile->first_us;
        }
        last_us = row.time_us;
        order->run[end[row.process]] = order->runs - 1;
        order->place[number++] = end[row.process]++;
    }
    fp_cursor_close(&cursor);
    return more;
}

int fp_index_find_order(struct fp_index *w)
{
    struct fp_profile *profile = w->profile;
    struct fp_budget *budget = &profile->budget;
    size_t rows = profile->rows.count, runs = profile->time_runs;
    uint32_t *end = NULL, *begin = NULL;
    int err = FP_ZEROS(budget, &w->order.place, rows);

    if (err == 0)
        err = FP_ZEROS(budget, &w->order.run, rows);
    if (err == 0)
        err = FP_ZEROS(budget, &w->order.rank, rows);
    if (err == 0)
        err = FP_ZEROS(budget, &w->order.run_us, runs);
    if (err == 0)
        err = FP_ZEROS(budget, &begin, runs);
    if (err == 0)
        err = FP_ZEROS(budget, &end, profile->process_count);
    for (size_t p = 1; p < profile->process_count && err == 0; p++)
        end[p] = end[p - 1] + (uint32_t)profile->process[p - 1].samples;
    if (err == 0)
        err = place_rows(w, end, begin);
    if (err == 0)
        rank_rows(&w->order, begin, rows);
    FP_FREE(budget, begin, runs);
    FP_FREE(budget, end, profile->process_count);
    return err;
}

void fp_index_free_order(struct fp_index *w)
{
    struct fp_budget *budget = &w->profile->budget;
    size_t rows = w->profile->rows.count;

    FP_FREE(budget, w->order.place, rows);
    FP_FREE(budget, w->order.run, rows);
    FP_FREE(budget, w->order.rank, rows);
    FP_FREE(budget, w->order.run_us, w->profile->time_runs);
}

/* ------------------------------------------------------- calculated columns -- */

/* The reader calculates with doubles, which are exact up to 2^53. */
#define CALCULATED_MOST (INT64_C(1) << 44)

static bool is_calculated(const struct fp_index *w, int metric)
{
    const struct fp_metric_facts *facts = metric < 0 ? NULL : &w->profile->metric[metric];

    return facts != NULL && w->column[FP_ROW_VALUE + 2 * metric].type == FP_COLUMN_PACKED &&
           facts->value_min > -CALCULATED_MOST && facts->value_max < CALCULATED_MOST &&
           facts->delta_min > -CALCULATED_MOST && facts->delta_max < CALCULATED_MOST;
}

/* The VM adds these sizes to the heap's. In an OTP that does not, the numbers take more bytes. */
static const struct {
    struct fp_slice metric, base;
    int64_t factor;
} followers[] = {
    {FP_SLICE("total_heap_size"), FP_SLICE("heap_block_size"), 1},
    {FP_SLICE("memory"), FP_SLICE("heap_block_size"), 8},
};

void fp_index_find_bases(struct fp_index *w)
{
    for (uint32_t m = 0; m < w->profile->metric_count; m++)
        w->has_differences[m] = w->column[FP_ROW_VALUE + 2 * m + 1].type == FP_COLUMN_PACKED &&
                                is_calculated(w, (int)m);
    for (size_t f = 0; f < sizeof(followers) / sizeof(*followers); f++) {
        int metric = fp_profile_metric(w->profile, followers[f].metric);
        int base = fp_profile_metric(w->profile, followers[f].base);

        if (is_calculated(w, metric) && is_calculated(w, base))
            w->base_of[metric] = (struct fp_index_base){(uint32_t)base, followers[f].factor};
    }
}

/* -------------------------------------------------------------------- cells -- */

static void find_columns(struct packing *packing)
{
    uint32_t count = FP_ROW_VALUE + 2 * packing->w->profile->metric_count;

    for (uint32_t c = FP_ROW_STATUS; c < count; c++)
        if (packing->w->column[c].type == FP_COLUMN_PACKED)
            packing->column[packing->columns++] = c;
}

/* A number is 0 in a row that does not have the metric. */
static void take_metrics(const struct fp_index *w, const struct fp_row *row, int64_t *number)
{
    const struct fp_schema *schema = &w->profile->schema[row->schema];

    for (uint32_t i = 0; i < schema->count; i++) {
        uint32_t value = 2u * schema->metric[i];

        number[value] = row->value[i];
        number[value + 1] = row->delta[i];
        if (w->has_differences[schema->metric[i]])
            number[value + 1] -= row->difference[i];
    }
    for (uint32_t m = 0; m < w->profile->metric_count; m++)
        if (w->base_of[m].factor != 0)
            number[2 * m] -= w->base_of[m].factor * number[2 * w->base_of[m].metric];
}

static int take_rows(struct packing *packing)
{
    struct fp_index *w = packing->w;
    struct fp_profile *profile = w->profile;
    int64_t number[FP_ROW_COLUMNS];
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t i = 0;
    int more;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        double *cell = packing->cell + (size_t)w->order.place[i++] * packing->columns;

        memset(number, 0, (FP_ROW_VALUE + 2 * profile->metric_count) * sizeof(*number));
        fp_index_row_numbers(w, &row, number);
        take_metrics(w, &row, number + FP_ROW_VALUE);
        for (uint32_t c = 0; c < packing->columns; c++)
            cell[c] = (double)number[packing->column[c]];
    }
    fp_cursor_close(&cursor);
    return more;
}

/* Replaces each number by its change since the process's row before. `last` is the sum that the
 * reader has then: it adds doubles. */
static void take_changes(struct packing *packing)
{
    const struct fp_profile *profile = packing->w->profile;
    double *cell = packing->cell, last[FP_ROW_COLUMNS];

    for (size_t p = 0; p < profile->process_count; p++) {
        memset(last, 0, sizeof(last));
        for (uint64_t i = 0; i < profile->process[p].samples; i++, cell += packing->columns)
            for (uint32_t c = 0; c < packing->columns; c++) {
                cell[c] -= last[c];
                last[c] += cell[c];
            }
    }
}

/* ------------------------------------------------------------------- stream -- */

/* The difference of two numbers is up to 2^64, and its sign is one more bit. */
__extension__ typedef unsigned __int128 fp_unsigned_wide;

static void put_number(struct packing *packing, fp_unsigned_wide number)
{
    struct fp_column *stream = &packing->stream;
    bool is_last;

    do {
        is_last = number < 0x80;
        stream->buffer[stream->used++] = (uint8_t)(is_last ? number : number | 0x80);
        if (stream->used == FP_INDEX_BUFFER_BYTES)
            fp_index_flush(packing->w, stream);
        number >>= 7;
    } while (!is_last);
}

static void put_change(struct packing *packing, double change)
{
    bool is_less = change < 0;

    put_number(packing, (fp_unsigned_wide)(is_less ? -change : change) << 1 | is_less);
}

static void put_array(struct packing *packing, const struct fp_column *column)
{
    double last = 0;

    for (size_t i = 0; i < column->numbers; i++) {
        double change = (double)column->number[i] - last;

        put_change(packing, change);
        last += change;
    }
}

static void put_times(struct packing *packing)
{
    const struct fp_packed_order *order = &packing->w->order;
    const struct fp_profile *profile = packing->w->profile;
    size_t place = 0;

    for (uint32_t r = 0; r < order->runs; r++)
        put_change(packing, (double)(order->run_us[r] - (r == 0 ? 0 : order->run_us[r - 1])));
    for (size_t p = 0; p < profile->process_count; p++)
        for (uint64_t i = 0; i < profile->process[p].samples; i++, place++)
            put_number(packing, order->run[place] - (i == 0 ? 0 : order->run[place - 1]));
}

/* Which of the group's columns changed, row by row, then the changes, column by column. */
static void put_group(struct packing *packing, uint32_t from, uint32_t count)
{
    const double *end = packing->cell + packing->w->profile->rows.count * packing->columns;

    for (const double *cell = packing->cell; cell < end; cell += packing->columns) {
        uint32_t changed = 0;

        for (uint32_t c = 0; c < count; c++)
            changed |= (uint32_t)(cell[from + c] != 0) << c;
        put_number(packing, changed);
    }
    for (uint32_t c = from; c < from + count; c++)
        for (const double *cell = packing->cell; cell < end; cell += packing->columns)
            if (cell[c] != 0)
                put_change(packing, cell[c]);
}

int fp_index_write_packed(struct fp_index *w)
{
    struct fp_budget *budget = &w->profile->budget;
    struct packing packing = {.w = w, .stream = {.offset = w->end, .buffer = w->buffers}};
    size_t cells;
    int err;

    find_columns(&packing);
    cells = w->profile->rows.count * packing.columns;
    err = FP_ZEROS(budget, &packing.cell, cells);
    if (err == 0)
        err = take_rows(&packing);
    if (err == 0) {
        take_changes(&packing);
        for (size_t i = 0; i < w->placed_count; i++)
            put_array(&packing, w->placed[i]);
        put_times(&packing);
        for (uint32_t c = 0; c < packing.columns; c += GROUP_COLUMNS)
            put_group(&packing, c,
                      packing.columns - c < GROUP_COLUMNS ? packing.columns - c : GROUP_COLUMNS);
        fp_index_flush(w, &packing.stream);
    }
    FP_FREE(budget, packing.cell, cells);
    return err;
}
