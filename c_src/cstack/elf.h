/* elf.h - the places of an ELF file's unwind information, symbols and build id.
 *
 * Pure but for its source: a file, the vDSO's memory, or a test's bytes, all of them untrusted. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fp_elf_source {
    /* All `size` bytes at `offset` of the file, or FP_EIO. */
    int (*read)(void *self, uint64_t offset, void *into, size_t size);
    void *self;
};

/* `size` bytes of the file; `address` is the file's own, before the library was moved. */
struct fp_elf_part {
    uint64_t address, offset, size;
};

struct fp_elf_segment {
    struct fp_elf_part in_file;
    int is_code;
};

struct fp_elf_symbols {
    struct fp_elf_part symbols, strings; /* of `symbols` size 0: none */
};

#define FP_ELF_SEGMENTS_MAX 16u
#define FP_BUILD_ID_MAX 64u
/* A compiler or a browser has larger ones. */
#define FP_ELF_PART_MAX ((size_t)16 << 20)

struct fp_elf {
    uint32_t segment_count;
    struct fp_elf_segment segment[FP_ELF_SEGMENTS_MAX];
    struct fp_elf_part frame_index; /* .eh_frame_hdr; size 0: none */
    struct fp_elf_part build_id;    /* its bytes; size 0: none */
    struct fp_elf_symbols symtab, dynsym;
};

/* 0; FP_EINVAL for what is no ELF file for x86_64 with something to map; FP_EIO when its headers
 * are not readable. */
int fp_elf_parse(struct fp_elf *elf, const struct fp_elf_source *source);

/* The part of the file from `address` to the end of what is mapped with it. 0, or FP_ENOENT when
 * nothing of the file is mapped there. */
int fp_elf_at(const struct fp_elf *elf, uint64_t address, struct fp_elf_part *part);

/* The file's own address of the code at `offset`. A mapping begins at a whole page, so up to a page
 * before the segment. 0, or FP_ENOENT without code there. */
int fp_elf_code_address(const struct fp_elf *elf, uint64_t offset, uint64_t *address);

/* The bytes of a part; free() them. NULL when there are none, more than FP_ELF_PART_MAX, no memory,
 * or not readable. */
unsigned char *fp_elf_load(const struct fp_elf_source *source, const struct fp_elf_part *part);
