/* resident.h - which pages are in memory.
 *
 * The JIT reserves more than it fills, and a read of an unused page allocates it: 60 MB for all of
 * its memory. A page that holds code is resident, unless it is swapped out.
 *
 * Any thread; one system call each, no allocation. */
#pragma once

#include <stdint.h>

/* As much as one call takes. */
#define FP_RESIDENT_MAX (256u << 10)

/* Are the pages from `from` on resident, and up to where is that so: an address in (from, to], at
 * most FP_RESIDENT_MAX further. An address without a mapping of this process (a fake memory, or one
 * that is gone) counts as resident: a read of it fails. */
uint64_t fp_resident_until(uint64_t from, uint64_t to, int *resident);
