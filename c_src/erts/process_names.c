/*
 * Terms that are looked at here, and nowhere else in this library: the entry
 * of '$initial_call' in a process dictionary, {'$initial_call', {M, F, A}}.
 *
 *   ProcDict   0 u32 sizeMask, u32 usedSlots, u32 arraySize, u32 split
 *             16 numElements   24 the slots            (erl_process_dict.h)
 *   a slot     nil, a boxed {Key, Value}, or a list of those
 */
#include "erts/process_names.h"

#include <string.h>

#include "base/error.h"

#define NAME_IN_REGISTRATION 32u /* RegProc.name, register.h */
#define SLOTS_IN_DICTIONARY 24u

#define TAG_MASK 3u
#define TAG_LIST 1u
#define TAG_BOXED 2u
#define TUPLE_2 (2u << 6) /* header of a tuple: arity << 6 */
#define TUPLE_3 (3u << 6)
#define SMALL_MASK 0xfu
#define SMALL_TAG 0xfu
#define ARITY_MAX 255u

/* Entries of one slot that are looked through. */
#define CHAIN_MAX 16

static uint64_t to_address(uint64_t term)
{
    return term & ~(uint64_t)7;
}

/* Is `term` {Key, {M, F, A}}? */
static int read_entry(const struct fp_memory *peek, uint64_t term, uint64_t key,
                      struct fp_mfa_words *mfa)
{
    uint64_t pair[3], call[4];

    if ((term & TAG_MASK) != TAG_BOXED ||
        fp_safe_read(peek, to_address(term), pair, sizeof pair) != 0 ||
        pair[0] != TUPLE_2 || pair[1] != key)
        return FP_ENOENT;
    if ((pair[2] & TAG_MASK) != TAG_BOXED ||
        fp_safe_read(peek, to_address(pair[2]), call, sizeof call) != 0 ||
        call[0] != TUPLE_3 || !fp_term_is_atom(call[1]) ||
        !fp_term_is_atom(call[2]) || (call[3] & SMALL_MASK) != SMALL_TAG ||
        call[3] >> 4 > ARITY_MAX)
        return FP_ENOENT;
    *mfa = (struct fp_mfa_words){call[1], call[2], call[3] >> 4};
    return 0;
}

static void find_entry(const struct fp_memory *peek, uint64_t dictionary,
                       uint64_t key, struct fp_mfa_words *mfa)
{
    uint32_t head[4]; /* sizeMask, usedSlots, arraySize, splitPosition */
    uint64_t slot, term;

    if (fp_safe_read(peek, dictionary, head, sizeof head) != 0)
        return;
    /* An atom hashes to its index; a slot above those in use to the one that
     * it has not been split from yet (pd_hash_get). */
    slot = (key >> 6) & head[0];
    if (slot >= head[1])
        slot &= head[0] >> 1;
    if (fp_safe_read_word(peek, dictionary + SLOTS_IN_DICTIONARY + 8 * slot,
                          &term) != 0)
        return;
    for (int i = 0; i < CHAIN_MAX && (term & TAG_MASK) == TAG_LIST; i++) {
        uint64_t cell[2];

        if (fp_safe_read(peek, to_address(term), cell, sizeof cell) != 0 ||
            read_entry(peek, cell[0], key, mfa) == 0)
            return;
        term = cell[1];
    }
    read_entry(peek, term, key, mfa);
}

void fp_process_names_read(const struct fp_layout *layout,
                           const struct fp_memory *peek,
                           const struct fp_snapshot *snapshot,
                           uint64_t initial_call_key,
                           struct fp_process_names *names)
{
    uint64_t name = 0;

    (void)layout;
    memset(names, 0, sizeof *names);
    if (fp_term_is_atom(snapshot->initial_call[0]) &&
        fp_term_is_atom(snapshot->initial_call[1]) &&
        snapshot->initial_call[2] <= ARITY_MAX)
        names->initial_call = (struct fp_mfa_words){snapshot->initial_call[0],
                                                    snapshot->initial_call[1],
                                                    snapshot->initial_call[2]};
    if (snapshot->registered_at != 0 &&
        fp_safe_read_word(peek, snapshot->registered_at + NAME_IN_REGISTRATION,
                          &name) == 0 &&
        fp_term_is_atom(name))
        names->registered = name;
    if (snapshot->dictionary != 0)
        find_entry(peek, snapshot->dictionary, initial_call_key,
                   &names->proc_lib);
}

/* sizeMask, usedSlots, arraySize, splitPosition */
int64_t fp_dictionary_bytes_of(const uint32_t head[4])
{
    return head[1] > head[2] ? 0 : SLOTS_IN_DICTIONARY + 8 * (int64_t)head[2];
}

int64_t fp_dictionary_bytes(const struct fp_memory *peek, uint64_t dictionary)
{
    uint32_t head[4];

    if (dictionary == 0 ||
        fp_safe_read(peek, dictionary, head, sizeof head) != 0)
        return 0;
    return fp_dictionary_bytes_of(head);
}
