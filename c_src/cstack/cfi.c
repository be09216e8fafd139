/*
 * cfi.c - a library's .eh_frame_hdr and the descriptions that it lists.
 *
 * The run-time's own unwinder goes by .eh_frame_hdr, so it decides which descriptions count. The
 * formats: DWARF 4 (6.4, 7.23), and the Linux Standard Base for the differences of .eh_frame. Every
 * byte may be wrong: the reads are bounded by the bytes.
 */
#include "cstack/cfi.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/search.h"

/* A compiler's libraries, the largest, have some 10 MiB. */
#define BYTES_MAX ((size_t)16 << 20)

/* ---- encoded addresses ------------------------------------------------ */

enum { /* DW_EH_PE_*; compilers and linkers write no others on x86_64 */
       AS_POINTER = 0x00,
       AS_U32 = 0x03,
       AS_U64 = 0x04,
       AS_S32 = 0x0b,
       AS_S64 = 0x0c,
       FROM_NOTHING = 0x00,
       FROM_HERE = 0x10,
       FROM_DATA = 0x30,
       OMITTED = 0xff,
};

static uint64_t encoded_number(struct fp_bytes *bytes, uint8_t encoding)
{
    switch (encoding & 0x0f) {
    case AS_POINTER:
    case AS_U64:
    case AS_S64:
        return fp_bytes_unsigned(bytes, 8);
    case AS_U32:
        return fp_bytes_unsigned(bytes, 4);
    case AS_S32:
        return (uint64_t)fp_bytes_signed(bytes, 4);
    default:
        fp_bytes_fail(bytes);
        return 0;
    }
}

uint64_t fp_cfi_encoded(struct fp_bytes *bytes, uint8_t encoding, uint64_t here, uint64_t data)
{
    uint64_t number = encoded_number(bytes, encoding);

    switch (encoding & 0xf0) {
    case FROM_NOTHING:
        return number;
    case FROM_HERE:
        return here + number;
    case FROM_DATA:
        return data + number;
    default: /* relative to text or function; indirect, in other memory */
        fp_bytes_fail(bytes);
        return 0;
    }
}

/* ---- descriptions ----------------------------------------------------- */

static uint64_t place_of(const struct fp_cfi *cfi, const unsigned char *at)
{
    return (uint64_t)(at - cfi->bytes);
}

/* The entry at a place: u32 length, and as many bytes. x86_64's compilers write no entries with 64
 * bits of length. */
static int entry_at(const struct fp_cfi *cfi, uint64_t place, struct fp_bytes *entry)
{
    struct fp_bytes bytes;
    uint32_t length;

    if (place >= cfi->size)
        return FP_EINVAL;
    bytes = fp_bytes(cfi->bytes + place, cfi->size - place);
    length = fp_bytes_u32(&bytes);
    if (bytes.is_bad || length == 0 || length > fp_bytes_left(&bytes))
        return FP_EINVAL;
    *entry = fp_bytes(bytes.at, length);
    return 0;
}

/* The augmentation's data, by its letters. Its size is known, so an unknown letter ends the reading
 * and does no harm. */
static void read_augmentation(struct fp_bytes *data, const char *letter, struct fp_cfi_fde *fde)
{
    for (; *letter != '\0'; letter++) {
        switch (*letter) {
        case 'R':
            fde->encoding = fp_bytes_u8(data);
            break;
        case 'P': /* the personality routine */
            encoded_number(data, fp_bytes_u8(data));
            break;
        case 'L':
            fp_bytes_u8(data);
            break;
        case 'S':
            fde->is_signal = 1;
            break;
        default:
            return;
        }
    }
}

static int read_cie(const struct fp_cfi *cfi, uint64_t place, struct fp_cfi_fde *fde)
{
    struct fp_bytes bytes, data;
    const char *letters;
    uint64_t return_address, size;
    uint8_t version;

    if (entry_at(cfi, place, &bytes) != 0 || fp_bytes_u32(&bytes) != 0)
        return FP_EINVAL;
    version = fp_bytes_u8(&bytes);
    letters = (const char *)bytes.at;
    while (fp_bytes_u8(&bytes) != '\0')
        ;
    fde->code_align = fp_bytes_uleb(&bytes);
    fde->data_align = fp_bytes_sleb(&bytes);
    return_address = version == 1 ? fp_bytes_u8(&bytes) : fp_bytes_uleb(&bytes);
    if (bytes.is_bad || (version != 1 && version != 3) || return_address != FP_CFI_RIP)
        return FP_EINVAL;
    fde->encoding = AS_POINTER;
    fde->is_signal = 0;
    fde->common = bytes;
    if (*letters == '\0')
        return 0;
    if (*letters != 'z')
        return FP_EINVAL;
    size = fp_bytes_uleb(&bytes);
    data = fp_bytes(bytes.at, 0);
    fp_bytes_skip(&bytes, size);
    data.end = bytes.at;
    read_augmentation(&data, letters + 1, fde);
    fde->common = bytes;
    return bytes.is_bad || data.is_bad ? FP_EINVAL : 0;
}

