/* library.h - the state of the loaded library, and the list of its NIFs. */
#pragma once

#include <stdatomic.h>

#include <erl_nif.h>

#include "base/safe_read.h"
#include "erts/allocators.h"
#include "erts/ets_objects.h"
#include "erts/layout.h"
#include "erts/sites.h"

/* Made at load, for sends.c: it runs at each traced message, and enif_make_atom locks a table. */
#define FP_SENDS_ATOMS(X)                                                                          \
    X(ok) X(trace) X(discard) X(remove) X(send) X(trace_status) X(extra) X(over) X(flame_prof_sends)

struct fp_sends_atoms {
#define FP_SENDS_ATOM(name) ERL_NIF_TERM name;
    FP_SENDS_ATOMS(FP_SENDS_ATOM)
};

/* Made at load, likewise: for tracer_nif.c and its kinds. */
/* clang-format off */
#define FP_TRACER_ATOMS(X) \
    X(ok) \
    X(trace) \
    X(discard) \
    X(remove) \
    X(trace_status) \
    X(call) \
    X(return_from) \
    X(exception_from) \
    X(match_spec_result) \
    X(extra) \
    X(gc_minor_start) \
    X(gc_minor_end) \
    X(gc_major_start) \
    X(gc_major_end) \
    X(gc_max_heap_size)
/* clang-format on */

struct fp_tracer_atoms {
#define FP_TRACER_ATOM(name) ERL_NIF_TERM name;
    FP_TRACER_ATOMS(FP_TRACER_ATOM)
};

struct fp_library {
    /* By dirty NIFs only. `lock` is of `memory`, while it is opened, and of `sites`; the other is
     * of the one tracing (tracer_nif.c): held for up to a second, so nothing else waits for it. */
    ErlNifMutex *lock, *tracing_lock;
    struct fp_memory memory;                    /* immutable once memory_err is 0 */
    int memory_err;                             /* 1: not opened; 0; or why no memory can be read */
    _Atomic(struct fp_layout *) layout;         /* NULL: not calibrated; immutable once set */
    _Atomic(struct fp_allocators *) allocators; /* likewise */
    _Atomic(struct fp_ets *) tables;            /* likewise */
    _Atomic(struct fp_ets_objects *) table_objects; /* likewise */
    _Atomic uint64_t tables_data; /* of the scheduler on which tables_probe/0 ran last */
    ErlNifResourceType *calibration_type, *session_type, *selector_type, *sends_type;
    ErlNifResourceType *mailbox_type, *xray_type;
    struct fp_sends_atoms sends_atoms;
    struct fp_tracer_atoms tracer_atoms;
    struct fp_sites *sites; /* under `lock`; NULL: no probe has found any */
    uint64_t sites_mark;    /* likewise: of the code that they were found in */
};

static inline struct fp_library *fp_library(ErlNifEnv *env)
{
    return enif_priv_data(env);
}

/* Opens `memory` once. NULL, or why this build has no native engine here. For a dirty NIF. */
const char *fp_library_open_memory(struct fp_library *library);

/* The sites of waits, for a user who releases them, and their mark; NULL: none are known. For a
 * dirty NIF. */
struct fp_sites *fp_library_sites(struct fp_library *library, uint64_t *mark);

/* Are a table's name and owner terms of this VM, which has so many atoms? It would trust them. */
int fp_table_has_names(const struct fp_ets_table *table, uint32_t atoms);

/* The address of the calling process's structure; 0 when its word is not the process's pid. */
uint64_t fp_own_process(ErlNifEnv *env, const struct fp_memory *memory);

