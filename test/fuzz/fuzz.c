#include "fuzz.h"

#include "base/check.h"
#include "erts/resident.h"

#define PAGE 4096u

/* A broken invariant of the product is a failure. */
__attribute__((constructor)) static void fail_when_broken(void)
{
    fp_check_hook = fuzz_fail;
}

/* ---- numbers ---------------------------------------------------------- */

void fuzz_take(struct fuzz_input *input, void *into, size_t size)
{
    size_t n = size < input->left ? size : input->left;

    memset(into, 0, size);
    if (n > 0)
        memcpy(into, input->at, n);
    input->at += n;
    input->left -= n;
}

uint8_t fuzz_u8(struct fuzz_input *input)
{
    uint8_t value;

    fuzz_take(input, &value, sizeof value);
    return value;
}

uint16_t fuzz_u16(struct fuzz_input *input)
{
    uint16_t value;

    fuzz_take(input, &value, sizeof value);
    return value;
}

uint32_t fuzz_u32(struct fuzz_input *input)
{
    uint32_t value;

    fuzz_take(input, &value, sizeof value);
    return value;
}

uint64_t fuzz_u64(struct fuzz_input *input)
{
    uint64_t value;

    fuzz_take(input, &value, sizeof value);
    return value;
}

uint64_t fuzz_word(struct fuzz_input *input)
{
    return fuzz_relocated(fuzz_u64(input));
}

uint64_t fuzz_address(struct fuzz_input *input)
{
    return fuzz_relocated(fuzz_u32(input));
}

uint64_t fuzz_relocated(uint64_t word)
{
    uint64_t region = word >> 28;

    if (region == 0 || region > FUZZ_REGIONS)
        return word;
    return FUZZ_REGION(region - 1) + (word & 0xfffffff);
}

uint64_t fuzz_relocatable(uint64_t word)
{
    uint64_t region = (word - FAKE_BASE) >> 32, at = (uint32_t)word;

    if (word < FAKE_BASE || region >= FUZZ_REGIONS || at > 0xfffffff)
        return word;
    return (region + 1) << 28 | at;
}

void fuzz_layout_of(struct fuzz_input *input, struct fp_layout *layout)
{
    static const unsigned releases[] = {25, 26, 27, 28, 29};

    memset(layout, 0, sizeof *layout);
    layout->release = *fp_release_find(releases[fuzz_u8(input) % 5]);
    layout->snapshot_size = layout->release.process_size;
    layout->process_table = FAKE_TABLE;
    layout->process_limit = 64;
    layout->terms = layout->remote_terms = 1;
}

void fuzz_ranges(struct fuzz_input *input, struct fp_ranges *ranges)
{
    uint64_t at = FAKE_JIT, end = FAKE_JIT + FUZZ_REGION_BYTES;

    ranges->count = 0;
    for (int i = fuzz_u8(input) % 4; i > 0 && at < end; i--) {
        struct fp_range range;

        range.start = at + (uint64_t)PAGE * (fuzz_u8(input) % 32);
        range.end = range.start + (uint64_t)PAGE * (1 + fuzz_u8(input) % 64);
        if (range.end > end)
            break;
        ranges->range[ranges->count++] = range;
        at = range.end;
    }
}

struct fuzz_input fuzz_part(struct fuzz_input *input, size_t most)
{
    size_t size = fuzz_u16(input);
    struct fuzz_input part = {input->at, 0};

    if (size > most)
        size = most;
    part.left = size < input->left ? size : input->left;
    input->at += part.left;
    input->left -= part.left;
    return part;
}

/* ---- memory ----------------------------------------------------------- */

static struct fuzz_memory *current;

/* The pages of [address, address + size) that are not there yet. */
static int map_pages(struct fuzz_memory *memory, uint64_t address, size_t size)
{
    for (uint64_t page = address & ~(uint64_t)(PAGE - 1); page < address + size; page += PAGE) {
        if (fake_at(&memory->memory, page, 1) != NULL)
            continue;
        if (memory->memory.regions == FAKE_REGIONS_MAX)
            return 0;
        fake_map(&memory->memory, page, PAGE);
    }
    return 1;
}

