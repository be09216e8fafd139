/*
 * aggregate.c - groups are found by their hash, one pass over the rows.
 */
#include "report/aggregate.h"

#include <stdio.h>

#include "report/text.h"

int fp_row_metric(const struct fp_profile *profile, const struct fp_by *by,
                  const struct fp_row *row, int64_t *number)
{
    int place = fp_profile_place(profile, row, by->metric);

    if (place < 0 || profile->process[row->process].is_own)
        return 0;
    *number = by->kind == FP_BY_VALUE ? row->value[place] : row->delta[place];
    return by->kind == FP_BY_DELTA || *number >= 0;
}

int fp_row_weight(const struct fp_profile *profile, const struct fp_by *by,
                  const struct fp_row *row, int64_t *weight)
{
    if (profile->process[row->process].is_own)
        return 0;
    *weight = by->kind == FP_BY_PERIOD ? row->period : 1;
    if (by->kind >= FP_BY_VALUE && !fp_row_metric(profile, by, row, weight))
        return 0;
    if (by->kind == FP_BY_SAMPLES || by->kind == FP_BY_VALUE)
        *weight = fp_times(*weight, fp_row_count(profile, row));
    return 1;
}

static const char *const dimension_names[FP_DIMENSION_COUNT] = {
#define FP_DIMENSION_ROW(name) [FP_DIMENSION_##name] = #name,
    FP_DIMENSION_MAP(FP_DIMENSION_ROW)
#undef FP_DIMENSION_ROW
};

const char *fp_dimension_name(int dimension)
{
    return dimension < 0 || dimension >= FP_DIMENSION_COUNT ? NULL : dimension_names[dimension];
}

uint32_t fp_process_label(const struct fp_process *process)
{
    return process->name != 0                    ? process->name
           : process->label != 0                 ? process->label
           : process->proc_lib_initial_call != 0 ? process->proc_lib_initial_call
           : process->initial_call != 0          ? process->initial_call
           : process->erl_pid != 0               ? process->erl_pid
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
    struct fp_by by = {FP_BY_VALUE, fp_profile_metric(profile, name)};
    int64_t value;

    if (by.metric < 0 || !fp_row_metric(profile, &by, row, &value))
        return 0;
    return class_of(value, base);
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

/* ------------------------------------------------------------------- dimensions -- */

/* The group of a sample in a dimension, as a number. */
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
    case FP_DIMENSION_event:
        return profile->event[row->event];
    default:
        return row->file;
    }
}

static struct fp_slice pid_text(const struct fp_profile *profile, uint32_t process, char *room)
{
    const struct fp_process *one = &profile->process[process];
    int length;

    if (one->erl_pid != 0)
        return fp_profile_text(profile, one->erl_pid);
    length = snprintf(room, FP_DIMENSION_BYTES, "%llu/%llu", (unsigned long long)one->pid,
                      (unsigned long long)one->tid);
    return (struct fp_slice){room, (size_t)length};
}

