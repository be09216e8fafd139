/* test_events.c - what a readable trace admits: the rate, the burst, the number; what it counts;
 * and that threads and the reader do not disturb each other (for TSan, too). */
#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "broken.h"
#include "test.h"
#include "tracer/events.h"

#define SECOND INT64_C(1000000000)
#define START (1000 * SECOND)
#define KIB64 (64u << 10)

static struct fp_events *create(uint32_t rate, uint32_t burst, uint64_t most, uint32_t threads)
{
    struct fp_events_limits limits = {rate, burst, most, threads, KIB64};
    struct fp_events *events;

    CHECK_INT(fp_events_create(&events, &limits), 0);
    return events;
}

#define EVENTS_TEST(test, created)                                                                 \
    TEST_ON(test, struct fp_events *, events, created, fp_events_destroy)

static uint64_t admitted_at(struct fp_events *events, int64_t now, unsigned n)
{
    uint64_t admitted = 0;

    for (unsigned i = 0; i < n; i++)
        admitted += (uint64_t)fp_events_admit(events, 0, now, 0);
    return admitted;
}

EVENTS_TEST(a_burst_is_admitted_and_no_more, create(10, 7, 0, 1))
{
    CHECK_INT(admitted_at(events, START, 100), 7);
    CHECK(fp_events_would_drop(events, START));
}

EVENTS_TEST(tokens_come_back_at_the_rate, create(10, 5, 0, 1))
{
    CHECK_INT(admitted_at(events, START, 100), 5);
    CHECK_INT(admitted_at(events, START + SECOND / 10 - 1, 100), 0);
    CHECK_INT(admitted_at(events, START + SECOND / 10, 100), 1);
    CHECK_INT(admitted_at(events, START + SECOND / 2, 100), 4);
    /* A long pause gives the burst, not all that time. */
    CHECK_INT(admitted_at(events, START + 1000 * SECOND, 100), 5);
}

EVENTS_TEST(the_long_run_has_the_rate, create(250, 10, 0, 1))
{
    uint64_t admitted = 0;

    /* An event each 100 us for 8 s. */
    for (int i = 0; i < 80000; i++)
        admitted += (uint64_t)fp_events_admit(events, 0, START + i * (SECOND / 10000), 0);
    CHECK(admitted >= 8 * 250 && admitted <= 8 * 250 + 10);
}

EVENTS_TEST(an_owed_event_is_admitted_and_takes_its_token, create(10, 2, 0, 1))
{
    CHECK_INT(admitted_at(events, START, 5), 2);
    CHECK(fp_events_admit(events, 0, START, 1));
    CHECK(fp_events_admit(events, 0, START, 1));
    /* Two were owed: their tokens are missing now. */
    CHECK_INT(admitted_at(events, START + SECOND / 5, 5), 0);
    CHECK_INT(admitted_at(events, START + 3 * SECOND / 10, 5), 1);
}

EVENTS_TEST(the_number_is_a_limit, create(1000, 1000, 3, 1))
{
    CHECK(!fp_events_is_full(events));
    CHECK_INT(admitted_at(events, START, 10), 3);
    CHECK(fp_events_is_full(events));
    CHECK(!fp_events_admit(events, 0, START, 1));
    CHECK(fp_events_would_drop(events, START + SECOND));
}

static void write_one(struct fp_events *events, uint32_t thread, uint64_t word)
{
    uint64_t *room = fp_events_reserve(events, thread, 8);

    if (room != NULL) {
        *room = word;
        fp_events_commit(events, thread);
    }
}

EVENTS_TEST(a_full_ring_loses_and_the_counters_agree, create(1000000, 100000, 0, 1))
{
    struct fp_events_counters counters;
    size_t size;
    uint64_t read = 0;

    for (unsigned i = 0; i < 20000; i++)
        if (fp_events_admit(events, 0, START, 0))
            write_one(events, 0, i);
    fp_events_drop(events, 0, 4);
    for (const uint64_t *event; (event = fp_events_peek(events, INT64_MAX, &size)) != NULL;
         read++) {
        CHECK(*event == read);
        fp_events_release(events);
    }
    fp_events_count(events, &counters);
    CHECK(counters.lost > 0 && counters.written == read);
    CHECK_INT(counters.dropped, 4);
    CHECK_INT(counters.missed, 0);
    fp_events_miss(events, 0);
    fp_events_miss(events, UINT32_MAX);
    fp_events_count(events, &counters);
    CHECK_INT(counters.missed, 2);
    CHECK(counters.seen == 20004 && counters.written + counters.dropped + counters.lost == 20004);
}

EVENTS_TEST(a_thread_without_a_ring_loses, create(10, 10, 0, 2))
{
    struct fp_events_counters counters;

    CHECK(fp_events_admit(events, 2, START, 0));
    CHECK(fp_events_reserve(events, 2, 8) == NULL);
    CHECK(fp_events_admit(events, UINT32_MAX, START, 0));
    CHECK(fp_events_reserve(events, UINT32_MAX, 8) == NULL);
    fp_events_count(events, &counters);
    CHECK(counters.seen == 2 && counters.lost == 2 && counters.written == 0);
}

