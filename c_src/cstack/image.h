/*
 * image.h - what is kept of one library's file, and the set of them.
 *
 *      address - mapping.bias = address in the file's own numbers,
 *      the addresses of image->rows and image->symbols.
 */
#ifndef FP_CSTACK_IMAGE_H
#define FP_CSTACK_IMAGE_H

#include "cstack/cfi.h"
#include "cstack/cstack.h"
#include "cstack/elf.h"
#include "cstack/symbols.h"

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
    size_t bytes;              /* of the images */
    uint32_t left_out;         /* libraries that had no room */
    uint64_t loaded, unloaded; /* the dynamic linker's counters */
};

/* The mapping around an address, or NULL. Pure. */
const struct fp_mapping *fp_cstack_mapping(const struct fp_cstack *cstack, uint64_t address);

#endif
