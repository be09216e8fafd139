/* test_on_cpu.c - processes on a scheduler: a capture is requested, comes late or never, and the
 * counters balance. The schedulers are the test's own; captures are of the fake VM, as the handler
 * makes them. */
#include "base/error.h"
#include "broken.h"
#include "fake_schedulers.h"
#include "fake_terms.h"
#include "sampler_bench.h"
#include "test.h"
#include "virtual_clock.h"

#define PROCESSES 12u
/* A turn's reductions that are left when a scheduler is asked. */
#define LEFT 2500

static int64_t now_ns = 1000000000;

static int64_t read_clock(clockid_t clock)
{
    (void)clock;
    return now_ns;
}

static struct bench *create(enum fp_mode mode)
{
    struct bench *b = bench_create(27, 64, PROCESSES);

    fake_schedulers_create(&b->vm);
    atomic_store(&b->online, SCHEDULERS);
    b->is_late = 1;
    b->options.mode = (uint8_t)mode;
    b->options.running_stacks = 1;
    b->options.cstack = &b->cstack;
    b->options.schedulers_online = &b->online;
    return b;
}

/* ------------------------------------------------------------- processes -- */

static void spawn(struct bench *b, uint32_t n)
{
    const uint64_t words[] = {0x1b, CODE + 0x100 + 16 * n, CODE + 0x2000};

    fake_spawn(&b->vm, n, CODE + 16 * n);
    fake_set_stack(&b->vm, n, words, 3);
    fake_set(&b->vm, n, FP_FIELD_reds, 1000000);
}

static void run(struct bench *b, uint32_t n, unsigned at)
{
    put_on_scheduler(&b->vm, n, at);
}

static void pause_it(struct bench *b, uint32_t n, unsigned at)
{
    take_from_scheduler(&b->vm, n, at);
}

/* The process that is current is in Erlang code. */
static void answer(struct bench *b, unsigned at)
{
    run_handler(&b->vm, at, CODE + 0x500, LEFT);
}

static struct bench *create_with_one(enum fp_mode mode)
{
    struct bench *b = create(mode);

    spawn(b, 1);
    run(b, 1, 0);
    start(b);
    return b;
}

#define ON_CPU(test, mode) TEST_ON(test, struct bench *, b, create(mode), bench_end)
/* Process 1 runs on scheduler 0, and the sampler has started. */
#define ONE_RUNS(test, mode) TEST_ON(test, struct bench *, b, create_with_one(mode), bench_end)

static void answer_and_tick(struct bench *b, unsigned at)
{
    answer(b, at);
    tick(b);
}

/* ------------------------------------------------------------- one of them -- */

ON_CPU(what_runs_is_asked_and_sampled_when_it_answers, FP_MODE_PROCESSES)
{
    spawn(b, 3);
    run(b, 3, 1);
    start(b);
    tick(b);
    CHECK_INT(b->samples, 0);
    CHECK_INT(stat(b, FP_COUNTER_signals), 1);
    CHECK_INT(scheduler[1].asked, 1);
    check_books(b);
    answer_and_tick(b, 1);
    CHECK_INT(b->samples, 1);
    CHECK_INT(b->last.head.status, FP_STATUS_running);
    CHECK_INT(b->process[b->last.process].number, 3);
    CHECK_INT(b->last.value[FP_METRIC_reductions], 1000000 + 4000 - LEFT);
    CHECK_INT(b->last.value[FP_METRIC_stack_size], 3);
    CHECK_INT(last_stack(b)->count, 3);
    CHECK(last_stack(b)->frame[0] == CODE + 0x500);
    CHECK(last_stack(b)->frame[1] == CODE + 0x100 + 48 - 1);
    CHECK(last_stack(b)->frame[2] == CODE + 0x2000 - 1);
    CHECK_INT(stat(b, FP_COUNTER_captures), 1);
    CHECK_INT(stat(b, FP_COUNTER_handler_ns), 100);
    CHECK_INT(scheduler[1].released, 1);
    CHECK_INT(stat(b, FP_COUNTER_signals), 2); /* of this tick */
}

