/* test_ring.c - what the sampler and the writer rely on: order, wholeness, refusal when full. The
 * two-thread tests are meant for TSan, too. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/ring.h"
#include "broken.h"
#include "test.h"

#define KIB64 (64u << 10)

static struct fp_ring *create(size_t bytes)
{
    struct fp_ring *ring;

    CHECK_INT(fp_ring_create(&ring, bytes), 0);
    return ring;
}

#define RING_TEST(test) TEST_ON(test, struct fp_ring *, ring, create(KIB64), fp_ring_destroy)

/* A record of `size` bytes, each word of which tells `seed` and its place. */
static int push(struct fp_ring *ring, size_t size, uint64_t seed)
{
    uint64_t *record = fp_ring_reserve(ring, size);

    if (record == NULL)
        return 0;
    for (size_t i = 0; i < size / 8; i++)
        record[i] = seed * 1000003 + i;
    fp_ring_commit(ring);
    return 1;
}

static int pop(struct fp_ring *ring, size_t expected_size, uint64_t seed)
{
    size_t size;
    const uint64_t *record = fp_ring_peek(ring, &size);

    if (record == NULL)
        return 0;
    CHECK_INT(size, expected_size);
    for (size_t i = 0; i < size / 8; i++)
        CHECK(record[i] == seed * 1000003 + i);
    fp_ring_release(ring);
    return 1;
}

RING_TEST(a_record_comes_out_as_it_went_in)
{
    CHECK(push(ring, 8, 1));
    CHECK(push(ring, 2016, 2));
    CHECK(pop(ring, 8, 1));
    CHECK(pop(ring, 2016, 2));
    CHECK(!pop(ring, 0, 0));
}

RING_TEST(nothing_is_visible_before_commit)
{
    size_t size;

    CHECK(fp_ring_reserve(ring, 64) != NULL);
    CHECK(fp_ring_peek(ring, &size) == NULL);
    CHECK_INT(fp_ring_used(ring), 0);
    fp_ring_commit(ring);
    CHECK(fp_ring_peek(ring, &size) != NULL);
    CHECK_INT(size, 64);
}

RING_TEST(reserving_again_discards_the_earlier_reservation)
{
    CHECK(fp_ring_reserve(ring, 1024) != NULL);
    CHECK(push(ring, 16, 7));
    CHECK(pop(ring, 16, 7));
    CHECK(!pop(ring, 0, 0));
}

RING_TEST(committing_a_refused_reservation_publishes_nothing)
{
    size_t size;

    CHECK(fp_ring_reserve(ring, KIB64) == NULL);
    fp_ring_commit(ring);
    CHECK(fp_ring_peek(ring, &size) == NULL);
}

RING_TEST(peeking_twice_shows_the_same_record)
{
    size_t size;

    CHECK(push(ring, 8, 1));
    CHECK(push(ring, 16, 2));
    CHECK(fp_ring_peek(ring, &size) == fp_ring_peek(ring, &size));
    CHECK(pop(ring, 8, 1));
    CHECK(pop(ring, 16, 2));
}

RING_TEST(a_full_ring_refuses_and_keeps_what_it_has)
{
    uint64_t pushed = 0;

    while (push(ring, 280, pushed))
        pushed++;
    CHECK(pushed >= KIB64 / 288 - 1);
    CHECK(!push(ring, 280, 99999));
    for (uint64_t i = 0; i < pushed; i++)
        CHECK(pop(ring, 280, i));
    CHECK(!pop(ring, 0, 0));
    CHECK(push(ring, 280, 5));
    CHECK(pop(ring, 280, 5));
}

RING_TEST(all_of_the_capacity_can_be_used)
{
    for (unsigned i = 0; i < KIB64 / 64; i++)
        CHECK(push(ring, 64 - 8, i));
    CHECK_INT(fp_ring_used(ring), KIB64);
    CHECK(!push(ring, 8, 0));
    CHECK(pop(ring, 56, 0));
    CHECK(push(ring, 56, 1));
}

RING_TEST(a_record_never_wraps)
{
    uint64_t random = 1;
    size_t pads = 0;
    const char *before = NULL;
    /* The first record lies behind the ring's own word. */
    const char *end = (char *)fp_ring_reserve(ring, 8) - 8 + KIB64;

    for (uint64_t i = 0; i < 20000; i++) {
        size_t size = 8 + 8 * run_below(&random, 1000);
        char *at = fp_ring_reserve(ring, size);

        CHECK(at != NULL);
        CHECK(at + size <= end);
        pads += at < before;
        before = at;
        fp_ring_commit(ring);
        CHECK(push(ring, 24, i));
        CHECK(fp_ring_peek(ring, &size) == at);
        fp_ring_release(ring);
        CHECK(pop(ring, 24, i));
    }
    CHECK(pads > 100);
}

