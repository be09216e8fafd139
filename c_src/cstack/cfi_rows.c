/*
 * cfi_rows.c - run the programs of call frame information once, and keep their rows.
 *
 * The programs: DWARF 4, 6.4. Every byte may be wrong: a loop's turn takes at least one of them,
 * and all programs together are no longer than a few times the file.
 */
#include "cstack/cfi_rows.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/search.h"

/* Programs of all functions, in times of the size of .eh_frame: 1, and the CIE's again for each.
 * Only overlapping entries have more. */
#define PROGRAMS_MAX 8u

/* ---- the table -------------------------------------------------------- */

#define ABSENT 0u /* distinct[0] */
#define DISTINCT_MAX UINT16_MAX

static_assert(sizeof(struct fp_cfi_row) == 12 + 4 * FP_CFI_REGISTERS,
              "rows are compared as bytes: no padding");

#define SLOTS (2u * (DISTINCT_MAX + 1u))

struct table {
    struct fp_cfi_rows *rows;
    uint32_t room, distinct_room;
    uint16_t *slot; /* into rows->distinct, by hash; 0: empty */
    int err;
};

/* One more element fits. The room doubles: 0, 64, 128... */
static int grow(void **array, uint32_t count, uint32_t *room, size_t size)
{
    uint32_t wider = *room == 0 ? 64 : 2 * *room;
    void *more;

    if (count < *room)
        return 0;
    more = realloc(*array, wider * size);
    if (more == NULL)
        return FP_ENOMEM;
    *array = more;
    *room = wider;
    return 0;
}

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
    table->err =
        grow((void **)&rows->distinct, rows->distinct_count, &table->distinct_room, sizeof *row);
    if (table->err != 0)
        return ABSENT;
    rows->distinct[rows->distinct_count] = *row;
    return table->slot[at] = (uint16_t)rows->distinct_count++;
}

/* Without a CFA, a return address or a stack pointer there is no caller to find. */
static int is_usable(const struct fp_cfi_row *row)
{
    const struct fp_cfi_rule *rip = &row->rule[FP_CFI_RIP];
    const struct fp_cfi_rule *rsp = &row->rule[FP_CFI_RSP];

    return row->cfa_kind != FP_CFA_UNKNOWN && rip->kind != FP_CFI_SAME &&
           rip->kind != FP_CFI_UNKNOWN && rsp->kind != FP_CFI_UNDEFINED &&
           rsp->kind != FP_CFI_UNKNOWN;
}

/* The row that is true from an address on; NULL: none is. */
static void add(struct table *table, uint64_t address, const struct fp_cfi_row *row)
{
    struct fp_cfi_rows *rows = table->rows;
    uint16_t shape = row != NULL && is_usable(row) ? intern(table, row) : (uint16_t)ABSENT;
    uint32_t shape_room = table->room;

    /* The end of one function is the start of the next. */
    if (rows->count > 0 && rows->from[rows->count - 1] == (uint32_t)(address - rows->base))
        rows->count--;
    if (rows->count > 0 && rows->shape[rows->count - 1] == shape)
        return;
    if (table->err == 0)
        table->err = grow((void **)&rows->shape, rows->count, &shape_room, sizeof *rows->shape);
    if (table->err == 0)
        table->err = grow((void **)&rows->from, rows->count, &table->room, sizeof *rows->from);
    if (table->err != 0)
        return;
    rows->from[rows->count] = (uint32_t)(address - rows->base);
    rows->shape[rows->count++] = shape;
}

/* ---- expressions ------------------------------------------------------ */

/* The forms that compilers, linkers and libraries write, of the many that DWARF's stack machine
 * has. */

enum { /* DW_OP_* */
       DEREF = 0x06,
       PLUS_UCONST = 0x23,
       LIT0 = 0x30,
       BREG0 = 0x70,
};

/* Of linkers, for all entries of .plt: rsp + 8 + ((rip & 15) >= N) * 8, which is breg7 8, breg16 0,
 * lit15, and, litN, ge, lit3, shl, plus. */
