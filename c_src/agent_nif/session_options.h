/*
 * session_options.h - the options of a session, from Erlang's map to C's struct.
 */
#ifndef FP_AGENT_NIF_SESSION_OPTIONS_H
#define FP_AGENT_NIF_SESSION_OPTIONS_H

#include <erl_nif.h>

#include "session/session.h"
#include "terms/terms.h"

/* The options, with room for what they point to: some 40 KB, not for a
 * scheduler's stack. */
struct fp_session_start {
    struct fp_session_options options;
    struct fp_layout layout;
    uint64_t excluded[FP_EXCLUDED_MAX];
    char directory[FP_PATH_BYTES], note[FP_NOTE_ROOM];
};

/* Into *start, which is all zeros. 0; FP_EINVAL for a map that flame_prof_session
 * does not make; FP_ESTATE when the native engine has no layout yet. */
int fp_session_start_read(ErlNifEnv *env, ERL_NIF_TERM map,
                          struct fp_session_start *start);

/* `all` is -1. 1, or 0 when that is no status. */
int fp_get_status(ErlNifEnv *env, ERL_NIF_TERM term, int *status);

#endif
