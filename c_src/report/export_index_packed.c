/* export_index_packed.c - the rows of a report in few bytes: process by process what changed, coded
 * by what is known of the process by then. */
#include "report/export_index.h"

#include "report/range_coder.h"

/* ------------------------------------------------------------------- packed -- */

/* Kinds of contexts and keys, as in doc/viewer_index.md. */
enum kind {
    TICKS = 1,
    TICK,
    GAP,
    LATER,
    PERIOD,
    ANY,
    SAME_STATUS,
    STATUS,
    SAME_NODE,
    NODE,
    GUESS_NODE,
    NODE_OF_TWO,
    NODE_OF_ONE,
    NODE_OF_PROCESS,
    SAME_OTHER,
    OTHER,
    CHANGED_FIRST,
    CHANGED_DEPTH,
    CHANGED,
    GUESS,
    BLOCK_OF_PROCESS,
    BLOCK_OF_LAST,
    DEPTH_OF_PROCESS,
    DEPTH_OF_NODE,
    DEPTH_OF_LAST,
    CHANGE_OF_WORK,
    CHANGE_OF_NODES,
    CHANGE_OF_PROCESS,
    NUMBER,
    NUMBER_BLOCK,
    NUMBER_OLD,
    NUMBER_YOUNG,
    ARRAY
};

#define DEPTH 4
#define DEPTH_WHOLE 20
#define RUN_MOST 5

/* Cells of a row: these, in the order of enum fp_row_column, and those that are modelled. */
enum { CELL_STATUS, CELL_NODE, CELL_PERIOD, CELL_OTHER, CELL_METRIC = CELL_OTHER + 4 };

struct packing {
    struct fp_index *w;
    struct fp_range_coder coder;
    struct fp_column stream;
    uint32_t cells;            /* of a row */
    uint64_t *end;             /* by process: of its rows */
    uint32_t *tick, *later_us; /* by row, process by process */
    double *cell;
};

/* Of the process that is being packed. */
struct history {
    uint32_t process, gap, run, run_before;
    uint32_t node, node_before, status; /* of the last row; node_before: the last other node */
    bool has_changed;                   /* this row's metrics, in any column */
    double *last, *change;              /* by cell: of the last row; the last change */
    uint8_t *changed;                   /* by cell: in the last row that has changed */
    /* Of the row so far. */
    uint32_t status_now, node_now, collections, columns;
    double work, block, recent;
    bool has_block;
};

static uint32_t least(double number, uint32_t most)
{
    return number < most ? (uint32_t)number : most;
}

static void put_byte(void *to, uint8_t byte)
{
    struct packing *packing = to;
    struct fp_column *stream = &packing->stream;

    stream->buffer[stream->used++] = byte;
    if (stream->used == FP_INDEX_BUFFER_BYTES)
        fp_index_flush(packing->w, stream);
}

static bool is_packed(const struct packing *packing, uint32_t cell)
{
    return packing->w->column[FP_ROW_STATUS + cell].type == FP_COLUMN_PACKED;
}

/* ---- arrays ---- */

static void put_array(struct packing *packing, const struct fp_column *column)
{
    double last = 0, change = 0;

    for (size_t i = 0; i < column->numbers; i++) {
        uint32_t context =
            fp_context(ARRAY, (uint32_t)column->place, fp_context_size(change), 0, 0);

        change = (double)column->number[i] - last;
        fp_range_put_signed(&packing->coder, context, change, DEPTH);
        last += change;
    }
}

/* ---- when ---- */

static void put_ticks(struct packing *packing)
{
    const struct fp_index *w = packing->w;
    int64_t before = w->profile->first_us;

    fp_range_put(&packing->coder, fp_context(TICKS, 0, 0, 0, 0), (double)w->ticks, DEPTH);
    for (uint64_t i = 0; i < w->profile->rows.count; i++) {
        if (i > 0 && w->packed[i].tick == w->packed[i - 1].tick)
            continue;
        fp_range_put_signed(&packing->coder, fp_context(TICK, 0, 0, 0, 0),
                            (double)(w->packed[i].tick_us - before), DEPTH);
        before = w->packed[i].tick_us;
    }
}

