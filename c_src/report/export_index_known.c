/* export_index_known.c - what is known of packed rows before they are: their order, sums that the
 * VM computes, and what the numbers of a metric are like. */
#include "report/export_index.h"

#include <stdlib.h>

/* -------------------------------------------------------------------- ticks -- */

/* Less than any two ticks are apart. */
#define TICK_APART_US 50

struct tick_row {
    uint64_t number;
    uint32_t process, later_us;
};

struct ticks {
    struct fp_index *w;
    struct tick_row *row; /* of this tick */
    size_t count, room;
    struct {
        uint64_t tick; /* from 1 on */
        int64_t us;    /* of the process' first row in it */
    } * process;
    int64_t begin_us, last_us;
    uint32_t file;
};

static int compare_rows(const void *a, const void *b)
{
    const struct tick_row *x = a, *y = b;

    if (x->later_us != y->later_us)
        return x->later_us < y->later_us ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static void end_tick(struct ticks *ticks, uint64_t rows)
{
    if (ticks->count > 0)
        qsort(ticks->row, ticks->count, sizeof(*ticks->row), compare_rows);
    for (size_t i = 0; i < ticks->count; i++)
        ticks->w->packed[ticks->row[i].number].rank = (uint32_t)(rows - ticks->count + i);
    ticks->count = 0;
}

static bool is_same_tick(const struct ticks *ticks, const struct fp_row *row)
{
    bool is_moved = ticks->w->profile->file[row->file].dialect == FP_FLAME_PROF;

    return row->file == ticks->file && row->time_us >= ticks->last_us &&
           row->time_us - ticks->last_us < (is_moved ? TICK_APART_US : 1);
}

static int add_row(struct ticks *ticks, const struct fp_row *row, uint64_t number)
{
    struct fp_index *w = ticks->w;
    struct fp_packed_row *packed = &w->packed[number];
    int err;

    if (number == 0 || !is_same_tick(ticks, row)) {
        end_tick(ticks, number);
        w->ticks++;
        ticks->begin_us = row->time_us;
    }
    ticks->last_us = row->time_us;
    ticks->file = row->file;
    if (ticks->process[row->process].tick != w->ticks) {
        ticks->process[row->process].tick = w->ticks;
        ticks->process[row->process].us = row->time_us;
    }
    packed->tick_us = ticks->begin_us;
    packed->tick = (uint32_t)w->ticks - 1;
    packed->later_us = (uint32_t)(row->time_us - ticks->process[row->process].us);
    err = FP_GROW(&w->profile->budget, &ticks->row, &ticks->room, ticks->count + 1);
    if (err == 0)
        ticks->row[ticks->count++] = (struct tick_row){number, row->process, packed->later_us};
    return err;
}

int fp_index_find_order(struct fp_index *w)
{
    struct fp_profile *profile = w->profile;
    struct fp_budget *budget = &profile->budget;
    struct ticks ticks = {.w = w};
    uint64_t number = 0;
    struct fp_cursor cursor;
    struct fp_row row;
    int more = 1, err = FP_ZEROS(budget, &w->packed, profile->rows.count);

    if (err == 0)
        err = FP_ZEROS(budget, &ticks.process, profile->process_count);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, budget);
    while (err == 0 && (more = fp_cursor_next(&cursor, &row)) > 0)
        err = add_row(&ticks, &row, number++);
    fp_cursor_close(&cursor);
    if (err == 0)
        end_tick(&ticks, number);
    FP_FREE(budget, ticks.row, ticks.room);
    FP_FREE(budget, ticks.process, profile->process_count);
    return err != 0 ? err : more;
}

/* --------------------------------------------------------------------- sums -- */

/* As the VM computes them (erts_process_memory()). An OTP that has another formula costs bytes. */
static const struct known_sum {
    struct fp_slice name;
    struct {
        struct fp_slice name;
        int64_t factor;
    } term[FP_SUM_TERMS_MOST];
} known_sums[] = {
#define WORD_BYTES 8
#define MESSAGE_BYTES 88
#define NAMED(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
    {NAMED("total_heap_size"),
     {{NAMED("heap_block_size"), 1}, {NAMED("old_heap_block_size"), 1}, {NAMED("mbuf_size"), 1}}},
    {NAMED("memory"),
     {{NAMED("heap_block_size"), WORD_BYTES},
      {NAMED("old_heap_block_size"), WORD_BYTES},
      {NAMED("mbuf_size"), WORD_BYTES},
      {NAMED("message_queue_len"), MESSAGE_BYTES}}},
};

