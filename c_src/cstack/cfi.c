/* cfi.c - a library's .eh_frame_hdr and the descriptions that it lists.
 *
 * The C library's unwinder goes by .eh_frame_hdr, so it decides which descriptions count. The
 * formats: DWARF 4 (6.4, 7.23), and the Linux Standard Base for the differences of .eh_frame. Every
 * byte may be wrong. */
#include "cstack/cfi.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/search.h"

/* ---- descriptions ----------------------------------------------------- */

enum { /* DW_EH_PE_*; compilers and linkers write no others on x86_64 */
       AS_POINTER = 0x00,
       AS_U32 = 0x03,
       AS_U64 = 0x04,
       AS_S32 = 0x0b,
       AS_S64 = 0x0c,
       FROM_NOTHING = 0x00,
       FROM_HERE = 0x10,
};

static uint64_t encoded_number(struct fp_bytes *bytes, uint8_t encoding)
{
    switch (encoding & 0x0f) {
    case AS_POINTER:
    case AS_U64:
    case AS_S64:
        return fp_bytes_unsigned(bytes, 8);
    case AS_U32:
        return fp_bytes_u32(bytes);
    case AS_S32:
        return (uint64_t)(int32_t)fp_bytes_u32(bytes);
    default:
        fp_bytes_fail(bytes);
        return 0;
    }
}

uint64_t fp_cfi_address(const struct fp_cfi *cfi, struct fp_bytes *bytes, uint8_t encoding)
{
    uint64_t here = cfi->address + (uint64_t)(bytes->at - cfi->bytes);
    uint64_t number = encoded_number(bytes, encoding);

    if ((encoding & 0xf0) == FROM_HERE)
        return here + number;
    if ((encoding & 0xf0) != FROM_NOTHING)
        fp_bytes_fail(bytes);
    return number;
}

/* The entry at a place: u32 length, and as many bytes. x86_64's compilers write no entries with 64
 * bits of length. */
static struct fp_bytes entry_at(const struct fp_cfi *cfi, uint64_t place)
{
    struct fp_bytes bytes = fp_bytes(cfi->bytes, cfi->size);

    fp_bytes_part(&bytes, place);
    return fp_bytes_part(&bytes, fp_bytes_u32(&bytes));
}

/* The augmentation's data, by its letters. Its size is known, so an unknown letter ends the reading
 * and does no harm. 0 or FP_EINVAL. */
static int read_augmentation(struct fp_bytes data, const char *letter, struct fp_cfi_fde *fde)
{
    for (; *letter != '\0'; letter++) {
        if (*letter == 'R')
            fde->encoding = fp_bytes_u8(&data);
        else if (*letter == 'P') /* the personality routine */
            encoded_number(&data, fp_bytes_u8(&data));
        else if (*letter == 'L')
            fp_bytes_u8(&data);
        else if (*letter == 'S')
            fde->is_signal = 1;
        else
            break;
    }
    return data.is_bad ? FP_EINVAL : 0;
}

static int read_cie(const struct fp_cfi *cfi, uint64_t place, struct fp_cfi_fde *fde)
{
    struct fp_bytes bytes = entry_at(cfi, place), data;
    uint32_t id = fp_bytes_u32(&bytes);
    uint8_t version = fp_bytes_u8(&bytes);
    const char *letters = (const char *)bytes.at;
    uint64_t return_address;

    while (fp_bytes_u8(&bytes) != '\0')
        ;
    fde->code_align = fp_bytes_uleb(&bytes);
    fde->data_align = fp_bytes_sleb(&bytes);
    return_address = version == 1 ? fp_bytes_u8(&bytes) : fp_bytes_uleb(&bytes);
    if (bytes.is_bad || id != 0 || (version != 1 && version != 3) || return_address != FP_CFI_RIP ||
        (letters[0] != '\0' && letters[0] != 'z'))
        return FP_EINVAL;
    fde->encoding = AS_POINTER;
    fde->is_signal = 0;
    fde->is_augmented = letters[0] == 'z';
    data = fp_bytes_part(&bytes, fde->is_augmented ? fp_bytes_uleb(&bytes) : 0);
    fde->common = bytes;
    return fde->is_augmented ? read_augmentation(data, letters + 1, fde) : 0;
}