static const unsigned char plt[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, LIT0, 0x2a, 0x33, 0x24, 0x22};
#define PLT_LIT 6

/* The next expression, without its length. */
static struct fp_bytes expression(struct fp_bytes *bytes)
{
    uint64_t size = fp_bytes_uleb(bytes);
    struct fp_bytes inside = fp_bytes(bytes->at, 0);

    fp_bytes_skip(bytes, size);
    inside.end = bytes->at;
    inside.is_bad = bytes->is_bad;
    if (bytes->is_bad)
        inside.at = inside.end;
    return inside;
}

/* breg N, offset. 0 when the expression does not begin so. */
static int base_offset(struct fp_bytes *bytes, uint8_t *base, int64_t *offset)
{
    uint8_t code = fp_bytes_u8(bytes);

    *base = (uint8_t)(code - BREG0);
    *offset = fp_bytes_sleb(bytes);
    return code >= BREG0 && *base < FP_CFI_REGISTERS && !bytes->is_bad;
}

static int is_plt(const struct fp_bytes *bytes, uint8_t *lit)
{
    unsigned char form[sizeof plt];

    if (fp_bytes_left(bytes) != sizeof form)
        return 0;
    memcpy(form, bytes->at, sizeof form);
    *lit = (uint8_t)(form[PLT_LIT] - LIT0);
    form[PLT_LIT] = LIT0;
    return *lit < 16 && memcmp(form, plt, sizeof form) == 0;
}

/* breg N, 0, lit8, mul, plus: add eight times register N. Returns N + 1, or 0 for any other
 * bytes. */
static uint8_t scaled_index(struct fp_bytes *bytes)
{
    static const unsigned char form[] = {0, 0x38, 0x1e, 0x22};
    uint8_t index = bytes->at == bytes->end ? 0 : bytes->at[0];

    if (fp_bytes_left(bytes) <= sizeof form || index < BREG0 || index >= BREG0 + FP_CFI_REGISTERS ||
        memcmp(bytes->at + 1, form, sizeof form) != 0)
        return 0;
    fp_bytes_skip(bytes, 1 + sizeof form);
    return (uint8_t)(index - BREG0 + 1);
}

/* deref [, plus_uconst]: how much is added; -1 when it is something else. */
static int64_t dereferenced(struct fp_bytes *bytes)
{
    uint64_t added = 0;

    if (fp_bytes_u8(bytes) != DEREF)
        return -1;
    if (fp_bytes_left(bytes) > 0)
        added = fp_bytes_u8(bytes) == PLUS_UCONST ? fp_bytes_uleb(bytes) : UINT64_MAX;
    return bytes->is_bad || fp_bytes_left(bytes) > 0 || added > INT32_MAX ? -1 : (int64_t)added;
}

/* The PLT's form; or breg N, offset [[, index], deref [, plus_uconst]], which gcc writes where a
 * function aligns its stack, glibc for signal frames, and libcrypto for its assembly. */
static void set_cfa_expression(struct fp_cfi_row *row, struct fp_bytes bytes)
{
    int64_t offset, added = 0;
    uint8_t base, index;

    row->cfa_kind = FP_CFA_UNKNOWN;
    row->cfa_offset = 0;
    row->cfa_register = 0;
    if (is_plt(&bytes, &base)) {
        row->cfa_kind = FP_CFA_PLT;
        row->cfa_offset = base;
        return;
    }
    if (!base_offset(&bytes, &base, &offset) || offset < INT32_MIN || offset > INT32_MAX)
        return;
    index = scaled_index(&bytes);
    if (fp_bytes_left(&bytes) > 0 || index != 0)
        added = dereferenced(&bytes);
    else
        row->cfa_kind = FP_CFA_REGISTER;
    if (added < 0)
        return;
    if (row->cfa_kind == FP_CFA_UNKNOWN)
        row->cfa_kind = FP_CFA_MEMORY;
    row->cfa_offset = (int32_t)offset;
    row->cfa_register = base;
    row->cfa_index = index;
    row->cfa_added = (uint32_t)added;
}

