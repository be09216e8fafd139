/* test_share.c - the share of the processes that is traced: who is in it, for how many each stands,
 * and when it becomes smaller. */
#include <math.h>

#include "broken.h"
#include "fake_vm.h"
#include "mean.h"
#include "test.h"
#include "tracer/pace.h"
#include "tracer/share.h"

#define PIDS 4096u
#define MS INT64_C(1000000)

static struct fp_layout layout;

struct fixture {
    struct fp_share share;
    int64_t now;
};

static struct fixture *create(uint64_t seed)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct fake_vm vm;

    fake_vm_create(&vm, 27, PIDS, 1);
    layout = vm.layout;
    fake_vm_destroy(&vm);
    fp_share_init(&f->share, &layout, seed);
    f->now = 1000 * MS;
    return f;
}

static void destroy(struct fixture *f)
{
    free(f);
}

static double weight(const struct fixture *f, uint32_t n)
{
    return fp_share_weight(&f->share, fake_pid(&layout, n));
}

/* Of every `step`th process: what they stand for. */
static double stand_for(const struct fixture *f, uint32_t step)
{
    double all = 0;

    for (uint32_t n = 0; n < PIDS; n += step)
        all += weight(f, n);
    return all;
}

static uint32_t press(struct fixture *f, uint32_t pressure, uint64_t processes)
{
    f->now += 10 * MS;
    fp_share_press(&f->share, pressure, f->now, processes);
    return fp_share_of(&f->share);
}

TEST_WITH(all_processes_are_traced_of_a_node_that_has_not_many, create(1))
{
    fp_share_fit(&f->share, FP_SHARE_MOST);
    CHECK_INT(fp_share_of(&f->share), 1);
    for (uint32_t n = 0; n < PIDS; n++)
        CHECK_INT((int)weight(f, n), 1);
}

TEST_WITH(many_processes_have_a_share_of_no_more_than_the_most, create(1))
{
    fp_share_fit(&f->share, FP_SHARE_MOST + 1);
    CHECK_INT(fp_share_of(&f->share), 2);
    fp_share_fit(&f->share, 16 * FP_SHARE_MOST);
    CHECK_INT(fp_share_of(&f->share), 16);
    fp_share_fit(&f->share, 1u << 27);
    CHECK_INT(fp_share_of(&f->share), 1u << 14);
}

/* All of them, every second and every third one. */
TEST(each_kind_of_process_stands_for_as_many_as_it_has)
{
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct fixture *f = create(seed);

        fp_share_fit(&f->share, 8 * FP_SHARE_MOST);
        for (uint32_t step = 1; step <= 3; step++) {
            double all = stand_for(f, step), due = (PIDS + step - 1) / step;

            CHECK(fabs(all - due) <= 4 * 8);
        }
        destroy(f);
    }
}

TEST(a_process_has_its_words_in_the_mean)
{
    struct mean mean[3] = {{0}};
    const uint32_t process[] = {3, 4, 4000};

    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct fixture *f = create(seed);

        fp_share_fit(&f->share, 4 * FP_SHARE_MOST);
        for (uint32_t i = 0; i < 3; i++)
            mean_add(&mean[i], weight(f, process[i]) - 1);
        destroy(f);
    }
    for (uint32_t i = 0; i < 3; i++)
        mean_is_none(&mean[i], "weight", 1e-9);
}

TEST_WITH(a_smaller_share_is_a_part_of_the_one_before, create(5))
{
    double before[PIDS];

    for (uint32_t k = 0; k < 6; k++) {
        for (uint32_t n = 0; n < PIDS; n++)
            before[n] = weight(f, n);
        press(f, 255, PIDS);
        CHECK_INT(fp_share_of(&f->share), 2u << k);
        for (uint32_t n = 0; n < PIDS; n++)
            CHECK(weight(f, n) == 0 || weight(f, n) == 2 * before[n]);
    }
}

TEST_WITH(pressure_that_is_low_or_falls_leaves_it_as_it_is, create(1))
{
    CHECK_INT(press(f, FP_SHARE_PRESSURE - 1, PIDS), 1);
    CHECK_INT(press(f, 200, PIDS), 2);
    CHECK_INT(press(f, 199, PIDS), 2);
    CHECK_INT(press(f, 150, PIDS), 2);
    CHECK_INT(press(f, 150, PIDS), 4);
}

/* A process outside of the new share costs events until it is scheduled in: that alone makes the
 * share no smaller. */
TEST_WITH(a_step_has_time_to_take_effect, create(1))
{
    press(f, 100, PIDS);
    for (uint32_t i = 0; i < 4; i++) {
        f->now += MS;
        fp_share_press(&f->share, 255, f->now, PIDS);
        CHECK_INT(fp_share_of(&f->share), 2);
    }
    CHECK_INT(press(f, 255, PIDS), 4);
}

TEST_WITH(few_processes_are_left_to_the_limit, create(1))
{
    CHECK_INT(press(f, 255, 2 * FP_SHARE_LEAST - 1), 1);
    CHECK_INT(press(f, 255, 2 * FP_SHARE_LEAST), 2);
    CHECK_INT(press(f, 255, 2 * FP_SHARE_LEAST), 2);
}

TEST_WITH(the_variance_is_by_sums_of_groups, create(1))
{
    double words[FP_SHARE_GROUPS] = {0};
    uint32_t n = FP_SHARE_GROUPS;

    words[3] = n;
    CHECK(fp_share_variance(&f->share, words) == 0); /* all are traced */
    fp_share_fit(&f->share, 4 * FP_SHARE_MOST);
    /* Mean 1: (n - 1)^2 + (n - 1). */
    CHECK(fabs(fp_share_variance(&f->share, words) - 0.75 * n * n) < 1e-6);
    for (uint32_t i = 0; i < n; i++)
        words[i] = 7;
    CHECK(fabs(fp_share_variance(&f->share, words)) < 1e-6);
}

TEST_WITH(groups_have_as_many_processes_in_the_mean, create(3))
{
    uint32_t of[FP_SHARE_GROUPS] = {0};

    fp_share_fit(&f->share, 4 * FP_SHARE_MOST);
    for (uint32_t n = 0; n < PIDS; n++)
        if (weight(f, n) > 0)
            of[fp_share_group(&f->share, fake_pid(&layout, n))]++;
    for (uint32_t i = 0; i < FP_SHARE_GROUPS; i++)
        CHECK(of[i] > 8 && of[i] < 72); /* of 1,024: 32 */
}

TEST_WITH(a_share_smaller_than_the_smallest_is_a_broken_invariant, create(1))
{
    struct fp_pace pace = {.every = 1, .least = 2};

    atomic_store(&f->share.k, 40);
    CHECK_BROKEN("tracer/share.c", CHECK(fp_share_weight(&f->share, 77) == 1));
    CHECK_BROKEN("tracer/pace.c", CHECK(fp_pace_chance(&pace, 1000, 1, pace.since_ns) == 1));
}
