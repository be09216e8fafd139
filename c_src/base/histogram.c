/* histogram.c - see histogram.h. */
#include "base/histogram.h"

#include "base/error.h"

#define PER_OCTAVE ((size_t)1 << FP_HISTOGRAM_BITS)

/* The first two octaves of buckets are one nanosecond wide. */
static unsigned shift_of(size_t bucket)
{
    return bucket < 2 * PER_OCTAVE ? 0 : (unsigned)(bucket >> FP_HISTOGRAM_BITS) - 1;
}

uint64_t fp_histogram_low_ns(size_t bucket)
{
    unsigned shift = shift_of(bucket);

    return (uint64_t)(bucket - ((size_t)shift << FP_HISTOGRAM_BITS)) << shift;
}

uint64_t fp_histogram_end_ns(size_t bucket)
{
    return fp_histogram_low_ns(bucket) + (UINT64_C(1) << shift_of(bucket));
}

static uint64_t now(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static void keep_longest(struct fp_histogram_copy *copy, uint64_t max_ns)
{
    if (max_ns > copy->max_ns)
        copy->max_ns = max_ns;
}

void fp_histogram_read(struct fp_histogram_copy *into, const struct fp_histogram *histogram)
{
    uint64_t over = now(&histogram->over);

    into->over += over;
    into->count += over;
    for (size_t i = 0; i < FP_HISTOGRAM_BUCKETS; i++) {
        uint64_t count = now(&histogram->bucket[i]);

        into->bucket[i] += count;
        into->count += count;
    }
    into->sum_ns = fp_histogram_plus(into->sum_ns, now(&histogram->sum_ns));
    keep_longest(into, now(&histogram->max_ns));
}

static int is_later(const struct fp_histogram_copy *copy, const struct fp_histogram_copy *before)
{
    if (copy->over < before->over || copy->sum_ns < before->sum_ns)
        return 0;
    for (size_t i = 0; i < FP_HISTOGRAM_BUCKETS; i++)
        if (copy->bucket[i] < before->bucket[i])
            return 0;
    return 1;
}

/* Of durations that are in the buckets of `interval`, none longer than `limit_ns`. */
static uint64_t longest_in(const struct fp_histogram_copy *interval, uint64_t limit_ns)
{
    if (interval->over > 0)
        return limit_ns;
    for (size_t i = FP_HISTOGRAM_BUCKETS; i-- > 0;)
        if (interval->bucket[i] > 0) {
            uint64_t last_ns = fp_histogram_end_ns(i) - 1;
            return last_ns < limit_ns ? last_ns : limit_ns;
        }
    return 0;
}

int fp_histogram_since(struct fp_histogram_copy *interval, const struct fp_histogram_copy *copy,
                       const struct fp_histogram_copy *before)
{
    uint64_t max_ns = copy->max_ns;
    int is_new_longest = copy->max_ns > before->max_ns;

    if (!is_later(copy, before))
        return FP_EINVAL;
    for (size_t i = 0; i < FP_HISTOGRAM_BUCKETS; i++)
        interval->bucket[i] = copy->bucket[i] - before->bucket[i];
    interval->count = copy->count - before->count;
    interval->over = copy->over - before->over;
    interval->sum_ns = copy->sum_ns - before->sum_ns;
    interval->max_ns = is_new_longest ? max_ns : longest_in(interval, max_ns);
    return 0;
}
