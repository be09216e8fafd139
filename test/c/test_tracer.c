/* test_tracer.c - the one tracing: generations, heartbeats, limits, and the threads that are inside
 * at its end. */
#include "tracer/tracer.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "broken.h"
#include "test.h"

#define SECOND INT64_C(1000000000)
#define THREADS 4
/* What does not come in so many naps does not come. */
#define TRIES 6000

#define LIMITS(...)                                                                                \
    (struct fp_tracer_limits)                                                                      \
    {                                                                                              \
        .event_ns = 400, .discard_ns = 100, __VA_ARGS__                                            \
    }
static const struct fp_tracer_limits unlimited = {.event_ns = 400, .discard_ns = 100};

static uint64_t start(struct fp_tracer_limits limits)
{
    uint64_t generation = fp_tracer_start(&limits, 60 * SECOND);

    CHECK(generation != 0);
    return fp_tracer_state(generation, 0);
}

static void stop(uint64_t state)
{
    fp_tracer_end(state >> FP_TRACER_INDEX_BITS, FP_TRACER_asked);
    CHECK_INT(fp_tracer_wait(), 0);
    fp_tracer_reset();
}

#define STATE_TEST(test, started) TEST_ON(test, uint64_t, state, started, stop)

static enum fp_tracer_end heartbeat(uint64_t state)
{
    return fp_tracer_heartbeat(state >> FP_TRACER_INDEX_BITS, SECOND / 10);
}

/* How many of so many events are let in. */
static int events(uint64_t state, int wanted, enum fp_tracer_cost cost)
{
    int in = 0;

    for (int i = 0; i < wanted; i++) {
        struct fp_tracer_line *line = fp_tracer_enter(state);

        if (line == NULL)
            continue;
        in++;
        fp_tracer_leave(line, cost);
    }
    return in;
}

