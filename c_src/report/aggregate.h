/* aggregate.h - samples added up: the weight of a sample by a metric, its groups by dimensions, and
 * one sum for each stack in each group. Collapsed stacks, speedscope's file and
 * flame_prof_profile:stacks/2 are made of it.
 *
 * Not shared between threads. */
#pragma once

#include <stdbool.h>

#include "report/profile.h"

enum fp_by_kind {
    FP_BY_SAMPLES, /* 1 for each observation (fp_row_count) */
    FP_BY_PERIOD,  /* the sample's period */
    FP_BY_VALUE,   /* a metric's value, for each observation */
    FP_BY_DELTA,   /* its change, for all of them together */
};

/* The metric of a query. */
struct fp_by {
    enum fp_by_kind kind;
    int metric; /* of the last two kinds */
};

/* The product, INT64_MIN or INT64_MAX where an int64_t does not hold it. */
static inline int64_t fp_times(int64_t value, int64_t count)
{
    int64_t product;

    if (__builtin_mul_overflow(value, count, &product))
        return value < 0 ? INT64_MIN : INT64_MAX;
    return product;
}

static inline uint64_t fp_magnitude(int64_t weight)
{
    return weight < 0 ? 0 - (uint64_t)weight : (uint64_t)weight;
}

#define FP_STATUSES_MOST 8

/* The samples of a query: those of these processes and statuses with from_us <= time < to_us. */
struct fp_filter {
    int64_t from_us, to_us;
    const uint8_t *process;            /* by process: 0: it is left out; NULL: all are in */
    uint32_t status[FP_STATUSES_MOST]; /* texts */
    uint32_t status_count;             /* 0: any status */
};

#define FP_FILTER_ALL                                                                              \
    (struct fp_filter)                                                                             \
    {                                                                                              \
        .from_us = INT64_MIN, .to_us = INT64_MAX                                                   \
    }

/* Lets samples of this status pass, and of those that are named in other calls. False: there are
 * too many. */
bool fp_filter_status(const struct fp_profile *profile, struct fp_filter *filter,
                      struct fp_slice status);

#define FP_DIMENSION_MAP(X)                                                                        \
    X(status)  /* waiting, running ... */                                                          \
    X(process) /* its name, label, initial call, or pid */                                         \
    X(pid)     /* its Erlang pid, or thread number */                                              \
    X(node)    /* the OS process */                                                                \
    X(memory)  /* by powers of ten: memory_10s_MiB */                                              \
    X(queue)   /* of messages, by powers of ten: queue_100s */                                     \
    X(sign)    /* of the weight: negative, positive */                                             \
    X(message) /* that a server has in work: call:{get,_} */                                       \
    X(trace)   /* of OpenTelemetry: 32 hex digits */                                               \
    X(span)    /* likewise: 16 */                                                                  \
    X(event)   /* of perf */                                                                       \
    X(file)

enum fp_dimension {
#define FP_DIMENSION_VALUE(name) FP_DIMENSION_##name,
    FP_DIMENSION_MAP(FP_DIMENSION_VALUE)
#undef FP_DIMENSION_VALUE
        FP_DIMENSION_COUNT
};

extern const char *const fp_dimension_names[]; /* by dimension; NULL is behind the last */

struct fp_query {
    struct fp_by by;
    struct fp_filter filter;
    enum fp_dimension dimension[FP_DIMENSION_COUNT]; /* outermost first */
    uint32_t dimension_count;
    int without_lines;  /* two lines of one function are one frame */
    int with_names;     /* C++ functions of one name are one frame, as two lines of one are */
    int without_stacks; /* one sum for each group; without_lines is of no use then */
    int with_chains;    /* chains.h; only samples of processes that wait for something */
};

/* 1 and the weight, which has the sign of its delta; 0: the query's filter leaves the sample out,
 * it does not have the metric, its value is damaged (below 0), or it is the profiler's own. */
int fp_row_weight(const struct fp_profile *profile, const struct fp_query *query,
                  const struct fp_row *row, int64_t *weight);

/* A group of a dimension (fp_group.code) as text, percent-encoded as in the file. `room` has
 * FP_DIMENSION_BYTES. */
#define FP_DIMENSION_BYTES 64
struct fp_slice fp_dimension_text(const struct fp_profile *profile, enum fp_dimension dimension,
                                  uint32_t code, char *room);

/* A text: the process' name, else its label, initial call, pid, `scheduler=2`, or command. */
uint32_t fp_process_label(const struct fp_process *process);

/* A stack in the groups of its dimensions; those behind the query's have the code 0. */
struct fp_group {
    uint32_t node; /* of the aggregate's tree */
    uint32_t code[FP_DIMENSION_COUNT];
    uint64_t samples;
    uint64_t weight; /* of one sign: that of the dimension `sign` */
};

struct fp_aggregate {
    struct fp_profile *profile;
    struct fp_group *group; /* in the order of their first samples */
    size_t count, room;
    struct fp_table table;
    /* A tree of its own, without lines or with chains: the profile's node n is node map[n], whose
     * frame is a number of `names`; dso[name] is the text of the first frame with this name.
     * Otherwise `map` is NULL, and the tree is the profile's. */
    uint32_t *map, *dso;
    struct fp_node *node;
    size_t node_count, node_room, map_room, dso_room;
    struct fp_table nodes;
    struct fp_strings names;
};

/* A query by deltas gets the dimension `sign` as its innermost where it does not name it: growth
 * and release never cancel each other. Weights of 0 are left out. 0, FP_EFULL or FP_ENOMEM; free
 * the aggregate in any case. */
int fp_aggregate_make(struct fp_aggregate *sums, struct fp_profile *profile,
                      struct fp_query *query);
void fp_aggregate_free(struct fp_aggregate *sums);

/* Its tree only, without a sum. 0, FP_EFULL or FP_ENOMEM; free the aggregate in any case. */
int fp_aggregate_open(struct fp_aggregate *sums, struct fp_profile *profile,
                      const struct fp_query *query);
/* For chains.c, with a tree of its own: a frame, and a node. */
int fp_aggregate_name(struct fp_aggregate *sums, struct fp_slice symbol, struct fp_slice dso,
                      uint32_t *name);
int fp_aggregate_child(struct fp_aggregate *sums, uint32_t parent, uint32_t name, uint32_t *node);

/* The nodes of a group's stack, root first; their count. */
size_t fp_aggregate_stack(const struct fp_aggregate *sums, uint32_t node,
                          uint32_t nodes[FP_FRAMES_MOST]);
/* The symbol and the library or source file of a node of such a stack. */
struct fp_slice fp_aggregate_symbol(const struct fp_aggregate *sums, uint32_t node);
struct fp_slice fp_aggregate_dso(const struct fp_aggregate *sums, uint32_t node);
