/* export_index_packed.c - the rows of a report: changes as varints, column by column and process by
 * process, so that a compressor finds equal ones. */
#include "report/export_index.h"
#include "report/varint.h"

/* -------------------------------------------------------------------- order -- */

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void sort_run(struct fp_index *w, uint64_t begin, uint64_t end)
{
    if (end == begin)
        return;
    qsort(w->order + begin, end - begin, sizeof(*w->order), compare_keys);
    for (uint64_t i = begin; i < end; i++)
        w->rank[(uint32_t)w->order[i]] = (uint32_t)i;
}

/* Packed rows of one time stand in the order of their processes. Their order in the tick means
 * nothing, and would be a tenth of a report. */
int fp_index_find_order(struct fp_index *w)
{
    struct fp_profile *profile = w->profile;
    struct fp_budget *budget = &profile->budget;
    uint64_t begin = 0, number = 0;
    int64_t time_us = 0;
    struct fp_cursor cursor;
    struct fp_row row;
    int more = FP_ZEROS(budget, &w->order, profile->rows.count);

    if (more == 0)
        more = FP_ZEROS(budget, &w->rank, profile->rows.count);
    if (more != 0)
        return more;
    fp_cursor_open(&cursor, &profile->rows, profile->schema, budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        if (row.time_us != time_us) {
            sort_run(w, begin, number);
            begin = number;
            time_us = row.time_us;
        }
        w->order[number] = (uint64_t)row.process << 32 | number;
        number++;
    }
    fp_cursor_close(&cursor);
    sort_run(w, begin, number);
    return more;
}

/* ------------------------------------------------------------------- packed -- */

struct packing {
    struct fp_index *w;
    struct fp_column stream; /* of all packed columns */
    uint32_t *follower;      /* by process: its follower last time, from 1 on */
    int64_t *number;         /* of one column, process by process */
    uint64_t *place;         /* by process: of its next row in there */
};

static void put_packed(struct packing *packing, uint64_t number)
{
    struct fp_column *stream = &packing->stream;
    uint8_t *end;

    if (stream->used + FP_VARINT_MOST > FP_INDEX_BUFFER_BYTES)
        fp_index_flush(packing->w, stream);
    end = fp_put_varint(stream->buffer + stream->used, number);
    stream->used = (size_t)(end - stream->buffer);
}

static void put_change(struct packing *packing, int64_t now, int64_t before)
{
    put_packed(packing, fp_zigzag((int64_t)((uint64_t)now - (uint64_t)before)));
}

/* Ticks sample much the same processes: 0 is the expected one, any other is its number and 1. */
static void pack_processes(struct packing *packing)
{
    const struct fp_index *w = packing->w;
    uint64_t before = 0; /* process of the row before, from 1 on */

    for (uint64_t i = 0; i < w->profile->rows.count; i++) {
        uint64_t process = (w->order[i] >> 32) + 1;
        uint32_t *follower = &packing->follower[before];
        uint64_t expected = *follower > 0 ? *follower : before + 1;

        put_packed(packing, process == expected ? 0 : process);
        *follower = (uint32_t)process;
        before = process;
    }
}

/* Changes go from row to row; those of one process stand together, because most of them are 0. */
static int pack_column(struct packing *packing, uint32_t c)
{
    struct fp_profile *profile = packing->w->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t begin = 0, at = 0;
    int more;

    for (size_t p = 0; p < profile->process_count; p++) {
        packing->place[p] = begin;
        begin += profile->process[p].samples;
    }
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0)
        packing->number[packing->place[row.process]++] = fp_index_number(packing->w, c, &row);
    fp_cursor_close(&cursor);
    for (size_t p = 0; p < profile->process_count; p++) {
        int64_t before = 0;

        for (; at < packing->place[p]; before = packing->number[at++])
            put_change(packing, packing->number[at], before);
    }
    return more;
}

/* Times change little from row to row, whatever the process is. */
static int pack_times(struct packing *packing)
{
    struct fp_profile *profile = packing->w->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    int64_t before = profile->first_us;
    int more;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    for (; (more = fp_cursor_next(&cursor, &row)) > 0; before = row.time_us)
        put_change(packing, row.time_us, before);
    fp_cursor_close(&cursor);
    return more;
}

static int pack_columns(struct packing *packing)
{
    struct fp_index *w = packing->w;
    uint32_t count = FP_ROW_VALUE + 2 * w->profile->metric_count;
    int err = 0;

    for (uint32_t c = 0; c < count && err == 0; c++) {
        if (w->column[c].type != FP_COLUMN_PACKED)
            continue;
        if (c == FP_ROW_PROCESS)
            pack_processes(packing);
        else
            err = c == FP_ROW_TIME ? pack_times(packing) : pack_column(packing, c);
    }
    fp_index_flush(w, &packing->stream);
    return err;
}

int fp_index_write_packed(struct fp_index *w)
{
    struct fp_budget *budget = &w->profile->budget;
    size_t rows = w->profile->rows.count, count = w->profile->process_count;
    struct packing packing = {.w = w, .stream = {.offset = w->end, .buffer = w->buffers}};
    int err = FP_ZEROS(budget, &packing.follower, count + 1);

    if (err == 0)
        err = FP_ZEROS(budget, &packing.number, rows);
    if (err == 0)
        err = FP_ZEROS(budget, &packing.place, count);
    if (err == 0)
        err = pack_columns(&packing);
    FP_FREE(budget, packing.follower, count + 1);
    FP_FREE(budget, packing.number, rows);
    FP_FREE(budget, packing.place, count);
    return err;
}
