/*
 * export_index_columns.c - columns to their places in the file, and those of texts, frames, nodes
 * and processes.
 */
#include "report/export_index.h"

const struct fp_column_kind fp_column_kind[] = {
    [FP_COLUMN_CONST] = {"const", 0},   [FP_COLUMN_U8] = {"u8", 1},
    [FP_COLUMN_I8] = {"i8", 1},         [FP_COLUMN_U16] = {"u16", 2},
    [FP_COLUMN_I16] = {"i16", 2},       [FP_COLUMN_U32] = {"u32", 4},
    [FP_COLUMN_I32] = {"i32", 4},       [FP_COLUMN_F64] = {"f64", 8},
    [FP_COLUMN_PACKED] = {"packed", 0},
};

static enum fp_column_type type_for(int64_t min, int64_t max)
{
    if (min == max)
        return FP_COLUMN_CONST;
    if (min >= 0)
        return max <= UINT8_MAX    ? FP_COLUMN_U8
               : max <= UINT16_MAX ? FP_COLUMN_U16
               : max <= UINT32_MAX ? FP_COLUMN_U32
                                   : FP_COLUMN_F64;
    if (min >= INT8_MIN && max <= INT8_MAX)
        return FP_COLUMN_I8;
    if (min >= INT16_MIN && max <= INT16_MAX)
        return FP_COLUMN_I16;
    return min >= INT32_MIN && max <= INT32_MAX ? FP_COLUMN_I32 : FP_COLUMN_F64;
}

static void place_typed(struct fp_index *w, struct fp_column *column, enum fp_column_type type,
                        uint64_t count)
{
    column->type = type;
    column->count = count;
    column->offset = w->end;
    column->buffer = w->buffers + w->placed_count * FP_INDEX_BUFFER_BYTES;
    w->placed[w->placed_count++] = column;
    /* The next one begins at a multiple of 8. */
    w->end += (count * fp_column_kind[type].size + 7) & ~UINT64_C(7);
}

void fp_index_place(struct fp_index *w, struct fp_column *column, int64_t min, int64_t max,
                    uint64_t count)
{
    column->constant = min;
    place_typed(w, column, type_for(min, max), count);
}

void fp_index_flush(struct fp_index *w, struct fp_column *column)
{
    fp_output_at(w->output, w->base + column->offset + column->written, column->buffer,
                 column->used);
    column->written += column->used;
    column->used = 0;
}

/* --------------------------------------------------------- numbers of a row -- */

int64_t fp_index_number(const struct fp_index *w, uint32_t column, const struct fp_row *row)
{
    const struct fp_profile *profile = w->profile;
    int place;

    switch (column) {
    case FP_ROW_PROCESS:
        return row->process;
    case FP_ROW_TIME:
        return row->time_us - profile->first_us;
    case FP_ROW_STATUS:
        return w->status_of[row->stack];
    case FP_ROW_NODE:
        return profile->tree.stack[row->stack].node;
    case FP_ROW_PERIOD:
        return row->period;
    case FP_ROW_SCHEMA:
        return row->schema;
    case FP_ROW_EVENT:
        return row->event;
    case FP_ROW_FILE:
        return row->file;
    default:
        column -= FP_ROW_VALUE;
        place = fp_profile_place(profile, row, (int)(column / 2));
        if (place < 0)
            return 0;
        return column % 2 == 0 ? row->value[place] : row->delta[place];
    }
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
#define OF_PROCESS(name, type, member)                                                             \
    {                                                                                              \
        "process_" #name, type, PROCESS, MEMBER(fp_process, member), false                         \
    }
#define TEXT_OF_PROCESS(name) OF_PROCESS(name, FP_COLUMN_U32, name)
    {"string_end", FP_COLUMN_U32, STRING_END, 0, sizeof(uint64_t), false},
    {"string_bytes", FP_COLUMN_U8, STRING_BYTES, 0, 1, false},
    {"frame_symbol", FP_COLUMN_U32, FRAME, MEMBER(fp_frame_ids, symbol), false},
    {"frame_dso", FP_COLUMN_U32, FRAME, MEMBER(fp_frame_ids, dso), false},
    {"node_parent", FP_COLUMN_U32, NODE, MEMBER(fp_node, parent), false},
    {"node_frame", FP_COLUMN_U32, NODE, MEMBER(fp_node, frame), false},
    OF_PROCESS(who, FP_COLUMN_U32, thread),
    TEXT_OF_PROCESS(comm),
    OF_PROCESS(pid, FP_COLUMN_F64, pid),
    OF_PROCESS(tid, FP_COLUMN_F64, tid),
    TEXT_OF_PROCESS(erl_pid),
    TEXT_OF_PROCESS(name),
    TEXT_OF_PROCESS(label),
    TEXT_OF_PROCESS(initial_call),
    TEXT_OF_PROCESS(proc_lib_initial_call),
    TEXT_OF_PROCESS(words),
    OF_PROCESS(file, FP_COLUMN_U32, file),
    OF_PROCESS(is_own, FP_COLUMN_U8, is_own),
    OF_PROCESS(samples, FP_COLUMN_F64, samples),
    {"process_first_us", FP_COLUMN_F64, PROCESS, MEMBER(fp_process, first_us), true},
    {"process_last_us", FP_COLUMN_F64, PROCESS, MEMBER(fp_process, last_us), true},
};

struct array {
    const void *items;
    size_t item, count;
};

static struct array array_of(const struct fp_profile *profile, int array)
{
    const struct fp_tree *tree = &profile->tree;

    switch (array) {
    case STRING_END:
        return (struct array){profile->strings.end, sizeof(uint64_t), profile->strings.count};
    case STRING_BYTES:
        return (struct array){profile->strings.bytes, 1, profile->strings.size};
    case FRAME:
        return (struct array){tree->frame, sizeof(*tree->frame), tree->frame_count};
    case NODE:
        return (struct array){tree->node, sizeof(*tree->node), tree->node_count};
    default:
        return (struct array){profile->process, sizeof(*profile->process), profile->process_count};
    }
}

const char *fp_index_table_name(int table)
{
    return tables[table].name;
}

void fp_index_place_tables(struct fp_index *w)
{
    for (int t = 0; t < FP_INDEX_TABLES; t++)
        place_typed(w, &w->table[t], tables[t].type, array_of(w->profile, tables[t].array).count);
}

void fp_index_write_tables(struct fp_index *w)
{
    for (int t = 0; t < FP_INDEX_TABLES; t++) {
        const struct table *table = &tables[t];
        struct array array = array_of(w->profile, table->array);
        const char *at = (const char *)array.items + table->at;

        for (size_t i = 0; i < array.count; i++, at += array.item) {
            int64_t number = 0;

            memcpy(&number, at, table->size);
            if (table->is_time)
                number -= w->profile->first_us;
            fp_index_put(w, &w->table[t], number);
        }
    }
}