struct fp_slice fp_dimension_text(const struct fp_profile *profile, enum fp_dimension dimension,
                                  uint32_t code, char *room)
{
    static const char *const bytes[] = {"_B", "_KiB", "_MiB", "_GiB", "_TiB", "_PiB"};
    static const char *const counts[] = {"", "_k", "_M", "_G", "_T", "_P"};
    int length;

    switch (dimension) {
    case FP_DIMENSION_status:
    case FP_DIMENSION_process:
    case FP_DIMENSION_event:
        return fp_profile_text(profile, code);
    case FP_DIMENSION_pid:
        return pid_text(profile, code, room);
    case FP_DIMENSION_node:
        length = snprintf(room, FP_DIMENSION_BYTES, "os_pid_%llu",
                          (unsigned long long)profile->process[code].pid);
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

/* --------------------------------------------------- the tree without lines -- */

static int view_frame(struct fp_view *view, struct fp_profile *profile, uint32_t frame,
                      uint32_t *id)
{
    uint32_t line;
    struct fp_slice symbol =
        fp_text_without_line(fp_profile_text(profile, profile->tree.frame[frame].symbol), &line);

    return fp_strings_intern(&view->names, &profile->budget, symbol, id);
}

FP_INTERN_PAIR(view_node, struct fp_view, struct fp_node, node, nodes, parent, frame)

/* Parents come before their children, so that one pass does it. */
static int make_view(struct fp_view *view, struct fp_profile *profile)
{
    const struct fp_tree *tree = &profile->tree;
    struct fp_budget *budget = &profile->budget;
    int err = FP_GROW(budget, &view->map, &view->map_room, tree->node_count);

    if (err == 0)
        err = FP_GROW(budget, &view->node, &view->node_room, 1);
    if (err != 0)
        return err;
    view->node[view->node_count++] = (struct fp_node){0, 0};
    view->map[0] = 0;
    for (size_t n = 1; n < tree->node_count && err == 0; n++) {
        struct fp_node node = {view->map[tree->node[n].parent], 0};

        err = view_frame(view, profile, tree->node[n].frame, &node.frame);
        if (err == 0)
            err = view_node(view, budget, node, &view->map[n]);
    }
    return err;
}

static void free_view(struct fp_view *view, struct fp_budget *budget)
{
    FP_FREE(budget, view->map, view->map_room);
    FP_FREE(budget, view->node, view->node_room);
    fp_table_free(&view->nodes, budget);
    fp_strings_free(&view->names, budget);
}

/* ------------------------------------------------------------------- groups -- */

static int same_group(const struct fp_group *a, const struct fp_group *b, uint32_t dimensions)
{
    return a->node == b->node && memcmp(a->code, b->code, dimensions * sizeof(a->code[0])) == 0;
}

static uint64_t hash_of(const struct fp_group *group, uint32_t dimensions)
{
    uint64_t hash = group->node;

    for (uint32_t i = 0; i < dimensions; i++)
        hash = fp_hash_two(hash, group->code[i]);
    return fp_hash_two(hash, dimensions);
}

static int add(struct fp_aggregate *groups, const struct fp_group *key, uint32_t dimensions)
{
    uint64_t hash = hash_of(key, dimensions);
    struct fp_table_at at;
    uint32_t id;
    int err;

    fp_table_seek(&groups->table, hash, &at);
    while (fp_table_next(&groups->table, &at, &id)) {
        struct fp_group *group = &groups->group[id];

        if (same_group(group, key, dimensions)) {
            group->samples = fp_sum(group->samples, key->samples);
            group->weight = fp_sum(group->weight, key->weight);
            return 0;
        }
    }
    err = FP_GROW(groups->budget, &groups->group, &groups->room, groups->count + 1);
    if (err == 0)
        err = fp_table_put(&groups->table, groups->budget, hash, (uint32_t)groups->count);
    if (err == 0)
        groups->group[groups->count++] = *key;
    return err;
}

static int add_row(struct fp_aggregate *groups, const struct fp_profile *profile,
                   const struct fp_query *query, const struct fp_row *row)
{
    uint32_t node = profile->tree.stack[row->stack].node;
    struct fp_group key = {.samples = (uint64_t)fp_row_count(profile, row)};
    int64_t weight;

    if (!fp_row_weight(profile, &query->by, row, &weight) || weight == 0)
        return 0;
    for (uint32_t i = 0; i < query->dimension_count; i++)
        key.code[i] = code_of(profile, query->dimension[i], row, weight);
    key.node = groups->view.map == NULL ? node : groups->view.map[node];
    key.weight = weight < 0 ? 0 - (uint64_t)weight : (uint64_t)weight;
    return add(groups, &key, query->dimension_count);
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

int fp_aggregate_make(struct fp_aggregate *groups, struct fp_profile *profile,
                      struct fp_query *query)
{
    struct fp_cursor cursor;
    struct fp_row row;
    int more = 0;

    *groups = (struct fp_aggregate){.budget = &profile->budget};
    keep_signs_apart(query);
    if (query->without_lines)
        more = make_view(&groups->view, profile);
    if (more != 0)
        return more;
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        int err = add_row(groups, profile, query, &row);

        if (err != 0) {
            more = err;
            break;
        }
    }
    fp_cursor_close(&cursor);
    return more;
}

void fp_aggregate_free(struct fp_aggregate *groups)
{
    FP_FREE(groups->budget, groups->group, groups->room);
    fp_table_free(&groups->table, groups->budget);
    free_view(&groups->view, groups->budget);
}

size_t fp_aggregate_stack(const struct fp_aggregate *groups, const struct fp_profile *profile,
                          uint32_t node, uint32_t *nodes, size_t room)
{
    const struct fp_node *tree = groups->view.map == NULL ? profile->tree.node : groups->view.node;
    size_t count = 0;

    for (uint32_t n = node; n != 0 && count < room; n = tree[n].parent)
        count++;
    for (size_t i = count; i-- > 0; node = tree[node].parent)
        nodes[i] = node;
    return count;
}

struct fp_slice fp_aggregate_symbol(const struct fp_aggregate *groups,
                                    const struct fp_profile *profile, uint32_t node)
{
    const struct fp_tree *tree = &profile->tree;

    if (groups->view.map != NULL)
        return fp_strings_at(&groups->view.names, groups->view.node[node].frame);
    return fp_profile_text(profile, tree->frame[tree->node[node].frame].symbol);
}
