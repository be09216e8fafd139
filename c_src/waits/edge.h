/* edge.h - what one process waits for, by copies of the top of its stack and of what its slots
 * point to. Called by waits.c; by itself for tests. Any thread that may use the walk's memory. */
#pragma once

#include "base/maps.h"
#include "erts/frames.h"
#include "erts/layout.h"
#include "erts/sites.h"
#include "erts/term/message.h"
#include "erts/term/walk.h"

/* X(how) */
/* clang-format off */
#define FP_WAIT_MAP(X) \
    X(unknown) \
    X(call) \
    X(monitor) \
    X(monitor_only) \
    X(named) \
    X(start) \
    X(port) \
    X(socket) \
    X(timer) \
    X(lock)
/* clang-format on */

enum fp_wait_how {
#define FP_WAIT_ENUM(name) FP_WAIT_##name,
    FP_WAIT_MAP(FP_WAIT_ENUM)
#undef FP_WAIT_ENUM
        FP_WAIT_HOWS
};

struct fp_wait {
    uint64_t pid;
    enum fp_wait_how how;
    /* FP_TERM_PID, FP_TERM_PORT, FP_TERM_REMOTE_PID; FP_TERM_ATOM: the lock's resource, or with
     * `name` the other node; all else: not known. */
    struct fp_term target;
    uint64_t name; /* atom that a process of another node was called by */
    int has_ref;
    struct fp_ref ref;
    struct fp_tag tag; /* of the request */
    uint64_t i;        /* where it waits */
};

/* Words of a stack's top that are copied, and frames that are looked at: a call's and its caller's
 * take some 12 of them. */
#define FP_TOP_WORDS 24u
#define FP_TOP_FRAMES 8u

/* What is read before the walk: the root of the monitors with its reference, which lies behind it;
 * the end of the heap, where the terms of a call are that was made just now; and the beginnings of
 * the terms that slots point to and that are not there. */
#define FP_TOP_ROOT_WORDS 18u
#define FP_TOP_TAIL_WORDS 24u
#define FP_TOP_TERM_WORDS 4u
#define FP_TOP_TERMS 3u

struct fp_top_term {
    uint64_t address;
    uint32_t words; /* 0: it could not be read */
    uint64_t word[FP_TOP_TERM_WORDS];
};

struct fp_top {
    uint64_t i;
    const struct fp_site *site; /* of `i`, or NULL */
    uint64_t monitors;          /* address of the monitor tree's root */
    uint64_t tail_at;           /* address of the tail */
    uint32_t words, root_words, tail_words;
    uint32_t is_cut; /* the stack has more */
    const uint64_t *word, *root, *tail;
    uint32_t frames;
    struct fp_stack_frame frame[FP_TOP_FRAMES];
    /* The nearest frame below the top that has what belongs to `site`, the request of a call or a
     * lock: its site, NULL for none, and what its slot holds, 0 for none. */
    const struct fp_site *lower;
    uint64_t lower_slot;
    uint32_t terms;
    struct fp_top_term term[FP_TOP_TERMS];
};

/* The copies that a process needs; the caller sets their addresses and sizes by the fields of its
 * structure, and 0 words for those that are not needed. */
struct fp_top_plan {
    int has_words, has_heap; /* stack; root and tail */
};
struct fp_top_plan fp_top_plan(const struct fp_top *top);

/* [heap, htop) is the heap. */
void fp_top_set_tail(struct fp_top *top, uint64_t heap, uint64_t htop);

/* Finds the frames. `i`, `site`, `words`, `is_cut` and `word` are set. */
void fp_top_frames(struct fp_top *top, const struct fp_ranges *code, const struct fp_sites *sites,
                   const uint8_t *is_valid);

/* Where `term` is to be read: what fp_top_edge() will walk on first. */
void fp_top_wanted(struct fp_top *top);

/* All but the pid. The walk is begun anew with these reads; where it has fewer at the end, it has
 * read memory. */
#define FP_TOP_READS 200u
void fp_top_edge(const struct fp_top *top, struct fp_walk *walk, struct fp_wait *wait);
