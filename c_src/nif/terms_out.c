#include "nif/terms_out.h"

#include "erts/atom.h"
#include "erts/process_table.h"
#include "erts/term.h"
#include "terms/terms.h"

void fp_terms_out_start(struct fp_terms_out *out, ErlNifEnv *env, const struct fp_layout *layout,
                        const struct fp_memory *memory)
{
    *out = (struct fp_terms_out){.env = env, .layout = layout, .memory = memory};
}

int fp_out_is_atom(struct fp_terms_out *out, uint64_t word)
{
    return fp_atom_is_known(out->layout, out->memory, word, &out->atoms);
}

ERL_NIF_TERM fp_out_atom(struct fp_terms_out *out, uint64_t word, const char *otherwise)
{
    return fp_out_is_atom(out, word) ? word : fp_atom(out->env, otherwise);
}

int fp_out_is_mfa(struct fp_terms_out *out, const uint64_t mfa[3])
{
    return fp_out_is_atom(out, mfa[0]) && fp_out_is_atom(out, mfa[1]) && mfa[2] <= FP_ARITY_MAX;
}

int fp_out_is_pid(const struct fp_terms_out *out, uint64_t word)
{
    return fp_term_is_pid(word) && fp_pid_slot(out->layout, word) < out->layout->process_limit;
}

ERL_NIF_TERM fp_out_pid(const struct fp_terms_out *out, uint64_t word, const char *otherwise)
{
    return fp_out_is_pid(out, word) ? word : fp_atom(out->env, otherwise);
}

ERL_NIF_TERM fp_out_mfa(struct fp_terms_out *out, const uint64_t mfa[3], const char *otherwise)
{
    return fp_out_is_mfa(out, mfa)
               ? enif_make_tuple3(out->env, mfa[0], mfa[1], enif_make_uint64(out->env, mfa[2]))
               : fp_atom(out->env, otherwise);
}
