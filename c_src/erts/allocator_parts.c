#include "erts/allocators_solve.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Of an Allctr_t. */
#define WINDOW_WORDS 512u

/* Takes the place if it is the first one. */
static int only(uint64_t *place, uint64_t found)
{
    if (*place != 0 && *place != found)
        return FP_EAMBIGUOUS;
    *place = found;
    return 0;
}

/* ------------------------------------------------------------------- trees -- */

/* The head of a block, whose size is that of the largest free block of the carrier; then the
 * pointers. Behind them are color, largest size of all below, and a union, in another order in
 * other releases (erl_alloc_util.h, AOFF_RBTree_t). */
struct carrier_node {
    uint64_t size, parent, left, right;
    uint32_t rest[FP_TREE_NODE_WORDS];
};

/* Carrier_t: size and flags, next, previous, then its allocator, with flags in the low bits. */
#define ALLOCATOR_IN_CARRIER 24u
#define POINTER_MASK (~UINT64_C(7))
/* Of a node in its carrier: behind the head and what the pool has of it. */
#define NODE_LEAST 32u
#define NODE_MOST 512u
#define DEPTH_MAX 64u

struct tree {
    const struct fp_memory *memory;
    uint64_t instance;
    uint32_t in_carrier; /* of a node; 0: not known yet */
    uint32_t max_size;   /* its place in the rest of a node */
    uint64_t nodes, nodes_max;
};

static int is_in_carrier(struct tree *tree, uint64_t at)
{
    uint64_t allocator = 0;

    for (uint32_t k = NODE_LEAST; tree->in_carrier == 0 && k < NODE_MOST; k += 8)
        if (fp_safe_read_word(tree->memory, at - k + ALLOCATOR_IN_CARRIER, &allocator) == 0 &&
            (allocator & POINTER_MASK) == tree->instance)
            tree->in_carrier = k;
    return tree->in_carrier != 0 &&
           fp_safe_read_word(tree->memory, at - tree->in_carrier + ALLOCATOR_IN_CARRIER,
                             &allocator) == 0 &&
           (allocator & POINTER_MASK) == tree->instance;
}

static int is_tree(struct tree *tree, uint64_t at, uint64_t parent, uint32_t depth, uint64_t *max)
{
    struct carrier_node node;
    uint64_t largest[2] = {0};

    if (at == 0)
        return 1;
    if (at % 8 != 0 || depth == DEPTH_MAX || ++tree->nodes > tree->nodes_max ||
        fp_safe_read(tree->memory, at, &node, sizeof node) != 0 || node.parent != parent ||
        !is_in_carrier(tree, at) || !is_tree(tree, node.left, at, depth + 1, &largest[0]) ||
        !is_tree(tree, node.right, at, depth + 1, &largest[1]))
        return 0;
    *max = node.size;
    for (int i = 0; i < 2; i++)
        *max = largest[i] > *max ? largest[i] : *max;
    return node.rest[tree->max_size] == *max;
}

/* Words behind the counters that may be the root. */
#define ROOT_WORDS 16u
/* So many instances are looked at. */
#define SOLVED 16u

static int solve_tree(const struct fp_allocators *allocators, const struct fp_memory *memory,
                      const struct fp_allocator_figures *figures, uint32_t tree_at,
                      uint32_t max_size)
{
    uint32_t agree = 0, in_carrier = 0;

    for (uint32_t i = 0; i < allocators->count && agree < SOLVED; i++) {
        const struct fp_allocator_instance *instance = &allocators->instance[i];
        struct tree tree = {.memory = memory,
                            .instance = instance->address,
                            .in_carrier = in_carrier,
                            .max_size = max_size,
                            .nodes_max =
                                figures[i].multi.mseg_carriers + figures[i].multi.sys_carriers};
        uint64_t root, max = 0;

        if (figures[i].err != 0 || !instance->has_tree || tree.nodes_max == 0 ||
            fp_safe_read_word(memory, instance->address + tree_at, &root) != 0 ||
            !is_tree(&tree, root, 0, 0, &max) || tree.nodes != tree.nodes_max)
            continue;
        in_carrier = tree.in_carrier;
        agree++;
    }
    return agree >= FP_ALLOCATORS_AGREE;
}

