/* test_allocations.c - the estimate of who allocates, against programs whose windows the test has
 * made itself. */
#include <math.h>

#include "base/error.h"
#include "erts/fresh.h"
#include "fake_vm.h"
#include "mean.h"
#include "test.h"
#include "tracer/allocations.h"
#include "tracer/collector.h"
#include "virtual_clock.h"

#define LIMIT 1024u
#define PROCESSES 8u
#define CODE(n) (FAKE_JIT + 0x1000 + 0x40 * (uint64_t)(n))

static struct fake_vm vm;
/* Of each clock. */
static int64_t now_ns;

static int64_t read_clock(clockid_t clock)
{
    (void)clock;
    return now_ns;
}

static uint64_t random_state = 42;

static void put_behind_hend(uint32_t n, uint32_t words, uint64_t value)
{
    fake_put_word(&vm.memory,
                  fake_process_at(n) + vm.layout.release.offset[FP_FIELD_hend] + 8 * words, value);
}

/* A process whose stack has one return address. */
static uint64_t spawn(uint32_t n, uint64_t at)
{
    uint64_t pid = fake_spawn(&vm, n, CODE(0)), word = at;

    put_behind_hend(n, 1, 0);
    put_behind_hend(n, 2, FAKE_HEAP_WORDS);
    fake_set(&vm, n, FP_FIELD_bin_vheap_block, 1000);
    fake_set_stack(&vm, n, &word, 1);
    return pid;
}

static void open_vm(unsigned otp)
{
    fake_vm_create(&vm, otp, LIMIT, PROCESSES);
    fake_vm_add_jit(&vm);
}

static struct fp_allocations *open_one(uint64_t mean, uint32_t looks, int64_t long_ns,
                                       uint64_t seed)
{
    struct fp_allocations_options options = {.layout = &vm.layout,
                                             .memory = &vm.memory.reader,
                                             .own = &vm.memory.reader,
                                             .code = &vm.live_code,
                                             .threads = 2,
                                             .mean_words = mean,
                                             .looks = looks,
                                             .long_ns = long_ns,
                                             .seed = seed};
    struct fp_allocations *allocations;

    now_ns = 1000000000;
    CHECK_INT(fp_allocations_create(&allocations, &options), 0);
    return allocations;
}

/* ----------------------------------------------------------------- windows -- */

static struct fp_fresh fresh_of(uint32_t n, uint64_t pid, int expected)
{
    struct fp_fresh fresh;

    memset(&fresh, 0, sizeof fresh);
    CHECK_INT(fp_fresh_read(&vm.layout, &vm.memory.reader, fake_process_at(n), pid, &fresh),
              expected);
    return fresh;
}

static void check_window(void)
{
    uint64_t pid = spawn(1, CODE(1)), heap = fake_heap_at(1);

    CHECK_INT(fresh_of(1, pid, 0).words, 5);
    fake_set(&vm, 1, FP_FIELD_mbuf_size, 100);
    CHECK_INT(fresh_of(1, pid, 0).words, 105);
    CHECK_INT(fresh_of(1, pid, 0).fragment, 100);
    CHECK_INT(fresh_of(1, pid, 0).survived, 5);
    fake_set(&vm, 1, FP_FIELD_old_heap, heap);
    fake_set(&vm, 1, FP_FIELD_old_htop, heap + 8 * 20);
    fake_set(&vm, 1, FP_FIELD_old_hend, heap + 8 * 30);
    CHECK_INT(fresh_of(1, pid, 0).live, 130);
}

TEST(a_window_is_what_lies_above_the_high_water_and_in_fragments)
{
    for (unsigned otp = 25; otp <= 29; otp += 2) {
        open_vm(otp);
        check_window();
        fake_vm_destroy(&vm);
    }
}

/* An abandoned heap of 400 words at the place of process 2: 30 survived, 250 in use. The process
 * goes on in the heap of process 1, where it has 7 words. */
