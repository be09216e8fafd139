/* test_latency.c - which calls are timed, what is forgotten, and that what is counted adds up. The
 * threads of the last test stand for schedulers: each runs processes of its own. */
#include "tracer/latency.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/pages.h"
#include "broken.h"
#include "test.h"
#include "tracer/parts.h"

#define THREADS 4
#define ROUNDS 20000
#define MANY 200000

static struct fp_open_calls calls; /* as large as it is: not on a stack */

static struct fp_call_end end;

static void clear(void)
{
    memset(&calls, 0, sizeof calls);
}

#define CALLS_TEST(test) TEST_BETWEEN(test, clear(), (void)0)

CALLS_TEST(a_call_lasts_from_its_begin_to_its_end)
{
    CHECK_INT(fp_open_calls_begin(&calls, 7, 0, 100), FP_CALL_BEGAN);
    CHECK_INT(fp_open_calls_end(&calls, 7, 0, 350, &end), 1);
    CHECK_INT(end.ns, 250);
    CHECK_INT(end.own_ns, 250);
    CHECK_INT(end.caller, FP_CALLS_NO_CALLER);
    CHECK_INT(fp_open_calls_end(&calls, 7, 0, 400, &end), 0);
}

CALLS_TEST(inside_of_an_outermost_call_nothing_begins)
{
    CHECK_INT(fp_open_calls_begin(&calls, 7, 0, 100), FP_CALL_BEGAN);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(fp_open_calls_begin(&calls, 7, 0, 200), FP_CALL_IS_INNER);
    CHECK_INT(fp_open_calls_begin(&calls, 8, 0, 200), FP_CALL_BEGAN);
    CHECK_INT(fp_open_calls_end(&calls, 7, 0, 300, &end), 1);
    CHECK_INT(end.ns, 200);
    CHECK_INT(fp_open_calls_begin(&calls, 7, 0, 400), FP_CALL_BEGAN);
}

/* 0 calls 1, which calls 2 twice. */
CALLS_TEST(own_time_is_without_measured_calls_inside)
{
    fp_open_calls_begin(&calls, 7, 0, 0);
    fp_open_calls_begin(&calls, 7, 1, 10);
    fp_open_calls_begin(&calls, 7, 2, 20);
    fp_open_calls_end(&calls, 7, 2, 50, &end);
    fp_open_calls_begin(&calls, 7, 2, 60);
    fp_open_calls_end(&calls, 7, 2, 65, &end);
    CHECK_INT(end.own_ns, 5);
    fp_open_calls_end(&calls, 7, 1, 110, &end);
    CHECK_INT(end.ns, 100);
    CHECK_INT(end.own_ns, 65);
    fp_open_calls_end(&calls, 7, 0, 200, &end);
    CHECK_INT(end.ns, 200);
    CHECK_INT(end.own_ns, 100);
}

CALLS_TEST(a_call_whose_begin_is_not_told_is_none)
{
    fp_open_calls_begin(&calls, 7, 0, FP_CALLS_NOT_YET);
    CHECK_INT(fp_open_calls_end(&calls, 7, 0, 100, &end), 0);
    fp_open_calls_begin(&calls, 7, 0, FP_CALLS_NOT_YET);
    fp_open_calls_top(&calls, 7, 0)->began_ns = 40;
    CHECK_INT(fp_open_calls_end(&calls, 7, 0, 100, &end), 1);
    CHECK_INT(end.ns, 60);
}

CALLS_TEST(a_lost_end_is_forgotten_with_the_call_around_it)
{
    fp_open_calls_begin(&calls, 7, 0, 0);
    fp_open_calls_begin(&calls, 7, 1, 10);
    CHECK_INT(fp_open_calls_end(&calls, 7, 0, 100, &end), 1);
    CHECK_INT(fp_open_calls_end(&calls, 7, 1, 110, &end), 0);
    CHECK_INT(fp_open_calls_begin(&calls, 7, 1, 120), FP_CALL_BEGAN);
}

CALLS_TEST(too_many_in_each_other_are_refused)
{
    for (uint32_t i = 0; i < FP_CALLS_DEPTH; i++)
        CHECK_INT(fp_open_calls_begin(&calls, 7, i, 0), FP_CALL_BEGAN);
    CHECK_INT(fp_open_calls_begin(&calls, 7, FP_CALLS_DEPTH, 0), FP_CALLS_DEEP);
    CHECK_INT(fp_open_calls_begin(&calls, 7, 0, 0), FP_CALL_IS_INNER);
}

