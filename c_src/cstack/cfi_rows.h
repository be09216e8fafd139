/*
 * cfi_rows.h - call frame information as a sorted table: where the caller's registers are, by
 * address.
 *
 *      struct fp_cfi --fp_cfi_rows_load: runs each program once--> rows
 *
 *      from[]   0x10  0x11  0x14  0x80 ...   addresses, less `base`
 *      shape[]     1     2     3     0 ...   into distinct[]
 *
 * A library has some ten thousand rows, and a few hundred distinct ones: a row takes 6 bytes.
 */
#ifndef FP_CSTACK_CFI_ROWS_H
#define FP_CSTACK_CFI_ROWS_H

#include <stdint.h>

#include "cstack/cfi.h"

enum fp_cfi_kind {
    FP_CFI_SAME,      /* as in the callee */
    FP_CFI_UNDEFINED, /* lost; of the return address: there is no caller */
    FP_CFI_UNKNOWN,   /* an expression of another form */
    FP_CFI_SAVED,     /* at CFA + value */
    FP_CFI_VALUE,     /* is CFA + value */
    FP_CFI_REGISTER,  /* in the callee's register `base` */
    FP_CFI_SAVED_AT,  /* at the callee's register `base` + value */
};

struct fp_cfi_rule {
    int16_t value;
    uint8_t kind, base;
};

/* The canonical frame address (CFA): the value of rsp before the call. */
enum fp_cfa_kind {
    FP_CFA_UNKNOWN,
    FP_CFA_REGISTER, /* register + offset */
    FP_CFA_MEMORY,   /* the word at register + offset + index * 8, and `added` */
    FP_CFA_PLT,      /* rsp + 8; + 16 from byte `offset` of an entry of 16 bytes on */
};

struct fp_cfi_row {
    int32_t cfa_offset;
    uint32_t cfa_added;
    uint8_t cfa_kind, cfa_register;
    uint8_t cfa_index; /* the register's number + 1; 0: none */
    uint8_t is_signal; /* the caller was interrupted, it did not call */
    struct fp_cfi_rule rule[FP_CFI_REGISTERS];
};

struct fp_cfi_rows {
    uint64_t base;
    uint32_t *from;
    uint16_t *shape;
    struct fp_cfi_row *distinct; /* distinct[0]: there is none */
    uint32_t count, distinct_count;
};

/* 0 or FP_ENOMEM. A program with an unknown instruction has rows up to it. May block. */
int fp_cfi_rows_load(struct fp_cfi_rows *rows, const struct fp_cfi *cfi);
void fp_cfi_rows_unload(struct fp_cfi_rows *rows);

/* The row for an address of the file, or NULL. Pure; any thread. */
const struct fp_cfi_row *fp_cfi_rows_find(const struct fp_cfi_rows *rows, uint64_t address);

#endif
