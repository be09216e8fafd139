/* test_births.c - when new processes have the flag, against a world that is asked each 20 ms or so
 * and looks at all processes each half second. */
#include <math.h>

#include "mean.h"
#include "test.h"
#include "tracer/births.h"

#define MS INT64_C(1000000)
#define PERIOD (500 * MS)

static uint64_t random_state = 11;

struct world {
    struct fp_births births;
    int64_t now, looked;
    int is_on;
    uint64_t born; /* with the flag */
    uint64_t all;  /* since they are counted */
    double counted;
    int64_t on_ns, all_ns;
    double unseen; /* weight; 0: none was born since the last look */
    uint32_t ask_ms;
    int is_other, is_refused, was_refused;
};

/* What the VM's count is taken for. */
static uint32_t count_of(const struct world *world)
{
    return (uint32_t)(world->is_other ? world->all * 2 : world->all);
}

static void open_world(struct world *world)
{
    *world = (struct world){.now = 1000 * MS, .looked = 1000 * MS, .is_on = 1};
    fp_births_init(&world->births, run_random(&random_state), world->now,
                   &(struct fp_births_count){0});
    CHECK(fp_births_weight(&world->births) == 1);
}

static struct world *new_world(void)
{
    struct world *world = malloc(sizeof *world);

    CHECK(world != NULL);
    open_world(world);
    return world;
}

#define BIRTHS_TEST(test) TEST_ON(test, struct world *, world, new_world(), free)

/* So many are born in this time. One weight is in use at a time. */
static void live(struct world *world, int64_t ns, uint64_t births)
{
    double weight = fp_births_weight(&world->births);

    world->now += ns;
    world->all_ns += ns;
    world->all += births;
    if (!world->is_on || world->is_refused)
        return;
    world->on_ns += ns;
    world->born += births;
    world->counted += weight * (double)births;
    if (births == 0)
        return;
    /* Of those that no look has seen, all have the same weight. */
    CHECK(world->unseen == 0 || world->unseen == weight);
    world->unseen = weight;
}

static void look(struct world *world)
{
    struct fp_births_count count = {count_of(world), world->born};
    int all_have_it = fp_births_look(&world->births, &count);

    CHECK(!all_have_it || world->births.state == FP_BIRTHS_ALL);
    CHECK(!all_have_it || !(world->is_other || world->is_refused));
    CHECK(all_have_it || world->births.state != FP_BIRTHS_ALL || world->is_other ||
          world->was_refused);
    world->looked = world->now;
    world->unseen = 0;
    (void)fp_births_looked(&world->births, world->now, PERIOD, &count);
}

static enum fp_births_switch due(struct world *world)
{
    return fp_births_due(&world->births, world->now,
                         &(struct fp_births_count){count_of(world), world->born}, &world->ask_ms);
}

/* 20 ms or what was asked for, and some more by chance; on a busy machine much more. */
static int64_t pause(uint32_t ask_ms, int is_busy)
{
    int64_t ns = (ask_ms > 0 ? ask_ms : 20) * MS + (int64_t)(run_random(&random_state) % 1000000);

    return is_busy ? ns + (int64_t)(run_random(&random_state) % 10) * MS : ns;
}

/* `rate`: of a millisecond, by the time. */
static void run(struct world *world, int64_t ms, double (*rate)(int64_t ms), int is_busy)
{
    int64_t until = world->now + ms * MS;
    double rest = 0;
    uint32_t ask_ms = 0;

    while (world->now < until) {
        int64_t ns = pause(ask_ms, is_busy);
        enum fp_births_switch what;

        for (int64_t left = ns; left > 0; left -= MS) {
            int64_t step = left < MS ? left : MS;

            rest += rate(world->now / MS) * (double)step / (double)MS;
            live(world, step, (uint64_t)rest);
            rest -= floor(rest);
        }
        while ((what = due(world)) != FP_BIRTHS_KEEP) {
            CHECK(what == FP_BIRTHS_ON || world->is_on);
            world->is_on = what == FP_BIRTHS_ON;
        }
        ask_ms = world->ask_ms;
        if (world->now - world->looked >= PERIOD)
            look(world);
    }
}

static double few(int64_t ms)
{
    return ms % 10 == 0 ? 1 : 0;
}

static double many(int64_t ms)
{
    (void)ms;
    return 50;
}

