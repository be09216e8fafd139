/* export_index_columns.c - the arrays of an index, and the tables of texts, frames, nodes and
 * processes.
 *
 * The profile knows the range of every column, so that each has its type and its place before the
 * first row. Each is written through a buffer of its own. */
#include "report/export_index.h"

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

/* In a packed index, arrays of numbers wider than a byte are coded with the rows. */
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

void fp_index_place(struct fp_index *w, struct fp_column *column, int64_t min, int64_t max,
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
void fp_index_put(struct fp_index *w, struct fp_column *column, int64_t number)
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

void fp_index_place_tables(struct fp_index *w)
{
    for (int t = 0; t < FP_INDEX_TABLES; t++) {
        struct array array = array_of(w, tables[t].array);

        place_typed(w, &w->table[t], tables[t].type, array.count - array.from);
    }
}

void fp_index_write_tables(struct fp_index *w)
{
    for (int t = 0; t < FP_INDEX_TABLES; t++) {
        const struct table *table = &tables[t];
        struct array array = array_of(w, table->array);

        for (size_t i = array.from; i < array.count; i++) {
            int64_t number = 0;

            memcpy(&number, (const char *)array.items + i * array.item + table->at, table->size);
            fp_index_put(w, &w->table[t], table->is_time ? number - w->profile->first_us : number);
        }
    }
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
