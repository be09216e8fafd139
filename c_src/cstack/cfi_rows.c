/* cfi_rows.c - run the programs of call frame information once, and keep their rows.
 *
 * The programs: DWARF 4, 6.4. Every byte may be wrong: a loop's turn takes at least one of them,
 * and all programs together are no longer than a few times the file. */
#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/pages.h"
#include "base/search.h"
#include "cstack/cfi.h"

/* ---- the table -------------------------------------------------------- */

#define ABSENT 0u /* distinct[0] */
/* Their numbers have 16 bits. The rows beyond that many are absent, and walks end there. */
#define DISTINCT_MAX UINT16_MAX
#define SLOTS (2u * (DISTINCT_MAX + 1u))

static_assert(sizeof(struct fp_cfi_row) == 12 + 4 * FP_CFI_REGISTERS,
              "rows are compared as bytes: no padding");

struct table {
    struct fp_cfi_rows *rows;
    uint16_t *slot; /* into rows->distinct, by hash; 0: empty */
    uint64_t room;  /* for rows */
    uint64_t left;  /* bytes of programs that may still be run */
};

/* The row's number among the distinct ones. */
static uint16_t intern(struct table *table, const struct fp_cfi_row *row)
{
    struct fp_cfi_rows *rows = table->rows;
    size_t at = fp_hash(row, sizeof *row) % SLOTS;

    for (; table->slot[at] != 0; at = (at + 1) % SLOTS)
        if (memcmp(&rows->distinct[table->slot[at]], row, sizeof *row) == 0)
            return table->slot[at];
    if (rows->distinct_count == DISTINCT_MAX)
        return ABSENT;
    rows->distinct[rows->distinct_count] = *row;
    return table->slot[at] = (uint16_t)rows->distinct_count++;
}

/* Without a CFA, a return address or a stack pointer there is no caller to find. */
static int is_usable(const struct fp_cfi_row *row)
{
    uint8_t rip = row->rule[FP_CFI_RIP].kind, rsp = row->rule[FP_CFI_RSP].kind;

    return row->cfa_kind != FP_CFA_UNKNOWN && rip != FP_CFI_SAME && rip != FP_CFI_UNKNOWN &&
           rsp != FP_CFI_UNDEFINED && rsp != FP_CFI_UNKNOWN;
}

/* The row that is true from an address on; NULL: none is. */
static void add(struct table *table, uint64_t address, const struct fp_cfi_row *row)
{
    struct fp_cfi_rows *rows = table->rows;
    uint16_t shape = row != NULL && is_usable(row) ? intern(table, row) : (uint16_t)ABSENT;
    uint32_t from = (uint32_t)(address - rows->base);

    /* The end of one function is the start of the next. */
    if (rows->count > 0 && rows->from[rows->count - 1] == from)
        rows->count--;
    if (rows->count > 0 && rows->shape[rows->count - 1] == shape)
        return;
    rows->from[rows->count] = from;
    rows->shape[rows->count++] = shape;
}

/* ---- expressions ------------------------------------------------------ */

enum { /* DW_OP_* */
       DEREF = 0x06,
       MUL = 0x1e,
       PLUS = 0x22,
       PLUS_UCONST = 0x23,
       LIT0 = 0x30,
       LIT8 = 0x38,
       BREG0 = 0x70,
       /* In a form, for any operand: */
       BASE = 0xf0, /* breg N, offset */
       INDEX,       /* breg N, 0 */
       ADDED,       /* plus_uconst, number */
       LIMIT,       /* lit N */
};

/* The forms that compilers, linkers and libraries write, of the many that DWARF's stack machine
 * has: gcc's where a function aligns its stack, glibc's of signal frames, those of libcrypto's
 * assembly, and the linkers' of a PLT: rsp + 8 + ((rip & 15) >= N) * 8. */
