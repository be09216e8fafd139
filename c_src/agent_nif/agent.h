/* agent.h - the agent: what a session that runs needs, in each VM that has one. Its state, and the
 * list of its NIFs. */
#pragma once

#include "nif/vm.h"

struct fp_agent {
    struct fp_vm vm;
    ErlNifResourceType *session_type;
};

static inline struct fp_agent *fp_agent(ErlNifEnv *env)
{
    return enif_priv_data(env);
}

/* The NIFs: X(name, arity, scheduler), beside FP_VM_NIFS. 0: on a normal scheduler, for
 * microseconds. */
#define FP_AGENT_NIFS(X)                                                                           \
    X(platform, 0, IO)                                                                             \
    X(layout_info, 0, CPU)                                                                         \
    X(snapshot, 1, IO)                                                                             \
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
    X(capture_probe, 1, 0)                                                                         \
    X(captures_off, 1, 0)                                                                          \
    X(schedulers_prepare, 1, IO)                                                                   \
    X(scheduler_register, 1, 0)                                                                    \
    X(schedulers_retire_begin, 0, IO)                                                              \
    X(scheduler_retire, 1, 0)                                                                      \
    X(schedulers_retire_end, 0, IO)                                                                \
    X(session_node_metrics, 2, 0)                                                                  \
    X(allocators_read, 0, CPU)                                                                     \
    X(session_weights, 2, CPU)

FP_AGENT_NIFS(FP_NIF_DECLARATION)

extern const ErlNifResourceTypeInit fp_session_type_init;
