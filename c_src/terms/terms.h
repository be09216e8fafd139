/* terms.h - Erlang terms to C and back, for agent_nif/ and report_nif/. Only these three folders
 * include erl_nif.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <erl_nif.h>

ERL_NIF_TERM fp_atom(ErlNifEnv *env, const char *name);
/* true or false */
ERL_NIF_TERM fp_boolean(ErlNifEnv *env, int value);
ERL_NIF_TERM fp_binary(ErlNifEnv *env, const char *text, size_t size);
/* A binary of a text that ends with a NUL. */
ERL_NIF_TERM fp_text(ErlNifEnv *env, const char *text);

/* {ok, Value} */
ERL_NIF_TERM fp_ok(ErlNifEnv *env, ERL_NIF_TERM value);
/* {error, Reason} */
ERL_NIF_TERM fp_error(ErlNifEnv *env, ERL_NIF_TERM reason);
/* {error, {Atom, Text}}; an empty text is replaced by the error's own. */
ERL_NIF_TERM fp_error_text(ErlNifEnv *env, int err, const char *text);
/* For an err of 0: ok. Else {error, Atom}, or {error, {Atom, Text}}. */
ERL_NIF_TERM fp_result(ErlNifEnv *env, int err);
ERL_NIF_TERM fp_result_text(ErlNifEnv *env, int err, const char *text);

/* Puts Key => Value into *map, with an atom as the key. */
void fp_map_put(ErlNifEnv *env, ERL_NIF_TERM *map, const char *key, ERL_NIF_TERM value);
void fp_map_put_u64(ErlNifEnv *env, ERL_NIF_TERM *map, const char *key, uint64_t value);

/* The object of a reference of this type, or NULL. */
void *fp_get_object(ErlNifEnv *env, ERL_NIF_TERM ref, ErlNifResourceType *type);

int fp_is_atom(ErlNifEnv *env, ERL_NIF_TERM term, const char *name);
/* The index of an atom in a list of names that ends with NULL, or -1. */
int fp_get_name(ErlNifEnv *env, ERL_NIF_TERM term, const char *const *names);

/* The value of an atom key. 1, or 0 when there is no such key or its value has another type. */
int fp_map_get(ErlNifEnv *env, ERL_NIF_TERM map, const char *key, ERL_NIF_TERM *value);
/* A binary without NUL bytes, copied with a terminating one. */
int fp_get_text(ErlNifEnv *env, ERL_NIF_TERM term, char *text, size_t room);

#define FP_PATH_BYTES 4096