/* Each FDE of a CIE with augmentation data has such data too. */
static int is_augmented(const struct fp_cfi *cfi, uint64_t cie)
{
    return cfi->bytes[cie + 9] == 'z'; /* length, 0, version */
}

int fp_cfi_fde(const struct fp_cfi *cfi, uint64_t place, struct fp_cfi_fde *fde)
{
    struct fp_bytes bytes;
    uint64_t back, cie;

    if (entry_at(cfi, place, &bytes) != 0)
        return FP_EINVAL;
    back = fp_bytes_u32(&bytes); /* from here to the CIE; a CIE has 0 */
    if (bytes.is_bad || back == 0 || back > place + 4)
        return FP_EINVAL;
    cie = place + 4 - back;
    if (read_cie(cfi, cie, fde) != 0)
        return FP_EINVAL;
    fde->start = fp_cfi_encoded(&bytes, fde->encoding, cfi->address + place_of(cfi, bytes.at), 0);
    fde->size = encoded_number(&bytes, fde->encoding);
    if (is_augmented(cfi, cie))
        fp_bytes_skip(&bytes, fp_bytes_uleb(&bytes));
    fde->program = bytes;
    return bytes.is_bad ? FP_EINVAL : 0;
}

/* ---- the list of functions ---------------------------------------------- */

struct index {
    struct fp_bytes bytes;
    uint64_t address; /* of the header, the base of its table */
    const unsigned char *base;
    uint8_t encoding;
    uint64_t frames; /* .eh_frame's address */
    uint64_t count;
};

static uint64_t encoded(struct index *index, uint8_t encoding)
{
    uint64_t here = index->address + (uint64_t)(index->bytes.at - index->base);

    return fp_cfi_encoded(&index->bytes, encoding, here, index->address);
}

/* u8 version, 3 encodings; .eh_frame's address, the number of entries, the entries: {function,
 * description}. */
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
    if (version != 1 || frames_encoding == OMITTED || count_encoding == OMITTED ||
        index->encoding == OMITTED)
        return FP_EINVAL;
    index->frames = encoded(index, frames_encoding);
    index->count = encoded(index, count_encoding);
    /* Linkers write entries of 4 + 4 bytes or more. */
    if (index->bytes.is_bad || index->count == 0 || index->count > fp_bytes_left(&index->bytes) / 8)
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

/* Sort them, whatever the file's order is, and cut overlaps. */
static void make_disjoint(struct fp_cfi *cfi)
{
    uint32_t kept = 0;

    qsort(cfi->function, cfi->count, sizeof *cfi->function, by_start);
    for (uint32_t i = 0; i < cfi->count; i++) {
        struct fp_cfi_function *function = &cfi->function[i];

        if (i + 1 < cfi->count && function[1].start - function->start < function->size)
            function->size = (uint32_t)(function[1].start - function->start);
        if (function->size > 0)
            cfi->function[kept++] = *function;
    }
    cfi->count = kept;
}

static void read_functions(struct fp_cfi *cfi, struct index *index)
{
    for (uint64_t i = 0; i < index->count && !index->bytes.is_bad; i++) {
        struct fp_cfi_fde fde;
        uint64_t place;

        encoded(index, index->encoding); /* the description has it too */
        place = encoded(index, index->encoding) - cfi->address;
        if (index->bytes.is_bad || fp_cfi_fde(cfi, place, &fde) != 0 || fde.size == 0 ||
            fde.size > UINT32_MAX)
            continue;
        cfi->function[cfi->count++] =
            (struct fp_cfi_function){fde.start, (uint32_t)fde.size, (uint32_t)place};
    }
}

static int load_frames(struct fp_cfi *cfi, struct index *index, const struct fp_elf *elf,
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
    read_functions(cfi, index);
    make_disjoint(cfi);
    return cfi->count == 0 ? FP_ENOENT : 0;
}

int fp_cfi_load(struct fp_cfi *cfi, const struct fp_elf *elf, const struct fp_elf_source *source)
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

uint32_t fp_cfi_function_size(const struct fp_cfi *cfi, uint64_t start)
{
    size_t n = fp_search(cfi->function, cfi->count, sizeof *cfi->function,
                         sizeof cfi->function->start, start);

    if (n == 0 || cfi->function[n - 1].start != start)
        return 0;
    return cfi->function[n - 1].size;
}