static void put_times(struct packing *packing, uint64_t begin, uint64_t end)
{
    struct fp_range_coder *coder = &packing->coder;
    uint32_t tick = 0, later_us = 0, gap_before = 0, gap_last = 0;
    double period = 1;

    for (uint64_t i = begin; i < end; i++) {
        uint32_t gap = packing->tick[i] - tick;

        fp_range_put(coder,
                     fp_context(GAP, least(gap_last, 2), least(gap_before, 2), least(period, 2), 0),
                     gap, DEPTH);
        if (gap == 0)
            fp_range_put(coder, fp_context(LATER, 0, 0, 0, 0), packing->later_us[i] - later_us,
                         DEPTH);
        if (is_packed(packing, CELL_PERIOD)) {
            period = packing->cell[i * packing->cells + CELL_PERIOD];
            fp_range_put_signed(coder, fp_context(PERIOD, least(gap, 9), least(gap_last, 2), 0, 0),
                                period - 1, DEPTH);
        }
        tick = packing->tick[i];
        later_us = packing->later_us[i];
        gap_before = gap_last;
        gap_last = gap;
    }
}

/* ---- what a process did ---- */

static void put_any(struct packing *packing, struct history *known, const double *cell)
{
    bool any = false;

    for (uint32_t i = CELL_METRIC; i < packing->cells; i++)
        any |= cell[i] != known->last[i];
    fp_range_decide(&packing->coder,
                    fp_context(ANY, known->node, known->gap, known->run, known->run_before), any);
    known->has_changed = any;
    if (any)
        known->run_before = least(known->run, 2);
    known->run = any ? 0 : known->run + (known->run < RUN_MOST);
}

static void put_status(struct packing *packing, struct history *known, double status)
{
    struct fp_range_coder *coder = &packing->coder;
    uint32_t any = known->has_changed;

    known->status_now = (uint32_t)status;
    if (!is_packed(packing, CELL_STATUS))
        return;
    fp_range_decide(coder, fp_context(SAME_STATUS, any, known->node, known->gap, known->status),
                    known->status_now == known->status);
    if (known->status_now != known->status)
        fp_range_put(coder, fp_context(STATUS, any, known->node, known->gap, known->status), status,
                     DEPTH);
}

static void put_node(struct packing *packing, struct history *known, double node)
{
    struct fp_range_coder *coder = &packing->coder;
    uint32_t status = known->status_now;
    const uint32_t key[FP_GUESSES] = {
        fp_context(NODE_OF_TWO, known->node, known->node_before, status, 0),
        fp_context(NODE_OF_ONE, known->node, status, 0, 0),
        fp_context(NODE_OF_PROCESS, known->process, status, 0, 0)};

    known->node_now = (uint32_t)node;
    if (!is_packed(packing, CELL_NODE))
        return;
    fp_range_decide(coder,
                    fp_context(SAME_NODE, known->has_changed, known->node, status, known->gap),
                    known->node_now == known->node);
    if (known->node_now != known->node &&
        !fp_range_guess(coder, fp_context(GUESS_NODE, 0, 0, 0, 0), key, node, known->node))
        fp_range_put(coder, fp_context(NODE, status, known->process, 0, 0), node, DEPTH_WHOLE);
}

static void put_others(struct packing *packing, struct history *known, const double *cell)
{
    for (uint32_t i = CELL_OTHER; i < CELL_METRIC; i++) {
        uint32_t last = fp_context_low(known->last[i]);

        if (!is_packed(packing, i))
            continue;
        fp_range_decide(&packing->coder, fp_context(SAME_OTHER, i, known->status_now, last, 0),
                        cell[i] == known->last[i]);
        if (cell[i] != known->last[i])
            fp_range_put(&packing->coder, fp_context(OTHER, i, known->status_now, 0, 0), cell[i],
                         DEPTH);
        known->last[i] = cell[i];
    }
}

/* ---- by how much its metrics changed ---- */

static uint32_t changed_context(const struct history *known, enum fp_model model, uint32_t m,
                                uint32_t i)
{
    switch (model) {
    case FP_COLLECTIONS:
    case FP_WORK:
        return fp_context(CHANGED_FIRST, m, known->node, known->node_now, known->changed[i]);
    case FP_DEPTH:
        return fp_context(CHANGED_DEPTH, known->collections, known->node, known->node_now, 0);
    default:
        return fp_context(CHANGED, m, known->columns, known->collections, known->changed[i]);
    }
}

