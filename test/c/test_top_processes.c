/* test_top_processes.c - the N busiest processes, against sorting all of them. */
#include <stdio.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/governor.h"
#include "erts/process_table.h"
#include "fake_vm.h"
#include "session/top_processes.h"
#include "test.h"

#define MARKER_AT FAKE_MISC

struct fixture {
    struct fake_vm vm;
    struct fp_top_processes *top;
    uint64_t reductions[4096]; /* at the last pass, by process; 0: not seen */
    /* of the last pass */
    const struct fp_candidate *selected;
    uint64_t processes;
    size_t n;
};

static struct fixture *create(unsigned otp, uint32_t limit, uint32_t processes, uint32_t top,
                              const uint64_t *excluded, size_t n)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct fp_ranking rule = {FP_METRIC_reductions, 1, top, 1};

    fake_vm_create(&f->vm, otp, limit, processes);
    CHECK_INT(fp_top_processes_create(&f->top, &f->vm.layout, &f->vm.memory.reader, &rule, 1, 0,
                                      excluded, n),
              0);
    CHECK_INT(fp_top_processes_slots(f->top), limit);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_top_processes_destroy(f->top);
    fake_vm_destroy(&f->vm);
    free(f);
}

static int downwards(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x > y ? -1 : x < y;
}

static int is_alive(struct fixture *f, uint32_t n)
{
    return fake_word(&f->vm.memory, FAKE_TABLE + 8u * fake_slot(&f->vm.layout, n)) ==
           fake_process_at(n);
}

static int64_t delta(struct fixture *f, uint32_t n)
{
    uint64_t now = fake_get(&f->vm, n, FP_FIELD_reds);

    return (int64_t)(now - (now >= f->reductions[n] ? f->reductions[n] : 0));
}

/* What the pass that has just ended must have selected. */
static void check_selected(struct fixture *f, uint32_t top, uint64_t excluded)
{
    static int64_t all[4096], got[4096];
    uint64_t alive = 0;
    size_t count = 0;

    for (uint32_t k = 0; k < f->vm.processes; k++) {
        if (!is_alive(f, k))
            continue;
        alive++;
        if (fake_pid(&f->vm.layout, k) != excluded)
            all[count++] = delta(f, k);
    }
    CHECK_INT(f->processes, alive);
    CHECK_INT(f->n, count < top ? count : top);
    for (size_t i = 0; i < f->n; i++) {
        uint32_t k = (uint32_t)((f->selected[i].address - FAKE_PROCESSES) / FAKE_PROCESS_STRIDE);

        CHECK(f->selected[i].address == fake_process_at(k));
        CHECK(f->selected[i].id == fake_pid(&f->vm.layout, k));
        CHECK(f->selected[i].id != excluded);
        CHECK_INT(f->selected[i].score, delta(f, k));
        got[i] = f->selected[i].score;
        for (size_t j = 0; j < i; j++)
            CHECK(f->selected[j].id != f->selected[i].id);
    }
    qsort(all, count, sizeof *all, downwards);
    qsort(got, f->n, sizeof *got, downwards);
    for (size_t i = 0; i < f->n; i++)
        CHECK_INT(got[i], all[i]);
    for (uint32_t k = 0; k < f->vm.processes; k++)
        f->reductions[k] = is_alive(f, k) ? fake_get(&f->vm, k, FP_FIELD_reds) : 0;
}

static void pass(struct fixture *f, uint32_t slots)
{
    uint32_t steps = 0;

    do
        CHECK(++steps <= (fp_top_processes_slots(f->top) + slots - 1) / slots);
    while (!fp_top_processes_step(f->top, slots));
    f->selected = fp_top_processes_selected(f->top, &f->n, &f->processes);
    CHECK(f->selected != NULL);
}

