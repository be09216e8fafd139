/*
 * index_tables.c - the index's columns of strings, frames, nodes and processes.
 */
#include "report/export_index.h"

static const struct {
    const char *name;
    enum fp_column_type type;
} tables[FP_INDEX_TABLES] = {
    [FP_TABLE_STRING_END] = {"string_end", FP_COLUMN_U32},
    [FP_TABLE_STRING_BYTES] = {"string_bytes", FP_COLUMN_U8},
    [FP_TABLE_FRAME_SYMBOL] = {"frame_symbol", FP_COLUMN_U32},
    [FP_TABLE_FRAME_DSO] = {"frame_dso", FP_COLUMN_U32},
    [FP_TABLE_NODE_PARENT] = {"node_parent", FP_COLUMN_U32},
    [FP_TABLE_NODE_FRAME] = {"node_frame", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_WHO] = {"process_who", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_COMM] = {"process_comm", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_PID] = {"process_pid", FP_COLUMN_F64},
    [FP_TABLE_PROCESS_TID] = {"process_tid", FP_COLUMN_F64},
    [FP_TABLE_PROCESS_ERL_PID] = {"process_erl_pid", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_NAME] = {"process_name", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_LABEL] = {"process_label", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_INITIAL_CALL] = {"process_initial_call", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_PROC_LIB_INITIAL_CALL] = {"process_proc_lib_initial_call",
                                                FP_COLUMN_U32},
    [FP_TABLE_PROCESS_WORDS] = {"process_words", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_FILE] = {"process_file", FP_COLUMN_U32},
    [FP_TABLE_PROCESS_IS_OWN] = {"process_is_own", FP_COLUMN_U8},
    [FP_TABLE_PROCESS_SAMPLES] = {"process_samples", FP_COLUMN_F64},
    [FP_TABLE_PROCESS_FIRST_US] = {"process_first_us", FP_COLUMN_F64},
    [FP_TABLE_PROCESS_LAST_US] = {"process_last_us", FP_COLUMN_F64},
};

const char *fp_index_table_name(enum fp_index_table table)
{
    return tables[table].name;
}

static uint64_t count_of(const struct fp_profile *profile,
                         enum fp_index_table table)
{
    switch (table) {
    case FP_TABLE_STRING_END:
        return profile->strings.count;
    case FP_TABLE_STRING_BYTES:
        return profile->strings.size;
    case FP_TABLE_FRAME_SYMBOL:
    case FP_TABLE_FRAME_DSO:
        return profile->tree.frame_count;
    case FP_TABLE_NODE_PARENT:
    case FP_TABLE_NODE_FRAME:
        return profile->tree.node_count;
    default:
        return profile->process_count;
    }
}

static int64_t process_number(const struct fp_profile *profile,
                              enum fp_index_table table, size_t i)
{
    const struct fp_process *process = &profile->process[i];

    switch (table) {
    case FP_TABLE_PROCESS_WHO:
        return process->who;
    case FP_TABLE_PROCESS_COMM:
        return process->comm;
    case FP_TABLE_PROCESS_PID:
        return (int64_t)process->pid;
    case FP_TABLE_PROCESS_TID:
        return (int64_t)process->tid;
    case FP_TABLE_PROCESS_ERL_PID:
        return process->erl_pid;
    case FP_TABLE_PROCESS_NAME:
        return process->name;
    case FP_TABLE_PROCESS_LABEL:
        return process->label;
    case FP_TABLE_PROCESS_INITIAL_CALL:
        return process->initial_call;
    case FP_TABLE_PROCESS_PROC_LIB_INITIAL_CALL:
        return process->proc_lib_initial_call;
    case FP_TABLE_PROCESS_WORDS:
        return process->words;
    case FP_TABLE_PROCESS_FILE:
        return process->file;
    case FP_TABLE_PROCESS_IS_OWN:
        return process->is_own;
    case FP_TABLE_PROCESS_SAMPLES:
        return (int64_t)process->samples;
    case FP_TABLE_PROCESS_FIRST_US:
        return process->first_us - profile->first_us;
    default:
        return process->last_us - profile->first_us;
    }
}

static int64_t number_of(const struct fp_profile *profile,
                         enum fp_index_table table, size_t i)
{
    switch (table) {
    case FP_TABLE_STRING_END:
        return (int64_t)profile->strings.end[i];
    case FP_TABLE_STRING_BYTES:
        return (unsigned char)profile->strings.bytes[i];
    case FP_TABLE_FRAME_SYMBOL:
        return profile->tree.frame[i].symbol;
    case FP_TABLE_FRAME_DSO:
        return profile->tree.frame[i].dso;
    case FP_TABLE_NODE_PARENT:
        return profile->tree.node[i].parent;
    case FP_TABLE_NODE_FRAME:
        return profile->tree.node[i].frame;
    default:
        return process_number(profile, table, i);
    }
}

void fp_index_place_table(struct fp_index *w, struct fp_column *column,
                          enum fp_index_table table)
{
    *column = (struct fp_column){.type = tables[table].type,
                                 .count = count_of(w->profile, table),
                                 .offset = w->end};
    w->end +=
        fp_index_aligned(column->count * fp_column_kind[column->type].size);
}

void fp_index_write_table(struct fp_index *w, struct fp_column *column,
                          enum fp_index_table table)
{
    column->buffer = w->buffers;
    for (size_t i = 0; i < column->count; i++)
        fp_index_put(w, column, number_of(w->profile, table, i));
    fp_index_flush(w, column);
}