static void find_keys(const struct history *known, enum fp_model model, uint32_t m, uint32_t i,
                      uint32_t key[FP_GUESSES])
{
    uint32_t gc = known->collections, process = known->process, node = known->node_now;
    uint32_t last = fp_context_low(known->last[i]);

    if (model == FP_BLOCK) {
        key[0] = fp_context(BLOCK_OF_PROCESS, m, last, process, gc);
        key[1] = fp_context(BLOCK_OF_LAST, m, last, gc, 0);
        key[2] = fp_context(BLOCK_OF_LAST, m, last, 4, 0);
    } else if (model == FP_DEPTH) {
        key[0] = fp_context(DEPTH_OF_PROCESS, node, process, 0, 0);
        key[1] = fp_context(DEPTH_OF_NODE, node, 0, 0, 0);
        key[2] = fp_context(DEPTH_OF_LAST, node, last, 0, 0);
    } else {
        key[0] =
            fp_context(CHANGE_OF_WORK, m << 8 | gc, known->node, node, fp_context_low(known->work));
        key[1] = fp_context(CHANGE_OF_NODES, m, known->node, node, gc);
        key[2] = fp_context(CHANGE_OF_PROCESS, m, process, gc, 0);
    }
}

/* Answers what the reader takes the number for: doubles are exact up to 2^53. */
static double put_number(struct packing *packing, const struct history *known, enum fp_model model,
                         uint32_t m, uint32_t i, double now)
{
    struct fp_range_coder *coder = &packing->coder;
    uint32_t gc = known->collections;
    double last = known->last[i], change = now - last, about = last;

    if (model == FP_YOUNG && gc > 0 && known->has_block) {
        fp_range_put_signed(
            coder,
            fp_context(NUMBER_YOUNG, gc, fp_context_size(known->block - known->recent), 0, 0),
            now - known->recent, DEPTH);
        return now;
    }
    if (model == FP_BLOCK) {
        fp_range_put_signed(coder, fp_context(NUMBER_BLOCK, m, fp_context_low(last), 0, 0), change,
                            DEPTH_WHOLE);
        return last + change;
    }
    if (model == FP_WORK)
        about = known->change[i];
    else if (model == FP_YOUNG)
        about = known->work;
    else if (model == FP_OLD && gc == 1)
        about = known->recent;
    fp_range_put_signed(coder,
                        fp_context(model == FP_OLD && gc == 1 ? NUMBER_OLD : NUMBER, m, gc,
                                   fp_context_size(about), 0),
                        change, DEPTH);
    return last + change;
}

static void put_metric(struct packing *packing, struct history *known, uint32_t m, double now)
{
    enum fp_model model = packing->w->modelled[m].model;
    uint32_t i = CELL_METRIC + m, key[FP_GUESSES];
    double last = known->last[i], change = now - last;
    bool is_changed = now != last, is_guessed;

    fp_range_decide(&packing->coder, changed_context(known, model, m, i), is_changed);
    if (is_changed) {
        find_keys(known, model, m, i, key);
        is_guessed = fp_range_guess(&packing->coder, fp_context(GUESS, m, 0, 0, 0), key,
                                    model == FP_DEPTH ? now : change, model == FP_DEPTH ? last : 0);
        if (!is_guessed)
            now = put_number(packing, known, model, m, i, now);
        else if (model != FP_DEPTH)
            now = last + change;
        known->change[i] = change;
    }
    known->last[i] = now;
    known->changed[i] = is_changed;
    known->columns = known->columns << 1 | is_changed;
    if (model == FP_COLLECTIONS)
        known->collections = change < 0 ? 3 : least(change, 2);
    else if (model == FP_WORK)
        known->work = change;
    else if (model == FP_RECENT)
        known->recent = now;
    else if (model == FP_BLOCK && !known->has_block) {
        known->block = now;
        known->has_block = true;
    }
}

static void put_row(struct packing *packing, struct history *known, const double *cell)
{
    put_any(packing, known, cell);
    put_status(packing, known, cell[CELL_STATUS]);
    put_node(packing, known, cell[CELL_NODE]);
    put_others(packing, known, cell);
    known->collections = known->columns = 0;
    known->work = known->recent = known->block = 0;
    known->has_block = false;
    for (uint32_t m = 0; m < packing->w->modelled_count && known->has_changed; m++)
        put_metric(packing, known, m, cell[CELL_METRIC + m]);
    if (known->node_now != known->node)
        known->node_before = known->node;
    known->node = known->node_now;
    known->status = known->status_now;
}