static uint64_t abandon(int in_structure)
{
    uint64_t pid = spawn(1, CODE(1)), old = fake_heap_at(2), heap = fake_heap_at(1);
    uint64_t hend = heap + 8 * (FAKE_HEAP_WORDS - 1);

    fake_put_word(&vm.memory, hend, old + 8 * 30);
    fake_set(&vm, 1, FP_FIELD_hend, hend);
    fake_set(&vm, 1, FP_FIELD_stop, hend - 8);
    fake_put_word(&vm.memory, hend - 8, CODE(1));
    fake_set(&vm, 1, FP_FIELD_htop, heap + 8 * 7);
    fake_set(&vm, 1, FP_FIELD_high_water, in_structure ? old + 8 * 30 : heap);
    put_behind_hend(1, 1, old);
    put_behind_hend(1, 2, 400);
    fake_put_word(&vm.memory, old + 8 * 399, 250);
    fake_put_word(&vm.memory, old + 8 * 250, (400 - 250 - 1) << 6 | 0x08);
    return pid;
}

TEST(an_abandoned_heap_has_its_words_up_to_the_filler)
{
    for (int in_structure = 0; in_structure < 2; in_structure++) {
        uint64_t pid;

        open_vm(in_structure ? 25 : 27);
        pid = abandon(in_structure);
        fake_set(&vm, 1, FP_FIELD_mbuf_size, 11);
        CHECK_INT(fresh_of(1, pid, 0).words, 220 + 7 + 11);
        CHECK_INT(fresh_of(1, pid, 0).fragment, 7 + 11);
        CHECK_INT(fresh_of(1, pid, 0).survived, 30);
        CHECK(fresh_of(1, pid, 0).heap == fake_heap_at(2));
        fake_put_word(&vm.memory, fake_heap_at(2) + 8 * 250, 1);
        fresh_of(1, pid, FP_ETORN);
        fake_put_word(&vm.memory, fake_heap_at(2) + 8 * 399, CODE(1));
        CHECK_INT(fresh_of(1, pid, 0).words, 370 + 7 + 11);
        fake_vm_destroy(&vm);
    }
}

static enum fp_gc_cause cause_of(uint32_t n, uint64_t pid)
{
    struct fp_fresh fresh = fresh_of(n, pid, 0);

    return fp_collector_cause(&fresh);
}

TEST_BETWEEN(a_cause_is_what_the_heap_had_no_room_for, open_vm(25), fake_vm_destroy(&vm))
{
    uint64_t pid = spawn(1, CODE(1)), heap = fake_heap_at(1);

    CHECK_INT(cause_of(1, pid), FP_GC_CAUSE_other);
    fake_set(&vm, 1, FP_FIELD_htop, heap + 8 * (FAKE_HEAP_WORDS - 10));
    CHECK_INT(cause_of(1, pid), FP_GC_CAUSE_heap);
    fake_set(&vm, 1, FP_FIELD_mbuf_size, 1);
    CHECK_INT(cause_of(1, pid), FP_GC_CAUSE_heap);
    fake_set(&vm, 1, FP_FIELD_mbuf_size, 10000);
    CHECK_INT(cause_of(1, pid), FP_GC_CAUSE_fragments);
    fake_set(&vm, 1, FP_FIELD_mbuf_size, 0);
    fake_set(&vm, 1, FP_FIELD_bin_vheap, 1000);
    CHECK_INT(cause_of(1, pid), FP_GC_CAUSE_binaries);
}

/* The stack of an abandoned heap lies in another one, so that nothing says how full it was; with
 * words beside it, it was full. */