static const struct {
    uint8_t cfa_kind, size;
    unsigned char form[11];
} forms[] = {
    {FP_CFA_REGISTER, 1, {BASE}},
    {FP_CFA_MEMORY, 2, {BASE, DEREF}},
    {FP_CFA_MEMORY, 3, {BASE, DEREF, ADDED}},
    {FP_CFA_MEMORY, 6, {BASE, INDEX, LIT8, MUL, PLUS, DEREF}},
    {FP_CFA_MEMORY, 7, {BASE, INDEX, LIT8, MUL, PLUS, DEREF, ADDED}},
    {FP_CFA_PLT, 11, {BREG0 + 7, 8, BREG0 + 16, 0, 0x3f, 0x1a, LIMIT, 0x2a, 0x33, 0x24, PLUS}},
};

struct operands {
    uint8_t base, index;
    int64_t offset;
    uint64_t added;
};

/* The next byte, with what belongs to it, is of a form's element. */
static int matches(unsigned char element, struct fp_bytes *bytes, struct operands *operands)
{
    uint8_t byte = fp_bytes_u8(bytes), reg = (uint8_t)(byte - BREG0);

    switch (element) {
    case BASE:
        operands->base = reg;
        operands->offset = fp_bytes_sleb(bytes);
        return reg < FP_CFI_REGISTERS && operands->offset == (int32_t)operands->offset;
    case INDEX:
        operands->index = (uint8_t)(reg + 1);
        return reg < FP_CFI_REGISTERS && fp_bytes_u8(bytes) == 0;
    case ADDED:
        operands->added = fp_bytes_uleb(bytes);
        return byte == PLUS_UCONST && operands->added <= INT32_MAX;
    case LIMIT:
        operands->offset = byte - LIT0;
        return operands->offset >= 0 && operands->offset < 16;
    default:
        return byte == element;
    }
}

static int is_of_form(size_t i, struct fp_bytes bytes, struct operands *operands)
{
    *operands = (struct operands){0};
    for (uint8_t k = 0; k < forms[i].size; k++)
        if (!matches(forms[i].form[k], &bytes, operands))
            return 0;
    return !bytes.is_bad && fp_bytes_left(&bytes) == 0;
}

static void put_cfa(struct fp_cfi_row *row, uint8_t kind, const struct operands *operands)
{
    row->cfa_kind = kind;
    row->cfa_register = operands->base;
    row->cfa_offset = (int32_t)operands->offset;
    row->cfa_index = operands->index;
    row->cfa_added = (uint32_t)operands->added;
}

static void set_cfa_expression(struct fp_cfi_row *row, struct fp_bytes bytes)
{
    struct operands operands;

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (is_of_form(i, bytes, &operands)) {
            put_cfa(row, forms[i].cfa_kind, &operands);
            return;
        }
    put_cfa(row, FP_CFA_UNKNOWN, &(struct operands){0});
}

static struct fp_cfi_rule rule_of_expression(struct fp_bytes bytes)
{
    struct operands operands;

    if (!is_of_form(0, bytes, &operands) || operands.offset != (int16_t)operands.offset)
        return (struct fp_cfi_rule){0, FP_CFI_UNKNOWN, 0};
    return (struct fp_cfi_rule){(int16_t)operands.offset, FP_CFI_SAVED_AT, operands.base};
}

/* ---- programs --------------------------------------------------------- */

enum { /* DW_CFA_*; the first three have an operand in their lower six bits */
       ADVANCE = 0x40,
       OFFSET = 0x80,
       RESTORE = 0xc0,
       NOP = 0x00,
       SET_LOC = 0x01,
       ADVANCE1 = 0x02,
       ADVANCE4 = 0x04,
       RESTORE_EXTENDED = 0x06,
       REMEMBER_STATE = 0x0a,
       RESTORE_STATE = 0x0b,
       DEF_CFA = 0x0c,
       DEF_CFA_REGISTER = 0x0d,
       DEF_CFA_OFFSET = 0x0e,
       DEF_CFA_EXPRESSION = 0x0f,
       DEF_CFA_SF = 0x12,
       DEF_CFA_OFFSET_SF = 0x13,
       GNU_ARGS_SIZE = 0x2e,
};