TEST(random_tables_agree_with_sorting)
{
    static const unsigned releases[] = {25, 27, 29};

    for (uint64_t seed = 1; seed <= 30; seed++) {
        uint64_t random = seed;
        uint32_t limit = 64u << run_below(&random, 7);
        uint32_t processes = 1 + run_below(&random, limit < 1500 ? limit : 1500);
        uint32_t top = seed % 7 == 0 ? 0 : 1 + run_below(&random, 100);
        struct fixture *f = create(releases[seed % 3], limit, processes, top, NULL, 0);

        for (uint32_t n = 0; n < processes; n++)
            if (run_below(&random, 3) != 0) {
                fake_spawn(&f->vm, n, 0);
                fake_set(&f->vm, n, FP_FIELD_reds,
                         run_below(&random, seed % 2 == 0 ? 10 : 1000000));
            }
        for (int round = 0; round < 4; round++) {
            pass(f, 1 + run_below(&random, limit));
            check_selected(f, top, 0);
            for (uint32_t n = 0; n < processes; n++) {
                uint32_t what = run_below(&random, 6);

                if (what == 0 && is_alive(f, n))
                    fake_exit(&f->vm, n);
                else if (what == 1 && !is_alive(f, n))
                    fake_spawn(&f->vm, n, 0);
                else if (what < 4 && is_alive(f, n))
                    fake_set(&f->vm, n, FP_FIELD_reds,
                             fake_get(&f->vm, n, FP_FIELD_reds) + run_below(&random, 5000));
            }
        }
        destroy(f);
    }
}

TEST_WITH(the_first_pass_counts_from_the_start_the_next_from_the_last,
          create(27, 64, 3, 1, NULL, 0))
{
    for (uint32_t k = 0; k < 3; k++) {
        fake_spawn(&f->vm, k, 0);
        fake_set(&f->vm, k, FP_FIELD_reds, 1000 * (k + 1));
    }
    pass(f, 64);
    CHECK_INT(f->selected[0].score, 3000);
    fake_set(&f->vm, 0, FP_FIELD_reds, 1000 + 50);
    pass(f, 64);
    CHECK_INT(f->n, 1);
    CHECK_INT(f->selected[0].score, 50);
    CHECK(f->selected[0].id == fake_pid(&f->vm.layout, 0));
}

/* An interval in which the machine gave the VM no time has hardly any. */
TEST_WITH(who_has_not_moved_comes_by_what_it_has_ever_done, create(29, 64, 40, 3, NULL, 0))
{
    uint64_t found = 0;

    for (uint32_t k = 0; k < 40; k++) {
        fake_spawn(&f->vm, k, 0);
        fake_set(&f->vm, k, FP_FIELD_reds, 100 + k);
    }
    fake_set(&f->vm, 30, FP_FIELD_reds, 7000);
    fake_set(&f->vm, 20, FP_FIELD_reds, 5000);
    pass(f, 64);
    fake_set(&f->vm, 10, FP_FIELD_reds, 110 + 1);
    pass(f, 64);
    CHECK_INT(f->n, 3);
    for (size_t i = 0; i < f->n; i++)
        for (uint32_t k = 10; k <= 30; k += 10)
            found += f->selected[i].id == fake_pid(&f->vm.layout, k);
    CHECK_INT(found, 3);
}

static int64_t score_of_the_only_one(struct fixture *f)
{
    CHECK_INT(f->n, 1);
    return f->selected->score;
}

/* The slot is the same, the process another: its reductions are its own. */
TEST_WITH(a_slot_that_is_used_again_counts_from_the_start, create(27, 64, 2, 4, NULL, 0))
{
    uint64_t newer = fake_pid(&f->vm.layout, 64);

    fake_spawn(&f->vm, 0, 0);
    fake_set(&f->vm, 0, FP_FIELD_reds, 5000);
    pass(f, 64);
    CHECK_INT(fp_pid_slot(&f->vm.layout, newer), 0);
    fake_put_word(&f->vm.memory, FAKE_TABLE, fake_process_at(1));
    fake_set(&f->vm, 1, FP_FIELD_id, newer);
    fake_set(&f->vm, 1, FP_FIELD_reds, 6000);
    pass(f, 64);
    CHECK_INT(score_of_the_only_one(f), 6000);
}

/* With the address of the one before it, too, and more reductions: only the id differs, which is
 * read of contenders alone. The next pass is right, and the pid always is. */
