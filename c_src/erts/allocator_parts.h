/* allocator_parts.h - what lies beside the counters of an allocator: the tree of its carriers,
 * whose root tells the largest free block; the lists of blocks of fixed sizes, a part of
 * erlang:memory(processes); the sizes of the super carrier (+MMscs).
 *
 * Each place is found once, by comparing with what the VM says, or by a tree that proves itself:
 * one place, or FP_ENOENT, and the part stays unknown. The solving functions are for one thread,
 * before the allocators are shared, and take milliseconds; the reading ones are for any thread. */
#pragma once

#include "erts/allocators.h"

/* Sets allocators->tree. In at least FP_ALLOCATORS_AGREE instances the tree has as many nodes as
 * the instance has multi-block carriers, each node in a carrier that says to belong to the
 * instance, and each with the largest size of what is below it. 0 or FP_ENOENT. */
int fp_free_trees_solve(struct fp_allocators *allocators, const struct fp_memory *memory);

#define FP_FIX_TYPES_MAX 32u

/* ErtsAlcFixList_t. The second union is of instances that let go of no carriers. */
struct fp_fix_list {
    uint64_t type_size, list_size, list;
    uint64_t lengths, allocated, allocated_alone, used_alone;
    uint64_t type;
};

static inline uint64_t fp_fix_bytes(const struct fp_fix_list *list, int is_pooled)
{
    return list->type_size * (is_pooled ? list->allocated : list->allocated_alone);
}

/* What the VM says of an instance of fix_alloc: bytes of each type. */
struct fp_fix_fact {
    uint32_t number, types;
    uint64_t bytes[FP_FIX_TYPES_MAX];
};

/* Sets instance[].fix, fix_types, and of_processes to the given bits. All instances have to hold
 * lists of these types, most with the bytes that are said of them: an instance at work has others.
 * 0, FP_ENOENT or FP_EAMBIGUOUS. */
int fp_fix_solve(struct fp_allocators *allocators, const struct fp_memory *memory,
                 const struct fp_fix_fact *fact, size_t facts, uint32_t of_processes);
/* Bytes of the types of processes, of all instances. 0, FP_ENOENT (not known) or FP_EFAULT. */
int fp_fix_read(const struct fp_allocators *allocators, const struct fp_memory *memory,
                uint64_t *bytes);

struct fp_super_carrier {
    uint64_t size, used, used_aligned, used_unaligned; /* bytes */
};

/* Sets allocators->super: where the VM's data have these four words. 0, FP_ENOENT or
 * FP_EAMBIGUOUS. */
int fp_super_carrier_solve(struct fp_allocators *allocators, const struct fp_memory *memory,
                           const struct fp_ranges *data, const struct fp_super_carrier *fact);
/* 0, FP_ENOENT (there is none, or it is not known) or FP_EFAULT. */
int fp_super_carrier_read(const struct fp_allocators *allocators, const struct fp_memory *memory,
                          struct fp_super_carrier *carrier);
