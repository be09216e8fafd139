/* process_terms.h - what of a process structure says where its terms are, and whether it has moved.
 *
 * Two views that are alike: the process has not run between them, so no term of its heaps, stack,
 * registers and dictionary has changed. Only a process writes there, and running counts reductions;
 * a message that another process puts on its heap moves `htop`.
 *
 * Offsets that calibration does not find lie at fixed distances from those that it does
 * (erl_process.h of 25.2.3, 27.3.4.1, 29.1.1); flame_prof_xray looks at a process whose terms it
 * knows before it relies on them. Any thread; no allocation. */
#pragma once

#include "erts/layout.h"

/* X(name): words of the structure. */
#define FP_PROCESS_TERMS_MAP(X)                                                                    \
    X(i)                                                                                           \
    X(reds)                                                                                        \
    X(heap)                                                                                        \
    X(htop)                                                                                        \
    X(stop)                                                                                        \
    X(hend)                                                                                        \
    X(old_heap)                                                                                    \
    X(old_htop)                                                                                    \
    X(old_hend)                                                                                    \
    X(gen_gcs)                                                                                     \
    X(mbuf)      /* -> heap fragments */                                                           \
    X(msg_frag)  /* -> messages that it has taken, whose fragments are in use */                   \
    X(mbuf_size) /* words of both */                                                               \
    X(off_heap)  /* -> first of the objects with something outside of the heap */                  \
    X(writable)  /* -> first of the binaries that it appends to: not in that list */               \
    X(dictionary)                                                                                  \
    X(arity)   /* registers in use */                                                              \
    X(arg_reg) /* -> them */                                                                       \
    X(group_leader)                                                                                \
    X(ftrace)                                                                                      \
    X(fvalue)                                                                                      \
    X(token)                                                                                       \
    X(parent)

struct fp_process_terms {
#define FP_PROCESS_TERMS_FIELD(name) uint64_t name;
    FP_PROCESS_TERMS_MAP(FP_PROCESS_TERMS_FIELD)
#undef FP_PROCESS_TERMS_FIELD
};

/* 1: those distances and the queues' first words end in the structure, and a structure in
 * FP_PROBE_WINDOW. */
int fp_process_terms_fit(const struct fp_layout *layout);

/* Of the process whose structure is at `address`. 0; FP_EGONE: it has exited; FP_EFAULT;
 * FP_ELAYOUT: they do not fit; FP_ETORN: it runs, collects, or its numbers contradict each
 * other. */
int fp_process_terms_read(const struct fp_layout *layout, const struct fp_memory *memory,
                          uint64_t pid, uint64_t address, struct fp_process_terms *view);
