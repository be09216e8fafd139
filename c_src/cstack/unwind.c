/* unwind.c - from one frame to its caller, out of a copy of the stack.
 *
 * Runs in a sampler's tick: reads the set, which never changes, and the copy, and calls nothing
 * that could wait. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/search.h"
#include "cstack/image.h"

static_assert(sizeof(struct fp_registers) == 8 * FP_CFI_REGISTERS,
              "registers in the order of their numbers");

#define BIT(reg) (UINT32_C(1) << (reg))
#define ALL_KNOWN (BIT(FP_CFI_REGISTERS) - 1)
/* A call preserves rbx, rbp, rsp, r12 to r15; and the walk has found rip. */
#define PRESERVED                                                                                  \
    (BIT(FP_CFI_RBX) | BIT(FP_CFI_RBP) | BIT(FP_CFI_RSP) | UINT32_C(0xf) << FP_CFI_R12 |           \
     BIT(FP_CFI_RIP))

const struct fp_mapping *fp_cstack_mapping(const struct fp_cstack *cstack, uint64_t address)
{
    const struct fp_mapping *mapping = cstack->mapping;
    size_t n =
        fp_search(mapping, cstack->mappings, sizeof *mapping, sizeof mapping->start, address);

    return n == 0 || address >= mapping[n - 1].end ? NULL : &mapping[n - 1];
}

/* ---- one step --------------------------------------------------------- */

/* A thread's registers at one frame. */
struct frame {
    uint64_t reg[FP_CFI_REGISTERS];
    uint32_t known; /* bit N: reg[N] has the thread's value */
    const struct fp_cstack_stack *stack;
};

/* Register + offset. 0, or FP_EFAULT when the register is not known. */
static int read_register(const struct frame *frame, uint32_t reg, int32_t offset, uint64_t *value)
{
    if ((frame->known & BIT(reg)) == 0)
        return FP_EFAULT;
    *value = frame->reg[reg] + (uint64_t)(int64_t)offset;
    return 0;
}

/* A word of the stack. 0, or FP_EFAULT when it is not in the copy. */
static int read_word(const struct frame *frame, uint64_t address, uint64_t *word)
{
    const struct fp_cstack_stack *stack = frame->stack;
    uint64_t at = address - stack->start;

    if (stack->size < sizeof *word || at > stack->size - sizeof *word)
        return FP_EFAULT;
    memcpy(word, stack->bytes + at, sizeof *word);
    return 0;
}

static int find_cfa(const struct fp_cfi_row *row, const struct frame *frame, uint64_t *cfa)
{
    const uint64_t *reg = frame->reg;
    uint64_t index = 0;
    int err;

    if (row->cfa_kind == FP_CFA_PLT) { /* rsp and rip are known in each frame */
        *cfa = reg[FP_CFI_RSP] + ((reg[FP_CFI_RIP] & 15) < (uint32_t)row->cfa_offset ? 8 : 16);
        return 0;
    }
    err = read_register(frame, row->cfa_register, row->cfa_offset, cfa);
    if (err != 0 || row->cfa_kind == FP_CFA_REGISTER)
        return err;
    if (row->cfa_index != 0)
        err = read_register(frame, row->cfa_index - 1, 0, &index);
    if (err == 0)
        err = read_word(frame, *cfa + 8 * index, cfa);
    *cfa += row->cfa_added;
    return err;
}

/* A register of the caller whose rule is more than FP_CFI_SAME. 0 or FP_EFAULT; FP_ENOENT when it
 * is lost. */
static int find_register(const struct fp_cfi_rule *rule, const struct frame *frame, uint64_t cfa,
                         uint64_t *value)
{
    uint64_t address = cfa + (uint64_t)(int64_t)rule->value;
    int err;

    switch (rule->kind) {
    case FP_CFI_SAVED:
        return read_word(frame, address, value);
    case FP_CFI_VALUE:
        *value = address;
        return 0;
    case FP_CFI_REGISTER:
        return read_register(frame, rule->base, 0, value);
    case FP_CFI_SAVED_AT:
        err = read_register(frame, rule->base, rule->value, &address);
        return err != 0 ? err : read_word(frame, address, value);
    default:
        return FP_ENOENT;
    }
}

/* The caller's frame. 0; FP_EFAULT when its return address or its stack pointer is not found;
 * FP_ENOENT when there is no caller. Another register that is not found matters only if a later
 * frame needs it. */
static int step(const struct fp_cfi_row *row, const struct frame *frame, struct frame *caller)
{
    uint64_t cfa;
    int err = find_cfa(row, frame, &cfa);

    if (err != 0)
        return err;
    /* The registers that C functions need not preserve are kept too: assembly of libcrypto, whose
     * functions preserve them, describes its frames by them. */
    *caller = *frame;
    caller->known |= BIT(FP_CFI_RSP);
    caller->reg[FP_CFI_RSP] = cfa;
    for (uint32_t i = 0; i < FP_CFI_REGISTERS; i++) {
        if (row->rule[i].kind == FP_CFI_SAME)
            continue;
        err = find_register(&row->rule[i], frame, cfa, &caller->reg[i]);
        if (err == 0)
            caller->known |= BIT(i);
        else if (i == FP_CFI_RIP || i == FP_CFI_RSP)
            return err;
        else
            caller->known &= ~BIT(i);
    }
    return 0;
}

/* ---- the walk --------------------------------------------------------- */

struct walk {
    const struct fp_cstack *cstack;
    struct frame frame;
    int is_exact; /* rip was interrupted: no return address behind a call */
    uint64_t *pc;
    size_t count, max;
};

/* Callers lie above. Only an interrupted function that had popped its return address (vfork does)
 * is level with its caller. */
static int is_progress(const struct walk *walk, const struct frame *caller,
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
    const struct fp_mapping *mapping = fp_cstack_mapping(walk->cstack, inside);
    const struct fp_cfi_row *row;
    struct frame caller;
    int err;

    *why = mapping == NULL ? FP_CSTACK_LEFT : FP_CSTACK_FULL;
    if (mapping == NULL || walk->count == walk->max)
        return 0;
    row = fp_cfi_rows_find(&mapping->library->image.rows, inside - mapping->bias);
    /* A trampoline did not call: its address is that of its start. */
    walk->pc[walk->count++] = row != NULL && row->is_signal ? rip : inside;
    *why = FP_CSTACK_NO_CFI;
    if (row == NULL)
        return 0;
    err = step(row, &walk->frame, &caller);
    *why = err == FP_ENOENT ? FP_CSTACK_OUTERMOST : err != 0 ? FP_CSTACK_CUT : FP_CSTACK_STUCK;
    if (err != 0 || !is_progress(walk, &caller, row))
        return 0;
    walk->frame = caller;
    walk->is_exact = row->is_signal;
    return 1;
}

size_t fp_cstack_unwind(const struct fp_cstack *cstack, const struct fp_registers *registers,
                        const struct fp_cstack_stack *stack, uint64_t *pc, size_t max,
                        struct fp_cstack_end *end)
{
    struct walk walk = {.cstack = cstack, .is_exact = 1, .pc = pc, .max = max};
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
