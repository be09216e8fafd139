/* tracer_nif.h - the VM's tracer callbacks, and the kinds of tracing that they serve.
 *
 * A tracer of this library is {flame_prof_nif, State}. State is a reference for the tracer of
 * `follow' (sends.c), and an integer for a tracing (tracer/tracer.h): generation and index.
 *
 * WHAT A CALLBACK MAY DO  It runs in the middle of a call, a collection or a send. No lock, no
 * memory from any allocator, no system call but the clocks, no enif call that sends or that makes
 * an atom. `enabled' has an environment without a process: no term may be made in it.
 * tools/check_threads.sh lists what they call. Two exceptions: what ERTS allocates for
 * terms/term_copy.h, and the messages of sends.c.
 *
 * NO NIF MAY BE CALLED trace_call/5: OTP 25 to 29 call it with the three arguments of `enabled'
 * for a call with meta tracing (erts_call_trace, TRACE_FUN_T_CALL). */
#pragma once

#include <erl_nif.h>

#include "tracer/tracer.h"

/* An event, as the VM tells it. */
struct fp_tracer_event {
    ErlNifEnv *env;
    const struct fp_tracer_atoms *atoms;
    struct fp_tracer_line *line; /* of this thread */
    uint32_t index;              /* of the pattern; 0: by the flags of a process */
    ERL_NIF_TERM tag;            /* call, return_from, gc_minor_start, ... */
    ERL_NIF_TERM tracee;
    ERL_NIF_TERM message, options; /* of trace/5 only */
};

struct fp_tracer_kind {
    const char *name;
    /* Prices for the budget: an event, a discarded event, a process that is scheduled in, and a
     * process spawned with the flags. */
    uint32_t event_ns, discard_ns, question_ns, birth_ns;
    /* The state out of the term of the caller, or NULL with *err set. On a dirty scheduler. */
    void *(*create)(ErlNifEnv *env, ERL_NIF_TERM config, int *err);
    /* No callback is inside. On a dirty scheduler. */
    void (*destroy)(void *state);
    /* 1: trace, charged as an event; 0: discard. */
    int (*enabled)(void *state, const struct fp_tracer_event *event);
    /* The result of flame_prof_nif:tracer_due/1, within a millisecond. NULL: []. */
    ERL_NIF_TERM (*due)(void *state, ErlNifEnv *env);
    /* The process `tracee` is scheduled in, by a normal scheduler. 0: its flags go. NULL: 1. Of an
     * atom, for a process that is about to be born with the flags, the answer is ignored. */
    int (*keeps)(void *state, const struct fp_tracer_event *event);
    void (*trace)(void *state, const struct fp_tracer_event *event);
    /* The result of flame_prof_nif:tracer_read/2; callbacks run in the meantime. On a dirty
     * scheduler, one caller at a time. NULL: nothing. */
    ERL_NIF_TERM (*read)(void *state, ErlNifEnv *env, ERL_NIF_TERM what);
};

extern const struct fp_tracer_kind fp_tracer_kind_allocations;
extern const struct fp_tracer_kind fp_tracer_kind_trace; /* trace_nif.c */
extern const struct fp_tracer_kind fp_tracer_kind_latency;

/* The kind of this name, or NULL. */
const struct fp_tracer_kind *fp_tracer_kind_find(ErlNifEnv *env, ERL_NIF_TERM name);

/* Of a library that goes: ERTS has seen to it that no callback runs. */
void fp_tracer_forget(void);

/* sends.c: the callbacks for a state that is a reference. */
ERL_NIF_TERM fp_sends_enabled(ErlNifEnv *env, const ERL_NIF_TERM argv[3]);
ERL_NIF_TERM fp_sends_trace(ErlNifEnv *env, const ERL_NIF_TERM argv[5]);
