/* export_index_header.c - the index's beginning: JSON that says what each column is. */
#include "report/export_index.h"

#define INDEX_VERSION 4
#define MAGIC "FPINDEX1"
#define PREFIX_BYTES 16

static void put_column(struct fp_output *output, const char *key, const struct fp_column *column)
{
    fp_json_begin(output, key, "{");
    fp_json_number(output, "count", (int64_t)column->count);
    if (column->type == FP_COLUMN_CONST)
        fp_json_number(output, "value", column->constant);
    else if (column->type == FP_COLUMN_CODED)
        fp_json_number(output, "place", (int64_t)column->place);
    else if (column->type != FP_COLUMN_PACKED)
        fp_json_number(output, "offset", (int64_t)column->offset);
    fp_json_word(output, "type", fp_column_kind[column->type].name);
    fp_json_end(output, "}");
}

/* A column of `count` rows that is made of two shorter ones. */
static void put_pair(struct fp_index *w, const char *key, const char *type, const char *first_key,
                     const struct fp_column *first, const char *second_key,
                     const struct fp_column *second)
{
    fp_json_begin(w->output, key, "{");
    fp_json_word(w->output, "type", type);
    fp_json_number(w->output, "count", (int64_t)w->rows);
    put_column(w->output, first_key, first);
    put_column(w->output, second_key, second);
    fp_json_end(w->output, "}");
}

static void put_texts(struct fp_index *w, const char *key, const uint32_t *text, size_t count)
{
    fp_json_begin(w->output, key, "[");
    for (size_t i = 0; i < count; i++)
        fp_json_text(w->output, NULL, fp_profile_text(w->profile, text[i]));
    fp_json_end(w->output, "]");
}

static void put_files(struct fp_index *w)
{
    struct fp_output *output = w->output;

    fp_json_begin(output, "files", "[");
    for (size_t i = 0; i < w->profile->file_count; i++) {
        const struct fp_file *file = &w->profile->file[i];
        const struct fp_source_state *source = &file->source;

        fp_json_begin(output, NULL, "{");
        fp_json_number(output, "samples", (int64_t)file->samples);
        fp_json_number(output, "bad", (int64_t)file->bad);
        fp_json_number(output, "bytes", (int64_t)source->bytes_in);
        fp_json_number(output, "text", (int64_t)source->text);
        fp_json_number(output, "damaged", (int64_t)source->damaged);
        fp_json_number(output, "lost_text", (int64_t)source->lost_text);
        fp_json_number(output, "shortened", (int64_t)file->shortened);
        fp_json_number(output, "cut_off", source->is_cut_off);
        fp_json_word(output, "dialect", fp_dialect_name(file->dialect));
        fp_json_word(output, "compression", fp_source_kind_name(source->kind));
        fp_json_text(output, "path", fp_profile_text(w->profile, file->path));
        if (file->node != 0)
            fp_json_text(output, "node", fp_profile_text(w->profile, file->node));
        fp_json_end(output, "}");
    }
    fp_json_end(output, "]");
}

static void put_warnings(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;
    uint64_t count = profile->warning_count;

    fp_json_number(w->output, "warning_count", (int64_t)count);
    fp_json_begin(w->output, "warnings", "[");
    for (uint64_t i = 0; i < count && i < FP_WARNINGS_MOST; i++) {
        const struct fp_warning *one = &profile->warning[i];

        fp_json_begin(w->output, NULL, "{");
        fp_json_number(w->output, "file", one->file);
        fp_json_number(w->output, "line", (int64_t)one->line);
        fp_json_word(w->output, "what", one->what);
        fp_json_end(w->output, "}");
    }
    fp_json_end(w->output, "]");
}

static void put_schemas(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;

    fp_json_begin(w->output, "schemas", "[");
    for (uint32_t s = 0; s < profile->schema_count; s++) {
        fp_json_begin(w->output, NULL, "[");
        for (uint32_t i = 0; i < profile->schema[s].count; i++)
            fp_json_number(w->output, NULL, profile->schema[s].metric[i]);
        fp_json_end(w->output, "]");
    }
    fp_json_end(w->output, "]");
}

static void put_base(struct fp_output *output, const struct fp_index_base *base)
{
    fp_json_begin(output, "base", "[");
    fp_json_number(output, NULL, base->metric);
    fp_json_number(output, NULL, base->factor);
    fp_json_end(output, "]");
}

static void put_metric(struct fp_index *w, uint32_t m)
{
    const struct fp_metric_facts *facts = &w->profile->metric[m];
    const struct fp_listed_rows *listed = &w->listed[m];
    const struct fp_column *value = &w->column[FP_ROW_VALUE + 2 * m];
    const struct fp_column *delta = value + 1;
    struct fp_slice name = fp_profile_text(w->profile, facts->name);

    fp_json_begin(w->output, NULL, "{");
    fp_json_text(w->output, "name", name);
    fp_json_text(w->output, "unit", fp_metric_unit(name));
    fp_json_number(w->output, "samples", (int64_t)facts->samples);
    if (listed->is_sparse) {
        put_pair(w, "value", "sparse", "rows", &listed->row, "values", value);
        put_pair(w, "delta", "sparse", "rows", &listed->row, "values", delta);
    } else {
        put_column(w->output, "value", value);
        if (w->has_differences[m])
            fp_json_number(w->output, "differences", 1);
        if (w->base_of[m].factor != 0)
            put_base(w->output, &w->base_of[m]);
        if (listed->is_derived)
            put_pair(w, "delta", "derived", "rows", &listed->row, "deltas", delta);
        else
            put_column(w->output, "delta", delta);
    }
    fp_json_end(w->output, "}");
}

