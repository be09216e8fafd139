/*
 * cfi.c - a function's description, and the row for one address of it.
 *
 * The formats: DWARF 4 (6.4, 7.23), and the Linux Standard Base for how
 * .eh_frame differs. Every byte may be wrong: what is read is bounded by the
 * bytes, and a loop's turn takes at least one of them.
 */
#include "cstack/cfi.h"

#include "base/error.h"

/* ---- encoded addresses ------------------------------------------------ */

enum { /* DW_EH_PE_* */
       AS_POINTER = 0x00,
       AS_ULEB = 0x01,
       AS_U16 = 0x02,
       AS_U32 = 0x03,
       AS_U64 = 0x04,
       AS_SLEB = 0x09,
       AS_S16 = 0x0a,
       AS_S32 = 0x0b,
       AS_S64 = 0x0c,
       FROM_NOTHING = 0x00,
       FROM_HERE = 0x10,
       FROM_DATA = 0x30,
       INDIRECT = 0x80,
};

static uint64_t encoded_number(struct fp_bytes *bytes, uint8_t encoding)
{
    switch (encoding & 0x0f) {
    case AS_POINTER:
    case AS_U64:
    case AS_S64:
        return fp_bytes_unsigned(bytes, 8);
    case AS_ULEB:
        return fp_bytes_uleb(bytes);
    case AS_SLEB:
        return (uint64_t)fp_bytes_sleb(bytes);
    case AS_U16:
        return fp_bytes_unsigned(bytes, 2);
    case AS_S16:
        return (uint64_t)fp_bytes_signed(bytes, 2);
    case AS_U32:
        return fp_bytes_unsigned(bytes, 4);
    case AS_S32:
        return (uint64_t)fp_bytes_signed(bytes, 4);
    default:
        fp_bytes_fail(bytes);
        return 0;
    }
}

uint64_t fp_cfi_encoded(struct fp_bytes *bytes, uint8_t encoding, uint64_t here,
                        uint64_t data)
{
    uint64_t number = encoded_number(bytes, encoding);

    switch (encoding & 0xf0) {
    case FROM_NOTHING:
        return number;
    case FROM_HERE:
        return here + number;
    case FROM_DATA:
        return data + number;
    default: /* from text or function; indirect, which is in other memory */
        fp_bytes_fail(bytes);
        return 0;
    }
}

/* ---- descriptions ----------------------------------------------------- */

static uint64_t place_of(const struct fp_cfi *cfi, const unsigned char *at)
{
    return (uint64_t)(at - cfi->bytes);
}

/* The entry at a place: u32 length, and as many bytes. Those with 64 bits of
 * length are in no .eh_frame of this machine. */
static int entry_at(const struct fp_cfi *cfi, uint64_t place,
                    struct fp_bytes *entry)
{
    struct fp_bytes bytes;
    uint32_t length;

    if (place >= cfi->size)
        return FP_EINVAL;
    bytes = fp_bytes(cfi->bytes + place, cfi->size - place);
    length = fp_bytes_u32(&bytes);
    if (bytes.is_bad || length == 0 || length > fp_bytes_left(&bytes))
        return FP_EINVAL;
    *entry = fp_bytes(bytes.at, length);
    return 0;
}

/* What the letters of the augmentation say; the size of its data is known, so
 * an unknown letter ends the reading and does no harm. */
static void read_augmentation(struct fp_bytes *data, const char *letter,
                              struct fp_cfi_fde *fde)
{
    for (; *letter != '\0'; letter++) {
        switch (*letter) {
        case 'R':
            fde->encoding = fp_bytes_u8(data);
            break;
        case 'P': /* the personality routine: only to be skipped */
            encoded_number(data, fp_bytes_u8(data));
            break;
        case 'L':
            fp_bytes_u8(data);
            break;
        case 'S':
            fde->is_signal = 1;
            break;
        default:
            return;
        }
    }
}

static int read_cie(const struct fp_cfi *cfi, uint64_t place,
                    struct fp_cfi_fde *fde)
{
    struct fp_bytes bytes, data;
    const char *letters;
    uint64_t return_address, size;
    uint8_t version;

