/* fresh.h - how many words a process has allocated since its last collection.
 *
 * That is what the VM's own counting of allocation adds up (beam_bp.c, `call_memory`):
 *
 *      heap         high_water           htop            stop         hend
 *      | survived    | allocated since    |    free       | stack      |     + fragments (mbuf)
 *
 * A process whose heap is abandoned (abandoned.h) goes on in a fragment, whose words count, too.
 *
 * If the words contradict each other, nothing is reported. Any thread. */
#pragma once

#include "erts/layout.h"

struct fp_fresh {
    uint64_t words;    /* allocated since the last collection, fragments with them */
    uint64_t fragment; /* of these, the words of fragments: messages, what the heap did not hold */
    uint64_t live;     /* words of the heap, fragments and the old heap: what a major one copies */
    uint64_t survived; /* words up to the high water */
    uint64_t heap;     /* address */
    uint64_t stop, hend, i;
    uint8_t binaries;     /* off-heap binaries ask for a collection */
    uint8_t is_abandoned; /* `stop` and `hend` are not of the heap at `heap` */
};

/* Of the process `pid` whose structure is at `address`. 0; FP_EGONE: another one's; FP_EFAULT;
 * FP_ETORN: the words do not fit each other, as the process runs or the layout is another. One
 * read; of an abandoned heap, two or three. */
int fp_fresh_read(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t address,
                  uint64_t pid, struct fp_fresh *fresh);

/* The same of a structure that was read. */
int fp_fresh_decode(const struct fp_layout *layout, const struct fp_memory *memory,
                    const unsigned char *structure, struct fp_fresh *fresh);
