/*
 * library.h - what lives as long as the loaded library: the way memory is read, and the layout once
 * it was found.
 */
#ifndef FP_AGENT_NIF_LIBRARY_H
#define FP_AGENT_NIF_LIBRARY_H

#include <erl_nif.h>

#include "base/safe_read.h"
#include "erts/layout.h"

/* What sends.c says and asks for at each message of others: to look an atom up by its text takes a
 * lock of the VM. */
struct fp_sends_atoms {
    ERL_NIF_TERM ok, trace, discard, remove, send, trace_status, extra, over, flame_prof_sends;
};

struct fp_library {
    /* Guards all below until it is immutable. Taken by dirty NIFs only. */
    ErlNifMutex *lock;
    struct fp_memory peek;    /* immutable once peek_err is 0 */
    int peek_err;             /* 1: not opened yet; 0; or why nothing can be read here */
    struct fp_layout *layout; /* immutable once set; NULL: not calibrated */
    /* Immutable: */
    ErlNifResourceType *calibration_type, *session_type, *selector_type, *sends_type;
    struct fp_sends_atoms sends_atoms;
};

static inline struct fp_library *fp_library(ErlNifEnv *env)
{
    return enif_priv_data(env);
}

/* NULL when not calibrated. */
struct fp_layout *fp_library_layout(struct fp_library *library);

/* Opens `peek` when it is not open. Why this build, on this machine, has no native engine at all;
 * NULL when it has one. A dirty NIF. */
const char *fp_library_open_memory(struct fp_library *library);

/* The calling process's structure, 0 when it is not where it is expected. */
uint64_t fp_own_process(ErlNifEnv *env, const struct fp_memory *peek);

/* The NIFs, by room. */
#define FP_NIF(name) ERL_NIF_TERM name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])

FP_NIF(fp_nif_calibration_open);
FP_NIF(fp_nif_calibration_probe);
FP_NIF(fp_nif_calibration_solve);
FP_NIF(fp_nif_layout_info);
FP_NIF(fp_nif_snapshot);
FP_NIF(fp_nif_write_perf_map);
FP_NIF(fp_nif_session_start);
FP_NIF(fp_nif_session_push);
FP_NIF(fp_nif_session_flush);
FP_NIF(fp_nif_session_commit);
FP_NIF(fp_nif_session_stop);
FP_NIF(fp_nif_session_close);
FP_NIF(fp_nif_session_info);
FP_NIF(fp_nif_session_schedulers_online);
FP_NIF(fp_nif_session_want);
FP_NIF(fp_nif_session_chosen);
FP_NIF(fp_nif_sends_open);
FP_NIF(fp_nif_sends_end);
FP_NIF(fp_nif_sends_seen);
FP_NIF(fp_nif_sends_enabled);
FP_NIF(fp_nif_sends_trace);
FP_NIF(fp_nif_capture_probe);
FP_NIF(fp_nif_captures_off);
FP_NIF(fp_nif_schedulers_prepare);
FP_NIF(fp_nif_scheduler_register);
FP_NIF(fp_nif_schedulers_retire_begin);
FP_NIF(fp_nif_scheduler_retire);
FP_NIF(fp_nif_schedulers_retire_end);
FP_NIF(fp_nif_selector_new);
FP_NIF(fp_nif_selector_next);

FP_NIF(fp_nif_session_figures);

/* At load. */
void fp_sends_make_atoms(ErlNifEnv *env, struct fp_sends_atoms *atoms);

/* Resource destructors and callbacks. */
void fp_calibration_destroy(ErlNifEnv *env, void *object);
void fp_top_handle_destroy(ErlNifEnv *env, void *object);
extern const ErlNifResourceTypeInit fp_session_type_init;
extern const ErlNifResourceTypeInit fp_sends_type_init;

#endif
