/* holders.h - the refc binaries of all processes of this node, each once, by the processes that
 * refer to them.
 *
 *      process structure: off_heap.first -> object -> object -> ...     those of its heaps
 *                         wrt_bins -> object -> ...                     those that it appends to
 *      signal queues -> message -> fragment: off_heap.first -> ...      those of its messages
 *                                    |
 *                                    Binary: references that the VM counts, size; and its block
 *
 * No process is asked or stopped. What is proved of a process: at two readings its lists began with
 * the same objects, its heaps lay where they did, its queues began with the same messages, and it
 * did not collect. So no object had left the lists, and their Binaries were alive in between. Where
 * that is not so the process is read again; after some attempts it counts as moved, and its row as
 * partial.
 *
 * In the VM's tables, queues of ports, timers and literals nothing is looked for: a binary that is
 * only there is not found, and of one that is found it is known that the VM counts more references.
 *
 * One thread, which may pause for some ms; options->bytes of memory. */
#pragma once

#include "erts/layout.h"
#include "xray/binaries.h"

struct fp_holders_options {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    uint64_t bytes; /* of its own memory */
    uint32_t time_ms;
    const uint64_t *pid; /* these only; NULL: all processes */
    uint32_t pids;
};

/* Bytes are blocks of the allocator, with their headers. */
struct fp_holder {
    uint64_t pid;
    uint64_t binaries, bytes;
    uint64_t alone_bytes; /* of those that nothing else refers to */
    uint64_t message_binaries,
        message_bytes; /* of those that messages refer to, its heaps do not */
    int is_partial;    /* it did not hold still, or has exited: it had these just before */
};

struct fp_holders {
    struct fp_holder *holder;
    uint32_t holders, room;
    uint64_t processes;
    uint64_t moved;     /* processes that are partial, or not known at all */
    uint64_t late;      /* processes that the time was over for */
    uint64_t undecoded; /* messages of other nodes, whose binaries are not known */
    uint64_t unknown;   /* processes with buffers of senders that are not as expected */
    uint64_t guessed;   /* binaries whose block is calculated from their size */
    uint64_t elsewhere, elsewhere_bytes; /* found, and referred to by something else, too */
    uint64_t bytes;                      /* of table.used binaries */
    struct fp_xray_binaries table;
};

/* 0 or an error: FP_EFULL, FP_ENOMEM. In each case fp_holders_free() is called afterwards. */
int fp_holders_look(const struct fp_holders_options *options, struct fp_holders *holders);
void fp_holders_free(struct fp_holders *holders);
