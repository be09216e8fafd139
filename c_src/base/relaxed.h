/* relaxed.h - counters and words that other threads read while their thread goes on: each is seen
 * whole, two of them in no order. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

static inline uint64_t fp_relaxed_get(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static inline void fp_relaxed_put(_Atomic uint64_t *at, uint64_t value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}

/* By the only thread that writes it: cheaper than an addition that is atomic. */
static inline void fp_relaxed_add(_Atomic uint64_t *at, uint64_t more)
{
    fp_relaxed_put(at, fp_relaxed_get(at) + more);
}

/* By any thread. */
static inline void fp_relaxed_add_shared(_Atomic uint64_t *at, uint64_t more)
{
    atomic_fetch_add_explicit(at, more, memory_order_relaxed);
}

static inline double fp_relaxed_real(const _Atomic double *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static inline void fp_relaxed_put_real(_Atomic double *at, double value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}
