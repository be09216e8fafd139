/* test_collections.c - lengths of collections, of all and by process. */
#include <pthread.h>
#include <stdatomic.h>

#include "broken.h"
#include "test.h"
#include "tracer/collections.h"

#define MINOR 0
#define MAJOR 1

#define COLLECTIONS_TEST(test, created)                                                            \
    TEST_ON(test, struct fp_collections *, collections, created, fp_collections_destroy)

COLLECTIONS_TEST(lengths_are_those_of_all_threads, fp_collections_create(3, 64))
{
    static struct fp_histogram_copy lengths;

    CHECK(collections != NULL);
    fp_collections_add(collections, 0, 1, 100, MINOR, 1000, 1);
    fp_collections_add(collections, 2, 2, 200, MINOR, 5000, 3);
    fp_collections_add(collections, 1, 1, 100, MAJOR, 70000, 1);
    fp_collections_lengths(collections, MINOR, &lengths);
    CHECK_INT(lengths.count, 4);
    CHECK_INT(lengths.sum_ns, 16000);
    CHECK_INT(lengths.max_ns, 5000);
    fp_collections_lengths(collections, MAJOR, &lengths);
    CHECK_INT(lengths.count, 1);
    CHECK_INT(lengths.sum_ns, 70000);
}

COLLECTIONS_TEST(processes_are_in_the_order_of_their_time, fp_collections_create(1, 1000))
{
    struct fp_collected top[10];

    CHECK_INT(fp_collections_top(collections, top, 10), 0);
    for (uint32_t slot = 0; slot < 900; slot++)
        for (uint32_t k = 0; k <= slot * 7 % 900; k++)
            fp_collections_add(collections, 0, slot, 1000 + slot, k % 2 == 0 ? MINOR : MAJOR,
                               100 + k, 1);
    CHECK_INT(fp_collections_top(collections, top, 10), 10);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t n = (uint32_t)(top[i].pid - 1000) * 7 % 900 + 1;

        CHECK_INT(n, 900 - i);
        CHECK_INT(top[i].minor, (n + 1) / 2);
        CHECK_INT(top[i].major, n / 2);
        CHECK_INT(top[i].ns, 100 * n + n * (n - 1) / 2);
        CHECK_INT(top[i].longest_ns, 100 + n - 1);
    }
    CHECK_INT(fp_collections_top(collections, top, 1), 1);
    CHECK_INT(fp_collections_top(collections, top, 0), 0);
}

COLLECTIONS_TEST(one_of_a_turn_stands_for_some, fp_collections_create(1, 64))
{
    struct fp_collected top[2];

    fp_collections_add(collections, 0, 3, 30, MINOR, 1000, 30);
    fp_collections_add(collections, 0, 3, 30, MINOR, 2000, 0);
    fp_collections_add(collections, 0, 4, 40, MINOR, 29000, 1);
    CHECK_INT(fp_collections_top(collections, top, 2), 2);
    CHECK_INT(top[0].pid, 30);
    CHECK_INT(top[0].minor, 30);
    CHECK_INT(top[0].ns, 30000);
    CHECK_INT(top[0].longest_ns, 2000);
    CHECK_INT(top[1].pid, 40);
}

COLLECTIONS_TEST(the_next_process_of_a_slot_begins_at_nothing, fp_collections_create(1, 64))
{
    struct fp_collected top[2];

    fp_collections_add(collections, 0, 5, 50, MAJOR, 9000, 1);
    fp_collections_add(collections, 0, 5, 51, MINOR, 10, 1);
    CHECK_INT(fp_collections_top(collections, top, 2), 1);
    CHECK_INT(top[0].pid, 51);
    CHECK_INT(top[0].minor, 1);
    CHECK_INT(top[0].major, 0);
    CHECK_INT(top[0].ns, 10);
    CHECK_INT(top[0].longest_ns, 10);
}

COLLECTIONS_TEST(of_a_large_table_some_slots_share_a_place,
                 fp_collections_create(1, UINT32_C(1) << 27))
{
    struct fp_collected top[3];

    fp_collections_add(collections, 0, 7, 70, MINOR, 10, 1);
    fp_collections_add(collections, 0, (UINT32_C(1) << 27) - 1, 80, MINOR, 20, 1);
    fp_collections_add(collections, 0, 7 + FP_COLLECTIONS_PLACES_MAX, 90, MINOR, 30, 1);
    CHECK_INT(fp_collections_top(collections, top, 3), 2);
    CHECK_INT(top[0].pid, 90);
    CHECK_INT(top[1].pid, 80);
}

/* ------------------------------------------------------- reader and writer -- */

static atomic_int is_over;

/* Of process N each one takes N nanoseconds. */
static void *collect(void *arg)
{
    for (uint64_t n = 1; !atomic_load(&is_over); n++)
        for (uint32_t k = 0; k < 5; k++)
            fp_collections_add(arg, 0, (uint32_t)(n % 16), n, k % 2 ? MAJOR : MINOR, n, 1);
    return NULL;
}

/* The numbers of a moment may not have the collection that the time has: but none is of another
 * process. */
COLLECTIONS_TEST(a_reader_never_mixes_processes, fp_collections_create(1, 16))
{
    struct fp_collected top[16];
    uint64_t seen = 0;
    pthread_t thread;

    atomic_store(&is_over, 0);
    CHECK_INT(pthread_create(&thread, NULL, collect, collections), 0);
    while (seen < 20000) {
        uint32_t n = fp_collections_top(collections, top, 16);

        for (uint32_t i = 0; i < n; i++) {
            uint64_t all = top[i].minor + top[i].major;

            CHECK(all <= 5);
            CHECK_INT(top[i].ns % top[i].pid, 0);
            CHECK(top[i].ns / top[i].pid <= 5);
            CHECK(top[i].longest_ns == top[i].pid || top[i].longest_ns == 0);
        }
        seen += n;
    }
    atomic_store(&is_over, 1);
    pthread_join(thread, NULL);
}

COLLECTIONS_TEST(a_thread_beyond_those_that_are_known_is_a_broken_invariant,
                 fp_collections_create(1, 64))
{
    CHECK_BROKEN("tracer/collections.c", fp_collections_add(collections, 1, 3, 7, 0, 1, 1));
}
