/* smaps.h - the only parser of /proc/self/smaps: mappings with their resident memory.
 *
 * The kernel walks the pages of a mapping for it, with its lock on the mappings held for reading:
 * some milliseconds for each gigabyte. A dirty scheduler's work: it does I/O. */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct fp_smap {
    uint64_t start, end, rss; /* bytes */
    char perms[5];
    const char *name; /* as in maps; "": anonymous. Until the visit ends */
};

/* Visits each, in the order of addresses. 0 or FP_EIO. */
int fp_smaps_each(void (*visit)(void *arg, const struct fp_smap *map), void *arg);

/* For tests. */
void fp_smaps_parse(FILE *file, void (*visit)(void *arg, const struct fp_smap *map), void *arg);
