/*
 * index.c - a profile as typed arrays that a browser maps as they are. The
 * layout is doc/index.md's; a change of it is a new INDEX_VERSION there.
 *
 * The facts of a profile tell the range of every column, so that its type and
 * its place are known before the first row: one pass writes them all, each
 * through a buffer of its own.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "../core/known.h"
#include "export.h"

#define INDEX_VERSION 1
#define MAGIC "FPINDEX1"
#define PREFIX_BYTES 16
#define BUFFER_BYTES ((size_t)16 << 10)
#define COLUMNS_MOST (11 + 4 * FP_METRICS_MOST)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they are in memory");

enum type { CONST, U8, I8, U16, I16, U32, I32, F64, PACKED };

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [CONST] = {"const", 0}, [U8] = {"u8", 1},   [I8] = {"i8", 1},
    [U16] = {"u16", 2},     [I16] = {"i16", 2}, [U32] = {"u32", 4},
    [I32] = {"i32", 4},     [F64] = {"f64", 8}, [PACKED] = {"packed", 0},
};

struct column {
    enum type type;
    int64_t constant;
    uint64_t count, offset;
    uint8_t *buffer;
    size_t used;
    uint64_t written;
};

/* Of one metric. Deltas are full, or derived but for the odd ones. What few rows
 * have is sparse: `odd_row` names them, value and delta are theirs alone. */
struct metric_columns {
    struct column value, delta, odd_row, odd_delta;
    bool is_derived, is_sparse;
};

struct writing {
    struct fp_profile *profile;
    struct fp_output *output;
    uint64_t base; /* of all offsets */
    uint64_t end;  /* of the data, from base */
    struct column time, process, status, node, period, schema, event, file;
    struct column run_time, run_end; /* instead of time, where it is in runs */
    struct column own;               /* numbers of the profiler's own rows */
    bool has_runs;
    int64_t run_last; /* the time of the run that is being written */
    struct metric_columns metric[FP_METRICS_MOST];
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
    struct column stream; /* the packed rows */
};

/* ------------------------------------------------------------------ columns -- */

static enum type type_for(int64_t min, int64_t max)
{
    if (min == max)
        return CONST;
    if (min >= 0)
        return max <= UINT8_MAX    ? U8
               : max <= UINT16_MAX ? U16
               : max <= UINT32_MAX ? U32
                                   : F64;
    if (min >= INT8_MIN && max <= INT8_MAX)
        return I8;
    if (min >= INT16_MIN && max <= INT16_MAX)
        return I16;
    return min >= INT32_MIN && max <= INT32_MAX ? I32 : F64;
}

