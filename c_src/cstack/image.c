#include "cstack/image.h"

#include <string.h>

#include "base/error.h"

size_t fp_image_bytes(const struct fp_image *image)
{
    const struct fp_cfi_rows *rows = &image->rows;
    const struct fp_symbol_table *symbols = &image->symbols;

    return rows->count * (sizeof *rows->from + sizeof *rows->shape) +
           rows->distinct_count * sizeof *rows->distinct + symbols->count * sizeof *symbols->entry +
           symbols->names_size;
}

static uint64_t loaded_bytes(const struct fp_elf_part *part)
{
    return part->size < FP_ELF_PART_MAX ? part->size : FP_ELF_PART_MAX;
}

/* The memory of a load at one time, by the sizes of the file's parts: the unwind information with
 * its functions and rows, a table of symbols with its copy. Makes do with .dynsym if need be. */
static int is_within(struct fp_elf *elf, size_t room)
{
    struct fp_elf_part frames = {0}; /* .eh_frame_hdr and, behind it, .eh_frame */
    uint64_t symtab = 2 * (loaded_bytes(&elf->symtab.symbols) + loaded_bytes(&elf->symtab.strings));
    uint64_t bytes;

    fp_elf_at(elf, elf->frame_index.address, &frames);
    bytes = 4 * loaded_bytes(&frames) + symtab + 2 * loaded_bytes(&elf->dynsym.symbols) +
            2 * loaded_bytes(&elf->dynsym.strings);
    if (bytes <= room)
        return 1;
    memset(&elf->symtab, 0, sizeof elf->symtab);
    return bytes - symtab <= room;
}

/* A library without unwind information, or without symbols, is no error. */
static int load(struct fp_image *image, const struct fp_elf_source *source, size_t room)
{
    struct fp_cfi cfi;
    int err = is_within(&image->elf, room) ? 0 : FP_EFULL;

    if (err == 0 && (err = fp_cfi_load(&cfi, &image->elf, source)) == 0) {
        err = fp_cfi_rows_load(&image->rows, &cfi);
        if (err == 0)
            err = fp_symbol_table_load(&image->symbols, &image->elf, source, &cfi);
        fp_cfi_unload(&cfi);
    }
    /* More than the file's parts: entries that overlap. */
    return err == 0 && fp_image_bytes(image) > room ? FP_EFULL : err;
}

int fp_image_load(struct fp_image *image, const struct fp_elf_source *source, size_t room)
{
    int err;

    memset(image, 0, sizeof *image);
    err = fp_elf_parse(&image->elf, source);
    if (err == 0)
        err = load(image, source, room);
    if (err != 0)
        fp_image_unload(image);
    return err;
}

void fp_image_unload(struct fp_image *image)
{
    fp_cfi_rows_unload(&image->rows);
    fp_symbol_table_unload(&image->symbols);
    memset(image, 0, sizeof *image);
}
