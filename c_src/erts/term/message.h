/* message.h - what a message is: its envelope, its tag, who waits for the answer.
 *
 *   {'$gen_call', {Pid, Tag}, Request}    call    gen_server, gen_statem, Elixir's GenServer
 *   {'$gen_cast', Request}                cast    the same
 *   {notify, Event}                       event   gen_event
 *   {Pid, {Pid, Tag}, {sync_notify, Event}}       event
 *   {Pid, {Pid, Tag}, {call, _, Request}}         call
 *   {Pid, {Pid, Tag}, Request}            call    gen_event's own: add_handler ...
 *   {system, {Pid, Tag}, Request}         system  sys
 *   {io_request, Pid, ReplyAs, Request}   io
 *   {'DOWN', Ref, _, _, _}                down    the atom is the tag
 *   {'EXIT', Pid or Port, _}              exit    the atom is the tag
 *   {timeout, Ref, Message}               timer   the tag is that of Message
 *   {Ref, Reply}, {[alias|Ref], Reply}    reply   without a tag: FP_SHAPE_OTHER
 *   anything else                         info    the message itself is tagged
 *
 * A tag is an atom, or a tuple's first element that is an atom, with the tuple's arity; all other
 * requests are FP_SHAPE_OTHER. The supervisors' requests are calls with tags of their own. The
 * texts of the tags: fp_atom_text.
 *
 * The envelopes' atoms are in the layout: pass `&layout->envelope`. Any thread; no allocation. */
#pragma once

#include "base/message_kinds.h"
#include "erts/term/walk.h"

/* "call"; NULL for a number that is none. */
const char *fp_message_kind_name(enum fp_message_kind kind);

struct fp_message {
    enum fp_message_kind kind; /* unknown: its envelope could not be read */
    struct fp_tag tag;
    uint64_t from;     /* who waits for the answer: a local pid; 0: none, or a remote one */
    int has_ref;       /* `ref` is the reference of the call that this is, or answers */
    struct fp_ref ref; /* local ones only */
};

/* Reads that one message may cost whose parts all lie apart; mostly it is one or two. */
#define FP_MESSAGE_READS 12u

/* The tag of a request or of any message without envelope. */
void fp_tag_read(struct fp_walk *walk, uint64_t word, struct fp_tag *tag);

/* The envelope and the tag of a message. */
void fp_message_read(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                     struct fp_message *message);

/* {Pid, Tag}, as gen makes it, into `from`, `has_ref` and `ref` (of a server's frame: From of
 * handle_call). 1; 0: it is none; FP_EFAULT: it cannot be read; then `message` is as it was. */
int fp_from_read(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                 struct fp_message *message);

/* The reference of From's tag, as gen makes it: Ref, [alias|Ref], or of gen_server:multi_call the
 * monitor's of [[alias|_]|Ref]. 0; FP_ENOENT: none, or a remote one; FP_EFAULT: it cannot be
 * read. */
int fp_ref_read(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                struct fp_ref *ref);
