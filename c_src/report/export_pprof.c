/* export_pprof.c - profile.proto of github.com/google/pprof, written by hand: nine kinds of fields
 * do not need a generator.
 *
 * A message is made in a buffer and put behind its size. Field numbers are those of profile.proto;
 * samples come first and texts last, when all of them are known. */
#include <stdbool.h>
#include <stdio.h>

#include "base/buffer.h"
#include "report/chains.h"
#include "report/export.h"
#include "report/text.h"
#include "report/varint.h"

enum { /* of message Profile */
       SAMPLE_TYPE = 1,
       SAMPLE = 2,
       LOCATION = 4,
       FUNCTION = 5,
       STRING_TABLE = 6,
       TIME_NANOS = 9,
       DURATION_NANOS = 10,
       PERIOD_TYPE = 11,
       PERIOD = 12,
       COMMENT = 13,
       DEFAULT_SAMPLE_TYPE = 14,
};

enum { VARINT = 0, BYTES = 2 }; /* wire types */

struct key {
    uint32_t stack, process;
};

struct pprof_function {
    int64_t name, file; /* texts */
};

struct pprof_writing {
    struct fp_profile *profile;
    struct fp_query query; /* its filter, whether lines are left out, and chains */
    struct fp_budget *budget;
    struct fp_output *output;
    struct fp_strings strings;  /* pprof's own; number 0 is empty, as it must be */
    struct fp_aggregate chains; /* the tree of chains, if the query has them */
    struct fp_stack_ids *chain; /* stacks of that tree, instead of the profile's */
    size_t chain_count, chain_room;
    struct fp_table chain_table;
    struct fp_buffer message, inner;
    struct key *key;
    int64_t *sum; /* of key k: at k * columns */
    size_t key_count, key_room, sum_room, columns;
    uint32_t metric[FP_METRICS_MOST], metric_count; /* those that processes have */
    size_t column[FP_METRICS_MOST];                 /* of a metric; 0: none */
    struct fp_table keys;
    struct pprof_function *function; /* a symbol without its line */
    size_t function_count, function_room;
    struct fp_table functions;
    char *room; /* for decoding */
    bool is_of_allocations;
    int err; /* the first one */
};

FP_INTERN_PAIR(intern_key, struct pprof_writing, struct key, key, keys, stack, process)
FP_INTERN_PAIR(intern_chain, struct pprof_writing, struct fp_stack_ids, chain, chain_table, node,
               status)
FP_INTERN_PAIR(intern_function, struct pprof_writing, struct pprof_function, function, functions,
               name, file)

static int note(struct pprof_writing *w, int err)
{
    if (w->err == 0)
        w->err = err;
    return w->err;
}

/* ----------------------------------------------------------------- encoding -- */

static void put_varint(struct pprof_writing *w, struct fp_buffer *buffer, uint64_t number)
{
    if (note(w, fp_buffer_reserve(buffer, FP_VARINT_MOST)) == 0)
        fp_buffer_end(buffer, (char *)fp_put_varint((uint8_t *)fp_buffer_at(buffer), number));
}

static void put_field(struct pprof_writing *w, struct fp_buffer *buffer, unsigned field,
                      int64_t number)
{
    put_varint(w, buffer, field << 3 | VARINT);
    put_varint(w, buffer, (uint64_t)number);
}

/* `inner`, a message or packed numbers, as a field of `message`. */
static void put_inside(struct pprof_writing *w, unsigned field)
{
    put_varint(w, &w->message, field << 3 | BYTES);
    put_varint(w, &w->message, w->inner.size);
    note(w, fp_buffer_append(&w->message, w->inner.bytes, w->inner.size));
    w->inner.size = 0;
}

/* `message` is the value of a field of Profile, and `number` the one before it. */
static void put_profile_field(struct pprof_writing *w, unsigned key, uint64_t number)
{
    uint8_t head[2 * FP_VARINT_MOST], *end = fp_put_varint(head, key);

    end = fp_put_varint(end, number);
    fp_output_put(w->output, head, (size_t)(end - head));
    fp_output_put(w->output, w->message.bytes, w->message.size);
    w->message.size = 0;
}