TEST_WITH(a_slot_and_an_address_that_are_used_again_rank_too_low_once,
          create(27, 64, 1, 4, NULL, 0))
{
    uint64_t newer = fake_pid(&f->vm.layout, 64);

    fake_spawn(&f->vm, 0, 0);
    fake_set(&f->vm, 0, FP_FIELD_reds, 5000);
    pass(f, 64);
    fake_set(&f->vm, 0, FP_FIELD_id, newer);
    fake_set(&f->vm, 0, FP_FIELD_reds, 6000);
    pass(f, 64);
    CHECK(f->selected->id == newer);
    CHECK_INT(score_of_the_only_one(f), 1000);
    fake_set(&f->vm, 0, FP_FIELD_reds, 9000);
    pass(f, 64);
    CHECK_INT(score_of_the_only_one(f), 3000);
}

TEST(the_excluded_are_counted_but_never_selected)
{
    uint64_t excluded[FP_EXCLUDED_MAX];
    struct fixture *f;
    struct fp_layout layout = {.release = *fp_release_find(25), .process_limit = 64};

    for (uint32_t k = 0; k < FP_EXCLUDED_MAX; k++)
        excluded[k] = fake_pid(&layout, 10);
    excluded[FP_EXCLUDED_MAX - 1] = fake_pid(&layout, 7);
    f = create(25, 64, 9, 20, excluded, FP_EXCLUDED_MAX);
    for (uint32_t k = 0; k < 9; k++)
        fake_spawn(&f->vm, k, 0);
    fake_set(&f->vm, 7, FP_FIELD_reds, 1000000);
    pass(f, 64);
    check_selected(f, 20, fake_pid(&layout, 7));
    destroy(f);
}

TEST_WITH(what_is_no_living_process_is_passed_over, create(27, 64, 8, 20, NULL, 0))
{
    uint64_t slot = FAKE_TABLE + 8u * 50;

    fake_map(&f->vm.memory, MARKER_AT, 4096);
    for (uint32_t k = 0; k < 4; k++)
        fake_spawn(&f->vm, k, 0);
    fake_put_word(&f->vm.memory, slot, MARKER_AT);     /* id is 0 */
    fake_put_word(&f->vm.memory, slot + 8, 0x1001);    /* marked */
    fake_put_word(&f->vm.memory, slot + 16, 0x100000); /* stale: not there */
    fake_put_word(&f->vm.memory, slot + 24, UINT64_MAX - 7);
    fake_put_word(&f->vm.memory, slot + 32, MARKER_AT + 4096 - 16); /* edge */
    fake_set(&f->vm, 3, FP_FIELD_state, FP_PSFLG_FREE | FP_PSFLG_EXITING);
    pass(f, 64);
    CHECK_INT(f->n, 3);
    CHECK_INT(f->processes, 3);
}

/* Neighbours are read in one piece: a hole amid them must not hide them. */
TEST_WITH(a_hole_between_processes_hides_none, create(27, 256, 200, 200, NULL, 0))
{
    size_t size = (size_t)FAKE_PROCESS_STRIDE * 200;
    unsigned char *copy = malloc(size);
    uint64_t hole = FAKE_PROCESSES + 100 * FAKE_PROCESS_STRIDE;

    for (uint32_t k = 0; k < 200; k++)
        fake_spawn(&f->vm, k, 0);
    memcpy(copy, fake_at(&f->vm.memory, FAKE_PROCESSES, size), size);
    fake_unmap(&f->vm.memory, FAKE_PROCESSES);
    fake_map(&f->vm.memory, FAKE_PROCESSES, 100 * FAKE_PROCESS_STRIDE);
    fake_map(&f->vm.memory, hole + FAKE_PROCESS_STRIDE, 99 * FAKE_PROCESS_STRIDE);
    fake_put(&f->vm.memory, FAKE_PROCESSES, copy, 100 * FAKE_PROCESS_STRIDE);
    fake_put(&f->vm.memory, hole + FAKE_PROCESS_STRIDE, copy + 101 * FAKE_PROCESS_STRIDE,
             99 * FAKE_PROCESS_STRIDE);
    pass(f, 256);
    CHECK_INT(f->processes, 199);
    CHECK_INT(f->n, 199);
    free(copy);
}

