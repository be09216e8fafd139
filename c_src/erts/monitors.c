#include "erts/monitors.h"

#include <string.h>

#include "base/error.h"
#include "erts/term.h"

#define FIRST_OTP_WITH_WIDE_FLAGS 28u

/* Of the flags, as erl_monitor_link.h has them. */
#define NARROW_TARGET (1u << 0)
#define NARROW_NAME (1u << 3)
#define WIDE_TYPE 0x1fu
#define WIDE_TARGET (1u << 7)
#define WIDE_NAME (1u << 10)

/* The union that a node begins with: a signal of the queue, which got a fourth word. */
#define FIRST_OTP_WITH_LONG_SIGNALS 27u

/* ErtsMonitorData, in words: two nodes, the reference, the count. A name stands behind it
 * (ErtsMonitorDataExtended). */
struct form {
    uint32_t item; /* in a node; behind it, offsets and flags */
    uint32_t data;
};

static struct form form_of(const struct fp_walk *walk)
{
    return walk->layout->release.otp < FIRST_OTP_WITH_LONG_SIGNALS ? (struct form){3, 12}
                                                                   : (struct form){4, 14};
}

struct node {
    uint64_t right, left, item, key;
    uint32_t offset; /* from the data, in bytes */
    uint32_t flags;
};

static int read_node(struct fp_walk *walk, uint64_t address, struct node *node)
{
    struct form form = form_of(walk);
    const uint64_t *word = NULL;
    uint32_t key;

    if (address != 0 && (address & 7) == 0)
        word = fp_walk_words(walk, address, form.data);
    if (word == NULL)
        return FP_ETORN;
    node->right = word[1];
    node->left = word[2];
    node->item = word[form.item];
    node->offset = word[form.item + 1] & 0xffff;
    node->flags = (uint32_t)(word[form.item + 1] >> 32);
    key = word[form.item + 1] >> 16 & 0xffff;
    if (key % 8 != 0 || key / 8 < form.item || key / 8 >= form.data || node->offset % 8 != 0 ||
        node->offset / 8 >= form.data)
        return FP_ETORN;
    node->key = word[key / 8];
    return 0;
}

static int is_wide(const struct fp_walk *walk)
{
    return walk->layout->release.otp >= FIRST_OTP_WITH_WIDE_FLAGS;
}

static int fill(struct fp_walk *walk, uint64_t address, const struct node *node,
                const struct fp_term *key, struct fp_monitor *monitor)
{
    int wide = is_wide(walk);
    uint32_t type = wide ? node->flags & WIDE_TYPE : node->flags >> 16;
    const uint64_t *name = NULL;

    memset(monitor, 0, sizeof *monitor);
    if (type >= FP_MONITOR_TYPES)
        return FP_ETORN;
    monitor->type = (enum fp_monitor_type)type;
    monitor->is_origin = (node->flags & (wide ? WIDE_TARGET : NARROW_TARGET)) == 0;
    if (key->kind == FP_TERM_REF)
        monitor->ref = key->ref;
    fp_walk_term(walk, node->item, &monitor->target);
    if ((node->flags & (wide ? WIDE_NAME : NARROW_NAME)) != 0)
        name = fp_walk_words(walk, address - node->offset + 8ull * form_of(walk).data, 1);
    if (name != NULL && fp_term_is_atom(*name))
        monitor->name = *name;
    return 0;
}

/* ml_cmp_keys(): immediate keys, then references by their numbers in memory, then those of other
 * nodes. Below 0: `ref` is in the left subtree. */
static int compare(const struct fp_ref *ref, const struct fp_term *key)
{
    if (key->kind == FP_TERM_REF)
        return memcmp(ref->n, key->ref.n, sizeof ref->n);
    return key->kind == FP_TERM_REMOTE_REF ? -1 : 1;
}

int fp_monitors_find(struct fp_walk *walk, uint64_t root, const struct fp_ref *ref,
                     struct fp_monitor *monitor)
{
    uint64_t address = root;

    for (uint32_t depth = 0; depth < FP_MONITORS_DEPTH; depth++) {
        struct node node;
        struct fp_term key;
        int order;

        if (address == 0)
            return FP_ENOENT;
        if (read_node(walk, address, &node) != 0)
            return FP_ETORN;
        fp_walk_term(walk, node.key, &key);
        if (key.kind == FP_TERM_UNREADABLE)
            return FP_ETORN;
        order = compare(ref, &key);
        if (order == 0)
            return fill(walk, address, &node, &key, monitor);
        address = order < 0 ? node.left : node.right;
    }
    return FP_ETORN;
}

/* Depth first, the left subtrees first. */
int fp_monitors_each(struct fp_walk *walk, uint64_t root, uint32_t most,
                     void (*each)(void *arg, const struct fp_monitor *monitor), void *arg)
{
    uint64_t stack[FP_MONITORS_DEPTH];
    uint32_t depth = 0, visited = 0;

    if (root != 0)
        stack[depth++] = root;
    while (depth > 0 && visited < most) {
        uint64_t address = stack[--depth];
        struct fp_monitor monitor;
        struct fp_term key;
        struct node node;

        if (read_node(walk, address, &node) != 0 || depth + 2 > FP_MONITORS_DEPTH)
            return FP_ETORN;
        fp_walk_term(walk, node.key, &key);
        if (key.kind == FP_TERM_UNREADABLE || fill(walk, address, &node, &key, &monitor) != 0)
            return FP_ETORN;
        visited++;
        each(arg, &monitor);
        if (node.right != 0)
            stack[depth++] = node.right;
        if (node.left != 0)
            stack[depth++] = node.left;
    }
    return depth > 0 ? FP_EFULL : (int)visited;
}
