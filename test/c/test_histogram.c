/* test_histogram.c - each duration is in a bucket around it, and what a histogram says of many is
 * what the sorted list of them says, within a hundredth. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/histogram.h"
#include "test.h"

/* The least whole number that is not below q * count, from 1 to count. */
static uint64_t rank_of(uint64_t count, double q)
{
    double exact = q * (double)count;
    uint64_t rank;

    if (exact >= (double)count)
        return count;
    rank = exact > 0 ? (uint64_t)exact : 0;
    if ((double)rank < exact)
        rank++;
    return rank == 0 ? 1 : rank;
}

/* The duration of rank ceil(q * count), 0 <= q <= 1: the middle of its bucket, but not above the
 * longest; the longest itself for a rank in `over`, and for the last rank. 0 without durations. */
static uint64_t quantile(const struct fp_histogram_copy *copy, double q)
{
    uint64_t rank, seen = 0;

    if (copy->count == 0)
        return 0;
    rank = rank_of(copy->count, q);
    if (rank == copy->count)
        return copy->max_ns;
    for (size_t i = 0; i < FP_HISTOGRAM_BUCKETS; i++) {
        seen += copy->bucket[i];
        if (seen >= rank) {
            uint64_t low = fp_histogram_low_ns(i);
            uint64_t middle = low + (fp_histogram_end_ns(i) - low) / 2;
            return middle < copy->max_ns ? middle : copy->max_ns;
        }
    }
    return copy->max_ns;
}

#define MOST 200000u
#define MINUTE_NS UINT64_C(60000000000)

static struct fp_histogram histogram;
static struct fp_histogram_copy copy;
static uint64_t list[2 * MOST];

static void clear(void)
{
    memset(&histogram, 0, sizeof histogram);
    memset(&copy, 0, sizeof copy);
}

#define HISTOGRAM_TEST(test) TEST_BETWEEN(test, clear(), (void)0)

/* As many durations of each order of magnitude, from 1 ns to about 18 minutes. */
static uint64_t any_duration(uint64_t *random)
{
    uint64_t magnitude = UINT64_C(2) << run_below(random, FP_HISTOGRAM_OCTAVES);

    return magnitude / 2 + run_random(random) % (magnitude / 2);
}

static int by_length(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void in_bucket(uint64_t ns)
{
    size_t bucket = fp_histogram_bucket(ns);

    CHECK(bucket < FP_HISTOGRAM_BUCKETS);
    CHECK(fp_histogram_low_ns(bucket) <= ns);
    CHECK(ns < fp_histogram_end_ns(bucket));
}

TEST(buckets_cover_each_duration_once)
{
    CHECK_INT(fp_histogram_low_ns(0), 0);
    for (size_t i = 1; i < FP_HISTOGRAM_BUCKETS; i++)
        CHECK_INT(fp_histogram_low_ns(i), fp_histogram_end_ns(i - 1));
    CHECK_INT(fp_histogram_end_ns(FP_HISTOGRAM_BUCKETS - 1), INT64_C(1099511627776));
    CHECK(fp_histogram_end_ns(FP_HISTOGRAM_BUCKETS - 1) > 18 * MINUTE_NS);
}

TEST(a_duration_is_in_its_bucket)
{
    uint64_t random = 1;

    for (uint64_t ns = 0; ns < 100000; ns++)
        in_bucket(ns);
    for (unsigned octave = 1; octave < FP_HISTOGRAM_OCTAVES; octave++) {
        in_bucket((UINT64_C(1) << octave) - 1);
        in_bucket(UINT64_C(1) << octave);
    }
    in_bucket(FP_HISTOGRAM_END_NS - 1);
    for (unsigned i = 0; i < MOST; i++)
        in_bucket(any_duration(&random) % FP_HISTOGRAM_END_NS);
}

HISTOGRAM_TEST(nothing_is_zero)
{
    fp_histogram_read(&copy, &histogram);
    CHECK_INT(copy.count, 0);
    CHECK_INT(quantile(&copy, 0.5), 0);
    CHECK_INT(quantile(&copy, 1), 0);
}

/* The durations of the list that are at or below this quantile: at least so many. */
static uint64_t true_quantile(size_t n, double q)
{
    for (size_t i = 0; i < n; i++)
        if ((double)(i + 1) >= q * (double)n)
            return list[i];
    return list[n - 1];
}

static void check_quantiles(size_t n)
{
    static const double quantiles[] = {0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1};

    qsort(list, n, sizeof list[0], by_length);
    for (size_t i = 0; i < sizeof quantiles / sizeof quantiles[0]; i++) {
        uint64_t got = quantile(&copy, quantiles[i]);
        uint64_t expected = true_quantile(n, quantiles[i]);
        uint64_t off = got > expected ? got - expected : expected - got;

        if (off * 100 > expected)
            RUN_FAIL("quantile %g of %zu is %" PRIu64 ", expected %" PRIu64, quantiles[i], n, got,
                     expected);
    }
    CHECK_INT(quantile(&copy, 1), list[n - 1]);
    CHECK_INT(copy.max_ns, list[n - 1]);
}

TEST(quantiles_are_those_of_the_sorted_list)
{
    static const size_t sizes[] = {1, 2, 3, 10, 99, 1000, 54321, MOST};
    uint64_t random = 7;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t sum = 0;

        clear();
        for (size_t j = 0; j < sizes[i]; j++) {
            list[j] = any_duration(&random);
            sum += list[j];
            fp_histogram_add(&histogram, list[j]);
        }
        fp_histogram_read(&copy, &histogram);
        CHECK_INT(copy.count, sizes[i]);
        CHECK_INT(copy.over, 0);
        CHECK(copy.sum_ns == sum);
        check_quantiles(sizes[i]);
    }
}

