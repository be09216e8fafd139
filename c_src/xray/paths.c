#include "xray/paths.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/pages.h"

/* Nodes below one; then values of 0 are for the rest, and then the node itself. */
#define BELOW_MAX 96u
#define BELOW_REST 32u
#define DEPTH_MAX 40u
/* How far back a container of the same shape is looked for: {node, [#node{}]} is two steps. */
#define BACK_MAX 4u
/* Lists in lists and maps in maps are told apart as far as here. */
#define DEPTH_APART 10u

static uint32_t hashes_of(uint32_t room)
{
    uint32_t hashes = 1;

    while (hashes < room)
        hashes *= 2;
    return hashes;
}

uint64_t fp_xray_paths_bytes(uint32_t room)
{
    return room * sizeof(struct fp_xray_node) + 4 * (uint64_t)hashes_of(room);
}

void fp_xray_paths_clear(struct fp_xray_paths *paths)
{
    memset(paths->node, 0, sizeof *paths->node);
    memset(paths->first, 0, 4 * (size_t)paths->hashes);
    paths->nodes = 1;
}

int fp_xray_paths_create(struct fp_xray_paths *paths, uint32_t room)
{
    *paths = (struct fp_xray_paths){.room = room, .hashes = hashes_of(room)};
    paths->node = fp_pages_alloc(room * sizeof *paths->node);
    paths->first = fp_pages_alloc(4 * (size_t)paths->hashes);
    if (paths->node == NULL || paths->first == NULL) {
        fp_xray_paths_destroy(paths);
        return FP_ENOMEM;
    }
    fp_xray_paths_clear(paths);
    return 0;
}

void fp_xray_paths_destroy(struct fp_xray_paths *paths)
{
    fp_pages_free(paths->node, paths->room * sizeof *paths->node);
    fp_pages_free(paths->first, 4 * (size_t)paths->hashes);
    *paths = (struct fp_xray_paths){0};
}

static int is_same(const struct fp_xray_shape *a, const struct fp_xray_shape *b)
{
    return a->form == b->form && a->arity == b->arity && a->tag == b->tag;
}

/* A container above of the same shape, or 0. */
static uint32_t container(const struct fp_xray_paths *paths, uint32_t from,
                          const struct fp_xray_shape *shape)
{
    int is_apart = shape->form == FP_XRAY_FORM_LIST || shape->form == FP_XRAY_FORM_MAP;

    if (shape->form > FP_XRAY_FORM_FUN || (is_apart && paths->node[from].depth < DEPTH_APART))
        return 0;
    for (uint32_t n = 0; n < BACK_MAX && from != 0; n++) {
        if (is_same(&paths->node[from].shape, shape))
            return from;
        from = paths->node[from].parent;
    }
    return 0;
}

static uint32_t *bucket(struct fp_xray_paths *paths, uint32_t from, enum fp_xray_step step,
                        uint64_t value, const struct fp_xray_shape *shape)
{
    uint64_t hash = fp_hash_two((uint64_t)from << 8 | (uint64_t)step, value);

    hash = fp_hash_two(hash ^ (uint64_t)shape->form << 32 ^ shape->arity, shape->tag);
    return &paths->first[hash & (paths->hashes - 1)];
}

static uint32_t lookup(const struct fp_xray_paths *paths, uint32_t at, uint32_t from,
                       enum fp_xray_step step, uint64_t value, const struct fp_xray_shape *shape)
{
    for (; at != 0; at = paths->node[at].same) {
        const struct fp_xray_node *node = &paths->node[at];

        if (node->parent == from && node->step == step && node->value == value &&
            is_same(&node->shape, shape))
            break;
    }
    return at;
}

uint32_t fp_xray_path(struct fp_xray_paths *paths, uint32_t from, enum fp_xray_step step,
                      uint64_t value, const struct fp_xray_shape *shape)
{
    uint32_t *first = bucket(paths, from, step, value, shape);
    uint32_t at = lookup(paths, *first, from, step, value, shape);
    const struct fp_xray_shape rest = {.form = shape->form};
    struct fp_xray_node *above = &paths->node[from];

    if (at != 0)
        return at;
    at = container(paths, from, shape);
    if (at != 0)
        return at;
    if (from != 0 && above->below >= BELOW_MAX && !(value == 0 && is_same(shape, &rest)))
        return fp_xray_path(paths, from, step, 0, &rest);
    if (paths->nodes == paths->room || above->depth >= DEPTH_MAX ||
        (from != 0 && above->below >= BELOW_MAX + BELOW_REST))
        return from;
    at = paths->nodes++;
    paths->node[at] = (struct fp_xray_node){.parent = from,
                                            .depth = above->depth + 1,
                                            .same = *first,
                                            .step = step,
                                            .value = value,
                                            .shape = *shape};
    above->below++;
    *first = at;
    return at;
}

void fp_xray_paths_sum(struct fp_xray_paths *paths)
{
    for (uint32_t at = paths->nodes; at-- > 1;) {
        const struct fp_xray_node *node = &paths->node[at];
        struct fp_xray_node *parent = &paths->node[node->parent];

        parent->words += node->words;
        parent->objects += node->objects;
        parent->binaries += node->binaries;
        parent->binary_bytes += node->binary_bytes;
        parent->seen_bytes += node->seen_bytes;
    }
}
