/*
 * groups.h - samples added up: one weight for each stack in each drawer. What
 * collapsed stacks, speedscope and pprof are made of.
 *
 * Not shared between threads.
 */
#ifndef FP_REPORT_GROUPS_H
#define FP_REPORT_GROUPS_H

#include "report/measure.h"

struct fp_group {
    uint32_t node; /* of the view's, see fp_view */
    uint32_t code[FP_LEVEL_COUNT];
    uint64_t samples;
    uint64_t weight; /* of one sign: that of the level `sign` */
};

/* The tree, or the tree without lines: node n of the profile is node map[n],
 * whose frame is a number of `names`. */
struct fp_view {
    uint32_t *map; /* NULL: as it is */
    struct fp_node *node;
    size_t node_count, node_room, map_room;
    struct fp_table nodes;
    struct fp_strings names;
};

struct fp_aggregate {
    struct fp_group *group; /* in the order of their first samples */
    size_t count, room;
    struct fp_table table;
    struct fp_view view;
    struct fp_budget *budget;
};

/* A measure of deltas gets the level `sign` as its innermost where the query
 * does not name it: growth and release never cancel each other. Weights of 0
 * are left out. 0, FP_EFULL or FP_ENOMEM; free what there is in any case. */
int fp_aggregate_make(struct fp_aggregate *groups, struct fp_profile *profile,
                      struct fp_query *query);
void fp_aggregate_free(struct fp_aggregate *groups);

/* Root first: the nodes of a stack, at most `room`; how many. */
size_t fp_aggregate_stack(const struct fp_aggregate *groups,
                          const struct fp_profile *profile, uint32_t node,
                          uint32_t *nodes, size_t room);
/* The symbol of a node of such a stack. */
struct fp_slice fp_aggregate_symbol(const struct fp_aggregate *groups,
                                    const struct fp_profile *profile,
                                    uint32_t node);

#endif
