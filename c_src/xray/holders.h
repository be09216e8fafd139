/* holders.h - the refc binaries of this node, each once, by the processes and ETS tables that refer
 * to them.
 *
 *      process structure: off_heap.first -> object -> object -> ...     those of its heaps
 *                         wrt_bins -> object -> ...                     those that it appends to
 *      signal queues -> message -> fragment: off_heap.first -> ...      those of its messages
 *      table -> object: first -> object -> ...       those of its objects (erts/ets_objects.h)
 *                                    |
 *                                    Binary: references that the VM counts, size; and its block
 *
 * No process is asked or stopped. What is proved of a process: at two readings its lists began with
 * the same objects, its heaps lay where they did, its queues began with the same messages, and it
 * did not collect. So no object had left the lists, and their Binaries were alive in between. Where
 * that is not so the process is read again; after some attempts it counts as moved, and its row as
 * partial.
 *
 * Of a table: after its Binaries were read, each object that had some was linked as before, and had
 * the same words. Where that is not so they are read once more, each alone; then one is
 * inconsistent, and the table's row is partial, as where buckets were given up meanwhile, the table
 * has gone, or it had more objects, before and after, than were met: links lead elsewhere where a
 * tree is rebalanced or an object goes. Not seen: objects without a binary that change; as many met
 * twice as missed; a miss where the counter is decentralized; what held a link gone with its bytes
 * intact. Objects that a growing table moves to a later bucket are met twice: bytes stay what they
 * are, alone_bytes may be too many, elsewhere too few.
 *
 * In queues of ports, timers and literals nothing is looked for: a binary that is only there is not
 * found, and of one that is found it is known that the VM counts more references.
 *
 * One thread, which may pause for some ms; options->bytes of memory. */
#pragma once

#include "erts/ets_objects.h"
#include "xray/binaries.h"

struct fp_holders_options {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    uint64_t bytes; /* of its own memory */
    uint32_t time_ms;
    const uint64_t *pid; /* these only; NULL: all processes */
    uint32_t pids;
    /* NULL: tables are not looked at. With `pid` they never are. */
    const struct fp_ets *tables;
    const struct fp_ets_objects *objects;
};

/* Bytes are blocks of the allocator, with their headers. */
struct fp_holder {
    uint64_t pid; /* of a table 0 */
    uint64_t binaries, bytes;
    uint64_t alone_bytes; /* of those that nothing else refers to */
    uint64_t message_binaries,
        message_bytes; /* of those that messages refer to, its heaps do not */
    int is_partial;    /* it did not hold still, or has gone: it had these just before */
    uint32_t table;    /* 0: a process; or 1 more than its place in `tables` */
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
    struct fp_ets_list tables; /* those that were found, for their names */
    uint64_t tables_moved;     /* partial, inconsistent_objects in all */
    uint64_t tables_late;      /* that the time was over for, wholly or for a part */
    uint64_t tables_unread;    /* ordered sets with write_concurrency that are split */
    uint64_t inconsistent_objects;
};

/* 0 or an error: FP_EFULL, FP_ENOMEM. In each case fp_holders_free() is called afterwards. */
int fp_holders_look(const struct fp_holders_options *options, struct fp_holders *holders);
void fp_holders_free(struct fp_holders *holders);
