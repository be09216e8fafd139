#include "cstack/cfi_expression.h"

/* The longest that are known, of glibc's trampolines and PLTs, have 12
 * operations and three values. */
#define STEPS_MAX 256
#define VALUES_MAX 16u

enum { /* DW_OP_* */
       DEREF = 0x06,
       CONST1U = 0x08,
       CONST1S = 0x09,
       CONST2U = 0x0a,
       CONST2S = 0x0b,
       CONST4U = 0x0c,
       CONST4S = 0x0d,
       CONST8U = 0x0e,
       CONST8S = 0x0f,
       CONSTU = 0x10,
       CONSTS = 0x11,
       DUP = 0x12,
       DROP = 0x13,
       OVER = 0x14,
       PICK = 0x15,
       SWAP = 0x16,
       ROT = 0x17,
       ABS = 0x19,
       AND = 0x1a,
       MINUS = 0x1c,
       MUL = 0x1e,
       NEG = 0x1f,
       NOT = 0x20,
       OR = 0x21,
       PLUS = 0x22,
       PLUS_UCONST = 0x23,
       SHL = 0x24,
       SHR = 0x25,
       SHRA = 0x26,
       XOR = 0x27,
       BRA = 0x28,
       EQ = 0x29,
       GE = 0x2a,
       GT = 0x2b,
       LE = 0x2c,
       LT = 0x2d,
       NE = 0x2e,
       SKIP = 0x2f,
       LIT0 = 0x30,
       LIT31 = 0x4f,
       BREG0 = 0x70,
       BREG31 = 0x8f,
       BREGX = 0x92,
       DEREF_SIZE = 0x94,
       NOP = 0x96,
};

struct machine {
    const struct fp_cfi_frame *frame;
    const unsigned char *begin;
    struct fp_bytes bytes;
    uint64_t value[VALUES_MAX]; /* the top is value[count - 1] */
    uint32_t count;
    int err;
};

static void fail(struct machine *machine, int err)
{
    if (machine->err == 0)
        machine->err = err;
}

static void push(struct machine *machine, uint64_t value)
{
    if (machine->count == VALUES_MAX)
        fail(machine, FP_EINVAL);
    else
        machine->value[machine->count++] = value;
}

/* The n-th value from the top. */
static uint64_t nth(struct machine *machine, uint32_t n)
{
    if (n >= machine->count) {
        fail(machine, FP_EINVAL);
        return 0;
    }
    return machine->value[machine->count - 1 - n];
}

static uint64_t pop(struct machine *machine)
{
    uint64_t value = nth(machine, 0);

    if (machine->count > 0)
        machine->count--;
    return value;
}

static void push_register(struct machine *machine, uint64_t reg)
{
    uint64_t offset = (uint64_t)fp_bytes_sleb(&machine->bytes);

    if (!fp_frame_knows(machine->frame, reg))
        fail(machine, FP_EFAULT);
    else
        push(machine, machine->frame->reg[reg] + offset);
}

static void push_memory(struct machine *machine, unsigned size)
{
    uint64_t word, address = pop(machine);

    if (size == 0 || size > sizeof word)
        fail(machine, FP_EINVAL);
    else if (fp_frame_word(machine->frame, address, &word) != 0)
        fail(machine, FP_EFAULT);
    else
        push(machine,
             size == 8 ? word : word & ((UINT64_C(1) << 8 * size) - 1));
}

static void jump(struct machine *machine, int is_taken)
{
    int64_t distance = fp_bytes_signed(&machine->bytes, 2);
    int64_t from = machine->bytes.at - machine->begin;
    int64_t size = machine->bytes.end - machine->begin;

    if (!is_taken)
        return;
    if (from + distance < 0 || from + distance > size)
        fail(machine, FP_EINVAL);
    else
        machine->bytes.at = machine->begin + from + distance;
}

/* Operations that push what stands beside them. 0 when `code` is none. */
static int push_constant(struct machine *machine, uint8_t code)
{
    struct fp_bytes *bytes = &machine->bytes;

    if (code >= LIT0 && code <= LIT31) {
        push(machine, code - LIT0);
        return 1;
    }
    if (code >= CONST1U && code <= CONST8S) { /* 1, 2, 4, 8; u and s by turns */
        size_t size = (size_t)1 << (code - CONST1U) / 2;

        push(machine, (code & 1) != 0 ? (uint64_t)fp_bytes_signed(bytes, size)
                                      : fp_bytes_unsigned(bytes, size));
        return 1;
    }
    if (code == CONSTU) {
        push(machine, fp_bytes_uleb(bytes));
        return 1;
    }
    if (code == CONSTS) {
        push(machine, (uint64_t)fp_bytes_sleb(bytes));
        return 1;
    }
    return 0;
}

