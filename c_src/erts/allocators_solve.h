/* allocators_solve.h - finds the VM's allocators and the places of their counters (allocators.h).
 *
 * fp_allocators_find() looks for two arrays in the VM's data by their form: erts_allctr_thr_spec,
 * whose entries number themselves, and erts_allctrs_info, which points to it. No symbol is needed.
 * fp_allocators_solve() compares the instances with what erlang:system_info({allocator, A}) says
 * once: the offset of the statistics is the one at which all 170 words are equal in several
 * instances (erl_alloc_util.h, calls and CarriersStats_t). One offset, or a refusal. A
 * dirty scheduler's work: milliseconds. */
#pragma once

#include "erts/allocators.h"
#include "erts/layout_solve.h"

/* Erlang's numbers of an instance. */
struct fp_allocator_fact {
    enum fp_allocator allocator;
    uint32_t number;
    int has_pool, has_tree;
    uint64_t statistics[FP_STATISTICS_WORDS];
    uint64_t pool[FP_POOL_WORDS]; /* but for cp, an atom there and a number in memory */
};

/* 0, and *allocators, for free(); else the refusal's err. */
int fp_allocators_find(struct fp_allocators **allocators, const struct fp_memory *memory,
                       const struct fp_ranges *data, struct fp_refusal *refusal);

/* Finds the offsets. At least FP_ALLOCATORS_AGREE instances are to be equal to what Erlang says: an
 * instance at work differs. 0, or the refusal's err. */
#define FP_ALLOCATORS_AGREE 2u
int fp_allocators_solve(struct fp_allocators *allocators, const struct fp_memory *memory,
                        const struct fp_allocator_fact *fact, size_t facts,
                        struct fp_refusal *refusal);

/* NULL: there is none of that number. */
struct fp_allocator_instance *fp_allocators_instance(struct fp_allocators *allocators,
                                                     enum fp_allocator allocator, uint32_t number);

/* The parts. One thread, before the allocators are shared; milliseconds. */

/* Sets allocators->tree. In at least FP_ALLOCATORS_AGREE instances the tree has as many nodes as
 * the instance has multi-block carriers, each node in a carrier that says to belong to the
 * instance, and each with the largest size of what is below it. 0 or FP_ENOENT. */
int fp_free_trees_solve(struct fp_allocators *allocators, const struct fp_memory *memory);

/* The VM's numbers of an instance of fix_alloc: bytes of each type. */
struct fp_fix_fact {
    uint32_t number, types;
    uint64_t bytes[FP_FIX_TYPES_MAX];
};

/* Sets instance[].fix, fix_types, and of_processes to the given bits. All instances have to hold
 * lists of these types, most with the bytes that are said of them: an instance at work has others.
 * 0, FP_ENOENT or FP_EAMBIGUOUS. */
int fp_fix_solve(struct fp_allocators *allocators, const struct fp_memory *memory,
                 const struct fp_fix_fact *fact, size_t facts, uint32_t of_processes);

/* Sets allocators->super: where the VM's data have these four words. 0, FP_ENOENT or
 * FP_EAMBIGUOUS. */
int fp_super_carrier_solve(struct fp_allocators *allocators, const struct fp_memory *memory,
                           const struct fp_ranges *data, struct fp_super_carrier *fact);