TEST(an_abandoned_heap_with_nothing_beside_it_has_no_known_cause)
{
    for (int in_structure = 0; in_structure < 2; in_structure++) {
        uint64_t pid;

        open_vm(in_structure ? 25 : 27);
        pid = abandon(in_structure);
        CHECK_INT(cause_of(1, pid), FP_GC_CAUSE_heap);
        fake_set(&vm, 1, FP_FIELD_htop, fake_heap_at(1));
        CHECK_INT(cause_of(1, pid), FP_GC_CAUSE_unknown);
        fake_vm_destroy(&vm);
    }
}

TEST_BETWEEN(words_that_do_not_fit_are_refused, open_vm(25), fake_vm_destroy(&vm))
{
    uint64_t pid = spawn(1, CODE(1)), heap = fake_heap_at(1);

    fresh_of(1, pid + 16, FP_EGONE);
    put_behind_hend(1, 2, FAKE_HEAP_WORDS + 1);
    fresh_of(1, pid, FP_ETORN);
    put_behind_hend(1, 2, FAKE_HEAP_WORDS);
    fake_set(&vm, 1, FP_FIELD_high_water, heap + 8 * 11);
    fresh_of(1, pid, FP_ETORN);
    fake_set(&vm, 1, FP_FIELD_high_water, heap + 8 * 5 + 1);
    fresh_of(1, pid, FP_ETORN);
    put_behind_hend(1, 1, 0x1000);
    fresh_of(1, pid, FP_EFAULT);
}

/* --------------------------------------------------------------- programs -- */

/* The process has allocated `words` and is collected; `survived` of them are kept. */
static void collect(struct fp_allocations *allocations, uint32_t n, uint64_t pid, uint64_t words,
                    uint64_t survived, int64_t takes_ns)
{
    uint64_t heap = fake_get(&vm, n, FP_FIELD_heap);
    uint64_t stop = fake_get(&vm, n, FP_FIELD_stop);
    uint64_t start = heap + 8 * (uint64_t)(run_random(&random_state) % 2);

    /* What does not fit is in fragments. */
    fake_set(&vm, n, FP_FIELD_high_water, start);
    fake_set(&vm, n, FP_FIELD_htop, start + 8 * (words > 300 ? 300 : words));
    fake_set(&vm, n, FP_FIELD_mbuf_size, words > 300 ? words - 300 : 0);
    fp_allocations_event(allocations, 0, FP_GC_MINOR_START, pid, 0);
    now_ns += takes_ns;
    /* Another heap, 64 words on or back. */
    heap = heap == fake_heap_at(n) ? heap + 8 * 64 : fake_heap_at(n);
    fake_set(&vm, n, FP_FIELD_heap, heap);
    put_behind_hend(n, 2, (fake_get(&vm, n, FP_FIELD_hend) - heap) / 8);
    fake_set(&vm, n, FP_FIELD_high_water, heap + 8 * survived);
    fake_set(&vm, n, FP_FIELD_htop, heap + 8 * survived);
    fake_set(&vm, n, FP_FIELD_mbuf_size, 0);
    fake_set(&vm, n, FP_FIELD_stop, stop);
    fp_allocations_event(allocations, 0, FP_GC_MINOR_END, pid, 0);
}

struct told {
    uint64_t weight[PROCESSES], records, survived, window;
    uint64_t last_flags, last_length, last_frame, last_cause;
};

/* What is told of the allocations of one VM. */
struct fixture {
    struct fp_allocations *allocations;
    struct fp_allocations_counters counters;
    struct told told;
};

static struct fixture *create(unsigned otp, uint64_t mean, uint32_t looks, int64_t long_ns)
{
    struct fixture *f = calloc(1, sizeof *f);

    open_vm(otp);
    f->allocations = open_one(mean, looks, long_ns, 1);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_allocations_destroy(f->allocations);
    fake_vm_destroy(&vm);
    free(f);
}

