/*
 * live.h - the set of libraries that is true now, handed from the thread that
 * makes it to those that read it.
 *
 * Sets are made by one thread (the writer) and never freed before the readers
 * have ended: a set that is replaced stays valid.
 */
#ifndef FP_CSTACK_LIVE_H
#define FP_CSTACK_LIVE_H

#include <stdatomic.h>
#include <stdint.h>

#include "cstack/cstack.h"

struct fp_live_cstack {
    _Atomic(struct fp_cstack *) set; /* release, acquire; NULL: there is none */
    _Atomic uint32_t stale; /* set by who met an address in no library */
};

#endif
