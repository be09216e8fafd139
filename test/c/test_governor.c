/* test_governor.c - the governor over programs whose cost is known. */
#include "base/governor.h"

#include "test.h"

#define SECOND INT64_C(1000000000)
#define INTERVAL_MS 5000u

/* What a second costs, in ns, when nothing is left out. */
struct program {
    int64_t ticks; /* ... of sampling */
    int64_t pass;  /* ... of one pass of the selection */
};

/* What a second of sampling costs at a step, when a full one costs `full`. */
static int64_t cost(uint32_t step, int64_t full)
{
    struct fp_governed governed = fp_governed(step);

    if (governed.coalesce_idle)
        full = full * 7 / 10;
    return full / (int64_t)governed.interval_factor / (int64_t)governed.top_divisor;
}

struct life {
    struct fp_governor governor;
    int64_t now;
    struct fp_cpu_used used;
    uint32_t changes;
};

static struct life life;

static void begin(uint32_t permille, int64_t pass)
{
    life = (struct life){.now = 5 * SECOND, .used = {pass, pass}};
    fp_governor_init(&life.governor, permille, life.now, life.used, INTERVAL_MS);
}

static void live_as(int seconds, struct program program)
{
    for (int i = 0; i < seconds; i++) {
        int64_t pass = program.pass * 1000 / ((int64_t)INTERVAL_MS << life.governor.stretch);

        life.now += SECOND;
        life.used.pass_ns += pass;
        life.used.total_ns += pass + cost(life.governor.step, program.ticks);
        life.changes += (uint32_t)fp_governor_update(&life.governor, life.now, life.used);
    }
}

static void live(int seconds, int64_t ticks)
{
    live_as(seconds, (struct program){ticks, 0});
}

TEST(what_fits_is_left_alone)
{
    begin(20, SECOND / 1000);
    live(1000, SECOND * 19 / 1000);
    CHECK_INT(life.governor.step, 0);
    CHECK_INT(life.governor.stretch, 0);
    CHECK_INT(life.changes, 0);
}

TEST(a_spike_is_sampled_in_full)
{
    begin(20, 0);
    live(60, SECOND / 1000);
    /* Three times the budget for four seconds. */
    live(4, SECOND * 60 / 1000);
    CHECK_INT(life.governor.step, 0);
}

TEST(what_lasts_is_brought_within_the_budget)
{
    static const int64_t percent[] = {3, 5, 10, 30, 100, 200};

    for (size_t i = 0; i < sizeof percent / sizeof *percent; i++) {
        int64_t used;

        begin(20, 0);
        live(120, SECOND * percent[i] / 100);
        used = life.used.total_ns;
        live(600, SECOND * percent[i] / 100);
        CHECK(life.used.total_ns - used <= 600 * SECOND * 21 / 1000);
        CHECK(life.governor.step > 0);
        CHECK_INT(life.governor.stretch, 0);
    }
}

TEST(it_settles)
{
    begin(20, 0);
    live(60, SECOND * 10 / 100);
    life.changes = 0;
    live(600, SECOND * 10 / 100);
    /* Not back and forth: at most one try a minute. */
    CHECK(life.changes <= 10);
}

TEST(it_recovers_when_the_program_is_quiet_again)
{
    begin(20, 0);
    live_as(60, (struct program){SECOND * 50 / 100, SECOND / 2});
    CHECK(life.governor.step >= 4);
    CHECK(life.governor.stretch > 0);
    live(300, SECOND / 1000);
    CHECK_INT(life.governor.step, 0);
    CHECK_INT(life.governor.stretch, 0);
}

TEST(without_a_budget_nothing_is_lowered)
{
    begin(0, SECOND);
    live_as(100, (struct program){SECOND, SECOND});
    CHECK_INT(life.governor.step, 0);
    CHECK_INT(life.governor.stretch, 0);
}

TEST(each_step_is_cheaper_and_the_order_is_idle_rate_processes)
{
    struct fp_governed before = fp_governed(0);

    CHECK(!before.coalesce_idle && before.interval_factor == 1 && before.top_divisor == 1);
    CHECK(fp_governed(1).coalesce_idle && fp_governed(1).interval_factor == 1);
    CHECK_INT(fp_governed(2).interval_factor, 2);
    CHECK_INT(fp_governed(5).interval_factor, 16);
    CHECK_INT(fp_governed(5).top_divisor, 1);
    CHECK_INT(fp_governed(8).top_divisor, 8);
    for (uint32_t step = 1; step < FP_GOVERNOR_STEPS; step++)
        CHECK(cost(step, SECOND) < cost(step - 1, SECOND));
}