static void put_process(struct packing *packing, struct history *known, uint64_t begin,
                        uint64_t end)
{
    double *last = known->last, *change = known->change;
    uint8_t *changed = known->changed;
    uint32_t tick = 0;

    memset(last, 0, packing->cells * sizeof(*last));
    memset(change, 0, packing->cells * sizeof(*change));
    memset(changed, 0, packing->cells);
    *known = (struct history){.process = known->process,
                              .last = last,
                              .change = change,
                              .changed = changed,
                              .node = UINT32_MAX,
                              .node_before = UINT32_MAX,
                              .status = UINT32_MAX};
    for (uint64_t i = begin; i < end; i++) {
        known->gap = least(packing->tick[i] - tick, 2);
        put_row(packing, known, packing->cell + i * packing->cells);
        tick = packing->tick[i];
    }
}

/* ---- all of it ---- */

static void take_cells(struct packing *packing, const struct fp_row *row, uint64_t number)
{
    const struct fp_index *w = packing->w;
    uint64_t i = packing->end[row->process]++;
    double *cell = packing->cell + i * packing->cells;
    int64_t numbers[FP_ROW_COLUMNS];

    fp_index_numbers(w, row, numbers);
    fp_index_subtract_sums(w, FP_ROW_VALUE, numbers);
    fp_index_subtract_sums(w, FP_ROW_VALUE + 1, numbers);
    for (uint32_t c = 0; c < CELL_METRIC; c++)
        cell[c] = (double)numbers[FP_ROW_STATUS + c];
    for (uint32_t m = 0; m < w->modelled_count; m++)
        cell[CELL_METRIC + m] = (double)numbers[w->modelled[m].column];
    packing->tick[i] = w->packed[number].tick;
    packing->later_us[i] = w->packed[number].later_us;
}

/* Process by process; `end` is the end of its rows then. */
static int take_rows(struct packing *packing)
{
    struct fp_profile *profile = packing->w->profile;
    uint64_t begin = 0, number = 0;
    struct fp_cursor cursor;
    struct fp_row row;
    int more;

    for (size_t p = 0; p < profile->process_count; p++) {
        packing->end[p] = begin;
        begin += profile->process[p].samples;
    }
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0)
        take_cells(packing, &row, number++);
    fp_cursor_close(&cursor);
    return more;
}

static void put_all(struct packing *packing, struct history *known)
{
    size_t count = packing->w->profile->process_count;

    for (size_t i = 0; i < packing->w->placed_count; i++)
        put_array(packing, packing->w->placed[i]);
    if (packing->w->profile->rows.count > 0)
        put_ticks(packing);
    for (size_t p = 0; p < count; p++)
        put_times(packing, p == 0 ? 0 : packing->end[p - 1], packing->end[p]);
    for (size_t p = 0; p < count; p++) {
        known->process = (uint32_t)p;
        put_process(packing, known, p == 0 ? 0 : packing->end[p - 1], packing->end[p]);
    }
    fp_range_finish(&packing->coder);
    fp_index_flush(packing->w, &packing->stream);
}

int fp_index_write_packed(struct fp_index *w)
{
    struct fp_budget *budget = &w->profile->budget;
    size_t rows = w->profile->rows.count, count = w->profile->process_count;
    struct packing packing = {.w = w,
                              .stream = {.offset = w->end, .buffer = w->buffers},
                              .cells = CELL_METRIC + w->modelled_count};
    struct history known = {0};
    int err = fp_range_open(&packing.coder, budget);

    packing.coder.put = put_byte;
    packing.coder.to = &packing;
    if (err == 0)
        err = FP_ZEROS(budget, &packing.end, count);
    if (err == 0)
        err = FP_ZEROS(budget, &packing.tick, rows);
    if (err == 0)
        err = FP_ZEROS(budget, &packing.later_us, rows);
    if (err == 0)
        err = FP_ZEROS(budget, &packing.cell, rows * packing.cells);
    if (err == 0)
        err = FP_ZEROS(budget, &known.last, packing.cells);
    if (err == 0)
        err = FP_ZEROS(budget, &known.change, packing.cells);
    if (err == 0)
        err = FP_ZEROS(budget, &known.changed, packing.cells);
    if (err == 0)
        err = take_rows(&packing);
    if (err == 0)
        put_all(&packing, &known);
    FP_FREE(budget, packing.end, count);
    FP_FREE(budget, packing.tick, rows);
    FP_FREE(budget, packing.later_us, rows);
    FP_FREE(budget, packing.cell, rows * packing.cells);
    FP_FREE(budget, known.last, packing.cells);
    FP_FREE(budget, known.change, packing.cells);
    FP_FREE(budget, known.changed, packing.cells);
    fp_range_close(&packing.coder, budget);
    return err;
}
