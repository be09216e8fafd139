#include "erts/process_names.h"

#include <string.h>

#include "base/error.h"
#include "erts/dictionary.h"
#include "erts/term.h"

/* Is `term` {M, F, A}? */
static int read_call(const struct fp_memory *memory, uint64_t term, struct fp_mfa_words *mfa)
{
    uint64_t call[4];
    int arity;

    if (fp_term_read_tuple(memory, term, 3, call) != 0 || !fp_term_is_atom(call[1]) ||
        !fp_term_is_atom(call[2]))
        return FP_ENOENT;
    arity = fp_term_arity(call[3]);
    if (arity < 0)
        return FP_ENOENT;
    *mfa = (struct fp_mfa_words){call[1], call[2], (uint64_t)arity};
    return 0;
}

/* proc_lib:set_label/1 allows any term. Only an atom leaves this node: the label, or the first
 * element of a tuple. */
static uint64_t tag_of_label(const struct fp_memory *memory, uint64_t label)
{
    uint64_t tuple[2]; /* header: arity << 6; the first element */

    if (fp_term_is_atom(label))
        return label;
    if (!fp_term_is_boxed(label) ||
        fp_safe_read(memory, fp_term_address(label), tuple, sizeof tuple) != 0 ||
        (tuple[0] & 0x3f) != 0 || tuple[0] == 0 || !fp_term_is_atom(tuple[1]))
        return 0;
    return tuple[1];
}

static int has_not_collected(const struct fp_layout *layout, const struct fp_memory *memory,
                             uint64_t address, const struct fp_snapshot *before)
{
    const uint32_t moves_terms = FP_PSFLG_GC | FP_PSFLG_EXITING | FP_PSFLG_FREE;
    struct fp_stamp now;

    return (before->state & moves_terms) == 0 &&
           fp_stamp_read(layout, memory, address, &now) == 0 && (now.state & moves_terms) == 0 &&
           now.dictionary == before->dictionary && fp_stamp_has_same_heap(&before->stamp, &now);
}

static uint64_t read_label(const struct fp_layout *layout, const struct fp_memory *memory,
                           uint64_t address, const struct fp_snapshot *snapshot)
{
    uint64_t term, tag;

    if (address == 0 || layout->term.process_label == 0 ||
        fp_dictionary_find(memory, snapshot->dictionary, layout->term.process_label, &term) != 0)
        return 0;
    tag = tag_of_label(memory, term);
    return has_not_collected(layout, memory, address, snapshot) ? tag : 0;
}

void fp_process_names_read(const struct fp_layout *layout, const struct fp_memory *memory,
                           uint64_t address, const struct fp_snapshot *snapshot,
                           struct fp_process_names *names)
{
    uint64_t name = 0, term;

    memset(names, 0, sizeof *names);
    if (fp_term_is_atom(snapshot->initial_call[0]) && fp_term_is_atom(snapshot->initial_call[1]) &&
        snapshot->initial_call[2] <= FP_ARITY_MAX)
        names->initial_call = (struct fp_mfa_words){
            snapshot->initial_call[0], snapshot->initial_call[1], snapshot->initial_call[2]};
    if (snapshot->registered_at != 0 &&
        fp_safe_read_word(memory, snapshot->registered_at + FP_NAME_IN_REGISTRATION, &name) == 0 &&
        fp_term_is_atom(name))
        names->registered = name;
    if (fp_dictionary_find(memory, snapshot->dictionary, layout->term.initial_call, &term) == 0)
        read_call(memory, term, &names->proc_lib);
    names->label = read_label(layout, memory, address, snapshot);
}

int fp_process_hibernates(const struct fp_layout *layout, const struct fp_memory *memory,
                          const struct fp_snapshot *snapshot)
{
    uint64_t mfa[3];

    return layout->term.hibernate != 0 && snapshot->current != 0 &&
           snapshot->value[FP_METRIC_stack_size] <= 1 &&
           fp_safe_read(memory, snapshot->current, mfa, sizeof mfa) == 0 &&
           mfa[0] == layout->term.erlang && mfa[1] == layout->term.hibernate && mfa[2] == 3;
}