/* The NIFs: X(name, arity, scheduler). 0: on a normal scheduler, for microseconds. */
#define FP_NIFS(X)                                                                                 \
    X(platform, 0, IO)                                                                             \
    X(calibration_open, 0, IO)                                                                     \
    X(calibration_probe, 1, 0)                                                                     \
    X(calibration_solve, 2, CPU)                                                                   \
    X(layout_info, 0, CPU)                                                                         \
    X(term_view, 2, CPU)                                                                           \
    X(snapshot, 1, IO)                                                                             \
    X(write_perf_map, 1, IO)                                                                       \
    X(session_start, 1, IO)                                                                        \
    X(session_push, 2, CPU)                                                                        \
    X(session_flush, 1, 0)                                                                         \
    X(session_follow, 1, 0)                                                                        \
    X(session_commit, 2, 0)                                                                        \
    X(session_stop, 1, 0)                                                                          \
    X(session_close, 1, IO)                                                                        \
    X(session_info, 1, 0)                                                                          \
    X(session_schedulers_online, 2, 0)                                                             \
    X(session_pin, 2, CPU)                                                                         \
    X(session_selected, 1, 0)                                                                      \
    X(sends_open, 1, 0)                                                                            \
    X(sends_end, 1, 0)                                                                             \
    X(sends_seen, 1, 0)                                                                            \
    X(enabled, 3, 0)                                                                               \
    X(enabled_call, 3, 0)                                                                          \
    X(enabled_garbage_collection, 3, 0)                                                            \
    X(trace, 5, 0)                                                                                 \
    X(tracer_open, 3, CPU)                                                                         \
    X(tracer_heartbeat, 2, 0)                                                                      \
    X(tracer_due, 1, 0)                                                                            \
    X(tracer_end, 1, 0)                                                                            \
    X(tracer_counters, 1, 0)                                                                       \
    X(tracer_read, 2, CPU)                                                                         \
    X(tracer_close, 1, IO)                                                                         \
    X(capture_probe, 1, 0)                                                                         \
    X(captures_off, 1, 0)                                                                          \
    X(schedulers_prepare, 1, IO)                                                                   \
    X(scheduler_register, 1, 0)                                                                    \
    X(schedulers_retire_begin, 0, IO)                                                              \
    X(scheduler_retire, 1, 0)                                                                      \
    X(schedulers_retire_end, 0, IO)                                                                \
    X(selector_new, 4, CPU)                                                                        \
    X(selector_next, 2, CPU)                                                                       \
    X(session_node_metrics, 2, 0)                                                                  \
    X(mailbox_open, 2, CPU)                                                                        \
    X(mailbox_next, 2, IO)                                                                         \
    X(xray_open, 2, IO)                                                                            \
    X(xray_next, 2, IO)                                                                            \
    X(binaries_look, 2, IO)                                                                        \
    X(stack_terms, 1, IO)                                                                          \
    X(monitor_terms, 1, IO)                                                                        \
    X(monitor_counts, 1, IO)                                                                       \
    X(wait_sites_set, 2, IO)                                                                       \
    X(wait_sites_learn, 2, IO)                                                                     \
    X(wait_sites, 0, IO)                                                                           \
    X(waits_look, 1, CPU)                                                                          \
    X(waits_served, 1, CPU)                                                                        \
    X(allocators_solve, 3, CPU)                                                                    \
    X(allocators_read, 0, CPU)                                                                     \
    X(allocators_sums, 0, CPU)                                                                     \
    X(tables_probe, 0, 0)                                                                          \
    X(tables_solve, 3, CPU)                                                                        \
    X(tables_read, 0, CPU)                                                                         \
    X(tables_objects, 1, CPU)                                                                      \
    X(memory_rss, 0, IO)                                                                           \
    X(trace_term, 2, 0)

#define FP_NIF(name)                                                                               \
    ERL_NIF_TERM fp_nif_##name(ErlNifEnv *env, __attribute__((unused)) int argc,                   \
                               __attribute__((unused)) const ERL_NIF_TERM argv[])
#define FP_NIF_DECLARATION(name, arity, flags) FP_NIF(name);
FP_NIFS(FP_NIF_DECLARATION)

/* session_nif.c: calls `put` with the encoder of the session `term`, one caller at a time, and
 * returns its answer. 0, without a call: that is no session of weights, it is closed, or another
 * caller is inside. */
struct fp_weight_encoder;
ERL_NIF_TERM fp_session_put_weights(ErlNifEnv *env, ERL_NIF_TERM term,
                                    ERL_NIF_TERM (*put)(ErlNifEnv *env, void *arg,
                                                        struct fp_weight_encoder *encoder),
                                    void *arg);

/* Resource destructors and callbacks. */
void fp_top_handle_destroy(ErlNifEnv *env, void *object);
void fp_mailbox_handle_destroy(ErlNifEnv *env, void *object);
void fp_xray_handle_destroy(ErlNifEnv *env, void *object);
extern const ErlNifResourceTypeInit fp_session_type_init;
extern const ErlNifResourceTypeInit fp_sends_type_init;