HISTOGRAM_TEST(durations_of_up_to_127_ns_are_exact)
{
    for (uint64_t ns = 1; ns <= 100; ns++)
        fp_histogram_add(&histogram, ns);
    fp_histogram_read(&copy, &histogram);
    CHECK_INT(quantile(&copy, 0.5), 50);
    CHECK_INT(quantile(&copy, 0.99), 99);
    CHECK_INT(quantile(&copy, 0), 1);
    CHECK_INT(quantile(&copy, 1), 100);
}

HISTOGRAM_TEST(what_is_too_long_is_counted_apart)
{
    fp_histogram_add(&histogram, 1000);
    fp_histogram_add(&histogram, FP_HISTOGRAM_END_NS - 1);
    fp_histogram_add(&histogram, FP_HISTOGRAM_END_NS);
    fp_histogram_add(&histogram, 30 * MINUTE_NS);
    fp_histogram_read(&copy, &histogram);
    CHECK_INT(copy.count, 4);
    CHECK_INT(copy.over, 2);
    CHECK_INT(copy.max_ns, 30 * MINUTE_NS);
    CHECK_INT(quantile(&copy, 0.75), 30 * MINUTE_NS);
    CHECK(quantile(&copy, 0.5) < FP_HISTOGRAM_END_NS);
}

HISTOGRAM_TEST(a_sum_stays_at_its_end)
{
    fp_histogram_add(&histogram, UINT64_MAX - 5);
    fp_histogram_add(&histogram, 10);
    fp_histogram_read(&copy, &histogram);
    CHECK(copy.sum_ns == UINT64_MAX);
    fp_histogram_read(&copy, &histogram);
    CHECK(copy.sum_ns == UINT64_MAX);
    CHECK_INT(copy.count, 4);
    CHECK(copy.max_ns == UINT64_MAX - 5);
}

HISTOGRAM_TEST(merged_histograms_say_what_one_of_all_says)
{
    static struct fp_histogram other;
    uint64_t random = 11;

    memset(&other, 0, sizeof other);
    for (size_t i = 0; i < MOST; i++) {
        list[i] = any_duration(&random);
        fp_histogram_add(run_below(&random, 3) == 0 ? &other : &histogram, list[i]);
    }
    fp_histogram_read(&copy, &histogram);
    CHECK(copy.count < MOST);
    fp_histogram_read(&copy, &other);
    CHECK_INT(copy.count, MOST);
    check_quantiles(MOST);
}

