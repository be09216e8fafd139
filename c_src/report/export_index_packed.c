/* export_index_packed.c - the rows of a report, for a compressor: column by column and process by
 * process only what changed, and once for all columns, which ones did. */
#include "report/export_index.h"

#include <stdlib.h>

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
static void subtract_sums(const struct fp_index *w, uint32_t column, int64_t *number)
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

/* ------------------------------------------------------------------- packed -- */

/* Which columns of a row differ from the row before of its process, by their places. */
struct column_set {
    uint64_t word[(FP_ROW_COLUMNS + 63) / 64];
};

struct packing {
    struct fp_index *w;
    struct fp_column stream;         /* of all packed columns */
    uint32_t *follower;              /* by process: its follower last time, from 1 on */
    uint32_t column[FP_ROW_COLUMNS]; /* those that are packed process by process */
    uint32_t count;
    int64_t *last;    /* by process and place of the column: of its last row */
    uint64_t *row;    /* by process: of its next row in set_of */
    uint32_t *set_of; /* by row, process by process */
    struct column_set *set;
    size_t set_count, set_room;
    struct fp_table sets;
    uint64_t *next;   /* by place of the column and process: of its next change */
    uint64_t *change; /* column by column, process by process */
    size_t change_count;
};

static uint8_t *room_in(struct packing *packing)
{
    struct fp_column *stream = &packing->stream;

    if (stream->used + FP_VARINT_MOST > FP_INDEX_BUFFER_BYTES)
        fp_index_flush(packing->w, stream);
    return stream->buffer + stream->used;
}

static void put_packed(struct packing *packing, uint64_t number)
{
    uint8_t *end = fp_put_varint(room_in(packing), number);

    packing->stream.used = (size_t)(end - packing->stream.buffer);
}

static uint64_t change(int64_t now, int64_t before)
{
    return fp_zigzag((int64_t)((uint64_t)now - (uint64_t)before));
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
        put_packed(packing, change(row.time_us, before));
    fp_cursor_close(&cursor);
    return more;
}

/* ---- which columns changed ---- */

static int intern_set(struct packing *packing, const struct column_set *set, uint32_t *id)
{
    struct fp_budget *budget = &packing->w->profile->budget;
    uint64_t hash = fp_hash(set, sizeof(*set));
    struct fp_table_at at;
    int err;

    fp_table_seek(&packing->sets, hash, &at);
    while (fp_table_next(&packing->sets, &at, id)) {
        if (memcmp(&packing->set[*id], set, sizeof(*set)) == 0)
            return 0;
    }
    *id = (uint32_t)packing->set_count;
    err = FP_GROW(budget, &packing->set, &packing->set_room, packing->set_count + 1);
    if (err == 0)
        err = fp_table_put(&packing->sets, budget, hash, *id);
    if (err == 0)
        packing->set[packing->set_count++] = *set;
    return err;
}

static bool has_place(const struct column_set *set, uint32_t place)
{
    return set->word[place / 64] >> place % 64 & 1;
}

static uint64_t *next_of(const struct packing *packing, uint32_t place, uint32_t process)
{
    return &packing->next[place * packing->w->profile->process_count + process];
}

static int count_row(struct packing *packing, uint32_t process, const int64_t *now)
{
    int64_t *last = packing->last + (size_t)process * packing->count;
    struct column_set set = {{0}};

    for (uint32_t i = 0; i < packing->count; i++) {
        if (now[i] == last[i])
            continue;
        set.word[i / 64] |= UINT64_C(1) << i % 64;
        ++*next_of(packing, i, process);
        last[i] = now[i];
    }
    return intern_set(packing, &set, &packing->set_of[packing->row[process]++]);
}

static int keep_row(struct packing *packing, uint32_t process, const int64_t *now)
{
    int64_t *last = packing->last + (size_t)process * packing->count;

    for (uint32_t i = 0; i < packing->count; i++) {
        if (now[i] == last[i])
            continue;
        packing->change[(*next_of(packing, i, process))++] = change(now[i], last[i]);
        last[i] = now[i];
    }
    return 0;
}

/* Calls `each` with the packed columns of every row; `last` is 0 before. */
static int walk(struct packing *packing,
                int (*each)(struct packing *packing, uint32_t process, const int64_t *now))
{
    struct fp_profile *profile = packing->w->profile;
    int64_t number[FP_ROW_COLUMNS], now[FP_ROW_COLUMNS];
    struct fp_cursor cursor;
    struct fp_row row;
    int more, err = 0;

    memset(packing->last, 0, profile->process_count * packing->count * sizeof(*packing->last));
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while (err == 0 && (more = fp_cursor_next(&cursor, &row)) > 0) {
        fp_index_numbers(packing->w, &row, number);
        subtract_sums(packing->w, FP_ROW_VALUE, number);
        subtract_sums(packing->w, FP_ROW_VALUE + 1, number);
        for (uint32_t i = 0; i < packing->count; i++)
            now[i] = number[packing->column[i]];
        err = each(packing, row.process, now);
    }
    fp_cursor_close(&cursor);
    return err != 0 ? err : more;
}

