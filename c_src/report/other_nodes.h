/* other_nodes.h - what processes of another node did at a moment, where its files are in the
 * profile, too.
 *
 * The moment is a time of one node's file, the answer is of the other node's tick that is nearest
 * by the times of its own files: as exact as the two clocks agree (doc/format.md, time). A tick
 * holds for the shorter of the times to its neighbours, and no longer.
 *
 * Not shared between threads. */
#pragma once

#include "report/profile.h"
#include "report/table.h"

/* A sample of a tick. */
struct fp_node_sample {
    uint32_t process, stack, words;
};

struct fp_node_tick {
    int64_t time_us;
    uint32_t node, file;
    uint32_t count; /* of samples */
    size_t first;   /* its samples, by process, in fp_other_nodes.sample */
};

/* The targets of a word `waits_for`: `b@host/<0.71.0>`, `b@host/audit_log`. */
struct fp_node_target {
    uint32_t node;         /* 0: its files are not in the profile, or it is a text without a node */
    uint32_t first, count; /* processes of any node that may be it, in fp_other_nodes.process */
};

struct fp_other_nodes {
    struct fp_profile *profile;
    struct fp_node_target *target; /* by words */
    size_t target_room;
    uint32_t *process;
    size_t process_count, process_room;
    struct fp_table names;     /* all processes, by name and by pid; of the first target on */
    struct fp_node_tick *tick; /* by node, then by time; those of nodes that are waited for */
    size_t tick_count, tick_room;
    struct fp_node_sample *sample;
    size_t sample_count, sample_room;
};

/* Notes the node of a file, of the words of the profiler's own process. 0, FP_EFULL or
 * FP_ENOMEM. */
int fp_file_note_node(struct fp_profile *profile, struct fp_file *file,
                      const struct fp_process *own);
/* False: the last file and another one are of two nodes with one number of their OS processes, at
 * the same time: processes of both are one. Their nodes are not known any more. */
bool fp_file_is_told_apart(struct fp_profile *profile);

/* 0, FP_EFULL or FP_ENOMEM. Close it in any case. */
int fp_other_nodes_open(struct fp_other_nodes *nodes, struct fp_profile *profile);
void fp_other_nodes_close(struct fp_other_nodes *nodes);

/* The tick of this node at a time, or NULL. */
const struct fp_node_tick *fp_other_nodes_tick(const struct fp_other_nodes *nodes, uint32_t node,
                                               int64_t time_us);
/* The sample of a process in a tick, or NULL. */
const struct fp_node_sample *fp_other_nodes_sample(const struct fp_other_nodes *nodes,
                                                   const struct fp_node_tick *tick,
                                                   uint32_t process);
