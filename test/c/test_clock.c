/* test_clock.c - Unix time of monotonic time, by a thread that is held up. */
#include "base/clock.h"
#include "test.h"
#include "virtual_clock.h"

#define OFFSET INT64_C(1700000000123456789)
#define READING 30 /* ns that reading a clock takes */
#define HELD_UP INT64_C(10000000)

static int64_t now_ns;
static int reading, held_up_every;

/* Time goes on while clocks are read, and now and then for much longer. */
static int64_t clock_ns(clockid_t clock)
{
    now_ns += READING;
    if (held_up_every > 0 && ++reading % held_up_every == 0)
        now_ns += HELD_UP;
    return clock == CLOCK_REALTIME ? now_ns + OFFSET : now_ns;
}

static int64_t error_with(int every, int first)
{
    now_ns = 5000;
    held_up_every = every;
    reading = first;
    return fp_clock_offset_ns() - OFFSET;
}

TEST(both_clocks_agree)
{
    CHECK(llabs(error_with(0, 0)) <= READING);
}

/* Wherever in a reading, and however often, short of every time. */
TEST(who_is_held_up_moves_nothing)
{
    for (int every = 4; every < 20; every++) {
        for (int first = 0; first < every; first++)
            CHECK(llabs(error_with(every, first)) <= READING);
    }
}

/* Before main. */
__attribute__((constructor)) static void use_the_clock(void)
{
    virtual_clock = clock_ns;
}