static struct fp_cfi_rule rule_of_expression(struct fp_bytes bytes)
{
    struct fp_cfi_rule rule = {0, FP_CFI_SAVED_AT, 0};
    int64_t offset;

    if (!base_offset(&bytes, &rule.base, &offset) || fp_bytes_left(&bytes) > 0 ||
        offset < INT16_MIN || offset > INT16_MAX)
        return (struct fp_cfi_rule){0, FP_CFI_UNKNOWN, 0};
    rule.value = (int16_t)offset;
    return rule;
}

/* ---- programs --------------------------------------------------------- */

enum { /* DW_CFA_*; the first three have an operand in their lower six bits */
       ADVANCE = 0x40,
       OFFSET = 0x80,
       RESTORE = 0xc0,
       SET_LOC = 0x01,
       ADVANCE1 = 0x02,
       ADVANCE4 = 0x04,
       OFFSET_EXTENDED = 0x05,
       RESTORE_EXTENDED = 0x06,
};

enum action {
    REFUSE,
    NOTHING,
    REMEMBER,
    RECALL,
    RESTORE_RULE,
    SET_RULE,
    SET_RULE_EXPRESSION,
    SET_CFA,
    SET_CFA_REGISTER,
    SET_CFA_OFFSET,
    SET_CFA_EXPRESSION,
};

/* By DW_CFA_*. Operands, in order: r a register; u an unsigned number; f and s an unsigned and a
 * signed one times the data alignment; x a register that is the value; e an expression. */
/* clang-format off */
static const struct {
    uint8_t action, kind;
    char operands[3];
} instructions[] = {
    [0x00] = {NOTHING, 0, ""},                      /* nop */
    [0x05] = {SET_RULE, FP_CFI_SAVED, "rf"},        /* offset_extended */
    [0x06] = {RESTORE_RULE, 0, "r"},                /* restore_extended */
    [0x07] = {SET_RULE, FP_CFI_UNDEFINED, "r"},     /* undefined */
    [0x08] = {SET_RULE, FP_CFI_SAME, "r"},          /* same_value */
    [0x09] = {SET_RULE, FP_CFI_REGISTER, "rx"},     /* register */
    [0x0a] = {REMEMBER, 0, ""},                     /* remember_state */
    [0x0b] = {RECALL, 0, ""},                       /* restore_state */
    [0x0c] = {SET_CFA, 0, "ru"},                    /* def_cfa */
    [0x0d] = {SET_CFA_REGISTER, 0, "r"},            /* def_cfa_register */
    [0x0e] = {SET_CFA_OFFSET, 0, "u"},              /* def_cfa_offset */
    [0x0f] = {SET_CFA_EXPRESSION, 0, "e"},          /* def_cfa_expression */
    [0x10] = {SET_RULE_EXPRESSION, 0, "re"},        /* expression */
    [0x11] = {SET_RULE, FP_CFI_SAVED, "rs"},        /* offset_extended_sf */
    [0x12] = {SET_CFA, 0, "rs"},                    /* def_cfa_sf */
    [0x13] = {SET_CFA_OFFSET, 0, "s"},              /* def_cfa_offset_sf */
    [0x14] = {SET_RULE, FP_CFI_VALUE, "rf"},        /* val_offset */
    [0x15] = {SET_RULE, FP_CFI_VALUE, "rs"},        /* val_offset_sf */
    [0x16] = {SET_RULE, FP_CFI_UNKNOWN, "re"},      /* val_expression */
    [0x2e] = {NOTHING, 0, "u"},                     /* GNU_args_size */
};
/* clang-format on */

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

struct operands {
    uint64_t reg;
    int64_t value;
    uint8_t base;
    struct fp_bytes expression;
};

