/*
 * cfi.h - the functions that a library's .eh_frame describes.
 *
 * Each function has a description (FDE), which shares its beginning (CIE) with others. Both hold a
 * program; cfi_rows.c runs it.
 *
 *      .eh_frame_hdr  sorted (function, FDE)  --fp_cfi_load-->  struct fp_cfi
 *      .eh_frame      CIE FDE FDE CIE FDE ...
 *
 * All addresses here are the file's own: before the library was moved. The writer's thread loads
 * this and frees it once the rows are made.
 */
#ifndef FP_CSTACK_CFI_H
#define FP_CSTACK_CFI_H

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

struct fp_cfi_function {
    uint64_t start;
    uint32_t size;
    uint32_t fde; /* from `bytes` on */
};

struct fp_cfi {
    unsigned char *bytes; /* .eh_frame */
    uint64_t size;
    uint64_t address; /* of bytes[0] */
    struct fp_cfi_function *function;
    uint32_t count; /* sorted, disjoint */
};

/* 0 with the descriptions that could be understood; FP_ENOENT when there are none; FP_ENOMEM. `cfi`
 * is empty then. May block. */
int fp_cfi_load(struct fp_cfi *cfi, const struct fp_elf *elf, const struct fp_elf_source *source);
void fp_cfi_unload(struct fp_cfi *cfi);

/* The size of the function that starts at an address; 0 when none does. */
uint32_t fp_cfi_function_size(const struct fp_cfi *cfi, uint64_t start);

struct fp_cfi_fde {
    uint64_t start, size;            /* the function */
    struct fp_bytes common, program; /* the CIE's instructions, the FDE's */
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding; /* of addresses */
    uint8_t is_signal;
};

/* The FDE at bytes[place]. 0 or FP_EINVAL. */
int fp_cfi_fde(const struct fp_cfi *cfi, uint64_t place, struct fp_cfi_fde *fde);

/* An address in the encoding of a DW_EH_PE_* byte. `here` is the address of
 * bytes->at, `data` the base of DW_EH_PE_datarel. An unknown encoding fails. */
uint64_t fp_cfi_encoded(struct fp_bytes *bytes, uint8_t encoding, uint64_t here, uint64_t data);

#endif
