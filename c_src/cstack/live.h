/* live.h - the current set of libraries, from the writer's thread, which makes and frees the sets,
 * to the sampler's, which walks stacks by them.
 *
 *      writer   replace: set = new     reclaim: is_read == 0? free the old one
 *      sampler  acquire: is_read = 1, then read set     release: is_read = 0
 *
 * Both threads write one word and then read the other, all in one order (seq_cst). So when the
 * writer finds is_read at 0 after it has replaced a set, no walk has the old one: a later walk
 * reads the new one. Two sets exist at most, for as long as one walk takes. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "cstack/cstack.h"

struct fp_live_cstack {
    _Atomic(struct fp_cstack *) set; /* NULL: there is none */
    _Atomic uint32_t is_read;
    _Atomic uint32_t stale;     /* a walk met an address in no library (relaxed) */
    _Atomic uint32_t left_out;  /* libraries of `set` that had no room (relaxed) */
    struct fp_cstack *replaced; /* the writer's; NULL: all are freed */
    size_t bytes_max;           /* of a set */
};

/* ---- the sampler's thread --------------------------------------------- */

/* Valid until fp_live_cstack_release(), which has to follow. May be NULL. */
static inline const struct fp_cstack *fp_live_cstack_acquire(struct fp_live_cstack *live)
{
    atomic_store(&live->is_read, 1);
    return atomic_load(&live->set);
}

static inline void fp_live_cstack_release(struct fp_live_cstack *live)
{
    atomic_store_explicit(&live->is_read, 0, memory_order_release);
}

/* ---- the writer's thread ---------------------------------------------- */

/* Free the set that was replaced, unless a walk has it. 1 when it is freed, or there was none. */
int fp_live_cstack_reclaim(struct fp_live_cstack *live);

/* Make a set and replace the current one. 0, FP_ENOMEM or FP_EIO; FP_ESTATE when the set before
 * that is still read. */
int fp_live_cstack_renew(struct fp_live_cstack *live);

/* Free the sets. No walk may be under way, or begin later. */
void fp_live_cstack_destroy(struct fp_live_cstack *live);
