/* aggregate.c - groups are found by their hash, in one pass over the rows. */
#include "report/aggregate.h"

#include <stdio.h>

#include "report/chains.h"
#include "report/text.h"

bool fp_filter_status(const struct fp_profile *profile, struct fp_filter *filter,
                      struct fp_slice status)
{
    const struct fp_tree *tree = &profile->tree;
    size_t s = 0;

    if (filter->status_count == FP_STATUSES_MOST)
        return false;
    while (s < tree->stack_count &&
           !fp_slice_is(fp_profile_text(profile, tree->stack[s].status), status))
        s++;
    /* No text has the last number: a status that no sample has. */
    filter->status[filter->status_count++] =
        s < tree->stack_count ? tree->stack[s].status : UINT32_MAX;
    return true;
}

static bool is_selected(const struct fp_profile *profile, const struct fp_filter *filter,
                        const struct fp_row *row)
{
    uint32_t i = 0;

    if (row->time_us < filter->from_us || row->time_us >= filter->to_us ||
        (filter->process != NULL && !filter->process[row->process]))
        return false;
    while (i < filter->status_count && filter->status[i] != profile->tree.stack[row->stack].status)
        i++;
    return filter->status_count == 0 || i < filter->status_count;
}

int fp_row_weight(const struct fp_profile *profile, const struct fp_query *query,
                  const struct fp_row *row, int64_t *weight)
{
    const struct fp_by *by = &query->by;
    int place;

    if (profile->process[row->process].is_own || !is_selected(profile, &query->filter, row))
        return 0;
    *weight = by->kind == FP_BY_PERIOD ? row->period : 1;
    if (by->kind >= FP_BY_VALUE) {
        place = fp_profile_place(profile, row, by->metric);
        if (place < 0 || (by->kind == FP_BY_VALUE && row->value[place] < 0))
            return 0;
        *weight = by->kind == FP_BY_VALUE ? row->value[place] : row->delta[place];
    }
    if (by->kind == FP_BY_SAMPLES || by->kind == FP_BY_VALUE)
        *weight = fp_times(*weight, fp_row_count(profile, row));
    return 1;
}

const char *const fp_dimension_names[] = {
#define FP_DIMENSION_ROW(name) [FP_DIMENSION_##name] = #name,
    FP_DIMENSION_MAP(FP_DIMENSION_ROW)
#undef FP_DIMENSION_ROW
        NULL};

uint32_t fp_process_label(const struct fp_process *process)
{
    return process->name != 0                    ? process->name
           : process->label != 0                 ? process->label
           : process->proc_lib_initial_call != 0 ? process->proc_lib_initial_call
           : process->initial_call != 0          ? process->initial_call
           : process->erl_pid != 0               ? process->erl_pid
           : process->words != 0                 ? process->words
                                                 : process->comm;
}

/* ------------------------------------------------------------------ classes -- */

/* 0: nothing, or unknown; 1 + 3 * power of 1024 + 0, 1, 2 for 1s, 10s, 100s. */
static uint32_t class_of(int64_t value, int64_t base)
{
    uint32_t power = 0;

    if (value <= 0)
        return 0;
    while (value >= base && power < 5) {
        value /= base;
        power++;
    }
    return 1 + 3 * power + (value >= 100 ? 2 : value >= 10 ? 1 : 0);
}

static uint32_t class_of_metric(const struct fp_profile *profile, struct fp_slice name,
                                const struct fp_row *row, int64_t base)
{
    int metric = fp_profile_metric(profile, name);
    int place = metric < 0 ? -1 : fp_profile_place(profile, row, metric);

    return place < 0 ? 0 : class_of(row->value[place], base);
}

static struct fp_slice class_text(const char *what, const char *const unit[6], uint32_t code,
                                  char *room)
{
    static const char *const size[] = {"1s", "10s", "100s"};
    int length = code == 0 ? snprintf(room, FP_DIMENSION_BYTES, "%s_0", what)
                           : snprintf(room, FP_DIMENSION_BYTES, "%s_%s%s", what,
                                      size[(code - 1) % 3], unit[(code - 1) / 3 % 6]);

    return (struct fp_slice){room, (size_t)length};
}

/* --------------------------------------------------------------- dimensions -- */

/* The group of a sample in a dimension. */
static uint32_t code_of(const struct fp_profile *profile, enum fp_dimension dimension,
                        const struct fp_row *row, int64_t weight)
{
    switch (dimension) {
    case FP_DIMENSION_status:
        return profile->tree.stack[row->stack].status;
    case FP_DIMENSION_process:
        return fp_process_label(&profile->process[row->process]);
    case FP_DIMENSION_pid:
        return row->process;
    case FP_DIMENSION_node:
        return profile->process[row->process].node;
    case FP_DIMENSION_memory:
        return class_of_metric(profile, FP_SLICE("memory"), row, 1024);
    case FP_DIMENSION_queue:
        return class_of_metric(profile, FP_SLICE("message_queue_len"), row, 1000);
    case FP_DIMENSION_sign:
        return weight >= 0;
    case FP_DIMENSION_message:
        return fp_row_words(profile, row)->message;
    case FP_DIMENSION_trace:
        return fp_row_words(profile, row)->trace;
    case FP_DIMENSION_span:
        return fp_row_words(profile, row)->span;
    case FP_DIMENSION_event:
        return profile->event[row->event];
    default:
        return row->file;
    }
}

