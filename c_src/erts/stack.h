/* stack.h - words of a stack as the frames of a sample. stack_copy.h copies the words of a process
 * that is off CPU, capture/handler.c those of one that runs. Any thread; allocates nothing.
 *
 * On the stack of a process that is off CPU, a word between the top and the start is a return
 * address when it is a continuation pointer (low two bits 00) into JIT code. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/maps.h"
#include "erts/process.h"
#include "format/record.h"

struct fp_stack {
    uint32_t count;
    uint64_t frame[FP_STACK_FRAMES_MAX]; /* leaf first; record.h */
};

/* How many words of a stack are copied; of a larger one, the leaf's and the root's ends. */
#define FP_STACK_WORDS_LEAF 6144u
#define FP_STACK_WORDS_ROOT 2048u
#define FP_STACK_WORDS_MAX (FP_STACK_WORDS_LEAF + FP_STACK_WORDS_ROOT)

/* `i`, where the process continues, is the leaf. The first `leaf_words` of the `words` are the
 * leaf's end; where they are not all, a marker frame stands between them and the root's end.
 * Consecutive equal return addresses count once, as in erlang:process_info/2. */
void fp_stack_frames(struct fp_stack *stack, const struct fp_ranges *code, uint64_t i,
                     const uint64_t *word, size_t words, size_t leaf_words);

/* Puts frames above the leaf. The root's end of a stack that gets too deep is cut. */
void fp_stack_put_on_top(struct fp_stack *stack, const uint64_t *frame, uint32_t n);

/* One frame. */
static inline void fp_stack_only(struct fp_stack *stack, uint64_t frame)
{
    stack->count = 1;
    stack->frame[0] = frame;
}

/* The frame of a process on CPU whose scheduler gives no capture. */
static inline void fp_stack_not_sampled(struct fp_stack *stack, uint8_t status)
{
    fp_stack_only(stack, status == FP_STATUS_garbage_collecting ? FP_FRAME_GC : FP_FRAME_RUNNING);
}
