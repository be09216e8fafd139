#include "erts/process_names.h"

#include <string.h>

#include "base/error.h"
#include "erts/dictionary.h"
#include "erts/term.h"

#define NAME_IN_REGISTRATION 32u /* RegProc.name, register.h */

/* Is `term` {M, F, A}? */
static int read_call(const struct fp_memory *peek, uint64_t term,
                     struct fp_mfa_words *mfa)
{
    uint64_t call[4];
    int arity;

    if (fp_term_read_tuple(peek, term, 3, call) != 0 ||
        !fp_term_is_atom(call[1]) || !fp_term_is_atom(call[2]))
        return FP_ENOENT;
    arity = fp_term_arity(call[3]);
    if (arity < 0)
        return FP_ENOENT;
    *mfa = (struct fp_mfa_words){call[1], call[2], (uint64_t)arity};
    return 0;
}

void fp_process_names_read(const struct fp_layout *layout,
                           const struct fp_memory *peek,
                           const struct fp_snapshot *snapshot,
                           uint64_t initial_call_key,
                           struct fp_process_names *names)
{
    uint64_t name = 0, term;

    (void)layout;
    memset(names, 0, sizeof *names);
    if (fp_term_is_atom(snapshot->initial_call[0]) &&
        fp_term_is_atom(snapshot->initial_call[1]) &&
        snapshot->initial_call[2] <= FP_ARITY_MAX)
        names->initial_call = (struct fp_mfa_words){snapshot->initial_call[0],
                                                    snapshot->initial_call[1],
                                                    snapshot->initial_call[2]};
    if (snapshot->registered_at != 0 &&
        fp_safe_read_word(peek, snapshot->registered_at + NAME_IN_REGISTRATION,
                          &name) == 0 &&
        fp_term_is_atom(name))
        names->registered = name;
    if (fp_dictionary_find(peek, snapshot->dictionary, initial_call_key,
                           &term) == 0)
        read_call(peek, term, &names->proc_lib);
}