static void put_columns(struct fp_index *w)
{
    static const char *const name[FP_ROW_VALUE] = {
        "process", "time_us", "status", "node", "period", "schema", "event", "file", "scheduler"};

    fp_json_begin(w->output, "columns", "{");
    for (int c = 0; c < FP_ROW_VALUE; c++) {
        if (c == FP_ROW_TIME && w->has_runs)
            put_pair(w, name[c], "runs", "values", &w->column[c], "ends", &w->run_end);
        else
            put_column(w->output, name[c], &w->column[c]);
    }
    fp_json_end(w->output, "}");
}

/* How much of each the pieces before this one have. */
static void put_from(struct fp_index *w)
{
    const struct fp_index_mark *from = w->from;

    if (!from->is_set)
        return;
    fp_json_begin(w->output, "from", "{");
    fp_json_number(w->output, "rows", (int64_t)from->rows);
    fp_json_number(w->output, "strings", (int64_t)from->strings);
    fp_json_number(w->output, "string_bytes", (int64_t)from->string_bytes);
    fp_json_number(w->output, "frames", (int64_t)from->frames);
    fp_json_number(w->output, "nodes", (int64_t)from->nodes);
    fp_json_end(w->output, "}");
}

/* Ranges of seconds that are side by side. */
static void put_fine(struct fp_output *output, const struct fp_profile *profile)
{
    size_t end;

    fp_json_begin(output, "fine", "[");
    for (size_t second = 0; second < profile->fine_count; second = end) {
        end = second + 1;
        if (!profile->fine[second])
            continue;
        while (end < profile->fine_count && profile->fine[end])
            end++;
        fp_json_begin(output, NULL, "[");
        fp_json_number(output, NULL, (int64_t)second * 1000000);
        fp_json_number(output, NULL, (int64_t)end * 1000000);
        fp_json_end(output, "]");
    }
    fp_json_end(output, "]");
}

static void put_header(struct fp_index *w)
{
    const struct fp_profile *profile = w->profile;
    struct fp_output *output = w->output;

    fp_json_begin(output, NULL, "{");
    fp_json_word(output, "format", "flame_prof index");
    fp_json_number(output, "version", INDEX_VERSION);
    fp_json_number(output, "rows", (int64_t)w->rows);
    put_from(w);
    fp_json_number(output, "start_us", profile->first_us);
    fp_json_number(output, "end_us", profile->last_us);
    fp_json_number(output, "ordered", profile->is_ordered);
    fp_json_number(output, "data_bytes", (int64_t)w->end);
    fp_json_number(output, "packed", w->is_packed);
    if (w->is_packed)
        fp_json_number(output, "runs", w->order.runs);
    fp_json_number(output, "coarse_us", profile->coarse_us);
    put_fine(output, profile);
    put_files(w);
    put_warnings(w);
    put_texts(w, "events", profile->event, profile->event_count);
    put_texts(w, "statuses", w->status_text, w->status_count);
    put_schemas(w);
    put_column(output, "own_rows", &w->own);
    if (profile->message_rows > 0)
        put_pair(w, "message", "sparse", "rows", &w->message_row, "values", &w->message);
    if (profile->wait_rows > 0) {
        put_pair(w, "waits_for", "sparse", "rows", &w->wait_row, "values", &w->waits_for);
        put_pair(w, "request", "sparse", "rows", &w->wait_row, "values", &w->request);
    }
    if (profile->trace_rows > 0) {
        put_pair(w, "trace", "sparse", "rows", &w->trace_row, "values", &w->trace);
        put_pair(w, "span", "sparse", "rows", &w->trace_row, "values", &w->span);
    }
    if (profile->collection_rows > 0)
        put_pair(w, "collection", "sparse", "rows", &w->collection_row, "values", &w->collection);
    fp_json_begin(output, "tables", "{");
    for (int t = 0; t < FP_INDEX_TABLES; t++)
        put_column(output, fp_index_table_name(t), &w->table[t]);
    fp_json_end(output, "}");
    put_columns(w);
    fp_json_begin(output, "metrics", "[");
    for (uint32_t m = 0; m < profile->metric_count; m++)
        put_metric(w, m);
    fp_json_end(output, "]");
    fp_json_end(output, "}");
}

/* The prefix gets the header's size when that is known: fp_output_extend() drains the buffer. */
void fp_index_write_header(struct fp_index *w)
{
    const char prefix[PREFIX_BYTES] = MAGIC;
    uint32_t size;

    fp_output_put(w->output, prefix, sizeof(prefix));
    put_header(w);
    while (fp_output_size(w->output) % 8 != 0)
        FP_OUTPUT_LITERAL(w->output, " ");
    w->base = fp_output_size(w->output);
    size = (uint32_t)(w->base - PREFIX_BYTES);
    fp_output_extend(w->output, w->base);
    fp_output_at(w->output, 8, &size, sizeof(size));
}
