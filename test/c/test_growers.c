/* test_growers.c - places beside the top processes, for those whose queue or memory grows. */
#include "base/error.h"
#include "fake_vm.h"
#include "session/top_processes.h"
#include "test.h"

#define MIB_WORDS (1u << 17)
#define SLOTS 8192u

/* Processes 0 to tops - 1 are the busiest, in each pass. */
struct fixture {
    struct fake_vm vm;
    struct fp_top_processes *top;
    uint32_t processes, tops;
    uint64_t work;
};

static struct fixture *create(uint32_t processes, uint32_t tops, uint32_t places)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct fp_ranking ranking = {FP_METRIC_reductions, 1, tops, 1};

    f->processes = processes;
    f->tops = tops;
    fake_vm_create(&f->vm, 27, SLOTS, processes + 64);
    for (uint32_t k = 0; k < processes; k++)
        fake_spawn(&f->vm, k, 0);
    CHECK_INT(fp_top_processes_create(&f->top, &f->vm.layout, &f->vm.memory.reader, &ranking, 1,
                                      places, NULL, 0),
              0);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_top_processes_destroy(f->top);
    fake_vm_destroy(&f->vm);
    free(f);
}

static void runs(struct fixture *f, uint32_t n)
{
    fake_set(&f->vm, n, FP_FIELD_reds, fake_get(&f->vm, n, FP_FIELD_reds) + 1);
}

static void pass(struct fixture *f)
{
    f->work += 1000000;
    for (uint32_t k = 0; k < f->tops; k++)
        fake_set(&f->vm, k, FP_FIELD_reds, f->work + k);
    while (!fp_top_processes_step(f->top, 1000))
        ;
}

/* Binaries: the size that is easiest to set. */
static void holds(struct fixture *f, uint32_t n, uint64_t words)
{
    runs(f, n);
    fake_set(&f->vm, n, FP_FIELD_bin_old_vheap, words);
}

static size_t growers(struct fixture *f)
{
    return fp_top_processes_growers(f->top);
}

/* How many times process n is in the selection. */
static int is_selected(struct fixture *f, uint32_t n)
{
    uint64_t processes;
    size_t count;
    const struct fp_candidate *selected = fp_top_processes_selected(f->top, &count, &processes);
    int found = 0;

    for (size_t i = 0; i < count; i++)
        found += selected[i].id == fake_pid(&f->vm.layout, n) &&
                 selected[i].address == fake_process_at(n);
    return found;
}

TEST_WITH(who_is_flooded_and_does_not_run_has_a_place_until_it_is_drained, create(300, 100, 25))
{
    pass(f);
    pass(f);
    CHECK_INT(growers(f), 0);
    fake_set(&f->vm, 250, FP_FIELD_outer_len, 9000);
    pass(f);
    CHECK_INT(is_selected(f, 250), 1);
    for (int i = 0; i < 6; i++)
        pass(f);
    CHECK_INT(is_selected(f, 250), 1);
    /* It fetches them, and is slow. */
    fake_set(&f->vm, 250, FP_FIELD_outer_len, 0);
    fake_set(&f->vm, 250, FP_FIELD_inner_len, 200);
    runs(f, 250);
    pass(f);
    CHECK_INT(is_selected(f, 250), 1);
    fake_set(&f->vm, 250, FP_FIELD_inner_len, 3);
    runs(f, 250);
    pass(f);
    CHECK_INT(is_selected(f, 250), 0);
    CHECK_INT(growers(f), 0);
}

TEST_WITH(a_queue_that_stands_still_loses_its_place_after_twelve_passes, create(300, 100, 25))
{
    int kept = 0;

    pass(f);
    fake_set(&f->vm, 250, FP_FIELD_outer_len, 9000);
    for (pass(f); is_selected(f, 250); pass(f))
        kept++;
    CHECK_INT(kept, 13); /* that in which it grew, and twelve */
    fake_set(&f->vm, 250, FP_FIELD_outer_len, 9100);
    pass(f);
    CHECK_INT(is_selected(f, 250), 1);
}

/* A queue is there because it has grown; memory may be what the process needs. */
TEST_WITH(the_first_pass_counts_queues_but_no_memory, create(300, 100, 25))
{
    fake_set(&f->vm, 200, FP_FIELD_inner_len, 500);
    holds(f, 201, 100 * MIB_WORDS);
    pass(f);
    CHECK_INT(is_selected(f, 200), 1);
    CHECK_INT(is_selected(f, 201), 0);
    holds(f, 201, 102 * MIB_WORDS);
    pass(f);
    CHECK_INT(is_selected(f, 201), 1);
}