static int lives_above(void *with, uint64_t pid)
{
    return pid > *(uint64_t *)with;
}

CALLS_TEST(a_full_table_has_room_again_after_the_dead_are_swept)
{
    uint64_t all = MANY, open[2] = {0}, began = 0;

    for (uint64_t pid = 1; pid <= MANY; pid++)
        began += fp_open_calls_begin(&calls, pid, 1, 0) == FP_CALL_BEGAN;
    CHECK(began > FP_CALLS_SLOTS / 2 && began <= FP_CALLS_SLOTS);
    fp_open_calls_count(&calls, open, 2);
    CHECK_INT(open[1], began);
    CHECK_INT(open[0], 0);
    fp_open_calls_sweep(&calls, lives_above, &all);
    memset(open, 0, sizeof open);
    fp_open_calls_count(&calls, open, 2);
    CHECK_INT(open[1], 0);
    CHECK_INT(fp_open_calls_begin(&calls, 1, 1, 0), FP_CALL_BEGAN);
}

static struct fp_latency *create(uint32_t threads)
{
    const struct fp_latency_config config = {
        .functions = 2, .threads = threads, .by_caller = 1, .by_process = 1};
    struct fp_latency *latency = fp_latency_create(&config);

    CHECK(latency != NULL);
    return latency;
}

static struct fp_latency_totals totals;

TEST_ON(a_function_that_calls_itself_is_not_sampled, struct fp_latency *, latency, create(1),
        fp_latency_destroy)
{
    uint64_t random = UINT64_C(1) << 32; /* of this, none is chosen */

    CHECK_INT(fp_latency_begin(latency, 0, 0, 7, 0, 0), 1);
    CHECK_INT(fp_latency_begin(latency, 0, 0, 7, 0, 0), 0);
    fp_latency_end(latency, 0, 0, 7, 0);
    CHECK_INT(fp_latency_begin(latency, 0, 0, 7, 255, random), 1);
    fp_latency_end(latency, 0, 0, 7, 0);
    CHECK_INT(fp_latency_begin(latency, 0, 1, 7, 255, random), 0);
    fp_latency_read(latency, 1, &totals);
    CHECK_INT(totals.left_out, 1);
    CHECK_INT(fp_latency_take_shift(latency), 12);
    CHECK_INT(fp_latency_take_shift(latency), 0);
}

/* The random numbers are all that there are of these bits. */
static int measured_of_4096(uint32_t pressure)
{
    struct fp_latency *latency = create(1);
    int measured = 0;

    for (uint64_t random = 0; random < 4096; random++)
        if (fp_latency_begin(latency, 0, 0, 7, pressure, random << 32) == 1) {
            fp_latency_end(latency, 0, 0, 7, 0);
            measured++;
        }
    fp_latency_destroy(latency);
    return measured;
}

TEST(the_more_pressure_the_fewer_calls)
{
    CHECK_INT(measured_of_4096(0), 4096);
    CHECK_INT(measured_of_4096(63), 4096);
    CHECK_INT(measured_of_4096(64), 2048);
    CHECK_INT(measured_of_4096(80), 1024);
    CHECK_INT(measured_of_4096(255), 1);
}

TEST_ON(a_thread_beyond_those_that_are_known_is_lost, struct fp_latency *, latency, create(1),
        fp_latency_destroy)
{
    CHECK_INT(fp_latency_begin(latency, 1, 0, 7, 0, 0), 0);
    CHECK_INT(fp_latency_lost(latency).threads, 1);
    CHECK_INT(fp_latency_begin(latency, 0, 2, 7, 0, 0), 0);
}

static struct fp_latency_part sum;

static void add(void *with, const struct fp_latency_part *part)
{
    (void)with;
    sum.calls += part->calls;
    sum.total_ns += part->total_ns;
    if (part->max_ns > sum.max_ns)
        sum.max_ns = part->max_ns;
    if (part->key[0] == 0)
        sum.function++; /* how many are without a key */
}

