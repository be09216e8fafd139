#include "erts/term/message.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"

const char *fp_message_kind_name(enum fp_message_kind kind)
{
#define KIND_NAME(name) #name,
    static const char *const names[] = {FP_MESSAGE_KIND_MAP(KIND_NAME)};
#undef KIND_NAME

    return (unsigned)kind < FP_MESSAGE_KIND_COUNT ? names[kind] : NULL;
}

void fp_tag_read(struct fp_walk *walk, uint64_t word, struct fp_tag *tag)
{
    struct fp_term term, first;

    *tag = (struct fp_tag){.shape = FP_SHAPE_OTHER};
    fp_walk_term(walk, word, &term);
    if (term.kind == FP_TERM_UNREADABLE)
        tag->shape = FP_SHAPE_UNKNOWN;
    if (term.kind == FP_TERM_ATOM)
        *tag = (struct fp_tag){word, 0, FP_SHAPE_ATOM};
    if (term.kind != FP_TERM_TUPLE || term.arity == 0)
        return;
    fp_walk_element(walk, &term, 0, &first);
    if (first.kind == FP_TERM_UNREADABLE)
        tag->shape = FP_SHAPE_UNKNOWN;
    if (first.kind == FP_TERM_ATOM)
        *tag = (struct fp_tag){first.word, term.arity, FP_SHAPE_TUPLE};
}

/* ---------------------------------------------------------------- From -- */

int fp_ref_read(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                struct fp_ref *ref)
{
    struct fp_term term, head;

    fp_walk_term(walk, word, &term);
    if (term.kind == FP_TERM_LIST) {
        fp_walk_element(walk, &term, 0, &head);
        if (head.kind == FP_TERM_LIST)
            fp_walk_element(walk, &head, 0, &head);
        if (head.kind == FP_TERM_UNREADABLE)
            return FP_EFAULT;
        if (head.kind != FP_TERM_ATOM || head.word != envelope->alias)
            return FP_ENOENT;
        fp_walk_element(walk, &term, 1, &term);
    }
    if (term.kind != FP_TERM_REF)
        return term.kind == FP_TERM_UNREADABLE ? FP_EFAULT : FP_ENOENT;
    *ref = term.ref;
    return 0;
}

/* 1: {Pid, Tag}, with the pid in *pid. */
static int read_from(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                     struct fp_message *message, struct fp_term *pid)
{
    struct fp_term term;
    uint64_t pair[2];

    fp_walk_term(walk, word, &term);
    if (term.kind == FP_TERM_UNREADABLE)
        return FP_EFAULT;
    if (term.kind != FP_TERM_TUPLE || term.arity != 2)
        return 0;
    if (fp_walk_elements(walk, &term, 0, 2, pair) != 0)
        return FP_EFAULT;
    fp_walk_term(walk, pair[0], pid);
    if (pid->kind == FP_TERM_UNREADABLE)
        return FP_EFAULT;
    if (pid->kind != FP_TERM_PID && pid->kind != FP_TERM_REMOTE_PID)
        return 0;
    message->from = pid->kind == FP_TERM_PID ? pid->word : 0;
    message->has_ref = fp_ref_read(walk, envelope, pair[1], &message->ref) == 0;
    return 1;
}

int fp_from_read(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                 struct fp_message *message)
{
    struct fp_term pid;

    return read_from(walk, envelope, word, message, &pid);
}

/* ----------------------------------------------------------- envelopes -- */

/* The required second element of an envelope. */
enum second { ANY, FROM_OR_ANY, FROM, REF, PID, PID_OR_PORT };

#define ELEMENTS_MAX 5u

/* Envelopes that begin with an atom. */
static const struct {
    size_t atom; /* in struct fp_envelopes */
    uint32_t arity;
    enum fp_message_kind kind;
    enum second second;
    uint32_t tag; /* element that is tagged */
} envelopes[] = {
    {offsetof(struct fp_envelopes, gen_call), 3, FP_MESSAGE_call, FROM_OR_ANY, 2},
    {offsetof(struct fp_envelopes, gen_cast), 2, FP_MESSAGE_cast, ANY, 1},
    {offsetof(struct fp_envelopes, notify), 2, FP_MESSAGE_event, ANY, 1},
    {offsetof(struct fp_envelopes, system), 3, FP_MESSAGE_system, FROM, 2},
    {offsetof(struct fp_envelopes, io_request), 4, FP_MESSAGE_io, PID, 3},
    {offsetof(struct fp_envelopes, DOWN), 5, FP_MESSAGE_down, REF, 0},
    {offsetof(struct fp_envelopes, EXIT), 3, FP_MESSAGE_exit, PID_OR_PORT, 0},
    {offsetof(struct fp_envelopes, timeout), 3, FP_MESSAGE_timer, REF, 2},
};

static uint64_t envelope_atom(const struct fp_envelopes *envelope, size_t offset)
{
    uint64_t atom;

    memcpy(&atom, (const char *)envelope + offset, sizeof atom);
    return atom;
}

/* 1; 0: it is something else; FP_EFAULT: it cannot be read. */
static int second_fits(struct fp_walk *walk, const struct fp_envelopes *envelope,
                       enum second second, uint64_t word, struct fp_message *message)
{
    struct fp_term term;

