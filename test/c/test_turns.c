/* test_turns.c - the words of a process that is traced in turns, against a program whose words the
 * test has counted itself. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "erts/process.h"
#include "fake_vm.h"
#include "mean.h"
#include "test.h"
#include "tracer/turns.h"

#define LIMIT 1024u
#define CODE (FAKE_JIT + 0x1000)
#define MEAN 65536u

static struct fake_vm vm;
static struct fp_share all; /* each process is of it */
static uint64_t random_state = 7;

/* A process, and the flag that the VM has for it. */
struct fixture {
    struct fp_turns *turns;
    uint32_t n;
    uint64_t pid, words, open, reductions, flagged_slices, slices;
    double told, variance;
    int has_flag;
};

static struct fixture *create(uint64_t seed, uint64_t life)
{
    struct fixture *program = calloc(1, sizeof *program);

    fake_vm_create(&vm, 27, LIMIT, 8);
    fake_vm_add_jit(&vm);
    program->n = 1;
    program->pid = fake_spawn(&vm, 1, CODE);
    program->reductions = life;
    fake_set(&vm, 1, FP_FIELD_reds, life);
    program->has_flag = 1;
    CHECK_INT(fp_turns_create(&program->turns, &vm.layout, &vm.memory.reader, MEAN, seed), 0);
    fp_turns_join(program->turns, program->pid);
    return program;
}

static void destroy(struct fixture *program)
{
    fp_turns_destroy(program->turns);
    fake_vm_destroy(&vm);
    free(program);
}

/* Scheduled in, so many words for 100 reductions, and out. Each `window` words are a collection. */
static void slice(struct fixture *program, uint64_t words_of_100, uint64_t window)
{
    uint64_t reductions = 20 + run_random(&random_state) % 200;
    struct fp_turn *turn = fp_turns_find(program->turns, program->pid);

    program->slices++;
    program->flagged_slices += (uint64_t)program->has_flag;
    if (program->has_flag && turn != NULL)
        program->has_flag = fp_turn_keeps(program->turns, turn, &program->told, &program->variance);
    turn = fp_turns_find(program->turns, program->pid);
    for (uint64_t left = reductions * words_of_100 / 100; left-- > 0;) {
        program->words++;
        if (++program->open < window)
            continue;
        if (program->has_flag) {
            double weight = turn == NULL ? 1 : fp_turn_weight(turn);

            program->told += weight * (double)window;
            if (turn != NULL && weight > 0)
                fp_turn_count(turn, (double)window);
        }
        program->open = 0;
    }
    program->reductions += reductions;
    fake_set(&vm, program->n, FP_FIELD_reds, program->reductions);
}

static void poll(struct fixture *program)
{
    uint64_t pids[4];

    if (fp_turns_poll(program->turns, &all, pids, 4) == 1) {
        CHECK(pids[0] == program->pid);
        program->has_flag = 1;
    }
}

static double error_of(struct fixture *program)
{
    poll(program);
    return (program->told + fp_turns_debt(program->turns) + (double)program->open) /
               (double)program->words -
           1;
}

/* While it is traced it does a half: the poll, by the clock, comes after as many slices. */
static void work(struct fixture *program, uint32_t slices, int changes)
{
    uint32_t ms = 0;

    for (uint32_t k = 0; k < slices; k++) {
        uint64_t words = changes && k / 3000 % 2 ? 300 : 100;

        slice(program, words - 50 + run_random(&random_state) % 100, 400);
        ms += program->has_flag ? 2 : 1;
        if (ms < 200)
            continue;
        ms = 0;
        poll(program);
    }
}

static void check_runs(int changes, double largest)
{
    struct mean mean = {0};

    for (uint32_t seed = 1; seed <= 60; seed++) {
        struct fixture *program = create(seed * 7919, 100000000);
        double error;

        work(program, 100000, changes);
        error = error_of(program);
        CHECK(program->flagged_slices * 8 < program->slices);
        CHECK(fabs(error) < largest);
        mean_add(&mean, error);
        destroy(program);
    }
    mean_is_none(&mean, "words", 0);
}

TEST(the_words_of_turns_stand_for_all_words_though_tracing_slows)
{
    check_runs(0, 0.05);
}

TEST(words_for_a_reduction_that_change_are_right_in_the_mean)
{
    check_runs(1, 0.5);
}