RING_TEST(a_record_beyond_half_the_capacity_is_refused)
{
    CHECK(fp_ring_reserve(ring, KIB64 / 2) == NULL);
    CHECK(fp_ring_reserve(ring, SIZE_MAX - 7) == NULL);
    /* Half of it fits wherever the head stands. */
    for (uint64_t i = 0; i < 1000; i++) {
        CHECK(push(ring, KIB64 / 2 - 8, i));
        CHECK(pop(ring, KIB64 / 2 - 8, i));
        CHECK(push(ring, 8 * (i % 50 + 1), i));
        CHECK(pop(ring, 8 * (i % 50 + 1), i));
    }
}

TEST(the_capacity_is_a_power_of_two_of_at_least_64_kib)
{
    struct fp_ring *ring = create(0);

    CHECK_INT(fp_ring_capacity(ring), KIB64);
    fp_ring_destroy(ring);
    ring = create(KIB64 + 1);
    CHECK_INT(fp_ring_capacity(ring), 2 * KIB64);
    fp_ring_destroy(ring);
    CHECK_INT(fp_ring_create(&ring, SIZE_MAX), FP_EINVAL);
    fp_ring_destroy(NULL);
}

/* Two threads: a producer of random sizes, a consumer that knows them. */

#define RECORDS 300000u

static size_t nth_size(uint64_t *random)
{
    uint32_t kind = run_below(random, 16);

    if (kind == 0)
        return 8 + 8 * run_below(random, 500);
    return kind < 8 ? 24 : 280;
}

static void *produce(void *arg)
{
    struct fp_ring *ring = arg;
    uint64_t random = 42;

    for (uint64_t i = 0; i < RECORDS; i++) {
        size_t size = nth_size(&random);

        while (!push(ring, size, i))
            sched_yield();
    }
    return NULL;
}

static atomic_int done;

static void *watch(void *arg)
{
    struct fp_ring *ring = arg;

    while (!atomic_load(&done))
        CHECK(fp_ring_used(ring) <= fp_ring_capacity(ring));
    return NULL;
}

RING_TEST(two_threads_pass_every_record_whole_and_in_order)
{
    pthread_t producer, watcher;
    uint64_t random = 42;

    atomic_store(&done, 0);
    CHECK_INT(pthread_create(&producer, NULL, produce, ring), 0);
    CHECK_INT(pthread_create(&watcher, NULL, watch, ring), 0);
    for (uint64_t i = 0; i < RECORDS; i++) {
        size_t size = nth_size(&random);

        while (!pop(ring, size, i))
            sched_yield();
    }
    atomic_store(&done, 1);
    pthread_join(producer, NULL);
    pthread_join(watcher, NULL);
    CHECK(!pop(ring, 0, 0));
    CHECK_INT(fp_ring_used(ring), 0);
}

/* A sampler never waits: what does not fit is dropped, the rest is in order. */
static atomic_uint accepted;

static void *produce_and_drop(void *arg)
{
    struct fp_ring *ring = arg;
    unsigned ok = 0;

    for (uint64_t i = 0; i < RECORDS; i++) {
        uint64_t *record = fp_ring_reserve(ring, 24);

        if (record == NULL)
            continue;
        record[0] = record[1] = record[2] = i;
        fp_ring_commit(ring);
        ok++;
    }
    atomic_store(&accepted, ok);
    atomic_store(&done, 1);
    return NULL;
}

RING_TEST(a_producer_that_drops_leaves_the_rest_in_order)
{
    unsigned seen = 0;
    uint64_t next = 0;
    pthread_t producer;
    int last_round;

    atomic_store(&done, 0);
    CHECK_INT(pthread_create(&producer, NULL, produce_and_drop, ring), 0);
    do {
        const uint64_t *record;
        size_t size;

        last_round = atomic_load(&done);
        while ((record = fp_ring_peek(ring, &size)) != NULL) {
            CHECK_INT(size, 24);
            CHECK(record[0] >= next);
            CHECK(record[1] == record[0] && record[2] == record[0]);
            next = record[0] + 1;
            seen++;
            fp_ring_release(ring);
        }
    } while (!last_round);
    pthread_join(producer, NULL);
    CHECK_INT(seen, atomic_load(&accepted));
}

/* ---- broken ----------------------------------------------------------- */

RING_TEST(a_size_that_is_no_whole_word_is_refused)
{
    CHECK_BROKEN("base/ring.c", CHECK(fp_ring_reserve(ring, 7) == NULL));
    CHECK(push(ring, 8, 1));
    CHECK(pop(ring, 8, 1));
}

/* By what writes to the word before it. */
RING_TEST(a_record_whose_size_was_written_over_is_not_read)
{
    static const uint32_t wrong[] = {0, 4, 17, 32, KIB64, UINT32_MAX - 7};
    size_t size;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint32_t *span, was;

        CHECK(push(ring, 16, i));
        span = (uint32_t *)(uintptr_t)fp_ring_peek(ring, &size) - 2;
        was = *span;
        *span = wrong[i];
        CHECK_BROKEN("base/ring.c", CHECK(fp_ring_peek(ring, &size) == NULL));
        *span = was;
        CHECK(pop(ring, 16, i));
    }
}