static void drain(struct fp_allocations *allocations, struct told *told)
{
    const struct fp_allocation *record;

    while ((record = fp_allocations_peek(allocations, 0)) != NULL) {
        /* A return address less one. */
        uint64_t code =
            record->frame[0] == FP_FRAME_UNREADABLE ? 0 : (record->frame[0] + 1 - CODE(0)) / 0x40;

        CHECK(code < PROCESSES);
        told->weight[code] += record->weight;
        told->records++;
        told->survived += record->survived;
        told->window += record->window;
        told->last_flags = record->flags;
        told->last_length = record->length_ns;
        told->last_cause = record->cause;
        told->last_frame = code;
        fp_allocations_release(allocations, 0);
    }
}

static void look(struct fixture *f)
{
    drain(f->allocations, &f->told);
    fp_allocations_count(f->allocations, &f->counters);
}

/* Code n allocates windows of up to n * 100 words, in a process of its own. */
struct program {
    uint64_t pid[PROCESSES], words[PROCESSES], all;
};

static void run_program(struct fp_allocations *allocations, struct program *program,
                        struct told *told, uint32_t collections)
{
    memset(program, 0, sizeof *program);
    memset(told, 0, sizeof *told);
    for (uint32_t n = 1; n < PROCESSES; n++)
        program->pid[n] = spawn(n, CODE(n));
    for (uint32_t k = 0; k < collections; k++) {
        uint32_t n = 1 + (uint32_t)(run_random(&random_state) % (PROCESSES - 1));
        uint64_t words = 1 + run_random(&random_state) % (n * 100);

        now_ns += (int64_t)(words * 2 + run_random(&random_state) % 1000);
        collect(allocations, n, program->pid[n], words, words / 4, 300);
        program->words[n] += words;
        program->all += words;
        if (k % 64 == 0)
            drain(allocations, told);
    }
    drain(allocations, told);
}

TEST(sums_and_shares_are_right_in_the_mean)
{
    struct mean total = {0}, stack[PROCESSES] = {{0}};
    double spread = 0, claimed = 0;

    open_vm(27);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        /* 20,000 looks a second: few of these collections. */
        struct fp_allocations *allocations = open_one(2000, 20000, 0, seed);
        struct fp_allocations_counters counters;
        struct program program;
        struct told told;

        run_program(allocations, &program, &told, 20000);
        fp_allocations_count(allocations, &counters);
        CHECK_INT(counters.minor, 20000);
        CHECK_INT(counters.dropped + counters.unreadable + counters.failed, 0);
        CHECK(counters.looks > 200 && counters.looks < 5000);
        mean_add(&total, counters.words / (double)program.all - 1);
        spread += pow(counters.words - (double)program.all, 2);
        claimed += counters.variance;
        for (uint32_t n = 1; n < PROCESSES; n++)
            mean_add(&stack[n],
                     ((double)told.weight[n] - (double)program.words[n]) / (double)program.all);
        fp_allocations_destroy(allocations);
    }
    mean_is_none(&total, "sum", 1e-9);
    for (uint32_t n = 1; n < PROCESSES; n++)
        mean_is_none(&stack[n], "stack", 1e-9);
    /* Of 60 runs: chi-squared with 60 degrees of freedom is within 25 and 115 of 60 but for one
     * case in 100,000. */
    CHECK(spread / claimed > 25.0 / 60 && spread / claimed < 115.0 / 60);
    fake_vm_destroy(&vm);
}

/* 1 in 2 to 4 of 7 processes, and each window is looked at. */
TEST(words_of_a_share_are_right_in_the_mean_with_their_variance)
{
    struct mean total = {0};
    double spread = 0, claimed = 0;

    open_vm(27);
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct fp_allocations *allocations = open_one(2000, 100000000, 0, seed);
        struct fp_allocations_counters counters;
        struct program program;
        struct told told;

        for (uint32_t i = 0; i < 1000; i++)
            fp_allocations_born(allocations, 0);
        fp_allocations_press(allocations, 200);
        now_ns += 10000000;
        if (seed % 2 == 0)
            fp_allocations_press(allocations, 200);
        run_program(allocations, &program, &told, 200);
        fp_allocations_count(allocations, &counters);
        CHECK_INT(counters.share, seed % 2 == 0 ? 4 : 2);
        mean_add(&total, counters.words / (double)program.all - 1);
        spread += pow(counters.words - (double)program.all, 2);
        claimed += counters.variance;
        fp_allocations_destroy(allocations);
    }
    mean_is_none(&total, "sum", 1e-9);
    /* Pids side by side are spread evenly: the error is less than that of random ones. */
    CHECK(spread / claimed > 0.2 && spread / claimed < 1.2);
    fake_vm_destroy(&vm);
}

