/* parts.h - sums by function and key, of a fixed number of keys: callers, or processes; and the
 * buckets of base/histogram.h that their times are in.
 *
 * All threads have the same numbers of keys, which they only read once a key is there. Each has
 * sums and counts of its own, which the reader adds: no cache line of them has two writers, but
 * for a count that the reader takes.
 *
 * Few buckets of a part are in use: all parts of a thread share one table of counts, a word each.
 * Where it is full, a time is missing in the buckets of its part, and counted.
 *
 * THREADS  find: any; add: the thread of that number. No lock, no allocation. drain_*, missing: one
 *          at a time, beside the others. Two threads that find a new key at once may make two
 *          entries of it: the reader adds. A call whose entry is found before its key makes room,
 *          and that is added afterwards, may count for the next key of that entry: only a call
 *          of a process that does not live. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define FP_PARTS ((size_t)1 << 14)
#define FP_PARTS_PROBES ((size_t)16)
/* Of what finds no room: an entry for each function. */
#define FP_PARTS_OTHERS ((size_t)64)

/* Words of half a megabyte; they are free again each time they are read. */
#define FP_PARTS_COUNTS_BITS 16
#define FP_PARTS_COUNTS ((size_t)1 << FP_PARTS_COUNTS_BITS)

struct fp_latency_part;
struct fp_latency_bucket;

struct fp_part_name {
    _Atomic uint32_t state; /* of parts.c */
    _Atomic uint32_t function;
    _Atomic uint64_t key[3];
};

/* Since the beginning, but for the longest. */
struct fp_part_sums {
    _Atomic uint64_t calls, total_ns, own_ns, max_ns;
};

/* What a thread has added. It alone writes sums, but for max_ns, which the reader takes. */
struct fp_parts_thread {
    _Alignas(128) _Atomic uint64_t is_used; /* 0: nothing else need be read */
    _Atomic uint64_t missing;               /* times, in `counts' */
    struct fp_part_sums sums[FP_PARTS + FP_PARTS_OTHERS];
    _Atomic uint64_t counts[FP_PARTS_COUNTS];
};

/* In pages that are all 0; what is never written takes no memory. */
struct fp_parts {
    uint32_t thread_count;
    struct fp_part_name names[FP_PARTS];
    struct {
        uint64_t calls, total_ns, own_ns;
    } told[FP_PARTS + FP_PARTS_OTHERS]; /* by the reader */
    struct fp_parts_thread threads[];
};

/* Of so many threads, at least 1. */
static inline size_t fp_parts_bytes(uint32_t threads)
{
    return sizeof(struct fp_parts) + threads * sizeof(struct fp_parts_thread);
}

/* The number of its entry. `function' < FP_PARTS_OTHERS. */
uint32_t fp_parts_find(struct fp_parts *parts, uint32_t function, const uint64_t key[3]);
void fp_parts_add(struct fp_parts *parts, uint32_t thread, uint32_t part, uint64_t ns,
                  uint64_t own_ns);
/* Times without room in the buckets. */
uint64_t fp_parts_missing(const struct fp_parts *parts);
/* What came since the last time, to be called before drain_parts: that may give a part to another
 * key. The same bucket may be told twice. */
void fp_parts_drain_buckets(struct fp_parts *parts,
                            void (*each)(void *with, const struct fp_latency_bucket *bucket),
                            void *with);
/* What came since the last time. `lives' may be NULL: every entry stays. Else an entry without new
 * calls whose key does not live makes room. */
void fp_parts_drain_parts(struct fp_parts *parts,
                          void (*each)(void *with, const struct fp_latency_part *part),
                          int (*lives)(void *with, uint64_t key), void *with);
