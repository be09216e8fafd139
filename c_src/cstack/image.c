#include "cstack/image.h"

#include <string.h>

#include "base/error.h"

/* A library without unwind information, or without symbols, is no error. */
static int load(struct fp_image *image, const struct fp_elf_source *source)
{
    struct fp_cfi cfi;
    int err = fp_cfi_load(&cfi, &image->elf, source);

    if (err != FP_ENOMEM)
        err = fp_cfi_rows_load(&image->rows, &cfi);
    if (err != FP_ENOMEM)
        err = fp_symbol_table_load(&image->symbols, &image->elf, source, &cfi);
    fp_cfi_unload(&cfi);
    return err == FP_ENOMEM ? FP_ENOMEM : 0;
}

int fp_image_load(struct fp_image *image, const struct fp_elf_source *source)
{
    int err;

    memset(image, 0, sizeof *image);
    if ((err = fp_elf_parse(&image->elf, source)) != 0)
        return err;
    if ((err = load(image, source)) != 0)
        fp_image_unload(image);
    return err;
}

void fp_image_unload(struct fp_image *image)
{
    fp_cfi_rows_unload(&image->rows);
    fp_symbol_table_unload(&image->symbols);
    memset(image, 0, sizeof *image);
}
