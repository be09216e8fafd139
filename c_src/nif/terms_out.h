/* terms_out.h - words of the VM's memory as terms.
 *
 * The VM trusts the terms of a NIF: an atom beyond its table of atoms ends the VM, then or later. A
 * word that was read from memory may be anything, so that it becomes a term here only
 * (tools/check_arrows.sh). If it is no such term of this VM, the result is `otherwise`.
 *
 * One thread, which may use `memory`. */
#pragma once

#include <erl_nif.h>

#include "base/safe_read.h"
#include "erts/layout.h"

struct fp_terms_out {
    ErlNifEnv *env;
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    uint32_t atoms; /* as many as were counted last */
};

/* All of them must outlive it. */
void fp_terms_out_start(struct fp_terms_out *out, ErlNifEnv *env, const struct fp_layout *layout,
                        const struct fp_memory *memory);

/* 1: it is an atom of this VM; the atoms and the arity of a function; a pid of this node. */
int fp_out_is_atom(struct fp_terms_out *out, uint64_t word);
int fp_out_is_mfa(struct fp_terms_out *out, const uint64_t mfa[3]);
int fp_out_is_pid(const struct fp_terms_out *out, uint64_t word);

ERL_NIF_TERM fp_out_atom(struct fp_terms_out *out, uint64_t word, const char *otherwise);
ERL_NIF_TERM fp_out_pid(const struct fp_terms_out *out, uint64_t word, const char *otherwise);
/* {Module, Function, Arity} */
ERL_NIF_TERM fp_out_mfa(struct fp_terms_out *out, const uint64_t mfa[3], const char *otherwise);
