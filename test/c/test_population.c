/* test_population.c - which processes have the flag that tells their collections, against a world
 * of processes whose flags the test sets and takes as the VM does. */
#include <math.h>

#include "base/error.h"
#include "fake_vm.h"
#include "mean.h"
#include "test.h"
#include "tracer/allocations.h"
#include "tracer/population.h"

#define LIMIT 4096u
#define MANY 1000u
#define VERY_MANY 3500u
#define ROOM 3600u
#define MS INT64_C(1000000)

static struct fake_vm vm;
static uint64_t random_state = 7;

/* What the VM and the owner know of process n. */
struct fixture {
    struct fp_population *population;
    struct fp_turns *turns;
    uint64_t pid[ROOM], reductions[ROOM], words[ROOM];
    double counted[ROOM];
    int has_flag[ROOM];
    uint32_t count, set; /* flags that were set */
    uint64_t born;       /* with the flag */
    int is_on;           /* new ones have it */
    int64_t asked_for;
    uint32_t births;
    int64_t now;
    double rest;
};

static struct fp_births_count births_of(const struct fixture *world)
{
    return (struct fp_births_count){.all = world->births, .born = world->born};
}

static void be_born(struct fixture *world, uint32_t n, int has_flag)
{
    world->pid[n] = fake_spawn(&vm, n, FAKE_JIT);
    world->has_flag[n] = has_flag;
    world->reductions[n] = 0;
    if (n >= world->count)
        world->count = n + 1;
}

/* In the place of one that has gone: its pid is 4,096 more than the last one's there. */
static void be_born_again(struct fixture *world, uint32_t n)
{
    uint64_t last = world->pid[n] != 0 ? world->pid[n] : fake_pid(&vm.layout, n);

    be_born(world, n, world->is_on);
    world->pid[n] = last + (LIMIT << 4);
    fake_set(&vm, n, FP_FIELD_id, world->pid[n]);
    world->born += (uint64_t)world->is_on;
    world->births++;
}

static void die(struct fixture *world, uint32_t n)
{
    fake_exit(&vm, n);
    world->has_flag[n] = 0;
}

static struct fixture *create(uint32_t count)
{
    struct fixture *world = calloc(1, sizeof *world);
    static uint64_t seed;

    fake_vm_create(&vm, 27, LIMIT, ROOM);
    for (uint32_t n = 1; n < count; n++)
        be_born(world, n, 0);
    world->now = 1000 * MS;
    world->is_on = 1;
    vm.layout.births = 1;
    world->births = UINT32_MAX - 1000; /* it wraps */
    CHECK_INT(fp_turns_create(&world->turns, &vm.layout, &vm.memory.reader, 65536, 1), 0);
    CHECK_INT(fp_population_create(&world->population, &vm.layout, &vm.memory.reader, ++seed,
                                   world->now, &(struct fp_births_count){.all = world->births}),
              0);
    return world;
}

static void destroy(struct fixture *world)
{
    fp_population_destroy(world->population);
    fp_turns_destroy(world->turns);
    fake_vm_destroy(&vm);
    free(world);
}

static uint32_t number_of(const struct fixture *world, uint64_t pid)
{
    for (uint32_t n = 1; n < world->count; n++)
        if (world->pid[n] == pid)
            return n;
    RUN_FAIL("a pid that is no process: %llx", (unsigned long long)pid);
    return 0;
}

static int look_at(struct fixture *world)
{
    struct fp_births_count count = births_of(world);

    return fp_population_look(world->population, world->turns, world->now, &count);
}

/* The owner sets what is due, `most` at a time. */
static uint32_t set_due(struct fixture *world, uint32_t most)
{
    uint64_t pid[ROOM];
    struct fp_population_seen seen = {.words = world->rest, .births = births_of(world)};
    uint32_t n = fp_population_due(world->population, world->now, &seen, pid, most);

    for (uint32_t i = 0; i < n; i++)
        world->has_flag[number_of(world, pid[i])] = 1;
    world->set += n;
    return n;
}

static void poll(struct fixture *world)
{
    struct fp_population_seen seen = {.words = world->rest, .births = births_of(world)};
    enum fp_births_switch what;
    uint32_t ask_ms;

    while ((what = fp_population_switch(world->population, world->now, &seen, &ask_ms)) !=
           FP_BIRTHS_KEEP)
        world->is_on = what == FP_BIRTHS_ON;
    world->asked_for = ask_ms > 0 ? world->now + ask_ms * MS : INT64_MAX;
    if (fp_population_wants_look(world->population, world->now))
        CHECK(look_at(world) >= 0);
    while (set_due(world, 100) > 0)
        ;
}

