/* term_words.h - arguments of looks: limits, and terms as the words that looks compare with memory.
 */
#pragma once

#include <stdint.h>

#include <erl_nif.h>

/* The number of an atom key. 1, or 0 when there is no such key or its value has another type. */
int fp_map_get_u32(ErlNifEnv *env, ERL_NIF_TERM map, const char *key, uint32_t *value);

/* A list of at most `most` pids of this node: their words, and how many. 0: it is none. */
int fp_get_pids(ErlNifEnv *env, ERL_NIF_TERM list, uint64_t *pid, uint32_t most, uint32_t *n);

/* {Module, Function, Arity} with atoms: their words. */
int fp_get_mfa(ErlNifEnv *env, ERL_NIF_TERM term, uint64_t mfa[3]);