/* Of the part of process 7, and of those without a key, function 1. */
static uint64_t of_seven[FP_HISTOGRAM_BUCKETS + 1], of_others, bucketed;

static void add_bucket(void *with, const struct fp_latency_bucket *bucket)
{
    (void)with;
    bucketed += bucket->count;
    if (bucket->function == 1 && bucket->key[0] == 7)
        of_seven[bucket->bucket] += bucket->count;
    if (bucket->function == 1 && bucket->key[0] == 0)
        of_others += bucket->count;
}

static const struct fp_latency_reader reader = {add_bucket, add, NULL};

static int lives_never(void *with, uint64_t pid)
{
    (void)with;
    (void)pid;
    return 0;
}

static struct fp_parts *make_parts(uint32_t threads)
{
    struct fp_parts *parts = fp_pages_reserve(fp_parts_bytes(threads));

    CHECK(parts != NULL);
    parts->thread_count = threads;
    return parts;
}

/* A call of function 1, of 10 ns of which 5 are its own. */
static void add_call(struct fp_parts *parts, uint32_t thread, uint64_t pid)
{
    const uint64_t key[3] = {pid, 0, 0};

    fp_parts_add(parts, thread, fp_parts_find(parts, 1, key), 10, 5);
}

static void free_parts(struct fp_parts *parts)
{
    fp_pages_free(parts, fp_parts_bytes(parts->thread_count));
}

#define PARTS_TEST(test) TEST_ON(test, struct fp_parts *, parts, make_parts(1), free_parts)

PARTS_TEST(more_keys_than_there_is_room_for_are_one)
{
    memset(&sum, 0, sizeof sum);
    for (uint64_t pid = 1; pid <= MANY; pid++)
        add_call(parts, 0, pid);
    fp_parts_drain_parts(parts, add, lives_never, NULL);
    CHECK_INT(sum.calls, MANY);
    CHECK_INT(sum.total_ns, 10 * MANY);
    CHECK_INT(sum.function, 1);
    /* Nothing is told twice; what is dead makes room. */
    fp_parts_drain_parts(parts, add, lives_never, NULL);
    CHECK_INT(sum.calls, MANY);
    memset(&sum, 0, sizeof sum);
    for (uint64_t pid = 1; pid <= 100; pid++)
        add_call(parts, 0, pid);
    fp_parts_drain_parts(parts, add, lives_never, NULL);
    CHECK_INT(sum.calls, 100);
    CHECK_INT(sum.function, 0);
}

struct last_call {
    struct fp_parts *parts;
    uint64_t pid;
    uint32_t told; /* of its key */
};

/* The process of this key is gone, but has added a call just before. */
static int lives_no_longer(void *with, uint64_t pid)
{
    const struct last_call *last = with;

    if (pid == last->pid)
        add_call(last->parts, 0, pid);
    return 0;
}

static void count_last(void *with, const struct fp_latency_part *part)
{
    struct last_call *last = with;

    last->told += part->key[0] == last->pid ? (uint32_t)part->calls : 0;
}

PARTS_TEST(the_last_call_of_a_process_is_told_as_its_own)
{
    struct last_call last = {parts, 7, 0};

    add_call(parts, 0, 7);
    fp_parts_drain_parts(parts, count_last, lives_no_longer, &last);
    CHECK_INT(last.told, 1);
    fp_parts_drain_parts(parts, count_last, lives_no_longer, &last);
    fp_parts_drain_parts(parts, count_last, lives_no_longer, &last);
    CHECK_INT(last.told, 2);
}

PARTS_TEST(times_of_a_part_are_in_its_buckets)
{
    const uint64_t seven[3] = {7, 0, 0}, eight[3] = {8, 0, 0};
    uint32_t part = fp_parts_find(parts, 1, seven);

    bucketed = of_others = 0;
    memset(of_seven, 0, sizeof of_seven);
    for (int i = 0; i < 3; i++)
        fp_parts_add(parts, 0, part, 100, 0);
    fp_parts_add(parts, 0, part, 5000, 0);
    fp_parts_add(parts, 0, part, FP_HISTOGRAM_END_NS, 0);
    fp_parts_add(parts, 0, fp_parts_find(parts, 0, seven), 100, 0);
    fp_parts_add(parts, 0, fp_parts_find(parts, 1, eight), 100, 0);
    fp_parts_add(parts, 0, (uint32_t)FP_PARTS + 1, 100, 0);
    fp_parts_drain_buckets(parts, add_bucket, NULL);
    CHECK_INT(bucketed, 8);
    CHECK_INT(of_seven[fp_histogram_bucket(100)], 3);
    CHECK_INT(of_seven[fp_histogram_bucket(5000)], 1);
    CHECK_INT(of_seven[FP_HISTOGRAM_BUCKETS], 1);
    CHECK_INT(of_others, 1);
    fp_parts_drain_buckets(parts, add_bucket, NULL);
    CHECK_INT(bucketed, 8);
}