/* In waves of 0.7 s, and now and then a burst. */
static double waves(int64_t ms)
{
    return 20 + 15 * sin((double)ms / 700 * 6.2832) + (ms / 100 % 17 == 0 ? 60 : 0);
}

static double none(int64_t ms)
{
    (void)ms;
    return 0;
}

BIRTHS_TEST(few_births_all_have_the_flag)
{
    run(world, 20000, few, 0);
    CHECK(world->is_on);
    CHECK(world->born == world->all);
    CHECK(world->counted == (double)world->all);
}

BIRTHS_TEST(of_many_births_a_part_has_the_flag)
{
    run(world, 2000, many, 0);
    world->on_ns = world->all_ns = 0;
    run(world, 20000, many, 0);
    CHECK(world->on_ns * 100 > world->all_ns * 3);
    CHECK(world->on_ns * 100 < world->all_ns * 10);
}

BIRTHS_TEST(when_births_are_few_again_all_have_the_flag)
{
    run(world, 5000, many, 0);
    CHECK(!world->is_on || fp_births_weight(&world->births) != 1);
    run(world, 3000, few, 0);
    CHECK(world->is_on);
    CHECK(fp_births_weight(&world->births) == 1);
    run(world, 3000, many, 0);
    run(world, 3000, none, 0);
    CHECK(world->is_on);
}

/* What is told when the VM has not done what it was told, in time or at all. */
BIRTHS_TEST(without_births_in_a_phase_all_shall_have_the_flag)
{
    run(world, 2000, many, 0);
    for (int n = 0; n < 200; n++) {
        world->now += 20 * MS;
        while (due(world) != FP_BIRTHS_KEEP)
            ;
        if (world->now - world->looked >= PERIOD) {
            world->looked = world->now;
            (void)fp_births_look(&world->births,
                                 &(struct fp_births_count){count_of(world), world->born});
            (void)fp_births_looked(&world->births, world->now, PERIOD,
                                   &(struct fp_births_count){count_of(world), world->born});
        }
    }
    CHECK(fp_births_weight(&world->births) == 1);
    CHECK_INT(world->births.state, FP_BIRTHS_ALL);
}

/* Another tracer has the new processes since. */
BIRTHS_TEST(where_nobody_is_born_with_the_flag_in_a_phase_there_are_no_more_phases)
{
    enum fp_births_state state;
    double left = 0;

    run(world, 5000, many, 0);
    world->is_refused = world->was_refused = 1;
    run(world, 2000, many, 0);
    state = world->births.state;
    run(world, 10000, many, 0);
    CHECK_INT(state, FP_BIRTHS_ALL);
    CHECK_INT(world->births.state, FP_BIRTHS_ALL);
    world->is_refused = 0;
    left = world->counted - (double)world->all;
    run(world, 400, many, 0);
    CHECK(fabs(world->counted - (double)world->all - left) < 1);
}

BIRTHS_TEST(where_the_count_is_of_something_else_all_have_the_flag)
{
    world->is_other = 1;
    run(world, 10000, many, 0);
    CHECK(world->is_on);
    CHECK(world->born == world->all);
    CHECK(world->counted == (double)world->all);
}

static void is_right_in_the_mean(double (*rate)(int64_t), int is_busy)
{
    struct mean mean = {0};

    for (uint32_t i = 0; i < 2000; i++) {
        struct world world;

        open_world(&world);
        world.now += (int64_t)(run_random(&random_state) % 11900) * MS;
        world.births.since_ns = world.looked = world.now;
        run(&world, 4000 + (int64_t)(run_random(&random_state) % 500), rate, is_busy);
        mean_add(&mean, world.counted / (double)world.all - 1);
    }
    /* And what no phase stands for yet in the end: the births of some 20 ms of 4,000. */
    mean_is_none(&mean, "births", 0.006);
    CHECK(sqrt(mean.squares / mean.n) < 0.1);
}

TEST(births_are_counted_right_in_the_mean)
{
    is_right_in_the_mean(many, 0);
}

TEST(births_that_come_in_waves_too)
{
    is_right_in_the_mean(waves, 0);
}

TEST(and_when_the_owner_comes_late)
{
    is_right_in_the_mean(many, 1);
    is_right_in_the_mean(waves, 1);
}