TEST_WITH(a_table_that_is_not_readable_has_nobody, create(27, 64, 4, 4, NULL, 0))
{
    fake_spawn(&f->vm, 0, 0);
    fake_unmap(&f->vm.memory, FAKE_TABLE);
    pass(f, 64);
    CHECK_INT(f->n, 0);
    CHECK_INT(f->processes, 0);
}

/* Far apart, and equal in the bits that the sort looks at. */
TEST_WITH(addresses_far_apart_are_all_looked_at, create(27, 64, 1, 60, NULL, 0))
{
    for (uint32_t k = 0; k < 30; k++) {
        uint64_t at = FAKE_BASE + ((uint64_t)(30 - k) << 40);
        uint64_t pid = fake_pid(&f->vm.layout, k);

        fake_map(&f->vm.memory, at, 2048);
        fake_put_word(&f->vm.memory, at, pid);
        fake_put_word(&f->vm.memory, FAKE_TABLE + 8u * fake_slot(&f->vm.layout, k), at);
    }
    pass(f, 7);
    CHECK_INT(f->n, 30);
}

TEST_WITH(the_kernel_is_asked_once_for_neighbours, create(27, 4096, 2000, 10, NULL, 0))
{
    for (uint32_t k = 0; k < 2000; k++)
        fake_spawn(&f->vm, k, 0);
    f->vm.memory.calls = 0;
    pass(f, 4096);
    CHECK(f->vm.memory.calls <= 1 + 2000 * FAKE_PROCESS_STRIDE / (200u << 10));
}

/* ------------------------------------------------------------ rankings -- */

/* The number of the process at this place of the result. */
static uint32_t selected_at(struct fixture *f, size_t at)
{
    CHECK(at < f->n);
    return (uint32_t)((f->selected[at].address - FAKE_PROCESSES) / FAKE_PROCESS_STRIDE);
}

static struct fixture *create_with(const struct fp_ranking *rule, size_t rules)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, 27, 64, 8);
    CHECK_INT(fp_top_processes_create(&f->top, &f->vm.layout, &f->vm.memory.reader, rule, rules, 0,
                                      NULL, 0),
              0);
    for (uint32_t k = 0; k < 8; k++)
        fake_spawn(&f->vm, k, 0);
    return f;
}

#define CREATE_WITH(...)                                                                           \
    create_with((const struct fp_ranking[]){__VA_ARGS__},                                          \
                sizeof((const struct fp_ranking[]){__VA_ARGS__}) / sizeof(struct fp_ranking))

TEST_WITH(each_ranking_has_a_result_of_its_own,
          CREATE_WITH({FP_METRIC_reductions, 1, 1, 1}, {FP_METRIC_message_queue_len, 0, 1, 1},
                      {FP_METRIC_message_queue_len, 1, 1, 1}, {FP_METRIC_bin_vheap_size, 0, 2, 1}))
{
    fake_set(&f->vm, 1, FP_FIELD_reds, 1000);
    fake_set(&f->vm, 2, FP_FIELD_inner_len, 500);
    fake_set(&f->vm, 4, FP_FIELD_bin_vheap, 70);
    fake_set(&f->vm, 5, FP_FIELD_bin_vheap, 80);
    pass(f, 64);
    CHECK_INT(selected_at(f, 0), 1);
    CHECK_INT(selected_at(f, 1), 2);
    CHECK_INT(selected_at(f, 2), 2); /* grown from nothing */
    CHECK_INT(selected_at(f, 3) + selected_at(f, 4), 9);
    CHECK_INT(f->n, 5);
    CHECK_INT(f->processes, 8);
    /* 2 still has the longest queue, but that of 3 grows. */
    fake_set(&f->vm, 3, FP_FIELD_inner_len, 100);
    fake_set(&f->vm, 6, FP_FIELD_reds, 1001);
    pass(f, 64);
    CHECK_INT(selected_at(f, 0), 6);
    CHECK_INT(selected_at(f, 1), 2);
    CHECK_INT(selected_at(f, 2), 3);
}

