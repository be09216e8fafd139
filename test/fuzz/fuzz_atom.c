/* fuzz_atom.c - any words as atoms, over any atom table. */
#include "fuzz.h"

#include "base/error.h"
#include "erts/atom.h"

#define TERMS 8

void fuzz_atom(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct fuzz_memory memory;
    struct fp_layout layout;
    uint64_t term[TERMS];

    fuzz_layout_of(&input, &layout);
    layout.atom_segments = fuzz_address(&input);
    layout.atom_entries = fuzz_address(&input);
    for (int i = 0; i < TERMS; i++)
        term[i] = fuzz_u32(&input);
    term[0] |= fuzz_u64(&input) << 32; /* no atom has so high an index */
    fuzz_memory_create(&memory, &input);
    for (int i = 0; i < TERMS; i++) {
        char text[FP_ATOM_TEXT_MAX + 8];
        int len;

        memset(text, 0xa5, sizeof text);
        len = fp_atom_text(&layout, &memory.memory.reader, term[i], text);
        FUZZ_CHECK(len <= FP_ATOM_TEXT_MAX);
        FUZZ_CHECK(len >= 0 || len == FP_ENOENT || len == FP_EFAULT);
        FUZZ_CHECK(len < 0 || fp_term_is_atom(term[i]));
        FUZZ_CHECK(text[FP_ATOM_TEXT_MAX] == (char)0xa5);
    }
    FUZZ_CHECK(fuzz_memory_asked(&memory) <= 6 * TERMS);
    fuzz_memory_destroy(&memory);
}
