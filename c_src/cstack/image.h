/* image.h - what is kept of one library's file, and the set of them.
 *
 *      address - mapping.bias = address in the file's own numbers,
 *      the addresses of image->rows and image->symbols. */
#pragma once

#include "cstack/cfi.h"
#include "cstack/cstack.h"
#include "cstack/elf.h"

/* ---- the functions that a file names: symbols.c ------------------------ */

struct fp_symbol_entry {
    uint64_t start;
    uint64_t reach; /* the greatest end of this one and all before it */
    uint32_t size;
    uint32_t name; /* in `names` */
};

/* cstack.h defines which symbol names an address, at fp_cstack_resolve(). */
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

/* ---- a file ------------------------------------------------------------ */

/* Empty `rows` and `symbols`: known by its name only. */
struct fp_image {
    struct fp_elf elf;
    struct fp_cfi_rows rows;
    struct fp_symbol_table symbols;
};

/* Reads `source` with at most `room` bytes of memory. 0; FP_EINVAL or FP_EIO for what is no ELF
 * file, FP_EFULL for a file that needs more, FP_ENOMEM: `image` is empty then. May block. */
int fp_image_load(struct fp_image *image, const struct fp_elf_source *source, size_t room);
void fp_image_unload(struct fp_image *image);

/* The memory of rows and symbols. */
size_t fp_image_bytes(const struct fp_image *image);

/* ---- the set ----------------------------------------------------------- */

struct fp_cstack_library {
    char *name;
    struct fp_image image;
};

/* An executable mapping. */
struct fp_mapping {
    uint64_t start, end, bias;
    struct fp_cstack_library *library;
};

struct fp_cstack {
    struct fp_mapping *mapping; /* sorted, disjoint */
    size_t mappings;
    struct fp_cstack_library **library;
    size_t libraries;
    size_t bytes;              /* of all images' rows and symbols */
    uint32_t left_out;         /* libraries that had no room */
    uint64_t loaded, unloaded; /* the dynamic linker's counters */
};

/* The mapping around an address, or NULL. Pure. */
const struct fp_mapping *fp_cstack_mapping(const struct fp_cstack *cstack, uint64_t address);