ONE_RUNS(what_has_left_its_scheduler_is_moved, FP_MODE_PROCESSES)
{
    spawn(b, 2);
    /* For two ticks; then no process is there. */
    tick(b);
    pause_it(b, 1, 0);
    run(b, 1, 0);
    tick(b);
    set_current(&b->vm, 0, 0);
    answer_and_tick(b, 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_moved), 2);
    /* Another process. */
    fake_set(&b->vm, 1, FP_FIELD_state, 0x2a);
    run(b, 2, 0);
    answer_and_tick(b, 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_moved), 3);
    /* Itself, but it does not run any more. */
    answer(b, 0);
    fake_set(&b->vm, 2, FP_FIELD_state, 0x2a);
    answer_and_tick(b, 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_moved), 4);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent), 4);
}

ON_CPU(a_process_between_schedulers_is_moved, FP_MODE_PROCESSES)
{
    spawn(b, 1);
    run(b, 1, 0);
    set_scheduler_data(&b->vm, 1, 0);
    start(b);
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_moved), 1);
    CHECK_INT(stat(b, FP_COUNTER_signals), 0);
}

ON_CPU(on_a_scheduler_that_can_not_be_asked_it_runs_all_the_same, FP_MODE_PROCESSES)
{
    spawn(b, 1);
    run(b, 1, 2);
    scheduler[2].data = 0;
    start(b);
    tick(b);
    CHECK_INT(b->samples, 1);
    CHECK(last_stack(b)->frame[0] == FP_FRAME_RUNNING);
    CHECK_INT(stat(b, FP_COUNTER_signals), 0);
}

ON_CPU(a_capture_of_a_class_that_is_off_has_its_frame, FP_MODE_PROCESSES)
{
    atomic_store(&fp_capture_classes_off, FP_CLASS_ERLANG);
    spawn(b, 1);
    run(b, 1, 0);
    start(b);
    tick(b);
    tick(b);
    answer_and_tick(b, 0);
    CHECK_INT(b->samples, 2); /* of both ticks that waited */
    CHECK_INT(last_stack(b)->count, 1);
    CHECK(last_stack(b)->frame[0] == FP_FRAME_RUNNING);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent), 0);
    check_books(b);
    /* Of another class. */
    atomic_store(&fp_capture_classes_off, FP_CLASS_NIF | FP_CLASS_GC);
    answer_and_tick(b, 0);
    CHECK_INT(b->samples, 3);
    CHECK(last_stack(b)->frame[0] == CODE + 0x500);
    atomic_store(&fp_capture_classes_off, 0);
}

/* The structure has the words of the sample before the capture, which is emitted after it. */
ONE_RUNS(what_waits_as_it_did_before_a_late_capture_is_no_repeat_of_that, FP_MODE_PROCESSES)
{
    tick(b);
    pause_it(b, 1, 0);
    tick(b);
    CHECK_INT(b->last.head.status, FP_STATUS_waiting);
    run(b, 1, 0);
    answer(b, 0);
    pause_it(b, 1, 0);
    tick(b);
    CHECK_INT(b->samples, 3);
    CHECK_INT(b->repeats, 0);
    CHECK_INT(b->last.head.status, FP_STATUS_waiting);
    tick(b);
    CHECK_INT(b->repeats, 1);
}

ONE_RUNS(a_request_that_is_refused_is_late, FP_MODE_PROCESSES)
{
    scheduler[0].refuses = FP_ESTATE;
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_late), 1);
    scheduler[0].refuses = FP_ESIGNAL;
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_late), 1);
    CHECK_INT(b->samples, 1);
    CHECK(last_stack(b)->frame[0] == FP_FRAME_RUNNING);
    CHECK_INT(stat(b, FP_COUNTER_signals), 0);
    CHECK_INT(stat(b, FP_COUNTER_refused_signals), 1);
    scheduler[0].refuses = 0;
    tick(b);
    answer_and_tick(b, 0);
    CHECK_INT(b->samples, 2);
}

