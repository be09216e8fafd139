#include "erts/term/otel.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "erts/dictionary.h"
#include "erts/term.h"

#define PAGE UINT64_C(4096)
/* Entries of one slot that are compared. */
#define CHAIN_MAX 16
/* MAP_SMALL_MAP_LIMIT, and what a map is before its values. */
#define KEYS_MAX 32u
#define MAP_HEAD 3u
#define SLOTS 3u /* of a dictionary, in words */
#define BIG_SUBTAG 0x08u
/* The most used slots of a dictionary that are read. */
#define DICTIONARY_WORDS 24u
/* A window of the heap goes so far behind what is needed first; all else of it lies before: a
 * context is younger than what it holds, and that lies below it until it is collected. */
#define BEHIND 8u

_Static_assert(2 + FP_OTEL_PLACES <= FP_WINDOWS_MAX, "the dictionary's, and all places");
_Static_assert(MAP_HEAD + KEYS_MAX <= FP_WINDOW_WORDS, "a window holds a map");

void fp_otel_start(struct fp_otel *otel, uint64_t dictionary, uint64_t key)
{
    otel->dictionary = dictionary;
    otel->key = key;
    otel->slot = dictionary;
    otel->is_as_before = 0;
    otel->windows.count = 0;
    otel->lacks.address = 0;
}

/* ---------------------------------------------------------------- windows -- */

/* Most of a dictionary lies apart from the heap. */
static int is_of_dictionary(const struct fp_otel *otel, uint64_t address)
{
    return otel->slot != 0 && (address == otel->dictionary || address == otel->slot);
}

/* Places that are close are one. */
static void note_place(struct fp_otel *otel, uint64_t address, uint32_t n)
{
    struct fp_otel_places *places = &otel->places;

    if (places->count == 0)
        places->entry = address;
    for (uint32_t i = 0; i < places->count; i++) {
        uint64_t from = places->address[i], to = from + 8ull * places->words[i];
        uint64_t low = address < from ? address : from;
        uint64_t high = address + 8ull * n > to ? address + 8ull * n : to;

        if (high - low <= 8 * (uint64_t)FP_WINDOW_WORDS && low / PAGE == (high - 1) / PAGE) {
            places->address[i] = low;
            places->words[i] = (uint32_t)((high - low) / 8);
            return;
        }
    }
    if (places->count == FP_OTEL_PLACES)
        return;
    places->address[places->count] = address;
    places->words[places->count++] = n;
}

/* `n` words; NULL: `lacks` says which window has them. */
static const uint64_t *words_at(struct fp_otel *otel, uint64_t address, uint32_t n)
{
    for (uint32_t i = otel->windows.count; i-- > 0;) {
        const struct fp_window *window = &otel->windows.window[i];
        uint64_t at = (address - window->address) / 8;

        if (at < window->words && n <= window->words - at) {
            if (!is_of_dictionary(otel, address))
                note_place(otel, address, n);
            return window->word + at;
        }
    }
    otel->lacks.address = address;
    otel->lacks.words = n;
    return NULL;
}

/* Within the page of the first word, but for what is needed. */
static void put_window(struct fp_otel *otel, struct fp_safe_read_span *span)
{
    struct fp_window *window = &otel->windows.window[otel->windows.count++];
    int is_slot = is_of_dictionary(otel, otel->lacks.address);
    uint32_t in_page = (uint32_t)(otel->lacks.address % PAGE / 8);
    uint32_t to_end = (uint32_t)(PAGE / 8) - in_page;
    uint32_t behind = is_slot ? DICTIONARY_WORDS : BEHIND, before;

    if (behind > to_end)
        behind = to_end;
    if (behind < otel->lacks.words)
        behind = otel->lacks.words;
    before = FP_WINDOW_WORDS - behind < in_page ? FP_WINDOW_WORDS - behind : in_page;
    if (is_slot)
        before = 0;
    window->address = otel->lacks.address - 8ull * before;
    window->words = before + behind;
    *span = (struct fp_safe_read_span){window->address, window->word, 8 * window->words, 0};
}