/* The reader calculates with doubles, which are exact up to 2^53. */
#define CALCULATED_MOST (INT64_C(1) << 44)

static bool is_calculated(const struct fp_index *w, int metric)
{
    const struct fp_metric_facts *facts = metric < 0 ? NULL : &w->profile->metric[metric];

    return facts != NULL && w->column[FP_ROW_VALUE + 2 * metric].type == FP_COLUMN_PACKED &&
           facts->value_min > -CALCULATED_MOST && facts->value_max < CALCULATED_MOST &&
           facts->delta_min > -CALCULATED_MOST && facts->delta_max < CALCULATED_MOST;
}

void fp_index_find_sums(struct fp_index *w)
{
    for (uint32_t m = 0; m < w->profile->metric_count && w->is_packed; m++)
        w->has_differences[m] = w->column[FP_ROW_VALUE + 2 * m + 1].type == FP_COLUMN_PACKED &&
                                is_calculated(w, (int)m);
    for (size_t s = 0; s < sizeof(known_sums) / sizeof(*known_sums); s++) {
        const struct known_sum *known = &known_sums[s];
        int metric = fp_profile_metric(w->profile, known->name);

        for (int t = 0; t < FP_SUM_TERMS_MOST && is_calculated(w, metric); t++) {
            int term = fp_profile_metric(w->profile, known->term[t].name);
            struct fp_index_sum *sum = &w->sum[metric];

            if (known->term[t].factor != 0 && is_calculated(w, term)) {
                sum->term[sum->count].metric = (uint32_t)term;
                sum->term[sum->count++].factor = known->term[t].factor;
            }
        }
    }
}

/* `column` is that of the values or deltas of metric 0. */
void fp_index_subtract_sums(const struct fp_index *w, uint32_t column, int64_t *number)
{
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        const struct fp_index_sum *sum = &w->sum[m];
        uint64_t rest = (uint64_t)number[column + 2 * m];

        for (uint32_t t = 0; t < sum->count; t++) {
            uint32_t term = column + 2 * sum->term[t].metric;

            if (w->column[term].type == FP_COLUMN_PACKED)
                rest -= (uint64_t)sum->term[t].factor * (uint64_t)number[term];
        }
        number[column + 2 * m] = (int64_t)rest;
    }
}

/* ------------------------------------------------------------------- models -- */

static const struct {
    struct fp_slice name;
    enum fp_model model;
} known_models[] = {
    {NAMED("minor_gcs"), FP_COLLECTIONS},     {NAMED("reductions"), FP_WORK},
    {NAMED("heap_block_size"), FP_BLOCK},     {NAMED("stack_size"), FP_DEPTH},
    {NAMED("old_heap_block_size"), FP_BLOCK}, {NAMED("recent_size"), FP_RECENT},
    {NAMED("old_heap_size"), FP_OLD},         {NAMED("heap_size"), FP_YOUNG},
};

/* Plain numbers are sums of changes, of any size; others are calculated with. */
static void add_model(struct fp_index *w, enum fp_model model, uint32_t column)
{
    if (w->column[column].type != FP_COLUMN_PACKED)
        return;
    if (!is_calculated(w, (int)((column - FP_ROW_VALUE) / 2)))
        model = FP_PLAIN;
    w->modelled[w->modelled_count].model = model;
    w->modelled[w->modelled_count++].column = column;
}

/* Those that others depend on are first. */
void fp_index_find_models(struct fp_index *w)
{
    bool is_known[FP_METRICS_MOST] = {false};

    if (!w->is_packed)
        return;
    for (size_t k = 0; k < sizeof(known_models) / sizeof(*known_models); k++) {
        int metric = fp_profile_metric(w->profile, known_models[k].name);

        if (metric < 0)
            continue;
        is_known[metric] = true;
        add_model(w, known_models[k].model, FP_ROW_VALUE + 2 * (uint32_t)metric);
    }
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        if (!is_known[m])
            add_model(w, FP_PLAIN, FP_ROW_VALUE + 2 * m);
        add_model(w, FP_PLAIN, FP_ROW_VALUE + 2 * m + 1);
    }
}
