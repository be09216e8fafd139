/*
 * gauges.h - named numbers of one moment, and the box in which they are
 * handed to another thread.
 */
#ifndef FP_BASE_GAUGES_H
#define FP_BASE_GAUGES_H

#include <stdatomic.h>
#include <stdint.h>

#define FP_GAUGES_MAX 64u
#define FP_GAUGES_NAME_ROOM 40u

struct fp_figure {
    char name[FP_GAUGES_NAME_ROOM]; /* [a-z_]+ */
    int64_t value;
};

struct fp_gauges {
    uint32_t n;
    struct fp_figure figure[FP_GAUGES_MAX];
};

/* 0, or FP_EFULL, or FP_EINVAL for a name that is none. */
int fp_gauges_add(struct fp_gauges *figures, const char *name, int64_t value);
/* The figure of that name, NULL: there is none. */
const struct fp_figure *fp_gauges_find(const struct fp_gauges *figures,
                                       const char *name);

/* Holds the latest offer until it is taken. All 0: empty. */
struct fp_gauges_mailbox {
    /* Whoever swaps a pointer out owns it (acq_rel on both sides). */
    struct fp_gauges *_Atomic offered;
};

/* ANY THREAD, never blocks. `figures` is malloc'd, and the box's from now on;
 * an offer that nobody took is freed. NULL empties the box. */
void fp_gauges_mailbox_put(struct fp_gauges_mailbox *box,
                           struct fp_gauges *figures);
/* ANY THREAD: the caller's to free; NULL: nothing new. */
struct fp_gauges *fp_gauges_mailbox_take(struct fp_gauges_mailbox *box);

#endif
