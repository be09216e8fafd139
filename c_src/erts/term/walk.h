/* walk.h - what a term of the VM is, read one level at a time.
 *
 * A walk reads terms behind words that its caller has copied: a slot of a stack, a message, an
 * entry of a queue. It reads heap memory by the safe read, never more than its budget, and tells
 * shapes and identifiers only:
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
 * (as for a stack: process structure read again, equal). A list or tuple that holds itself is no
 * matter: a walk goes where its caller goes. No allocation; any thread that may use its `memory`.
 *
 * Layouts: erl_term.h (of 64 bits, little endian), erl_node_tables.h ErlNode, external.c; textually
 * the same for these terms in OTP 25, 27 and 29:
 *
 *   tuple           arity << 6                 elements
 *   reference       2 << 6 | 0x10              0xffffffff n[0] n[1] n[2], of 32 bits; a magic one
 *                                              has an address there, which ends otherwise
 *   of an alias     3 << 6 | 0x10              the same, and the pid
 *   remote pid      3 << 6 | 0x30              ErlNode, next, number and serial, of 32 bits
 *   remote ref      (2 + words) << 6 | 0x38    ErlNode, next, how many numbers, numbers
 *   ErlNode         24: name   32: u32 creation
 *
 * The calibration looks at terms that it has made itself, on any release: what is not as above is
 * unreadable from then on (layout->terms, layout->remote_terms; looks_nif/calibrate_terms.c). */
#pragma once

#include <stdint.h>

#include "base/safe_read.h"
#include "erts/layout.h"

enum fp_term_kind {
    FP_TERM_OTHER,      /* small, big, float, binary, fun, map, record, remote port, magic ref */
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
 * as the monitor that it was made with; newer releases print its pid's two words before them. */
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

/* One read: so many words, or up to the end of the page. The bytes read beside the term are kept
 * for the next terms: the parts of a message usually lie together. */
#define FP_WALK_WORDS 32u

/* A part of memory that the caller has copied, from the address `at` on. */
struct fp_walk_copy {
    const uint64_t *word;
    uint64_t at;
    uint32_t words;
};
#define FP_WALK_COPIES 6u

struct fp_walk {
    const struct fp_memory *memory;
    const struct fp_layout *layout;
    uint32_t atoms;  /* number of atoms; an atom from there on is unreadable */
    uint32_t budget; /* reads left; at 0 all that is not at hand is unreadable */
    /* The kept bytes: those of the caller, and those of the last read. */
    uint32_t copies, near_words;
    struct fp_walk_copy copy[FP_WALK_COPIES];
    uint64_t near_at;
    uint64_t near[FP_WALK_WORDS];
};

/* `budget` reads. Reads the number of atoms, which costs none of them. */
void fp_walk_start(struct fp_walk *walk, const struct fp_memory *memory,
                   const struct fp_layout *layout, uint32_t budget);

/* For the next message or process: a new budget, and nothing at hand. */
void fp_walk_again(struct fp_walk *walk, uint32_t budget);

/* What the caller has copied already, from `address` (a multiple of 8) on: read there and not in
 * memory until fp_walk_again. `word` stays the caller's. Of one address the last copy counts. A
 * caller has at most FP_WALK_COPIES, which it asserts: one more is left out and read again. */
void fp_walk_copy(struct fp_walk *walk, uint64_t address, const uint64_t *word, uint32_t words);

/* The kind of `word`. Costs no read for what is immediate or at hand, else one, two for remote
 * terms; one more for an atom that is newer than the walk. */
void fp_walk_term(struct fp_walk *walk, uint64_t word, struct fp_term *term);

/* `n` words at `address`, valid until the next call of a walk; NULL: they cannot be read. No read
 * where they are at hand, else one. */
const uint64_t *fp_walk_words(struct fp_walk *walk, uint64_t address, uint32_t n);

/* Element `at` (0: the first; of a list cell 0 is the head, 1 the tail). FP_TERM_UNREADABLE for
 * one that is not there. */
void fp_walk_element(struct fp_walk *walk, const struct fp_term *tuple, uint32_t at,
                     struct fp_term *element);

/* Words of `n` elements from `from` on. 0 or FP_ENOENT. One read for FP_WALK_WORDS of them. */
int fp_walk_elements(struct fp_walk *walk, const struct fp_term *tuple, uint32_t from, uint32_t n,
                     uint64_t *word);

static inline int fp_ref_is_equal(const struct fp_ref *a, const struct fp_ref *b)
{
    return a->n[0] == b->n[0] && a->n[1] == b->n[1] && a->n[2] == b->n[2];
}
