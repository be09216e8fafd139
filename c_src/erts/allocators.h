/* allocators.h - what the VM's allocators have: carriers (memory taken from the system) and blocks
 * (memory given out), of each instance, read from its Allctr_t; and the parts beside its counters:
 * the tree of carriers, whose root has the largest free block, the lists of blocks of fixed sizes,
 * the sizes of the super carrier (+MMscs). No scheduler is asked.
 *
 * allocators_solve.h finds each of them, or a part stays unknown.
 *
 * The numbers of an instance are copied at once, but its scheduler may be between two of them:
 * blocks and carriers are then one allocation apart. Nothing is cached but the addresses, which
 * stay until the VM ends.
 *
 * Any thread. */
#pragma once

#include "base/maps.h"
#include "base/safe_read.h"
#include "erts/layout.h"

/* In the order of erl_alloc.types, from ERTS_ALC_A_MIN on, which is 1. */
/* clang-format off */
#define FP_ALLOCATOR_MAP(X) \
    X(sys_alloc) \
    X(temp_alloc) \
    X(sl_alloc) \
    X(std_alloc) \
    X(ll_alloc) \
    X(eheap_alloc) \
    X(ets_alloc) \
    X(fix_alloc) \
    X(literal_alloc) \
    X(binary_alloc) \
    X(driver_alloc) \
    X(test_alloc)
/* clang-format on */

enum fp_allocator {
#define FP_ALLOCATOR_ENUM(name) FP_ALLOCATOR_##name,
    FP_ALLOCATOR_MAP(FP_ALLOCATOR_ENUM)
#undef FP_ALLOCATOR_ENUM
        FP_ALLOCATOR_COUNT
};

/* Words of CarriersStats_t: carriers by mseg, by sys_alloc and a third that is 0, their maximum,
 * their maximum ever, each {number, bytes}; then for the blocks of each allocator {number, bytes}
 * now, maximum, maximum ever. */
#define FP_CARRIERS_WORDS (10u + 6u * FP_ALLOCATOR_COUNT)
/* Calls of mseg_alloc, mseg_dealloc, mseg_realloc, sys_alloc, sys_free, sys_realloc. */
#define FP_CALLS_WORDS 6u
/* The calls, then the words of the single-block carriers and of the multi-block carriers. */
#define FP_STATISTICS_WORDS (FP_CALLS_WORDS + 2u * FP_CARRIERS_WORDS)
/* Of the pool of abandoned carriers: the options acul, acful, acnl, acfml and cp; bytes of blocks
 * by allocator, their numbers; bytes and number of carriers; eleven counters. */
#define FP_POOL_OPTIONS 5u
#define FP_POOL_WORDS (FP_POOL_OPTIONS + 2u * FP_ALLOCATOR_COUNT + 2u + 11u)

struct fp_allocator_instance {
    uint64_t address;  /* of its Allctr_t */
    uint64_t fix;      /* of its lists of blocks of fixed sizes, by fp_fix_solve(); 0: none */
    uint16_t number;   /* 0: of all threads without one of their own */
    uint8_t allocator; /* enum fp_allocator */
    uint8_t is_pooled; /* it lets go of carriers */
    uint8_t has_tree;  /* its strategy is one of address order first fit: aoff, ageff */
};

/* Halves of words in a node of the tree of carriers behind its four pointers, of which one is the
 * size of the largest free block. */
#define FP_TREE_NODE_WORDS 6u

struct fp_allocators {
    uint32_t statistics, pool;
    int has_pool;   /* 0: no instance migrates carriers, or their numbers were not found */
    uint32_t lists; /* of carriers, by fp_carriers_solve(); 0: not known */
    /* Parts; 0: not known. */
    uint32_t tree;         /* where an instance with a tree has the tree's root */
    uint32_t tree_max;     /* in a node: see FP_TREE_NODE_WORDS */
    uint32_t fix_types;    /* of an instance's lists */
    uint32_t of_processes; /* a bit for each of these types that erlang:memory(processes) counts */
    uint64_t super;        /* address of the super carrier's sizes */
    uint32_t count;
    struct fp_allocator_instance instance[];
};

struct fp_carriers_figures {
    uint64_t mseg_carriers, mseg_bytes, sys_carriers, sys_bytes;
    uint64_t blocks, blocks_bytes;
};

struct fp_allocator_figures {
    int err;                    /* 0, or FP_EFAULT: nothing else is set but whose they are */
    int has_largest_free;       /* 0: another strategy, or the tree changed during each attempt */
    uint64_t allocator, number; /* first of the words that flame_prof_allocators gets */
    struct fp_carriers_figures multi, single;
    /* In the pool: made by this instance, used by none now. */
    uint64_t pool_carriers, pool_bytes, pool_blocks, pool_blocks_bytes;
    /* Calls that took a carrier from the system or gave one back. */
    uint64_t taken, given_back;
    /* Bytes of the largest free block in the multi-block carriers that it uses. */
    uint64_t largest_free;
};

/* Of the instances [from, to), in their order; some 500 ns for each. How many could be read, or
 * FP_ENOMEM. */
int fp_allocators_read(const struct fp_allocators *allocators, const struct fp_memory *memory,
                       uint32_t from, uint32_t to, struct fp_allocator_figures *figures);

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

/* Bytes of the types of processes, of all instances. 0, FP_ENOENT (not known) or FP_EFAULT. */
int fp_fix_read(const struct fp_allocators *allocators, const struct fp_memory *memory,
                uint64_t *bytes);

struct fp_super_carrier {
    uint64_t size, used, used_aligned, used_unaligned; /* bytes */
};

/* 0, FP_ENOENT (there is none, or it is not known) or FP_EFAULT. */
int fp_super_carrier_read(const struct fp_allocators *allocators, const struct fp_memory *memory,
                          struct fp_super_carrier *carrier);