int fp_cfi_fde(const struct fp_cfi *cfi, uint64_t place, struct fp_cfi_fde *fde)
{
    struct fp_bytes bytes = entry_at(cfi, place);
    uint64_t back = fp_bytes_u32(&bytes); /* from here to the CIE; a CIE has 0 */

    if (bytes.is_bad || back == 0 || back > place + 4 || read_cie(cfi, place + 4 - back, fde) != 0)
        return FP_EINVAL;
    fde->start = fp_cfi_address(cfi, &bytes, fde->encoding);
    fde->size = encoded_number(&bytes, fde->encoding);
    if (fde->is_augmented)
        fp_bytes_part(&bytes, fp_bytes_uleb(&bytes));
    fde->program = bytes;
    return bytes.is_bad ? FP_EINVAL : 0;
}

/* ---- the list of functions -------------------------------------------- */

/* .eh_frame_hdr, in the encodings that all linkers for x86_64 write. */
struct index {
    unsigned char encodings[4]; /* the version, and those of the following */
    int32_t frames;             /* .eh_frame's address, from here */
    uint32_t count;
    struct {
        int32_t function, fde; /* addresses, from the header's on */
    } entry[];
};

static const unsigned char encodings[4] = {1, 0x1b, 0x03, 0x3b};

/* Linkers sort them: the C library's unwinder searches there. Overlapping entries are left out. */
static int load_functions(struct fp_cfi *cfi, const struct index *index, uint64_t address)
{
    uint64_t end = 0; /* of the function before */
    struct fp_cfi_fde fde;

    cfi->function = calloc(index->count, sizeof *cfi->function);
    if (cfi->function == NULL)
        return FP_ENOMEM;
    for (uint32_t i = 0; i < index->count; i++) {
        uint64_t place = address + (uint64_t)(int64_t)index->entry[i].fde - cfi->address;

        if (fp_cfi_fde(cfi, place, &fde) != 0 || fde.start < end || fde.size == 0 ||
            fde.size > UINT32_MAX || fde.start > UINT64_MAX - fde.size)
            continue;
        end = fde.start + fde.size;
        cfi->function[cfi->count++] =
            (struct fp_cfi_function){fde.start, (uint32_t)fde.size, (uint32_t)place};
    }
    return 0;
}

static int load(struct fp_cfi *cfi, const struct index *index, const struct fp_elf *elf,
                const struct fp_elf_source *source)
{
    uint64_t address = elf->frame_index.address, size = elf->frame_index.size;
    struct fp_elf_part frames;

    if (size < sizeof *index || memcmp(index->encodings, encodings, sizeof encodings) != 0 ||
        index->count == 0 || index->count > (size - sizeof *index) / sizeof *index->entry ||
        fp_elf_at(elf, address + 4 + (uint64_t)(int64_t)index->frames, &frames) != 0)
        return 0;
    if (frames.size > FP_ELF_PART_MAX)
        frames.size = FP_ELF_PART_MAX;
    cfi->address = frames.address;
    cfi->size = frames.size;
    cfi->bytes = fp_elf_load(source, &frames);
    return cfi->bytes == NULL ? 0 : load_functions(cfi, index, address);
}

int fp_cfi_load(struct fp_cfi *cfi, const struct fp_elf *elf, const struct fp_elf_source *source)
{
    unsigned char *loaded = fp_elf_load(source, &elf->frame_index);
    int err;

    memset(cfi, 0, sizeof *cfi);
    if (loaded == NULL)
        return 0;
    err = load(cfi, (const struct index *)(const void *)loaded, elf, source);
    free(loaded);
    if (err != 0 || cfi->count == 0)
        fp_cfi_unload(cfi);
    return err;
}

void fp_cfi_unload(struct fp_cfi *cfi)
{
    free(cfi->bytes);
    free(cfi->function);
    memset(cfi, 0, sizeof *cfi);
}

uint32_t fp_cfi_function_size(const struct fp_cfi *cfi, uint64_t start)
{
    size_t n = fp_search(cfi->function, cfi->count, sizeof *cfi->function,
                         sizeof cfi->function->start, start);

    return n == 0 || cfi->function[n - 1].start != start ? 0 : cfi->function[n - 1].size;
}
