/* export_index.h - an index while it is written: what export_index*.c share. export.h declares the
 * export, doc/dev/viewer_index.md is the layout. */
#pragma once

#include <stdbool.h>

#include "report/export.h"

#define FP_INDEX_BUFFER_BYTES ((size_t)4 << 10)

/* The narrowest type that holds a column's numbers is the first one whose range does. */
enum fp_column_type {
    FP_COLUMN_CONST,
    FP_COLUMN_U8,
    FP_COLUMN_I8,
    FP_COLUMN_U16,
    FP_COLUMN_I16,
    FP_COLUMN_U32,
    FP_COLUMN_I32,
    FP_COLUMN_F64,
    FP_COLUMN_PACKED,
    FP_COLUMN_CODED
};

/* By type. CONST, PACKED and CODED have no array: size 0. */
extern const struct fp_column_kind {
    const char *name;
    size_t size;
    int64_t min, max;
} fp_column_kind[];

struct fp_column {
    enum fp_column_type type;
    int64_t constant;
    uint64_t count, offset;
    uint8_t *buffer; /* FP_INDEX_BUFFER_BYTES */
    size_t used;
    uint64_t written;
    int64_t *number; /* CODED: all of them */
    size_t numbers, place;
};

/* Columns of a number a row, in the order of the packed rows: these, then of each metric its values
 * and its deltas. */
enum fp_row_column {
    FP_ROW_PROCESS,
    FP_ROW_TIME,
    FP_ROW_STATUS,
    FP_ROW_NODE,
    FP_ROW_PERIOD,
    FP_ROW_SCHEMA,
    FP_ROW_EVENT,
    FP_ROW_FILE,
    FP_ROW_SCHEDULER,
    FP_ROW_VALUE, /* of metric 0; its deltas follow */
    FP_ROW_COLUMNS = FP_ROW_VALUE + 2 * FP_METRICS_MOST
};

/* The rows that a metric's columns list: `is_sparse`: those that have the metric, in both columns;
 * `is_derived`: those whose delta is odd (rows.h), in the column of deltas. */
struct fp_listed_rows {
    struct fp_column row;
    bool is_derived, is_sparse;
};

/* The values that are packed are those of the metric less `factor` times those of `metric`. */
struct fp_index_base {
    uint32_t metric;
    int64_t factor; /* 0: as they are */
};

#define FP_INDEX_TABLES 21
/* Of the whole file: the last twelve are run_end, own, those of messages, of waits, of traces and
 * of collections. */
#define FP_INDEX_COLUMNS (FP_INDEX_TABLES + FP_ROW_COLUMNS + FP_METRICS_MOST + 12)

/* Packed runs, of rows of one time, are in the order of the file, and the rows of a run in that of
 * their processes. A place is a row's, process by process. */
struct fp_packed_order {
    uint32_t *place; /* by the row's number in the profile */
    uint32_t *run;   /* by place */
    uint32_t *rank;  /* by place: the row's number in the index */
    int64_t *run_us;
    uint32_t runs;
};

struct fp_index {
    struct fp_profile *profile;
    struct fp_output *output;
    bool is_packed;
    const struct fp_index_mark *from; /* what is left out; all 0: nothing */
    uint64_t rows;                    /* that are written */
    uint64_t base;                    /* of all offsets, in the file */
    uint64_t end;                     /* of the data, from base */
    struct fp_column table[FP_INDEX_TABLES];
    struct fp_column column[FP_ROW_COLUMNS];
    struct fp_listed_rows listed[FP_METRICS_MOST];
    fp_metric_set in_rows; /* metrics with a number in every row: not sparse */
    struct fp_index_base base_of[FP_METRICS_MOST];
    bool has_differences[FP_METRICS_MOST]; /* packed deltas are less by those of the values */
    struct fp_column own;                  /* numbers of the profiler's own rows */
    struct fp_column message_row, message; /* of rows with a message, which is a text */
    struct fp_column wait_row, waits_for, request; /* of rows that tell what they wait for: texts */
    struct fp_column trace_row, trace, span;       /* of rows with a trace: texts */
    struct fp_column collection_row, collection;   /* of rows of a long collection: a text */
    /* Consecutive rows of one time are a run: column[FP_ROW_TIME] has its time. */
    struct fp_column run_end;
    bool has_runs;
    int64_t run_us; /* the time of the last run */
    struct fp_column *placed[FP_INDEX_COLUMNS];
    size_t placed_count;
    int err;
    uint8_t *buffers;      /* one for each placed column */
    uint32_t *status_text; /* the different statuses; texts */
    size_t status_count, status_room;
    uint32_t *status_of; /* by stack: place in status_text */
    struct fp_packed_order order;
};

/* ---- export_index_columns.c -- */

/* After the columns that are in front of it. */
void fp_index_place(struct fp_index *w, struct fp_column *column, int64_t min, int64_t max,
                    uint64_t count);
void fp_index_put(struct fp_index *w, struct fp_column *column, int64_t number);
void fp_index_flush(struct fp_index *w, struct fp_column *column);
void fp_index_place_tables(struct fp_index *w);
void fp_index_write_tables(struct fp_index *w);
const char *fp_index_table_name(int table);
void fp_index_row_numbers(const struct fp_index *w, const struct fp_row *row,
                          int64_t number[FP_ROW_VALUE]);

/* ---- export_index_header.c -- */

/* After all columns are placed. Sets `base`. */
void fp_index_write_header(struct fp_index *w);

/* ---- export_index_packed.c -- */

/* Before the rows are written; the caller frees it, also after an error. */
int fp_index_find_order(struct fp_index *w);
void fp_index_free_order(struct fp_index *w);
/* After all columns are placed. */
void fp_index_find_bases(struct fp_index *w);
int fp_index_write_packed(struct fp_index *w);
