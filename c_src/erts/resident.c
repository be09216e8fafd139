#include "erts/resident.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/seccomp.h"

/* The smallest page there is. */
#define PAGES_MAX (FP_RESIDENT_MAX / 4096u + 1u)

uint64_t fp_resident_until(uint64_t from, uint64_t to, int *resident)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = from & ~(page - 1), at = start + page;
    unsigned char state[PAGES_MAX];

    if (to - from > FP_RESIDENT_MAX)
        to = from + FP_RESIDENT_MAX;
    *resident = 1;
    if (!fp_seccomp_allows(FP_CALL_MINCORE) ||
        mincore((void *)(uintptr_t)start, (size_t)(to - start), state) != 0)
        return to;
    *resident = state[0] & 1;
    while (at < to && (state[(at - start) / page] & 1) == *resident)
        at += page;
    return at < to ? at : to;
}
