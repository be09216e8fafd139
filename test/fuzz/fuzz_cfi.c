/*
 * fuzz_cfi.c - any bytes as call frame information, and any registers and stack
 * to go through by it; and any program of its stack machine.
 */
#include "fuzz.h"

#include "base/error.h"
#include "cstack/cfi_expression.h"
#include "cstack/image.h"

#define CFI_MAX 1024u
#define STACK_MAX 512u
#define FUNCTIONS_MAX 16u
#define FRAMES_MAX 24u
#define CODE_START UINT64_C(0x400000)
#define CODE_SIZE UINT64_C(0x10000)
#define BIAS UINT64_C(0x7f0000000000)
#define STACK_START UINT64_C(0x7ffe00000000)

static int by_start(const void *left, const void *right)
{
    const struct fp_cfi_function *a = left, *b = right;

    return a->start < b->start ? -1 : a->start > b->start;
}

/* All descriptions there are, as cfi_load.c has them: sorted, disjoint. */
static void find_functions(struct fp_cfi *cfi)
{
    uint32_t kept = 0;

    for (uint64_t place = 0; place < cfi->size && cfi->count < FUNCTIONS_MAX;
         place++) {
        struct fp_cfi_fde fde;

        if (fp_cfi_fde(cfi, place, &fde) != 0)
            continue;
        FUZZ_CHECK(fde.end <= cfi->size);
        if (fde.size > 0 && fde.size <= UINT32_MAX)
            cfi->function[cfi->count++] = (struct fp_cfi_function){
                fde.start, (uint32_t)fde.size, (uint32_t)place};
    }
    qsort(cfi->function, cfi->count, sizeof *cfi->function, by_start);
    for (uint32_t i = 0; i < cfi->count; i++)
        if (kept == 0 ||
            cfi->function[i].start - cfi->function[kept - 1].start >=
                cfi->function[kept - 1].size)
            cfi->function[kept++] = cfi->function[i];
    cfi->count = kept;
}

static void check_row(const struct fp_cfi *cfi, uint64_t address)
{
    struct fp_cfi_row row;
    int err = fp_cfi_row(cfi, address, &row);

    FUZZ_CHECK(err == 0 || err == FP_ENOENT || err == FP_EINVAL);
    if (err != 0)
        return;
    FUZZ_CHECK(fp_cfi_find(cfi, address) != NULL);
    FUZZ_CHECK(row.cfa_register < FP_CFI_REGISTERS);
    for (uint32_t i = 0; i < FP_CFI_REGISTERS; i++) {
        FUZZ_CHECK(row.rule[i].kind <= FP_CFI_VALUE_EXPRESSION);
        if (row.rule[i].kind == FP_CFI_EXPRESSION ||
            row.rule[i].kind == FP_CFI_VALUE_EXPRESSION) {
            struct fp_bytes program = fp_cfi_expression(cfi, &row.rule[i]);

            FUZZ_CHECK(program.end >= program.at &&
                       program.end <= cfi->bytes + cfi->size);
        }
    }
}

static void evaluate(struct fuzz_input program,
                     const struct fp_cfi_frame *frame)
{
    static const unsigned char none[1];
    uint64_t first = STACK_START, value;
    int err = fp_cfi_evaluate(
        fp_bytes(program.at == NULL ? none : program.at, program.left), frame,
        &first, &value);

    FUZZ_CHECK(err == 0 || err == FP_EFAULT || err == FP_EINVAL);
}

static void walk(struct fp_cstack *native, const struct fp_registers *registers,
                 const struct fp_cstack_stack *stack)
{
    uint64_t pc[FRAMES_MAX + 1];
    struct fp_cstack_end end;
    size_t n;

    pc[FRAMES_MAX] = 0x5a;
    n = fp_cstack_unwind(native, registers, stack, pc, FRAMES_MAX, &end);
    FUZZ_CHECK(n <= FRAMES_MAX && pc[FRAMES_MAX] == 0x5a);
    FUZZ_CHECK(end.why <= FP_CSTACK_FULL);
    FUZZ_CHECK(end.known >> FP_CFI_REGISTERS == 0);
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(pc[i] - (CODE_START + BIAS) <= CODE_SIZE);
    if (end.why == FP_CSTACK_LEFT)
        FUZZ_CHECK((end.known >> FP_CFI_RIP & 1) != 0);
}

/* Small numbers lie in the code or on the stack. */
static void take_registers(struct fuzz_input *input,
                           struct fp_registers *registers)
{
    uint64_t reg[FP_CFI_REGISTERS];

    for (uint32_t i = 0; i < FP_CFI_REGISTERS; i++) {
        uint16_t word = fuzz_u16(input);

        reg[i] = i == FP_CFI_RIP    ? BIAS + CODE_START + word
                 : word < STACK_MAX ? STACK_START + word
                                    : word;
    }
    memcpy(registers, reg, sizeof reg);
}

/* So do words on the stack: half of them are return addresses. */
static void take_stack(struct fuzz_input *input, unsigned char *bytes)
{
    for (size_t at = 0; at < STACK_MAX; at += 8) {
        uint16_t low = fuzz_u16(input);
        uint64_t word = (low & 1) != 0 ? BIAS + CODE_START + (low >> 1)
                                       : STACK_START + (low >> 1) % STACK_MAX;

        memcpy(bytes + at, &word, sizeof word);
    }
}

void fuzz_cfi(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size}, part;
    struct fp_cfi_function function[FUNCTIONS_MAX];
    unsigned char stack_bytes[STACK_MAX];
    struct fp_cstack_library library = {.name = NULL};
    struct fp_mapping mapping = {BIAS + CODE_START,
                                 BIAS + CODE_START + CODE_SIZE, BIAS, &library};
    struct fp_cstack native = {.mapping = &mapping, .mappings = 1};
    struct fp_cstack_stack stack = {STACK_START, stack_bytes, STACK_MAX};
    struct fp_cfi_frame frame = {.known = 0, .stack = &stack};
    struct fp_registers registers;
    struct fp_cfi *cfi = &library.image.cfi;

    take_registers(&input, &registers);
    frame.known = fuzz_u32(&input);
    memcpy(frame.reg, &registers, sizeof frame.reg);
    part = fuzz_part(&input, 2 * STACK_MAX / 8);
    take_stack(&part, stack_bytes);
    part = fuzz_part(&input, 256);
    evaluate(part, &frame);
    part = input; /* where ASan sees its end */
    if (part.left > CFI_MAX)
        part.left = CFI_MAX;
    *cfi = (struct fp_cfi){malloc(part.left + 1), part.left, CODE_START,
                           function, 0};
    FUZZ_CHECK(cfi->bytes != NULL);
    if (part.left > 0)
        memcpy(cfi->bytes, part.at, part.left);
    find_functions(cfi);
    for (uint32_t i = 0; i < cfi->count; i++) {
        check_row(cfi, function[i].start);
        check_row(cfi, function[i].start + function[i].size / 2);
        check_row(cfi, function[i].start + function[i].size - 1);
        check_row(cfi, function[i].start + function[i].size);
    }
    walk(&native, &registers, &stack);
    free(cfi->bytes);
}