/* The generation with which a library begins that was loaded just now. */
static uint64_t first_generation(void)
{
    uint64_t generation = 0;
    int ends[2];
    pid_t child;

    CHECK_INT(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        generation = fp_tracer_start(&unlimited, SECOND);
        _exit(write(ends[1], &generation, sizeof generation) != sizeof generation);
    }
    CHECK(child > 0);
    CHECK_INT(read(ends[0], &generation, sizeof generation), sizeof generation);
    CHECK_INT(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    return generation;
}

/* The first of all: what an earlier load has left on in the VM is of no generation to come. */
TEST(a_library_that_is_loaded_again_has_other_generations)
{
    uint64_t first = first_generation(), second = first;

    for (int i = 0; i < TRIES && second == first; i++)
        second = first_generation(); /* the same in the same millisecond */
    CHECK(first != 0 && second > first);
    CHECK(fp_tracer_state(second, UINT16_MAX) < UINT64_C(1) << 59); /* no bignum */
}

TEST(the_end_of_a_call_is_let_in_after_a_limit)
{
    uint64_t state = start(unlimited);
    struct fp_tracer_line *line;

    fp_tracer_end(state >> FP_TRACER_INDEX_BITS, FP_TRACER_asked);
    CHECK(fp_tracer_enter(state) == NULL);
    line = fp_tracer_enter_end(state);
    CHECK(line != NULL);
    fp_tracer_leave(line, FP_TRACER_FREE);
    stop(state);
    CHECK(fp_tracer_enter_end(state) == NULL);
}

/* Also where no event comes that would be charged. */
STATE_TEST(the_pressure_goes_down_with_each_heartbeat, start(LIMITS(.events_per_second = 1000)))
{
    events(state, 320, FP_TRACER_EVENT);
    CHECK(fp_tracer_pressure() > 0);
    for (int i = 0; i < TRIES && fp_tracer_pressure() > 0; i++) {
        const struct timespec nap = {.tv_nsec = 1000000};

        nanosleep(&nap, NULL);
        CHECK_INT(heartbeat(state), FP_TRACER_running);
    }
    CHECK_INT(fp_tracer_pressure(), 0);
}

TEST(it_is_known_for_how_long_it_has_ended)
{
    uint64_t state = start(unlimited);
    int64_t first;

    CHECK_INT(fp_tracer_ended_for_ns(), 0);
    fp_tracer_end(state >> FP_TRACER_INDEX_BITS, FP_TRACER_max_events);
    first = fp_tracer_ended_for_ns();
    CHECK(first >= 0);
    /* Of the first reason. */
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    fp_tracer_end(state >> FP_TRACER_INDEX_BITS, FP_TRACER_asked);
    CHECK(fp_tracer_ended_for_ns() >= first + 2000000);
    stop(state);
    state = start(unlimited);
    CHECK_INT(fp_tracer_ended_for_ns(), 0);
    stop(state);
}

TEST(events_are_let_in_and_counted_while_it_runs)
{
    uint64_t state = start(unlimited);

    CHECK_INT(events(state, 100, FP_TRACER_EVENT), 100);
    CHECK_INT(events(state + 7, 50, FP_TRACER_DISCARD), 50);
    CHECK_INT(fp_tracer_counters().events, 100);
    CHECK_INT(fp_tracer_counters().discarded, 50);
    CHECK_INT(fp_tracer_index(state + 7), 7);
    stop(state);
    CHECK_INT(events(state, 10, FP_TRACER_EVENT), 0);
    CHECK(!fp_tracer_is_on(state));
}

TEST(one_generation_has_nothing_to_do_with_the_next)
{
    uint64_t first = start(unlimited), second;

    CHECK_INT(fp_tracer_start(&unlimited, SECOND), 0);
    events(first, 10, FP_TRACER_EVENT);
    stop(first);
    second = start(unlimited);
    CHECK(second != first);
    CHECK_INT(events(first, 10, FP_TRACER_EVENT), 0);
    CHECK_INT(events(second, 3, FP_TRACER_EVENT), 3);
    CHECK_INT(fp_tracer_counters().events, 3);
    fp_tracer_end(first >> FP_TRACER_INDEX_BITS, FP_TRACER_asked);
    CHECK_INT(heartbeat(second), FP_TRACER_running);
    CHECK_INT(heartbeat(first), FP_TRACER_asked);
    stop(second);
}

TEST(one_that_has_ended_is_open_until_its_owner_had_time_to_tell_it)
{
    uint64_t state = start(unlimited);

    CHECK(fp_tracer_is_open(state));
    fp_tracer_end(state >> FP_TRACER_INDEX_BITS, FP_TRACER_asked);
    CHECK(!fp_tracer_is_on(state));
    CHECK(fp_tracer_is_open(state));
    CHECK(!fp_tracer_is_open(fp_tracer_state((state >> FP_TRACER_INDEX_BITS) - 1, 0)));
    stop(state);
    CHECK(!fp_tracer_is_open(state));
}

STATE_TEST(without_heartbeats_events_are_discarded_until_the_next_one,
           fp_tracer_state(fp_tracer_start(&unlimited, -SECOND / 2), 0))
{
    CHECK_INT(events(state, 10, FP_TRACER_EVENT), 0);
    CHECK(fp_tracer_is_on(state));
    CHECK_INT(heartbeat(state), FP_TRACER_running);
    CHECK_INT(events(state, 10, FP_TRACER_EVENT), 10);
}

TEST(a_heartbeat_that_comes_too_late_is_the_end)
{
    uint64_t state = fp_tracer_state(fp_tracer_start(&unlimited, -2 * SECOND), 0);

    CHECK(fp_tracer_is_abandoned());
    CHECK_INT(events(state, 10, FP_TRACER_EVENT), 0);
    CHECK(!fp_tracer_is_on(state));
    CHECK_INT(heartbeat(state), FP_TRACER_heartbeat);
    stop(state);
    CHECK(!fp_tracer_is_abandoned());
}

TEST(the_number_of_events_is_limited)
{
    for (uint64_t number = 1; number <= 1000; number += number < 40 ? 1 : 320) {
        uint64_t state = start(LIMITS(.events = number));

        CHECK_INT(events(state, 1000, FP_TRACER_DISCARD), 1000);
        CHECK_INT(events(state, 100000, FP_TRACER_EVENT), number);
        CHECK_INT(heartbeat(state), FP_TRACER_max_events);
        stop(state);
    }
}

static void *one_event(void *arg)
{
    events(*(uint64_t *)arg, 1, FP_TRACER_EVENT);
    return NULL;
}

/* Each of them has had too few to count them together. */
STATE_TEST(events_of_many_threads_are_one_number, start(LIMITS(.events = THREADS)))
{
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;

        CHECK_INT(heartbeat(state), FP_TRACER_running);
        CHECK_INT(pthread_create(&thread, NULL, one_event, &state), 0);
        pthread_join(thread, NULL);
    }
    CHECK_INT(heartbeat(state), FP_TRACER_max_events);
}

/* A burst of events, in less time than it takes to earn them. */
TEST(cpu_time_is_limited_by_what_events_are_said_to_cost)
{
    struct fp_tracer_limits limits = {
        .cpu_ns_per_second = SECOND / 10, .event_ns = 100000, .discard_ns = 50000};
    uint64_t state = start(limits);
    int in = events(state, 1000000, FP_TRACER_EVENT);

    /* A quarter of a second's worth: 25 ms, of 0.1 ms each, and a batch. */
    CHECK(in >= 250 && in < 1000);
    CHECK_INT(heartbeat(state), FP_TRACER_max_cpu_percent);
    CHECK_INT(fp_tracer_pressure(), 255);
    stop(state);
    state = start(limits);
    CHECK_INT(fp_tracer_pressure(), 0);
    CHECK(events(state, 1000000, FP_TRACER_DISCARD) >= 500);
    CHECK_INT(heartbeat(state), FP_TRACER_max_cpu_percent);
    stop(state);
}