static void begin(struct fixture *world)
{
    int ms;

    while ((ms = look_at(world)) > 0)
        world->now += ms * MS;
    CHECK_INT(ms, 0);
    while (set_due(world, 100) > 0)
        ;
}

static void work(struct fixture *world, uint32_t n, uint64_t reductions)
{
    world->reductions[n] += reductions;
    fake_set(&vm, n, FP_FIELD_reds, world->reductions[n]);
}

/* It is scheduled in, works, and has a collection of so many words. */
static void run(struct fixture *world, uint32_t n, uint64_t reductions, uint64_t words)
{
    if (world->has_flag[n] && !fp_population_keeps(world->population, world->pid[n]))
        world->has_flag[n] = 0;
    work(world, n, reductions);
    world->words[n] += words;
    if (world->has_flag[n]) {
        double weight = fp_population_weight(world->population, world->pid[n]);

        world->counted[n] += weight * (double)words;
        if (weight > 1)
            world->rest += weight * (double)words;
    }
}

static uint32_t flags(const struct fixture *world)
{
    uint32_t sum = 0;

    for (uint32_t n = 1; n < world->count; n++)
        sum += world->has_flag[n];
    return sum;
}

/* Each `period` ms some process's turn comes; all run equally often. */
static void run_all(struct fixture *world, uint32_t rounds, uint64_t reductions, uint64_t words)
{
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t n = 1; n < world->count; n++)
            run(world, n, reductions, words);
        world->now += 20 * MS;
        poll(world);
    }
}

/* ------------------------------------------------------------------- few -- */

TEST_WITH(few_processes_all_have_the_flag_once, create(200))
{
    CHECK(fp_population_wants_look(f->population, f->now));
    begin(f);
    CHECK_INT(flags(f), 199);
    CHECK_INT(f->now, 1000 * MS);
    run_all(f, 100, 10, 5);
    CHECK_INT(f->set, 199);
    for (uint32_t n = 1; n < f->count; n++)
        CHECK(f->counted[n] == (double)f->words[n]);
}

/* ------------------------------------------------------------------ many -- */

TEST_WITH(of_many_a_group_stands_for_all, create(MANY))
{
    begin(f);
    CHECK_INT(f->now, 1100 * MS);
    CHECK(flags(f) > 100 && flags(f) < 150);
    /* Each round is 20 ms, each group's time 25 rounds and a little more: 8 groups. */
    run_all(f, 8 * 26 * 20, 10, 5);
    CHECK(flags(f) < 300);
    for (uint32_t n = 1; n < f->count; n++) {
        double part = f->counted[n] / (double)f->words[n];

        CHECK(part > 0.9 && part < 1.1);
    }
}

TEST_WITH(each_kind_that_is_born_in_a_pattern_has_its_part_of_each_group, create(MANY))
{
    begin(f);
    for (uint32_t every = 2; every <= 8; every++) {
        double current = 0, all = 0;

        for (uint32_t n = 1; n < f->count; n += every, all++)
            current += fp_population_weight(f->population, f->pid[n]) / 8;
        if (fabs(current - all / 8) > 3)
            RUN_FAIL("of each %uth process %g are current, of %g", every, current, all);
    }
}

TEST_WITH(flags_are_set_before_a_group_is_current, create(MANY))
{
    uint32_t had = 0;

    begin(f);
    for (uint32_t round = 0; round < 2000; round++) {
        if (fp_population_wants_look(f->population, f->now))
            CHECK_INT(look_at(f), 0);
        set_due(f, 7);
        for (uint32_t n = 1; n < f->count; n++) {
            double weight = fp_population_weight(f->population, f->pid[n]);

            CHECK(weight == 0 || weight == 8);
            CHECK(weight == 0 || f->has_flag[n]);
            if (f->has_flag[n] && !fp_population_keeps(f->population, f->pid[n])) {
                f->has_flag[n] = 0;
                had++;
            }
        }
        f->now += 20 * MS;
    }
    CHECK(had > MANY);
}

/* ---------------------------------------------------------------- choice -- */

TEST_WITH(who_does_much_of_the_work_always_has_the_flag, create(MANY))
{
    double was;

    begin(f);
    for (uint32_t round = 0; round < 60; round++) {
        run(f, 17, 5000, 5);
        run_all(f, 1, 10, 5);
    }
    CHECK(f->has_flag[17]);
    CHECK(fp_population_weight(f->population, f->pid[17]) == 1);
    was = f->counted[17];
    for (uint32_t round = 0; round < 500; round++) {
        run(f, 17, 5000, 5);
        run_all(f, 1, 10, 5);
    }
    /* run_all() runs it, too. */
    CHECK(f->counted[17] - was == 500 * 10);
    run_all(f, 60, 10, 5);
    CHECK(fp_population_weight(f->population, f->pid[17]) != 1);
}

