/*
 * cfi.h - call frame information: where the caller's registers are.
 *
 * A library's .eh_frame has a description (FDE) of each function, which shares
 * its beginning (CIE) with others'. It is a program: run up to an address, it
 * leaves a row, the rules by which the caller's registers come from the
 * callee's and from the stack at that address.
 *
 *      .eh_frame_hdr  sorted (function, FDE)  --fp_cfi_load-->  struct fp_cfi
 *      .eh_frame      CIE FDE FDE CIE FDE ...
 *
 * All addresses here are the file's own: before the library was moved.
 */
#ifndef FP_CSTACK_CFI_H
#define FP_CSTACK_CFI_H

#include <stdint.h>

#include "cstack/bytes.h"
#include "cstack/elf.h"

/* DWARF's numbers of x86_64's registers are the places in struct
 * fp_registers. The last is the return address. */
#define FP_CFI_REGISTERS 17u
#define FP_CFI_RBX 3u
#define FP_CFI_RBP 6u
#define FP_CFI_RSP 7u
#define FP_CFI_R12 12u
#define FP_CFI_R15 15u
#define FP_CFI_RIP 16u

struct fp_cfi_function {
    uint64_t start;
    uint32_t size;
    uint32_t fde; /* from `bytes` on */
};

struct fp_cfi {
    unsigned char *bytes; /* .eh_frame, as far as it is used */
    uint64_t size;
    uint64_t address; /* of bytes[0] */
    struct fp_cfi_function *function;
    uint32_t count; /* sorted, disjoint */
};

/* ---- a thread that may block: cfi_load.c ------------------------------ */

/* 0 with what could be understood; FP_ENOENT when there is nothing; FP_ENOMEM.
 * `cfi` is empty then. */
int fp_cfi_load(struct fp_cfi *cfi, const struct fp_elf *elf,
                const struct fp_elf_source *source);
void fp_cfi_unload(struct fp_cfi *cfi);

/* ---- any thread, pure: cfi.c ------------------------------------------ */

/* The function around an address, or NULL. */
const struct fp_cfi_function *fp_cfi_find(const struct fp_cfi *cfi,
                                          uint64_t address);

enum fp_cfi_kind {
    FP_CFI_SAME,       /* as in the callee */
    FP_CFI_UNDEFINED,  /* lost; of the return address: there is no caller */
    FP_CFI_SAVED,      /* at CFA + value */
    FP_CFI_VALUE,      /* is CFA + value */
    FP_CFI_REGISTER,   /* in the callee's register `value` */
    FP_CFI_EXPRESSION, /* at the address that the expression computes */
    FP_CFI_VALUE_EXPRESSION, /* what the expression computes */
};

/* An expression's value is the place of its length (ULEB) in cfi->bytes. */
struct fp_cfi_rule {
    int32_t value;
    uint8_t kind;
};

struct fp_cfi_row {
    /* The canonical frame address, which is what rsp was before the call:
     * register `cfa_register` + cfa.value, or an expression. */
    struct fp_cfi_rule cfa;
    uint8_t cfa_register;
    uint8_t is_signal; /* the caller was interrupted, it did not call */
    struct fp_cfi_rule rule[FP_CFI_REGISTERS];
};

/* The row for an address. 0; FP_ENOENT when no function is there; FP_EINVAL
 * when its program has what we do not know. */
int fp_cfi_row(const struct fp_cfi *cfi, uint64_t address,
               struct fp_cfi_row *row);

/* The bytes of an expression. */
struct fp_bytes fp_cfi_expression(const struct fp_cfi *cfi,
                                  const struct fp_cfi_rule *rule);

/* ---- shared by both files --------------------------------------------- */

struct fp_cfi_fde {
    uint64_t start, size;            /* the function */
    struct fp_bytes common, program; /* the CIE's instructions, the FDE's */
    size_t end; /* of what it uses, its CIE included, in cfi->bytes */
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding; /* of addresses */
    uint8_t is_signal;
};

/* The FDE at bytes[place]. 0 or FP_EINVAL. */
int fp_cfi_fde(const struct fp_cfi *cfi, uint64_t place,
               struct fp_cfi_fde *fde);

/* An address encoded as a DW_EH_PE_*. `here` is the address of bytes->at, `data`
 * what DW_EH_PE_datarel counts from. What is not understood fails. */
uint64_t fp_cfi_encoded(struct fp_bytes *bytes, uint8_t encoding, uint64_t here,
                        uint64_t data);

#endif
