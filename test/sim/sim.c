/* sim.c - the sampler and the writer in a world that is played (world.h), against its truth
 * (truth.h): stories that are told, and worlds that are chance.
 *
 *      sim                 all of it: the stories, and the seeds from 1 on
 *      sim WORD            the stories with that word in their names
 *      sim seed 17         one world of chance
 *      sim seeds 1000 90   so many worlds, from that seed on */
#include "truth.h"

#define SEEDS 200u

/* What a story begins with: all that is told then is the only thing that happens. */
static struct world *begin(struct plan plan)
{
    struct world *w;

    plan.seed = plan.seed == 0 ? 1 : plan.seed;
    plan.interval_us = plan.interval_us == 0 ? 10000 : plan.interval_us;
    w = world_create(&plan);
    for (uint32_t n = 0; n < PROCESSES; n++)
        world_spawn(w, n);
    return w;
}

static void end(struct world *w)
{
    world_end(w);
    world_destroy(w);
}

static void trigger(struct world *w)
{
    CHECK_INT(fp_writer_trigger(w->writer, "trigger"), 0);
    w->truth->was_buffering = 0;
    w->writer_at = w->now_ns;
}

static int flush(struct world *w)
{
    CHECK(fp_writer_flush(w->writer) > 0);
    w->writer_at = w->now_ns;
    world_run(w, 1);
    return w->flush_err;
}

/* ---------------------------------------------------------------- stories -- */

static void who_waits_has_a_sample_at_each_tick(void)
{
    struct world *w = begin((struct plan){.flush_ms = 1000});

    world_run(w, 3000);
    CHECK(counter(w, FP_COUNTER_ticks) >= 299);
    CHECK_INT(counter(w, FP_COUNTER_missed), 0);
    CHECK_INT(counter(w, FP_COUNTER_attempted), PROCESSES * counter(w, FP_COUNTER_ticks));
    end(w);
}

/* One second in a function, two in another. */
static void shares_are_the_script_s_to_the_sample(void)
{
    struct world *w = begin((struct plan){.flush_ms = 1000, .answer_us = 100});

    world_schedule(w, 3, 0);
    world_run(w, 1000);
    world_work(w, 3, 100);
    world_run(w, 2000);
    world_pause(w, 3, FP_STATUS_waiting);
    world_run(w, 1000);
    end(w);
}

static void each_scheduler_has_a_sample_at_each_tick(void)
{
    struct world *w =
        begin((struct plan){.mode = FP_MODE_SCHEDULERS, .flush_ms = 1000, .answer_us = 100});

    world_schedule(w, 3, 0);
    world_schedule(w, 4, 2);
    world_run(w, 1000);
    world_pause(w, 4, FP_STATUS_runnable);
    world_run(w, 1000);
    CHECK_INT(counter(w, FP_COUNTER_attempted), SCHEDULERS * counter(w, FP_COUNTER_ticks));
    end(w);
}

static void a_late_thread_counts_what_it_has_missed(void)
{
    struct world *w = begin((struct plan){.flush_ms = 1000});

    for (int64_t late = 1; late < 12; late++) {
        world_run(w, 100);
        w->sampler_at += late * 7 * MS;
    }
    world_run(w, 100);
    CHECK(counter(w, FP_COUNTER_missed) > 30);
    end(w);
}

/* The writer costs ten times what the sampler does. */
static void the_writer_s_work_is_in_the_budget(void)
{
    struct world *w = begin((struct plan){.flush_ms = 1000,
                                          .permille = 10,
                                          .read_ns = 200,
                                          .write_ns = 30000,
                                          .events_us = 2000,
                                          .answer_us = 100});

    world_run(w, 150000);
    CHECK(counter(w, FP_COUNTER_budget_step) > 0);
    end(w);
}

/* Those with most reductions until then are idle; others are busy now. */
static void who_is_busy_now_is_selected_within_half_a_second(void)
{
    struct world *w = begin((struct plan){.flush_ms = 1000, .top = 4, .select_ms = 20000});

    for (uint32_t n = 0; n < 4; n++) {
        w->process[n].reductions = 1000000;
        write_process(w, n);
    }
    world_run(w, 100);
    for (uint32_t n = 4; n < 8; n++)
        world_schedule(w, n, n - 4);
    for (int i = 0; i < 10; i++) {
        for (uint32_t n = 4; n < 8; n++)
            w->process[n].reductions += 3000, write_process(w, n);
        world_run(w, 50);
    }
    CHECK(counter(w, FP_COUNTER_captures) > 4);
    end(w);
}

