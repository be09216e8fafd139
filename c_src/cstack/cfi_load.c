/*
 * cfi_load.c - a library's .eh_frame, and a sorted list of its functions.
 *
 * .eh_frame_hdr is what the run-time's own unwinder goes by, so it is what
 * decides which descriptions count. Each is looked at here once: what a tick
 * looks up is known to be sound, and the list holds the functions' ends, which
 * the header's table does not.
 */
#include <stdlib.h>

#include "base/error.h"
#include "cstack/cfi.h"

/* Of the largest libraries, a compiler's, it has some 10 MiB. */
#define BYTES_MAX ((size_t)16 << 20)
#define NONE 0xff /* DW_EH_PE_omit */

struct index {
    struct fp_bytes bytes;
    uint64_t address; /* of the header, which its table counts from */
    const unsigned char *base;
    uint8_t encoding;
    uint64_t frames; /* where .eh_frame is */
    uint64_t count;
};

static uint64_t encoded(struct index *index, uint8_t encoding)
{
    uint64_t here = index->address + (uint64_t)(index->bytes.at - index->base);

    return fp_cfi_encoded(&index->bytes, encoding, here, index->address);
}

/* u8 version, 3 encodings; .eh_frame's address, the number of entries, and
 * these: {function, description}. */
static int open_index(struct index *index, const unsigned char *loaded,
                      const struct fp_elf_part *part)
{
    uint8_t version, frames_encoding, count_encoding;

    index->bytes = fp_bytes(loaded, part->size);
    index->base = loaded;
    index->address = part->address;
    version = fp_bytes_u8(&index->bytes);
    frames_encoding = fp_bytes_u8(&index->bytes);
    count_encoding = fp_bytes_u8(&index->bytes);
    index->encoding = fp_bytes_u8(&index->bytes);
    if (version != 1 || frames_encoding == NONE || count_encoding == NONE ||
        index->encoding == NONE)
        return FP_EINVAL;
    index->frames = encoded(index, frames_encoding);
    index->count = encoded(index, count_encoding);
    /* Nobody writes entries of less than 4 + 4 bytes. */
    if (index->bytes.is_bad || index->count == 0 ||
        index->count > fp_bytes_left(&index->bytes) / 8)
        return FP_EINVAL;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct fp_cfi_function *left = a, *right = b;

    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->fde < right->fde ? -1 : left->fde > right->fde;
}

/* Sorted as they should have been, and without overlaps. */
static void make_disjoint(struct fp_cfi *cfi)
{
    uint32_t kept = 0;

    qsort(cfi->function, cfi->count, sizeof *cfi->function, by_start);
    for (uint32_t i = 0; i < cfi->count; i++) {
        struct fp_cfi_function *function = &cfi->function[i];

        if (i + 1 < cfi->count &&
            function[1].start - function->start < function->size)
            function->size = (uint32_t)(function[1].start - function->start);
        if (function->size > 0)
            cfi->function[kept++] = *function;
    }
    cfi->count = kept;
}

static void take_functions(struct fp_cfi *cfi, struct index *index)
{
    size_t used = 0;

    for (uint64_t i = 0; i < index->count && !index->bytes.is_bad; i++) {
        struct fp_cfi_fde fde;
        uint64_t place;

        encoded(index, index->encoding); /* the description says it too */
        place = encoded(index, index->encoding) - cfi->address;
        if (index->bytes.is_bad || fp_cfi_fde(cfi, place, &fde) != 0 ||
            fde.size == 0 || fde.size > UINT32_MAX)
            continue;
        cfi->function[cfi->count++] = (struct fp_cfi_function){
            fde.start, (uint32_t)fde.size, (uint32_t)place};
        if (used < fde.end)
            used = fde.end;
    }
    cfi->size = used;
}

/* Give back what the segment has behind .eh_frame, and what was not taken. */
static void shrink(struct fp_cfi *cfi)
{
    unsigned char *bytes = realloc(cfi->bytes, cfi->size);
    struct fp_cfi_function *function =
        realloc(cfi->function, cfi->count * sizeof *function);

    if (bytes != NULL)
        cfi->bytes = bytes;
    if (function != NULL)
        cfi->function = function;
}

static int load_frames(struct fp_cfi *cfi, struct index *index,
                       const struct fp_elf *elf,
                       const struct fp_elf_source *source)
{
    struct fp_elf_part part;

    if (fp_elf_at(elf, index->frames, &part) != 0)
        return FP_ENOENT;
    if (part.size > BYTES_MAX)
        part.size = BYTES_MAX;
    cfi->address = part.address;
    cfi->size = part.size;
    cfi->bytes = fp_elf_load(source, &part, BYTES_MAX);
    if (cfi->bytes == NULL)
        return FP_ENOENT;
    cfi->function = calloc(index->count, sizeof *cfi->function);
    if (cfi->function == NULL)
        return FP_ENOMEM;
    take_functions(cfi, index);
    make_disjoint(cfi);
    if (cfi->count == 0)
        return FP_ENOENT;
    shrink(cfi);
    return 0;
}

int fp_cfi_load(struct fp_cfi *cfi, const struct fp_elf *elf,
                const struct fp_elf_source *source)
{
    unsigned char *loaded = fp_elf_load(source, &elf->frame_index, BYTES_MAX);
    struct index index;
    int err = FP_ENOENT;

    memset(cfi, 0, sizeof *cfi);
    if (loaded == NULL)
        return FP_ENOENT;
    if (open_index(&index, loaded, &elf->frame_index) == 0)
        err = load_frames(cfi, &index, elf, source);
    free(loaded);
    if (err != 0)
        fp_cfi_unload(cfi);
    return err;
}

void fp_cfi_unload(struct fp_cfi *cfi)
{
    free(cfi->bytes);
    free(cfi->function);
    memset(cfi, 0, sizeof *cfi);
}