TEST_WITH(heaps_count_as_well_as_binaries, create(300, 100, 25))
{
    static const enum fp_field fields[] = {FP_FIELD_bin_vheap, FP_FIELD_bin_old_vheap,
                                           FP_FIELD_mbuf_size};
    uint64_t heap;

    pass(f);
    for (uint32_t i = 0; i < 3; i++) {
        fake_set(&f->vm, 200 + i, fields[i], 2 * MIB_WORDS);
        runs(f, 200 + i);
    }
    heap = fake_get(&f->vm, 203, FP_FIELD_heap);
    fake_set(&f->vm, 203, FP_FIELD_hend, heap + 16 * MIB_WORDS);
    fake_set(&f->vm, 203, FP_FIELD_stop, heap + 16 * MIB_WORDS);
    runs(f, 203);
    pass(f);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_INT(is_selected(f, 200 + i), 1);
    CHECK_INT(growers(f), 4);
}

TEST_WITH(little_growth_has_no_place, create(300, 100, 25))
{
    for (uint32_t round = 0; round < 8; round++) {
        for (uint32_t k = 0; k < 300; k++) {
            fake_set(&f->vm, k, FP_FIELD_inner_len, round % 2 * 63);
            holds(f, k, round % 2 * (MIB_WORDS - 256));
        }
        pass(f);
        CHECK_INT(growers(f), 0);
    }
}

TEST(the_top_processes_need_no_place)
{
    struct fixture *f = create(300, 100, 25);

    pass(f);
    for (uint32_t k = 0; k < 100; k++)
        fake_set(&f->vm, k, FP_FIELD_inner_len, 100000 + k);
    fake_set(&f->vm, 100, FP_FIELD_inner_len, 90);
    runs(f, 100);
    pass(f);
    for (uint32_t k = 0; k < 100; k++)
        CHECK_INT(is_selected(f, k), 1);
    destroy(f);

    /* All of them grow, and one beside them. */
    f = create(300, 20, 25);
    pass(f);
    for (uint32_t k = 0; k < 20; k++)
        fake_set(&f->vm, k, FP_FIELD_inner_len, 100000 + k);
    fake_set(&f->vm, 100, FP_FIELD_inner_len, 90);
    runs(f, 100);
    pass(f);
    CHECK_INT(growers(f), 1);
    CHECK_INT(is_selected(f, 100), 1);
    destroy(f);
}

TEST(queues_have_half_of_the_places_and_what_memory_leaves)
{
    struct fixture *f = create(300, 10, 9);

    pass(f);
    for (uint32_t k = 0; k < 20; k++) {
        fake_set(&f->vm, 100 + k, FP_FIELD_outer_len, 1000 + k);
        holds(f, 200 + k, (10 + k) * MIB_WORDS);
    }
    pass(f);
    CHECK_INT(growers(f), 9);
    for (uint32_t k = 0; k < 20; k++) {
        CHECK_INT(is_selected(f, 100 + k), k >= 15);
        CHECK_INT(is_selected(f, 200 + k), k >= 16);
    }
    destroy(f);

    f = create(300, 10, 9);
    pass(f);
    for (uint32_t k = 0; k < 20; k++)
        fake_set(&f->vm, 100 + k, FP_FIELD_outer_len, 1000 + k);
    holds(f, 200, 2 * MIB_WORDS);
    fake_set(&f->vm, 200, FP_FIELD_outer_len, 100000); /* one place for both */
    pass(f);
    CHECK_INT(growers(f), 9);
    CHECK_INT(is_selected(f, 200), 1);
    CHECK_INT(is_selected(f, 119) + is_selected(f, 112), 2);
    CHECK_INT(is_selected(f, 111), 0);
    destroy(f);
}

TEST_WITH(greater_growth_takes_the_place_of_lesser, create(300, 10, 2))
{
    pass(f);
    fake_set(&f->vm, 100, FP_FIELD_outer_len, 300);
    fake_set(&f->vm, 101, FP_FIELD_outer_len, 5000);
    pass(f);
    CHECK_INT(is_selected(f, 100) + is_selected(f, 101), 2);
    fake_set(&f->vm, 102, FP_FIELD_outer_len, 1000);
    pass(f);
    CHECK_INT(is_selected(f, 101) + is_selected(f, 102), 2);
    CHECK_INT(is_selected(f, 100), 0);
}

TEST_WITH(who_has_exited_has_no_place, create(300, 10, 4))
{
    pass(f);
    fake_set(&f->vm, 100, FP_FIELD_outer_len, 300);
    fake_set(&f->vm, 101, FP_FIELD_outer_len, 300);
    pass(f);
    CHECK_INT(growers(f), 2);
    fake_exit(&f->vm, 100);
    pass(f);
    CHECK_INT(growers(f), 1);
    CHECK_INT(is_selected(f, 101), 1);
    /* The structure and the slot are another process's. */
    fake_set(&f->vm, 101, FP_FIELD_id, fake_pid(&f->vm.layout, 101 + SLOTS));
    pass(f);
    CHECK_INT(growers(f), 0);
}