TEST_WITH(processes_that_are_in_no_share_are_told_to_lose_their_flags, create(25, 1, 1000000000, 0))
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < 1000; i++)
        fp_allocations_born(f->allocations, 0);
    for (uint32_t n = 1; n < 500; n++)
        CHECK(fp_allocations_keeps(f->allocations, 0, fake_pid(&vm.layout, n)));
    fp_allocations_press(f->allocations, 200);
    for (uint32_t n = 1; n < 500; n++) {
        uint64_t pid = fake_pid(&vm.layout, n);

        kept += (uint32_t)fp_allocations_keeps(f->allocations, 0, pid);
        fp_allocations_event(f->allocations, 0, FP_GC_MINOR_START, pid, 0);
        fp_allocations_event(f->allocations, 0, FP_GC_MINOR_END, pid, 0);
    }
    look(f);
    CHECK(kept > 240 && kept < 260);
    CHECK_INT(f->counters.minor, 2 * kept);
}

TEST_WITH(all_processes_are_chosen_of_few, create(27, 1, 1000, 0))
{
    uint64_t *pids, first = spawn(1, CODE(1)), second = spawn(4, CODE(4));
    uint32_t count;

    spawn(2, CODE(2));
    fake_exit(&vm, 2);
    CHECK_INT(fp_allocations_choose(f->allocations, &pids, &count), 0);
    CHECK_INT(count, 2);
    CHECK(pids[0] == first && pids[1] == second);
    free(pids);
    fake_unmap(&vm.memory, FAKE_TABLE);
    CHECK_INT(fp_allocations_choose(f->allocations, &pids, &count), FP_EFAULT);
}

TEST_WITH(with_every_collection_looked_at_the_sum_is_exact, create(25, 1, 1000000000, 0))
{
    const struct fp_collections *collections = fp_allocations_collections(f->allocations);
    static struct fp_histogram_copy lengths;
    struct fp_collected top[2];
    uint64_t pid = spawn(1, CODE(1)), all = 0;

    /* Its collections are rare: the time between them is longer than tau. */
    for (uint32_t k = 0; k < 500; k++) {
        now_ns += 2000000;
        collect(f->allocations, 1, pid, 1 + k, k / 2, 1000);
        all += 1 + k;
        look(f);
    }
    CHECK_INT((int64_t)f->counters.words, all);
    CHECK_INT(f->told.weight[1], all); /* mean 1: no rounding */
    CHECK_INT(f->counters.looks, 500);
    CHECK_INT((int64_t)f->counters.variance, 0);
    CHECK_INT(f->told.window, all);
    CHECK_INT(f->counters.collection_ns, 500 * 1000);
    CHECK_INT(f->counters.by_heap + f->counters.by_fragments + f->counters.by_other, 500);
    CHECK_INT(f->counters.by_fragments, 180); /* of 321 words and more a sixteenth is in them */
    fp_collections_lengths(collections, 0, &lengths);
    CHECK_INT(lengths.count, 500);
    CHECK_INT(lengths.max_ns, 1000);
    CHECK_INT(lengths.sum_ns, 500 * 1000);
    CHECK_INT(lengths.bucket[fp_histogram_bucket(1000)], 500);
    fp_collections_lengths(collections, 1, &lengths);
    CHECK_INT(lengths.count, 0);
    CHECK_INT(fp_collections_top(collections, top, 2), 1);
    CHECK(top[0].pid == pid);
    CHECK_INT(top[0].minor, 500);
    CHECK_INT(top[0].major, 0);
    CHECK_INT(top[0].ns, 500 * 1000);
    CHECK_INT(top[0].longest_ns, 1000);
}