static uint64_t aligned(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

static void place(struct writing *w, struct column *column, int64_t min,
                  int64_t max, uint64_t count)
{
    column->type = type_for(min, max);
    column->constant = min;
    column->count = count;
    column->offset = w->end;
    w->end += aligned(count * types[column->type].size);
}

/* A column of a number a row. Packed ones have no place: they follow each other
 * behind everything else. */
static void place_row_column(struct writing *w, struct column *column,
                             int64_t min, int64_t max)
{
    place(w, column, min, max, w->is_packed ? 0 : w->profile->rows.count);
    column->count = w->profile->rows.count;
    if (w->is_packed && column->type != CONST)
        column->type = PACKED;
}

static void flush(struct writing *w, struct column *column)
{
    fp_output_at(w->output, w->base + column->offset + column->written,
                 column->buffer, column->used);
    column->written += column->used;
    column->used = 0;
}

/* The bytes of a two's complement number are right for any width that holds
 * it, of either sign. */
static void put(struct writing *w, struct column *column, int64_t number)
{
    size_t size = types[column->type].size;
    double real = (double)number;

    if (size == 0)
        return;
    memcpy(column->buffer + column->used,
           column->type == F64 ? (void *)&real : (void *)&number, size);
    column->used += size;
    if (column->used == BUFFER_BYTES)
        flush(w, column);
}

/* ----------------------------------------------------------------- statuses -- */

/* Few statuses, many stacks: each stack is asked once. */
static int find_statuses(struct writing *w)
{
    const struct fp_tree *tree = &w->profile->tree;
    struct fp_budget *budget = &w->profile->budget;
    int err =
        FP_GROW(budget, &w->status_of, &w->status_of_room, tree->stack_count);

    for (size_t s = 0; s < tree->stack_count && err == 0; s++) {
        uint32_t text = tree->stack[s].status, i = 0;

        while (i < w->status_count && w->status_text[i] != text)
            i++;
        if (i == w->status_count) {
            err = FP_GROW(budget, &w->status_text, &w->status_room, i + 1u);
            if (err != 0)
                break;
            w->status_text[w->status_count++] = text;
        }
        w->status_of[s] = i;
    }
    return err;
}

/* ------------------------------------------------------------------- layout -- */

static int64_t last_of(size_t count)
{
    return count == 0 ? 0 : (int64_t)count - 1;
}

static void place_metric(struct writing *w, uint32_t m)
{
    const struct fp_metric_facts *facts = &w->profile->metric[m];
    struct metric_columns *metric = &w->metric[m];
    uint64_t rows = w->profile->rows.count;

    metric->is_sparse = facts->rows <= rows / 16;
    if (metric->is_sparse) {
        place(w, &metric->odd_row, 0, (int64_t)UINT32_MAX, facts->rows);
        place(w, &metric->value, facts->value_min, facts->value_max,
              facts->rows);
        place(w, &metric->delta, facts->delta_min, facts->delta_max,
              facts->rows);
        return;
    }
    place_row_column(w, &metric->value, facts->value_min, facts->value_max);
    metric->is_derived = facts->odd <= rows / 16;
    if (!metric->is_derived) {
        place_row_column(w, &metric->delta, facts->delta_min, facts->delta_max);
        return;
    }
    place(w, &metric->odd_row, 0, (int64_t)UINT32_MAX, facts->odd);
    place(w, &metric->odd_delta, facts->delta_min, facts->delta_max,
          facts->odd);
}

/* All samples of a tick are of one time: a hundredth of the rows' number. */
static void place_time(struct writing *w)
{
    const struct fp_profile *profile = w->profile;
    int64_t last = profile->last_us - profile->first_us;

    w->has_runs =
        !w->is_packed && profile->time_runs <= profile->rows.count / 4;
    if (!w->has_runs) {
        place_row_column(w, &w->time, 0, last);
        return;
    }
    place(w, &w->run_time, 0, last, profile->time_runs);
    place(w, &w->run_end, 0, (int64_t)profile->rows.count, profile->time_runs);
}

static void place_rows(struct writing *w)
{
    const struct fp_profile *profile = w->profile;

    place_time(w);
    place_row_column(w, &w->process, 0, last_of(profile->process_count));
    place_row_column(w, &w->status, 0, last_of(w->status_count));
    place_row_column(w, &w->node, 0, last_of(profile->tree.node_count));
    place_row_column(w, &w->period, 1, profile->period_max);
    place_row_column(w, &w->schema, 0, last_of(profile->schema_count));
    place_row_column(w, &w->event, 0, last_of(profile->event_count));
    place_row_column(w, &w->file, 0, last_of(profile->file_count));
    place(w, &w->own, 0, (int64_t)UINT32_MAX, profile->own_count);
    for (uint32_t m = 0; m < profile->metric_count; m++)
        place_metric(w, m);
}

/* ------------------------------------------------------------ tables of texts -- */

enum table {
    STRING_END,
    STRING_BYTES,
    FRAME_SYMBOL,
    FRAME_DSO,
    NODE_PARENT,
    NODE_FRAME,
    PROCESS_WHO,
    PROCESS_COMM,
    PROCESS_PID,
    PROCESS_TID,
    PROCESS_ERL_PID,
    PROCESS_NAME,
    PROCESS_LABEL,
    PROCESS_INITIAL_CALL,
    PROCESS_PROC_LIB_INITIAL_CALL,
    PROCESS_WORDS,
    PROCESS_FILE,
    PROCESS_IS_OWN,
    PROCESS_SAMPLES,
    PROCESS_FIRST_US,
    PROCESS_LAST_US,
    TABLE_COUNT
};

static const struct {
    const char *name;
    enum type type;
} tables[TABLE_COUNT] = {
    [STRING_END] = {"string_end", U32},
    [STRING_BYTES] = {"string_bytes", U8},
    [FRAME_SYMBOL] = {"frame_symbol", U32},
    [FRAME_DSO] = {"frame_dso", U32},
    [NODE_PARENT] = {"node_parent", U32},
    [NODE_FRAME] = {"node_frame", U32},
    [PROCESS_WHO] = {"process_who", U32},
    [PROCESS_COMM] = {"process_comm", U32},
    [PROCESS_PID] = {"process_pid", F64},
    [PROCESS_TID] = {"process_tid", F64},
    [PROCESS_ERL_PID] = {"process_erl_pid", U32},
    [PROCESS_NAME] = {"process_name", U32},
    [PROCESS_LABEL] = {"process_label", U32},
    [PROCESS_INITIAL_CALL] = {"process_initial_call", U32},
    [PROCESS_PROC_LIB_INITIAL_CALL] = {"process_proc_lib_initial_call", U32},
    [PROCESS_WORDS] = {"process_words", U32},
    [PROCESS_FILE] = {"process_file", U32},
    [PROCESS_IS_OWN] = {"process_is_own", U8},
    [PROCESS_SAMPLES] = {"process_samples", F64},
    [PROCESS_FIRST_US] = {"process_first_us", F64},
    [PROCESS_LAST_US] = {"process_last_us", F64},
};

static uint64_t count_of(const struct fp_profile *profile, enum table table)
{
    switch (table) {
    case STRING_END:
        return profile->strings.count;
    case STRING_BYTES:
        return profile->strings.size;
    case FRAME_SYMBOL:
    case FRAME_DSO:
        return profile->tree.frame_count;
    case NODE_PARENT:
    case NODE_FRAME:
        return profile->tree.node_count;
    default:
        return profile->process_count;
    }
}

static int64_t process_number(const struct fp_profile *profile,
                              enum table table, size_t i)
{
    const struct fp_process *process = &profile->process[i];

    switch (table) {
    case PROCESS_WHO:
        return process->who;
    case PROCESS_COMM:
        return process->comm;
    case PROCESS_PID:
        return (int64_t)process->pid;
    case PROCESS_TID:
        return (int64_t)process->tid;
    case PROCESS_ERL_PID:
        return process->erl_pid;
    case PROCESS_NAME:
        return process->name;
    case PROCESS_LABEL:
        return process->label;
    case PROCESS_INITIAL_CALL:
        return process->initial_call;
    case PROCESS_PROC_LIB_INITIAL_CALL:
        return process->proc_lib_initial_call;
    case PROCESS_WORDS:
        return process->words;
    case PROCESS_FILE:
        return process->file;
    case PROCESS_IS_OWN:
        return process->is_own;
    case PROCESS_SAMPLES:
        return (int64_t)process->samples;
    case PROCESS_FIRST_US:
        return process->first_us - profile->first_us;
    default:
        return process->last_us - profile->first_us;
    }
}

static int64_t number_of(const struct fp_profile *profile, enum table table,
                         size_t i)
{
    switch (table) {
    case STRING_END:
        return (int64_t)profile->strings.end[i];
    case STRING_BYTES:
        return (unsigned char)profile->strings.bytes[i];
    case FRAME_SYMBOL:
        return profile->tree.frame[i].symbol;
    case FRAME_DSO:
        return profile->tree.frame[i].dso;
    case NODE_PARENT:
        return profile->tree.node[i].parent;
    case NODE_FRAME:
        return profile->tree.node[i].frame;
    default:
        return process_number(profile, table, i);
    }
}

static void place_table(struct writing *w, struct column *column,
                        enum table table)
{
    *column = (struct column){.type = tables[table].type,
                              .count = count_of(w->profile, table),
                              .offset = w->end};
    w->end += aligned(column->count * types[column->type].size);
}

static void write_table(struct writing *w, struct column *column,
                        enum table table)
{
    column->buffer = w->buffers;
    for (size_t i = 0; i < column->count; i++)
        put(w, column, number_of(w->profile, table, i));
    flush(w, column);
}

/* ------------------------------------------------------------------- header -- */

static void put_key(struct writing *w, const char *key)
{
    FP_OUTPUT_LITERAL(w->output, "\"");
    fp_output_put(w->output, key, strlen(key));
    FP_OUTPUT_LITERAL(w->output, "\":");
}

static void put_fact(struct writing *w, const char *key, int64_t number)
{
    put_key(w, key);
    fp_output_number(w->output, number);
    FP_OUTPUT_LITERAL(w->output, ",");
}

static void put_column(struct writing *w, const struct column *column)
{
    FP_OUTPUT_LITERAL(w->output, "{");
    put_fact(w, "count", (int64_t)column->count);
    if (column->type == CONST)
        put_fact(w, "value", column->constant);
    else if (column->type != PACKED)
        put_fact(w, "offset", (int64_t)column->offset);
    put_key(w, "type");
    fp_output_json(w->output,
                   (struct fp_slice){types[column->type].name,
                                     strlen(types[column->type].name)});
    FP_OUTPUT_LITERAL(w->output, "}");
}

static void put_named(struct writing *w, const char *name,
                      const struct column *column)
{
    put_key(w, name);
    put_column(w, column);
    FP_OUTPUT_LITERAL(w->output, ",");
}

static void put_texts(struct writing *w, const char *key, const uint32_t *text,
                      size_t count)
{
    put_key(w, key);
    FP_OUTPUT_LITERAL(w->output, "[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            FP_OUTPUT_LITERAL(w->output, ",");
        fp_output_json(w->output, fp_profile_text(w->profile, text[i]));
    }
    FP_OUTPUT_LITERAL(w->output, "],");
}

static void put_files(struct writing *w)
{
    put_key(w, "files");
    FP_OUTPUT_LITERAL(w->output, "[");
    for (size_t i = 0; i < w->profile->file_count; i++) {
        const struct fp_file *file = &w->profile->file[i];
        const char *dialect = fp_dialect_name(file->dialect);
        const char *kind = fp_source_kind_name(file->source.kind);

        fp_output_text(w->output, i > 0 ? FP_SLICE(",{") : FP_SLICE("{"));
        put_fact(w, "samples", (int64_t)file->samples);
        put_fact(w, "bad", (int64_t)file->bad);
        put_fact(w, "bytes", (int64_t)file->source.bytes_in);
        put_fact(w, "text", (int64_t)file->source.text);
        put_fact(w, "damaged", (int64_t)file->source.damaged);
        put_fact(w, "cut_off", file->source.is_cut_off);
        put_key(w, "dialect");
        fp_output_json(w->output, (struct fp_slice){dialect, strlen(dialect)});
        FP_OUTPUT_LITERAL(w->output, ",");
        put_key(w, "compression");
        fp_output_json(w->output, (struct fp_slice){kind, strlen(kind)});
        FP_OUTPUT_LITERAL(w->output, ",");
        put_key(w, "path");
        fp_output_json(w->output, fp_profile_text(w->profile, file->path));
        FP_OUTPUT_LITERAL(w->output, "}");
    }
    FP_OUTPUT_LITERAL(w->output, "],");
}

static void put_warnings(struct writing *w)
{
    const struct fp_profile *profile = w->profile;

    put_fact(w, "warning_count", (int64_t)profile->warning_count);
    put_key(w, "warnings");
    FP_OUTPUT_LITERAL(w->output, "[");
    for (uint64_t i = 0; i < profile->warning_count && i < FP_WARNINGS_MOST;
         i++) {
        const struct fp_warning *one = &profile->warning[i];

        fp_output_text(w->output, i > 0 ? FP_SLICE(",{") : FP_SLICE("{"));
        put_fact(w, "file", one->file);
        put_fact(w, "line", (int64_t)one->line);
        put_key(w, "what");
        fp_output_json(w->output,
                       (struct fp_slice){one->what, strlen(one->what)});
        FP_OUTPUT_LITERAL(w->output, "}");
    }
    FP_OUTPUT_LITERAL(w->output, "],");
}

static void put_schemas(struct writing *w)
{
    const struct fp_profile *profile = w->profile;

    put_key(w, "schemas");
    FP_OUTPUT_LITERAL(w->output, "[");
    for (uint32_t s = 0; s < profile->schema_count; s++) {
        fp_output_text(w->output, s > 0 ? FP_SLICE(",[") : FP_SLICE("["));
        for (uint32_t i = 0; i < profile->schema[s].count; i++) {
            if (i > 0)
                FP_OUTPUT_LITERAL(w->output, ",");
            fp_output_number(w->output, profile->schema[s].metric[i]);
        }
        FP_OUTPUT_LITERAL(w->output, "]");
    }
    FP_OUTPUT_LITERAL(w->output, "],");
}

static void put_sparse(struct writing *w, const char *key,
                       const struct column *rows, const struct column *values)
{
    put_key(w, key);
    FP_OUTPUT_LITERAL(w->output, "{");
    put_named(w, "rows", rows);
    put_named(w, "values", values);
    put_fact(w, "count", (int64_t)w->profile->rows.count);
    FP_OUTPUT_LITERAL(w->output, "\"type\":\"sparse\"}");
}

static void put_metric(struct writing *w, uint32_t m)
{
    const struct fp_profile *profile = w->profile;
    const struct metric_columns *metric = &w->metric[m];
    struct fp_slice name = fp_profile_text(profile, profile->metric[m].name);

    fp_output_text(w->output, m > 0 ? FP_SLICE(",\n{") : FP_SLICE("{"));
    put_key(w, "name");
    fp_output_json(w->output, name);
    FP_OUTPUT_LITERAL(w->output, ",");
    put_key(w, "unit");
    fp_output_json(w->output, fp_metric_unit(name));
    FP_OUTPUT_LITERAL(w->output, ",");
    put_fact(w, "samples", (int64_t)profile->metric[m].samples);
    if (metric->is_sparse) {
        put_sparse(w, "value", &metric->odd_row, &metric->value);
        FP_OUTPUT_LITERAL(w->output, ",");
        put_sparse(w, "delta", &metric->odd_row, &metric->delta);
        FP_OUTPUT_LITERAL(w->output, "}");
        return;
    }
    put_named(w, "value", &metric->value);
    put_key(w, "delta");
    if (metric->is_derived) {
        FP_OUTPUT_LITERAL(w->output, "{");
        put_named(w, "rows", &metric->odd_row);
        put_named(w, "deltas", &metric->odd_delta);
        put_fact(w, "count", (int64_t)profile->rows.count);
        FP_OUTPUT_LITERAL(w->output, "\"type\":\"derived\"}");
    } else {
        put_column(w, &metric->delta);
    }
    FP_OUTPUT_LITERAL(w->output, "}");
}

static void put_time(struct writing *w)
{
    if (!w->has_runs) {
        put_named(w, "time_us", &w->time);
        return;
    }
    put_key(w, "time_us");
    FP_OUTPUT_LITERAL(w->output, "{");
    put_named(w, "values", &w->run_time);
    put_named(w, "ends", &w->run_end);
    put_fact(w, "count", (int64_t)w->profile->rows.count);
    FP_OUTPUT_LITERAL(w->output, "\"type\":\"runs\"},");
}

static void put_header(struct writing *w, const struct column *columns)
{
    const struct fp_profile *profile = w->profile;

    FP_OUTPUT_LITERAL(w->output, "{\"format\":\"flame_prof index\",");
    put_fact(w, "version", INDEX_VERSION);
    put_fact(w, "rows", (int64_t)profile->rows.count);
    put_fact(w, "start_us", profile->first_us);
    put_fact(w, "end_us", profile->last_us);
    put_fact(w, "ordered", profile->is_ordered);
    put_fact(w, "data_bytes", (int64_t)w->end);
    put_fact(w, "packed", w->is_packed);
    put_files(w);
    put_warnings(w);
    put_texts(w, "events", profile->event, profile->event_count);
    put_texts(w, "statuses", w->status_text, w->status_count);
    put_schemas(w);
    put_named(w, "own_rows", &w->own);
    put_key(w, "tables");
    FP_OUTPUT_LITERAL(w->output, "{");
    for (int t = 0; t < TABLE_COUNT; t++) {
        if (t > 0)
            FP_OUTPUT_LITERAL(w->output, ",\n");
        put_key(w, tables[t].name);
        put_column(w, &columns[t]);
    }
    FP_OUTPUT_LITERAL(w->output, "},\"columns\":{");
    put_time(w);
    put_named(w, "process", &w->process);
    put_named(w, "status", &w->status);
    put_named(w, "node", &w->node);
    put_named(w, "period", &w->period);
    put_named(w, "schema", &w->schema);
    put_named(w, "event", &w->event);
    put_key(w, "file");
    put_column(w, &w->file);
    FP_OUTPUT_LITERAL(w->output, "},\"metrics\":[");
    for (uint32_t m = 0; m < profile->metric_count; m++)
        put_metric(w, m);
    FP_OUTPUT_LITERAL(w->output, "]}");
}

/* Magic and size stand before the header, whose size is not known before. */
static void write_header(struct writing *w, const struct column *columns)
{
    unsigned char prefix[PREFIX_BYTES] = MAGIC;
    uint32_t size;

    fp_output_put(w->output, prefix, sizeof(prefix));
    put_header(w, columns);
    while (fp_output_size(w->output) % 8 != 0)
        FP_OUTPUT_LITERAL(w->output, " ");
    w->base = fp_output_size(w->output);
    size = (uint32_t)(w->base - PREFIX_BYTES);
    memcpy(prefix + 8, &size, sizeof(size));
    fp_output_head(w->output, prefix, sizeof(prefix));
}

/* -------------------------------------------------------------------- order -- */

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void sort_run(struct writing *w, uint64_t begin, uint64_t end)
{
    if (end == begin)
        return;
    qsort(w->order + begin, end - begin, sizeof(*w->order), compare_keys);
    for (uint64_t i = begin; i < end; i++)
        w->rank[(uint32_t)w->order[i]] = (uint32_t)i;
}

/* Packed rows of one time stand in the order of their processes. Who came first
 * in a tick means nothing, and would be a tenth of a report. */
static int find_order(struct writing *w)
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
        FP_KNOWN(w->order != NULL); /* for all rows that are counted */
        w->order[number] = (uint64_t)row.process << 32 | number;
        number++;
    }
    fp_cursor_close(&cursor);
    sort_run(w, begin, number);
    return more;
}

