/* message.h - what a message is: its envelope, its tag, who waits for the answer.
 *
 *   {'$gen_call', {Pid, Tag}, Request}    call    gen_server, gen_statem, Elixir's GenServer
 *   {'$gen_cast', Request}                cast    the same
 *   {notify | sync_notify | {..}, Event}  event   gen_event
 *   {system, {Pid, Tag}, Request}         system  sys
 *   {io_request, Pid, ReplyAs, Request}   io
 *   {'DOWN', ..}, {'EXIT', ..}            down, exit: the atom is the tag
 *   {timeout, Ref, Message}               timer: the tag is that of Message
 *   {Ref, Reply}, {[alias|Ref], Reply}    reply
 *   anything else                         info    the message itself is tagged
 *
 * A tag is an atom, or a tuple's first element that is an atom, with the tuple's arity; all other
 * requests are FP_SHAPE_OTHER. The supervisors' requests are calls with tags of their own. */
#pragma once

#include "erts/term/walk.h"

/* X(kind): in the order of the words of a file; never renumbered. */
#define FP_MESSAGE_KIND_MAP(X)                                                                     \
    X(unknown) X(call) X(cast) X(event) X(system) X(io) X(down) X(exit) X(timer) X(reply) X(info)

enum fp_message_kind {
#define FP_MESSAGE_KIND_ENUM(name) FP_MESSAGE_##name,
    FP_MESSAGE_KIND_MAP(FP_MESSAGE_KIND_ENUM)
#undef FP_MESSAGE_KIND_ENUM
        FP_MESSAGE_KIND_COUNT
};

const char *fp_message_kind_name(enum fp_message_kind kind);

enum fp_shape {
    FP_SHAPE_UNKNOWN, /* could not be read */
    FP_SHAPE_OTHER,   /* a term without a tag: a list, a map, a binary, {1, 2} ... */
    FP_SHAPE_ATOM,
    FP_SHAPE_TUPLE /* {atom, _ ...} of `arity` */
};

struct fp_tag {
    enum fp_shape shape;
    uint64_t atom;
    uint32_t arity;
};

struct fp_message {
    enum fp_message_kind kind;
    struct fp_tag tag;
    uint64_t from;     /* of a call: the caller's local pid, 0 for none or a remote one */
    int has_ref;       /* of a call or a reply: `ref` is the reference of the call */
    struct fp_ref ref; /* local ones only */
};

/* Atoms that envelopes begin with, as terms; found by their texts at load time of the library
 * (agent_nif), 0 for one that the VM does not have. */
#define FP_ENVELOPE_MAP(X)                                                                         \
    X(gen_call, "$gen_call") X(gen_cast, "$gen_cast") X(notify, "notify")                          \
    X(sync_notify, "sync_notify") X(system, "system") X(io_request, "io_request")                  \
    X(DOWN, "DOWN") X(EXIT, "EXIT") X(timeout, "timeout") X(alias, "alias")

struct fp_envelopes {
#define FP_ENVELOPE_FIELD(name, text) uint64_t name;
    FP_ENVELOPE_MAP(FP_ENVELOPE_FIELD)
#undef FP_ENVELOPE_FIELD
};

/* The tag of a request or of any message without envelope. */
void fp_tag_read(struct fp_walk *walk, uint64_t word, struct fp_tag *tag);

/* The envelope and the tag of a message. */
void fp_message_read(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                     struct fp_message *message);

/* The reference of From's tag, as gen makes it: Ref or [alias|Ref]. 0 or FP_ENOENT. */
int fp_ref_read(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                struct fp_ref *ref);