static void put_message(struct pprof_writing *w, unsigned field)
{
    put_profile_field(w, field << 3 | BYTES, w->message.size);
}

static void put_number(struct pprof_writing *w, unsigned field, int64_t number)
{
    put_profile_field(w, field << 3 | VARINT, (uint64_t)number);
}

static int64_t text_id(struct pprof_writing *w, struct fp_slice text)
{
    uint32_t id = 0;

    note(w, fp_strings_intern(&w->strings, w->budget, text, &id));
    return id;
}

static int64_t profile_text_id(struct pprof_writing *w, uint32_t text)
{
    return text_id(w, fp_text_decode(fp_profile_text(w->profile, text), w->room));
}

/* --------------------------------------------------------------- adding up -- */

static int64_t *sums_of(struct pprof_writing *w, struct key key)
{
    size_t known = w->key_count, place;
    uint32_t id;

    if (note(w, intern_key(w, w->budget, key, &id)) != 0)
        return NULL;
    place = id * w->columns;
    if (id < known)
        return &w->sum[place];
    if (note(w, FP_GROW(w->budget, &w->sum, &w->sum_room, place + w->columns)) != 0)
        return NULL;
    memset(&w->sum[place], 0, w->columns * sizeof(*w->sum));
    return &w->sum[place];
}