/* More times that differ than there are words. */
PARTS_TEST(a_time_without_room_is_counted)
{
    uint64_t added = 0;

    bucketed = 0;
    for (uint32_t part = 0; part < 100; part++)
        for (size_t bucket = 0; bucket < FP_HISTOGRAM_BUCKETS; bucket++, added++)
            fp_parts_add(parts, 0, part, fp_histogram_low_ns(bucket), 0);
    fp_parts_drain_buckets(parts, add_bucket, NULL);
    CHECK(fp_parts_missing(parts) > 0);
    CHECK(bucketed > FP_PARTS_COUNTS / 2);
    CHECK_INT(bucketed + fp_parts_missing(parts), added);
}

/* A call that begins on one scheduler may end on another. */
TEST_ON(what_threads_add_to_a_part_is_one, struct fp_parts *, parts, make_parts(3), free_parts)
{
    const uint64_t key[3] = {7, 0, 0};
    uint32_t part = fp_parts_find(parts, 1, key);

    memset(&sum, 0, sizeof sum);
    bucketed = 0;
    for (uint32_t thread = 0; thread < 3; thread++)
        fp_parts_add(parts, thread, part, 10 + thread, 1);
    fp_parts_drain_buckets(parts, add_bucket, NULL);
    fp_parts_drain_parts(parts, add, NULL, NULL);
    CHECK_INT(bucketed, 3);
    CHECK_INT(sum.calls, 3);
    CHECK_INT(sum.total_ns, 33);
    CHECK_INT(sum.max_ns, 12);
    /* The longest is of what came since. */
    memset(&sum, 0, sizeof sum);
    fp_parts_add(parts, 1, part, 5, 1);
    fp_parts_drain_parts(parts, add, NULL, NULL);
    CHECK_INT(sum.calls, 1);
    CHECK_INT(sum.total_ns, 5);
    CHECK_INT(sum.max_ns, 5);
}

static struct fp_latency *shared;

static void *run_processes(void *with)
{
    uint32_t thread = (uint32_t)(uintptr_t)with;
    const uint64_t caller[3] = {3, 4, 5};

    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t pid = 1 + thread + THREADS * (i % 50);

        if (fp_latency_begin(shared, thread, 0, pid, 0, 0) == 1)
            fp_latency_caller(shared, 0, pid, caller);
        if (fp_latency_begin(shared, thread, 1, pid, 0, 0) == 1) {
            fp_latency_caller(shared, 1, pid, caller);
            fp_latency_end(shared, thread, 1, pid, i % 2 == 0);
        }
        fp_latency_end(shared, thread, 0, pid, 0);
    }
    return NULL;
}

static int lives_always(void *with, uint64_t pid)
{
    (void)with;
    (void)pid;
    return 1;
}

/* Keys that begin at one place, of two threads, while the reader makes room: an entry is claimed
 * for one key while another thread compares it with a second one. For TSan. */
#define COLLIDING 5u
struct finder {
    struct fp_parts *parts;
    uint32_t thread;
    uint64_t key[COLLIDING];
};

static void collide(uint64_t key[COLLIDING])
{
    uint32_t found = 0;

    for (uint64_t k = 1; found < COLLIDING; k++) {
        uint64_t hash = fp_hash_two(fp_hash_two(k, 0), 1);

        if ((hash & (FP_PARTS - 1)) == 77)
            key[found++] = k;
    }
}

static void *find_and_add(void *arg)
{
    const struct finder *finder = arg;

    for (uint64_t round = 0; round < ROUNDS; round++)
        add_call(finder->parts, finder->thread, finder->key[(round + finder->thread) % COLLIDING]);
    return NULL;
}