static int is_chosen(uint32_t count)
{
    struct fixture *world = create(count);
    int chosen = 0;

    begin(world);
    for (uint32_t round = 0; round < 60; round++) {
        run(world, 17, 10 * count / 400, 5);
        run_all(world, 1, 10, 5);
    }
    chosen = fp_population_weight(world->population, world->pid[17]) == 1;
    destroy(world);
    return chosen;
}

TEST(what_is_much_of_the_work_is_less_where_one_stands_for_more)
{
    CHECK(!is_chosen(MANY));
    CHECK(is_chosen(VERY_MANY));
}

TEST_WITH(it_counts_for_itself_alone_once_its_flag_is_set, create(MANY))
{
    uint32_t n = 1;

    begin(f);
    while (f->has_flag[n])
        n++;
    work(f, n, 1000000);
    f->now += 600 * MS;
    CHECK_INT(look_at(f), 0);
    CHECK(fp_population_weight(f->population, f->pid[n]) == 0);
    while (set_due(f, 10) > 0 && !f->has_flag[n])
        CHECK(fp_population_weight(f->population, f->pid[n]) == 0);
    CHECK(f->has_flag[n]);
    CHECK(fp_population_weight(f->population, f->pid[n]) == 0);
    while (set_due(f, 10) > 0)
        ;
    CHECK(fp_population_weight(f->population, f->pid[n]) == 1);
}

TEST_WITH(a_large_heap_always_has_the_flag, create(MANY))
{
    fake_set(&vm, 33, FP_FIELD_hend, fake_heap_at(33) + (1u << 20));
    begin(f);
    CHECK(f->has_flag[33]);
    run_all(f, 300, 10, 5);
    CHECK(fp_population_weight(f->population, f->pid[33]) == 1);
    CHECK(f->counted[33] == (double)f->words[33]);
}

TEST_WITH(who_is_new_counts_for_itself_until_it_is_seen, create(MANY))
{
    begin(f);
    be_born(f, 1100, 1);
    f->count = 1101;
    CHECK(fp_population_weight(f->population, f->pid[1100]) == 1);
    CHECK(fp_population_keeps(f->population, f->pid[1100]));
    f->now += 600 * MS;
    poll(f);
    CHECK(fp_population_weight(f->population, f->pid[1100]) != 1);
    /* One that does much in its first moments. */
    be_born(f, 1101, 1);
    work(f, 1101, 1000000);
    f->now += 600 * MS;
    CHECK_INT(look_at(f), 0);
    CHECK(fp_population_weight(f->population, f->pid[1101]) == 1);
}

/* Another tracer has the new processes. */
TEST_WITH(who_is_born_without_the_flag_that_it_should_have_gets_it, create(200))
{
    begin(f);
    f->is_on = 0;
    for (uint32_t n = 200; n < 240; n++)
        be_born_again(f, n);
    CHECK_INT(flags(f), 199);
    f->now += 600 * MS;
    poll(f);
    CHECK_INT(flags(f), 239);
}

TEST_WITH(processes_in_turns_are_left_to_these, create(100))
{
    fp_turns_join(f->turns, f->pid[5]);
    begin(f);
    CHECK(!f->has_flag[5]);
    CHECK_INT(flags(f), 98);
}

/* --------------------------------------------------------------- numbers -- */

TEST_WITH(when_many_become_few_all_have_the_flag, create(MANY))
{
    begin(f);
    for (uint32_t n = 101; n < MANY; n++)
        fake_exit(&vm, n);
    f->count = 101;
    run_all(f, 60, 10, 5);
    CHECK_INT(flags(f), 100);
    for (uint32_t n = 1; n < f->count; n++)
        CHECK(fp_population_weight(f->population, f->pid[n]) == 1);
}

TEST_WITH(a_table_that_cannot_be_read_changes_nothing, create(MANY))
{
    uint64_t table;

    begin(f);
    table = vm.layout.process_table;
    vm.layout.process_table = 0x1000;
    f->now += 600 * MS;
    CHECK_INT(look_at(f), FP_EFAULT);
    CHECK_INT(set_due(f, 100), 0);
    CHECK(!fp_population_wants_look(f->population, f->now));
    vm.layout.process_table = table;
    f->now += 600 * MS;
    poll(f);
    run_all(f, 300, 10, 5);
}