static int64_t saturated(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

/* samples, period, then delta and value of each metric; of allocations samples and bytes. */
static void add_row(struct pprof_writing *w, const struct fp_row *row, uint32_t stack,
                    int64_t observations)
{
    const struct fp_schema *schema = &w->profile->schema[row->schema];
    int64_t *sum = sums_of(w, (struct key){stack, row->process});

    if (sum == NULL)
        return;
    sum[0] = saturated(sum[0], observations);
    sum[1] = saturated(sum[1], fp_times(row->period, w->is_of_allocations ? 8 : 1));
    if (w->is_of_allocations)
        return;
    for (uint32_t i = 0; i < schema->count; i++) {
        int64_t *both = &sum[w->column[schema->metric[i]]];

        both[0] = saturated(both[0], row->delta[i]);
        both[1] = saturated(both[1], fp_times(row->value[i], observations));
    }
}

static int add_chain(void *arg, const struct fp_row *row, int64_t observations, uint32_t node)
{
    struct pprof_writing *w = arg;
    struct fp_stack_ids stack = {node, w->profile->tree.stack[row->stack].status};
    uint32_t id;

    if (note(w, intern_chain(w, w->budget, stack, &id)) == 0)
        add_row(w, row, id, observations);
    return w->err;
}

static void add_rows(struct pprof_writing *w)
{
    struct fp_cursor cursor;
    struct fp_row row;
    int64_t observations;
    int more = 0;

    if (w->query.with_chains) {
        if (note(w, fp_aggregate_open(&w->chains, w->profile, &w->query)) == 0)
            note(w, fp_chains_each(&w->chains, &w->query, FP_FRAMES_MOST, add_chain, w));
        return;
    }
    fp_cursor_open(&cursor, &w->profile->rows, w->profile->schema, w->budget);
    while (w->err == 0 && (more = fp_cursor_next(&cursor, &row)) > 0) {
        if (fp_row_weight(w->profile, &w->query, &row, &observations))
            add_row(w, &row, row.stack, observations);
    }
    fp_cursor_close(&cursor);
    if (more < 0)
        w->err = more;
}

/* -------------------------------------------------------- stacks and frames -- */

static struct fp_stack_ids stack_of(const struct pprof_writing *w, size_t k)
{
    return w->query.with_chains ? w->chain[w->key[k].stack]
                                : w->profile->tree.stack[w->key[k].stack];
}

static const struct fp_node *node_of(const struct pprof_writing *w, uint32_t node)
{
    return w->query.with_chains ? &w->chains.node[node] : &w->profile->tree.node[node];
}

/* The first name of the tree of chains is the empty text, which no symbol is. */
static size_t frame_count(const struct pprof_writing *w)
{
    return w->query.with_chains ? w->chains.names.count : w->profile->tree.frame_count;
}

/* Its symbol, and the text of its library or source file. */
static uint32_t frame_of(const struct pprof_writing *w, size_t f, struct fp_slice *symbol)
{
    if (w->query.with_chains) {
        *symbol = fp_strings_at(&w->chains.names, (uint32_t)f);
        return f < w->chains.dso_room ? w->chains.dso[f] : 0;
    }
    *symbol = fp_profile_text(w->profile, w->profile->tree.frame[f].symbol);
    return w->profile->tree.frame[f].dso;
}

/* ------------------------------------------------------------------ writing -- */

static void put_value_type(struct pprof_writing *w, unsigned field, struct fp_slice type,
                           struct fp_slice unit)
{
    put_field(w, &w->message, 1, text_id(w, type));
    put_field(w, &w->message, 2, text_id(w, unit));
    put_message(w, field);
}

static void put_value_types(struct pprof_writing *w)
{
    put_value_type(w, SAMPLE_TYPE, FP_SLICE("samples"), FP_SLICE("count"));
    if (w->is_of_allocations)
        put_value_type(w, SAMPLE_TYPE, FP_SLICE("alloc_space"), FP_SLICE("bytes"));
    else
        put_value_type(w, SAMPLE_TYPE, FP_SLICE("period"), FP_SLICE("count"));
    for (uint32_t i = 0; i < w->metric_count; i++) {
        struct fp_slice name = fp_profile_text(w->profile, w->profile->metric[w->metric[i]].name);
        char delta[160];
        int size = snprintf(delta, sizeof(delta), "%.*s_delta",
                            (int)(name.size > 128 ? 128 : name.size), name.at);

        put_value_type(w, SAMPLE_TYPE, (struct fp_slice){delta, (size_t)size},
                       fp_metric_unit(name));
        put_value_type(w, SAMPLE_TYPE, name, fp_metric_unit(name));
    }
}

static void put_label(struct pprof_writing *w, struct fp_slice key, int64_t text)
{
    if (text == 0)
        return;
    put_field(w, &w->inner, 1, text_id(w, key));
    put_field(w, &w->inner, 2, text);
    put_inside(w, 3);
}

static void put_labels(struct pprof_writing *w, uint32_t p, uint32_t status)
{
    const struct fp_process *process = &w->profile->process[p];
    char room[FP_DIMENSION_BYTES];
    struct fp_slice pid = fp_dimension_text(w->profile, FP_DIMENSION_pid, p, room);

    put_label(w, FP_SLICE("pid"), text_id(w, pid));
    put_label(w, FP_SLICE("name"), profile_text_id(w, fp_process_label(process)));
    put_label(w, FP_SLICE("status"), profile_text_id(w, status));
}

static void put_sample(struct pprof_writing *w, size_t k)
{
    const int64_t *sum = &w->sum[k * w->columns];
    struct fp_stack_ids stack = stack_of(w, k);

    for (uint32_t n = stack.node; n != 0; n = node_of(w, n)->parent)
        put_varint(w, &w->inner, (uint64_t)node_of(w, n)->frame + 1);
    put_inside(w, 1);
    for (size_t i = 0; i < w->columns; i++)
        put_varint(w, &w->inner, (uint64_t)sum[i]);
    put_inside(w, 2);
    put_labels(w, w->key[k].process, stack.status);
    put_message(w, SAMPLE);
}

/* The number of a function, which is written when it is new. It has no system_name: if that equals
 * the name, pprof demangles both, and takes what is in <> out of them. */
static uint32_t function_of(struct pprof_writing *w, struct pprof_function one)
{
    size_t known = w->function_count;
    uint32_t id;

    if (note(w, intern_function(w, w->budget, one, &id)) != 0 || id < known)
        return id;
    put_field(w, &w->message, 1, (int64_t)id + 1);
    put_field(w, &w->message, 2, one.name);
    put_field(w, &w->message, 4, one.file);
    put_message(w, FUNCTION);
    return id;
}

/* A location for each frame. */
static void put_location(struct pprof_writing *w, size_t f)
{
    struct fp_slice symbol;
    uint32_t dso = frame_of(w, f, &symbol), line, function;
    int64_t name;

    symbol = fp_text_without_line(symbol, &line);
    name = text_id(w, fp_text_symbol(symbol, w->room));
    function = function_of(w, (struct pprof_function){name, profile_text_id(w, dso)});
    put_field(w, &w->message, 1, (int64_t)f + 1);
    put_field(w, &w->inner, 1, (int64_t)function + 1);
    if (!w->query.without_lines)
        put_field(w, &w->inner, 2, line);
    put_inside(w, 4);
    put_message(w, LOCATION);
}

/* Texts have to be UTF-8. */
static void put_text(struct pprof_writing *w, struct fp_slice text)
{
    while (text.size > 0) {
        struct fp_slice next = fp_utf8_next(&text);

        note(w, fp_buffer_append(&w->message, next.at, next.size));
    }
    put_message(w, STRING_TABLE);
}

/* The profiler's counters are of no process. A metric that was always 0 is a type all the same:
 * pprof compares profiles of equal types only. */
static void choose_columns(struct pprof_writing *w)
{
    w->columns = 2;
    for (uint32_t m = 0; m < w->profile->metric_count; m++) {
        if (w->profile->metric[m].samples == 0 || w->is_of_allocations)
            continue;
        w->metric[w->metric_count++] = m;
        w->column[m] = w->columns;
        w->columns += 2;
    }
}

static void put_whole(struct pprof_writing *w)
{
    const struct fp_profile *profile = w->profile;
    int64_t comment;

    text_id(w, FP_SLICE(""));
    choose_columns(w);
    add_rows(w);
    put_value_types(w);
    for (size_t k = 0; k < w->key_count && w->err == 0; k++)
        put_sample(w, k);
    for (size_t f = 0; f < frame_count(w) && w->err == 0; f++)
        put_location(w, f);
    if (profile->first_us <= INT64_MAX / 1000)
        put_number(w, TIME_NANOS, profile->first_us * 1000);
    if (profile->last_us - profile->first_us <= INT64_MAX / 1000)
        put_number(w, DURATION_NANOS, (profile->last_us - profile->first_us) * 1000);
    put_value_type(w, PERIOD_TYPE, FP_SLICE("samples"), FP_SLICE("count"));
    put_number(w, PERIOD, 1);
    comment = text_id(w, w->is_of_allocations
                             ? FP_SLICE("made by flame_prof; who has allocated")
                             : FP_SLICE("made by flame_prof; NAME is the sum of its values, "
                                        "NAME_delta of its changes"));
    put_number(w, COMMENT, comment);
    put_number(w, DEFAULT_SAMPLE_TYPE,
               text_id(w, w->is_of_allocations ? FP_SLICE("alloc_space") : FP_SLICE("samples")));
    for (uint32_t i = 0; i < w->strings.count && w->err == 0; i++)
        put_text(w, fp_strings_at(&w->strings, i));
}

int fp_export_pprof(struct fp_profile *profile, const struct fp_query *query,
                    struct fp_output *output)
{
    struct pprof_writing w = {
        .profile = profile, .query = *query, .budget = &profile->budget, .output = output};

    w.chains.profile = profile;
    w.is_of_allocations = fp_profile_is_of_allocations(profile);
    w.query.by = (struct fp_by){.kind = FP_BY_SAMPLES};
    w.room = malloc(FP_TEXT_ROOM(profile->strings.size));
    if (w.room == NULL)
        return FP_ENOMEM;
    put_whole(&w);
    fp_aggregate_free(&w.chains);
    FP_FREE(w.budget, w.chain, w.chain_room);
    fp_table_free(&w.chain_table, w.budget);
    FP_FREE(w.budget, w.key, w.key_room);
    FP_FREE(w.budget, w.sum, w.sum_room);
    FP_FREE(w.budget, w.function, w.function_room);
    fp_table_free(&w.keys, w.budget);
    fp_table_free(&w.functions, w.budget);
    fp_strings_free(&w.strings, w.budget);
    fp_buffer_free(&w.message);
    fp_buffer_free(&w.inner);
    free(w.room);
    return w.err;
}
