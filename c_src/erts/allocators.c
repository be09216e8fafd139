#include "erts/allocators.h"

#include <string.h>

#include "base/error.h"
#include "base/pages.h"

struct counters_copy {
    uint64_t statistics[FP_STATISTICS_WORDS];
    uint64_t pool[FP_POOL_WORDS];
};

static void sum_carriers(const uint64_t *word, struct fp_carriers_figures *figures)
{
    *figures = (struct fp_carriers_figures){.mseg_carriers = word[0],
                                            .mseg_bytes = word[1],
                                            .sys_carriers = word[2],
                                            .sys_bytes = word[3]};
    for (uint32_t i = 0; i < FP_ALLOCATOR_COUNT; i++) {
        figures->blocks += word[10 + 6 * i];
        figures->blocks_bytes += word[11 + 6 * i];
    }
}

/* Into what is 0 but for the instance. */
static void sum(const struct counters_copy *copy, int has_pool,
                struct fp_allocator_figures *figures)
{
    const uint64_t *pool = copy->pool + FP_POOL_OPTIONS;

    figures->taken = copy->statistics[0] + copy->statistics[3];
    figures->given_back = copy->statistics[1] + copy->statistics[4];
    sum_carriers(copy->statistics + FP_CALLS_WORDS, &figures->single);
    sum_carriers(copy->statistics + FP_CALLS_WORDS + FP_CARRIERS_WORDS, &figures->multi);
    if (!has_pool)
        return;
    for (uint32_t i = 0; i < FP_ALLOCATOR_COUNT; i++) {
        figures->pool_blocks_bytes += pool[i];
        figures->pool_blocks += pool[FP_ALLOCATOR_COUNT + i];
    }
    figures->pool_bytes = pool[2 * FP_ALLOCATOR_COUNT];
    figures->pool_carriers = pool[2 * FP_ALLOCATOR_COUNT + 1];
}

/* A node of the tree of carriers, as allocator_parts.c finds it. */
struct tree_node {
    uint64_t size, parent, left, right;
    uint32_t rest[FP_TREE_NODE_WORDS];
};

#define TREE_TRIES 3
/* Instances of a batch: two spans each, and two more where there is a tree. */
#define BATCH 64u

static int has_tree(const struct fp_allocators *allocators, uint32_t at)
{
    return allocators->tree != 0 && allocators->instance[at].has_tree;
}

/* Three reads of a tree: its root, the root's node, and the root again. Another one, and the node
 * may be none any more. */
struct tree_copy {
    uint64_t root, again;
    struct tree_node node;
};

/* 1, or 0: what was read is no root. */
static int take_largest_free(const struct tree_copy *copy, uint32_t max,
                             struct fp_allocator_figures *figures)
{
    uint64_t room = figures->multi.mseg_bytes + figures->multi.sys_bytes;

    figures->largest_free = copy->root == 0 ? 0 : copy->node.rest[max];
    figures->has_largest_free =
        copy->root == 0 || (copy->node.parent == 0 && figures->largest_free <= room);
    return figures->has_largest_free;
}

/* How many instances have to be tried again. */
static uint32_t read_trees(const struct fp_allocators *allocators, const struct fp_memory *memory,
                           uint32_t first, uint32_t n, struct fp_allocator_figures *figures)
{
    struct fp_safe_read_span root[BATCH], span[2 * BATCH];
    struct tree_copy copy[BATCH];
    uint32_t at[BATCH], left = 0, again = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!has_tree(allocators, first + i) || figures[i].err != 0 || figures[i].has_largest_free)
            continue;
        at[left] = i;
        root[left] = (struct fp_safe_read_span){.address = allocators->instance[first + i].address +
                                                           allocators->tree,
                                                .into = &copy[left].root,
                                                .size = 8};
        left++;
    }
    (void)fp_safe_read_batch(memory, root, left);
    for (uint32_t k = 0; k < left; k++) {
        uint64_t at_node = root[k].result == 0 ? copy[k].root : 0;

        /* Of an empty tree words of the instance, in place of a bad address. */
        if (at_node == 0)
            at_node = root[k].address - sizeof copy[k].node;
        span[2 * k] = (struct fp_safe_read_span){
            .address = at_node, .into = &copy[k].node, .size = sizeof copy[k].node};
        span[2 * k + 1] = (struct fp_safe_read_span){
            .address = root[k].address, .into = &copy[k].again, .size = 8};
    }
    (void)fp_safe_read_batch(memory, span, 2 * (size_t)left);
    for (uint32_t k = 0; k < left; k++) {
        int is_read = root[k].result == 0 && span[2 * k].result == 0 &&
                      span[2 * k + 1].result == 0 && copy[k].again == copy[k].root;

        again += !(is_read && take_largest_free(&copy[k], allocators->tree_max, &figures[at[k]]));
    }
    return again;
}