uint32_t fp_otel_windows(struct fp_otel *otel, const struct fp_otel_places *places,
                         struct fp_safe_read_span span[FP_OTEL_PLACES])
{
    /* Behind a list that has become longer they may find no room. */
    if (otel->is_as_before || otel->lacks.address != places->entry ||
        places->count > FP_WINDOWS_MAX - otel->windows.count) {
        put_window(otel, span);
        return 1;
    }
    otel->is_as_before = 1;
    for (uint32_t i = 0; i < places->count; i++) {
        struct fp_window *window = &otel->windows.window[otel->windows.count++];

        window->address = places->address[i];
        window->words = places->words[i];
        span[i] = (struct fp_safe_read_span){window->address, window->word, 8 * window->words, 0};
    }
    return places->count;
}

void fp_otel_was_read(const struct fp_safe_read_span *span)
{
    char *window = (char *)span->into - offsetof(struct fp_window, word);

    if (span->result != 0)
        ((struct fp_window *)(void *)window)->words = 0;
}

/* No window is lacking, or one that was read in vain, or one too many. */
static int is_over(const struct fp_otel *otel)
{
    if (otel->lacks.address == 0 || otel->windows.count == FP_WINDOWS_MAX)
        return 1;
    for (uint32_t i = 0; i < otel->windows.count; i++) {
        const struct fp_window *window = &otel->windows.window[i];

        if (window->words == 0 && window->address <= otel->lacks.address &&
            otel->lacks.address - window->address < 8 * FP_WINDOW_WORDS)
            return 1;
    }
    return 0;
}

/* ------------------------------------------------------------------ terms -- */

/* A tuple of `arity` with its header; NULL: none, or its window is lacking. */
static const uint64_t *tuple_at(struct fp_otel *otel, uint64_t term, uint32_t arity, uint32_t read)
{
    const uint64_t *word =
        fp_term_is_boxed(term) ? words_at(otel, fp_term_address(term), 1 + read) : NULL;

    return word != NULL && word[0] == (uint64_t)arity << 6 ? word : NULL;
}

/* A positive integer of up to `n` words, lowest first; 0 where it is none. */
static int integer_at(struct fp_otel *otel, uint64_t term, uint32_t n, uint64_t *into)
{
    const uint64_t *word;
    uint32_t words;

    memset(into, 0, 8 * (size_t)n);
    if ((term & 0xf) == 0xf) {
        into[0] = (int64_t)term > 0 ? term >> 4 : 0;
        return into[0] != 0;
    }
    word = fp_term_is_boxed(term) ? words_at(otel, fp_term_address(term), 1) : NULL;
    if (word == NULL || (word[0] & 0x3f) != BIG_SUBTAG || word[0] >> 6 == 0 || word[0] >> 6 > n)
        return 0;
    words = (uint32_t)(word[0] >> 6);
    word = words_at(otel, fp_term_address(term), 1 + words);
    if (word == NULL || word[words] == 0)
        return 0;
    memcpy(into, word + 1, 8 * (size_t)words);
    return 1;
}

/* The word behind a dictionary's key, 0: none. An atom hashes to its index (dictionary.c). */
static uint64_t context_of(struct fp_otel *otel, uint64_t key)
{
    const uint64_t *word = words_at(otel, otel->dictionary, SLOTS), *entry;
    struct fp_dictionary head;
    uint64_t slot, term;

    if (word == NULL)
        return 0;
    memcpy(&head, word, sizeof head);
    slot = fp_atom_index(key) & head.size_mask;
    if (slot >= head.used_slots)
        slot &= head.size_mask >> 1;
    otel->slot = otel->dictionary + 8 * (SLOTS + slot);
    word = words_at(otel, otel->slot, 1);
    term = word == NULL ? 0 : *word;
    for (int i = 0; i < CHAIN_MAX && fp_term_is_list(term); i++) {
        const uint64_t *cell = words_at(otel, fp_term_address(term), 2);

        if (cell == NULL)
            return 0;
        term = cell[1];
        entry = tuple_at(otel, cell[0], 2, 2);
        if (entry != NULL && entry[1] == key)
            return entry[2];
        if (otel->lacks.address != 0)
            return 0;
    }
    entry = tuple_at(otel, term, 2, 2);
    return entry != NULL && entry[1] == key ? entry[2] : 0;
}

