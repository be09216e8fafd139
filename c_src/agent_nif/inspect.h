/*
 * inspect.h - one look at some processes, or at what the schedulers run: the same
 * code as the sampler's, without a session.
 *
 * A look is made, used and destroyed by one thread that may block, and waits
 * for schedulers' answers (some 0.2 s at most, each), unlike a sampler. Making one
 * reads what is known of the C libraries out of their files: see fp_inspect_open.
 */
#ifndef FP_AGENT_NIF_INSPECT_H
#define FP_AGENT_NIF_INSPECT_H

#include <stdint.h>

#include "agent_nif/library.h"
#include "cstack/cstack.h"
#include "erts/code_index.h"
#include "erts/process.h"
#include "erts/stack.h"

struct fp_inspect {
    int is_inside; /* fp_sigcapture_acquire */
    struct fp_memory peek;
    const struct fp_layout *layout;
    struct fp_ranges ranges;
    struct fp_code_index_index *code;
    struct fp_cstack *native; /* NULL: no C code is known */
    uint64_t *word;           /* FP_STACK_WORDS_MAX */
};

/* What was seen of one process. Figures below 0 are not known: the collector
 * was exchanging the heaps. */
struct sight {
    struct fp_snapshot snapshot;
    struct fp_stack stack;
    unsigned scheduler; /* which normal one ran it; 0: none, or not known */
};

/* 0; FP_ESTATE when there is no layout yet; FP_EIO, FP_EDENIED, FP_ENOMEM. Takes
 * some 6 ms on Debian 12, all but 1 ms of it for the libraries' unwind tables
 * and symbols; these are left out where no scheduler is registered. Give it to
 * fp_inspect_close in any case. */
int fp_inspect_open(struct fp_inspect *look, struct fp_library *library);
void fp_inspect_close(struct fp_inspect *look);

/* A process by its pid term. 0, FP_EGONE or FP_EFAULT. One that runs where it can
 * not be asked has the one frame FP_FRAME_RUNNING, one that kept changing
 * FP_FRAME_UNREADABLE. */
int fp_inspect_process(struct fp_inspect *look, uint64_t pid,
                       struct sight *sight);

/* What all schedulers run, asked within a millisecond. */
struct look_question {
    uint32_t ticket;
    int err; /* 0: asked; else what fp_inspect_poll will say */
};

/* question[0..fp_sigcapture_count()). Each asked one has to be answered. */
void fp_inspect_request_all(struct fp_inspect *look,
                            struct look_question *question);
/* 0; FP_ENOENT: it runs nothing; FP_ESTATE: it did not answer, it is not
 * registered or somebody else has asked it for long; FP_EGONE: what it ran is
 * no process any more. */
int fp_inspect_poll(struct fp_inspect *look, unsigned at,
                    const struct look_question *question, struct sight *sight);

/* All processes that run on dirty schedulers, but `self`. The whole process
 * table is walked, at 0.2 to 0.5 us a process. Calls `each` with pid terms. 0,
 * FP_EFAULT or FP_ENOMEM. */
int fp_inspect_dirty(struct fp_inspect *look, uint64_t self,
                     void (*each)(void *arg, uint64_t pid), void *arg);

#endif