/* --------------------------------------------------------------------- rows -- */

/* Each column gets a piece of one block. */
static void give_buffers(struct writing *w)
{
    struct column *column[] = {&w->time,     &w->process, &w->status, &w->node,
                               &w->period,   &w->schema,  &w->event,  &w->file,
                               &w->run_time, &w->run_end, &w->own};
    uint8_t *at = w->buffers;

    for (size_t i = 0; i < sizeof(column) / sizeof(column[0]); i++) {
        column[i]->buffer = at;
        at += BUFFER_BYTES;
    }
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        struct metric_columns *metric = &w->metric[m];

        metric->value.buffer = at;
        metric->delta.buffer = at + BUFFER_BYTES;
        metric->odd_row.buffer = at + 2 * BUFFER_BYTES;
        metric->odd_delta.buffer = at + 3 * BUFFER_BYTES;
        at += 4 * BUFFER_BYTES;
    }
}

/* Every metric has a number in every row: 0 where the schema has none. */
static void write_metrics(struct writing *w, const struct fp_row *row,
                          uint64_t number)
{
    const struct fp_schema *schema = &w->profile->schema[row->schema];
    int place_of[FP_METRICS_MOST];

    memset(place_of, 0xff, sizeof(place_of));
    for (uint32_t i = 0; i < schema->count; i++)
        place_of[schema->metric[i]] = (int)i;
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        struct metric_columns *metric = &w->metric[m];
        int i = place_of[m];

        if (metric->is_sparse && i < 0)
            continue;
        if (metric->is_sparse)
            put(w, &metric->odd_row, (int64_t)number);
        put(w, &metric->value, i < 0 ? 0 : row->value[i]);
        if (!metric->is_derived) {
            put(w, &metric->delta, i < 0 ? 0 : row->delta[i]);
        } else if (i >= 0 && row->odd >> i & 1) {
            put(w, &metric->odd_row, (int64_t)number);
            put(w, &metric->odd_delta, row->delta[i]);
        }
    }
}