static int is_key(struct fp_otel *otel, const struct fp_layout *layout, uint64_t term)
{
    const uint64_t *word;

    if (otel->key != 0 && term == otel->key)
        return 1;
    word = tuple_at(otel, term, 2, 2);
    if (word == NULL || word[1] != layout->otel.otel_tracer || word[2] != layout->otel.span_ctx)
        return 0;
    otel->key = term;
    return 1;
}

/* The value behind {otel_tracer, span_ctx}, 0: none. Atoms come before tuples: it is among the last
 * keys. */
static uint64_t span_of(struct fp_otel *otel, const struct fp_layout *layout, uint64_t map)
{
    const uint64_t *word =
        fp_term_is_boxed(map) ? words_at(otel, fp_term_address(map), MAP_HEAD) : NULL;
    const uint64_t *keys;
    uint32_t n;

    if (word == NULL || word[0] != layout->otel.map_header || word[1] == 0 || word[1] > KEYS_MAX)
        return 0;
    n = (uint32_t)word[1];
    word = words_at(otel, fp_term_address(map), MAP_HEAD + n);
    keys = word == NULL ? NULL : tuple_at(otel, word[2], n, n);
    for (uint32_t i = n; keys != NULL && i > 0 && otel->lacks.address == 0; i--)
        if (is_key(otel, layout, keys[i]))
            return word[MAP_HEAD + i - 1];
    return 0;
}

static int ids_of(struct fp_otel *otel, const struct fp_layout *layout, uint64_t span,
                  struct fp_trace *trace)
{
    const uint64_t *word = fp_term_is_boxed(span) ? words_at(otel, fp_term_address(span), 5) : NULL;
    uint64_t id[2], span_id;

    if (word == NULL || (word[0] != 9u << 6 && word[0] != 11u << 6) ||
        word[1] != layout->otel.span_ctx)
        return 0;
    span_id = word[0] == 9u << 6 ? word[3] : word[4];
    if (!integer_at(otel, word[2], 2, id) || !integer_at(otel, span_id, 1, &trace->span))
        return 0;
    trace->id[0] = id[1];
    trace->id[1] = id[0];
    return 1;
}

/* ------------------------------------------------------------------- both -- */

static int find(struct fp_otel *otel, const struct fp_layout *layout, uint64_t context,
                struct fp_trace *trace)
{
    uint64_t span;

    otel->lacks.address = 0;
    otel->places.count = 0;
    if (context == 0)
        context = context_of(otel, layout->otel.context);
    span = context == 0 ? 0 : span_of(otel, layout, context);
    if (span != 0 && ids_of(otel, layout, span, trace))
        return FP_OK;
    memset(trace, 0, sizeof *trace);
    return is_over(otel) ? FP_ENOENT : FP_ESTATE;
}

int fp_otel_find(struct fp_otel *otel, const struct fp_layout *layout, struct fp_trace *trace)
{
    if (layout->otel.map_header != 0 && otel->dictionary != 0)
        return find(otel, layout, 0, trace);
    memset(trace, 0, sizeof *trace);
    return FP_ENOENT;
}

static void read_one(struct fp_otel *otel, const struct fp_memory *memory)
{
    struct fp_safe_read_span span;

    put_window(otel, &span);
    span.result = fp_safe_read(memory, span.address, span.into, span.size);
    fp_otel_was_read(&span);
}

int fp_otel_read(struct fp_otel *otel, const struct fp_layout *layout,
                 const struct fp_memory *memory, struct fp_trace *trace)
{
    int err = fp_otel_find(otel, layout, trace);

    for (; err == FP_ESTATE; err = fp_otel_find(otel, layout, trace))
        read_one(otel, memory);
    return err;
}

int fp_otel_context(struct fp_otel *otel, const struct fp_layout *layout,
                    const struct fp_memory *memory, uint64_t context, struct fp_trace *trace)
{
    int err = find(otel, layout, context, trace);

    for (; err == FP_ESTATE; err = find(otel, layout, context, trace))
        read_one(otel, memory);
    return err;
}
