/* collections.h - how long collections of garbage took: all of them, minor and major ones, and by
 * process.
 *
 * A process has the place of its slot in the VM's table of processes. The next process there takes
 * the place, and with it goes what was known of the one before: those that ended are told by what
 * the sum of all processes lacks of all collections.
 *
 * THREADS  add: a scheduler, for its own thread number; no lock, no allocation. A process is
 *          collected by one thread at a time, so its place has one writer. The others: any
 *          thread. */
#pragma once

#include <stdint.h>

#include "base/histogram.h"

/* Of more slots than this, some share a place: the process that was collected last has it. */
#define FP_COLLECTIONS_PLACES_MAX (1u << 20)

struct fp_collections;

struct fp_collected {
    uint64_t pid;
    uint64_t minor, major, ns, longest_ns;
};

/* `slots`: of the table of processes. NULL: no memory. */
struct fp_collections *fp_collections_create(uint32_t threads, uint32_t slots);
void fp_collections_destroy(struct fp_collections *collections);

/* One that took `ns`, and stands for `times` of them. */
void fp_collections_add(struct fp_collections *collections, uint32_t thread, uint32_t slot,
                        uint64_t pid, int is_major, uint64_t ns, uint32_t times);

void fp_collections_lengths(const struct fp_collections *collections, int is_major,
                            struct fp_histogram_copy *lengths);

/* The processes whose collections took most of the time, the one with the most first: how many, at
 * most `most`. Reads all places: a dirty scheduler's work. */
uint32_t fp_collections_top(const struct fp_collections *collections, struct fp_collected *top,
                            uint32_t most);
