/* rss.h - what the resident memory of this OS process is: /proc/self/smaps by kind of mapping, and
 * inside of anonymous mappings the pages that carriers and malloc's own mappings cover.
 *
 * A mapping may hold carriers beside other memory, since the kernel joins neighbours: its resident
 * pages are told by mincore(2), and each belongs to the carrier that it lies in. What else begins
 * at the start of a page is recognized by its head: a chunk that malloc() mapped for itself by its
 * size and flag (glibc), a carrier that is in no list any more by its size and by the address of
 * its allocator.
 *
 * A dirty I/O scheduler's work: some milliseconds for each gigabyte. */
#pragma once

#include "erts/carriers.h"

#define FP_RSS_MAP(X)                                                                              \
    X(executable) /* beam.smp: its code and data */                                                \
    X(files)      /* libraries and other mapped files */                                           \
    X(code)       /* what the JIT wrote, in both of its mappings */                                \
    X(stacks)     /* of threads, where a guard page is below them */                               \
    X(carriers)                                                                                    \
    X(cached) /* carriers that were given back: the VM keeps their memory for the next ones */     \
    X(malloc) /* heap, arenas and single mappings, less the carriers in them */                    \
    X(other)  /* anonymous memory that is none of these */

enum fp_rss_kind {
#define FP_RSS_ENUM(name) FP_RSS_##name,
    FP_RSS_MAP(FP_RSS_ENUM)
#undef FP_RSS_ENUM
        FP_RSS_COUNT
};

struct fp_rss {
    uint64_t bytes[FP_RSS_COUNT]; /* resident; their sum is the process's */
    int has_carriers;             /* 0: they are in malloc and other */
};

/* `carriers`: of these allocators; NULL: not known. 0, FP_EIO or FP_ENOMEM. */
int fp_rss_read(const struct fp_memory *memory, const struct fp_allocators *allocators,
                const struct fp_carriers *carriers, struct fp_rss *rss);
