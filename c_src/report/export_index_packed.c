/*
 * index_packed.c - the rows of a report: changes in numbers of 7 bits a byte,
 * column by column and process by process, for a compressor to find the like.
 */
#include "report/export_index.h"

#include <stdlib.h>

#include "base/assume.h"

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

/* Packed rows of one time stand in the order of their processes. Who came first
 * in a tick means nothing, and would be a tenth of a report. */
int fp_index_find_order(struct fp_index *w)
{
    struct fp_profile *profile = w->profile;
    struct fp_budget *budget = &profile->budget;
    uint64_t begin = 0, number = 0;
    int64_t time_us = 0;
    struct fp_cursor cursor;
    struct fp_row row;
    int more = FP_GROW(budget, &w->order, &w->order_room, profile->rows.count);

    if (more == 0)
        more = FP_GROW(budget, &w->rank, &w->rank_room, profile->rows.count);
    if (more != 0)
        return more;
    fp_cursor_open(&cursor, &profile->rows, profile->schema, budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        if (row.time_us != time_us) {
            sort_run(w, begin, number);
            begin = number;
            time_us = row.time_us;
        }
        FP_ASSUME(w->order != NULL); /* for all rows that are counted */
        w->order[number] = (uint64_t)row.process << 32 | number;
        number++;
    }
    fp_cursor_close(&cursor);
    sort_run(w, begin, number);
    return more;
}

/* ------------------------------------------------------------------- packed -- */

/* 7 bits a byte, the least first; all but the last have the eighth. */
static void put_packed(struct fp_index *w, uint64_t number)
{
    struct fp_column *stream = &w->stream;

    do {
        uint8_t more = number > 0x7f ? 0x80 : 0;

        stream->buffer[stream->used++] = (uint8_t)(number & 0x7f) | more;
        if (stream->used == FP_INDEX_BUFFER_BYTES)
            fp_index_flush(w, stream);
        number >>= 7;
    } while (number != 0);
}

/* Small numbers of either sign are small: 0, -1, 1, -2 ... */
static void put_change(struct fp_index *w, int64_t now, int64_t before)
{
    uint64_t change = (uint64_t)now - (uint64_t)before;

    put_packed(w, change << 1 ^ (change >> 63 ? UINT64_MAX : 0));
}

struct packing {
    struct fp_index *w;
    int64_t before;     /* process of the row before, from 1 on */
    int metric;         /* of a metric's columns */
    int is_delta;       /* of these */
    uint32_t *follower; /* by process: who came next last time, from 1 on */
    size_t follower_room;
};

typedef int64_t number_of_row(const struct packing *, const struct fp_row *);

static void pack_process(struct packing *packing, uint32_t process)
{
    uint32_t *follower = &packing->follower[packing->before];
    uint32_t expected =
        *follower > 0 ? *follower - 1 : (uint32_t)packing->before;

    put_packed(packing->w, process == expected ? 0 : (uint64_t)process + 1);
    *follower = process + 1;
    packing->before = (int64_t)process + 1;
}

/* Ticks look at much the same processes: 0 is the one that is expected, any other
 * its number and 1. */
static void pack_processes(struct packing *packing)
{
    const struct fp_index *w = packing->w;

    packing->before = 0;
    for (uint64_t i = 0; i < w->profile->rows.count; i++)
        pack_process(packing, (uint32_t)(w->order[i] >> 32));
}

static int pack_times(struct fp_index *w)
{
    struct fp_profile *profile = w->profile;
    int64_t before = profile->first_us;
    struct fp_cursor cursor;
    struct fp_row row;
    int more;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        put_change(w, row.time_us, before);
        before = row.time_us;
    }
    fp_cursor_close(&cursor);
    return more;
}

static int64_t status_of(const struct packing *packing,
                         const struct fp_row *row)
{
    return packing->w->status_of[row->stack];
}

static int64_t node_of(const struct packing *packing, const struct fp_row *row)
{
    return packing->w->profile->tree.stack[row->stack].node;
}

static int64_t period_of(const struct packing *packing,
                         const struct fp_row *row)
{
    (void)packing;
    return row->period;
}

static int64_t schema_of(const struct packing *packing,
                         const struct fp_row *row)
{
    (void)packing;
    return row->schema;
}