/* ------------------------------------------------------------------ truth -- */

/* A thousand processes of five kinds, that do more at some times than at others; process 10 does
 * much, and process 20 begins to. */
static uint64_t words_of(uint32_t n, uint32_t round)
{
    if (n == 10)
        return 20000;
    if (n == 20)
        return round > 400 ? 30000 : 0;
    return (n % 5) * (20 + (round / 40 % 2) * 20) + run_random(&random_state) % 50;
}

TEST(sums_are_right_in_the_mean_and_so_is_their_variance)
{
    struct mean mean = {0};
    double claimed = 0;

    for (uint32_t i = 0; i < 40; i++) {
        struct fixture *world = create(MANY);
        double all = 0, counted = 0, error;

        CHECK(look_at(world) > 0);
        for (uint32_t n = 1; n < MANY; n++)
            work(world, n, 1 + words_of(n, 0));
        world->now += 100 * MS;
        begin(world);
        for (uint32_t round = 0; round < 1000; round++) {
            for (uint32_t n = 1; n < MANY; n++)
                if ((n + round) % 4 == 0 || n == 10 || n == 20) {
                    uint64_t words = words_of(n, round);

                    run(world, n, 1 + words, words);
                }
            world->now += 20 * MS;
            poll(world);
        }
        for (uint32_t n = 1; n < MANY; n++) {
            all += (double)world->words[n];
            counted += world->counted[n];
        }
        error = counted - all;
        mean_add(&mean, error / all);
        claimed += fp_population_variance(world->population) / all / all;
        /* It was looked half a second later: what process 20 did until then is chance. */
        CHECK(fabs(error) < 0.1 * all);
        CHECK(fabs(world->counted[10] / (double)world->words[10] - 1) < 0.01);
        destroy(world);
    }
    mean_is_none(&mean, "words", 0);
    /* Not below what it is, but for chance. */
    if (claimed < mean.squares / 2)
        RUN_FAIL("a variance of %g is reported as %g", mean.squares / mean.n, claimed / mean.n);
}

/* Two hundred processes that stay, and 3,000 a second that live for 0.8 s, some of them for 8 s.
 * What they do first is more than what they do later. */
TEST(sums_are_right_in_the_mean_where_many_are_born)
{
    enum { STAY = 200, SHORT = 2600, LONG = 3400, EACH = 15 };
    struct mean mean = {0};
    double claimed = 0;

    for (uint32_t i = 0; i < 40; i++) {
        struct fixture *world = create(STAY);
        double all = 0, counted = 0, error, gone_words = 0, gone_counted = 0;
        uint32_t birth[ROOM] = {0}, next_short = STAY, next_long = SHORT;
        double heaviest = 0;
        uint64_t unseen;

        unseen = fake_pid(&vm.layout, LIMIT - 5);
        begin(world);
        for (uint32_t round = 0; round < 1600; round++) {
            for (uint32_t b = 0; b < EACH; b++) {
                uint32_t n = b == 0 && round % 2 == 0 ? next_long++ : next_short++;

                if (next_long == LONG)
                    next_long = SHORT;
                if (next_short == SHORT)
                    next_short = STAY;
                gone_words += (double)world->words[n];
                gone_counted += world->counted[n];
                world->words[n] = 0;
                world->counted[n] = 0;
                if (world->pid[n] != 0)
                    die(world, n);
                be_born_again(world, n);
                birth[n] = round;
            }
            for (uint32_t n = 1; n < world->count; n++)
                if (world->pid[n] != 0 && (n + round) % 12 == 0) {
                    uint64_t words = n < STAY ? 40 : round - birth[n] < 16 ? 90 : 10;

                    run(world, n, 1 + words, words + run_random(&random_state) % 20);
                }
            world->now += 5 * MS + (int64_t)(run_random(&random_state) % 100000);
            if (round % 4 == 0 || world->now >= world->asked_for)
                poll(world);
            heaviest = fmax(heaviest, fp_population_weight(world->population, unseen));
        }
        CHECK(heaviest > 3);
        for (uint32_t n = 1; n < world->count; n++) {
            all += (double)world->words[n];
            counted += world->counted[n];
        }
        all += gone_words;
        error = counted + gone_counted - all;
        mean_add(&mean, error / all);
        claimed += fp_population_variance(world->population) / all / all;
        CHECK(fabs(error) < 0.2 * all);
        destroy(world);
    }
    mean_is_none(&mean, "words", 0);
    if (claimed < mean.squares / 2)
        RUN_FAIL("a variance of %g is reported as %g", mean.squares / mean.n, claimed / mean.n);
}
