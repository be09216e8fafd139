/* ets_objects.h - the objects of an ETS table, and what they have beside them, without asking.
 *
 *   set, bag, duplicate_bag
 *     DbTable: active, -> segments -> [256 buckets], [2,048 buckets], ...
 *              bucket i is word i % 2,048 of segment 0 (i < 256) or 1 + (i - 256) / 2,048
 *              bucket -> object {next, hash, first, ...} -> object -> NULL
 *   ordered_set
 *     DbTable: root -> object {left, right, balance, first, ...}
 *   ordered_set with write_concurrency
 *     DbTable: base -> node {1 (a byte), ..., root} -> object, as above
 *   first -> off-heap object -> ... -> NULL: binaries, references and others of the object's term;
 *            in a compressed table they need not be aligned
 *
 * Sources: erl_db_hash.[ch], erl_db_tree.h, erl_db_util.h, external.c of 25.2.3, 27.3.4.1 and
 * 29.1.1. Segments, and links at an object's start, are as there; the other places are looked for:
 * fp_ets_objects_solve() takes those by which the tables that Erlang made for it have just the
 * objects and binaries that it put there. One place, or a refusal with the field's name.
 *
 * Where many write to an ordered_set with write_concurrency (FP_ETS_CA_ORDERED_SET), nodes are put
 * between it and several trees: first bytes of 0. Such a table is not walked (is_split): none is
 * made for calibration, as that takes many that write.
 *
 * Nothing is locked: a walk meets objects that are deleted meanwhile. The caller reads the link of
 * an object again after its use: where the link still points to the object, and the words of the
 * object are the same, it was in the table, unless what holds the link has gone, too, with its
 * bytes intact, or two changes gave both back. In a table that grows, objects may be met twice. A
 * walk ends: it takes no more than `most` objects, and no buckets behind some that cannot be read.
 *
 * For any thread; 0.1 to 1 us an object. fp_ets_objects_solve() takes milliseconds. */
#pragma once

#include "erts/ets.h"

struct fp_ets_objects {
    uint16_t active, segments, root, base; /* in a DbTable */
    uint16_t root_of_base;                 /* in a node */
    uint16_t first_of_hash, first_of_tree; /* word of an object: its first off-heap object */
};

/* A table made for calibration: what Erlang put there. */
struct fp_ets_objects_fact {
    uint64_t binary;   /* the table's magic binary: fp_ets_binary() */
    uint64_t buckets;  /* in use; 0: an ordered_set */
    int is_concurrent; /* an ordered_set with write_concurrency */
    uint64_t objects;
    uint64_t binaries, sum; /* how many, and fp_ets_objects_sum() of the address of each */
};

uint64_t fp_ets_objects_sum(uint64_t binary);

/* Facts: hash tables with at least two numbers of buckets, and both kinds of trees; small ones
 * first. Too few leave more than one place. 0, or the refusal's err. */
int fp_ets_objects_solve(struct fp_ets_objects *objects, const struct fp_ets *tables,
                         const struct fp_memory *memory, unsigned otp,
                         const struct fp_ets_objects_fact *fact, uint32_t facts,
                         struct fp_refusal *refusal);

#define FP_ETS_OBJECT_WORDS 4u
#define FP_ETS_WALK_BATCH 64u
#define FP_ETS_WALK_LINKS 4096u /* of a tree of 2^40 objects: 64 x 58 */

struct fp_ets_link {
    uint64_t at; /* where the pointer is */
    uint64_t object;
};

struct fp_ets_object {
    struct fp_ets_link link;
    uint64_t word[FP_ETS_OBJECT_WORDS];
    uint64_t first; /* off-heap object, or 0 */
};

struct fp_ets_walk {
    const struct fp_ets_objects *where;
    const struct fp_memory *memory;
    uint64_t table;
    uint64_t most; /* objects */
    uint64_t slot, active;
    uint64_t walked; /* objects */
    uint64_t lost;   /* links and buckets that could not be followed */
    int is_tree, is_concurrent;
    int has_shrunk, is_split;
    uint32_t links, objects;
    struct fp_ets_link link[FP_ETS_WALK_LINKS];
    struct fp_ets_object object[FP_ETS_WALK_BATCH];
    struct fp_safe_read_span span[FP_ETS_WALK_BATCH];
};

void fp_ets_walk_begin(struct fp_ets_walk *walk, const struct fp_ets_objects *where,
                       const struct fp_memory *memory, const struct fp_ets_table *table);

/* The next objects, walk->object[0 .. walk->objects). 0: there are no more. */
uint32_t fp_ets_walk_next(struct fp_ets_walk *walk);

/* Reads what is at the link of object k now; `first` is 0 where nothing is. 0 or FP_EFAULT. */
int fp_ets_walk_again(struct fp_ets_walk *walk, uint32_t k);
