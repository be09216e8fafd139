/* fuzz_code.c - any code and line tables: addresses resolved as the writer does, with everything
 * cached compared and resolved once more. */
#include "fuzz.h"

#include "base/error.h"
#include "erts/code_index.h"
#include "erts/code_scan.h"
#include "erts/symbolize.h"
#include "format/record.h"

#define PLACES 6
/* To resolve one address: the region has 64 blocks, and each word of what is walked over may be the
 * beginning of a table that is read and is none. */
#define ASKED_MAX 4096u

struct places {
    uint64_t at[PLACES];
    uint8_t flags[PLACES];
};

static void check_text(const char *text, uint32_t len, uint32_t most)
{
    FUZZ_CHECK(text == NULL || (len <= most && text[len] == '\0'));
}

static void check_location(struct fp_code_index *code, const struct fp_location *at)
{
    uint32_t len = 0;
    const char *text;

    FUZZ_CHECK(fp_term_is_atom(at->mfa[0]) && fp_term_is_atom(at->mfa[1]) && at->mfa[2] < 256);
    FUZZ_CHECK(at->line < 1u << 24);
    for (int i = 0; i < 2; i++) {
        text = fp_code_index_atom(code, at->mfa[i], &len);
        check_text(text, len, FP_ATOM_TEXT_MAX);
    }
    FUZZ_CHECK(at->file == 0 || (at->file & 3) == 1);
    text = fp_code_index_file(code, at->file, &len);
    check_text(text, len, 255);
}

static void check_asked(const struct fuzz_memory *memory, uint64_t *before)
{
    uint64_t now = fuzz_memory_asked(memory);

    FUZZ_CHECK(now - *before <= ASKED_MAX);
    *before = now;
}

static void by_shape(struct fuzz_memory *memory, const struct fp_ranges *ranges, uint64_t pc)
{
    uint64_t mfa[3], at = 0, first = 0, asked = fuzz_memory_asked(memory);
    int err = fp_code_nearest(&memory->memory.reader, ranges, pc, mfa, &at);

    FUZZ_CHECK(err == 0 || err == FP_ENOENT);
    if (err == 0)
        FUZZ_CHECK(at % 8 == 0 && at + 24 <= pc && fp_ranges_contain(ranges, at) && mfa[2] < 256);
    check_asked(memory, &asked);
    for (uint32_t i = 0; i < ranges->count; i++) {
        err = fp_code_first(&memory->memory.reader, &ranges->range[i], pc, &first);
        FUZZ_CHECK(err == 0 || err == FP_ENOENT);
        if (err == 0)
            FUZZ_CHECK(first >= pc && first < ranges->range[i].end);
        check_asked(memory, &asked);
    }
}

static void resolve_all(struct fp_code_index *code, struct fuzz_memory *memory,
                        const struct places *places)
{
    uint64_t asked = fuzz_memory_asked(memory);

    for (int i = 0; i < PLACES; i++) {
        struct fp_location at, again;
        int err = fp_code_index_resolve(code, places->at[i], &at);

        FUZZ_CHECK(err == 0 || err == FP_ENOENT);
        check_asked(memory, &asked);
        FUZZ_CHECK(fp_code_index_resolve(code, places->at[i], &again) == err);
        if (err != 0)
            continue;
        FUZZ_CHECK(memcmp(&at, &again, sizeof at) == 0);
        check_location(code, &at);
        check_asked(memory, &asked);
    }
    fp_code_index_revalidate(code);
    if (memory->laters == 0)
        FUZZ_CHECK(fp_code_index_revalidate(code) == 0);
}

/* As the writer asks: frame words, those of BIFs and NIFs among them. */
static void as_frames(const struct fp_layout *layout, struct fuzz_memory *memory,
                      const struct fp_ranges *ranges, const struct places *places)
{
    struct fp_live_ranges live = {0};
    struct fp_symbolize *symbols;
    const struct fp_symbolizer *interface;

    fp_live_ranges_update(&live, ranges);
    if (fp_symbolize_create(&symbols, layout, &memory->memory.reader, &live, NULL) != 0)
        return;
    interface = fp_symbolize_interface(symbols);
    for (int i = 0; i < PLACES; i++) {
        struct fp_symbol symbol;
        uint64_t word = places->at[i];

        if ((places->flags[i] & 3) != 0)
            word |= (places->flags[i] & 1) != 0 ? FP_FRAME_BIF : FP_FRAME_NIF;
        if (interface->resolve(interface->self, word, &symbol) != 0 ||
            symbol.kind == FP_SYMBOL_NONE)
            continue;
        FUZZ_CHECK(symbol.module_len <= sizeof symbol.module &&
                   symbol.function_len <= sizeof symbol.function &&
                   symbol.file_len <= sizeof symbol.file);
        FUZZ_CHECK(symbol.arity <= 255);
    }
    fp_symbolize_destroy(symbols);
}

void fuzz_code(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct fuzz_memory memory;
    struct fp_layout layout;
    struct fp_ranges ranges;
    struct places places;
    struct fp_code_index *code;

    fuzz_layout_of(&input, &layout);
    layout.atom_segments = fuzz_address(&input);
    layout.atom_entries = fuzz_address(&input);
    fuzz_ranges(&input, &ranges);
    for (int i = 0; i < PLACES; i++) {
        places.at[i] = fuzz_address(&input);
        places.flags[i] = fuzz_u8(&input);
    }
    fuzz_memory_create(&memory, &input);
    for (int i = 0; i < PLACES; i++)
        by_shape(&memory, &ranges, places.at[i]);
    if (fp_code_index_create(&code, &layout, &memory.memory.reader, &ranges) == 0) {
        resolve_all(code, &memory, &places);
        resolve_all(code, &memory, &places);
        fp_code_index_destroy(code);
    }
    as_frames(&layout, &memory, &ranges, &places);
    fuzz_memory_destroy(&memory);
}
