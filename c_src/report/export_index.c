/* export_index.c - a profile as typed arrays that a browser maps as they are. The layout is
 * doc/viewer_index.md's; a change of it is a new INDEX_VERSION.
 *
 * The profile knows the range of every column, so that each has its type and its place before the
 * first row. One pass over the rows writes them all, each through a buffer of its own. */
#include "report/export_index.h"

#include "base/clock.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they are in memory");

const struct fp_column_kind fp_column_kind[] = {
    [FP_COLUMN_CONST] = {"const", 0},
    [FP_COLUMN_U8] = {"u8", 1, 0, UINT8_MAX},
    [FP_COLUMN_I8] = {"i8", 1, INT8_MIN, INT8_MAX},
    [FP_COLUMN_U16] = {"u16", 2, 0, UINT16_MAX},
    [FP_COLUMN_I16] = {"i16", 2, INT16_MIN, INT16_MAX},
    [FP_COLUMN_U32] = {"u32", 4, 0, UINT32_MAX},
    [FP_COLUMN_I32] = {"i32", 4, INT32_MIN, INT32_MAX},
    [FP_COLUMN_F64] = {"f64", 8, INT64_MIN, INT64_MAX},
    [FP_COLUMN_PACKED] = {"packed", 0},
    [FP_COLUMN_CODED] = {"coded", 0},
};

/* ------------------------------------------------------------------ columns -- */

/* Of a packed index, arrays of more than bytes are coded with the rows. */
static void place_coded(struct fp_index *w, struct fp_column *column)
{
    if (!w->is_packed || fp_column_kind[column->type].size < 2 || column->count == 0 || w->err != 0)
        return;
    w->err = FP_ZEROS(&w->profile->budget, &column->number, column->count);
    column->type = FP_COLUMN_CODED;
}

static void place_typed(struct fp_index *w, struct fp_column *column, enum fp_column_type type,
                        uint64_t count)
{
    column->type = type;
    column->count = count;
    column->offset = w->end;
    column->buffer = w->buffers + w->placed_count * FP_INDEX_BUFFER_BYTES;
    place_coded(w, column);
    column->place = w->placed_count;
    w->placed[w->placed_count++] = column;
    /* The next one begins at a multiple of 8. */
    w->end += (count * fp_column_kind[column->type].size + 7) & ~UINT64_C(7);
}

static void place(struct fp_index *w, struct fp_column *column, int64_t min, int64_t max,
                  uint64_t count)
{
    enum fp_column_type type = FP_COLUMN_U8;

    while (min < fp_column_kind[type].min || max > fp_column_kind[type].max)
        type++;
    column->constant = min;
    place_typed(w, column, min == max ? FP_COLUMN_CONST : type, count);
}

void fp_index_flush(struct fp_index *w, struct fp_column *column)
{
    fp_output_at(w->output, w->base + column->offset + column->written, column->buffer,
                 column->used);
    column->written += column->used;
    column->used = 0;
}

/* The low bytes of a two's complement number are right for any width that holds it, of either
 * sign. Known sizes make a copy one instruction: this is most of the work on a row. */
static void put(struct fp_index *w, struct fp_column *column, int64_t number)
{
    size_t size = fp_column_kind[column->type].size;
    uint8_t *to = column->buffer + column->used;
    double real = (double)number;

    if (column->number != NULL && column->numbers < column->count)
        column->number[column->numbers++] = number;
    if (size == 1)
        memcpy(to, &number, 1);
    else if (size == 2)
        memcpy(to, &number, 2);
    else if (size == 4)
        memcpy(to, &number, 4);
    else if (size == 8)
        memcpy(to, &real, 8);
    column->used += size;
    if (column->used == FP_INDEX_BUFFER_BYTES)
        fp_index_flush(w, column);
}

/* ------------------------------------------------------------------- tables -- */

enum { STRING_END, STRING_BYTES, FRAME, NODE, PROCESS };

