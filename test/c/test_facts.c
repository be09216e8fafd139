/* What the facts of a process are, of files that a story made. */
#include "profile_text.h"
#include "test.h"

#include "report/facts.h"

struct sample {
    int pid;
    int64_t us;
    const char *status, *frames; /* lines, leaf first */
    int scheduler;
    int64_t reductions, queue, memory, vheap, old_vheap, recent, old;
    const char *words;
    int is_bare; /* without numbers */
};

static void put_bare_sample(FILE *out, const struct sample *sample)
{
    fprintf(out,
            "beam 42/%d [%03d] %lld.%06lld: erl_pid=<0.%d.0> cpu-clock:\n"
            "\tffffffff shop:init/1 (shop.erl)\n\tffffffff %s (status)\n\n",
            sample->pid, sample->scheduler, (long long)sample->us / 1000000,
            (long long)sample->us % 1000000, sample->pid, sample->status);
}

static void put_sample(FILE *out, const struct sample *sample)
{
    fprintf(out,
            "beam 42/%d [%03d] %lld.%06lld: reductions=%lld/0 message_queue_len=%lld/0 "
            "memory=%lld/0 bin_vheap_size=%lld/0 bin_old_vheap_size=%lld/0 recent_size=%lld/0 "
            "old_heap_size=%lld/0 erl_pid=<0.%d.0> "
            "%scpu-clock:\n%s\tffffffff shop:init/1 (shop.erl)\n\tffffffff %s (status)\n\n",
            sample->pid, sample->scheduler, (long long)sample->us / 1000000,
            (long long)sample->us % 1000000, (long long)sample->reductions,
            (long long)sample->queue, (long long)sample->memory, (long long)sample->vheap,
            (long long)sample->old_vheap, (long long)sample->recent, (long long)sample->old,
            sample->pid, sample->words == NULL ? "" : sample->words,
            sample->frames == NULL ? "" : sample->frames, sample->status);
}

/* In the order of time: `count` samples of each of `stories`, 10 ms apart. */
typedef struct sample story(int64_t n);

static struct fp_profile *profile_of_stories(story *const *stories, int64_t count)
{
    struct fp_profile *profile;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    CHECK(out != NULL);
    for (int64_t n = 0; n < count; n++) {
        for (int i = 0; stories[i] != NULL; i++) {
            struct sample sample = stories[i](n);

            sample.pid = i + 1;
            sample.us = 100000000 + n * 10000;
            if (sample.is_bare)
                put_bare_sample(out, &sample);
            else
                put_sample(out, &sample);
        }
    }
    fclose(out);
    profile = profile_of(text, size);
    CHECK_INT(profile->file[0].bad, 0);
    free(text);
    return profile;
}

struct fixture {
    struct fp_profile *profile;
    struct fp_facts facts;
};

static struct fixture *create(story *const *stories, int64_t count)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->profile = profile_of_stories(stories, count);
    CHECK_INT(fp_facts_make(&f->facts, f->profile), 0);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_facts_free(&f->facts, &f->profile->budget);
    fp_profile_destroy(f->profile);
    free(f);
}

#define STORIES_TEST(test, count, ...)                                                             \
    TEST_WITH(test, create((story *[]){__VA_ARGS__, NULL}, count))

static void check_symbol(const struct fp_profile *profile, uint32_t frame, const char *symbol)
{
    CHECK(fp_slice_is(fp_profile_text(profile, profile->tree.frame[frame].symbol),
                      (struct fp_slice){symbol, strlen(symbol)}));
}

#define C_FRAMES "\tffffffff deflate (libz.so)\n\tffffffff zlib:deflate_nif/4 (nif)\n"

/* For 1.5 s in one call, then in many short ones. */
static struct sample blocks(int64_t n)
{
    if (n < 150)
        return (struct sample){
            .status = "running", .frames = C_FRAMES, .scheduler = 2, .reductions = 5000};
    return (struct sample){
        .status = "running", .frames = C_FRAMES, .scheduler = 2, .reductions = 5000 + 4000 * n};
}

static struct sample is_dirty(int64_t n)
{
    (void)n;
    return (struct sample){.status = "running", .frames = C_FRAMES, .reductions = 7};
}

/* Collects for 200 ms, works, collects for 300 ms: another collection. */
static struct sample collects(int64_t n)
{
    return (struct sample){.status = n == 21  ? "running"
                                     : n < 52 ? "garbage_collecting"
                                              : "waiting",
                           .frames = "\tffffffff shop:report/1:9 (shop.erl)\n",
                           .reductions = n < 22 ? 10 : 20};
}

STORIES_TEST(a_call_that_does_not_yield_is_a_stay, 300, blocks, is_dirty, collects)
{
    const struct fp_stays *stays;

    stays = &f->facts.process[0].native;
    CHECK_INT(stays->longest.until_us - stays->longest.since_us, 1490000);
    CHECK_INT(stays->longest.scheduler, 2);
    CHECK_INT(stays->longest.samples, 150);
    check_symbol(f->profile, stays->longest.frame, "zlib:deflate_nif/4");
    CHECK_INT(stays->count, 1);
    CHECK_INT(f->facts.process[1].native.longest.samples, 0);
    stays = &f->facts.process[2].collections;
    CHECK_INT(stays->longest.until_us - stays->longest.since_us, 290000);
    CHECK_INT(stays->count, 2);
    CHECK_INT(stays->us, 490000);
    CHECK_INT(f->facts.process[2].native.longest.samples, 0);
    check_symbol(f->profile, stays->longest.frame, "shop:report/1:9");
}