static void add_calls(void *with, const struct fp_latency_part *part)
{
    *(uint64_t *)with += part->calls;
}

TEST_ON(keys_are_found_while_others_make_room, struct fp_parts *, parts, make_parts(2), free_parts)
{
    struct finder finder[2] = {{parts, 0, {0}}, {parts, 1, {0}}};
    pthread_t thread[2];
    uint64_t calls_told = 0;

    for (int i = 0; i < 2; i++) {
        collide(finder[i].key);
        CHECK_INT(pthread_create(&thread[i], NULL, find_and_add, &finder[i]), 0);
    }
    for (int i = 0; i < 1000; i++)
        fp_parts_drain_parts(parts, add_calls, lives_never, &calls_told);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    fp_parts_drain_parts(parts, add_calls, lives_never, &calls_told);
    fp_parts_drain_parts(parts, add_calls, lives_never, &calls_told);
    CHECK_INT(calls_told, 2 * ROUNDS);
}

TEST(what_threads_count_adds_up_beside_a_reader)
{
    pthread_t threads[THREADS];
    uint64_t returned = 0, exceptions = 0, callers;

    shared = create(THREADS);
    bucketed = 0;
    memset(&sum, 0, sizeof sum);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, run_processes, (void *)i), 0);
    for (int round = 0; round <= 20; round++) {
        for (int i = 0; round == 20 && i < THREADS; i++)
            pthread_join(threads[i], NULL);
        fp_latency_sweep(shared, lives_always, NULL);
        fp_latency_drain_callers(shared, &reader);
        fp_latency_read(shared, 0, &totals);
        fp_latency_interval(shared, 0, &totals);
        returned += totals.returned.count;
        fp_latency_read(shared, 1, &totals);
        fp_latency_interval(shared, 1, &totals);
        exceptions += totals.exceptions;
    }
    callers = sum.calls;
    CHECK_INT(returned, (uint64_t)THREADS * ROUNDS);
    CHECK_INT(exceptions, (uint64_t)THREADS * ROUNDS / 2);
    CHECK_INT(callers, (uint64_t)THREADS * ROUNDS * 3 / 2);
    memset(&sum, 0, sizeof sum);
    CHECK_INT(bucketed, (uint64_t)THREADS * ROUNDS * 3 / 2);
    fp_latency_drain_processes(shared, &reader, lives_always);
    CHECK_INT(sum.calls, (uint64_t)THREADS * ROUNDS * 3 / 2);
    CHECK_INT(bucketed, (uint64_t)THREADS * ROUNDS * 3);
    fp_latency_destroy(shared);
}

CALLS_TEST(a_depth_or_a_process_that_cannot_be_is_a_broken_invariant)
{
    CHECK_BROKEN("tracer/open_calls.c",
                 CHECK_INT(fp_open_calls_begin(&calls, 0, 1, 1), FP_CALLS_FULL));
    CHECK_INT(fp_open_calls_begin(&calls, 7, 1, 1), FP_CALL_BEGAN);
    for (size_t i = 0; i < FP_CALLS_SLOTS; i++)
        calls.open[i].depth = FP_CALLS_DEPTH + 1;
    CHECK_BROKEN("tracer/open_calls.c", CHECK(fp_open_calls_top(&calls, 7, 1) == NULL));
}

PARTS_TEST(a_part_beyond_the_table_is_a_broken_invariant)
{
    CHECK_BROKEN("tracer/parts.c", fp_parts_add(parts, 1, 0, 1, 1));
    CHECK_BROKEN("tracer/parts.c", fp_parts_add(parts, 0, FP_PARTS + FP_PARTS_OTHERS, 1, 1));
    fp_parts_add(parts, 0, 0, 1, 1);
    parts->threads[0].counts[3] = UINT64_MAX;
    CHECK_BROKEN("tracer/parts.c", fp_parts_drain_buckets(parts, add_bucket, NULL));
}

TEST_ON(a_function_that_is_not_measured_is_a_broken_invariant, struct fp_latency *, latency,
        create(1), fp_latency_destroy)
{
    CHECK_BROKEN("tracer/latency.c", fp_latency_read(latency, FP_LATENCY_FUNCTIONS, &totals));
    CHECK_INT(totals.exceptions, 0);
}