static int read_batch(const struct fp_allocators *allocators, const struct fp_memory *memory,
                      uint32_t first, uint32_t n, struct counters_copy *copy,
                      struct fp_allocator_figures *figures)
{
    struct fp_safe_read_span span[2 * BATCH];
    int read = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t address = allocators->instance[first + i].address;

        span[2 * i] = (struct fp_safe_read_span){.address = address + allocators->statistics,
                                                 .into = copy[i].statistics,
                                                 .size = sizeof copy[i].statistics};
        span[2 * i + 1] = (struct fp_safe_read_span){.address = address + allocators->pool,
                                                     .into = copy[i].pool,
                                                     .size = sizeof copy[i].pool};
    }
    (void)fp_safe_read_batch(memory, span, 2 * (size_t)n);
    for (uint32_t i = 0; i < n; i++) {
        const struct fp_allocator_instance *instance = &allocators->instance[first + i];

        figures[i] = (struct fp_allocator_figures){.allocator = instance->allocator,
                                                   .number = instance->number};
        if (span[2 * i].result != 0 || span[2 * i + 1].result != 0) {
            figures[i].err = FP_EFAULT;
            continue;
        }
        sum(&copy[i], allocators->has_pool, &figures[i]);
        read++;
    }
    for (int try = 0; try < TREE_TRIES; try++)
        if (read_trees(allocators, memory, first, n, figures) == 0)
            break;
    return read;
}

int fp_allocators_read(const struct fp_allocators *allocators, const struct fp_memory *memory,
                       uint32_t from, uint32_t to, struct fp_allocator_figures *figures)
{
    struct counters_copy *copy = fp_pages_alloc(BATCH * sizeof *copy);
    int read = 0;

    if (copy == NULL)
        return FP_ENOMEM;
    for (uint32_t first = from; first < to; first += BATCH) {
        uint32_t n = to - first < BATCH ? to - first : BATCH;

        read += read_batch(allocators, memory, first, n, copy, figures + (first - from));
    }
    fp_pages_free(copy, BATCH * sizeof *copy);
    return read;
}

/* ------------------------------------------------------------------- parts -- */

int fp_fix_read(const struct fp_allocators *allocators, const struct fp_memory *memory,
                uint64_t *bytes)
{
    struct fp_fix_list list[FP_FIX_TYPES_MAX];

    *bytes = 0;
    if (allocators->fix_types == 0)
        return FP_ENOENT;
    for (uint32_t i = 0; i < allocators->count; i++) {
        const struct fp_allocator_instance *instance = &allocators->instance[i];

        if (instance->fix == 0)
            continue;
        if (fp_safe_read(memory, instance->fix, list, allocators->fix_types * sizeof *list) != 0)
            return FP_EFAULT;
        for (uint32_t k = 0; k < allocators->fix_types; k++)
            if (allocators->of_processes >> k & 1)
                *bytes += fp_fix_bytes(&list[k], instance->is_pooled);
    }
    return 0;
}

int fp_super_carrier_read(const struct fp_allocators *allocators, const struct fp_memory *memory,
                          struct fp_super_carrier *carrier)
{
    return allocators->super == 0
               ? FP_ENOENT
               : fp_safe_read(memory, allocators->super, carrier, sizeof *carrier);
}
