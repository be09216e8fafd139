/*
 * resident.h - which pages are there without asking for them.
 *
 * The JIT reserves more than it fills. To read a page of its memory that nothing was put in is to
 * have it allocated: 60 MB for a look at everything. Pages that hold code are resident, but for
 * those that were swapped out.
 *
 * Any thread; one system call each, no allocation.
 */
#ifndef FP_ERTS_RESIDENT_H
#define FP_ERTS_RESIDENT_H

#include <stdint.h>

/* As much as one call takes. */
#define FP_RESIDENT_MAX (256u << 10)

/* Where the bytes from `from` on change from resident to not, or back: an address in (from, to],
 * and in *resident what they are up to there. Looks no further than FP_RESIDENT_MAX. What is no
 * mapping of ours (a fake memory, or one that has vanished) counts as resident: reading it will
 * tell. */
uint64_t fp_resident_until(uint64_t from, uint64_t to, int *resident);

/* Are all pages of [from, to)? */
int fp_is_resident(uint64_t from, uint64_t to);

#endif
