/* looks.h - the library of looks and of tracing, which a node has while a process uses one. Its
 * state, and the list of its NIFs. */
#pragma once

#include "erts/ets_objects.h"
#include "nif/vm.h"

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

struct fp_looks {
    struct fp_vm vm;
    /* Of the one tracing (tracer_nif.c): held for up to a second, so nothing else waits for it. */
    ErlNifMutex *tracing_lock;
    _Atomic(struct fp_ets *) tables;                /* NULL: not found; immutable once set */
    _Atomic(struct fp_ets_objects *) table_objects; /* likewise */
    _Atomic uint64_t tables_data; /* of the scheduler on which tables_probe/0 ran last */
    ErlNifResourceType *calibration_type, *selector_type, *sends_type, *mailbox_type, *xray_type;
    struct fp_sends_atoms sends_atoms;
    struct fp_tracer_atoms tracer_atoms;
};

static inline struct fp_looks *fp_looks(ErlNifEnv *env)
{
    return enif_priv_data(env);
}

/* The NIFs: X(name, arity, scheduler), beside FP_VM_NIFS. 0: on a normal scheduler, for
 * microseconds. */
#define FP_LOOKS_NIFS(X)                                                                           \
    X(is_loaded, 0, 0)                                                                             \
    X(calibration_open, 0, IO)                                                                     \
    X(calibration_probe, 1, 0)                                                                     \
    X(calibration_solve, 2, CPU)                                                                   \
    X(write_perf_map, 1, IO)                                                                       \
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
    X(selector_new, 4, CPU)                                                                        \
    X(selector_next, 2, CPU)                                                                       \
    X(mailbox_open, 2, CPU)                                                                        \
    X(mailbox_next, 2, IO)                                                                         \
    X(xray_open, 2, IO)                                                                            \
    X(xray_next, 2, IO)                                                                            \
    X(binaries_look, 2, IO)                                                                        \
    X(stack_terms, 1, IO)                                                                          \
    X(monitor_terms, 1, IO)                                                                        \
    X(monitor_counts, 1, IO)                                                                       \
    X(wait_sites_value, 2, IO)                                                                     \
    X(wait_sites_learn, 2, IO)                                                                     \
    X(wait_sites, 0, IO)                                                                           \
    X(waits_look, 1, CPU)                                                                          \
    X(waits_served, 1, CPU)                                                                        \
    X(allocators_solve, 3, CPU)                                                                    \
    X(tables_probe, 0, 0)                                                                          \
    X(tables_solve, 3, CPU)                                                                        \
    X(tables_read, 0, CPU)                                                                         \
    X(tables_objects, 1, CPU)                                                                      \
    X(memory_rss, 0, IO)

FP_LOOKS_NIFS(FP_NIF_DECLARATION)

/* Of sends.c. */
extern const ErlNifResourceTypeInit fp_sends_type_init;
