/* test_triple_buffer.c - the latest list gets over, whole, and no side waits. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/triple_buffer.h"
#include "broken.h"
#include "test.h"

#define ROOM 64u
#define LISTS 200000u

static void publish(struct fp_triple_buffer *handover, uint64_t first, size_t n)
{
    uint64_t *word = fp_triple_buffer_begin(handover);

    for (size_t i = 0; i < n; i++)
        word[i] = first + i;
    fp_triple_buffer_publish(handover, n);
}

TEST(nothing_is_there_at_first)
{
    struct fp_triple_buffer *handover;
    size_t n = 7;
    int is_new = 7;

    CHECK_INT(fp_triple_buffer_create(&handover, ROOM), 0);
    CHECK(fp_triple_buffer_take(handover, &n, &is_new) != NULL);
    CHECK_INT(n, 0);
    CHECK_INT(is_new, 0);
    fp_triple_buffer_destroy(handover);
    fp_triple_buffer_destroy(NULL);
}

TEST(the_latest_is_taken_once_and_stays)
{
    struct fp_triple_buffer *handover;
    const uint64_t *word;
    size_t n;
    int is_new;

    CHECK_INT(fp_triple_buffer_create(&handover, ROOM), 0);
    for (uint64_t round = 1; round < 50; round++) {
        for (uint64_t i = 0; i < round % 5; i++)
            publish(handover, 1000 * i, ROOM);
        publish(handover, round, round % ROOM);
        word = fp_triple_buffer_take(handover, &n, &is_new);
        CHECK_INT(is_new, 1);
        CHECK_INT(n, round % ROOM);
        CHECK(n == 0 || word[n - 1] == round + n - 1);
        word = fp_triple_buffer_take(handover, &n, &is_new);
        CHECK_INT(is_new, 0);
        CHECK_INT(n, round % ROOM);
        CHECK(n == 0 || word[0] == round);
    }
    fp_triple_buffer_destroy(handover);
}

static void *produce(void *arg)
{
    for (uint64_t i = 1; i <= LISTS; i++)
        publish(arg, i, 1 + i % ROOM);
    return NULL;
}

/* Each list has one beginning, and its length goes with that. */
TEST(lists_are_never_mixed)
{
    struct fp_triple_buffer *handover;
    uint64_t last = 0;
    pthread_t thread;

    CHECK_INT(fp_triple_buffer_create(&handover, ROOM), 0);
    CHECK_INT(pthread_create(&thread, NULL, produce, handover), 0);
    while (last < LISTS) {
        size_t n;
        int is_new;
        const uint64_t *word = fp_triple_buffer_take(handover, &n, &is_new);

        if (!is_new)
            continue;
        CHECK(word[0] > last);
        last = word[0];
        CHECK_INT(n, 1 + last % ROOM);
        for (size_t i = 0; i < n; i++)
            CHECK(word[i] == last + i);
    }
    pthread_join(thread, NULL);
    fp_triple_buffer_destroy(handover);
}

TEST(a_list_that_is_longer_than_its_room_is_published_empty)
{
    struct fp_triple_buffer *handover;
    size_t n;
    int is_new;

    CHECK_INT(fp_triple_buffer_create(&handover, ROOM), 0);
    fp_triple_buffer_begin(handover);
    CHECK_BROKEN("base/triple_buffer.c", fp_triple_buffer_publish(handover, ROOM + 1));
    CHECK(fp_triple_buffer_take(handover, &n, &is_new) != NULL);
    CHECK_INT(n, 0);
    fp_triple_buffer_destroy(handover);
}