    if (second == ANY)
        return 1;
    if (second == FROM)
        return fp_from_read(walk, envelope, word, message);
    if (second == FROM_OR_ANY) {
        (void)fp_from_read(walk, envelope, word, message);
        return 1;
    }
    fp_walk_term(walk, word, &term);
    if (term.kind == FP_TERM_UNREADABLE)
        return FP_EFAULT;
    if (second == REF)
        return term.kind == FP_TERM_REF;
    return term.kind == FP_TERM_PID || term.kind == FP_TERM_REMOTE_PID ||
           (second == PID_OR_PORT && term.kind == FP_TERM_PORT);
}

/* 1: `word` are the elements of an envelope that begins with an atom. */
static int read_named(struct fp_walk *walk, const struct fp_envelopes *envelope,
                      const uint64_t *word, uint32_t arity, struct fp_message *message)
{
    for (size_t i = 0; i < sizeof envelopes / sizeof *envelopes; i++) {
        uint64_t atom = envelope_atom(envelope, envelopes[i].atom);
        int fits;

        if (atom == 0 || atom != word[0] || envelopes[i].arity != arity)
            continue;
        fits = second_fits(walk, envelope, envelopes[i].second, word[1], message);
        if (fits != 1)
            return fits;
        message->kind = envelopes[i].kind;
        if (message->kind == FP_MESSAGE_io) {
            message->from = fp_term_is_pid(word[1]) ? word[1] : 0;
            message->has_ref = fp_ref_read(walk, envelope, word[2], &message->ref) == 0;
        }
        fp_tag_read(walk, word[envelopes[i].tag], &message->tag);
        return 1;
    }
    return 0;
}

static int is_same_pid(const struct fp_term *a, const struct fp_term *b)
{
    return a->kind == b->kind &&
           (a->kind == FP_TERM_PID
                ? a->word == b->word
                : a->remote.node == b->remote.node && a->remote.creation == b->remote.creation &&
                      a->remote.number == b->remote.number && a->remote.serial == b->remote.serial);
}

/* {Pid, {Pid, Tag}, Request}: gen's call with the caller as the label. */
static int read_event_call(struct fp_walk *walk, const struct fp_envelopes *envelope,
                           const struct fp_term *label, const uint64_t *word,
                           struct fp_message *message)
{
    struct fp_term pid, request;
    uint64_t part[3] = {0}, tagged = word[2];
    int is_from = read_from(walk, envelope, word[1], message, &pid);

    if (is_from != 1 || !is_same_pid(label, &pid)) {
        message->from = 0;
        message->has_ref = 0;
        return is_from == FP_EFAULT ? FP_EFAULT : 0;
    }
    message->kind = FP_MESSAGE_call;
    fp_walk_term(walk, word[2], &request);
    if (request.kind == FP_TERM_TUPLE && (request.arity == 2 || request.arity == 3) &&
        fp_walk_elements(walk, &request, 0, request.arity, part) == 0) {
        if (request.arity == 2 && part[0] == envelope->sync_notify && part[0] != 0) {
            message->kind = FP_MESSAGE_event;
            tagged = part[1];
        } else if (request.arity == 3 && part[0] == envelope->call && part[0] != 0) {
            tagged = part[2];
        }
    }
    fp_tag_read(walk, tagged, &message->tag);
    return 1;
}

/* The envelopes that do not begin with an atom. */
static int read_unnamed(struct fp_walk *walk, const struct fp_envelopes *envelope,
                        const uint64_t *word, uint32_t arity, struct fp_message *message)
{
    struct fp_term first;
    int err;

    fp_walk_term(walk, word[0], &first);
    if (first.kind == FP_TERM_UNREADABLE)
        return FP_EFAULT;
    if (arity == 3 && (first.kind == FP_TERM_PID || first.kind == FP_TERM_REMOTE_PID))
        return read_event_call(walk, envelope, &first, word, message);
    if (arity != 2 || (first.kind != FP_TERM_REF && first.kind != FP_TERM_LIST))
        return 0;
    err = fp_ref_read(walk, envelope, word[0], &message->ref);
    if (err != 0)
        return err == FP_EFAULT ? FP_EFAULT : 0;
    message->kind = FP_MESSAGE_reply;
    message->has_ref = 1;
    message->tag.shape = FP_SHAPE_OTHER;
    return 1;
}

void fp_message_read(struct fp_walk *walk, const struct fp_envelopes *envelope, uint64_t word,
                     struct fp_message *message)
{
    uint64_t element[ELEMENTS_MAX];
    struct fp_term term;
    int found = 0;

    memset(message, 0, sizeof *message);
    fp_walk_term(walk, word, &term);
    if (term.kind == FP_TERM_UNREADABLE)
        return;
    if (term.kind == FP_TERM_TUPLE && term.arity >= 2 && term.arity <= ELEMENTS_MAX) {
        found = fp_walk_elements(walk, &term, 0, term.arity, element);
        if (found == 0)
            found = fp_term_is_atom(element[0])
                        ? read_named(walk, envelope, element, term.arity, message)
                        : read_unnamed(walk, envelope, element, term.arity, message);
    }
    if (found == 0) {
        fp_tag_read(walk, word, &message->tag);
        if (message->tag.shape != FP_SHAPE_UNKNOWN)
            message->kind = FP_MESSAGE_info;
    }
}