/* The first two passes are for all; then every third is. */
TEST_WITH(a_ranking_with_a_longer_interval_keeps_its_result,
          CREATE_WITH({FP_METRIC_reductions, 1, 1, 1}, {FP_METRIC_message_queue_len, 1, 1, 3}))
{
    uint64_t queue = 0;

    pass(f, 64);
    pass(f, 64);
    for (uint32_t k = 1; k <= 5; k++) {
        fake_set(&f->vm, k, FP_FIELD_reds, 1000 * k);
        queue = 100 * k;
        fake_set(&f->vm, k, FP_FIELD_inner_len, queue);
        pass(f, 7);
        CHECK_INT(selected_at(f, 0), k);
        /* It has not been asked since: of 1 to 3, which have all grown since, 3 has most; the next
         * time is when 5 is there, and 6 is not yet. */
        if (k == 3 || k == 4)
            CHECK_INT(selected_at(f, 1), 3);
    }
}

/* Its collection takes a while, as its heap is large: it stays among the largest, with the size of
 * the last pass; and no heap of two blocks makes another one the largest. */
TEST_WITH(a_process_that_collects_keeps_its_rank,
          CREATE_WITH({FP_METRIC_total_heap_size, 0, 1, 1}, {FP_METRIC_reductions, 1, 1, 1}))
{
    fake_set(&f->vm, 3, FP_FIELD_mbuf_size, 1000);
    fake_set(&f->vm, 3, FP_FIELD_reds, 10);
    pass(f, 64);
    CHECK_INT(selected_at(f, 0), 3);
    fake_set_torn(&f->vm, 3, FP_FIELD_hend, fake_heap_at(4));
    fake_set_torn(&f->vm, 2, FP_FIELD_hend, fake_heap_at(7));
    fake_set(&f->vm, 2, FP_FIELD_reds, 1000);
    pass(f, 64);
    CHECK_INT(selected_at(f, 0), 3);
    CHECK_INT(selected_at(f, 1), 2); /* counts are right meanwhile */
    CHECK_INT(f->selected->value, 1000 + FAKE_HEAP_WORDS);
    CHECK_INT(f->processes, 8);
    /* One that was not seen before has no size yet. */
    fake_exit(&f->vm, 3);
    fake_spawn(&f->vm, 6, 0);
    fake_set_torn(&f->vm, 6, FP_FIELD_hend, fake_heap_at(7));
    pass(f, 64);
    CHECK(selected_at(f, 0) != 6);
}

TEST_WITH(minor_collections_are_counted_anew_after_a_full_sweep,
          CREATE_WITH({FP_METRIC_minor_gcs, 1, 1, 1}))
{
    fake_set(&f->vm, 1, FP_FIELD_gen_gcs, 100);
    fake_set(&f->vm, 2, FP_FIELD_gen_gcs, 50);
    pass(f, 64);
    CHECK_INT(selected_at(f, 0), 1);
    fake_set(&f->vm, 1, FP_FIELD_gen_gcs, 7); /* since the sweep */
    fake_set(&f->vm, 2, FP_FIELD_gen_gcs, 55);
    pass(f, 64);
    CHECK_INT(selected_at(f, 0), 1);
    CHECK_INT(f->selected->score, 7);
}

TEST_WITH(each_ranking_selects_a_part_of_its_own,
          CREATE_WITH({FP_METRIC_reductions, 1, 5, 1}, {FP_METRIC_message_queue_len, 0, 2, 1},
                      {FP_METRIC_bin_vheap_size, 0, 0, 1}))
{
    for (uint32_t k = 0; k < 8; k++) {
        fake_set(&f->vm, k, FP_FIELD_reds, 1000 + k);
        fake_set(&f->vm, k, FP_FIELD_inner_len, 10 + k);
    }
    pass(f, 64);
    CHECK_INT(f->n, 5 + 2);
    /* The pass in hand was begun with all. */
    fp_top_processes_divide(f->top, 4);
    pass(f, 64);
    CHECK_INT(f->n, 5 + 2);
    fake_set(&f->vm, 6, FP_FIELD_reds, 9000);
    fake_set(&f->vm, 3, FP_FIELD_reds, 8000);
    pass(f, 64);
    CHECK_INT(f->n, 2 + 1);
    CHECK_INT(selected_at(f, 0) + selected_at(f, 1), 6 + 3);
    CHECK_INT(selected_at(f, 2), 7);
    fp_top_processes_divide(f->top, 1);
    pass(f, 64);
    pass(f, 64);
    CHECK_INT(f->n, 5 + 2);
}