static void a_trigger_has_the_lookback_and_no_more(void)
{
    struct world *w =
        begin((struct plan){.flush_ms = 1000, .lookback_ms = 4000, .events_us = 3000});
    int64_t triggered;

    world_run(w, 12000);
    triggered = w->now_ns;
    trigger(w);
    world_run(w, 2000);
    world_end(w);
    CHECK(w->truth->first_us * 1000 <= triggered - 4000 * MS);
    CHECK(w->truth->first_us * 1000 >= triggered - 4750 * MS);
    world_destroy(w);
}

static void files_stay_below_their_limit_at_each_write(void)
{
    struct world *w =
        begin((struct plan){.flush_ms = 200, .most_bytes = 1000000, .events_us = 1000});

    world_run(w, 12000);
    CHECK(counter(w, FP_COUNTER_files_removed) > 2);
    end(w);
}

static void a_disk_that_hangs_holds_up_no_tick(void)
{
    struct world *w = begin((struct plan){.flush_ms = 1000});

    world_run(w, 1000);
    w->hangs_until = w->now_ns + 3 * SECOND;
    world_run(w, 5000);
    CHECK_INT(counter(w, FP_COUNTER_missed), 0);
    end(w);
}

/* What was held is written, then the profiler's own sample: the ring has what came meanwhile. */
static void a_write_that_hangs_moves_no_sample_s_time(void)
{
    struct world *w =
        begin((struct plan){.flush_ms = 1000, .lookback_ms = 2000, .events_us = 2000});

    world_run(w, 3000);
    w->hangs_until = w->now_ns + 3 * SECOND;
    trigger(w);
    world_run(w, 5000);
    end(w);
}

/* What waits for it is bounded: the rest is lost, and counted. */
static void a_disk_that_is_full_for_long_loses_what_is_counted(void)
{
    struct world *w = begin((struct plan){.flush_ms = 1000, .events_us = 500});

    world_run(w, 1000);
    faulty_disk_room(0);
    world_run(w, 30000);
    CHECK(counter(w, FP_COUNTER_lost) > 0);
    CHECK_INT(flush(w), FP_EIO);
    faulty_disk_mend();
    CHECK_INT(flush(w), 0);
    world_run(w, 10000);
    end(w);
}

static void a_disk_that_mends_is_noticed_without_a_flush(void)
{
    struct world *w = begin((struct plan){.events_us = 500});

    faulty_disk_room(0);
    world_run(w, 4000);
    CHECK(counter(w, FP_COUNTER_errors) > 0);
    CHECK_INT(counter(w, FP_COUNTER_file_bytes), 0);
    faulty_disk_mend();
    world_run(w, 10000);
    CHECK(counter(w, FP_COUNTER_file_bytes) > 0);
    end(w);
}

/* ------------------------------------------------------------------ chance -- */

