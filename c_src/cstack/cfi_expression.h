/*
 * cfi_expression.h - DWARF's stack machine, as far as unwinding needs it.
 *
 * PLT entries, signal trampolines and functions that align their stack say in
 * such programs where their caller's registers are. Pure; any thread.
 */
#ifndef FP_CSTACK_CFI_EXPRESSION_H
#define FP_CSTACK_CFI_EXPRESSION_H

#include "base/error.h"
#include "cstack/cfi.h"
#include "cstack/cstack.h"

/* What can be known of a thread at one frame. */
struct fp_cfi_frame {
    uint64_t reg[FP_CFI_REGISTERS];
    uint32_t known; /* bit N: reg[N] is what it was */
    const struct fp_cstack_stack *stack;
};

static inline int fp_frame_knows(const struct fp_cfi_frame *frame, uint64_t reg)
{
    return reg < FP_CFI_REGISTERS && (frame->known >> reg & 1) != 0;
}

/* A word of the stack. 0, or FP_EFAULT when it is not in the copy. */
static inline int fp_frame_word(const struct fp_cfi_frame *frame,
                                uint64_t address, uint64_t *word)
{
    const struct fp_cstack_stack *stack = frame->stack;
    uint64_t at = address - stack->start;

    if (stack->size < sizeof *word || at > stack->size - sizeof *word)
        return FP_EFAULT;
    memcpy(word, stack->bytes + at, sizeof *word);
    return 0;
}

/* Run `program` with `first` (NULL: nothing) on its stack. 0; FP_EFAULT when a
 * word or register is needed that is not known; FP_EINVAL when the program
 * has what we do not know, or does not end. */
int fp_cfi_evaluate(struct fp_bytes program, const struct fp_cfi_frame *frame,
                    const uint64_t *first, uint64_t *value);

#endif
