/*
 * stack.h - the words of an Erlang stack to the frames of a sample.
 *
 * On the stack of a process that is not running, the words between its stack top and its stack
 * start that are continuation pointers (low two bits 00) and point into JIT code are return
 * addresses; everything else is values. Pure.
 */
#ifndef FP_ERTS_STACK_H
#define FP_ERTS_STACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/maps.h"
#include "format/record.h"

struct fp_stack {
    uint32_t count;
    uint64_t frame[FP_STACK_FRAMES_MAX]; /* leaf first; record.h */
};

/* At most so many words of a stack are copied: the whole stack up to this, of a larger one the
 * leaf's and the root's ends. */
#define FP_STACK_WORDS_LEAF 6144u
#define FP_STACK_WORDS_ROOT 2048u
#define FP_STACK_WORDS_MAX (FP_STACK_WORDS_LEAF + FP_STACK_WORDS_ROOT)

/* `i` is where the process continues: the leaf. `leaf_words` of the `words` are from the stack top
 * on; where fewer than all, a marker frame stands between them and the rest. Consecutive equal
 * return addresses count once, as in erlang:process_info/2. */
void fp_stack_frames(struct fp_stack *stack, const struct fp_ranges *code, uint64_t i,
                     const uint64_t *word, size_t words, size_t leaf_words);

/* Frames above the leaf: the stack is cut at its root where it gets too deep. */
void fp_stack_put_on_top(struct fp_stack *stack, const uint64_t *frame, uint32_t n);

#endif
