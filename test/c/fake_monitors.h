/* fake_monitors.h - monitors in fake memory, as erl_monitor_link.h lays them out. */
#pragma once

#include "fake_terms.h"

struct fake_monitor {
    struct fp_ref ref;
    unsigned type;
    uint64_t item; /* term of whom it monitors */
    uint64_t name; /* 0: none */
    int is_target; /* the half of another node's monitor */
    int has_alias; /* the reference is that of an alias of this pid */
};

/* Data of one monitor; the address of its half in the tree. */
uint64_t fake_monitor(struct fake_terms *heap, unsigned otp, const struct fake_monitor *monitor);
/* One tree of these halves, balanced, in the VM's order. The root's address. */
uint64_t fake_monitor_tree(struct fake_memory *memory, uint64_t *half, const struct fp_ref *ref,
                           uint32_t n);
