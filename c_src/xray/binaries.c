#include "xray/binaries.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/pages.h"
#include "erts/term/object.h"

#define ROOM_FIRST 1024u

void fp_xray_binaries_create(struct fp_xray_binaries *binaries, const struct fp_memory *memory,
                             unsigned otp, uint64_t limit)
{
    *binaries = (struct fp_xray_binaries){.memory = memory, .limit = limit, .otp = otp};
}

void fp_xray_binaries_destroy(struct fp_xray_binaries *binaries)
{
    fp_pages_free(binaries->entry, binaries->room * sizeof *binaries->entry);
    binaries->entry = NULL;
    binaries->room = binaries->used = 0;
}

void fp_xray_binaries_clear(struct fp_xray_binaries *binaries)
{
    if (binaries->room > 0)
        memset(binaries->entry, 0, binaries->room * sizeof *binaries->entry);
    binaries->used = binaries->untold = 0;
}

/* The entry of an address, or the free one where it goes. The table is never full. */
static struct fp_xray_binary *place(struct fp_xray_binary *entry, uint64_t room, uint64_t address)
{
    uint64_t at = fp_hash_two(address, 0) & (room - 1);

    while (entry[at].address != 0 && entry[at].address != address)
        at = (at + 1) & (room - 1);
    return &entry[at];
}

static int grow(struct fp_xray_binaries *binaries)
{
    uint64_t room = binaries->room == 0 ? ROOM_FIRST : 2 * binaries->room;
    struct fp_xray_binary *entry = fp_pages_alloc(room * sizeof *entry);

    if (entry == NULL)
        return FP_ENOMEM;
    for (uint64_t k = 0; k < binaries->room; k++)
        if (binaries->entry[k].address != 0)
            *place(entry, room, binaries->entry[k].address) = binaries->entry[k];
    fp_pages_free(binaries->entry, binaries->room * sizeof *entry);
    binaries->entry = entry;
    binaries->room = room;
    return 0;
}

int fp_xray_binary_entry(struct fp_xray_binaries *binaries, uint64_t address,
                         struct fp_xray_binary **entry)
{
    if (4 * (binaries->used + 1) > 3 * binaries->room && binaries->room < binaries->limit &&
        grow(binaries) != 0)
        return FP_ENOMEM;
    *entry = place(binaries->entry, binaries->room, address);
    if ((*entry)->address == 0 && 4 * (binaries->used + 1) > 3 * binaries->room)
        return FP_EFULL;
    binaries->used += (*entry)->address == 0;
    return 0;
}

static int read_binary(const struct fp_xray_binaries *binaries, uint64_t address,
                       struct fp_binary *binary)
{
    uint64_t word[FP_BINARY_WORDS] = {0};

    if (fp_safe_read(binaries->memory, address, &word[1], sizeof word - 8) != 0)
        return FP_EFAULT;
    return fp_binary_decode(binaries->otp, word, binary);
}

/* The entry of a Binary; *known is NULL where there is no room. */
static int know(struct fp_xray_binaries *binaries, uint64_t address, struct fp_xray_binary **known)
{
    struct fp_binary binary;
    int err = address == 0 || (address & 7) != 0 ? FP_ETORN
                                                 : fp_xray_binary_entry(binaries, address, known);

    if (err == FP_EFULL)
        *known = NULL;
    if (err != 0 || (*known)->address != 0)
        return err == FP_EFULL ? 0 : err;
    err = read_binary(binaries, address, &binary);
    if (err != 0) {
        binaries->used--;
        return err;
    }
    **known =
        (struct fp_xray_binary){.address = address, .size = binary.size, .counted = binary.refs};
    return 0;
}

int fp_xray_binary_know(struct fp_xray_binaries *binaries, uint64_t address)
{
    struct fp_xray_binary *known;

    return know(binaries, address, &known);
}

int fp_xray_binary_add(struct fp_xray_binaries *binaries, uint64_t address, uint32_t node)
{
    struct fp_xray_binary *known;
    int err = know(binaries, address, &known);

    if (err != 0)
        return err;
    if (known == NULL) {
        binaries->untold++;
        return 0;
    }
    if (known->refs++ == 0)
        known->node = node;
    return 0;
}

void fp_xray_binary_show(struct fp_xray_binaries *binaries, uint64_t address, uint64_t bytes)
{
    struct fp_xray_binary *entry;

    if (binaries->room == 0)
        return;
    entry = place(binaries->entry, binaries->room, address);
    if (entry->address == 0)
        return;
    entry->seen = bytes > entry->size - entry->seen ? entry->size : entry->seen + bytes;
}
