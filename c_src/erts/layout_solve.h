/* layout_solve.h - finds the layout of the running VM (layout.h): by probe processes, of which
 * Erlang says in public what their structures hold. A dirty scheduler's work. */
#pragma once

#include "erts/data_scan.h"
#include "erts/layout.h"

#define FP_PROBES_MAX 16u

/* A public fact of Erlang about a probe, and its distance or field. */
#define FP_FACT_MAP(X)                                                                             \
    X(heap_size)           /* words, htop - heap */                                                \
    X(heap_block_size)     /* hend - heap */                                                       \
    X(stack_size)          /* hend - stop */                                                       \
    X(recent_size)         /* high_water - heap */                                                 \
    X(old_heap_size)       /* old_htop - old_heap */                                               \
    X(old_heap_block_size) /* old_hend - old_heap */                                               \
    X(mbuf_size)                                                                                   \
    X(bin_vheap_size)                                                                              \
    X(bin_vheap_block_size)                                                                        \
    X(bin_old_vheap_size)                                                                          \
    X(bin_old_vheap_block_size)                                                                    \
    X(minor_gcs)                                                                                   \
    X(reductions)                                                                                  \
    X(inner_len)      /* messages fetched, process_info's count */                                 \
    X(outer_len)      /* messages sent while suspended */                                          \
    X(dictionary_len) /* entries in the process dictionary */                                      \
    X(state)          /* flags that the probe is made to have */

enum fp_fact {
#define FP_FACT_ENUM(name) FP_FACT_##name,
    FP_FACT_MAP(FP_FACT_ENUM)
#undef FP_FACT_ENUM
        FP_FACT_COUNT
};

const char *fp_fact_name(int fact);
/* For tests. */
const char *fp_field_name(enum fp_field field);

struct fp_probe {
    uint64_t address;                /* of its process structure */
    uint64_t id, parent, registered; /* terms */
    uint64_t initial_call[3];        /* module, function: terms; arity */
    uint64_t current_function[3];
    uint32_t known;                  /* bit per fact that is known */
    uint32_t pid_number, pid_serial; /* as the pid is printed */
    int64_t fact[FP_FACT_COUNT];
    unsigned char window[FP_PROBE_WINDOW];
    uint32_t window_size; /* bytes of it that were readable */
};

struct fp_known_atom {
    uint64_t term;
    const char *text;
    uint32_t len;
};

struct fp_solve_input {
    unsigned otp;
    uint32_t process_limit, atom_limit;
    uint32_t port_limit;   /* 0: not known */
    uint32_t process_size; /* memory of a bare process less 8 x its words */
    struct fp_probe *probe;
    size_t probes;
    const struct fp_known_atom *atom;
    size_t atoms;
    struct fp_ranges code, data;
    int allow_unlisted; /* engine => native asked for an unlisted release */
};

/* Finds the layout, or the field that does not agree. Reads the probes' windows itself. Takes some
 * 10 ms: a dirty scheduler's work. 0, or the refusal's err. */
int fp_layout_solve(struct fp_layout *layout, const struct fp_memory *memory,
                    struct fp_solve_input *input, struct fp_refusal *refusal);
