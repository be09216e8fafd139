/* tree.h - frames, and the tree of all stacks.
 *
 *      node 0                         the root of all; no frame
 *      node n: {parent < n, frame}    a stack is a node, read towards the root
 *
 * The stack of a sample is a number for {node, status}. A cache from raw texts to stacks makes a
 * stack that was seen before cost a hash and a compare. Not shared between threads. */
#pragma once

#include <stdbool.h>

#include "format/parse.h"
#include "report/strings.h"

struct fp_frame_ids {
    uint32_t symbol, dso; /* texts */
};

struct fp_node {
    uint32_t parent, frame;
};

struct fp_stack_ids {
    uint32_t node, status; /* status: a text; 0: it has none */
};

struct fp_raw_stack {
    size_t at; /* in `raw` */
    uint32_t size, stack, status;
    enum fp_dialect dialect;
    bool is_shortened;
};

/* A frame's line, cheaper to compare than to parse: perf's stacks differ in their leaves and share
 * most lines. */
#define FP_LINES 4096
#define FP_LINE_BYTES 120
struct fp_known_line {
    uint32_t frame;
    uint16_t size; /* 0: none */
    uint8_t dialect;
    char text[FP_LINE_BYTES];
};

struct fp_tree {
    struct fp_strings *strings;
    struct fp_budget *budget;
    struct fp_frame_ids *frame;
    struct fp_node *node;
    struct fp_stack_ids *stack;
    size_t frame_count, frame_room, node_count, node_room, stack_count, stack_room;
    struct fp_table frames, nodes, stacks;
    /* The cache, which is emptied when it has grown to RAW_MOST. */
    char *raw;
    struct fp_raw_stack *raw_stack;
    size_t raw_size, raw_room, raw_count, raw_stack_room;
    struct fp_table raws;
    char *encoded;              /* FP_ENCODED_BYTES */
    struct fp_known_line *line; /* of other dialects, FP_LINES; or NULL */
    bool is_shortened;          /* the text found or added last has more frames than its stack */
};

/* 0, FP_EFULL or FP_ENOMEM; free the tree in any case. */
int fp_tree_create(struct fp_tree *tree, struct fp_strings *strings, struct fp_budget *budget);
void fp_tree_free(struct fp_tree *tree);

/* 1 and the stack of a text that fp_tree_add() got with this hash, dialect and status; 0: the text
 * is new. */
int fp_tree_find(struct fp_tree *tree, uint64_t hash, enum fp_dialect dialect, uint32_t status,
                 struct fp_slice text, uint32_t *id);

/* Parses a text and keeps it. A stack of more than FP_FRAMES_MOST frames keeps those at the leaf
 * and some at the root; a frame `truncated` stands for the others, as in our files. The status is
 * the root frame of FP_FLAME_PROF, and `status` (a text's number) in other dialects. 0 and *id;
 * FP_EINVAL: the text is damaged, *bad says why; FP_EFULL or FP_ENOMEM. */
int fp_tree_add(struct fp_tree *tree, enum fp_dialect dialect, uint64_t hash, struct fp_slice text,
                uint32_t status, uint32_t *id, const char **bad);