/* It ends in the middle of a gap as well as at its end: too many words as often as too few. */
TEST(of_short_lives_the_sum_is_right)
{
    double words = 0, told = 0;

    for (uint32_t seed = 1; seed <= 300; seed++) {
        struct fixture *program = create(seed * 7919, 5000);

        work(program, 300 + (uint32_t)(run_random(&random_state) % 2000), 0);
        words += (double)program->words;
        told += program->told + (double)program->open;
        destroy(program);
    }
    CHECK(fabs(told / words - 1) < 0.04);
}

TEST_WITH(one_with_large_windows_leaves, create(1, 100000000))
{
    for (uint32_t k = 0; k < 20000 && fp_turns_find(f->turns, f->pid) != NULL; k++) {
        slice(f, 1000, MEAN);
        if (k % 100 == 0)
            poll(f);
    }
    CHECK(fp_turns_find(f->turns, f->pid) == NULL);
    CHECK(f->has_flag);
}

TEST_WITH(in_a_gap_it_has_no_weight_and_its_flag_goes_again, create(1, 100000000))
{
    struct fp_turn *turn;

    turn = fp_turns_find(f->turns, f->pid);
    while (f->has_flag)
        slice(f, 100, 400);
    CHECK(fp_turn_weight(turn) == 0);
    CHECK_INT(fp_turn_keeps(f->turns, turn, &f->told, &f->variance), 0);
}

/* It is in the middle of its work when it joins. */
TEST_WITH(until_its_first_turn_begins_each_word_stands_for_itself, create(1, 100000000))
{
    struct fp_turn *turn;

    turn = fp_turns_find(f->turns, f->pid);
    CHECK(fp_turn_weight(turn) == 1);
    fake_set(&vm, 1, FP_FIELD_reds, 100001000);
    poll(f);
    CHECK(fp_turns_debt(f->turns) == 0);
    CHECK_INT(fp_turn_keeps(f->turns, turn, &f->told, &f->variance), 1);
    CHECK(fp_turn_weight(turn) > 1);
}

/* Another tracer, or dbg:stop/0. What it does without the flag is known by its reductions. */
TEST_WITH(a_flag_that_another_takes_in_a_turn_comes_back_and_the_sum_is_right, create(5, 100000000))
{
    struct fp_turn *turn;
    double error;

    turn = fp_turns_find(f->turns, f->pid);
    work(f, 50000, 0);
    for (uint32_t n = 0; n < 5; n++) {
        while (!f->has_flag || fp_turn_weight(turn) == 0)
            work(f, 1, 0), poll(f);
        f->has_flag = 0;
        for (uint32_t k = 0; k < 10000 && !f->has_flag; k++) {
            slice(f, 100, 400);
            if (k % 100 == 0)
                poll(f);
        }
        CHECK(f->has_flag);
        work(f, 50000, 0);
    }
    error = error_of(f);
    if (fabs(error) > 0.05)
        RUN_FAIL("the error is %g", error);
}

TEST_WITH(one_that_is_due_is_told_again_until_it_begins, create(1, 100000000))
{
    uint64_t pid;
    uint32_t told = 0;

    while (f->has_flag)
        slice(f, 100, 400);
    f->reductions += 10000000;
    fake_set(&vm, 1, FP_FIELD_reds, f->reductions);
    for (uint32_t k = 0; k < 200; k++)
        told += fp_turns_poll(f->turns, &all, &pid, 1);
    CHECK(told >= 3 && told <= 6);
    CHECK(pid == f->pid);
}

TEST_WITH(one_that_is_not_of_the_share_leaves_in_a_gap_and_is_never_due, create(1, 100000000))
{
    struct fp_share share;
    uint64_t pid;
    uint32_t told = 0;

    for (uint64_t seed = 1; seed == 1 || fp_share_weight(&share, f->pid) > 0; seed++) {
        fp_share_init(&share, &vm.layout, seed);
        fp_share_fit(&share, 64 * FP_SHARE_MOST);
    }
    while (f->has_flag)
        slice(f, 100, 400);
    f->reductions += 10000000;
    fake_set(&vm, 1, FP_FIELD_reds, f->reductions);
    for (uint32_t k = 0; k < 200; k++)
        told += fp_turns_poll(f->turns, &share, &pid, 1);
    CHECK_INT(told, 0);
    CHECK(fp_turns_find(f->turns, f->pid) == NULL);
    CHECK(fp_turns_debt(f->turns) == 0);
}