ONE_RUNS(a_scheduler_that_is_asked_for_one_is_late_for_another, FP_MODE_PROCESSES)
{
    spawn(b, 2);
    tick(b);
    pause_it(b, 1, 0);
    run(b, 2, 0);
    tick(b);
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_late), 2);
    CHECK_INT(stat(b, FP_COUNTER_signals), 1);
    answer_and_tick(b, 0); /* about 2, to a question about 1 */
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_moved), 1);
    answer_and_tick(b, 0);
    CHECK_INT(b->seen[2], 1 + 1); /* the first time it waited */
}

ONE_RUNS(a_stack_that_is_not_found_is_unfound, FP_MODE_PROCESSES)
{
    tick(b);
    tick(b);
    answer(b, 0);
    scheduler[0].running.result = FP_CAPTURE_UNFOUND;
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_unfound), 2);
    CHECK_INT(b->samples, 0);
}

ON_CPU(only_answers_of_the_status_asked_for_are_samples, FP_MODE_PROCESSES)
{
    b->options.status = FP_STATUS_running;
    spawn(b, 1);
    run(b, 1, 0);
    start(b);
    tick(b);
    fake_set(&b->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    answer_and_tick(b, 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_moved), 1);
    CHECK_INT(stat(b, FP_COUNTER_attempted), 1); /* now it was not asked for */
}

/* One that is pinned has a status of its own, whatever that of the chosen is. */
TEST(an_answer_is_held_against_the_status_of_its_process)
{
    struct bench *b = create(FP_MODE_PROCESSES);
    struct fp_triple_buffer *pinned;
    uint64_t *word;

    CHECK_INT(fp_triple_buffer_create(&pinned, FP_PINNED_MAX * FP_PINNED_WORDS), 0);
    b->options.pinned = pinned;
    b->options.status = FP_STATUS_running;
    b->options.rankings = 0;
    spawn(b, 1);
    run(b, 1, 0);
    start(b);
    word = fp_triple_buffer_begin(pinned);
    word[0] = fake_pid(&b->vm.layout, 1);
    word[1] = UINT64_MAX;
    fp_triple_buffer_publish(pinned, FP_PINNED_WORDS);
    tick(b);
    fake_set(&b->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    answer_and_tick(b, 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_moved), 0);
    CHECK_INT(b->samples, 1);
    CHECK_INT(b->last.head.status, FP_STATUS_garbage_collecting);
    bench_destroy(b);
    fp_triple_buffer_destroy(pinned);
}

/* ----------------------------------------------------------- the collector -- */