static void write_time(struct writing *w, int64_t now, uint64_t number)
{
    if (!w->has_runs) {
        put(w, &w->time, now);
        return;
    }
    if (number > 0 && now == w->run_last)
        return;
    if (number > 0)
        put(w, &w->run_end, (int64_t)number);
    put(w, &w->run_time, now);
    w->run_last = now;
}

static void write_row(struct writing *w, const struct fp_row *row,
                      uint64_t number)
{
    write_time(w, row->time_us - w->profile->first_us, number);
    put(w, &w->process, row->process);
    put(w, &w->status, w->status_of[row->stack]);
    put(w, &w->node, w->profile->tree.stack[row->stack].node);
    put(w, &w->period, row->period);
    put(w, &w->schema, row->schema);
    put(w, &w->event, row->event);
    put(w, &w->file, row->file);
    if (w->profile->process[row->process].is_own)
        put(w, &w->own, (int64_t)number);
    write_metrics(w, row, number);
}

static void flush_all(struct writing *w)
{
    flush(w, &w->time);
    flush(w, &w->run_time);
    flush(w, &w->run_end);
    flush(w, &w->process);
    flush(w, &w->status);
    flush(w, &w->node);
    flush(w, &w->period);
    flush(w, &w->schema);
    flush(w, &w->event);
    flush(w, &w->file);
    flush(w, &w->own);
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        flush(w, &w->metric[m].value);
        flush(w, &w->metric[m].delta);
        flush(w, &w->metric[m].odd_row);
        flush(w, &w->metric[m].odd_delta);
    }
}

