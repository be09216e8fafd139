#include "erts/dictionary.h"

#include "base/error.h"
#include "erts/term.h"

#define SLOTS_IN_DICTIONARY 24u
/* Entries of one slot that are compared. */
#define CHAIN_MAX 16

/* A slot is split off from the one `half` below it, one after the other, until the array has twice
 * as many; then the mask grows (erl_process_dict.c). */
int64_t fp_dictionary_bytes(const struct fp_dictionary *dictionary)
{
    uint64_t slots = (uint64_t)dictionary->size_mask + 1, half = slots / 2;

    if (half == 0 || (slots & dictionary->size_mask) != 0 || dictionary->split_position > half ||
        dictionary->used_slots != half + dictionary->split_position ||
        dictionary->used_slots > dictionary->array_size)
        return -1;
    return SLOTS_IN_DICTIONARY + 8 * (int64_t)dictionary->array_size;
}

int fp_dictionary_read(const struct fp_layout *layout, const struct fp_memory *memory,
                       uint64_t address, const struct fp_snapshot *snapshot, int64_t *bytes)
{
    const uint16_t *offset = layout->release.offset;
    struct fp_dictionary dictionary;
    uint64_t id = 0, again = 0;
    struct fp_safe_read_span span[] = {
        {snapshot->dictionary, &dictionary, sizeof dictionary, 0},
        {address + offset[FP_FIELD_dictionary], &again, sizeof again, 0},
        {address + offset[FP_FIELD_id], &id, sizeof id, 0},
    };

    *bytes = 0;
    if (snapshot->dictionary == 0)
        return 0;
    if (fp_safe_read_batch(memory, span, 3) != 3 || again != snapshot->dictionary ||
        id != snapshot->id)
        return FP_ETORN;
    *bytes = fp_dictionary_bytes(&dictionary);
    return *bytes < 0 ? FP_ETORN : 0;
}

/* Is `entry` {Key, Value}? */
static int read_entry(const struct fp_memory *memory, uint64_t entry, uint64_t key, uint64_t *value)
{
    uint64_t pair[3];

    if (fp_term_read_tuple(memory, entry, 2, pair) != 0 || pair[1] != key)
        return FP_ENOENT;
    *value = pair[2];
    return 0;
}

int fp_dictionary_find(const struct fp_memory *memory, uint64_t dictionary, uint64_t key,
                       uint64_t *value)
{
    struct fp_dictionary head;
    uint64_t slot, term, cell[2];

    if (dictionary == 0 || fp_safe_read(memory, dictionary, &head, sizeof head) != 0)
        return FP_ENOENT;
    /* An atom hashes to its index; a slot above those in use to the one that it has not been split
     * from yet (pd_hash_get). */
    slot = fp_atom_index(key) & head.size_mask;
    if (slot >= head.used_slots)
        slot &= head.size_mask >> 1;
    if (fp_safe_read_word(memory, dictionary + SLOTS_IN_DICTIONARY + 8 * slot, &term) != 0)
        return FP_ENOENT;
    for (int i = 0; i < CHAIN_MAX && fp_term_is_list(term); i++) {
        if (fp_safe_read(memory, fp_term_address(term), cell, sizeof cell) != 0)
            return FP_ENOENT;
        if (read_entry(memory, cell[0], key, value) == 0)
            return 0;
        term = cell[1];
    }
    return read_entry(memory, term, key, value);
}