static int64_t event_of(const struct packing *packing, const struct fp_row *row)
{
    (void)packing;
    return row->event;
}

static int64_t file_of(const struct packing *packing, const struct fp_row *row)
{
    (void)packing;
    return row->file;
}

static int64_t metric_of(const struct packing *packing,
                         const struct fp_row *row)
{
    const struct fp_schema *schema = &packing->w->profile->schema[row->schema];

    for (uint32_t i = 0; i < schema->count; i++) {
        if (schema->metric[i] == packing->metric)
            return packing->is_delta ? row->delta[i] : row->value[i];
    }
    return 0;
}

/* Where the rows of each process begin, once they stand together. */
static void find_places(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;
    uint64_t place = 0;

    for (size_t p = 0; p < profile->process_count; p++) {
        w->place[p] = place;
        place += profile->process[p].samples;
    }
}

/* A column by process, as changes: most of what a process is stays as it was,
 * and what changes in one way stands together, which is what a compressor
 * wants. */
static int pack_column(struct fp_index *w, struct packing *packing,
                       const struct fp_column *column, number_of_row *number)
{
    const struct fp_profile *profile = w->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t at = 0;
    int more;

    if (column->type != FP_COLUMN_PACKED)
        return 0;
    find_places(w);
    fp_cursor_open(&cursor, &profile->rows, profile->schema,
                   &w->profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0)
        w->number[w->place[row.process]++] = number(packing, &row);
    fp_cursor_close(&cursor);
    for (size_t p = 0; p < profile->process_count; p++) {
        int64_t before = 0;

        for (; at < w->place[p]; at++) {
            put_change(w, w->number[at], before);
            before = w->number[at];
        }
    }
    return more;
}

static int pack_metrics(struct fp_index *w)
{
    int err = 0;

    for (uint32_t m = 0; m < w->profile->metric_count && err == 0; m++) {
        struct packing packing = {.w = w, .metric = (int)m};

        err = pack_column(w, &packing, &w->metric[m].value, metric_of);
        packing.is_delta = 1;
        if (err == 0 && !w->metric[m].is_derived)
            err = pack_column(w, &packing, &w->metric[m].delta, metric_of);
    }
    return err;
}

static int pack_rows(struct fp_index *w, struct packing *packing)
{
    int err = 0;

    if (w->process.type == FP_COLUMN_PACKED)
        pack_processes(packing);
    if (w->time.type == FP_COLUMN_PACKED)
        err = pack_times(w);
    if (err == 0)
        err = pack_column(w, packing, &w->status, status_of);
    if (err == 0)
        err = pack_column(w, packing, &w->node, node_of);
    if (err == 0)
        err = pack_column(w, packing, &w->period, period_of);
    if (err == 0)
        err = pack_column(w, packing, &w->schema, schema_of);
    if (err == 0)
        err = pack_column(w, packing, &w->event, event_of);
    if (err == 0)
        err = pack_column(w, packing, &w->file, file_of);
    return err == 0 ? pack_metrics(w) : err;
}

int fp_index_write_packed(struct fp_index *w)
{
    struct fp_profile *profile = w->profile;
    struct fp_budget *budget = &profile->budget;
    struct packing packing = {.w = w};
    int err = FP_GROW(budget, &packing.follower, &packing.follower_room,
                      profile->process_count + 1);

    if (err == 0)
        err = FP_GROW(budget, &w->number, &w->number_room, profile->rows.count);
    if (err == 0)
        err =
            FP_GROW(budget, &w->place, &w->place_room, profile->process_count);
    w->stream = (struct fp_column){.offset = w->end, .buffer = w->buffers};
    if (err == 0) {
        FP_ASSUME(packing.follower != NULL); /* one more than processes: some */
        memset(packing.follower, 0,
               packing.follower_room * sizeof(*packing.follower));
        err = pack_rows(w, &packing);
    }
    fp_index_flush(w, &w->stream);
    fp_budget_free(budget, packing.follower, sizeof(*packing.follower),
                   packing.follower_room);
    fp_budget_free(budget, w->number, sizeof(*w->number), w->number_room);
    fp_budget_free(budget, w->place, sizeof(*w->place), w->place_room);
    return err;
}
