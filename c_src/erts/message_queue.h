/* message_queue.h - the signal queues of a process, as chains of nodes (erl_message.h).
 *
 *   inner    what it has fetched: messages, and markers between them
 *   middle   fetched too: messages and signals (exits, monitors, replies to an alias) still to be
 *            handled
 *   outer    what senders append to
 *   buffers  64 more of these where many send to a process with {message_queue_data, off_heap}
 *
 * A message is oldest first in this order; between buffers there is none. Each chain has a first
 * and a last node, and of most it is known how many messages it has: what leads from the one to the
 * other in just that number was the queue, whatever happens to it meanwhile. Nodes are appended
 * behind the last one, so those of a chain were all written before it was named.
 *
 * Nothing here is locked or asked. Any thread; no allocation. */
#pragma once

#include "base/page_cache.h"
#include "erts/layout_solve.h"

#define FP_QUEUE_BUFFERS 64u
#define FP_CHAINS_MAX (3u + FP_QUEUE_BUFFERS)

struct fp_chain {
    uint64_t first, last; /* nodes; both 0 for an empty one */
    int64_t messages;     /* how many it has; -1: not known */
};

/* Chains 0 to 2 are inner, middle, outer. */
struct fp_queues {
    struct fp_chain chain[FP_CHAINS_MAX];
    uint32_t chains;
    uint32_t state;         /* FP_PSFLG_* */
    int64_t fetched;        /* messages, -1: not known: of the inner and the middle queue (25), or
                               * of the inner one (27) */
    int fetched_has_middle; /* 25 */
    int buffers_unknown;    /* there are buffers, and they are not as expected */
    uint64_t i, reds, heap[3]; /* that it ran; that it collected: heap, old heap, minor GCs */
};

/* Of the process whose structure is at `address`. 0; FP_EGONE when it is that of another process by
 * now; FP_EFAULT; FP_ETORN when its queues were never the same twice. */
int fp_queues_read(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t pid,
                   uint64_t address, struct fp_queues *queues);

/* 1: it is on a scheduler, or works off signals. */
int fp_queues_run(const struct fp_queues *queues);

enum fp_node_kind {
    FP_NODE_MESSAGE,
    FP_NODE_UNDECODED, /* of another node, in the form that it came in: nothing but its node */
    FP_NODE_SIGNAL     /* no message */
};

struct fp_queue_node {
    uint64_t address, next;
    enum fp_node_kind kind;
    uint64_t term;
    uint64_t from;     /* pid or port of this node; an atom: the other node, or `system` ... */
    uint64_t fragment; /* -> its fragments; 0: its term is on the process's heap, or immediate */
    uint64_t attached; /* of these, what follows the one of a combined node */
    int is_combined;   /* with a fragment, behind it */
    uint64_t bytes;    /* that the node takes, with that fragment; 0: not known */
};

/* 0; FP_EFAULT; FP_ETORN for what cannot be a node. */
int fp_queue_node_read(struct fp_page_cache *cache, uint64_t address, struct fp_queue_node *node);

/* Where a node of messages that the process has taken leads to: its first fragment, 0 for none, and
 * the next node. 0; FP_EFAULT; FP_ETORN. */
int fp_queue_taken_read(struct fp_page_cache *cache, uint64_t address, uint64_t *fragment,
                        uint64_t *next);

/* Bytes of the fragments that are attached to it, 0 for none; FP_EFAULT or FP_ETORN below 0. */
int64_t fp_queue_fragments(struct fp_page_cache *cache, const struct fp_queue_node *node);

/* The probes' queues have what was sent to them, by the offsets of layout->release: NULL, or what
 * is not so. Part of calibration. */
const char *fp_queues_check(const struct fp_layout *layout, const struct fp_memory *memory,
                            const struct fp_solve_input *input);
