/* Atoms live in an IndexTable (index.h): segments of 1,024 pointers to
 *
 *   struct atom   0: hash bucket {next, hash value}   16: int index
 *                24: Sint16 len (bytes)  26: Sint16 latin1_chars  28: int ord0
 *                32: name                                         (atom.h)
 *
 * Atoms are never removed and their text never changes. */
#include "erts/atom.h"

#include <string.h>

#include "base/error.h"
#include "erts/term.h"

#define SEGMENT_SHIFT 10u /* INDEX_PAGE_SHIFT, index.h */

struct atom_entry {
    uint64_t bucket[2];
    int32_t index;
    int32_t padding;
    int16_t len;
    int16_t latin1_chars;
    int32_t ord0;
    uint64_t name;
};

/* A name that is a term is a binary in the literal area (erl_bits.h):
 *   ErlHeapBits {thing word, size, bytes...}            up to 64 bytes
 *   ErlSubBits  {thing word, base and flags, start bit, ...}     longer
 * told apart by the thing word's tag. Sources: atom.c atom_alloc(), erl_term.h HEAP_BITS_SUBTAG,
 * SUB_BITS_SUBTAG. 0: neither. */
#define TAG_HEAP_BITS 0x20u
#define TAG_SUB_BITS 0x24u

static uint64_t name_bytes(const struct fp_layout *layout, const struct fp_memory *memory,
                           uint64_t name)
{
    uint64_t term[3] = {0}, at = name & ~UINT64_C(7);

    if (layout->release.atom_form == FP_ATOM_NAME_POINTER)
        return name;
    if (fp_safe_read(memory, at, term, sizeof term) != 0)
        return 0;
    if ((term[0] & 0x3f) == TAG_HEAP_BITS)
        return at + 16;
    if ((term[0] & 0x3f) == TAG_SUB_BITS)
        return (term[1] & ~UINT64_C(3)) + term[2] / 8;
    return 0;
}

uint32_t fp_atom_count(const struct fp_layout *layout, const struct fp_memory *memory)
{
    uint32_t count = 0;

    return fp_safe_read(memory, layout->atom_entries, &count, sizeof count) == 0 ? count : 0;
}

int fp_atom_is_known(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t word,
                     uint32_t *count)
{
    if (!fp_term_is_atom(word))
        return 0;
    if (fp_atom_index(word) >= *count)
        *count = fp_atom_count(layout, memory);
    return fp_atom_index(word) < *count;
}

int fp_atom_text(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t term,
                 char text[FP_ATOM_TEXT_MAX])
{
    uint64_t index = fp_atom_index(term), segment = 0, address = 0;
    struct atom_entry atom;
    uint32_t count = 0;

    if (!fp_term_is_atom(term) || index > UINT32_MAX ||
        (layout->atom_entries != 0 && !fp_atom_is_known(layout, memory, term, &count)))
        return FP_ENOENT;
    if (fp_safe_read_word(memory, layout->atom_segments + 8 * (index >> SEGMENT_SHIFT), &segment) !=
            0 ||
        fp_safe_read_word(memory, segment + 8 * (index & ((1u << SEGMENT_SHIFT) - 1)), &address) !=
            0 ||
        fp_safe_read(memory, address, &atom, sizeof atom) != 0)
        return FP_EFAULT;
    if ((uint64_t)(uint32_t)atom.index != index || atom.len < 0 || atom.len > FP_ATOM_TEXT_MAX)
        return FP_ENOENT;
    if (fp_safe_read(memory, name_bytes(layout, memory, atom.name), text, (size_t)atom.len) != 0)
        return FP_EFAULT;
    return atom.len;
}
