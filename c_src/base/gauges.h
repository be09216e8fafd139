/*
 * gauges.h - named numbers of one moment, and the box in which they are
 * handed to another thread.
 */
#ifndef FP_BASE_GAUGES_H
#define FP_BASE_GAUGES_H

#include <stdatomic.h>
#include <stdint.h>

#define FP_FIGURES_MAX 64u
#define FP_FIGURE_NAME_ROOM 40u

struct fp_figure {
    char name[FP_FIGURE_NAME_ROOM]; /* [a-z_]+ */
    int64_t value;
};

struct fp_figures {
    uint32_t n;
    struct fp_figure figure[FP_FIGURES_MAX];
};

/* 0, or FP_EFULL, or FP_EINVAL for a name that is none. */
int fp_figures_add(struct fp_figures *figures, const char *name, int64_t value);
/* The figure of that name, NULL: there is none. */
const struct fp_figure *fp_figures_find(const struct fp_figures *figures,
                                        const char *name);

/* Holds the latest offer until it is taken. All 0: empty. */
struct fp_figures_box {
    /* Whoever swaps a pointer out owns it (acq_rel on both sides). */
    struct fp_figures *_Atomic offered;
};

/* ANY THREAD, never blocks. `figures` is malloc'd, and the box's from now on;
 * an offer that nobody took is freed. NULL empties the box. */
void fp_figures_offer(struct fp_figures_box *box, struct fp_figures *figures);
/* ANY THREAD: the caller's to free; NULL: nothing new. */
struct fp_figures *fp_figures_take(struct fp_figures_box *box);

#endif
