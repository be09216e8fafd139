/* mailbox.h - what lies in a mailbox: how many messages, of which senders and tags.
 *
 * The process is not asked, and nothing of it is locked: its queues are read along their chains
 * (erts/message_queue.h) while it may take messages out and others append. An answer is about the
 * moment at which it began:
 *
 *   - the chains were copied before, twice alike; what is appended later is not in them
 *   - after each CHUNK of messages its oldest message is looked up among those that were read: what
 *     lies behind it was in the queue while it was read. Messages that were taken at that moment
 *     are `doubtful`, and not counted
 *   - where the oldest is none of them, or cannot be found, where the process has collected (its
 *     messages may have moved), or where a chain does not end where it should: it begins again, a
 *     limited number of times. Then the answer is what was told until there, and not complete.
 *
 * Messages are told apart by their addresses. While the process does not run, that is certain: it
 * frees none. Once it runs (`has_run`) it may free a message, and a later one may get its address:
 * the counts then are as far as addresses tell, and never complete.
 *
 * One thread at a time, which may take milliseconds a step, and pauses. 3.7 MB and 4 bytes a
 * message, beside the window of `memory` (1 MB). */
#pragma once

#include "erts/message_queue.h"
#include "erts/term/message.h"
#include "waits/tally.h"

#define FP_MAILBOX_OLDEST_MAX 100u

struct fp_mailbox_tag {
    enum fp_message_kind kind;
    struct fp_tag tag;
};

struct fp_mailbox_message {
    uint64_t from; /* pid or port of this node; an atom; 0 */
    struct fp_mailbox_tag is;
};

struct fp_mailbox_answer {
    uint64_t messages;   /* that were in the queue, each read whole (but see `has_run`) */
    uint64_t undecoded;  /* of them from other nodes, and not decoded yet: no tag */
    uint64_t signals;    /* beside them: exits, monitors, replies to an alias, not yet handled */
    uint64_t taken;      /* of the oldest, by the process, during the look */
    uint64_t doubtful;   /* taken while they were read: counted nowhere else */
    uint64_t bytes;      /* of messages outside of the heap: structures, fragments */
    uint64_t on_heap;    /* messages whose terms are on the process's heap */
    int64_t expected;    /* messages by the process's own counters; -1: they do not tell */
    int is_complete;     /* `messages` are all that were there when it began */
    int has_moved;       /* the process ran, or messages came or went, meanwhile */
    int has_run;         /* the process ran while messages were read: see above */
    int has_ended;       /* all was read that was there when it began */
    int buffers_unknown; /* messages in senders' buffers that could not be read */
    uint32_t attempts;
    int err; /* FP_EGONE: the process exited meanwhile; FP_ETORN: it moved too fast */
    struct fp_tally senders, tags; /* sorted; of `tags` see fp_mailbox_tag_of() */
    uint32_t oldest_count;
    struct fp_mailbox_message oldest[FP_MAILBOX_OLDEST_MAX];
};

struct fp_mailbox;

struct fp_mailbox_limits {
    uint32_t oldest;   /* messages to tell, FP_MAILBOX_OLDEST_MAX at most */
    uint32_t time_ms;  /* of reading, until it is told what was certain by then */
    uint64_t messages; /* at most */
};

/* A look at the mailbox of a process of this node. 0, FP_EGONE, FP_EFAULT, FP_ENOMEM. `layout` and
 * `memory` must outlive it. */
int fp_mailbox_open(struct fp_mailbox **mailbox, const struct fp_layout *layout,
                    const struct fp_memory *memory, uint64_t pid,
                    const struct fp_mailbox_limits *limits);
void fp_mailbox_close(struct fp_mailbox *mailbox);

/* Reads some more, some `nodes` of them. 1: that was all, the answer stands. */
int fp_mailbox_step(struct fp_mailbox *mailbox, uint32_t nodes);
const struct fp_mailbox_answer *fp_mailbox_answer(const struct fp_mailbox *mailbox);

struct fp_mailbox_tag fp_mailbox_tag_of(const struct fp_tally_row *row);
