#include "cstack/image.h"

#include <string.h>

#include "base/error.h"

int fp_image_load(struct fp_image *image, const struct fp_elf_source *source)
{
    int err;

    memset(image, 0, sizeof *image);
    if ((err = fp_elf_parse(&image->elf, source)) != 0)
        return err;
    err = fp_cfi_load(&image->cfi, &image->elf, source);
    if (err != FP_ENOMEM) /* having none of either is nothing wrong */
        err = fp_symbol_table_load(&image->symbols, &image->elf, source,
                                   &image->cfi);
    if (err != FP_ENOMEM)
        return 0;
    fp_image_unload(image);
    return FP_ENOMEM;
}

void fp_image_unload(struct fp_image *image)
{
    fp_cfi_unload(&image->cfi);
    fp_symbol_table_unload(&image->symbols);
    memset(image, 0, sizeof *image);
}