static uint32_t one_of(uint64_t *random, const uint32_t *some, size_t n)
{
    return some[run_below(random, (uint32_t)n)];
}
#define ONE_OF(random, ...)                                                                        \
    one_of(random, (const uint32_t[]){__VA_ARGS__},                                                \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void print_plan(const struct plan *p)
{
    printf("# mode %d interval %u flush %u per file %u lookback %u most %" PRIu64
           " zst %d merges %d ring %zu events %u late %u write_late %u answer %u read %u"
           " tears %d loses %d loads %d breaks %d hangs %d steps %d moves %d\n",
           (int)p->mode, p->interval_us, p->flush_ms, p->flushes_per_file, p->lookback_ms,
           p->most_bytes, p->is_zst, p->merges, p->ring_bytes, p->events_us, p->late_us,
           p->write_late_us, p->answer_us, p->read_ns, p->tears, p->loses_signals, p->loads_code,
           p->breaks_disk, p->hangs_disk, p->steps_clock, p->moves);
    fflush(stdout);
}

static void play_seed(uint64_t seed, int is_told)
{
    uint64_t random = seed;
    struct plan plan = {.seed = seed,
                        .mode = run_below(&random, 4) == 0 ? FP_MODE_SCHEDULERS : FP_MODE_PROCESSES,
                        .interval_us = ONE_OF(&random, 1000, 2000, 10000, 10000, 50000),
                        .flush_ms = ONE_OF(&random, 500, 1000, 2000),
                        .flushes_per_file = ONE_OF(&random, 0, 0, 4),
                        .is_zst = run_below(&random, 8) == 0,
                        .merges = run_below(&random, 4) == 0,
                        .ring_bytes = ONE_OF(&random, 0, 0, 1u << 16),
                        .events_us = ONE_OF(&random, 500, 2000, 20000),
                        .late_us = ONE_OF(&random, 0, 0, 5000, 200000),
                        .write_late_us = ONE_OF(&random, 0, 0, 300000),
                        .answer_us = ONE_OF(&random, 0, 100, 30000),
                        .read_ns = ONE_OF(&random, 0, 50, 1000),
                        .tears = (int)ONE_OF(&random, 0, 0, 0, 0, 200, 8),
                        .loses_signals = run_below(&random, 4) == 0,
                        .loads_code = run_below(&random, 2),
                        .breaks_disk = run_below(&random, 4) == 0,
                        .hangs_disk = run_below(&random, 6) == 0,
                        .steps_clock = run_below(&random, 6) == 0,
                        .moves = run_below(&random, 2)};
    struct world *w;
    char name[40];

    if (run_below(&random, 5) == 0)
        plan.most_bytes = 1000000;
    if (run_below(&random, 5) == 0 && !plan.breaks_disk)
        plan.lookback_ms = 2000;
    if (is_told)
        print_plan(&plan);
    snprintf(name, sizeof name, "seed %" PRIu64, seed);
    run_name = name;
    w = begin(plan);
    world_run(w, plan.interval_us * INT64_C(450) / 1000);
    if (plan.lookback_ms > 0)
        trigger(w);
    world_run(w, plan.interval_us * INT64_C(150) / 1000);
    end(w);
    run_name = "";
}

static void play_seeds(uint64_t n, uint64_t first)
{
    for (uint64_t seed = first; seed < first + n; seed++)
        play_seed(seed, 0);
    printf("# seeds %" PRIu64 " to %" PRIu64 "\n", first, first + n - 1);
}

static void worlds_of_chance_are_as_true(void)
{
    play_seeds(SEEDS, 1);
}

/* Seeds beyond these that failed once, if by a mistake of the truth: two captures of a process,
 * many ticks that waited for one, a sample given up within a tick. Seed 472 has an inconsistent
 * second attempt: no world of the first 200 shows that it is verified (prove.sh). A change of the
 * world makes another one of a seed: what the product did wrong is a story, too. */
static void worlds_that_failed_once_are_as_true(void)
{
    static const uint64_t kept[] = {472, 1175, 1207, 1256, 1401, 2090};

    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        play_seed(kept[i], 0);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "seed") == 0) {
        play_seed(strtoull(argv[2], NULL, 10), 1);
        return 0;
    }
    if (argc > 3 && strcmp(argv[1], "seeds") == 0) {
        play_seeds(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
        return 0;
    }
    RUN_START(argc, argv);
    RUN(who_waits_has_a_sample_at_each_tick);
    RUN(shares_are_the_script_s_to_the_sample);
    RUN(each_scheduler_has_a_sample_at_each_tick);
    RUN(a_late_thread_counts_what_it_has_missed);
    RUN(the_writer_s_work_is_in_the_budget);
    RUN(who_is_busy_now_is_selected_within_half_a_second);
    RUN(a_trigger_has_the_lookback_and_no_more);
    RUN(files_stay_below_their_limit_at_each_write);
    RUN(a_disk_that_hangs_holds_up_no_tick);
    RUN(a_write_that_hangs_moves_no_sample_s_time);
    RUN(a_disk_that_is_full_for_long_loses_what_is_counted);
    RUN(a_disk_that_mends_is_noticed_without_a_flush);
    RUN(worlds_of_chance_are_as_true);
    RUN(worlds_that_failed_once_are_as_true);
    return RUN_END();
}