static int write_rows(struct writing *w)
{
    struct fp_profile *profile = w->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t number = 0;
    int more;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        write_row(w, &row, w->is_packed ? w->rank[number] : number);
        number++;
    }
    fp_cursor_close(&cursor);
    if (w->has_runs && number > 0)
        put(w, &w->run_end, (int64_t)number);
    flush_all(w);
    return more;
}

/* ------------------------------------------------------------------- packed -- */

/* 7 bits a byte, the least first; all but the last have the eighth. */
static void put_packed(struct writing *w, uint64_t number)
{
    struct column *stream = &w->stream;

    do {
        uint8_t more = number > 0x7f ? 0x80 : 0;

        stream->buffer[stream->used++] = (uint8_t)(number & 0x7f) | more;
        if (stream->used == BUFFER_BYTES)
            flush(w, stream);
        number >>= 7;
    } while (number != 0);
}

/* Small numbers of either sign are small: 0, -1, 1, -2 ... */
static void put_change(struct writing *w, int64_t now, int64_t before)
{
    uint64_t change = (uint64_t)now - (uint64_t)before;

    put_packed(w, change << 1 ^ (change >> 63 ? UINT64_MAX : 0));
}

struct packing {
    struct writing *w;
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
    const struct writing *w = packing->w;

    packing->before = 0;
    for (uint64_t i = 0; i < w->profile->rows.count; i++)
        pack_process(packing, (uint32_t)(w->order[i] >> 32));
}

