/* fuzz_elf.c - any bytes as a library's file: its segments, unwind information and symbols. */
#include "fuzz.h"

#include "base/error.h"
#include "cstack/image.h"

#define LOOKED_AT_MAX 64u

struct file {
    const uint8_t *bytes;
    size_t size;
    uint64_t reads;
};

static int read_file(void *self, uint64_t offset, void *into, size_t size)
{
    struct file *file = self;

    file->reads++;
    if (offset > file->size || size > file->size - offset)
        return FP_EIO;
    if (size > 0)
        memcpy(into, file->bytes + offset, size);
    return 0;
}

static void check_elf(const struct fp_elf *elf)
{
    FUZZ_CHECK(elf->segment_count > 0 && elf->segment_count <= FP_ELF_SEGMENTS_MAX);
    FUZZ_CHECK(elf->build_id.size <= FP_BUILD_ID_MAX);
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const struct fp_elf_part *part = &elf->segment[i].in_file;
        struct fp_elf_part found;
        uint64_t address;

        if (part->size > 0) {
            FUZZ_CHECK(fp_elf_at(elf, part->address, &found) == 0);
            FUZZ_CHECK(found.offset + found.size >= found.offset);
        }
        if (elf->segment[i].is_code && part->size > 0)
            FUZZ_CHECK(fp_elf_code_address(elf, part->offset, &address) == 0);
    }
}

static void check_functions(const struct fp_image *image, const struct fp_elf_source *source)
{
    const struct fp_cfi_rows *rows = &image->rows;
    struct fp_cfi cfi;

    FUZZ_CHECK(fp_cfi_load(&cfi, &image->elf, source) == 0);
    if (cfi.count == 0)
        FUZZ_CHECK(rows->count == 0);
    for (uint32_t i = 0; i < cfi.count; i++) {
        const struct fp_cfi_function *function = &cfi.function[i];
        uint64_t at = function->start + i % function->size;

        FUZZ_CHECK(function->size > 0 && function->fde < cfi.size);
        FUZZ_CHECK(i == 0 || function->start - function[-1].start >= function[-1].size);
        FUZZ_CHECK(i == 0 || function[-1].start < function->start);
        if (i >= LOOKED_AT_MAX)
            continue;
        FUZZ_CHECK(fp_cfi_function_size(&cfi, function->start) == function->size);
        fp_cfi_rows_find(rows, at);
        fp_cfi_rows_find(rows, function->start + function->size - 1);
    }
    fp_cfi_unload(&cfi);
    for (uint32_t i = 0; i < rows->count; i++) {
        FUZZ_CHECK(i == 0 || rows->from[i] > rows->from[i - 1]);
        FUZZ_CHECK(rows->shape[i] < rows->distinct_count);
    }
}

static void check_symbols(const struct fp_image *image)
{
    const struct fp_symbol_table *table = &image->symbols;

    FUZZ_CHECK(table->count == 0 || table->names[table->names_size - 1] == 0);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct fp_symbol_entry *entry = &table->entry[i];
        const char *name;

        FUZZ_CHECK(entry->size > 0 && entry->name < table->names_size);
        FUZZ_CHECK(i == 0 || entry[-1].start <= entry->start);
        if (i >= LOOKED_AT_MAX)
            continue;
        name = fp_symbol_table_find(table, entry->start);
        FUZZ_CHECK(name != NULL && name[0] != '\0' && strchr(name, '@') == NULL);
        fp_symbol_table_find(table, entry->start + entry->size);
    }
}

void fuzz_elf(const uint8_t *bytes, size_t size)
{
    struct file file = {bytes, size, 0};
    struct fp_elf_source source = {read_file, &file};
    struct fp_image image;
    int err = fp_image_load(&image, &source, SIZE_MAX);

    FUZZ_CHECK(err == 0 || err == FP_EINVAL || err == FP_EIO || err == FP_ENOMEM);
    if (err == 0) {
        check_elf(&image.elf);
        check_functions(&image, &source);
        check_symbols(&image);
    }
    /* Each header is read once; a section's strings', and notes, too. Two headers can have as many
     * as a number of 16 bits can be. */
    FUZZ_CHECK(file.reads <= 2 * UINT64_C(65536) + 2 * 1024 + 16);
    fp_image_unload(&image);
}