static struct sample grows(int64_t n)
{
    return (struct sample){.status = n % 4 == 0 ? "runnable" : "waiting",
                           .queue = 10 * n,
                           .memory = 1000,
                           .vheap = n % 2 == 0 ? n : 0,
                           .old_vheap = n % 2 == 0 ? 0 : n,
                           .recent = n % 10,
                           .old = 10 * (n / 10),
                           .reductions = 3 * n};
}

static struct sample is_small(int64_t n)
{
    return (struct sample){.status = "waiting", .queue = n % 100, .memory = 5};
}

STORIES_TEST(what_grows_has_its_numbers_over_time, 320, grows, is_small)
{
    const struct fp_process_facts *process;

    process = &f->facts.process[0];
    CHECK_INT(f->facts.parts, 1);
    CHECK(f->facts.process[1].part == NULL);
    CHECK_INT(process->observations[FP_FACTS_RUNNABLE], 80);
    CHECK_INT(process->observations[FP_FACTS_WAITING], 240);
    CHECK_INT(process->range[FP_FACTS_QUEUE].max, 3190);
    CHECK_INT(process->range[FP_FACTS_BIN_VHEAP].last, 319);
    CHECK_INT(process->reductions, 957);
    for (int64_t i = 0; i < FP_FACTS_PARTS; i++) {
        CHECK_INT(process->part[i].of[FP_FACTS_QUEUE].first, 100 * i);
        CHECK_INT(process->part[i].of[FP_FACTS_QUEUE].min, 100 * i);
        CHECK_INT(process->part[i].of[FP_FACTS_QUEUE].max, 100 * i + 90);
        CHECK_INT(process->part[i].of[FP_FACTS_BIN_VHEAP].last, 10 * i + 9);
        CHECK_INT(process->part[i].of[FP_FACTS_SURVIVED].min, 10 * i);
        CHECK_INT(process->part[i].of[FP_FACTS_SURVIVED].last, 10 * i + 9);
        CHECK_INT(process->part[i].time_us, 100000000 + 100000 * i);
    }
}

/* The first and each third one has no numbers. */
static struct sample is_bare_at_times(int64_t n)
{
    return (struct sample){.status = "waiting",
                           .queue = 500 + n,
                           .memory = 9000,
                           .reductions = 1000000 + n,
                           .is_bare = n % 3 == 0};
}

STORIES_TEST(samples_without_numbers_change_no_range, 300, is_bare_at_times)
{
    const struct fp_process_facts *process;

    process = &f->facts.process[0];
    CHECK_INT(process->observations[FP_FACTS_WAITING], 300);
    CHECK_INT(process->seen, 200);
    CHECK_INT(process->reductions, 298);
    CHECK_INT(process->range[FP_FACTS_QUEUE].first, 501);
    CHECK_INT(process->range[FP_FACTS_QUEUE].min, 501);
    CHECK_INT(process->range[FP_FACTS_MEMORY].min, 9000);
    for (int i = 0; i < FP_FACTS_PARTS; i++)
        CHECK(process->part[i].of[FP_FACTS_QUEUE].min > 500);
}

static struct sample calls(int64_t n)
{
    return (struct sample){.status = "waiting",
                           .words = n < 70 ? "waits_for=<0.3.0> " : "message=call/{get,_} "};
}

STORIES_TEST(whom_it_waited_for_and_what_it_served_is_counted, 100, is_small, calls)
{
    uint64_t waited = 0, served = 0;

    for (size_t i = 0; i < f->facts.text_count; i++) {
        struct fp_slice text = fp_profile_text(f->profile, f->facts.text[i].second / 2);

        CHECK_INT(f->facts.text[i].first, 1);
        if (f->facts.text[i].second % 2 == 0 && fp_slice_is(text, FP_SLICE("<0.3.0>")))
            waited += f->facts.text[i].observations;
        else if (fp_slice_is(text, FP_SLICE("call:{get,_}")) && f->facts.text[i].second % 2 == 1)
            served += f->facts.text[i].observations;
    }
    CHECK_INT(waited, 70);
    CHECK_INT(served, 30);
}

TEST(for_want_of_memory_facts_are_refused)
{
    int full = 0, made = 0;

    for (size_t more = 0; more < 40000; more += 997) {
        struct fp_profile *profile = profile_of_stories((story *[]){grows, calls, NULL}, 50);
        struct fp_facts facts;
        size_t used = profile->budget.used;
        int err;

        profile->budget.limit = used + more;
        err = fp_facts_make(&facts, profile);
        CHECK(err == 0 || err == FP_EFULL);
        full += err != 0;
        made += err == 0;
        fp_facts_free(&facts, &profile->budget);
        CHECK_INT(profile->budget.used, used);
        fp_profile_destroy(profile);
    }
    CHECK(full > 3 && made > 3);
}

TEST(facts_of_damaged_files_are_made)
{
    static const char *const names[] = {"damaged.log", "edges.log", "nasty_names.log", "perf.txt",
                                        "schedulers.log"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct fp_profile *profile = profile_of_corpus(names[i]);
        size_t used = profile->budget.used;
        struct fp_facts facts;

        CHECK_INT(fp_facts_make(&facts, profile), 0);
        CHECK_INT(facts.process_count, profile->process_count);
        fp_facts_free(&facts, &profile->budget);
        CHECK_INT(profile->budget.used, used);
        fp_profile_destroy(profile);
    }
}