/* The DW_CFA_* that set a register's rule. The operand after the register: u, s: an unsigned and a
 * signed number, times the data alignment; r: a register; e, x: an expression, known and not. */
static const struct {
    uint8_t kind;
    char operand;
} rules[] = {
    [0x05] = {FP_CFI_SAVED, 'u'},     /* offset_extended */
    [0x07] = {FP_CFI_UNDEFINED, '-'}, /* undefined */
    [0x08] = {FP_CFI_SAME, '-'},      /* same_value */
    [0x09] = {FP_CFI_REGISTER, 'r'},  /* register */
    [0x10] = {FP_CFI_SAVED_AT, 'e'},  /* expression */
    [0x11] = {FP_CFI_SAVED, 's'},     /* offset_extended_sf */
    [0x14] = {FP_CFI_VALUE, 'u'},     /* val_offset */
    [0x15] = {FP_CFI_VALUE, 's'},     /* val_offset_sf */
    [0x16] = {FP_CFI_UNKNOWN, 'x'},   /* val_expression */
};

/* Compilers nest two deep at most. */
#define REMEMBERED_MAX 4

struct run {
    const struct fp_cfi *cfi;
    struct fp_cfi_fde fde;
    struct fp_bytes bytes;
    uint64_t address, end; /* `row` is true from `address` on */
    struct fp_cfi_row row;
    struct fp_cfi_row initial; /* as the CIE's instructions left it */
    struct fp_cfi_row remembered[REMEMBERED_MAX];
    int remembered_count;
};