    if (entry_at(cfi, place, &bytes) != 0 || fp_bytes_u32(&bytes) != 0)
        return FP_EINVAL;
    fde->end = place_of(cfi, bytes.end);
    version = fp_bytes_u8(&bytes);
    letters = (const char *)bytes.at;
    while (fp_bytes_u8(&bytes) != '\0')
        ;
    fde->code_align = fp_bytes_uleb(&bytes);
    fde->data_align = fp_bytes_sleb(&bytes);
    return_address = version == 1 ? fp_bytes_u8(&bytes) : fp_bytes_uleb(&bytes);
    if (bytes.is_bad || (version != 1 && version != 3) ||
        return_address != FP_CFI_RIP)
        return FP_EINVAL;
    fde->encoding = AS_POINTER;
    fde->is_signal = 0;
    fde->common = bytes;
    if (*letters == '\0')
        return 0;
    if (*letters != 'z')
        return FP_EINVAL;
    size = fp_bytes_uleb(&bytes);
    data = fp_bytes(bytes.at, 0);
    fp_bytes_skip(&bytes, size);
    data.end = bytes.at;
    read_augmentation(&data, letters + 1, fde);
    fde->common = bytes;
    return bytes.is_bad || data.is_bad ? FP_EINVAL : 0;
}

/* Does the CIE have augmentation data, and with it each of its FDEs? */
static int is_augmented(const struct fp_cfi *cfi, uint64_t cie)
{
    return cfi->bytes[cie + 9] == 'z'; /* length, 0, version */
}

int fp_cfi_fde(const struct fp_cfi *cfi, uint64_t place, struct fp_cfi_fde *fde)
{
    struct fp_bytes bytes;
    uint64_t back, cie;
    size_t cie_end;

    if (entry_at(cfi, place, &bytes) != 0)
        return FP_EINVAL;
    back = fp_bytes_u32(&bytes); /* from here to the CIE; 0: this is one */
    if (bytes.is_bad || back == 0 || back > place + 4)
        return FP_EINVAL;
    cie = place + 4 - back;
    if (read_cie(cfi, cie, fde) != 0)
        return FP_EINVAL;
    cie_end = fde->end;
    fde->end = place_of(cfi, bytes.end);
    if (fde->end < cie_end)
        fde->end = cie_end;
    fde->start = fp_cfi_encoded(&bytes, fde->encoding,
                                cfi->address + place_of(cfi, bytes.at), 0);
    fde->size = encoded_number(&bytes, fde->encoding);
    if (is_augmented(cfi, cie))
        fp_bytes_skip(&bytes, fp_bytes_uleb(&bytes));
    fde->program = bytes;
    return bytes.is_bad ? FP_EINVAL : 0;
}

