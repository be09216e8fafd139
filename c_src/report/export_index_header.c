/*
 * index_header.c - the index's beginning: JSON that says what each column is.
 */
#include "report/export_index.h"

#define INDEX_VERSION 1
#define MAGIC "FPINDEX1"
#define PREFIX_BYTES 16

static void put_key(struct fp_index *w, const char *key)
{
    FP_OUTPUT_LITERAL(w->output, "\"");
    fp_output_put(w->output, key, strlen(key));
    FP_OUTPUT_LITERAL(w->output, "\":");
}

static void put_fact(struct fp_index *w, const char *key, int64_t number)
{
    put_key(w, key);
    fp_output_number(w->output, number);
    FP_OUTPUT_LITERAL(w->output, ",");
}

static void put_column(struct fp_index *w, const struct fp_column *column)
{
    FP_OUTPUT_LITERAL(w->output, "{");
    put_fact(w, "count", (int64_t)column->count);
    if (column->type == FP_COLUMN_CONST)
        put_fact(w, "value", column->constant);
    else if (column->type != FP_COLUMN_PACKED)
        put_fact(w, "offset", (int64_t)column->offset);
    put_key(w, "type");
    fp_output_json(w->output, (struct fp_slice){
                                  fp_column_kind[column->type].name,
                                  strlen(fp_column_kind[column->type].name)});
    FP_OUTPUT_LITERAL(w->output, "}");
}

static void put_named(struct fp_index *w, const char *name,
                      const struct fp_column *column)
{
    put_key(w, name);
    put_column(w, column);
    FP_OUTPUT_LITERAL(w->output, ",");
}

static void put_texts(struct fp_index *w, const char *key, const uint32_t *text,
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

static void put_files(struct fp_index *w)
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

static void put_warnings(struct fp_index *w)
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

static void put_schemas(struct fp_index *w)
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

static void put_sparse(struct fp_index *w, const char *key,
                       const struct fp_column *rows,
                       const struct fp_column *values)
{
    put_key(w, key);
    FP_OUTPUT_LITERAL(w->output, "{");
    put_named(w, "rows", rows);
    put_named(w, "values", values);
    put_fact(w, "count", (int64_t)w->profile->rows.count);
    FP_OUTPUT_LITERAL(w->output, "\"type\":\"sparse\"}");
}

static void put_metric(struct fp_index *w, uint32_t m)
{
    const struct fp_profile *profile = w->profile;
    const struct fp_metric_columns *metric = &w->metric[m];
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

static void put_time(struct fp_index *w)
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

static void put_header(struct fp_index *w, const struct fp_column *columns)
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
    for (int t = 0; t < FP_INDEX_TABLES; t++) {
        if (t > 0)
            FP_OUTPUT_LITERAL(w->output, ",\n");
        put_key(w, fp_index_table_name((enum fp_index_table)t));
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
void fp_index_write_header(struct fp_index *w, const struct fp_column *columns)
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