/* A column is one member of all items of an array. */
static const struct table {
    const char *name;
    enum fp_column_type type;
    int array;
    size_t at, size; /* of the member in its struct */
    bool is_time;    /* from the profile's first_us on */
} tables[FP_INDEX_TABLES] = {
#define MEMBER(kind, member) offsetof(struct kind, member), sizeof(((struct kind *)NULL)->member)
    {"string_end", FP_COLUMN_U32, STRING_END, 0, sizeof(uint64_t)},
    {"string_bytes", FP_COLUMN_U8, STRING_BYTES, 0, 1},
    {"frame_symbol", FP_COLUMN_U32, FRAME, MEMBER(fp_frame_ids, symbol)},
    {"frame_dso", FP_COLUMN_U32, FRAME, MEMBER(fp_frame_ids, dso)},
    {"node_parent", FP_COLUMN_U32, NODE, MEMBER(fp_node, parent)},
    {"node_frame", FP_COLUMN_U32, NODE, MEMBER(fp_node, frame)},
    {"process_who", FP_COLUMN_U32, PROCESS, MEMBER(fp_process, thread)},
    {"process_comm", FP_COLUMN_U32, PROCESS, MEMBER(fp_process, comm)},
    {"process_pid", FP_COLUMN_F64, PROCESS, MEMBER(fp_process, pid)},
    {"process_tid", FP_COLUMN_F64, PROCESS, MEMBER(fp_process, tid)},
    {"process_erl_pid", FP_COLUMN_U32, PROCESS, MEMBER(fp_process, erl_pid)},
    {"process_name", FP_COLUMN_U32, PROCESS, MEMBER(fp_process, name)},
    {"process_label", FP_COLUMN_U32, PROCESS, MEMBER(fp_process, label)},
    {"process_initial_call", FP_COLUMN_U32, PROCESS, MEMBER(fp_process, initial_call)},
    {"process_proc_lib_initial_call", FP_COLUMN_U32, PROCESS,
     MEMBER(fp_process, proc_lib_initial_call)},
    {"process_words", FP_COLUMN_U32, PROCESS, MEMBER(fp_process, words)},
    {"process_file", FP_COLUMN_U32, PROCESS, MEMBER(fp_process, file)},
    {"process_is_own", FP_COLUMN_U8, PROCESS, MEMBER(fp_process, is_own)},
    {"process_samples", FP_COLUMN_F64, PROCESS, MEMBER(fp_process, samples)},
    {"process_first_us", FP_COLUMN_F64, PROCESS, MEMBER(fp_process, first_us), true},
    {"process_last_us", FP_COLUMN_F64, PROCESS, MEMBER(fp_process, last_us), true},
};

struct array {
    const void *items;
    size_t item, from, count; /* `from`: the first item that is written */
};

/* Processes change: every piece has all. */
static struct array array_of(const struct fp_index *w, int array)
{
    const struct fp_profile *profile = w->profile;
    const struct fp_strings *strings = &profile->strings;
    const struct fp_tree *tree = &profile->tree;
    const struct fp_index_mark *from = w->from;
    const struct array arrays[] = {
        [STRING_END] = {strings->end, sizeof(*strings->end), from->strings, strings->count},
        [STRING_BYTES] = {strings->bytes, 1, from->string_bytes, strings->size},
        [FRAME] = {tree->frame, sizeof(*tree->frame), from->frames, tree->frame_count},
        [NODE] = {tree->node, sizeof(*tree->node), from->nodes, tree->node_count},
        [PROCESS] = {profile->process, sizeof(*profile->process), 0, profile->process_count},
    };

    return arrays[array];
}

const char *fp_index_table_name(int table)
{
    return tables[table].name;
}

static void write_tables(struct fp_index *w)
{
    for (int t = 0; t < FP_INDEX_TABLES; t++) {
        const struct table *table = &tables[t];
        struct array array = array_of(w, table->array);

        for (size_t i = array.from; i < array.count; i++) {
            int64_t number = 0;

            memcpy(&number, (const char *)array.items + i * array.item + table->at, table->size);
            put(w, &w->table[t], table->is_time ? number - w->profile->first_us : number);
        }
    }
}

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

    place(w, column, min, max, w->is_packed ? 0 : w->rows);
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
        place(w, &listed->row, 0, UINT32_MAX, count);
        place(w, &w->column[delta], facts->delta_min, facts->delta_max, count);
    } else {
        place_rows_of(w, delta, facts->delta_min, facts->delta_max);
    }
    if (listed->is_sparse)
        place(w, &w->column[value], facts->value_min, facts->value_max, count);
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
    place(w, &w->column[FP_ROW_TIME], 0, last, profile->time_runs);
    place(w, &w->run_end, 0, (int64_t)profile->rows.count, profile->time_runs);
}

static void place_numbers(struct fp_index *w, uint32_t c, size_t count)
{
    place_rows_of(w, c, 0, count == 0 ? 0 : (int64_t)count - 1);
}

