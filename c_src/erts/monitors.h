/* monitors.h - what a process monitors: its monitor tree, in copies of memory.
 *
 *      struct process   common.u.alive.monitors -> ErtsMonLnkNode, a red-black tree by reference
 *      ErtsMonLnkNode   parent | right | left | other item | offset, key offset, flags and type
 *      ErtsMonitorData  origin node | target node or reference | reference | count [| name]
 *
 * Sources: erl_monitor_link.[ch] of 25.2.3, 27.3.4.1 and 29.1.1; the first words are a union
 * with a signal, which has a word more from OTP 27 on; the last word holds flags and type in 16
 * bits each up to OTP 27, in 32 bits together from 28 on. The offset in struct
 * process is behind that of the registered name in all of them (erl_ptab.h ErtsPTabElementCommon);
 * flame_prof_wait_sites compares the trees of probes with process_info/2 before it is relied on.
 *
 * The tree may turn while it is read: a walk is bounded, and what it tells is valid only where the
 * caller proves afterwards that the process has not run meanwhile. No allocation; any thread that
 * may use the walk's memory. */
#pragma once

#include "erts/layout.h"
#include "erts/term/walk.h"

/* X(type): ERTS_MON_TYPE_* in their order, the same in all listed releases. */
/* clang-format off */
#define FP_MONITOR_MAP(X) \
    X(process) \
    X(port) \
    X(time_offset) \
    X(dist_process) \
    X(dist_port) \
    X(resource) \
    X(node) \
    X(nodes) \
    X(suspend) \
    X(alias)
/* clang-format on */

enum fp_monitor_type {
#define FP_MONITOR_ENUM(name) FP_MONITOR_##name,
    FP_MONITOR_MAP(FP_MONITOR_ENUM)
#undef FP_MONITOR_ENUM
        FP_MONITOR_TYPES
};

struct fp_monitor {
    enum fp_monitor_type type;
    int is_origin; /* the process monitors; else it is what another node's process monitors */
    struct fp_ref ref;
    /* FP_TERM_PID, FP_TERM_PORT, FP_TERM_REMOTE_PID, or FP_TERM_ATOM for the node of a
     * process that is monitored by name there. */
    struct fp_term target;
    uint64_t name; /* atom that the process was monitored by; 0: none */
};

/* Nodes on the way to one reference; a red-black tree of 2^32 has 64. */
#define FP_MONITORS_DEPTH 64u

/* The monitor of the reference: 0; FP_ENOENT: there is none; FP_ETORN: what is there is no tree.
 * Reads: one a node, one for the node's reference, and what the target costs, of the walk's
 * budget. A `root` of 0 is an empty tree. */
int fp_monitors_find(struct fp_walk *walk, uint64_t root, const struct fp_ref *ref,
                     struct fp_monitor *monitor);

/* Calls `each` with the monitors, in no order, `most` nodes at most. How many nodes were visited;
 * FP_EFULL: the tree has more; FP_ETORN. */
int fp_monitors_each(struct fp_walk *walk, uint64_t root, uint32_t most,
                     void (*each)(void *arg, const struct fp_monitor *monitor), void *arg);
