/* histogram.h - how many durations there were of each length, in fixed memory.
 *
 * Buckets are linear up to 128 ns, one for each nanosecond; above, each octave [2^n, 2^(n+1)) has
 * 64 of one width. A bucket is at most 1/64 as wide as its lowest value is long, so its middle is
 * within 0.8 % of each duration in it. 2240 buckets reach to 2^40 ns (18.3 minutes), in 18 KB;
 * longer durations are counted in `over`, and the longest one is kept exactly.
 *
 *   one writing thread: fp_histogram_add, _all  any thread: fp_histogram_read -> a copy
 *   copies (of one thread each): merge, since, quantile
 *
 * No function locks, allocates or calls the system. Order is relaxed: a copy that was made during
 * an addition has each number whole, but may lack the addition in one number and have it in
 * another. `count` of a copy is always the sum of its buckets and `over`. All zero is empty. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define FP_HISTOGRAM_BITS 6 /* 2^6 buckets an octave */
#define FP_HISTOGRAM_OCTAVES 40
#define FP_HISTOGRAM_BUCKETS                                                                       \
    ((size_t)(FP_HISTOGRAM_OCTAVES - FP_HISTOGRAM_BITS + 1) << FP_HISTOGRAM_BITS)
/* From here on a duration is in `over`. */
#define FP_HISTOGRAM_END_NS (UINT64_C(1) << FP_HISTOGRAM_OCTAVES)

/* Written by one thread at a time. */
struct fp_histogram {
    _Atomic uint64_t sum_ns; /* stays at UINT64_MAX once it is reached */
    _Atomic uint64_t max_ns;
    _Atomic uint64_t over;
    _Atomic uint64_t bucket[FP_HISTOGRAM_BUCKETS];
};

/* A copy, or several that were merged. Belongs to one thread. */
struct fp_histogram_copy {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t over;
    uint64_t bucket[FP_HISTOGRAM_BUCKETS];
};

/* The bucket of a duration below FP_HISTOGRAM_END_NS. */
static inline size_t fp_histogram_bucket(uint64_t ns)
{
    unsigned octave = 63u - (unsigned)__builtin_clzll(ns | UINT64_C(1) << FP_HISTOGRAM_BITS);
    unsigned shift = octave - FP_HISTOGRAM_BITS;

    return ((size_t)shift << FP_HISTOGRAM_BITS) + (size_t)(ns >> shift);
}

/* The bucket's durations are low <= ns < end. */
uint64_t fp_histogram_low_ns(size_t bucket);
uint64_t fp_histogram_end_ns(size_t bucket);

static inline uint64_t fp_histogram_plus(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* WRITER. `n` durations of one length, which stand for as many that were not measured. */
static inline void fp_histogram_add_all(struct fp_histogram *histogram, uint64_t ns, uint32_t n)
{
    _Atomic uint64_t *counter =
        ns < FP_HISTOGRAM_END_NS ? &histogram->bucket[fp_histogram_bucket(ns)] : &histogram->over;
    uint64_t count = atomic_load_explicit(counter, memory_order_relaxed);
    uint64_t sum = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed), more;

    if (__builtin_mul_overflow(ns, (uint64_t)n, &more))
        more = UINT64_MAX;
    atomic_store_explicit(counter, count + n, memory_order_relaxed);
    atomic_store_explicit(&histogram->sum_ns, fp_histogram_plus(sum, more), memory_order_relaxed);
    if (ns > atomic_load_explicit(&histogram->max_ns, memory_order_relaxed))
        atomic_store_explicit(&histogram->max_ns, ns, memory_order_relaxed);
}

static inline void fp_histogram_add(struct fp_histogram *histogram, uint64_t ns)
{
    fp_histogram_add_all(histogram, ns, 1);
}

/* ANY THREAD. Adds what the histogram has now to `into`, so that the histograms of several writers
 * become one copy. `into` starts as all zero. */
void fp_histogram_read(struct fp_histogram_copy *into, const struct fp_histogram *histogram);

/* *interval = what came to the same histograms between two copies; it may be one of them. The
 * longest of the interval is exact if it is the longest of all; otherwise it is the end of the
 * highest bucket in use, at most 1.6 % too long (with `over`: the longest of all). 0, or FP_EINVAL
 * if `before` has more somewhere: *interval is unchanged then. */
int fp_histogram_since(struct fp_histogram_copy *interval, const struct fp_histogram_copy *copy,
                       const struct fp_histogram_copy *before);