/* Operations that move what is on the stack. 0 when `code` is none. */
static int shuffle(struct machine *machine, uint8_t code)
{
    uint64_t a, b, c;

    switch (code) {
    case DUP:
        push(machine, nth(machine, 0));
        return 1;
    case DROP:
        pop(machine);
        return 1;
    case OVER:
        push(machine, nth(machine, 1));
        return 1;
    case PICK:
        push(machine, nth(machine, fp_bytes_u8(&machine->bytes)));
        return 1;
    case SWAP:
        a = pop(machine);
        b = pop(machine);
        push(machine, a);
        push(machine, b);
        return 1;
    case ROT: /* the top goes below the next two */
        a = pop(machine);
        b = pop(machine);
        c = pop(machine);
        push(machine, a);
        push(machine, c);
        push(machine, b);
        return 1;
    default:
        return 0;
    }
}

/* Operations on one value. 0 when `code` is none. */
static int unary(struct machine *machine, uint8_t code)
{
    uint64_t a;

    switch (code) {
    case ABS:
        a = pop(machine);
        push(machine, (int64_t)a < 0 ? -a : a);
        return 1;
    case NEG:
        push(machine, -pop(machine));
        return 1;
    case NOT:
        push(machine, ~pop(machine));
        return 1;
    case PLUS_UCONST:
        a = pop(machine);
        push(machine, a + fp_bytes_uleb(&machine->bytes));
        return 1;
    default:
        return 0;
    }
}

static uint64_t shift_right_signed(uint64_t a, uint64_t by)
{
    return (uint64_t)((int64_t)a >> (by < 63 ? by : 63));
}

/* Of two values, the lower one first. 0 when `code` is none. */
static int calculate(uint8_t code, uint64_t a, uint64_t b, uint64_t *result)
{
    switch (code) {
    case AND:
        *result = a & b;
        return 1;
    case OR:
        *result = a | b;
        return 1;
    case XOR:
        *result = a ^ b;
        return 1;
    case PLUS:
        *result = a + b;
        return 1;
    case MINUS:
        *result = a - b;
        return 1;
    case MUL:
        *result = a * b;
        return 1;
    case SHL:
        *result = b < 64 ? a << b : 0;
        return 1;
    case SHR:
        *result = b < 64 ? a >> b : 0;
        return 1;
    case SHRA:
        *result = shift_right_signed(a, b);
        return 1;
    default:
        return 0;
    }
}

/* Comparisons are signed. */
static int compare(uint8_t code, int64_t a, int64_t b, uint64_t *result)
{
    switch (code) {
    case EQ:
        *result = a == b;
        return 1;
    case GE:
        *result = a >= b;
        return 1;
    case GT:
        *result = a > b;
        return 1;
    case LE:
        *result = a <= b;
        return 1;
    case LT:
        *result = a < b;
        return 1;
    case NE:
        *result = a != b;
        return 1;
    default:
        return 0;
    }
}

static void binary(struct machine *machine, uint8_t code)
{
    uint64_t b = pop(machine), a = pop(machine), result;

    if (calculate(code, a, b, &result) ||
        compare(code, (int64_t)a, (int64_t)b, &result))
        push(machine, result);
    else
        fail(machine, FP_EINVAL); /* an operation that we do not know */
}

static void operate(struct machine *machine, uint8_t code)
{
    if (code >= BREG0 && code <= BREG31)
        push_register(machine, code - BREG0);
    else if (code == BREGX)
        push_register(machine, fp_bytes_uleb(&machine->bytes));
    else if (code == DEREF)
        push_memory(machine, 8);
    else if (code == DEREF_SIZE)
        push_memory(machine, fp_bytes_u8(&machine->bytes));
    else if (code == SKIP)
        jump(machine, 1);
    else if (code == BRA)
        jump(machine, pop(machine) != 0);
    else if (code != NOP && !push_constant(machine, code) &&
             !shuffle(machine, code) && !unary(machine, code))
        binary(machine, code);
}

int fp_cfi_evaluate(struct fp_bytes program, const struct fp_cfi_frame *frame,
                    const uint64_t *first, uint64_t *value)
{
    struct machine machine = {
        .frame = frame, .begin = program.at, .bytes = program};

    if (first != NULL)
        push(&machine, *first);
    for (int step = 0; fp_bytes_left(&machine.bytes) > 0; step++) {
        if (step == STEPS_MAX)
            return FP_EINVAL;
        operate(&machine, fp_bytes_u8(&machine.bytes));
        if (machine.err != 0)
            return machine.err;
    }
    *value = pop(&machine);
    return machine.bytes.is_bad ? FP_EINVAL : machine.err;
}