int fp_free_trees_solve(struct fp_allocators *allocators, const struct fp_memory *memory)
{
    struct fp_allocator_figures *figures = calloc(allocators->count, sizeof *figures);
    uint32_t behind = allocators->statistics + 8 * FP_STATISTICS_WORDS;
    uint64_t found = 0;
    int err = figures == NULL ? FP_ENOMEM : 0;

    if (err == 0 && fp_allocators_read(allocators, memory, 0, allocators->count, figures) < 0)
        err = FP_ENOMEM;
    for (uint32_t i = 0; err == 0 && i < ROOT_WORDS * FP_TREE_NODE_WORDS; i++)
        if (solve_tree(allocators, memory, figures, behind + i / FP_TREE_NODE_WORDS * 8,
                       i % FP_TREE_NODE_WORDS))
            err = only(&found, 1 + i);
    free(figures);
    if (err == 0 && found != 0) {
        allocators->tree = behind + (uint32_t)(found - 1) / FP_TREE_NODE_WORDS * 8;
        allocators->tree_max = (uint32_t)(found - 1) % FP_TREE_NODE_WORDS;
    }
    return err == 0 && found == 0 ? FP_ENOENT : err;
}

/* ------------------------------------------------------------- fixed sizes -- */

#define TYPE_SIZE_MAX 65536u
/* So many types of all instances have blocks, or a place full of zeros fits as well. */
#define TELLING_TYPES 4u

/* The numbers of the types that have blocks, or hold them: equal, or not. */
struct telling {
    uint32_t agree, differ;
};

static int is_fix(const struct fp_fix_list *list, const struct fp_fix_list *first, int is_pooled,
                  const struct fp_fix_fact *fact, struct telling *telling)
{
    for (uint32_t k = 0; k < fact->types; k++) {
        uint64_t bytes = fp_fix_bytes(&list[k], is_pooled);

        if (list[k].type_size == 0 || list[k].type_size > TYPE_SIZE_MAX ||
            list[k].type_size % 8 != 0 || list[k].type_size != first[k].type_size ||
            (uint32_t)list[k].type != (uint32_t)first[k].type ||
            fact->bytes[k] % list[k].type_size != 0)
            return 0;
        telling->agree += bytes != 0 && bytes == fact->bytes[k];
        telling->differ += bytes != fact->bytes[k];
    }
    return 1;
}

/* Do the instances that system_info tells of have their lists where this word points? All have to
 * have the sizes and types of lists. Their bytes change in an instance at work: most have to be
 * what is said. */
static int fits_fix(struct fp_allocators *allocators, const struct fp_memory *memory,
                    const struct fp_fix_fact *fact, size_t facts, uint32_t at)
{
    struct fp_fix_list list[FP_FIX_TYPES_MAX], first[FP_FIX_TYPES_MAX];
    struct telling telling = {0};
    uint64_t place;

    for (size_t i = 0; i < facts; i++) {
        const struct fp_allocator_instance *instance =
            fp_allocators_instance(allocators, FP_ALLOCATOR_fix_alloc, fact[i].number);

        if (instance == NULL || fact[i].types != fact[0].types ||
            fp_safe_read_word(memory, instance->address + at, &place) != 0 || place == 0 ||
            place % 8 != 0 || fp_safe_read(memory, place, list, fact[i].types * sizeof *list) != 0)
            return 0;
        if (i == 0)
            memcpy(first, list, sizeof first);
        if (!is_fix(list, first, instance->is_pooled, &fact[i], &telling))
            return 0;
    }
    return telling.agree >= TELLING_TYPES && telling.agree > 2 * telling.differ;
}

int fp_fix_solve(struct fp_allocators *allocators, const struct fp_memory *memory,
                 const struct fp_fix_fact *fact, size_t facts, uint32_t of_processes)
{
    uint64_t found = 0;
    int err = 0;

    for (uint32_t at = 8; err == 0 && facts > 0 && at < 8 * WINDOW_WORDS; at += 8)
        if (fits_fix(allocators, memory, fact, facts, at))
            err = only(&found, at);
    if (err == 0 && found == 0)
        err = FP_ENOENT;
    for (size_t i = 0; err == 0 && i < facts; i++) {
        struct fp_allocator_instance *instance =
            fp_allocators_instance(allocators, FP_ALLOCATOR_fix_alloc, fact[i].number);

        err = fp_safe_read_word(memory, instance->address + found, &instance->fix);
    }
    if (err != 0)
        return err;
    allocators->fix_types = fact[0].types;
    allocators->of_processes = of_processes;
    return 0;
}

/* ----------------------------------------------------------- super carrier -- */

static int fits_super(void *arg, uint64_t at, const unsigned char *copy)
{
    (void)at;
    return memcmp(copy, arg, sizeof(struct fp_super_carrier)) == 0;
}

/* The words of an ErtsMemMapper (erl_mmap.c) in the VM's data. */
int fp_super_carrier_solve(struct fp_allocators *allocators, const struct fp_memory *memory,
                           const struct fp_ranges *data, struct fp_super_carrier *fact)
{
    uint64_t found = 0;
    int err = fp_scan(memory, data, sizeof *fact, fits_super, fact, &found);

    if (err == 0)
        allocators->super = found;
    return err;
}