HISTOGRAM_TEST(an_interval_is_what_came_between)
{
    static struct fp_histogram_copy before, interval;
    uint64_t random = 13;

    memset(&before, 0, sizeof before);
    for (size_t i = 0; i < MOST; i++)
        fp_histogram_add(&histogram, any_duration(&random));
    fp_histogram_read(&before, &histogram);
    for (size_t i = 0; i < 1000; i++) {
        list[i] = 1 + run_random(&random) % 1000000;
        fp_histogram_add(&histogram, list[i]);
    }
    fp_histogram_read(&copy, &histogram);
    CHECK_INT(fp_histogram_since(&interval, &copy, &before), 0);
    CHECK_INT(interval.count, 1000);
    qsort(list, 1000, sizeof list[0], by_length);
    /* Not the longest of all: the end of its bucket. */
    CHECK(interval.max_ns >= list[999]);
    CHECK(interval.max_ns - list[999] <= list[999] / 60);
    CHECK(quantile(&interval, 0.5) * 100 <= list[499] * 101);
    CHECK(quantile(&interval, 0.5) * 100 >= list[499] * 99);
    /* The longest of all is exact. */
    fp_histogram_add(&histogram, FP_HISTOGRAM_END_NS - 1);
    memset(&copy, 0, sizeof copy);
    fp_histogram_read(&copy, &histogram);
    CHECK_INT(fp_histogram_since(&copy, &copy, &before), 0);
    CHECK_INT(copy.count, 1001);
    CHECK_INT(copy.max_ns, FP_HISTOGRAM_END_NS - 1);
}

HISTOGRAM_TEST(an_empty_interval_has_no_longest)
{
    static struct fp_histogram_copy interval;

    fp_histogram_add(&histogram, 5000);
    fp_histogram_add(&histogram, 2 * FP_HISTOGRAM_END_NS);
    fp_histogram_read(&copy, &histogram);
    CHECK_INT(fp_histogram_since(&interval, &copy, &copy), 0);
    CHECK_INT(interval.count, 0);
    CHECK_INT(interval.sum_ns, 0);
    CHECK_INT(interval.max_ns, 0);
}

HISTOGRAM_TEST(an_interval_backwards_is_refused)
{
    static struct fp_histogram_copy before, interval;

    fp_histogram_add(&histogram, 5000);
    fp_histogram_read(&before, &histogram);
    memset(&histogram, 0, sizeof histogram);
    fp_histogram_add(&histogram, 5000000);
    fp_histogram_add(&histogram, 5000000);
    fp_histogram_read(&copy, &histogram);
    interval.count = 17;
    CHECK_INT(fp_histogram_since(&interval, &copy, &before), FP_EINVAL);
    CHECK_INT(interval.count, 17);
}

static void *write_durations(void *unused)
{
    uint64_t random = 17;

    (void)unused;
    for (size_t i = 0; i < MOST; i++)
        fp_histogram_add(&histogram, 1 + run_below(&random, 4000));
    return NULL;
}

/* Copies of a histogram that is written never lose what an earlier copy had. */
HISTOGRAM_TEST(a_reader_beside_the_writer_sees_it_grow)
{
    static struct fp_histogram_copy before, interval;
    uint64_t counted = 0;
    pthread_t thread;

    memset(&before, 0, sizeof before);
    CHECK_INT(pthread_create(&thread, NULL, write_durations, NULL), 0);
    while (before.count < MOST) {
        memset(&copy, 0, sizeof copy);
        fp_histogram_read(&copy, &histogram);
        CHECK_INT(fp_histogram_since(&interval, &copy, &before), 0);
        counted += interval.count;
        CHECK_INT(counted, copy.count);
        CHECK(copy.max_ns <= 4000);
        before = copy;
    }
    pthread_join(thread, NULL);
    CHECK_INT(counted, MOST);
}