TEST_WITH(a_minor_collection_that_fails_has_no_window, create(29, 1, 1000000, 0))
{
    uint64_t pid = spawn(1, CODE(1));

    now_ns += 1000000;
    fp_allocations_event(f->allocations, 0, FP_GC_MINOR_START, pid, 0);
    fp_allocations_event(f->allocations, 0, FP_GC_MINOR_END, pid, 0);
    fp_allocations_event(f->allocations, 0, FP_GC_MAJOR_START, pid, 0);
    fake_set(&vm, 1, FP_FIELD_heap, fake_heap_at(1) + 8);
    fake_set(&vm, 1, FP_FIELD_high_water, fake_heap_at(1) + 80);
    put_behind_hend(1, 2, FAKE_HEAP_WORDS - 1);
    fp_allocations_event(f->allocations, 0, FP_GC_MAJOR_END, pid, 0);
    look(f);
    CHECK_INT((int64_t)f->counters.words, 5);
    CHECK_INT(f->counters.failed, 1);
    CHECK_INT(f->told.records, 1);
    CHECK_INT(f->told.weight[1], 5);
    CHECK_INT(f->told.last_flags & FP_ALLOCATION_MAJOR, FP_ALLOCATION_MAJOR);
    CHECK_INT(f->told.last_flags & FP_ALLOCATION_SURVIVED, 0);
}

TEST_WITH(a_new_heap_at_the_place_of_the_old_one_is_no_failure, create(25, 1, 1000000, 0))
{
    uint64_t pid = spawn(1, CODE(1));

    fp_allocations_event(f->allocations, 0, FP_GC_MINOR_START, pid, 0);
    fake_set(&vm, 1, FP_FIELD_high_water, fake_get(&vm, 1, FP_FIELD_htop));
    fp_allocations_event(f->allocations, 0, FP_GC_MINOR_END, pid, 0);
    look(f);
    CHECK_INT((int64_t)f->counters.words, 5);
    CHECK_INT(f->counters.failed, 0);
    CHECK_INT(f->told.weight[1], 5);
}

TEST_WITH(a_process_that_is_killed_in_a_collection_has_its_window_and_no_stack,
          create(25, 1, 1000000, 0))
{
    uint64_t pid = spawn(1, CODE(1)), other = spawn(2, CODE(2));

    fp_allocations_event(f->allocations, 0, FP_GC_MINOR_START, pid, 0);
    fake_exit(&vm, 1);
    collect(f->allocations, 2, other, 10, 0, 100);
    look(f);
    CHECK_INT((int64_t)f->counters.words, 15);
    CHECK_INT(f->told.weight[0], 5);
    CHECK_INT(f->told.weight[2], 10);
}

TEST_WITH(a_long_collection_is_told_though_it_has_no_sample, create(27, 1u << 30, 1000, 1000000))
{
    uint64_t pid = spawn(3, CODE(3));

    collect(f->allocations, 3, pid, 50, 10, 999999);
    look(f);
    CHECK_INT(f->told.records, 0);
    now_ns += 100000000;
    collect(f->allocations, 3, pid, 400, 10, 1000000);
    look(f);
    CHECK_INT(f->told.records, 1);
    CHECK_INT(f->told.last_flags & FP_ALLOCATION_LONG, FP_ALLOCATION_LONG);
    CHECK_INT(f->told.last_length, 1000000);
    CHECK_INT(f->told.last_frame, 3);
    CHECK_INT(f->told.last_cause, FP_GC_CAUSE_fragments);
    CHECK_INT(f->told.survived, 10);
}

