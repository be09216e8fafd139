/* stack_copy.h - the stack of a process that is off CPU, copied and verified by its structure. Any
 * thread; allocates nothing. */
#pragma once

#include "base/safe_read.h"
#include "erts/dictionary.h"
#include "erts/stack.h"

/* Many are copied at once, or one. */
struct fp_stack_copy {
    uint64_t address;          /* of the process structure */
    struct fp_snapshot before; /* the structure before the stack is copied */
    uint32_t words, leaf_words;
    uint64_t *word;       /* room for `words`, or where they are */
    unsigned char *again; /* likewise, for the structure after it */
    struct fp_dictionary dictionary;
};

/* All but `word` and `again`, which the caller sets. */
void fp_stack_copy_plan(struct fp_stack_copy *copy, uint64_t address,
                        const struct fp_snapshot *before);

/* The reads, in this order: the stack's ends, the dictionary's header, the structure. How many: up
 * to FP_STACK_COPY_SPANS, the same at each call. */
#define FP_STACK_COPY_SPANS 4u
uint32_t fp_stack_copy_spans(struct fp_stack_copy *copy, const struct fp_layout *layout,
                             struct fp_safe_read_span *span);

/* After fp_safe_read_view(): where the bytes are. */
void fp_stack_copy_found(struct fp_stack_copy *copy, const struct fp_safe_read_span *span);

/* After the reads: the process did not move between the two reads of its structure, so the copy is
 * of one moment. */
int fp_stack_copy_is_whole(const struct fp_stack_copy *copy, const struct fp_layout *layout,
                           const struct fp_safe_read_span *span, uint32_t n);

/* Where `i` is in no code, the process waits for a dirty scheduler or is on one: `i` points into
 * a trampoline behind the name of the NIF (erl_nfunc_sched.h, ErtsNativeFunc). 1 and the name,
 * or 0. */
int fp_stack_dirty_nif(const struct fp_memory *memory, uint64_t i, uint64_t mfa[3]);

/* The frames of a whole copy; `nif` is the frame of that NIF, or FP_FRAME_NONE. */
void fp_stack_copy_frames(const struct fp_stack_copy *copy, const struct fp_layout *layout,
                          const struct fp_memory *memory, const struct fp_ranges *code,
                          uint64_t nif, struct fp_stack *stack);