static void put_words(struct fuzz_memory *memory, uint64_t address, const uint8_t *bytes,
                      unsigned words, unsigned flags)
{
    for (; words > 0; words--, address += 8, bytes += 8) {
        uint64_t word;

        memcpy(&word, bytes, sizeof word);
        if ((flags & FUZZ_RAW) == 0)
            word = fuzz_relocated(word);
        fake_put_word(&memory->memory, address, word);
    }
}

static void come_to_be(struct fake_memory *fake, void *arg, uint64_t address, size_t size)
{
    struct fuzz_memory *memory = arg;

    (void)address, (void)size;
    while (memory->came < memory->laters && memory->later[memory->came].at <= fake->entries) {
        const struct fuzz_later *later = &memory->later[memory->came++];

        put_words(memory, later->address, later->bytes, later->words, later->flags);
    }
}

static void put_away(struct fuzz_memory *memory, uint64_t address, unsigned pages)
{
    address &= ~(uint64_t)(PAGE - 1);
    for (; pages > 0 && memory->aways < FUZZ_AWAY_MAX; pages--) {
        if (map_pages(memory, address, PAGE))
            memory->away[memory->aways++] = address;
        address += PAGE;
    }
}

static void put_later(struct fuzz_memory *memory, struct fuzz_later later)
{
    uint64_t before = memory->laters > 0 ? memory->later[memory->laters - 1].at : 0;

    if (memory->laters == FUZZ_LATER_MAX)
        return;
    later.at += before;
    memory->later[memory->laters++] = later;
}

static void put_piece(struct fuzz_memory *memory, struct fuzz_input *input)
{
    struct fuzz_later piece = {.flags = fuzz_u8(input)};
    size_t words;

    piece.address = FUZZ_REGION((piece.flags & 0x0f) % FUZZ_REGIONS) + 8u * fuzz_u16(input);
    words = fuzz_u8(input);
    if ((piece.flags & FUZZ_AWAY) != 0) {
        put_away(memory, piece.address, words % 16);
        return;
    }
    if ((piece.flags & FUZZ_LATER) != 0)
        piece.at = fuzz_u8(input);
    if (words > input->left / 8)
        words = input->left / 8;
    piece.bytes = input->at;
    piece.words = (uint8_t)words;
    input->at += 8 * words;
    input->left -= 8 * words;
    if (!map_pages(memory, piece.address, 8 * words))
        return;
    if ((piece.flags & FUZZ_LATER) != 0)
        put_later(memory, piece);
    else
        put_words(memory, piece.address, piece.bytes, piece.words, piece.flags);
}

void fuzz_memory_create(struct fuzz_memory *memory, struct fuzz_input *input)
{
    memset(memory, 0, sizeof *memory);
    fake_memory_create(&memory->memory);
    memory->memory.before_read = come_to_be;
    memory->memory.arg = memory;
    current = memory;
    while (input->left > 4)
        put_piece(memory, input);
}

void fuzz_memory_destroy(struct fuzz_memory *memory)
{
    fake_memory_destroy(&memory->memory);
    current = NULL;
}

uint64_t fuzz_memory_asked(const struct fuzz_memory *memory)
{
    return memory->memory.entries + memory->looks;
}

/* ---- resident.h, of that memory --------------------------------------- */

static int is_away(uint64_t page)
{
    for (uint32_t i = 0; current != NULL && i < current->aways; i++)
        if (current->away[i] == page)
            return 1;
    return 0;
}

uint64_t fp_resident_until(uint64_t from, uint64_t to, int *resident)
{
    uint64_t at = from & ~(uint64_t)(PAGE - 1);

    if (current != NULL)
        current->looks++;
    if (to - from > FP_RESIDENT_MAX)
        to = from + FP_RESIDENT_MAX;
    *resident = !is_away(at);
    for (at += PAGE; at < to && is_away(at) != *resident; at += PAGE)
        ;
    return at < to ? at : to;
}