static void place_all(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;

    for (int t = 0; t < FP_INDEX_TABLES; t++) {
        struct array array = array_of(w, tables[t].array);

        place_typed(w, &w->table[t], tables[t].type, array.count - array.from);
    }
    place_time(w);
    place_numbers(w, FP_ROW_PROCESS, profile->process_count);
    place_numbers(w, FP_ROW_STATUS, w->status_count);
    place_numbers(w, FP_ROW_NODE, profile->tree.node_count);
    place_rows_of(w, FP_ROW_PERIOD, profile->period_min, profile->period_max);
    place_numbers(w, FP_ROW_SCHEMA, profile->schema_count);
    place_numbers(w, FP_ROW_EVENT, profile->event_count);
    place_numbers(w, FP_ROW_FILE, profile->file_count);
    place_rows_of(w, FP_ROW_SCHEDULER, 0, profile->scheduler_max);
    place(w, &w->own, 0, UINT32_MAX, profile->own_count - w->from->own_rows);
    place(w, &w->message_row, 0, UINT32_MAX, profile->message_rows - w->from->message_rows);
    place(w, &w->message, 0, UINT32_MAX, profile->message_rows - w->from->message_rows);
    place(w, &w->wait_row, 0, UINT32_MAX, profile->wait_rows - w->from->wait_rows);
    place(w, &w->waits_for, 0, UINT32_MAX, profile->wait_rows - w->from->wait_rows);
    place(w, &w->request, 0, UINT32_MAX, profile->wait_rows - w->from->wait_rows);
    place(w, &w->trace_row, 0, UINT32_MAX, profile->trace_rows - w->from->trace_rows);
    place(w, &w->trace, 0, UINT32_MAX, profile->trace_rows - w->from->trace_rows);
    place(w, &w->span, 0, UINT32_MAX, profile->trace_rows - w->from->trace_rows);
    place(w, &w->collection_row, 0, UINT32_MAX,
          profile->collection_rows - w->from->collection_rows);
    place(w, &w->collection, 0, UINT32_MAX, profile->collection_rows - w->from->collection_rows);
    for (uint32_t m = 0; m < profile->metric_count; m++)
        place_metric(w, m);
}

/* --------------------------------------------------------------------- rows -- */

void fp_index_row_numbers(const struct fp_index *w, const struct fp_row *row,
                          int64_t number[FP_ROW_VALUE])
{
    number[FP_ROW_PROCESS] = row->process;
    number[FP_ROW_TIME] = row->time_us - w->profile->first_us;
    number[FP_ROW_STATUS] = w->status_of[row->stack];
    number[FP_ROW_NODE] = w->profile->tree.stack[row->stack].node;
    number[FP_ROW_PERIOD] = row->period;
    number[FP_ROW_SCHEMA] = row->schema;
    number[FP_ROW_EVENT] = row->event;
    number[FP_ROW_FILE] = row->file;
    number[FP_ROW_SCHEDULER] = row->scheduler;
}

static void write_metric(struct fp_index *w, const struct fp_row *row, uint32_t i, uint64_t number)
{
    uint32_t m = w->profile->schema[row->schema].metric[i];
    struct fp_listed_rows *listed = &w->listed[m];
    struct fp_column *value = &w->column[FP_ROW_VALUE + 2 * m];
    bool is_listed = listed->is_sparse || (listed->is_derived && fp_metric_has(&row->odd, i));

    if (is_listed)
        put(w, &listed->row, (int64_t)number);
    put(w, value, row->value[i]);
    if (is_listed || !listed->is_derived)
        put(w, value + 1, row->delta[i]);
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
        put(w, &w->column[FP_ROW_VALUE + 2 * m], 0);
        if (!w->listed[m].is_derived)
            put(w, &w->column[FP_ROW_VALUE + 2 * m + 1], 0);
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
        put(w, &w->run_end, (int64_t)number);
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
            put(w, &w->column[c], numbers[c]);
    }
    if (w->profile->process[row->process].is_own)
        put(w, &w->own, (int64_t)number);
    if (words->message != 0) {
        put(w, &w->message_row, (int64_t)number);
        put(w, &w->message, words->message);
    }
    if (words->waits_for != 0) {
        put(w, &w->wait_row, (int64_t)number);
        put(w, &w->waits_for, words->waits_for);
        put(w, &w->request, words->request);
    }
    if (words->trace != 0) {
        put(w, &w->trace_row, (int64_t)number);
        put(w, &w->trace, words->trace);
        put(w, &w->span, words->span);
    }
    if (words->collection != 0) {
        put(w, &w->collection_row, (int64_t)number);
        put(w, &w->collection, words->collection);
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
        put(w, &w->run_end, (int64_t)number);
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
    write_tables(w);
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