/* ------------------------------------------------------------ the pass -- */

/* 1.1 % for sampling; passes over half a million to four million processes, of 250 ns each: 2.5 to
 * 20 % of a core every five seconds. The first one, of up to 50 seconds of budget, is paid back by
 * the ticks of the first minute, and no others are lost to it. */
TEST(a_dear_pass_is_stretched_and_paid_back_by_the_first_ticks)
{
    static const int64_t million_processes[] = {1, 2, 4, 8};

    for (size_t i = 0; i < 4; i++) {
        struct program program = {SECOND * 11 / 1000, million_processes[i] * 1000000 * 250 / 2};

        begin(20, program.pass);
        live_as(60, program);
        CHECK(life.used.total_ns <= 60 * SECOND * 20 / 1000);
        live_as(120, program);
        CHECK(fp_governed(life.governor.step).interval_factor == 1);
        CHECK(fp_governed(life.governor.step).top_divisor == 1);
        CHECK(life.governor.stretch > 0 || program.pass < SECOND / 5);
    }
}

TEST(the_pass_is_stretched_before_ticks_and_processes_go)
{
    uint32_t stretched = 0;

    begin(20, 0);
    for (int i = 0; i < 300; i++) {
        uint32_t step = life.governor.step, stretch = life.governor.stretch;

        live_as(1, (struct program){SECOND * 90 / 1000, SECOND * 5 / 10});
        if (life.governor.step > step)
            CHECK(life.governor.stretch >= 4); /* 6 ms or less of 20 */
        stretched += life.governor.stretch > stretch ? life.governor.stretch - stretch : 0;
    }
    CHECK(stretched >= 4);
    CHECK(life.governor.step > 0);
}

/* What the pass does not use cannot be saved there. */
TEST(a_cheap_pass_is_never_stretched)
{
    begin(20, SECOND / 500);
    live_as(300, (struct program){SECOND / 5, SECOND / 500});
    CHECK_INT(life.governor.stretch, 0);
    CHECK(life.governor.step > 0);
}

TEST(a_pass_that_fits_again_is_no_longer_stretched)
{
    begin(20, SECOND * 3 / 10);
    CHECK(life.governor.stretch >= 3);
    live_as(600, (struct program){SECOND / 1000, SECOND / 100});
    CHECK_INT(life.governor.stretch, 0);
}

/* What was saved of the whole budget is not spent as half of it. */
TEST(half_of_a_budget_is_kept_from_then_on)
{
    int64_t before;

    begin(20, 0);
    live(60, 0);
    life.governor.permille = 10;
    before = life.used.total_ns;
    live(60, SECOND * 10 / 100);
    CHECK(life.used.total_ns - before <= (60 + 10 + 60) * SECOND / 100);
    CHECK(life.governor.step > 0);
}

/* As when a second session begins: what was used of the whole budget was allowed. */
TEST(half_of_a_budget_is_no_debt_of_the_minute_before)
{
    int64_t before;

    begin(20, 0);
    live(60, SECOND * 16 / 1000);
    CHECK_INT(life.governor.step, 0);
    life.governor.permille = 10;
    before = life.used.total_ns;
    for (int i = 0; i < 60; i++) {
        live(1, SECOND * 16 / 1000);
        CHECK(life.governor.step <= 3);
    }
    CHECK(life.governor.step > 0);
    CHECK(life.used.total_ns - before <= 60 * SECOND / 100);
}

/* Steps that three seconds of the budget within a tenth of a second take, after as many of `ticks`
 * and until a minute after. */
static uint32_t steps_of_a_burst(int seconds, int64_t ticks)
{
    uint32_t step;

    begin(20, 0);
    live(seconds, ticks);
    life.now += SECOND / 10;
    life.used.total_ns += 3 * SECOND * 20 / 1000;
    CHECK(fp_governor_is_due(&life.governor, life.now, life.used.total_ns));
    fp_governor_update(&life.governor, life.now, life.used);
    step = life.governor.step;
    live(60, ticks);
    CHECK(life.governor.step <= step);
    return step;
}

TEST(a_burst_is_no_rate)
{
    for (int seconds = 0; seconds <= 90; seconds += 10) {
        CHECK(steps_of_a_burst(seconds, SECOND * 9 / 1000) <= 1);
        /* No room for a second such second: steps to a third of it. */
        CHECK(steps_of_a_burst(seconds, SECOND * 16 / 1000) <= 3);
    }
}