ONE_RUNS(while_collecting_the_last_whole_figures_stand, FP_MODE_PROCESSES)
{
    struct fp_record_sample whole;

    tick(b);
    answer_and_tick(b, 0);
    whole = b->last;
    fake_set(&b->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    fake_set(&b->vm, 1, FP_FIELD_reds, 1005000);
    fake_set(&b->vm, 1, FP_FIELD_high_water, 0);
    fake_set(&b->vm, 1, FP_FIELD_mbuf_size, UINT64_MAX);
    answer_and_tick(b, 0);
    CHECK_INT(b->samples, 2);
    CHECK_INT(b->last.head.status, FP_STATUS_garbage_collecting);
    CHECK(last_stack(b)->frame[0] == FP_FRAME_GC);
    CHECK_INT(b->last.delta[FP_METRIC_reductions], 5000);
    for (int m = 0; m < FP_METRIC_COUNT; m++)
        if (m != FP_METRIC_reductions)
            CHECK_INT(b->last.value[m], whole.value[m]);
}

/* It hibernates: `hend' is of the block that it goes to, all else of the one that it comes from,
 * for as long as the terms are walked. The stack in the capture is the new one. */
ONE_RUNS(while_it_hibernates_it_has_no_heap_of_two_blocks, FP_MODE_PROCESSES)
{
    struct fp_record_sample whole;

    tick(b);
    answer_and_tick(b, 0);
    whole = b->last;
    fake_set(&b->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    fake_set_torn(&b->vm, 1, FP_FIELD_hend, fake_heap_at(5));
    fake_set_torn(&b->vm, 1, FP_FIELD_stop, fake_heap_at(5) - 8);
    for (int i = 0; i < 3; i++) { /* and for more than one sample */
        answer_and_tick(b, 0);
        CHECK_INT(b->samples, 2 + i);
        for (int m = 0; m < FP_METRIC_COUNT; m++)
            if (m != FP_METRIC_reductions)
                CHECK_INT(b->last.value[m], whole.value[m]);
    }
}

ON_CPU(where_there_are_no_whole_figures_none_are_made_up, FP_MODE_PROCESSES)
{
    spawn(b, 1);
    run(b, 1, 0);
    fake_set(&b->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    fake_set(&b->vm, 1, FP_FIELD_high_water, 0);
    start(b);
    tick(b);
    answer_and_tick(b, 0);
    CHECK_INT(b->samples, 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_changed), 1);
}

/* --------------------------------------------------------- the dictionary -- */

/* sizeMask, usedSlots, arraySize, splitPosition of 8 slots in an array of 16. */
static const uint32_t dictionary_of_16[4] = {15, 8, 16, 0};
/* What an allocator leaves of it. */
static const uint32_t not_a_dictionary[4] = {0x7f3e1108, 0x7f3e, 900000000, 0};

static void give_dictionary(struct bench *b, uint32_t n)
{
    fake_map(&b->vm.memory, FAKE_MISC, 4096);
    fake_put(&b->vm.memory, FAKE_MISC, dictionary_of_16, sizeof dictionary_of_16);
    fake_set(&b->vm, n, FP_FIELD_dictionary, FAKE_MISC);
}

ONE_RUNS(a_dictionary_has_the_size_of_the_capture_s_moment, FP_MODE_SCHEDULERS)
{
    int64_t bare;

    tick(b);
    answer_and_tick(b, 0);
    bare = b->last.value[FP_METRIC_memory];
    give_dictionary(b, 1);
    answer(b, 0);
    fake_put(&b->vm.memory, FAKE_MISC, not_a_dictionary, sizeof not_a_dictionary);
    tick(b);
    CHECK_INT(b->seen[1], 2);
    CHECK_INT(b->last.value[FP_METRIC_memory], bare + 24 + 8 * 16);
}

ON_CPU(a_dictionary_that_is_none_makes_no_sample, FP_MODE_SCHEDULERS)
{
    spawn(b, 1);
    give_dictionary(b, 1);
    fake_put(&b->vm.memory, FAKE_MISC, not_a_dictionary, sizeof not_a_dictionary);
    run(b, 1, 0);
    start(b);
    tick(b);
    answer_and_tick(b, 0);
    fake_set(&b->vm, 1, FP_FIELD_dictionary, 0x1000); /* not readable */
    answer_and_tick(b, 0);
    CHECK_INT(b->seen[1], 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_changed), 2);
}

/* ------------------------------------------------------- OpenTelemetry's ids -- */

#define OTHERS (FAKE_MISC + 8192) /* a page that no window of FAMILIAR has a word of */
#define FAMILIAR (FAKE_MISC + 4096)
#define MAP_HEADER UINT64_C(0x6c)
#define ATOM(index) ((uint64_t)(index) << 6 | 0x0b)

/* Ids below 2^59, which are one word each. */
static uint64_t entry_at(struct bench *b, uint64_t at, uint64_t id)
{
    const struct fp_otel_terms *atoms = &b->options.layout.otel;
    struct fake_terms heap = {&b->vm.memory, at};
    uint64_t span[9] = {atoms->span_ctx, FAKE_SMALL(id), FAKE_SMALL(id + 1)}, keys, map;

    keys = FAKE_TUPLE(&heap, FAKE_TUPLE(&heap, atoms->otel_tracer, atoms->span_ctx));
    map = fake_boxed(&heap, MAP_HEADER, (uint64_t[]){1, keys, fake_tuple(&heap, span, 9)}, 3);
    return FAKE_TUPLE(&heap, atoms->context, map);
}

/* The atom of a context has index 3: that is the slot. */
static void put_entry(struct bench *b, uint64_t entry)
{
    fake_put_word(&b->vm.memory, FAKE_MISC + 24 + 8 * 3, entry);
}

static struct bench *create_in_span(enum fp_mode mode)
{
    struct bench *b = create(mode);

    b->options.otel = 1;
    b->options.layout.otel = (struct fp_otel_terms){ATOM(3), ATOM(7), ATOM(8), MAP_HEADER};
    spawn(b, 1);
    give_dictionary(b, 1);
    fake_map(&b->vm.memory, FAMILIAR, 2 * 4096);
    for (uint32_t i = 0; i < 16; i++)
        fake_put_word(&b->vm.memory, FAKE_MISC + 24 + 8 * i, FAKE_NIL);
    put_entry(b, entry_at(b, FAMILIAR, 100));
    run(b, 1, 0);
    start(b);
    tick(b);
    return b;
}

#define IN_SPAN(test, mode) TEST_ON(test, struct bench *, b, create_in_span(mode), bench_end)

static void check_ids(struct bench *b, uint64_t id, uint64_t missed)
{
    CHECK_INT(b->seen[1], 1);
    CHECK_INT(b->work.trace.id[0], 0);
    CHECK_INT(b->work.trace.id[1], id);
    CHECK_INT(b->work.trace.span, id == 0 ? 0 : id + 1);
    CHECK_INT(stat(b, FP_COUNTER_missed_traces), missed);
}

IN_SPAN(a_running_process_has_the_ids_of_its_capture, FP_MODE_PROCESSES)
{
    answer(b, 0);
    /* Another span, once the handler has run. */
    entry_at(b, FAMILIAR, 200);
    tick(b);
    check_ids(b, 100, 0);
}

IN_SPAN(in_mode_schedulers_too_a_process_has_its_ids, FP_MODE_SCHEDULERS)
{
    answer_and_tick(b, 0);
    check_ids(b, 100, 0);
}

IN_SPAN(ids_that_change_before_the_capture_are_the_new_ones_or_missing, FP_MODE_PROCESSES)
{
    entry_at(b, FAMILIAR, 200);
    answer_and_tick(b, 0);
    check_ids(b, 200, 0);
    put_entry(b, entry_at(b, OTHERS, 300));
    b->seen[1] = 0;
    answer_and_tick(b, 0);
    check_ids(b, 0, 1);
    /* The next request names where they are now. */
    b->seen[1] = 0;
    answer_and_tick(b, 0);
    check_ids(b, 300, 1);
}

IN_SPAN(each_sample_of_a_capture_without_ids_is_counted, FP_MODE_PROCESSES)
{
    tick(b);
    tick(b);
    put_entry(b, entry_at(b, OTHERS, 300));
    answer_and_tick(b, 0);
    CHECK_INT(b->seen[1], 3);
    CHECK_INT(stat(b, FP_COUNTER_missed_traces), 3);
}

IN_SPAN(a_process_without_a_span_has_no_ids_and_misses_none, FP_MODE_PROCESSES)
{
    put_entry(b, FAKE_NIL);
    answer_and_tick(b, 0);
    check_ids(b, 0, 0);
}

IN_SPAN(while_it_collects_a_process_has_no_ids_and_misses_none, FP_MODE_PROCESSES)
{
    fake_set(&b->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    answer_and_tick(b, 0);
    check_ids(b, 0, 0);
}

/* The one that runs on the scheduler by then has a dictionary elsewhere. */
IN_SPAN(another_process_has_none_of_these_ids, FP_MODE_SCHEDULERS)
{
    spawn(b, 2);
    run(b, 2, 0);
    fake_put(&b->vm.memory, OTHERS, dictionary_of_16, sizeof dictionary_of_16);
    fake_put_word(&b->vm.memory, OTHERS + 24 + 8 * 3, entry_at(b, OTHERS + 512, 300));
    fake_set(&b->vm, 2, FP_FIELD_dictionary, OTHERS);
    answer_and_tick(b, 0);
    CHECK_INT(b->seen[2], 1);
    CHECK_INT(b->work.trace.span, 0);
    CHECK_INT(stat(b, FP_COUNTER_missed_traces), 1);
}

ONE_RUNS(a_process_that_is_free_when_captured_is_gone, FP_MODE_SCHEDULERS)
{
    tick(b);
    tick(b);
    fake_set(&b->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_EXITING | FP_PSFLG_FREE);
    answer(b, 0);
    set_current(&b->vm, 0, 0);
    tick(b);
    CHECK_INT(b->seen[1], 0);
    CHECK_INT(stat(b, FP_COUNTER_exited), 2);
}

/* What the turn has counted so far is not in the structure yet. */
ONE_RUNS(reductions_never_fall, FP_MODE_PROCESSES)
{
    tick(b);
    answer_and_tick(b, 0);
    CHECK_INT(b->last.value[FP_METRIC_reductions], 1001500);
    /* It pauses before the structure has been brought up to that. */
    pause_it(b, 1, 0);
    fake_set(&b->vm, 1, FP_FIELD_reds, 1000900);
    set_current(&b->vm, 0, 0);
    answer_and_tick(b, 0);
    CHECK_INT(b->last.head.status, FP_STATUS_waiting);
    CHECK_INT(b->last.value[FP_METRIC_reductions], 1001500);
    CHECK_INT(b->last.delta[FP_METRIC_reductions], 0);
    fake_set(&b->vm, 1, FP_FIELD_reds, 1001600);
    tick(b);
    CHECK_INT(b->last.value[FP_METRIC_reductions], 1001600);
    CHECK_INT(b->last.delta[FP_METRIC_reductions], 100);
}

/* ------------------------------------------------------ between the ticks -- */

/* In twenty ticks of 5 ms: how often it looks for a capture that does not come. */
static int polls_with(int sessions)
{
    struct bench *b = create(FP_MODE_PROCESSES);
    int n;

    users = sessions;
    spawn(b, 1);
    run(b, 1, 0);
    b->options.interval_us = 5000;
    start(b);
    atomic_store(&polls, 0);
    while (stat(b, FP_COUNTER_ticks) < 20)
        now_ns = fp_sampler_step(b->sampler);
    n = atomic_load(&polls);
    CHECK_INT(stat(b, FP_COUNTER_signals), 1);
    users = 1;
    bench_destroy(b);
    return n;
}

/* A wake-up costs as much as many samples: at the tick and when it begins to sleep, and for others
 * after 0.1 ms, 0.8 ms and 6.4 ms. */
TEST(it_wakes_between_ticks_for_others_only)
{
    CHECK_INT(polls_with(1), 2 * 19 + 1);
    CHECK_INT(polls_with(2), 2 * 19 + 1 + 2 * 19);
}

/* ---------------------------------------------- no capture that may come -- */

ONE_RUNS(while_another_owner_has_the_signal_no_sample_is_lost, FP_MODE_PROCESSES)
{
    tick(b);
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_signals), 1);
    other_owner = 64;
    tick(b);
    /* Two that waited, and that of this tick. */
    CHECK_INT(b->samples, 3);
    CHECK(last_stack(b)->frame[0] == FP_FRAME_RUNNING);
    CHECK_INT(scheduler[0].released, 1);
    CHECK_INT(stat(b, FP_COUNTER_lost_signal), 64);
    tick(b);
    CHECK_INT(b->samples, 4);
    CHECK_INT(stat(b, FP_COUNTER_signals), 1);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent), 0);
    check_books(b);
    other_owner = 0;
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_lost_signal), 0);
    CHECK_INT(stat(b, FP_COUNTER_signals), 2);
    answer_and_tick(b, 0);
    CHECK_INT(b->samples, 5);
    CHECK(last_stack(b)->frame[0] == CODE + 0x500);
}

