/* walker.h - visits every object that terms of a process lead to, each once.
 *
 *      fp_xray_reach(&walker, term, 0, FP_XRAY_REGISTER, 0);   a root
 *      while (fp_xray_walk(&walker, 100000) == 0) ...          what is behind it
 *
 * Depth first, with a stack of its own: a list takes one entry of it however long it is, and the
 * last element of a container none. Deeper than that stack is left out, and counted.
 *
 * Memory that is no heap never makes it loop or read elsewhere: an object is visited once, lies
 * within its region, and all together have no more words than the regions. What cannot be an object
 * is FP_ETORN.
 *
 * Only atoms leave the heap: tags of tuples, keys of maps and of the dictionary. One thread. */
#pragma once

#include "erts/layout.h"
#include "xray/binaries.h"
#include "xray/heap.h"
#include "xray/paths.h"

struct fp_xray_entry;

struct fp_xray_walker {
    unsigned otp;
    const struct fp_memory *outside; /* keys of maps and names of records that are literals */
    struct fp_xray_heap *heap;
    struct fp_xray_paths paths;
    struct fp_xray_paths types; /* its nodes below 0: shapes; the shapes without room are in 0 */
    struct fp_xray_binaries binaries;
    struct fp_xray_entry *entry;
    uint32_t entries, entry_room, entry_limit;
    struct fp_xray_shape last_shape;
    uint32_t last_type;
    uint64_t words;    /* visited */
    uint64_t literals; /* references to what is in no region */
    uint64_t left_out; /* objects with all that is behind them */
};

struct fp_xray_walker_limits {
    uint32_t paths, types, entries;
    uint64_t binaries;
};

/* Bytes of its own that these limits take at most. */
uint64_t fp_xray_walker_bytes(const struct fp_xray_walker_limits *limits);

/* 0 or FP_ENOMEM. `heap` is set by the user. */
int fp_xray_walker_create(struct fp_xray_walker *walker, const struct fp_memory *memory,
                          const struct fp_memory *outside, unsigned otp,
                          const struct fp_xray_walker_limits *limits);
void fp_xray_walker_destroy(struct fp_xray_walker *walker);
void fp_xray_walker_clear(struct fp_xray_walker *walker);

/* A term, and the step that leads to it from a node of the paths. 0; FP_ETORN, FP_EFAULT,
 * FP_ENOMEM. */
int fp_xray_reach(struct fp_xray_walker *walker, uint64_t term, uint32_t from,
                  enum fp_xray_step step, uint64_t value);

/* {Key, Value}, or a list of these: a slot of the dictionary. As fp_xray_reach(). */
int fp_xray_reach_slot(struct fp_xray_walker *walker, uint64_t slot);

/* Visits on, some `objects` of them. 1: that is all; 0: there is more; or an error. */
int fp_xray_walk(struct fp_xray_walker *walker, uint32_t objects);
