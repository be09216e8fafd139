/* session_options.h - the options of a session, from Erlang's map to C's structs. */
#pragma once

#include <erl_nif.h>

#include "session/session.h"
#include "terms/terms.h"

/* The options, with room for what they point to: 40 KB, too much for a scheduler's stack. */
struct fp_session_start {
    struct fp_session_options options;
    struct fp_excluded {
        uint64_t pid[FP_EXCLUDED_MAX];
        size_t n;
    } excluded;
    char directory[FP_PATH_BYTES], note[FP_NOTE_ROOM], about[FP_NOTE_ROOM];
};

/* Into *start, which is all zeros. 0; FP_EINVAL with the wrong key in *why; FP_ESTATE when the
 * native engine has no layout yet. */
int fp_session_start_read(ErlNifEnv *env, ERL_NIF_TERM map, struct fp_session_start *start,
                          char *why, size_t why_size);

/* `all` is -1. 1, or 0 when `term` is no status. */
int fp_get_status(ErlNifEnv *env, ERL_NIF_TERM term, int *status);