ON_CPU(a_lost_scheduler_is_counted_and_what_it_runs_has_its_frame, FP_MODE_PROCESSES)
{
    spawn(b, 1);
    spawn(b, 2);
    run(b, 1, 0);
    run(b, 2, 1);
    start(b);
    tick(b);
    answer(b, 1);
    scheduler[0].is_lost = 1;
    scheduler[0].refuses = FP_ESTATE;
    tick(b);
    CHECK_INT(b->seen[1], 2);
    CHECK_INT(b->seen[2], 1);
    CHECK_INT(stat(b, FP_COUNTER_lost_schedulers), 1);
    CHECK_INT(stat(b, FP_COUNTER_lost_signal), 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent), 0);
    check_books(b);
    /* Its handler has come after all. */
    scheduler[0].is_lost = 0;
    scheduler[0].refuses = 0;
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_lost_schedulers), 0);
    answer_and_tick(b, 0);
    CHECK_INT(b->seen[1], 3);
}

ON_CPU(in_mode_schedulers_too_what_runs_unasked_has_its_frame, FP_MODE_SCHEDULERS)
{
    spawn(b, 1);
    spawn(b, 2);
    run(b, 1, 0);
    run(b, 2, 1);
    start(b);
    other_owner = 64;
    tick(b);
    CHECK_INT(b->seen[1], 1);
    CHECK_INT(b->seen[2], 1);
    CHECK_INT(b->ran_on[1], 1);
    CHECK_INT(b->ran_on[2], 2);
    CHECK_INT(b->idle[3], 1);
    CHECK_INT(stat(b, FP_COUNTER_signals), 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent), 0);
    check_books(b);
    other_owner = 0;
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_signals), 2);
    answer(b, 0);
    answer(b, 1);
    scheduler[1].is_lost = 1;
    tick(b);
    CHECK_INT(b->seen[1], 2);
    CHECK_INT(b->seen[2], 2);
}

