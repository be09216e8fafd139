/* walk.h - what a term of the VM is, read one level at a time.
 *
 * A walk reads terms behind words that somebody else has copied: a slot of a stack, a message, an
 * entry of a queue. It reads heap memory by the safe read, never deeper and never more than its
 * budget, and tells shapes and identifiers only:
 *
 *   atoms, local pids and ports     the word itself
 *   references, remote pids         their numbers, in a fixed structure
 *   tuples, lists                   that they are, and their elements as words to walk on
 *   all other terms                 FP_TERM_OTHER
 *
 * Values never leave: no integer, no float, no bytes of a binary, no closure, no map.
 *
 * The memory may change while it is read. A walk never fails harder than FP_TERM_UNREADABLE, and
 * what it tells is valid only where the caller has proved afterwards that the process has not moved
 * (as for a stack: process structure read again, equal). No allocation; any thread that may use its
 * `memory`. Layouts: erl_term.h, textually the same for these terms in OTP 25 to 29. */
#pragma once

#include <stdint.h>

#include "base/safe_read.h"
#include "erts/layout.h"

enum fp_term_kind {
    FP_TERM_OTHER,      /* small, big, float, binary, fun, map, record, magic reference */
    FP_TERM_UNREADABLE, /* no term, memory that cannot be read, or the budget is spent */
    FP_TERM_ATOM,       /* `word`; its index is below the number of atoms */
    FP_TERM_NIL,
    FP_TERM_PID,  /* local: `word` */
    FP_TERM_PORT, /* local: `word` */
    FP_TERM_REF,  /* `ref` */
    FP_TERM_REMOTE_PID,
    FP_TERM_REMOTE_REF,
    FP_TERM_TUPLE, /* `arity`, elements from `elements` on */
    FP_TERM_LIST   /* a cell: `elements` is the address of head and tail */
};

/* A local reference, as printed: #Ref<0.n[2].n[1].n[0]>. An alias's reference has the same numbers
 * as the monitor that it was made with. */
struct fp_ref {
    uint32_t n[3];
};

struct fp_remote {
    uint64_t node;     /* atom */
    uint32_t creation; /* of the node */
    uint32_t number, serial;
    struct fp_ref ref; /* of FP_TERM_REMOTE_REF */
};

struct fp_term {
    enum fp_term_kind kind;
    uint64_t word;     /* the term */
    uint64_t elements; /* address of the first element of a tuple, of a cell's head */
    uint32_t arity;    /* of a tuple */
    struct fp_ref ref;
    struct fp_remote remote;
};

/* What one walk may cost: reads of memory, each of at most FP_WALK_WORDS words. */
#define FP_WALK_WORDS 8u

struct fp_walk {
    const struct fp_memory *memory;
    const struct fp_layout *layout;
    uint32_t atoms;   /* number of atoms; an atom from there on is unreadable */
    uint32_t budget;  /* reads left; at 0 all further terms are unreadable */
};

/* `budget` reads. Reads the number of atoms, which costs none of them. */
void fp_walk_start(struct fp_walk *walk, const struct fp_memory *memory,
                   const struct fp_layout *layout, uint32_t budget);

/* What `word` is. Immediate terms cost nothing, others one read (remote ones two). */
void fp_walk_term(struct fp_walk *walk, uint64_t word, struct fp_term *term);

/* Element `at` (0: the first; of a list cell 0 is the head, 1 the tail). FP_TERM_UNREADABLE for
 * one that is not there. One read, and what the element costs. */
void fp_walk_element(struct fp_walk *walk, const struct fp_term *tuple, uint32_t at,
                     struct fp_term *element);

/* Words of `n` elements from `from` on. 0 or FP_ENOENT. One read for FP_WALK_WORDS of them. */
int fp_walk_elements(struct fp_walk *walk, const struct fp_term *tuple, uint32_t from, uint32_t n,
                     uint64_t *word);

static inline int fp_ref_is_equal(const struct fp_ref *a, const struct fp_ref *b)
{
    return a->n[0] == b->n[0] && a->n[1] == b->n[1] && a->n[2] == b->n[2];
}
