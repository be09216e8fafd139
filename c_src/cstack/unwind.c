/*
 * unwind.c - from one frame to its caller, out of a copy of the stack.
 *
 * Runs in a sampler's tick: it looks at the set, which never changes, and at the
 * copy, and calls nothing that could wait.
 */
#include <assert.h>

#include "cstack/cfi_expression.h"
#include "cstack/image.h"

static_assert(sizeof(struct fp_registers) == 8 * FP_CFI_REGISTERS,
              "registers in the order of their numbers");

#define ALL_KNOWN ((UINT32_C(1) << FP_CFI_REGISTERS) - 1)
/* What a caller finds as it was: rbx, rbp, rsp, r12 to r15; and where it is. */
#define PRESERVED                                                              \
    (UINT32_C(1) << FP_CFI_RBX | UINT32_C(3) << FP_CFI_RBP |                   \
     UINT32_C(0xf) << FP_CFI_R12 | UINT32_C(1) << FP_CFI_RIP)

const struct fp_mapping *fp_cstack_mapping(const struct fp_cstack *native,
                                           uint64_t address)
{
    size_t low = 0, high = native->mappings;

    while (low < high) { /* all before `low` start at or before the address */
        size_t middle = low + (high - low) / 2;

        if (native->mapping[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || address >= native->mapping[low - 1].end)
        return NULL;
    return &native->mapping[low - 1];
}

int fp_cstack_contains(const struct fp_cstack *native, uint64_t pc)
{
    return fp_cstack_mapping(native, pc) != NULL;
}

/* ---- one step --------------------------------------------------------- */

static int find_cfa(const struct fp_cfi *cfi, const struct fp_cfi_row *row,
                    const struct fp_cfi_frame *frame, uint64_t *cfa)
{
    if (row->cfa.kind == FP_CFI_EXPRESSION)
        return fp_cfi_evaluate(fp_cfi_expression(cfi, &row->cfa), frame, NULL,
                               cfa);
    if (row->cfa.kind != FP_CFI_REGISTER)
        return FP_EINVAL;
    if (!fp_frame_knows(frame, row->cfa_register))
        return FP_EFAULT;
    *cfa = frame->reg[row->cfa_register] + (uint64_t)(int64_t)row->cfa.value;
    return 0;
}

/* A register of the caller whose rule is more than FP_CFI_SAME. 0, FP_EFAULT,
 * FP_EINVAL; FP_ENOENT when it is lost. */
static int find_register(const struct fp_cfi *cfi,
                         const struct fp_cfi_rule *rule,
                         const struct fp_cfi_frame *frame, uint64_t cfa,
                         uint64_t *value)
{
    uint64_t offset = (uint64_t)(int64_t)rule->value, address;
    int err;

    switch (rule->kind) {
    case FP_CFI_SAVED:
        return fp_frame_word(frame, cfa + offset, value);
    case FP_CFI_VALUE:
        *value = cfa + offset;
        return 0;
    case FP_CFI_REGISTER:
        if (!fp_frame_knows(frame, offset))
            return FP_EFAULT;
        *value = frame->reg[offset];
        return 0;
    case FP_CFI_EXPRESSION:
        err = fp_cfi_evaluate(fp_cfi_expression(cfi, rule), frame, &cfa,
                              &address);
        return err != 0 ? err : fp_frame_word(frame, address, value);
    case FP_CFI_VALUE_EXPRESSION:
        return fp_cfi_evaluate(fp_cfi_expression(cfi, rule), frame, &cfa,
                               value);
    default:
        return FP_ENOENT;
    }
}

/* The caller's frame. 0, or the error that its return address or its stack
 * pointer has; FP_ENOENT when there is no caller. Another register that is not
 * found matters only if it is needed later. */
static int step(const struct fp_cfi *cfi, const struct fp_cfi_row *row,
                const struct fp_cfi_frame *frame, struct fp_cfi_frame *caller)
{
    uint64_t cfa;
    int err = find_cfa(cfi, row, frame, &cfa);

    if (err != 0)
        return err;
    /* Of registers that C functions need not preserve too: libcrypto's assembly
     * calls its own functions, which do, and describes its frames by them. */
    *caller = *frame;
    caller->known |= UINT32_C(1) << FP_CFI_RSP;
    caller->reg[FP_CFI_RSP] = cfa;
    for (uint32_t i = 0; i < FP_CFI_REGISTERS; i++) {
        const struct fp_cfi_rule *rule = &row->rule[i];

        if (rule->kind == FP_CFI_SAME && i != FP_CFI_RIP)
            continue;
        err = rule->kind == FP_CFI_SAME
                  ? FP_EINVAL
                  : find_register(cfi, rule, frame, cfa, &caller->reg[i]);
        if (err == 0)
            caller->known |= UINT32_C(1) << i;
        else if (i == FP_CFI_RIP)
            return err;
        else if (i == FP_CFI_RSP)
            return err == FP_ENOENT ? FP_EINVAL : err;
        else
            caller->known &= ~(UINT32_C(1) << i);
    }
    return 0;
}

/* ---- the walk --------------------------------------------------------- */

struct walk {
    const struct fp_cstack *native;
    struct fp_cfi_frame frame;
    int is_exact; /* rip itself, not the address behind a call, is of interest */
    uint64_t *pc;
    size_t count, max;
};

static enum fp_cstack_why why_of(int err)
{
    return err == FP_ENOENT   ? FP_CSTACK_OUTERMOST
           : err == FP_EFAULT ? FP_CSTACK_CUT
                              : FP_CSTACK_NO_CFI;
}

/* Callers lie above. Only a function that was interrupted where it had popped
 * its return address (vfork does) is level with its caller. */
static int is_progress(const struct walk *walk,
                       const struct fp_cfi_frame *caller,
                       const struct fp_cfi_row *row)
{
    uint64_t from = walk->frame.reg[FP_CFI_RSP], to = caller->reg[FP_CFI_RSP];

    return to > from || (to == from && walk->is_exact && !row->is_signal);
}

/* Note this frame and go on to its caller. 0 when the walk has ended. */
static int go_on(struct walk *walk, enum fp_cstack_why *why)
{
    uint64_t rip = walk->frame.reg[FP_CFI_RIP];
    uint64_t inside = walk->is_exact ? rip : rip - 1;
    const struct fp_mapping *mapping = fp_cstack_mapping(walk->native, inside);
    struct fp_cfi_row row;
    struct fp_cfi_frame caller;
    int err;

    *why = mapping == NULL ? FP_CSTACK_LEFT : FP_CSTACK_FULL;
    if (mapping == NULL || walk->count == walk->max)
        return 0;
    err =
        fp_cfi_row(&mapping->library->image.cfi, inside - mapping->bias, &row);
    /* A trampoline was not called from: its address is that of its start. */
    walk->pc[walk->count++] = err == 0 && row.is_signal ? rip : inside;
    *why = FP_CSTACK_NO_CFI;
    if (err != 0)
        return 0;
    err = step(&mapping->library->image.cfi, &row, &walk->frame, &caller);
    *why = err != 0 ? why_of(err) : FP_CSTACK_STUCK;
    if (err != 0 || !is_progress(walk, &caller, &row))
        return 0;
    walk->frame = caller;
    walk->is_exact = row.is_signal;
    return 1;
}

size_t fp_cstack_unwind(const struct fp_cstack *native,
                        const struct fp_registers *registers,
                        const struct fp_cstack_stack *stack, uint64_t *pc,
                        size_t max, struct fp_cstack_end *end)
{
    struct walk walk = {.native = native, .is_exact = 1, .pc = pc, .max = max};
    enum fp_cstack_why why;

    memcpy(walk.frame.reg, registers, sizeof walk.frame.reg);
    walk.frame.known = ALL_KNOWN;
    walk.frame.stack = stack;
    while (go_on(&walk, &why))
        ;
    if (end != NULL) {
        end->why = why;
        end->known = walk.frame.known & (walk.is_exact ? ALL_KNOWN : PRESERVED);
        memcpy(&end->registers, walk.frame.reg, sizeof end->registers);
    }
    return walk.count;
}