/* Whatever the reason is that there is no capture, the sample is of the scheduler that the process
 * ran on. */
ON_CPU(without_a_capture_the_scheduler_is_known, FP_MODE_SCHEDULERS)
{
    spawn(b, 1);
    spawn(b, 2);
    run(b, 1, 3);
    run(b, 2, 2);
    start(b);
    scheduler[3].refuses = FP_ESIGNAL; /* the kernel takes no more signals */
    scheduler[2].refuses = FP_ESTATE;
    scheduler[2].is_lost = 1;
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_refused_signals), 1);
    CHECK_INT(stat(b, FP_COUNTER_refused_in_a_row), 1);
    CHECK_INT(b->seen[1], 1);
    CHECK_INT(b->seen[2], 1);
    CHECK_INT(b->ran_on[1], 4);
    CHECK_INT(b->ran_on[2], 3);
    /* Requested in earlier ticks, and then the signal is lost. */
    scheduler[2].refuses = FP_ESTATE; /* as when a capture is pending: says nothing of signals */
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_refused_in_a_row), 2);
    scheduler[3].refuses = scheduler[2].refuses = scheduler[2].is_lost = 0;
    tick(b);
    CHECK_INT(stat(b, FP_COUNTER_signals), 2);
    CHECK_INT(stat(b, FP_COUNTER_refused_signals), 2);
    CHECK_INT(stat(b, FP_COUNTER_refused_in_a_row), 0);
    answer(b, 2);
    other_owner = 64;
    tick(b);
    CHECK_INT(b->ran_on[1], 4);
    CHECK_INT(b->ran_on[2], 3);
}