EVENTS_TEST(an_event_that_cannot_be_read_is_lost, create(1000, 100, 0, 1))
{
    struct fp_events_counters counters;
    size_t size;

    for (uint64_t i = 0; i < 3; i++) {
        CHECK_INT(admitted_at(events, START, 1), 1);
        write_one(events, 0, i);
    }
    CHECK(fp_events_peek(events, INT64_MAX, &size) != NULL);
    fp_events_release(events);
    CHECK(fp_events_peek(events, INT64_MAX, &size) != NULL);
    fp_events_release_lost(events);
    fp_events_count(events, &counters);
    CHECK_INT(counters.seen, 3);
    CHECK_INT(counters.written, 2);
    CHECK_INT(counters.lost, 1);
    CHECK(fp_events_peek(events, INT64_MAX, &size) != NULL);
}

EVENTS_TEST(the_oldest_event_is_read_first, create(10, 10, 0, 3))
{
    static const uint64_t expected[] = {1, 2, 3, 5, 8};
    const uint64_t *event;
    size_t size;

    write_one(events, 2, 1);
    write_one(events, 0, 2);
    write_one(events, 0, 5);
    write_one(events, 1, 3);
    write_one(events, 2, 8);
    CHECK(fp_events_peek(events, 1, &size) == NULL);
    for (unsigned i = 0; i < 4; i++) {
        event = fp_events_peek(events, 6, &size);
        CHECK(event != NULL && *event == expected[i] && size == 8);
        fp_events_release(events);
    }
    CHECK(fp_events_peek(events, 8, &size) == NULL);
    event = fp_events_peek(events, 9, &size);
    CHECK(event != NULL && *event == 8);
    fp_events_release(events);
    CHECK(fp_events_peek(events, INT64_MAX, &size) == NULL);
}

TEST(what_is_no_limit_is_refused)
{
    struct fp_events_limits limits = {1, 1, 0, 1, KIB64};
    struct fp_events *events;

    limits.rate = 0;
    CHECK_INT(fp_events_create(&events, &limits), FP_EINVAL);
    limits.rate = 1, limits.burst = 0;
    CHECK_INT(fp_events_create(&events, &limits), FP_EINVAL);
    limits.burst = 1, limits.threads = 0;
    CHECK_INT(fp_events_create(&events, &limits), FP_EINVAL);
}

/* ------------------------------------------------------------------- threads -- */

#define WRITERS 3u
#define EACH 200000u

static struct fp_events *shared;
static _Atomic uint64_t admitted_of_all;
static _Atomic unsigned ended;

static void *write_many(void *number)
{
    uint32_t thread = (uint32_t)(uintptr_t)number;

    for (uint64_t i = 0; i < EACH; i++)
        if (fp_events_admit(shared, thread, START + (int64_t)i * 1000, 0)) {
            atomic_fetch_add(&admitted_of_all, 1);
            write_one(shared, thread, (uint64_t)thread << 32 | i);
        }
    atomic_fetch_add(&ended, 1);
    return NULL;
}

TEST(writers_and_a_reader_at_once)
{
    struct fp_events_counters counters;
    pthread_t writers[WRITERS];
    uint64_t last[WRITERS] = {0}, read = 0;
    size_t size;

    shared = create(100000, 50, 0, WRITERS);
    for (uintptr_t i = 0; i < WRITERS; i++)
        CHECK_INT(pthread_create(&writers[i], NULL, write_many, (void *)i), 0);
    for (int is_over = 0; !is_over;) {
        const uint64_t *event;

        is_over = atomic_load(&ended) == WRITERS;
        for (; (event = fp_events_peek(shared, INT64_MAX, &size)) != NULL; read++) {
            uint32_t thread = (uint32_t)(*event >> 32);

            CHECK(thread < WRITERS && size == 8);
            CHECK((uint32_t)*event >= last[thread]);
            last[thread] = (uint32_t)*event;
            fp_events_release(shared);
        }
    }
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK_INT(pthread_join(writers[i], NULL), 0);
    fp_events_count(shared, &counters);
    CHECK(counters.seen == WRITERS * EACH);
    CHECK(counters.written == read);
    CHECK(counters.written + counters.lost == atomic_load(&admitted_of_all));
    CHECK(counters.written + counters.lost + counters.dropped == counters.seen);
    fp_events_destroy(shared);
}

EVENTS_TEST(a_commit_of_a_thread_without_a_ring_is_a_broken_invariant, create(10, 10, 0, 2))
{
    struct fp_events_counters counters;

    CHECK_BROKEN("tracer/events.c", fp_events_commit(events, 2));
    fp_events_count(events, &counters);
    CHECK_INT(counters.written, 0);
}