static int pack_times(struct writing *w)
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
static void find_places(struct writing *w)
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
static int pack_column(struct writing *w, struct packing *packing,
                       const struct column *column, number_of_row *number)
{
    const struct fp_profile *profile = w->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t at = 0;
    int more;

    if (column->type != PACKED)
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

static int pack_metrics(struct writing *w)
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

static int pack_rows(struct writing *w, struct packing *packing)
{
    int err = 0;

    if (w->process.type == PACKED)
        pack_processes(packing);
    if (w->time.type == PACKED)
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

static int write_packed(struct writing *w)
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
    w->stream = (struct column){.offset = w->end, .buffer = w->buffers};
    if (err == 0) {
        memset(packing.follower, 0,
               packing.follower_room * sizeof(*packing.follower));
        err = pack_rows(w, &packing);
    }
    flush(w, &w->stream);
    fp_budget_free(budget, packing.follower, sizeof(*packing.follower),
                   packing.follower_room);
    fp_budget_free(budget, w->number, sizeof(*w->number), w->number_room);
    fp_budget_free(budget, w->place, sizeof(*w->place), w->place_room);
    return err;
}

static int write_all(struct writing *w)
{
    struct column columns[TABLE_COUNT];
    int err = find_statuses(w);

    if (err == 0 && w->is_packed)
        err = find_order(w);
    if (err != 0)
        return err;
    for (int t = 0; t < TABLE_COUNT; t++)
        place_table(w, &columns[t], (enum table)t);
    place_rows(w);
    write_header(w, columns);
    for (int t = 0; t < TABLE_COUNT; t++)
        write_table(w, &columns[t], (enum table)t);
    give_buffers(w);
    err = write_rows(w);
    /* The padding behind the last column is part of the file. */
    fp_output_extend(w->output, w->base + w->end);
    return err == 0 && w->is_packed ? write_packed(w) : err;
}

int fp_export_index(struct fp_profile *profile, struct fp_output *output,
                    int is_packed)
{
    struct writing *w;
    int err;

    if (profile->rows.count > UINT32_MAX || profile->strings.size > UINT32_MAX)
        return FP_EFULL;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return FP_ENOMEM;
    w->profile = profile;
    w->output = output;
    w->is_packed = is_packed;
    w->buffers = malloc(COLUMNS_MOST * BUFFER_BYTES);
    err = w->buffers == NULL ? FP_ENOMEM : write_all(w);
    fp_budget_free(&profile->budget, w->status_text, sizeof(*w->status_text),
                   w->status_room);
    fp_budget_free(&profile->budget, w->status_of, sizeof(*w->status_of),
                   w->status_of_room);
    fp_budget_free(&profile->budget, w->order, sizeof(*w->order),
                   w->order_room);
    fp_budget_free(&profile->budget, w->rank, sizeof(*w->rank), w->rank_room);
    free(w->buffers);
    free(w);
    return err;
}
