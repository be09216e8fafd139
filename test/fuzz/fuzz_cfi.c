/* fuzz_cfi.c - any bytes as call frame information, and any registers and stack to walk by its
 * rows. */
#include "fuzz.h"

#include "base/error.h"
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

/* All descriptions there are, as fp_cfi_load() has them: sorted, disjoint. */
static void find_functions(struct fp_cfi *cfi)
{
    uint32_t kept = 0;

    for (uint64_t place = 0; place < cfi->size && cfi->count < FUNCTIONS_MAX; place++) {
        struct fp_cfi_fde fde;

        if (fp_cfi_fde(cfi, place, &fde) != 0)
            continue;
        FUZZ_CHECK(fde.common.end <= cfi->bytes + cfi->size);
        FUZZ_CHECK(fde.program.end <= cfi->bytes + cfi->size);
        if (fde.size > 0 && fde.size <= UINT32_MAX)
            cfi->function[cfi->count++] =
                (struct fp_cfi_function){fde.start, (uint32_t)fde.size, (uint32_t)place};
    }
    qsort(cfi->function, cfi->count, sizeof *cfi->function, by_start);
    for (uint32_t i = 0; i < cfi->count; i++)
        if (kept == 0 ||
            cfi->function[i].start - cfi->function[kept - 1].start >= cfi->function[kept - 1].size)
            cfi->function[kept++] = cfi->function[i];
    cfi->count = kept;
}

/* Rows rise, each is of a kind that is known, and none is outside of the functions. */
static void check_rows(const struct fp_cfi *cfi, const struct fp_cfi_rows *rows)
{
    const struct fp_cfi_function *last = cfi->function + cfi->count - 1;

    for (uint32_t i = 0; i < rows->count; i++) {
        FUZZ_CHECK(i == 0 || rows->from[i] > rows->from[i - 1]);
        FUZZ_CHECK(i == 0 || rows->shape[i] != rows->shape[i - 1]);
        FUZZ_CHECK(rows->shape[i] < rows->distinct_count);
    }
    for (uint32_t i = 1; i < rows->distinct_count; i++) {
        const struct fp_cfi_row *row = &rows->distinct[i];

        FUZZ_CHECK(row->cfa_kind != FP_CFA_UNKNOWN && row->cfa_kind <= FP_CFA_PLT);
        FUZZ_CHECK(row->cfa_register < FP_CFI_REGISTERS);
        FUZZ_CHECK(row->cfa_index <= FP_CFI_REGISTERS);
        for (uint32_t k = 0; k < FP_CFI_REGISTERS; k++)
            FUZZ_CHECK(row->rule[k].kind <= FP_CFI_SAVED_AT &&
                       row->rule[k].base < FP_CFI_REGISTERS);
    }
    FUZZ_CHECK(rows->count == 0 || rows->shape[rows->count - 1] == 0);
    if (cfi->count == 0)
        return;
    FUZZ_CHECK(fp_cfi_rows_find(rows, cfi->function->start - 1) == NULL);
    FUZZ_CHECK(fp_cfi_rows_find(rows, last->start + last->size) == NULL);
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
static void take_registers(struct fuzz_input *input, struct fp_registers *registers)
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
        uint64_t word =
            (low & 1) != 0 ? BIAS + CODE_START + (low >> 1) : STACK_START + (low >> 1) % STACK_MAX;

        memcpy(bytes + at, &word, sizeof word);
    }
}

void fuzz_cfi(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size}, part;
    struct fp_cfi_function function[FUNCTIONS_MAX];
    unsigned char stack_bytes[STACK_MAX];
    struct fp_cstack_library library = {.name = NULL};
    struct fp_mapping mapping = {BIAS + CODE_START, BIAS + CODE_START + CODE_SIZE, BIAS, &library};
    struct fp_cstack native = {.mapping = &mapping, .mappings = 1};
    struct fp_cstack_stack stack = {STACK_START, stack_bytes, STACK_MAX};
    struct fp_registers registers;
    struct fp_cfi cfi;

    take_registers(&input, &registers);
    part = fuzz_part(&input, 2 * STACK_MAX / 8);
    take_stack(&part, stack_bytes);
    part = input; /* where ASan sees its end */
    if (part.left > CFI_MAX)
        part.left = CFI_MAX;
    cfi = (struct fp_cfi){malloc(part.left + 1), part.left, CODE_START, function, 0};
    FUZZ_CHECK(cfi.bytes != NULL);
    if (part.left > 0)
        memcpy(cfi.bytes, part.at, part.left);
    find_functions(&cfi);
    FUZZ_CHECK(fp_cfi_rows_load(&library.image.rows, &cfi) == 0);
    check_rows(&cfi, &library.image.rows);
    free(cfi.bytes); /* rows do without */
    walk(&native, &registers, &stack);
    fp_cfi_rows_unload(&library.image.rows);
}