/* Process 300 has a structure of its own in the slot of 100, which held more. */
TEST_WITH(a_slot_that_is_used_again_counts_from_nothing, create(300, 10, 4))
{
    uint64_t newer = fake_pid(&f->vm.layout, 100 + SLOTS);

    holds(f, 100, 50 * MIB_WORDS);
    pass(f);
    fake_put_word(&f->vm.memory, FAKE_TABLE + 8u * fake_slot(&f->vm.layout, 100),
                  fake_process_at(300));
    memcpy(fake_at(&f->vm.memory, fake_process_at(300), FAKE_PROCESS_STRIDE),
           fake_at(&f->vm.memory, fake_process_at(200), FAKE_PROCESS_STRIDE), FAKE_PROCESS_STRIDE);
    fake_set(&f->vm, 300, FP_FIELD_id, newer);
    holds(f, 300, 2 * MIB_WORDS);
    pass(f);
    CHECK_INT(growers(f), 1);
}

TEST_WITH(with_many_processes_each_that_does_not_run_has_its_turn, create(5000, 10, 100))
{
    int found = 0;

    for (int i = 0; i < 3; i++)
        pass(f);
    for (uint32_t k = 0; k < 40; k++)
        fake_set(&f->vm, 100 + 100 * k, FP_FIELD_outer_len, 70);
    f->vm.memory.calls = 0;
    for (int i = 0; i < 16; i++)
        pass(f);
    for (uint32_t k = 0; k < 40; k++)
        found += is_selected(f, 100 + 100 * k);
    CHECK(found >= 30); /* the first may have stood still for too long */
}

/* What a pass reads more than one without growers. */
static uint64_t reads_for_growers(struct fixture *f, struct fixture *without)
{
    f->vm.memory.entries = without->vm.memory.entries = 0;
    pass(f);
    pass(without);
    return f->vm.memory.entries - without->vm.memory.entries;
}

TEST(many_that_do_not_run_are_no_burst_of_reads)
{
    struct fixture *f = create(5000, 0, 100), *without = create(5000, 0, 0);

    /* The second pass: all were new in the one before. */
    pass(f);
    pass(without);
    CHECK(reads_for_growers(f, without) < 600);
    CHECK(reads_for_growers(f, without) < 600);
    /* After one in which all ran. */
    for (uint32_t k = 0; k < 5000; k++) {
        runs(f, k);
        runs(without, k);
    }
    CHECK(reads_for_growers(f, without) >= 5000);
    CHECK(reads_for_growers(f, without) < 600);
    destroy(f);
    destroy(without);
}

TEST_WITH(a_part_of_the_places_is_selected_where_the_budget_says_so, create(300, 10, 10))
{
    pass(f);
    fp_top_processes_divide(f->top, 4);
    for (uint32_t k = 0; k < 20; k++)
        fake_set(&f->vm, 100 + k, FP_FIELD_outer_len, 1000 + k);
    pass(f);
    CHECK_INT(growers(f), 3);
    CHECK_INT(is_selected(f, 119) + is_selected(f, 118) + is_selected(f, 117), 3);
}

/* No ranking says which processes have run: the sizes of all are read. */
TEST_WITH(without_a_ranking_by_reductions_it_is_the_same, create(300, 0, 4))
{
    struct fp_ranking ranking = {FP_METRIC_minor_gcs, 1, 2, 3};

    fp_top_processes_destroy(f->top);
    CHECK_INT(fp_top_processes_create(&f->top, &f->vm.layout, &f->vm.memory.reader, &ranking, 1, 4,
                                      NULL, 0),
              0);
    for (int i = 0; i < 4; i++) {
        pass(f);
        CHECK_INT(growers(f), (size_t)i);
        fake_set(&f->vm, 100 + (uint32_t)i, FP_FIELD_outer_len, 100);
    }
}

TEST_WITH(random_tables_harm_nothing, create(400, 20, 25))
{
    uint64_t random = 5, processes;
    const struct fp_candidate *selected;
    size_t n;

    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 300; i++) {
            uint32_t k = run_below(&random, 400);
            uint64_t word = run_random(&random) >> run_below(&random, 64);

            if (run_below(&random, 20) == 0)
                fake_put_word(&f->vm.memory, FAKE_TABLE + 8u * run_below(&random, SLOTS), word);
            else
                fake_set(&f->vm, k, (enum fp_field)run_below(&random, FP_FIELD_COUNT), word);
        }
        pass(f);
        selected = fp_top_processes_selected(f->top, &n, &processes);
        CHECK(growers(f) <= 25 && n <= 20 + 25);
        for (size_t i = n - growers(f); i < n; i++)
            for (size_t j = 0; j < i; j++)
                CHECK(selected[i].id != selected[j].id);
    }
}

TEST(too_many_places_are_refused)
{
    struct fp_top_processes *top;
    struct fake_vm vm;

    fake_vm_create(&vm, 27, 64, 8);
    CHECK_INT(fp_top_processes_create(&top, &vm.layout, &vm.memory.reader, NULL, 0,
                                      FP_GROWERS_MAX + 1, NULL, 0),
              FP_EINVAL);
    fake_vm_destroy(&vm);
}