TEST(invalid_rankings_are_refused)
{
    static const struct fp_ranking many[FP_RANKINGS_MAX + 1];
    static const struct fp_ranking bad[] = {{FP_METRIC_COUNT, 1, 1, 1},
                                            {FP_METRIC_memory, 1, 1, 0}};
    struct fp_top_processes *top;
    struct fake_vm vm;

    fake_vm_create(&vm, 27, 64, 8);
    for (int i = 0; i < 2; i++)
        CHECK_INT(
            fp_top_processes_create(&top, &vm.layout, &vm.memory.reader, &bad[i], 1, 0, NULL, 0),
            FP_EINVAL);
    CHECK_INT(fp_top_processes_create(&top, &vm.layout, &vm.memory.reader, many,
                                      FP_RANKINGS_MAX + 1, 0, NULL, 0),
              FP_EINVAL);
    CHECK_INT(fp_top_processes_create(&top, &vm.layout, &vm.memory.reader, NULL, 0, 0, NULL, 0), 0);
    CHECK_INT(fp_top_processes_step(top, 64), 1);
    fp_top_processes_destroy(top);
    fake_vm_destroy(&vm);
}

/* ------------------------------------------------------- two million -- */

#define MANY_SLOTS (1u << 21)
#define MANY_STRIDE 1024u

#define MANY_PROCESSES (MANY_SLOTS / 8 * 5)

/* A table with 1.3 million processes, made up as it is read: only ids and reductions differ from
 * zero. */
struct many {
    struct fp_layout layout;
    struct fp_memory memory;
};

static uint64_t many_at(uint32_t slot)
{
    return FAKE_PROCESSES + (uint64_t)MANY_STRIDE * slot;
}

static void make_word(const struct many *many, uint64_t at, unsigned char *into)
{
    uint64_t word = 0, slot = (at - FAKE_PROCESSES) / MANY_STRIDE;
    uint64_t offset = (at - FAKE_PROCESSES) % MANY_STRIDE;

    if (at < FAKE_PROCESSES)
        word = at % 64 < 40 ? many_at((uint32_t)((at - FAKE_TABLE) / 8)) : 0;
    else if (offset == many->layout.release.offset[FP_FIELD_id])
        word = slot << 32 | 0x13;
    else if (offset == many->layout.release.offset[FP_FIELD_reds])
        word = slot;
    memcpy(into, &word, sizeof word);
}

static int64_t make_up(void *self, const struct iovec *local, const struct iovec *remote, size_t n)
{
    int64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t from = (uint64_t)(uintptr_t)remote[i].iov_base;
        size_t size = remote[i].iov_len;
        unsigned char *into = local[i].iov_base;

        for (size_t at = 0; at + 8 <= size; at += 8)
            make_word(self, from + at, into + at);
        total += (int64_t)size;
    }
    return total;
}

static size_t status_kb(const char *name)
{
    FILE *status = fopen("/proc/self/status", "r");
    size_t kb = 0, length = strlen(name);
    char line[256];

    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, name, length) == 0)
            kb = strtoul(line + length + 1, NULL, 10);
    fclose(status);
    return kb;
}

