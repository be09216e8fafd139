/*
 * export_index.h - a profile as typed arrays that a browser maps as they are: what the
 * files index*.c share. export.h has the entry, doc/index.md the layout.
 */
#ifndef FP_REPORT_EXPORT_INDEX_H
#define FP_REPORT_EXPORT_INDEX_H

#include <stdbool.h>
#include <string.h>

#include "report/export.h"

#define FP_INDEX_BUFFER_BYTES ((size_t)16 << 10)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they are in memory");

enum fp_column_type {
    FP_COLUMN_CONST,
    FP_COLUMN_U8,
    FP_COLUMN_I8,
    FP_COLUMN_U16,
    FP_COLUMN_I16,
    FP_COLUMN_U32,
    FP_COLUMN_I32,
    FP_COLUMN_F64,
    FP_COLUMN_PACKED
};

/* By type; of no size is what has no array. */
extern const struct fp_column_kind {
    const char *name;
    size_t size;
} fp_column_kind[];

struct fp_column {
    enum fp_column_type type;
    int64_t constant;
    uint64_t count, offset;
    uint8_t *buffer;
    size_t used;
    uint64_t written;
};

/* Of one metric. Deltas are full, or derived but for the odd ones. What few rows
 * have is sparse: `odd_row` names them, value and delta are theirs alone. */
struct fp_metric_columns {
    struct fp_column value, delta, odd_row, odd_delta;
    bool is_derived, is_sparse;
};

/* One that is being written. */
struct fp_index {
    struct fp_profile *profile;
    struct fp_output *output;
    uint64_t base; /* of all offsets */
    uint64_t end;  /* of the data, from base */
    struct fp_column time, process, status, node, period, schema, event, file;
    /* Instead of time, where it is in runs. */
    struct fp_column run_time, run_end;
    struct fp_column own; /* numbers of the profiler's own rows */
    bool has_runs;
    int64_t run_last; /* the time of the run that is being written */
    struct fp_metric_columns metric[FP_METRICS_MOST];
    uint32_t *status_text; /* which statuses there are; texts */
    uint32_t *status_of;   /* by stack: place in status_text */
    size_t status_count, status_room, status_of_room;
    uint8_t *buffers;
    bool is_packed;
    /* Of packed rows, as they are written: process << 32 | number of the row; and
     * by the number of the row, its place in there. */
    uint64_t *order;
    uint32_t *rank;
    size_t order_room, rank_room;
    int64_t *number; /* of one column, by process; while rows are packed */
    uint64_t *place; /* by process: of its next row in there */
    size_t number_room, place_room;
    struct fp_column stream; /* the packed rows */
};

enum fp_index_table {
    FP_TABLE_STRING_END,
    FP_TABLE_STRING_BYTES,
    FP_TABLE_FRAME_SYMBOL,
    FP_TABLE_FRAME_DSO,
    FP_TABLE_NODE_PARENT,
    FP_TABLE_NODE_FRAME,
    FP_TABLE_PROCESS_WHO,
    FP_TABLE_PROCESS_COMM,
    FP_TABLE_PROCESS_PID,
    FP_TABLE_PROCESS_TID,
    FP_TABLE_PROCESS_ERL_PID,
    FP_TABLE_PROCESS_NAME,
    FP_TABLE_PROCESS_LABEL,
    FP_TABLE_PROCESS_INITIAL_CALL,
    FP_TABLE_PROCESS_PROC_LIB_INITIAL_CALL,
    FP_TABLE_PROCESS_WORDS,
    FP_TABLE_PROCESS_FILE,
    FP_TABLE_PROCESS_IS_OWN,
    FP_TABLE_PROCESS_SAMPLES,
    FP_TABLE_PROCESS_FIRST_US,
    FP_TABLE_PROCESS_LAST_US,
    FP_INDEX_TABLES
};

/* ---- index.c -- */

uint64_t fp_index_aligned(uint64_t n);
/* What is in the column's buffer, to its place in the file. */
void fp_index_flush(struct fp_index *w, struct fp_column *column);

/* The bytes of a two's complement number are right for any width that holds
 * it, of either sign. */
static inline void fp_index_put(struct fp_index *w, struct fp_column *column,
                                int64_t number)
{
    size_t size = fp_column_kind[column->type].size;
    double real = (double)number;

    if (size == 0)
        return;
    memcpy(column->buffer + column->used,
           column->type == FP_COLUMN_F64 ? (void *)&real : (void *)&number,
           size);
    column->used += size;
    if (column->used == FP_INDEX_BUFFER_BYTES)
        fp_index_flush(w, column);
}

/* ---- index_tables.c: numbers that are not of rows -- */

const char *fp_index_table_name(enum fp_index_table table);
void fp_index_place_table(struct fp_index *w, struct fp_column *column,
                          enum fp_index_table table);
void fp_index_write_table(struct fp_index *w, struct fp_column *column,
                          enum fp_index_table table);

/* ---- index_header.c -- */

/* All columns are placed; where they begin in the file is known afterwards. */
void fp_index_write_header(struct fp_index *w, const struct fp_column *columns);

/* ---- index_rows.c: a number a row, each column through its own buffer -- */

int fp_index_write_rows(struct fp_index *w);

/* ---- index_packed.c: the rows of a report, small instead of mapped -- */

/* Before the rows are written: which number each will have. */
int fp_index_find_order(struct fp_index *w);
int fp_index_write_packed(struct fp_index *w);

#endif