/* -------------------------------------------------------- mode schedulers -- */

ON_CPU(schedulers_that_are_offline_or_strangers_are_left_out, FP_MODE_SCHEDULERS)
{
    scheduler[0].data = 0;
    atomic_store(&b->online, 2);
    start(b);
    tick(b);
    CHECK_INT(b->samples, 1);
    CHECK_INT(b->idle[2], 1);
    atomic_store(&b->online, 4);
    tick(b);
    CHECK_INT(b->idle[2], 2);
    CHECK_INT(b->idle[3], 1);
    CHECK_INT(b->idle[4], 1);
}

/* Before main. */
__attribute__((constructor)) static void use_the_clock(void)
{
    virtual_clock = read_clock;
}

/* ---------------------------------------------------------------- broken -- */

TEST(a_capture_for_a_target_that_there_is_not_is_no_sample)
{
    struct bench *b = create(FP_MODE_PROCESSES);

    spawn(b, 3);
    run(b, 3, 1);
    start(b);
    tick(b);
    b->sampler->pending[1].target = b->sampler->targets;
    answer(b, 1);
    CHECK_BROKEN("session/on_cpu.c", fp_on_cpu_poll(b->sampler));
    drain(b);
    CHECK_INT(b->samples, 0);
    CHECK_INT(stat(b, FP_COUNTER_inconsistent_moved), 1);
    check_books(b);
    bench_destroy(b);
}
