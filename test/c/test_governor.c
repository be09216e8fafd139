/*
 * test_governor.c - the governor over programs whose cost is known.
 */
#include "base/governor.h"

#include "run.h"

#define SECOND INT64_C(1000000000)

/* What a second costs at a step, in ns, when a full one costs `full`. */
static int64_t cost(uint32_t step, int64_t full)
{
    struct fp_governed governed = fp_governed(step);

    if (governed.merge_idle)
        full = full * 7 / 10;
    return full / (int64_t)governed.interval_factor /
           (int64_t)governed.top_divisor;
}

struct life {
    struct fp_governor governor;
    int64_t now, used;
    uint32_t changes;
};

static void begin(struct life *life, uint32_t permille)
{
    *life = (struct life){.now = 5 * SECOND};
    fp_governor_init(&life->governor, permille, life->now);
}

static void live(struct life *life, int seconds, int64_t full)
{
    for (int i = 0; i < seconds; i++) {
        life->now += SECOND;
        life->used += cost(life->governor.step, full);
        life->changes +=
            (uint32_t)fp_governor_ask(&life->governor, life->now, life->used);
    }
}

static void what_fits_is_left_alone(void)
{
    struct life life;

    begin(&life, 20);
    live(&life, 1000, SECOND * 19 / 1000);
    CHECK_INT(life.governor.step, 0);
    CHECK_INT(life.changes, 0);
}

static void a_spike_is_sampled_in_full(void)
{
    struct life life;

    begin(&life, 20);
    live(&life, 60, SECOND / 1000);
    /* Three times the budget for four seconds. */
    live(&life, 4, SECOND * 60 / 1000);
    CHECK_INT(life.governor.step, 0);
}

static void what_lasts_is_brought_within_the_budget(void)
{
    static const int64_t percent[] = {3, 5, 10, 30, 100, 200};

    for (size_t i = 0; i < sizeof percent / sizeof *percent; i++) {
        struct life life;
        int64_t used;

        begin(&life, 20);
        live(&life, 120, SECOND * percent[i] / 100);
        used = life.used;
        live(&life, 600, SECOND * percent[i] / 100);
        CHECK(life.used - used <= 600 * SECOND * 21 / 1000);
        CHECK(life.governor.step > 0);
    }
}

static void it_settles(void)
{
    struct life life;

    begin(&life, 20);
    live(&life, 60, SECOND * 10 / 100);
    life.changes = 0;
    live(&life, 600, SECOND * 10 / 100);
    /* Not back and forth: at most one try a minute. */
    CHECK(life.changes <= 10);
}

static void it_recovers_when_the_program_is_quiet_again(void)
{
    struct life life;

    begin(&life, 20);
    live(&life, 60, SECOND * 50 / 100);
    CHECK(life.governor.step >= 4);
    live(&life, 200, SECOND / 1000);
    CHECK_INT(life.governor.step, 0);
}

static void without_a_budget_nothing_is_lowered(void)
{
    struct life life;

    begin(&life, 0);
    live(&life, 100, SECOND);
    CHECK_INT(life.governor.step, 0);
}

static void each_step_is_cheaper_and_the_order_is_idle_rate_processes(void)
{
    struct fp_governed before = fp_governed(0);

    CHECK(!before.merge_idle && before.interval_factor == 1 &&
          before.top_divisor == 1);
    CHECK(fp_governed(1).merge_idle && fp_governed(1).interval_factor == 1);
    CHECK_INT(fp_governed(2).interval_factor, 2);
    CHECK_INT(fp_governed(5).interval_factor, 16);
    CHECK_INT(fp_governed(5).top_divisor, 1);
    CHECK_INT(fp_governed(8).top_divisor, 8);
    for (uint32_t step = 1; step < FP_GOVERNOR_STEPS; step++)
        CHECK(cost(step, SECOND) < cost(step - 1, SECOND));
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    RUN(what_fits_is_left_alone);
    RUN(a_spike_is_sampled_in_full);
    RUN(what_lasts_is_brought_within_the_budget);
    RUN(it_settles);
    RUN(it_recovers_when_the_program_is_quiet_again);
    RUN(without_a_budget_nothing_is_lowered);
    RUN(each_step_is_cheaper_and_the_order_is_idle_rate_processes);
    return RUN_END();
}
