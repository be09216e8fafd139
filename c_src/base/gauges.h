/* gauges.h - named numbers of one moment, and a mailbox that hands them to another thread. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* A node with eleven allocators has 90. */
#define FP_GAUGES_MAX 128u
#define FP_GAUGES_NAME_ROOM 40u

struct fp_gauge {
    char name[FP_GAUGES_NAME_ROOM]; /* [a-z_]+ */
    int64_t value;
};

struct fp_gauges {
    uint32_t n;
    struct fp_gauge gauge[FP_GAUGES_MAX];
};

/* 0, FP_EFULL, or FP_EINVAL for a name of other characters. */
int fp_gauges_add(struct fp_gauges *gauges, const char *name, int64_t value);
/* The gauge of that name, or NULL. `place`: where it is looked for first. */
const struct fp_gauge *fp_gauges_find(const struct fp_gauges *gauges, const char *name,
                                      uint32_t place);

/* Keeps the latest gauges until they are taken. All 0: empty. */
struct fp_gauges_mailbox {
    /* The thread that swaps a pointer out owns it (acq_rel on both sides). */
    struct fp_gauges *_Atomic offered;
};

/* ANY THREAD, never blocks. `gauges` is malloc'd, and owned by the box from now on; gauges that
 * were not taken are freed. NULL empties the box. */
void fp_gauges_mailbox_put(struct fp_gauges_mailbox *box, struct fp_gauges *gauges);
/* ANY THREAD. The caller frees them; NULL: none since the last call. */
struct fp_gauges *fp_gauges_mailbox_take(struct fp_gauges_mailbox *box);