TEST(what_the_vm_takes_for_processes_is_limited_too)
{
    static const enum fp_tracer_cost costs[] = {FP_TRACER_QUESTION, FP_TRACER_BIRTH};
    struct fp_tracer_limits limits = {
        .cpu_ns_per_second = SECOND / 10, .question_ns = 50000, .birth_ns = 100000};

    for (int i = 0; i < 2; i++) {
        uint64_t state = start(limits);

        CHECK(events(state, 1000000, costs[i]) >= (i == 0 ? 500 : 250));
        CHECK_INT(heartbeat(state), FP_TRACER_max_cpu_percent);
        CHECK_INT(fp_tracer_counters().events + fp_tracer_counters().discarded, 0);
        stop(state);
    }
}

TEST(events_a_second_are_limited)
{
    const struct fp_tracer_limits limits = LIMITS(.events_per_second = 2000);
    uint64_t state = start(limits);
    int in = events(state, 10000000, FP_TRACER_EVENT);

    CHECK(in >= 2000 && in < 100000);
    CHECK_INT(heartbeat(state), FP_TRACER_max_events_per_second);
    stop(state);
    state = start(limits);
    CHECK_INT(events(state, 100000, FP_TRACER_DISCARD), 100000);
    stop(state);
}

TEST(seconds_are_limited)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    int64_t begun = fp_monotonic_ms();
    uint64_t state = start(LIMITS(.seconds = 1));
    int tries = TRIES;

    while (events(state, 1, FP_TRACER_EVENT) == 1) {
        CHECK(--tries > 0);
        nanosleep(&nap, NULL);
    }
    CHECK(fp_monotonic_ms() - begun >= 950); /* the clock that it looks at is coarse */
    CHECK_INT(heartbeat(state), FP_TRACER_max_seconds);
    stop(state);
}

/* What callbacks have in use while it runs. */
struct memory {
    _Atomic uint64_t state;
    _Atomic int is_over;
    _Atomic uint64_t entered;
    uint64_t *number; /* freed between two generations */
};

static void *worker(void *arg)
{
    struct memory *memory = arg;

    while (!atomic_load(&memory->is_over)) {
        struct fp_tracer_line *line = fp_tracer_enter(atomic_load(&memory->state));

        if (line == NULL)
            continue;
        CHECK(__atomic_load_n(memory->number, __ATOMIC_RELAXED) == 42);
        atomic_fetch_add(&memory->entered, 1);
        fp_tracer_leave(line, FP_TRACER_EVENT);
    }
    return NULL;
}

/* The sanitizers see an access to memory that was freed. */
TEST(nobody_is_inside_after_the_wait)
{
    struct memory memory = {0};
    const struct timespec nap = {.tv_nsec = 100000};
    pthread_t thread[THREADS];
    int tries;

    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, worker, &memory), 0);
    for (int i = 0; i < 300; i++) {
        uint64_t before = atomic_load(&memory.entered);

        memory.number = malloc(sizeof *memory.number);
        CHECK(memory.number != NULL);
        *memory.number = 42;
        atomic_store(&memory.state, start(unlimited));
        for (tries = 100 * TRIES; atomic_load(&memory.entered) == before;) {
            CHECK(--tries > 0);
            nanosleep(&nap, NULL);
        }
        fp_tracer_end(atomic_load(&memory.state) >> FP_TRACER_INDEX_BITS, FP_TRACER_asked);
        CHECK_INT(fp_tracer_wait(), 0);
        free(memory.number);
        memory.number = NULL;
        fp_tracer_reset();
    }
    atomic_store(&memory.is_over, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

STATE_TEST(a_broken_invariant_ends_it, start(unlimited))
{
    struct fp_tracer_line *line = fp_tracer_enter(state);

    CHECK_BROKEN("base/ring.c", (void)fp_check_broken("c_src/base/ring.c", 7, "a < b"));
    fp_tracer_leave(line, FP_TRACER_EVENT);
    CHECK_INT(events(state, 10, FP_TRACER_EVENT), 0);
    CHECK_INT(heartbeat(state), FP_TRACER_broken_invariant);
    CHECK_INT(fp_tracer_counters().broken_invariants, 1);
    CHECK_BROKEN("tracer/tracer.c", fp_tracer_leave(line, FP_TRACER_FREE)); /* it is not inside */
    stop(state);
    state = start(unlimited); /* the next one has nothing of it */
    CHECK_INT(events(state, 10, FP_TRACER_EVENT), 10);
    CHECK_INT(heartbeat(state), FP_TRACER_running);
    CHECK_INT(fp_tracer_counters().broken_invariants, 0);
    CHECK_BROKEN("base/ring.c", (void)fp_check_broken("c_src/base/ring.c", 7, "a < b"));
    CHECK_INT(heartbeat(state), FP_TRACER_broken_invariant); /* without an event */
}
