/* cfi.h - call frame information (CFI): where the caller's registers are, by address.
 *
 *      .eh_frame_hdr, .eh_frame --fp_cfi_load--> struct fp_cfi: functions, and a program for each
 *                               --fp_cfi_rows_load: runs each program once--> rows
 *
 *      from[]   0x10  0x11  0x14  0x80 ...   addresses, less `base`
 *      shape[]     1     2     3     0 ...   into distinct[]
 *
 * A library has some ten thousand rows, and a few hundred distinct ones: a row takes 6 bytes. All
 * addresses are the file's own: before the library was moved. */
#pragma once

#include <stdint.h>

#include "cstack/bytes.h"
#include "cstack/elf.h"

/* DWARF's numbers of x86_64's registers are the places in struct fp_registers. The last is the
 * return address. */
#define FP_CFI_REGISTERS 17u
#define FP_CFI_RBX 3u
#define FP_CFI_RBP 6u
#define FP_CFI_RSP 7u
#define FP_CFI_R12 12u
#define FP_CFI_RIP 16u

/* ---- descriptions: the writer's thread, while it makes rows ------------ */

struct fp_cfi_function {
    uint64_t start;
    uint32_t size;
    uint32_t fde; /* its description: an index of `bytes` */
};

struct fp_cfi {
    unsigned char *bytes; /* .eh_frame */
    uint64_t size;
    uint64_t address; /* of bytes[0] */
    struct fp_cfi_function *function;
    uint32_t count; /* sorted, disjoint */
};

/* 0 or FP_ENOMEM. Has the descriptions that could be understood, or none. May block. */
int fp_cfi_load(struct fp_cfi *cfi, const struct fp_elf *elf, const struct fp_elf_source *source);
void fp_cfi_unload(struct fp_cfi *cfi);

/* The size of the function that starts at an address; 0 when none does. */
uint32_t fp_cfi_function_size(const struct fp_cfi *cfi, uint64_t start);

/* A function's description (FDE), with the beginning (CIE) that it shares with others. */
struct fp_cfi_fde {
    uint64_t start, size;            /* the function */
    struct fp_bytes common, program; /* the CIE's instructions, the FDE's */
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding; /* DW_EH_PE_* of addresses */
    uint8_t is_augmented, is_signal;
};

/* The FDE at bytes[place]. 0 or FP_EINVAL. */
int fp_cfi_fde(const struct fp_cfi *cfi, uint64_t place, struct fp_cfi_fde *fde);

/* The address at a cursor into cfi->bytes. Fails for an unknown encoding. */
uint64_t fp_cfi_address(const struct fp_cfi *cfi, struct fp_bytes *bytes, uint8_t encoding);

/* ---- rows: any thread -------------------------------------------------- */

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

/* The row for an address, or NULL. */
const struct fp_cfi_row *fp_cfi_rows_find(const struct fp_cfi_rows *rows, uint64_t address);