/* INT64_MAX for what is larger: set_rule() and set_cfa() refuse that. */
static int64_t plain(struct run *run)
{
    uint64_t value = fp_bytes_uleb(&run->bytes);

    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static int64_t scaled(struct run *run, int is_signed)
{
    int64_t factor = is_signed ? fp_bytes_sleb(&run->bytes) : plain(run), product;

    return __builtin_mul_overflow(factor, run->fde.data_align, &product) ? INT64_MAX : product;
}

static struct fp_bytes expression(struct run *run)
{
    return fp_bytes_part(&run->bytes, fp_bytes_uleb(&run->bytes));
}

/* Rules of other registers (of floating point) are read and dropped. */
static void set_rule(struct run *run, uint64_t reg, uint8_t kind, char operand)
{
    struct fp_cfi_rule rule = {0, kind, 0};
    int64_t value = 0;
    uint64_t base = 0;

    if (operand == 'u' || operand == 's')
        value = scaled(run, operand == 's');
    else if (operand == 'r')
        base = fp_bytes_uleb(&run->bytes);
    else if (operand == 'e')
        rule = rule_of_expression(expression(run));
    else if (operand == 'x')
        expression(run);
    if (value != (int16_t)value || base >= FP_CFI_REGISTERS) {
        fp_bytes_fail(&run->bytes);
        return;
    }
    if (operand != 'e')
        rule = (struct fp_cfi_rule){(int16_t)value, kind, (uint8_t)base};
    if (reg < FP_CFI_REGISTERS)
        run->row.rule[reg] = rule;
}

static void restore_rule(struct run *run, uint64_t reg)
{
    if (reg < FP_CFI_REGISTERS)
        run->row.rule[reg] = run->initial.rule[reg];
}

static void set_cfa(struct run *run, uint64_t reg, int64_t offset)
{
    if (reg >= FP_CFI_REGISTERS || offset != (int32_t)offset)
        fp_bytes_fail(&run->bytes);
    else
        put_cfa(&run->row, FP_CFA_REGISTER,
                &(struct operands){.base = (uint8_t)reg, .offset = offset});
}

static void set_state(struct run *run, uint8_t code)
{
    struct fp_cfi_row *row = &run->row;
    uint64_t reg;

    if ((code == DEF_CFA_REGISTER || code == DEF_CFA_OFFSET || code == DEF_CFA_OFFSET_SF) &&
        row->cfa_kind != FP_CFA_REGISTER) {
        fp_bytes_fail(&run->bytes); /* the other half is no register or offset */
    } else if (code == DEF_CFA || code == DEF_CFA_SF) {
        reg = fp_bytes_uleb(&run->bytes);
        set_cfa(run, reg, code == DEF_CFA ? plain(run) : scaled(run, 1));
    } else if (code == DEF_CFA_REGISTER) {
        set_cfa(run, fp_bytes_uleb(&run->bytes), row->cfa_offset);
    } else if (code == DEF_CFA_OFFSET || code == DEF_CFA_OFFSET_SF) {
        set_cfa(run, row->cfa_register, code == DEF_CFA_OFFSET ? plain(run) : scaled(run, 1));
    } else if (code == DEF_CFA_EXPRESSION) {
        set_cfa_expression(row, expression(run));
    } else if (code == REMEMBER_STATE && run->remembered_count < REMEMBERED_MAX) {
        run->remembered[run->remembered_count++] = *row;
    } else if (code == RESTORE_STATE && run->remembered_count > 0) {
        *row = run->remembered[--run->remembered_count];
    } else if (code == GNU_ARGS_SIZE) {
        fp_bytes_uleb(&run->bytes);
    } else if (code != NOP) {
        fp_bytes_fail(&run->bytes);
    }
}

static void instruction(struct run *run, uint8_t code)
{
    if ((code & 0xc0) == OFFSET)
        set_rule(run, code & 0x3f, FP_CFI_SAVED, 'u');
    else if ((code & 0xc0) == RESTORE)
        restore_rule(run, code & 0x3f);
    else if (code == RESTORE_EXTENDED)
        restore_rule(run, fp_bytes_uleb(&run->bytes));
    else if (code < sizeof rules / sizeof rules[0] && rules[code].operand != '\0')
        set_rule(run, fp_bytes_uleb(&run->bytes), rules[code].kind, rules[code].operand);
    else
        set_state(run, code);
}

static int is_advance(uint8_t code)
{
    return (code & 0xc0) == ADVANCE || (code >= SET_LOC && code <= ADVANCE4);
}

/* Where the next row begins. */
static uint64_t advanced(struct run *run, uint8_t code)
{
    uint64_t delta = code & 0x3f;

    if (code == SET_LOC)
        return fp_cfi_address(run->cfi, &run->bytes, run->fde.encoding);
    if ((code & 0xc0) != ADVANCE)
        delta = fp_bytes_unsigned(&run->bytes, (size_t)1 << (code - ADVANCE1));
    return run->address + run->fde.code_align * delta;
}

/* Add the rows of the function, up to its end or to what is no program. */
static void execute(struct run *run, struct table *table)
{
    run->bytes = run->fde.program;
    while (fp_bytes_left(&run->bytes) > 0 && run->address < run->end) {
        uint8_t code = fp_bytes_u8(&run->bytes);
        uint64_t next;

        if (!is_advance(code)) {
            instruction(run, code);
            continue;
        }
        next = advanced(run, code);
        if (next < run->address)
            fp_bytes_fail(&run->bytes);
        if (run->bytes.is_bad || next == run->address)
            continue;
        add(table, run->address, &run->row);
        run->address = next;
    }
    if (run->address < run->end)
        add(table, run->address, run->bytes.is_bad ? NULL : &run->row);
}

/* The CIE's instructions: one row, which the function's begin with. */
static int initialize(struct run *run)
{
    run->bytes = run->fde.common;
    while (fp_bytes_left(&run->bytes) > 0) {
        uint8_t code = fp_bytes_u8(&run->bytes);

        if (is_advance(code))
            return FP_EINVAL;
        instruction(run, code);
    }
    run->initial = run->row;
    return run->bytes.is_bad ? FP_EINVAL : 0;
}

/* ---- the interface ---------------------------------------------------- */

/* Programs of all functions, in times of the size of .eh_frame: 1, and the CIE's again for each.
 * Only overlapping entries have more. */
#define PROGRAMS_MAX 8u

static void add_function(struct table *table, const struct fp_cfi *cfi,
                         const struct fp_cfi_function *function)
{
    struct run run = {
        .cfi = cfi, .address = function->start, .end = function->start + function->size};
    uint64_t size, rows;

    if (fp_cfi_fde(cfi, function->fde, &run.fde) == 0) {
        rows = fp_bytes_left(&run.fde.program) + 2; /* one an instruction; start and end */
        size = fp_bytes_left(&run.fde.common) + rows;
        run.row.is_signal = run.fde.is_signal;
        if (size <= table->left && rows <= table->room - table->rows->count &&
            initialize(&run) == 0)
            execute(&run, table);
        table->left -= size <= table->left ? size : table->left;
    }
    add(table, run.end, NULL); /* the next function may begin later */
}

static void add_functions(struct table *table, const struct fp_cfi *cfi)
{
    struct fp_cfi_rows *rows = table->rows;

    rows->distinct_count = 1; /* there is none */
    rows->base = cfi->function[0].start;
    for (uint32_t i = 0; i < cfi->count; i++)
        if (cfi->function[i].start - rows->base <= UINT32_MAX - cfi->function[i].size)
            add_function(table, cfi, &cfi->function[i]);
}

static void *copy(const void *array, size_t size)
{
    void *made = malloc(size);

    return made == NULL ? NULL : memcpy(made, array, size);
}

/* The arrays have room for all that may come, in pages of their own, of which few are used; copies
 * of what came are kept. */
int fp_cfi_rows_load(struct fp_cfi_rows *rows, const struct fp_cfi *cfi)
{
    struct fp_cfi_rows all = {0};
    struct table table = {&all, NULL, cfi->size + 2, PROGRAMS_MAX * cfi->size};
    size_t from = DISTINCT_MAX * sizeof *all.distinct, shape = from + table.room * sizeof *all.from;
    size_t slot = shape + table.room * sizeof *all.shape, size = slot + SLOTS * sizeof *table.slot;
    unsigned char *pages;

    memset(rows, 0, sizeof *rows);
    if (cfi->count == 0)
        return 0;
    pages = fp_pages_alloc(size);
    if (pages == NULL)
        return FP_ENOMEM;
    all.distinct = (struct fp_cfi_row *)(void *)pages;
    all.from = (uint32_t *)(void *)(pages + from);
    all.shape = (uint16_t *)(void *)(pages + shape);
    table.slot = (uint16_t *)(void *)(pages + slot);
    add_functions(&table, cfi);
    *rows = all;
    rows->from = copy(all.from, all.count * sizeof *all.from);
    rows->shape = copy(all.shape, all.count * sizeof *all.shape);
    rows->distinct = copy(all.distinct, all.distinct_count * sizeof *all.distinct);
    fp_pages_free(pages, size);
    if (rows->from != NULL && rows->shape != NULL && rows->distinct != NULL)
        return 0;
    fp_cfi_rows_unload(rows);
    return FP_ENOMEM;
}

void fp_cfi_rows_unload(struct fp_cfi_rows *rows)
{
    free(rows->from);
    free(rows->shape);
    free(rows->distinct);
    memset(rows, 0, sizeof *rows);
}

const struct fp_cfi_row *fp_cfi_rows_find(const struct fp_cfi_rows *rows, uint64_t address)
{
    uint64_t offset = address - rows->base;
    size_t n = offset > UINT32_MAX ? 0
                                   : fp_search(rows->from, rows->count, sizeof *rows->from,
                                               sizeof *rows->from, offset);

    return n == 0 || rows->shape[n - 1] == ABSENT ? NULL : &rows->distinct[rows->shape[n - 1]];
}