struct fp_slice fp_dimension_text(const struct fp_profile *profile, enum fp_dimension dimension,
                                  uint32_t code, char *room)
{
    static const char *const bytes[] = {"_B", "_KiB", "_MiB", "_GiB", "_TiB", "_PiB"};
    static const char *const counts[] = {"", "_k", "_M", "_G", "_T", "_P"};
    const struct fp_process *process;
    int length;

    switch (dimension) {
    case FP_DIMENSION_status:
    case FP_DIMENSION_process:
    case FP_DIMENSION_message:
    case FP_DIMENSION_trace:
    case FP_DIMENSION_span:
    case FP_DIMENSION_event:
        return fp_profile_text(profile, code);
    case FP_DIMENSION_pid:
        process = &profile->process[code];
        if (process->erl_pid != 0)
            return fp_profile_text(profile, process->erl_pid);
        length = snprintf(room, FP_DIMENSION_BYTES, "%llu/%llu", (unsigned long long)process->pid,
                          (unsigned long long)process->tid);
        return (struct fp_slice){room, (size_t)length};
    case FP_DIMENSION_node:
        process = &profile->process[code];
        length =
            snprintf(room, FP_DIMENSION_BYTES, "os_pid_%llu", (unsigned long long)process->pid);
        return (struct fp_slice){room, (size_t)length};
    case FP_DIMENSION_memory:
        return class_text("memory", bytes, code, room);
    case FP_DIMENSION_queue:
        return class_text("queue", counts, code, room);
    case FP_DIMENSION_sign:
        return code ? FP_SLICE("positive") : FP_SLICE("negative");
    default:
        return fp_profile_text(profile, profile->file[code].path);
    }
}

/* --------------------------------------------------- a tree of its own -- */

FP_INTERN_PAIR(intern_node, struct fp_aggregate, struct fp_node, node, nodes, parent, frame)

static int intern_name(struct fp_aggregate *sums, struct fp_slice symbol, uint32_t dso,
                       uint32_t *id)
{
    struct fp_budget *budget = &sums->profile->budget;
    size_t known = sums->names.count;
    int err = fp_strings_intern(&sums->names, budget, symbol, id);

    if (err == 0)
        err = FP_GROW_ZEROS(budget, &sums->dso, &sums->dso_room, *id + 1u);
    if (err == 0 && sums->names.count > known)
        sums->dso[*id] = dso;
    return err;
}

int fp_aggregate_name(struct fp_aggregate *sums, struct fp_slice symbol, struct fp_slice dso,
                      uint32_t *name)
{
    uint32_t id;
    int err = fp_strings_intern(&sums->profile->strings, &sums->profile->budget, dso, &id);

    return err != 0 ? err : intern_name(sums, symbol, id, name);
}

int fp_aggregate_child(struct fp_aggregate *sums, uint32_t parent, uint32_t name, uint32_t *node)
{
    return intern_node(sums, &sums->profile->budget, (struct fp_node){parent, name}, node);
}

/* Parents come before their children. */
static int make_tree(struct fp_aggregate *sums, const struct fp_query *query)
{
    struct fp_budget *budget = &sums->profile->budget;
    const struct fp_tree *tree = &sums->profile->tree;
    int err = FP_GROW_ZEROS(budget, &sums->map, &sums->map_room, tree->node_count);

    if (err == 0)
        err = FP_GROW_ZEROS(budget, &sums->node, &sums->node_room, 1);
    sums->node_count = 1; /* the root */
    for (size_t n = 1; n < tree->node_count && err == 0; n++) {
        const struct fp_frame_ids *frame = &tree->frame[tree->node[n].frame];
        struct fp_slice symbol = fp_profile_text(sums->profile, frame->symbol);
        struct fp_node node = {.parent = sums->map[tree->node[n].parent]};
        char room[FP_DEMANGLED_BYTES];
        uint32_t line;

        if (query->without_lines)
            symbol = fp_text_without_line(symbol, &line);
        if (query->with_names)
            symbol = fp_demangle(symbol, room);
        err = intern_name(sums, symbol, frame->dso, &node.frame);
        if (err == 0)
            err = intern_node(sums, budget, node, &sums->map[n]);
    }
    return err;
}

size_t fp_aggregate_stack(const struct fp_aggregate *sums, uint32_t node,
                          uint32_t nodes[FP_FRAMES_MOST])
{
    const struct fp_node *tree = sums->map == NULL ? sums->profile->tree.node : sums->node;
    size_t count = 0;

    for (uint32_t n = node; n != 0 && count < FP_FRAMES_MOST; n = tree[n].parent)
        count++;
    for (size_t i = count; i-- > 0; node = tree[node].parent)
        nodes[i] = node;
    return count;
}

