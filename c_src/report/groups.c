#include "report/groups.h"

#include "report/text.h"

/* --------------------------------------------------- the tree without lines -- */

static int view_frame(struct fp_view *view, struct fp_profile *profile,
                      uint32_t frame, uint32_t *id)
{
    uint32_t line;
    struct fp_slice symbol = fp_text_without_line(
        fp_profile_text(profile, profile->tree.frame[frame].symbol), &line);

    return fp_strings_intern(&view->names, &profile->budget, symbol, id);
}

static int view_node(struct fp_view *view, struct fp_budget *budget,
                     struct fp_node node, uint32_t *id)
{
    uint64_t hash = fp_hash_two(node.parent, node.frame);
    struct fp_table_at at;
    int err;

    fp_table_seek(&view->nodes, hash, &at);
    while (fp_table_next(&view->nodes, &at, id)) {
        if (view->node[*id].parent == node.parent &&
            view->node[*id].frame == node.frame)
            return 0;
    }
    *id = (uint32_t)view->node_count;
    err = FP_GROW(budget, &view->node, &view->node_room, view->node_count + 1);
    if (err == 0)
        err = fp_table_put(&view->nodes, budget, hash, *id);
    if (err == 0)
        view->node[view->node_count++] = node;
    return err;
}

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
    fp_budget_free(budget, view->map, sizeof(*view->map), view->map_room);
    fp_budget_free(budget, view->node, sizeof(*view->node), view->node_room);
    fp_table_free(&view->nodes, budget);
    fp_strings_free(&view->names, budget);
}

/* ------------------------------------------------------------------- groups -- */

static int same_group(const struct fp_group *a, const struct fp_group *b,
                      uint32_t levels)
{
    return a->node == b->node &&
           memcmp(a->code, b->code, levels * sizeof(a->code[0])) == 0;
}

static uint64_t hash_of(const struct fp_group *group, uint32_t levels)
{
    uint64_t hash = group->node;

    for (uint32_t i = 0; i < levels; i++)
        hash = fp_hash_two(hash, group->code[i]);
    return fp_hash_two(hash, levels);
}

static int add(struct fp_aggregate *groups, const struct fp_group *key,
               uint32_t levels)
{
    uint64_t hash = hash_of(key, levels);
    struct fp_table_at at;
    uint32_t id;
    int err;

    fp_table_seek(&groups->table, hash, &at);
    while (fp_table_next(&groups->table, &at, &id)) {
        struct fp_group *group = &groups->group[id];

        if (same_group(group, key, levels)) {
            group->samples = fp_sum(group->samples, key->samples);
            group->weight = fp_sum(group->weight, key->weight);
            return 0;
        }
    }
    err = FP_GROW(groups->budget, &groups->group, &groups->room,
                  groups->count + 1);
    if (err == 0)
        err = fp_table_put(&groups->table, groups->budget, hash,
                           (uint32_t)groups->count);
    if (err == 0)
        groups->group[groups->count++] = *key;
    return err;
}

static int add_row(struct fp_aggregate *groups,
                   const struct fp_profile *profile,
                   const struct fp_query *query, const struct fp_row *row)
{
    uint32_t node = profile->tree.stack[row->stack].node;
    struct fp_group key = {.samples = (uint64_t)fp_weight(profile, row)};
    int64_t weight;

    if (!fp_measure(profile, &query->measure, row, &weight) || weight == 0)
        return 0;
    for (uint32_t i = 0; i < query->level_count; i++)
        key.code[i] = fp_level_code(profile, query->level[i], row, weight);
    key.node = groups->view.map == NULL ? node : groups->view.map[node];
    key.weight = weight < 0 ? 0 - (uint64_t)weight : (uint64_t)weight;
    return add(groups, &key, query->level_count);
}

static void keep_signs_apart(struct fp_query *query)
{
    for (uint32_t i = 0; i < query->level_count; i++) {
        if (query->level[i] == FP_LEVEL_sign)
            return;
    }
    if (query->measure.kind == FP_MEASURE_DELTA)
        query->level[query->level_count++] = FP_LEVEL_sign;
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
    fp_budget_free(groups->budget, groups->group, sizeof(*groups->group),
                   groups->room);
    fp_table_free(&groups->table, groups->budget);
    free_view(&groups->view, groups->budget);
}

size_t fp_aggregate_stack(const struct fp_aggregate *groups,
                          const struct fp_profile *profile, uint32_t node,
                          uint32_t *nodes, size_t room)
{
    const struct fp_node *tree =
        groups->view.map == NULL ? profile->tree.node : groups->view.node;
    size_t count = 0;

    for (uint32_t n = node; n != 0 && count < room; n = tree[n].parent)
        count++;
    for (size_t i = count; i-- > 0; node = tree[node].parent)
        nodes[i] = node;
    return count;
}

struct fp_slice fp_aggregate_symbol(const struct fp_aggregate *groups,
                                    const struct fp_profile *profile,
                                    uint32_t node)
{
    const struct fp_tree *tree = &profile->tree;

    if (groups->view.map != NULL)
        return fp_strings_at(&groups->view.names,
                             groups->view.node[node].frame);
    return fp_profile_text(profile, tree->frame[tree->node[node].frame].symbol);
}