/* A try that failed makes the next one wait, but not those after one that did not. */
TEST(a_step_back_that_holds_ends_the_longer_wait)
{
    int waited[2] = {0, 0};

    begin(20, 0);
    life.governor.step = 3;
    life.governor.raise_after_ns = 60 * SECOND;
    for (int i = 0; i < 2; i++) {
        uint32_t step = life.governor.step;

        while (life.governor.step == step && waited[i] < 100) {
            live(1, SECOND / 1000);
            waited[i]++;
        }
    }
    CHECK_INT(waited[0], 60);
    CHECK_INT(waited[1], 10);
    CHECK_INT(life.governor.step, 1);
}

TEST(a_pass_takes_its_interval_at_any_rate_of_ticks)
{
    struct fp_governor governor = {.permille = 20};

    CHECK_INT(fp_governor_slots(&governor, 1u << 21, 5000, 10000000), 4195);
    governor.stretch = 3;
    CHECK_INT(fp_governor_slots(&governor, 1u << 21, 5000, 10000000), 525);
    CHECK_INT(fp_governor_slots(&governor, 1u << 21, 5000, 160000000), 8389);
    CHECK_INT(fp_governor_slots(&governor, 1u << 21, 100, INT64_C(60000000000)), 1u << 21);
    CHECK_INT(fp_governor_slots(&governor, 8, 86400000, 1000000), 1);
}

/* ---------------------------------------------------------- any minute -- */

#define LIFE_S 900
#define PER_SECOND 10

/* Programs of any cost, up to eight times the budget, which changes at any second, with a first
 * pass of up to 45 seconds of budget and others, and what the first step saves known to nobody. */
static void live_a_life(uint64_t seed)
{
    static const uint32_t budgets[] = {10, 20, 50, 100};
    static int64_t used[LIFE_S * PER_SECOND + 1];
    uint64_t random = seed;
    uint32_t permille = budgets[run_below(&random, 4)], merged = 500 + run_below(&random, 500);
    int64_t rate = SECOND * permille / 1000, full = 0, pass;

    pass = rate * run_below(&random, 45000) / 1000;
    begin(permille, pass);
    if (run_below(&random, 3) == 0)
        pass /= 10; /* it was the first one that was dear */
    used[0] = 0;
    for (int i = 1; i <= LIFE_S * PER_SECOND; i++) {
        int64_t of_pass =
            pass * 1000 / ((int64_t)INTERVAL_MS << life.governor.stretch) / PER_SECOND;
        struct fp_governed governed = fp_governed(life.governor.step);
        int begin_at = i < 60 * PER_SECOND ? 0 : i - 60 * PER_SECOND;

        if (i == 1 || run_below(&random, 40 * PER_SECOND) == 0)
            full = rate * run_below(&random, run_below(&random, 4) == 0 ? 8000 : 1500) / 1000;
        life.now += SECOND / PER_SECOND;
        life.used.pass_ns += of_pass;
        life.used.total_ns += of_pass + full * (90 + run_below(&random, 20)) / 100 / PER_SECOND *
                                            (governed.coalesce_idle ? merged : 1000) / 1000 /
                                            governed.interval_factor / governed.top_divisor;
        if (fp_governor_is_due(&life.governor, life.now, life.used.total_ns))
            fp_governor_update(&life.governor, life.now, life.used);
        used[i] = life.used.total_ns;
        if (used[i] - used[begin_at] > 60 * rate)
            RUN_FAIL("seed %llu: from %d s on, %lld us of %lld", (unsigned long long)seed,
                     begin_at / PER_SECOND, (long long)(used[i] - used[begin_at]) / 1000,
                     (long long)(60 * rate / 1000));
    }
}

TEST(no_minute_of_any_session_is_above_the_budget)
{
    for (uint64_t seed = 1; seed <= 300; seed++)
        live_a_life(seed);
}

/* Half of a second of the first selection, which is 25 s of the budget, as of 1.2 million
 * processes, and sampling that would fit alone. */
TEST(the_first_selection_is_paid_back_within_the_first_minute)
{
    int64_t at_half;

    begin(20, SECOND / 2);
    live_as(30, (struct program){SECOND * 15 / 1000, SECOND / 10});
    at_half = life.used.total_ns;
    CHECK(at_half < SECOND / 2 + 30 * SECOND * 11 / 1000);
    live_as(30, (struct program){SECOND * 15 / 1000, SECOND / 10});
    CHECK(life.used.total_ns <= 60 * SECOND * 20 / 1000);
    /* And then it is forgotten. */
    live_as(120, (struct program){SECOND * 15 / 1000, SECOND / 10});
    CHECK_INT(fp_governed(life.governor.step).interval_factor, 1);
}