const struct fp_cfi_function *fp_cfi_find(const struct fp_cfi *cfi,
                                          uint64_t address)
{
    uint32_t low = 0, high = cfi->count;

    while (low < high) { /* all before `low` start at or before the address */
        uint32_t middle = low + (high - low) / 2;

        if (cfi->function[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 ||
        address - cfi->function[low - 1].start >= cfi->function[low - 1].size)
        return NULL;
    return &cfi->function[low - 1];
}

/* ---- programs --------------------------------------------------------- */

enum { /* DW_CFA_*; the first three have an operand in their lower six bits */
       ADVANCE = 0x40,
       OFFSET = 0x80,
       RESTORE = 0xc0,
       NOP = 0x00,
       SET_LOC = 0x01,
       ADVANCE1 = 0x02,
       ADVANCE2 = 0x03,
       ADVANCE4 = 0x04,
       OFFSET_EXTENDED = 0x05,
       RESTORE_EXTENDED = 0x06,
       UNDEFINED = 0x07,
       SAME_VALUE = 0x08,
       REGISTER = 0x09,
       REMEMBER_STATE = 0x0a,
       RESTORE_STATE = 0x0b,
       DEF_CFA = 0x0c,
       DEF_CFA_REGISTER = 0x0d,
       DEF_CFA_OFFSET = 0x0e,
       DEF_CFA_EXPRESSION = 0x0f,
       EXPRESSION = 0x10,
       OFFSET_EXTENDED_SF = 0x11,
       DEF_CFA_SF = 0x12,
       DEF_CFA_OFFSET_SF = 0x13,
       VAL_OFFSET = 0x14,
       VAL_OFFSET_SF = 0x15,
       VAL_EXPRESSION = 0x16,
       GNU_ARGS_SIZE = 0x2e,
       GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* Compilers nest two deep at most. */
#define REMEMBERED_MAX 4

struct run {
    const struct fp_cfi *cfi;
    const struct fp_cfi_fde *fde;
    struct fp_bytes bytes;
    uint64_t address, until; /* the row that is made is for `address` on */
    struct fp_cfi_row *row;
    struct fp_cfi_row initial; /* as the CIE's instructions left it */
    struct fp_cfi_row remembered[REMEMBERED_MAX];
    int remembered_count;
};

static uint64_t advance_operand(struct run *run, uint8_t code)
{
    size_t size = code == ADVANCE1 ? 1 : code == ADVANCE2 ? 2 : 4;

    if ((code & 0xc0) == ADVANCE)
        return code & 0x3f;
    return fp_bytes_unsigned(&run->bytes, size);
}

static void set_rule(struct run *run, uint64_t reg, enum fp_cfi_kind kind,
                     int64_t value)
{
    if (value < INT32_MIN || value > INT32_MAX)
        fp_bytes_fail(&run->bytes);
    else if (reg < FP_CFI_REGISTERS) /* not those of floating point */
        run->row->rule[reg] =
            (struct fp_cfi_rule){(int32_t)value, (uint8_t)kind};
}

static void restore(struct run *run, uint64_t reg)
{
    if (reg < FP_CFI_REGISTERS)
        run->row->rule[reg] = run->initial.rule[reg];
}

static int64_t scaled(struct run *run, int64_t factor)
{
    int64_t product;

    if (__builtin_mul_overflow(factor, run->fde->data_align, &product))
        return INT64_MAX; /* which set_rule() and set_cfa() refuse */
    return product;
}

static int64_t scaled_uleb(struct run *run)
{
    uint64_t factor = fp_bytes_uleb(&run->bytes);

    return factor > INT64_MAX ? INT64_MAX : scaled(run, (int64_t)factor);
}

static int64_t scaled_sleb(struct run *run)
{
    return scaled(run, fp_bytes_sleb(&run->bytes));
}

static int64_t negative(int64_t n)
{
    return n == INT64_MIN ? INT64_MAX : -n;
}

/* Step over an expression: where it is. */
static int64_t skip_expression(struct run *run)
{
    uint64_t place = place_of(run->cfi, run->bytes.at);

    fp_bytes_skip(&run->bytes, fp_bytes_uleb(&run->bytes));
    return (int64_t)place;
}

static void set_cfa(struct run *run, uint64_t reg, int64_t offset)
{
    if (reg >= FP_CFI_REGISTERS || offset < INT32_MIN || offset > INT32_MAX) {
        fp_bytes_fail(&run->bytes);
        return;
    }
    run->row->cfa = (struct fp_cfi_rule){(int32_t)offset, FP_CFI_REGISTER};
    run->row->cfa_register = (uint8_t)reg;
}

static void set_cfa_offset(struct run *run, int64_t offset)
{
    if (run->row->cfa.kind != FP_CFI_REGISTER)
        fp_bytes_fail(&run->bytes);
    else
        set_cfa(run, run->row->cfa_register, offset);
}

static int64_t plain_uleb(struct run *run)
{
    uint64_t value = fp_bytes_uleb(&run->bytes);

    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* Instructions about the CFA. 0 when `code` is none. */
static int define_cfa(struct run *run, uint8_t code)
{
    uint64_t reg;

    switch (code) {
    case DEF_CFA:
        reg = fp_bytes_uleb(&run->bytes);
        set_cfa(run, reg, plain_uleb(run));
        return 1;
    case DEF_CFA_SF:
        reg = fp_bytes_uleb(&run->bytes);
        set_cfa(run, reg, scaled_sleb(run));
        return 1;
    case DEF_CFA_REGISTER:
        reg = fp_bytes_uleb(&run->bytes);
        if (run->row->cfa.kind != FP_CFI_REGISTER)
            fp_bytes_fail(&run->bytes);
        else
            set_cfa(run, reg, run->row->cfa.value);
        return 1;
    case DEF_CFA_OFFSET:
        set_cfa_offset(run, plain_uleb(run));
        return 1;
    case DEF_CFA_OFFSET_SF:
        set_cfa_offset(run, scaled_sleb(run));
        return 1;
    case DEF_CFA_EXPRESSION:
        run->row->cfa = (struct fp_cfi_rule){(int32_t)skip_expression(run),
                                             FP_CFI_EXPRESSION};
        return 1;
    default:
        return 0;
    }
}

/* Instructions about one register, which they name first. 0 when `code` is
 * none. */
static int define_register(struct run *run, uint8_t code)
{
    struct fp_bytes before = run->bytes;
    uint64_t reg = fp_bytes_uleb(&run->bytes);

    switch (code) {
    case OFFSET_EXTENDED:
        set_rule(run, reg, FP_CFI_SAVED, scaled_uleb(run));
        return 1;
    case OFFSET_EXTENDED_SF:
        set_rule(run, reg, FP_CFI_SAVED, scaled_sleb(run));
        return 1;
    case GNU_NEGATIVE_OFFSET_EXTENDED:
        set_rule(run, reg, FP_CFI_SAVED, negative(scaled_uleb(run)));
        return 1;
    case VAL_OFFSET:
        set_rule(run, reg, FP_CFI_VALUE, scaled_uleb(run));
        return 1;
    case VAL_OFFSET_SF:
        set_rule(run, reg, FP_CFI_VALUE, scaled_sleb(run));
        return 1;
    case REGISTER:
        set_rule(run, reg, FP_CFI_REGISTER, plain_uleb(run));
        return 1;
    case EXPRESSION:
        set_rule(run, reg, FP_CFI_EXPRESSION, skip_expression(run));
        return 1;
    case VAL_EXPRESSION:
        set_rule(run, reg, FP_CFI_VALUE_EXPRESSION, skip_expression(run));
        return 1;
    case UNDEFINED:
        set_rule(run, reg, FP_CFI_UNDEFINED, 0);
        return 1;
    case SAME_VALUE:
        set_rule(run, reg, FP_CFI_SAME, 0);
        return 1;
    case RESTORE_EXTENDED:
        restore(run, reg);
        return 1;
    default:
        run->bytes = before;
        return 0;
    }
}

static void remember(struct run *run)
{
    if (run->remembered_count == REMEMBERED_MAX)
        fp_bytes_fail(&run->bytes);
    else
        run->remembered[run->remembered_count++] = *run->row;
}

static void recall(struct run *run)
{
    if (run->remembered_count == 0)
        fp_bytes_fail(&run->bytes);
    else
        *run->row = run->remembered[--run->remembered_count];
}

static void instruction(struct run *run, uint8_t code)
{
    switch (code) {
    case NOP:
        return;
    case GNU_ARGS_SIZE:
        fp_bytes_uleb(&run->bytes);
        return;
    case REMEMBER_STATE:
        remember(run);
        return;
    case RESTORE_STATE:
        recall(run);
        return;
    default:
        if ((code & 0xc0) == OFFSET)
            set_rule(run, code & 0x3f, FP_CFI_SAVED, scaled_uleb(run));
        else if ((code & 0xc0) == RESTORE)
            restore(run, code & 0x3f);
        else if (!define_cfa(run, code) && !define_register(run, code))
            fp_bytes_fail(&run->bytes);
    }
}

static int is_advance(uint8_t code)
{
    return (code & 0xc0) == ADVANCE || (code >= SET_LOC && code <= ADVANCE4);
}

/* Run `program` up to the first row that begins behind `until`. */
static int execute(struct run *run, const struct fp_bytes *program)
{
    run->bytes = *program;
    while (fp_bytes_left(&run->bytes) > 0) {
        uint8_t code = fp_bytes_u8(&run->bytes);

        if (!is_advance(code)) {
            instruction(run, code);
            continue;
        }
        if (code == SET_LOC)
            run->address = fp_cfi_encoded(
                &run->bytes, run->fde->encoding,
                run->cfi->address + place_of(run->cfi, run->bytes.at), 0);
        else
            run->address += advance_operand(run, code) * run->fde->code_align;
        if (!run->bytes.is_bad && run->address > run->until)
            return 0;
    }
    return run->bytes.is_bad ? FP_EINVAL : 0;
}

int fp_cfi_row(const struct fp_cfi *cfi, uint64_t address,
               struct fp_cfi_row *row)
{
    const struct fp_cfi_function *function = fp_cfi_find(cfi, address);
    struct fp_cfi_fde fde;
    struct run run;

    if (function == NULL)
        return FP_ENOENT;
    if (fp_cfi_fde(cfi, function->fde, &fde) != 0)
        return FP_EINVAL;
    memset(row, 0, sizeof *row); /* every register: FP_CFI_SAME */
    row->cfa.kind = FP_CFI_UNDEFINED;
    row->is_signal = fde.is_signal;
    run.cfi = cfi;
    run.fde = &fde;
    run.address = fde.start;
    run.until = address;
    run.row = row;
    run.initial = *row;
    run.remembered_count = 0;
    if (execute(&run, &fde.common) != 0)
        return FP_EINVAL;
    run.initial = *row;
    return execute(&run, &fde.program);
}

struct fp_bytes fp_cfi_expression(const struct fp_cfi *cfi,
                                  const struct fp_cfi_rule *rule)
{
    struct fp_bytes bytes =
        fp_bytes(cfi->bytes + rule->value, cfi->size - (uint64_t)rule->value);
    uint64_t length = fp_bytes_uleb(&bytes);

    /* The program that named it has stepped over it: it is there. */
    bytes.end = bytes.at + length;
    return bytes;
}