/* Counts and sums: *next is the place of the first change then. */
static void place_changes(struct packing *packing)
{
    size_t count = packing->count * packing->w->profile->process_count;

    for (size_t i = 0; i < count; i++) {
        uint64_t changes = packing->next[i];

        packing->next[i] = packing->change_count;
        packing->change_count += changes;
    }
}

static int find_changes(struct packing *packing)
{
    const struct fp_profile *profile = packing->w->profile;
    uint64_t begin = 0;
    int err;

    for (size_t p = 0; p < profile->process_count; p++) {
        packing->row[p] = begin;
        begin += profile->process[p].samples;
    }
    err = walk(packing, count_row);
    if (err != 0)
        return err;
    place_changes(packing);
    err = FP_ZEROS(&packing->w->profile->budget, &packing->change, packing->change_count);
    return err == 0 ? walk(packing, keep_row) : err;
}

/* A set is spelled where it is the first time: its places, as distances. */
static void put_set(struct packing *packing, const struct column_set *set)
{
    uint32_t count = 0, next = 0;

    for (uint32_t i = 0; i < packing->count; i++)
        count += has_place(set, i);
    put_packed(packing, count);
    for (uint32_t i = 0; i < packing->count; i++) {
        if (!has_place(set, i))
            continue;
        put_packed(packing, i - next);
        next = i + 1;
    }
}

/* Numbered again in the order of the rows. */
static int pack_sets(struct packing *packing)
{
    struct fp_budget *budget = &packing->w->profile->budget;
    uint32_t *number, count = 0;
    int err = FP_ZEROS(budget, &number, packing->set_count);

    for (uint64_t i = 0; i < packing->w->profile->rows.count && err == 0; i++) {
        uint32_t set = packing->set_of[i];

        if (number[set] != 0) {
            put_packed(packing, number[set] - 1);
            continue;
        }
        put_packed(packing, count);
        put_set(packing, &packing->set[set]);
        number[set] = ++count;
    }
    if (err == 0)
        FP_FREE(budget, number, packing->set_count);
    return err;
}

/* ---- columns ---- */

/* Low bytes look random and the rest does not: they stand apart. */
static void put_changes(struct packing *packing, const uint64_t *from, const uint64_t *to)
{
    for (const uint64_t *n = from; n < to; n++) {
        *room_in(packing) = (uint8_t)*n;
        packing->stream.used++;
    }
    for (const uint64_t *n = from; n < to; n++)
        put_packed(packing, *n >> 8);
}

static int pack_columns(struct packing *packing)
{
    struct fp_index *w = packing->w;
    size_t processes = w->profile->process_count;
    uint64_t begin = 0;
    int err = find_changes(packing);

    if (err == 0 && w->column[FP_ROW_PROCESS].type == FP_COLUMN_PACKED)
        pack_processes(packing);
    if (err == 0 && w->column[FP_ROW_TIME].type == FP_COLUMN_PACKED)
        err = pack_times(packing);
    if (err == 0)
        err = pack_sets(packing);
    for (uint32_t i = 0; i < packing->count && err == 0 && processes > 0; i++) {
        uint64_t end = *next_of(packing, i, (uint32_t)processes - 1);

        put_changes(packing, packing->change + begin, packing->change + end);
        begin = end;
    }
    fp_index_flush(w, &packing->stream);
    return err;
}

static void list_columns(struct packing *packing)
{
    const struct fp_index *w = packing->w;

    for (uint32_t c = 0; c < FP_ROW_VALUE + 2 * w->profile->metric_count; c++) {
        if (c != FP_ROW_PROCESS && c != FP_ROW_TIME && w->column[c].type == FP_COLUMN_PACKED)
            packing->column[packing->count++] = c;
    }
}

int fp_index_write_packed(struct fp_index *w)
{
    struct fp_budget *budget = &w->profile->budget;
    size_t rows = w->profile->rows.count, count = w->profile->process_count;
    struct packing packing = {.w = w, .stream = {.offset = w->end, .buffer = w->buffers}};
    int err = FP_ZEROS(budget, &packing.follower, count + 1);

    list_columns(&packing);
    if (err == 0)
        err = FP_ZEROS(budget, &packing.last, count * packing.count);
    if (err == 0)
        err = FP_ZEROS(budget, &packing.row, count);
    if (err == 0)
        err = FP_ZEROS(budget, &packing.set_of, rows);
    if (err == 0)
        err = FP_ZEROS(budget, &packing.next, count * packing.count);
    if (err == 0)
        err = pack_columns(&packing);
    FP_FREE(budget, packing.follower, count + 1);
    FP_FREE(budget, packing.last, count * packing.count);
    FP_FREE(budget, packing.row, count);
    FP_FREE(budget, packing.set_of, rows);
    FP_FREE(budget, packing.next, count * packing.count);
    FP_FREE(budget, packing.change, packing.change_count);
    FP_FREE(budget, packing.set, packing.set_room);
    fp_table_free(&packing.sets, budget);
    return err;
}