/* INT64_MAX when it overflows, which set_rule() and set_cfa() refuse. */
static int64_t scaled(const struct run *run, int64_t factor)
{
    int64_t product;

    if (__builtin_mul_overflow(factor, run->fde.data_align, &product))
        return INT64_MAX;
    return product;
}

static int64_t plain(struct run *run)
{
    uint64_t value = fp_bytes_uleb(&run->bytes);

    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static void read_operand(struct run *run, char form, struct operands *operands)
{
    if (form == 'r')
        operands->reg = fp_bytes_uleb(&run->bytes);
    else if (form == 'u')
        operands->value = plain(run);
    else if (form == 'f')
        operands->value = scaled(run, plain(run));
    else if (form == 's')
        operands->value = scaled(run, fp_bytes_sleb(&run->bytes));
    else if (form == 'e')
        operands->expression = expression(&run->bytes);
    else if (form == 'x') {
        uint64_t base = fp_bytes_uleb(&run->bytes);

        if (base >= FP_CFI_REGISTERS)
            fp_bytes_fail(&run->bytes);
        operands->base = (uint8_t)base;
    }
}

static void set_rule(struct run *run, uint8_t kind, const struct operands *operands)
{
    if (operands->value < INT16_MIN || operands->value > INT16_MAX)
        fp_bytes_fail(&run->bytes);
    else if (operands->reg < FP_CFI_REGISTERS) /* not of floating point */
        run->row.rule[operands->reg] =
            (struct fp_cfi_rule){(int16_t)operands->value, kind, operands->base};
}

static void set_cfa(struct run *run, uint64_t reg, int64_t offset)
{
    if (reg >= FP_CFI_REGISTERS || offset < INT32_MIN || offset > INT32_MAX) {
        fp_bytes_fail(&run->bytes);
        return;
    }
    run->row.cfa_kind = FP_CFA_REGISTER;
    run->row.cfa_register = (uint8_t)reg;
    run->row.cfa_offset = (int32_t)offset;
    run->row.cfa_added = 0;
    run->row.cfa_index = 0;
}

/* Half of a CFA changes: the other half is a register's or an offset. */
static void check_cfa(struct run *run)
{
    if (run->row.cfa_kind != FP_CFA_REGISTER)
        fp_bytes_fail(&run->bytes);
}

static void act(struct run *run, uint8_t action, uint8_t kind, const struct operands *operands)
{
    struct fp_cfi_row *row = &run->row;

    if (action == REMEMBER && run->remembered_count < REMEMBERED_MAX) {
        run->remembered[run->remembered_count++] = *row;
    } else if (action == RECALL && run->remembered_count > 0) {
        *row = run->remembered[--run->remembered_count];
    } else if (action == RESTORE_RULE || action == SET_RULE_EXPRESSION) {
        if (operands->reg < FP_CFI_REGISTERS)
            row->rule[operands->reg] = action == RESTORE_RULE
                                           ? run->initial.rule[operands->reg]
                                           : rule_of_expression(operands->expression);
    } else if (action == SET_RULE) {
        set_rule(run, kind, operands);
    } else if (action == SET_CFA) {
        set_cfa(run, operands->reg, operands->value);
    } else if (action == SET_CFA_REGISTER) {
        check_cfa(run);
        set_cfa(run, operands->reg, row->cfa_offset);
    } else if (action == SET_CFA_OFFSET) {
        check_cfa(run);
        set_cfa(run, row->cfa_register, operands->value);
    } else if (action == SET_CFA_EXPRESSION) {
        set_cfa_expression(row, operands->expression);
    } else if (action != NOTHING) {
        fp_bytes_fail(&run->bytes);
    }
}

static void instruction(struct run *run, uint8_t code)
{
    struct operands operands = {.reg = code & 0x3f};
    const char *form;

    if ((code & 0xc0) == OFFSET || (code & 0xc0) == RESTORE) {
        code = (code & 0xc0) == OFFSET ? OFFSET_EXTENDED : RESTORE_EXTENDED;
        form = instructions[code].operands + 1; /* the register is in `code` */
    } else if (code < sizeof instructions / sizeof instructions[0]) {
        form = instructions[code].operands;
    } else {
        fp_bytes_fail(&run->bytes);
        return;
    }
    for (; *form != '\0'; form++)
        read_operand(run, *form, &operands);
    if (!run->bytes.is_bad)
        act(run, instructions[code].action, instructions[code].kind, &operands);
}

static int is_advance(uint8_t code)
{
    return (code & 0xc0) == ADVANCE || (code >= SET_LOC && code <= ADVANCE4);
}

/* Where the next row begins. */
static uint64_t advanced(struct run *run, uint8_t code)
{
    const struct fp_cfi *cfi = run->cfi;

    if (code == SET_LOC)
        return fp_cfi_encoded(&run->bytes, run->fde.encoding,
                              cfi->address + (uint64_t)(run->bytes.at - cfi->bytes), 0);
    return run->address +
           run->fde.code_align *
               ((code & 0xc0) == ADVANCE
                    ? code & 0x3f
                    : fp_bytes_unsigned(&run->bytes, (size_t)1 << (code - ADVANCE1)));
}

/* Add the rows of the function, up to its end or to what is no program. */
static void execute(struct run *run, const struct fp_bytes *program, struct table *table)
{
    run->bytes = *program;
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

static void add_function(struct table *table, const struct fp_cfi *cfi,
                         const struct fp_cfi_function *function, uint64_t *left)
{
    struct run run = {
        .cfi = cfi, .address = function->start, .end = function->start + function->size};
    uint64_t size;

    if (fp_cfi_fde(cfi, function->fde, &run.fde) == 0) {
        size = fp_bytes_left(&run.fde.common) + fp_bytes_left(&run.fde.program);
        run.row.is_signal = run.fde.is_signal;
        if (size <= *left && initialize(&run) == 0)
            execute(&run, &run.fde.program, table);
        else
            add(table, function->start, NULL);
        *left -= size <= *left ? size : *left;
    }
    add(table, run.end, NULL); /* the next function may begin later */
}

/* ---- the interface ---------------------------------------------------- */

static void shrink(void **array, size_t size)
{
    void *less = realloc(*array, size);

    if (less != NULL)
        *array = less;
}

static int load(struct table *table, const struct fp_cfi *cfi)
{
    static const struct fp_cfi_row none;
    struct fp_cfi_rows *rows = table->rows;
    uint64_t left = PROGRAMS_MAX * cfi->size;

    table->err = grow((void **)&rows->distinct, 0, &table->distinct_room, sizeof none);
    if (table->err != 0)
        return table->err;
    rows->distinct[rows->distinct_count++] = none;
    rows->base = cfi->function[0].start;
    for (uint32_t i = 0; i < cfi->count && table->err == 0; i++) {
        const struct fp_cfi_function *function = &cfi->function[i];

        if (function->start - rows->base > UINT32_MAX - function->size)
            break;
        add_function(table, cfi, function, &left);
    }
    if (table->err != 0)
        return table->err;
    shrink((void **)&rows->from, rows->count * sizeof *rows->from);
    shrink((void **)&rows->shape, rows->count * sizeof *rows->shape);
    shrink((void **)&rows->distinct, rows->distinct_count * sizeof *rows->distinct);
    return 0;
}

int fp_cfi_rows_load(struct fp_cfi_rows *rows, const struct fp_cfi *cfi)
{
    struct table table = {.rows = rows};
    int err = FP_ENOMEM;

    memset(rows, 0, sizeof *rows);
    if (cfi->count == 0)
        return 0;
    table.slot = calloc(SLOTS, sizeof *table.slot);
    if (table.slot != NULL)
        err = load(&table, cfi);
    free(table.slot);
    if (err != 0)
        fp_cfi_rows_unload(rows);
    return err;
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