/* 2^27 slots with eight rankings: 9.6 GB of addresses. */
TEST(a_table_of_slots_has_memory_where_processes_are)
{
    struct many many = {.layout = {.release = *fp_release_find(25),
                                   .snapshot_size = 680,
                                   .process_table = FAKE_TABLE,
                                   .process_limit = 1u << 27},
                        .memory = {.readv = make_up, .self = &many, .fd = -1}};
    struct fp_ranking ranking[FP_RANKINGS_MAX];
    struct rlimit all, limit;
    struct fp_top_processes *top;
    size_t before = status_kb("VmRSS");

    for (size_t i = 0; i < FP_RANKINGS_MAX; i++)
        ranking[i] = (struct fp_ranking){FP_METRIC_reductions, 1, 10, 1};
    CHECK_INT(fp_top_processes_create(&top, &many.layout, &many.memory, ranking, FP_RANKINGS_MAX, 0,
                                      NULL, 0),
              0);
    CHECK_INT(fp_top_processes_step(top, 1u << 16), 0);
    CHECK(status_kb("VmRSS") < before + (64u << 10));
    fp_top_processes_destroy(top);

    /* Where the system does not allow it, the start is refused and no pass lacks processes. */
    CHECK_INT(getrlimit(RLIMIT_DATA, &all), 0);
    limit = all;
    limit.rlim_cur = (status_kb("VmData") << 10) + (256u << 20);
    CHECK_INT(setrlimit(RLIMIT_DATA, &limit), 0);
    CHECK_INT(fp_top_processes_create(&top, &many.layout, &many.memory, ranking, FP_RANKINGS_MAX, 0,
                                      NULL, 0),
              FP_ENOMEM);
    CHECK_INT(setrlimit(RLIMIT_DATA, &all), 0);
}

/* Five minutes, by clocks that the test turns: a process read costs 250 ns, a tick's samples of 100
 * processes 100 us. */
TEST(the_governor_paces_a_pass_over_two_million_processes)
{
    struct many many = {.layout = {.release = *fp_release_find(25),
                                   .snapshot_size = 680,
                                   .process_table = FAKE_TABLE,
                                   .process_limit = MANY_SLOTS},
                        .memory = {.readv = make_up, .self = &many, .fd = -1}};
    struct fp_ranking ranking = {FP_METRIC_reductions, 1, 100, 1};
    const int64_t second = 1000000000, pass_ns = MANY_PROCESSES * 250ll;
    const int64_t tick_ns = 100000;
    struct fp_cpu_used used = {pass_ns, pass_ns};
    struct fp_top_processes *top;
    struct fp_governor governor;
    uint64_t processes;
    uint32_t passes = 0;
    size_t n;

    CHECK_INT(fp_top_processes_create(&top, &many.layout, &many.memory, &ranking, 1, 0, NULL, 0),
              0);
    CHECK_INT(fp_top_processes_step(top, MANY_SLOTS), 1);
    CHECK(fp_top_processes_selected(top, &n, &processes)->value >= MANY_SLOTS - 200);
    CHECK_INT(n, 100);
    CHECK_INT(processes, MANY_PROCESSES);
    fp_governor_init(&governor, 20, 0, used, 5000);
    for (int i = 1; i <= 300; i++) {
        int64_t interval = 9000000 * (int64_t)fp_governed(governor.step).interval_factor;
        uint32_t slots = fp_governor_slots(&governor, MANY_SLOTS, 5000, interval);
        uint32_t ticks = (uint32_t)(second / interval);

        passes += (uint32_t)fp_top_processes_step(top, slots * ticks);
        used.total_ns += ticks * tick_ns;
        used.total_ns += (int64_t)slots * ticks * pass_ns / MANY_SLOTS;
        used.pass_ns += (int64_t)slots * ticks * pass_ns / MANY_SLOTS;
        fp_governor_update(&governor, i * second, used);
        /* The ticks of the first minute pay for the first pass. */
        CHECK(fp_governed(governor.step).interval_factor <= (i <= 60 ? 2 : 1));
        CHECK_INT(fp_governed(governor.step).top_divisor, 1);
        if (i == 60)
            CHECK(used.total_ns <= 60 * second * 20 / 1000);
    }
    CHECK(used.total_ns <= 300 * second * 20 / 1000);
    CHECK(passes >= 2 && passes <= 8);
    fp_top_processes_destroy(top);
}