/* The new one has the flag or not: it may be in a gap of the old one. */
TEST(a_pid_that_is_used_again_has_its_flag_and_nothing_of_the_old_one)
{
    for (int is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++) {
        struct fixture *program = create(1, 100000000);
        uint64_t pid = 0;
        uint32_t told = 0;

        while (program->has_flag)
            slice(program, 100, 400);
        if (is_elsewhere)
            fake_put_word(&vm.memory, FAKE_TABLE + 8u * fake_slot(&vm.layout, 1),
                          fake_process_at(2));
        else
            fake_set(&vm, 1, FP_FIELD_reds, 3);
        if (is_elsewhere) {
            fake_set(&vm, 2, FP_FIELD_id, program->pid);
            fake_set(&vm, 1, FP_FIELD_id, 0);
        }
        for (uint32_t k = 0; k < 3; k++)
            told += fp_turns_poll(program->turns, &all, &pid, 1);
        CHECK_INT(told, 1);
        CHECK(pid == program->pid);
        CHECK(fabs(fp_turns_debt(program->turns)) < 1000);
        destroy(program);
    }
}

TEST_WITH(one_that_is_gone_has_its_place_no_more, create(1, 1000))
{
    CHECK(fp_turns_find(f->turns, f->pid) != NULL);
    CHECK(fp_turns_find(f->turns, f->pid + 16) == NULL);
    fake_exit(&vm, 1);
    fake_set(&vm, 1, FP_FIELD_id, 0);
    poll(f);
    CHECK(fp_turns_find(f->turns, f->pid) == NULL);
}

struct poller {
    struct fp_turns *turns;
    uint64_t pid;
    _Atomic int has_flag, is_over;
};

/* Words, each at once: what a process writes the poll reads. */
static int64_t read_words(void *self, const struct iovec *local, const struct iovec *remote,
                          size_t n)
{
    int64_t total = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < remote[i].iov_len; k += 8, total += 8) {
            uint64_t address = (uint64_t)(uintptr_t)remote[i].iov_base + k;
            const uint64_t *at = (const uint64_t *)(const void *)fake_at(self, address, 8);

            if (at == NULL)
                return total > 0 ? total : -1;
            ((uint64_t *)local[i].iov_base)[k / 8] = __atomic_load_n(at, __ATOMIC_RELAXED);
        }
    return total;
}

static void *poll_until_it_is_over(void *arg)
{
    struct poller *poller = arg;
    uint64_t pids[4];

    while (!atomic_load(&poller->is_over))
        if (fp_turns_poll(poller->turns, &all, pids, 4) > 0 && pids[0] == poller->pid)
            atomic_store(&poller->has_flag, 1);
    return NULL;
}

/* What one thread polls another one is traced in, and leaves, and joins. */
TEST_WITH(polls_and_turns_go_on_at_once, create(1, 100000000))
{
    struct poller poller = {0};
    uint64_t reductions = 100000000, has_left = 0, turns = 0;
    pthread_t thread;
    uint64_t *at;

    at = (uint64_t *)(void *)fake_at(
        &vm.memory, fake_process_at(1) + vm.layout.release.offset[FP_FIELD_reds], 8);
    vm.memory.reader.readv = read_words;
    poller.turns = f->turns;
    poller.pid = f->pid;
    poller.has_flag = 1;
    CHECK_INT(pthread_create(&thread, NULL, poll_until_it_is_over, &poller), 0);
    while (turns < 20) {
        struct fp_turn *turn = fp_turns_find(f->turns, f->pid);
        uint64_t window = has_left <= turns / 4 ? MEAN : 100;

        if (turn == NULL) {
            has_left++;
            fp_turns_join(f->turns, f->pid);
        } else if (atomic_load(&poller.has_flag)) {
            if (!fp_turn_keeps(f->turns, turn, &f->told, &f->variance)) {
                atomic_store(&poller.has_flag, 0);
                turns++;
            } else if (fp_turn_weight(turn) > 0) {
                fp_turn_count(turn, (double)window);
            }
        } else {
            sched_yield();
        }
        reductions += 1000;
        __atomic_store_n(at, reductions, __ATOMIC_RELAXED);
    }
    atomic_store(&poller.is_over, 1);
    pthread_join(thread, NULL);
    CHECK(has_left > 3);
}