struct fp_slice fp_aggregate_symbol(const struct fp_aggregate *sums, uint32_t node)
{
    const struct fp_tree *tree = &sums->profile->tree;

    if (sums->map != NULL)
        return fp_strings_at(&sums->names, sums->node[node].frame);
    return fp_profile_text(sums->profile, tree->frame[tree->node[node].frame].symbol);
}

struct fp_slice fp_aggregate_dso(const struct fp_aggregate *sums, uint32_t node)
{
    const struct fp_tree *tree = &sums->profile->tree;

    if (sums->map != NULL)
        return fp_profile_text(sums->profile, sums->dso[sums->node[node].frame]);
    return fp_profile_text(sums->profile, tree->frame[tree->node[node].frame].dso);
}

/* ------------------------------------------------------------------- groups -- */

/* The node and the codes. */
#define KEY_BYTES (offsetof(struct fp_group, code) + sizeof(uint32_t) * FP_DIMENSION_COUNT)

static int add_group(struct fp_aggregate *sums, const struct fp_group *key)
{
    struct fp_budget *budget = &sums->profile->budget;
    uint64_t hash = fp_hash(key, KEY_BYTES);
    struct fp_table_at at;
    uint32_t id;
    int err;

    fp_table_seek(&sums->table, hash, &at);
    while (fp_table_next(&sums->table, &at, &id)) {
        struct fp_group *group = &sums->group[id];

        if (memcmp(group, key, KEY_BYTES) == 0) {
            group->samples = fp_sum(group->samples, key->samples);
            group->weight = fp_sum(group->weight, key->weight);
            return 0;
        }
    }
    err = FP_GROW(budget, &sums->group, &sums->room, sums->count + 1);
    if (err == 0)
        err = fp_table_put(&sums->table, budget, hash, (uint32_t)sums->count);
    if (err == 0)
        sums->group[sums->count++] = *key;
    return err;
}

static int add_row(struct fp_aggregate *sums, const struct fp_query *query,
                   const struct fp_row *row, int64_t weight, uint32_t node)
{
    const struct fp_profile *profile = sums->profile;
    struct fp_group key = {.node = node,
                           .samples = (uint64_t)fp_row_count(profile, row),
                           .weight = fp_magnitude(weight)};

    for (uint32_t i = 0; i < query->dimension_count; i++)
        key.code[i] = code_of(profile, query->dimension[i], row, weight);
    return add_group(sums, &key);
}

static int add_rows(struct fp_aggregate *sums, const struct fp_query *query)
{
    const struct fp_profile *profile = sums->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    int64_t weight;
    int err = 0, more = 0;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &sums->profile->budget);
    while (err == 0 && (more = fp_cursor_next(&cursor, &row)) > 0) {
        uint32_t node = query->without_stacks ? 0 : profile->tree.stack[row.stack].node;

        if (!fp_row_weight(profile, query, &row, &weight) || weight == 0 ||
            (query->with_chains && fp_row_words(profile, &row)->waits_for == 0))
            continue;
        err = add_row(sums, query, &row, weight, sums->map == NULL ? node : sums->map[node]);
    }
    fp_cursor_close(&cursor);
    return err != 0 ? err : more;
}

static void keep_signs_apart(struct fp_query *query)
{
    for (uint32_t i = 0; i < query->dimension_count; i++) {
        if (query->dimension[i] == FP_DIMENSION_sign)
            return;
    }
    if (query->by.kind == FP_BY_DELTA)
        query->dimension[query->dimension_count++] = FP_DIMENSION_sign;
}

int fp_aggregate_open(struct fp_aggregate *sums, struct fp_profile *profile,
                      const struct fp_query *query)
{
    *sums = (struct fp_aggregate){.profile = profile};
    return (query->with_chains || query->without_lines) && !query->without_stacks
               ? make_tree(sums, query)
               : 0;
}

struct adding {
    struct fp_aggregate *sums;
    const struct fp_query *query;
};

static int add_chain(void *arg, const struct fp_row *row, int64_t weight, uint32_t node)
{
    const struct adding *adding = arg;

    return add_row(adding->sums, adding->query, row, weight, node);
}

int fp_aggregate_make(struct fp_aggregate *sums, struct fp_profile *profile, struct fp_query *query)
{
    struct adding adding = {sums, query};
    int err;

    keep_signs_apart(query);
    err = fp_aggregate_open(sums, profile, query);
    if (err != 0)
        return err;
    if (query->with_chains && !query->without_stacks)
        return fp_chains_each(sums, query, FP_FRAMES_MOST, add_chain, &adding);
    return add_rows(sums, query);
}

void fp_aggregate_free(struct fp_aggregate *sums)
{
    struct fp_budget *budget = &sums->profile->budget;

    FP_FREE(budget, sums->group, sums->room);
    FP_FREE(budget, sums->map, sums->map_room);
    FP_FREE(budget, sums->dso, sums->dso_room);
    FP_FREE(budget, sums->node, sums->node_room);
    fp_table_free(&sums->table, budget);
    fp_table_free(&sums->nodes, budget);
    fp_strings_free(&sums->names, budget);
}
