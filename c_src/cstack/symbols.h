/*
 * symbols.h - the functions that an ELF file names, by address.
 *
 * cstack.h defines which symbol names an address, at fp_cstack_resolve().
 */
#ifndef FP_CSTACK_SYMBOLS_H
#define FP_CSTACK_SYMBOLS_H

#include <stdint.h>

#include "cstack/cfi.h"
#include "cstack/elf.h"

struct fp_symbol_entry {
    uint64_t start;
    uint64_t reach; /* the greatest end of this one and all before it */
    uint32_t size;
    uint32_t name; /* in `names` */
};

struct fp_symbol_table {
    struct fp_symbol_entry *entry; /* by start; the best of equals is last */
    uint32_t count;
    uint32_t names_size;
    char *names;
};

/* 0 or FP_ENOMEM. `table` is empty when the file names no function. May block. */
int fp_symbol_table_load(struct fp_symbol_table *table, const struct fp_elf *elf,
                         const struct fp_elf_source *source, const struct fp_cfi *cfi);
void fp_symbol_table_unload(struct fp_symbol_table *table);

/* The name of the innermost function around an address, or NULL. Pure. */
const char *fp_symbol_table_find(const struct fp_symbol_table *table, uint64_t address);

#endif