/* Of 1 ms or more: the next one is looked at, however few looks there may be. */
TEST_WITH(after_a_long_collection_the_next_one_has_its_cause, create(25, 1u << 30, 1, 2000000))
{
    uint64_t pid = spawn(3, CODE(3)), looks;

    for (uint32_t k = 0; k < 20000; k++) {
        now_ns += 1000;
        collect(f->allocations, 3, pid, 10, 0, 999);
    }
    look(f);
    CHECK(f->counters.looks < 200);
    collect(f->allocations, 3, pid, 10, 0, 4000000);
    look(f);
    looks = f->counters.looks;
    collect(f->allocations, 3, pid, 400, 0, 2000000);
    collect(f->allocations, 3, pid, 400, 0, 999);
    look(f);
    CHECK_INT(f->counters.looks - looks, 2);
    CHECK_INT(f->told.records, 2);
    CHECK_INT(f->told.last_length, 2000000);
    CHECK_INT(f->told.last_cause, FP_GC_CAUSE_fragments);
}

TEST_WITH(what_a_full_ring_refuses_is_counted, create(25, 1, 1000000000, 0))
{
    uint64_t pid = spawn(1, CODE(1)), all = 0;

    for (uint32_t k = 0; k < 20000; k++) {
        now_ns += 2000000;
        collect(f->allocations, 1, pid, 10, 0, 100);
        all += 10;
    }
    look(f);
    CHECK(f->counters.dropped > 0);
    CHECK_INT(f->counters.samples, 20000);
    CHECK_INT(f->told.records + f->counters.dropped, 20000);
    CHECK_INT(f->told.weight[1] + f->counters.dropped_words, all);
}

TEST_WITH(looks_keep_within_their_number_a_second, create(25, 100000, 2000, 0))
{
    struct program program;
    int64_t begin;
    double before;

    run_program(f->allocations, &program, &f->told, 20000);
    begin = now_ns;
    look(f);
    before = (double)f->counters.looks;
    run_program(f->allocations, &program, &f->told, 100000);
    look(f);
    CHECK(((double)f->counters.looks - before) / ((double)(now_ns - begin) * 1e-9) < 3000);
}

TEST_WITH(threads_that_it_has_no_room_for_are_ignored, create(25, 1, 1000, 0))
{
    fp_allocations_event(f->allocations, 2, FP_GC_MINOR_START, spawn(1, CODE(1)), 0);
    fp_allocations_event(f->allocations, 1, FP_GC_MINOR_END, spawn(1, CODE(1)), 0);
    look(f);
    CHECK_INT(f->counters.minor, 0);
}

TEST_BETWEEN(words_in_no_window_yet_are_told, open_vm(27), fake_vm_destroy(&vm))
{
    uint64_t words, pid;
    uint32_t processes;

    spawn(1, CODE(1));
    pid = spawn(4, CODE(4));
    spawn(2, CODE(2));
    fake_set(&vm, 2, FP_FIELD_mbuf_size, 90);
    spawn(3, CODE(3));
    fake_exit(&vm, 3);
    CHECK_INT(fp_allocations_open_words(&vm.layout, &vm.memory.reader, pid, &words, &processes), 0);
    CHECK_INT(words, 100);
    CHECK_INT(processes, 2);
    /* A slot that another process has by now. */
    fake_put_word(&vm.memory, FAKE_TABLE + 8 * 5, fake_process_at(1));
    CHECK_INT(fp_allocations_open_words(&vm.layout, &vm.memory.reader, pid, &words, &processes), 0);
    CHECK_INT(processes, 2);
    fake_unmap(&vm.memory, FAKE_TABLE);
    CHECK_INT(fp_allocations_open_words(&vm.layout, &vm.memory.reader, pid, &words, &processes),
              FP_EFAULT);
}

/* Before main. */
__attribute__((constructor)) static void use_the_clock(void)
{
    virtual_clock = read_clock;
}
