/* What files become when they are read: three dialects, three compressions, damage of every kind.
 */
#include "profile_text.h"
#include "test.h"

#include <zstd.h>

#include "format/encode.h"
#include "report/export.h"
#include "report/thin.h"

/* ---------------------------------------------------------------- dialects -- */

#define FRAME "\tffffffff lists:map/2:5 (lists.erl)\n\tffffffff waiting (status)\n\n"
#define WHOLE_71                                                                                   \
    "worker 42/71 [003] 1.000001: reductions=100/0 memory=2640/0 minor_gcs=7/0 erl_pid=<0.71.0>"   \
    " name=a%3Ab initial_call=proc_lib%3Ainit_p/5 cpu-clock:\n" FRAME
#define WHOLE_72                                                                                   \
    "beam 42/72 [000] 1.000001: reductions=5/1 memory=8/0 erl_pid=<0.72.0> cpu-clock:\n" FRAME
#define SAMPLE(thread, micros, fields)                                                             \
    thread " [000] 1.0000" #micros ": " fields "cpu-clock:\n" FRAME

#define SAYS(micros, thread, fields)                                                               \
    "10000" #micros " " thread " [waiting] 1 lists:map/2:5@lists.erl" fields "\n"

#define WHOLE_71_SAYS SAYS(01, "42/71", " reductions=100/0 memory=2640/0 minor_gcs=7/0")
#define STATUS "\tff waiting (status)\n\n"

/* clang-format off */
static const struct reading {
    const char *name, *corpus, *text;
    const char *rows, *facts; /* NULL: as they may be */
    enum fp_dialect dialect;
    unsigned bad;
} readings[] = {
    {"our samples are taken apart", NULL,
     "beam 4242/71 [003] 12.011367: cpu-clock:\n"
     "# reductions=9/12 memory=2640/-8 erl_pid=<0.71.0> name=5/6 label=7/8 "
     "initial_call=proc_lib:init_p/5 (metrics)\n"
     "\tffffffff erlang:%2B%2B/2 (erlang.erl)\n"
     "\tffffffff gen_server:loop/7:871 (gen_server.erl)\n" STATUS,
     "12011367 beam 4242/71 [waiting] 1 erlang:%2B%2B/2@erlang.erl"
     " gen_server:loop/7:871@gen_server.erl reductions=9/12 memory=2640/-8\n",
     "1 events, 3 schedulers, periods from 1, 0 messages, 0 lost\n"
     "4242/71 1 beam <0.71.0> 5/6 7/8 proc_lib:init_p/5\n", FP_FLAME_PROF, 0},
    {"files of the original are read", "original.log", NULL,
     "1795237782011367 0.71.0 [waiting] 1 gen_server:loop/7:871@gen_server.erl"
     " proc_lib:init_p_do_apply/3:240@proc_lib.erl proc_lib:init_p/5@proc_lib.erl"
     " worker:init/1@worker.erl reductions=123/4 message_queue_len=0/0 memory=2640/-8\n"
     "1795237782020000 0.72.0 [running] 1"
     " Elixir.Foo%20Bar:-x%20%28y%29/1-fun-0-/1:7@lib/foo%20bar.ex native@flame_prof"
     " reductions=500/500\n"
     "1795237782031367 0.71.0 [waiting] 1 gen_server:loop/7:871@gen_server.erl"
     " reductions=150/27 message_queue_len=2/2 memory=2640/0\n",
     "1 events, 0 schedulers, periods from 1, 0 messages, 0 lost\n"
     "0/0 2  <0.71.0>   \n"
     "0/0 1  <0.72.0>   \n", FP_ORIGINAL, 0},
    {"the original is known by a status or a pid", NULL,
     "scanning\t0.71.0 [000] 1.000001: e:\n\tff a:b/1 (a.erl)\n\n"
     "waiting\tinit [000] 1.000002: e:\n\tff a:b/1 (a.erl)\n\n",
     "1000001 0.71.0 [scanning] 1 a:b/1@a.erl\n1000002 init [waiting] 1 a:b/1@a.erl\n",
     NULL, FP_ORIGINAL, 0},
    {"a scheduler that runs nothing has its number for a word and no pid", "schedulers.log", NULL,
     NULL, "1 events, 0 schedulers, periods from 1, 0 messages, 0 lost\n"
     "4242/2147483645 2 beam    \n"
     "4242/171 1 beam <0.171.0>   erlang:apply/2\n", FP_FLAME_PROF, 0},
    {"perf scripts of Linux are read", "perf.txt", NULL,
     "100000100 swapper     0 [] 250000 native_safe_halt@[kernel.kallsyms] [unknown]@[unknown]\n"
     "100010200 1_scheduler  4242/4250 [] 250000"
     " operator%20new%28unsigned%20long%29@/usr/lib/libstdc%2B%2B.so.6%20%28deleted%29"
     " erts_schedule@/usr/lib/erlang/erts/bin/beam.smp $lists:map/2@/tmp/perf-4242.map\n"
     "100020300 Chrome Thread 77/78 [] 1 main@inlined\n"
     "100030000 node 9/9 [] 1\n"
     "100040000 node 9/9 [] 1 do_idle@[kernel.kallsyms]\n"
     "100050000 :99 99 [] 7\n", "4 events, 2 schedulers, periods from 1 on, 0 messages, 0 lost\n"
     "0/0 1 swapper    \n"
     "4242/4250 1 1_scheduler    \n"
     "77/78 1 Chrome Thread    \n"
     "9/9 2 node    \n"
     "99/99 1 :99    \n", FP_PERF, 0},
    {"headers of perf may have what its other fields and other readers of it make", NULL,
     "app 10/11 [1023] U     100.000001: 5 cycles: \n\tff main (app)\n\n"
     "app 10/11 [1023] d..2. 100.000002: 5 cycles: \n\tff main (app)\n\n"
     "app 11 Kp 100.000003: 5 cycles: \n\tff main+0x1f (app+0x2ff)\n\n" /* -F +dsoff */
     ":-1 -1 [001] 100.000004: 5 cycles: \n\tff main (app)\n\n"
     ":-1 -1/-1 100.000005: 5 cycles: \n\tff main (app)\n\n"
     "com.example.maps\t21452/21453 [007] 100.000006:\t\t5 cycles:\n\tff\tmain() (app)\n\n"
     "running\t21452 [007] 100.000007:\t\t5 cycles:\n\tff\tmain() (app)\n\n"
     "running\t21452 [007] 100.8374:\t\t5 cycles:\n\tff\tmain() (app)\n\n",
     "100000001 app 10/11 [] 5 main@app\n100000002 app 10/11 [] 5 main@app\n"
     "100000003 app 11 [] 5 main@app\n100000004 :-1 -1 [] 5 main@app\n"
     "100000005 :-1 -1/-1 [] 5 main@app\n"
     "100000006 com.example.maps\t21452/21453 [] 5 main%28%29@app\n"
     "100000007 running\t21452 [] 5 main%28%29@app\n"
     "100008374 running\t21452 [] 5 main%28%29@app\n",
     "1 events, 1024 schedulers, periods from 1, 0 messages, 0 lost\n"
     "10/11 2 app    \n"
     "11/11 1 app    \n"
     "0/0 1 :-1    \n"
     "0/0 1 :-1    \n"
     "21452/21453 1 com.example.maps    \n"
     "21452/21452 2 running    \n", FP_PERF, 0},
    {"a period that is no number of events weighs nothing", NULL,
     "a 1 1.000001: 0 cycles: \n\tff main (a)\n\n"
     "a 1 1.000002: 18446744073709551615 cycles: \n\tff main (a)\n\n" /* -1 without a sign */
     "a 1 1.000003: 9223372036854775807 cycles: \n\tff main (a)\n\n",
     "1000001 a 1 [] 0 main@a\n1000002 a 1 [] 0 main@a\n"
     "1000003 a 1 [] 9223372036854775807 main@a\n",
     "1 events, 0 schedulers, periods from 0 on, 0 messages, 0 lost\n"
     "1/1 3 a    \n", FP_PERF, 0},
    {"the last sample of perf may lack its empty line, as an editor takes it away", NULL,
     "a 1 1.000001: cycles: \n\tff main (a)\n\na 1 1.000002: cycles: \n\tff main (a)\n",
     "1000001 a 1 [] 1 main@a\n1000002 a 1 [] 1 main@a\n", NULL, FP_PERF, 0},
    {"and the line end of its last frame", NULL, "a 1 1.000002: cycles: \n\tff main (a)",
     "1000002 a 1 [] 1 main@a\n", NULL, FP_PERF, 0},
    {"half a line is no last sample", NULL,
     "a 1 1.000001: cycles: \n\tff main (a)\n\na 1 1.000002: cycles: \n\tff main()",
     "1000001 a 1 [] 1 main@a\n", NULL, FP_PERF, 1},
    {"what perf prints beside samples is no damage", NULL,
     "Warning:\nPID/TID switch overflow detected in aux stream\n"
     "# captured on: a day\n"
     "    mysqld     0     0.000000: PERF_RECORD_MMAP2 1/1: [0xff(0x10) @ 0 00:00 0 0]: r-xp a\n"
     "a 1 [002] 1.000001: cycles: \n\tff main (a)\n\n"
     "a 1 [002] 1.000002: PERF_RECORD_COMM: b:1/1\n"
     "a 1 1.000002: PERF_RECORD_NAMESPACES 1/1 - nr_namespaces: 7\n\t\t[0/net: 3/4]\n"
     "a 1 1.000003: PERF_RECORD_LOST lost 34\n"
     "a 1 1.000003: PERF_RECORD_LOST_SAMPLES lost 8\n"
     "[ perf script: something ]\n"
     "a 1 1.000004: DEFERRED CALLCHAIN [cookie: b00000006]\n\tff below (a)\n\n"
     "a 1 [002] 1.000005: cycles: \n\tff main (a)\n",
     "1000001 a 1 [] 1 main@a\n1000005 a 1 [] 1 main@a\n",
     "1 events, 3 schedulers, periods from 1, 9 messages, 42 lost\n"
     "1/1 2 a    \n", FP_PERF, 0},
    {"what a sample leaves out is as before", NULL,
     WHOLE_71 WHOLE_72 SAMPLE("worker 42/71", 10, "reductions+20 ") SAMPLE("beam 42/72", 10, "")
     SAMPLE("worker 42/71", 20, "memory-40 minor_gcs=2/2 ") SAMPLE("registered 42/71", 30, ""),
     WHOLE_71_SAYS SAYS(01, "42/72", " reductions=5/1 memory=8/0")
     SAYS(10, "42/71", " reductions=120/20 memory=2640/0 minor_gcs=7/0")
     SAYS(10, "42/72", " reductions=5/0 memory=8/0")
     SAYS(20, "42/71", " reductions=120/0 memory=2600/-40 minor_gcs=2/2")
     SAYS(30, "42/71", " reductions=120/0 memory=2600/0 minor_gcs=2/0"),
     "1 events, 3 schedulers, periods from 1, 0 messages, 0 lost\n"
     "42/71 4 worker <0.71.0> a:b  proc_lib:init_p/5\n"
     "42/72 2 beam <0.72.0>   \n", FP_FLAME_PROF, 0},
    /* Files that were not read may have changed. */
    {"after damage numbers are unknown until the next whole sample", NULL,
     WHOLE_71 WHOLE_72 SAMPLE("worker 42/71", 10, "reductions=7 ")
     SAMPLE("worker 42/71", 20, "reductions+3 ") SAMPLE("beam 42/72", 20, "")
     SAMPLE("beam 42/72", 30, "reductions=9/4 memory=8/0 erl_pid=<0.72.0> ")
     SAMPLE("beam 42/72", 40, "reductions+2 ") SAMPLE("worker 42/71", 40, ""),
     WHOLE_71_SAYS SAYS(01, "42/72", " reductions=5/1 memory=8/0") SAYS(20, "42/71", "")
     SAYS(20, "42/72", "") SAYS(30, "42/72", " reductions=9/4 memory=8/0")
     SAYS(40, "42/72", " reductions=11/2 memory=8/0") SAYS(40, "42/71", ""),
     "1 events, 3 schedulers, periods from 1, 0 messages, 0 lost\n"
     "42/71 3 worker <0.71.0> a:b  proc_lib:init_p/5\n"
     "42/72 4 beam <0.72.0>   \n", FP_FLAME_PROF, 1},
    {"a merged sample behind damage counts all its observations", NULL,
     WHOLE_71 SAMPLE("worker 42/71", 10, "reductions=7 ") SAMPLE("worker 42/71", 20, "6 "),
     WHOLE_71_SAYS "1000020 42/71 [waiting] 6 lists:map/2:5@lists.erl\n", NULL, FP_FLAME_PROF, 1},
    {"the samples of a process before its whole one are of the same process", NULL,
     SAMPLE("worker 42/71", 00, "reductions+20 ") WHOLE_71 SAMPLE("worker 42/71", 10, ""),
     SAYS(00, "42/71", "") WHOLE_71_SAYS
     SAYS(10, "42/71", " reductions=100/0 memory=2640/0 minor_gcs=7/0"),
     "1 events, 3 schedulers, periods from 1, 0 messages, 0 lost\n"
     "42/71 3 worker <0.71.0> a:b  proc_lib:init_p/5\n", FP_FLAME_PROF, 0},
    {"a change without a sign is damage: in format 2 the sign separates it from its key", NULL,
     "a 1/2 [000] 1.000001: memory=9/0 erl_pid=<0.2.0> e:\n\tff m:f/1 (m.erl)\n" STATUS
     "a 1/2 [000] 1.000002: memory6 e:\n\tff m:f/1 (m.erl)\n" STATUS
     "a 1/3 [000] 1.000003: memory+2 recen6 e:\n\tff m:f/1 (m.erl)\n" STATUS,
     "1000001 1/2 [waiting] 1 m:f/1@m.erl memory=9/0\n", NULL, FP_FLAME_PROF, 2},
    {"a number too large is damage", NULL,
     "beam 1/1 [000] 1.000001: cpu-clock:\n"
     "# reductions=9223372036854775808/0 erl_pid=<0.1.0> (metrics)\n\tff a:a/0 (a.erl)\n" STATUS,
     "", NULL, FP_NO_DIALECT, 1},
};
/* clang-format on */

static void check_facts(const struct fp_profile *profile, const char *expected)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    fprintf(out, "%zu events, %u schedulers, periods from %d%s, %d messages, %d lost\n",
            profile->event_count, profile->scheduler_max, (int)profile->period_min,
            profile->has_periods ? " on" : "", (int)profile->file->messages.count,
            (int)profile->file->messages.lost_events);
    for (uint32_t i = 0; i < profile->process_count; i++) {
        const struct fp_process *process = &profile->process[i];
        const uint32_t word[] = {process->comm, process->erl_pid, process->name, process->label,
                                 process->initial_call};

        fprintf(out, "%" PRIu64 "/%" PRIu64 " %" PRIu64, process->pid, process->tid,
                process->samples);
        for (size_t k = 0; k < 5; k++) {
            fprintf(out, " ");
            put_text(out, profile, word[k]);
        }
        fprintf(out, "\n");
    }
    fclose(out);
    CHECK_TEXT(text, expected);
    free(text);
}

TEST(texts_are_read_as_the_samples_that_they_are)
{
    for (size_t i = 0; i < sizeof(readings) / sizeof(*readings); i++) {
        const struct reading *r = &readings[i];
        struct fp_profile *profile =
            r->corpus ? profile_of_corpus(r->corpus) : profile_of(r->text, strlen(r->text));

        run_name = r->name;
        if (r->rows != NULL)
            check_profile(profile, r->rows);
        CHECK_INT(profile->file->bad, r->bad);
        CHECK_INT(profile->warning_count, r->bad);
        CHECK_INT(profile->file->dialect, r->dialect);
        if (r->facts != NULL)
            check_facts(profile, r->facts);
        fp_profile_destroy(profile);
    }
}

/* Text is a message in a file of perf's alone. */
TEST(text_in_other_files_is_damage)
{
    static const char ours[] = "beam 1/2 [000] 1.000001: cpu-clock:\n\tff a:b/1 (a.erl)\n"
                               "\tff waiting (status)\n\n";
    char text[512];
    int size = snprintf(text, sizeof(text), "what\nis this\n%s%swhat is this\n", ours, ours);
    struct fp_profile *profile = profile_of(text, (size_t)size);

    CHECK_INT(profile->rows.count, 2);
    CHECK_INT(profile->file->bad, 3);
    CHECK_INT(profile->file->messages.count, 0);
    CHECK_INT(profile->warning[0].line, 1);
    fp_profile_destroy(profile);
    profile = profile_of("no profile\nat all\n", 18);
    CHECK_INT(profile->file->bad, 2);
    CHECK_TEXT(profile->warning[0].what, "no time in the header");
    fp_profile_destroy(profile);
}

static struct fp_profile *profile_with_event(const char *text, enum fp_choice choice,
                                             const char *name)
{
    struct fp_profile *profile;

    CHECK_INT(fp_profile_create(&profile, GIGABYTE), 0);
    CHECK_INT(fp_profile_choose_event(profile, choice, (struct fp_slice){name, strlen(name)}), 0);
    CHECK_INT(profile_add(profile, text, strlen(text)), 0);
    return profile;
}

TEST(samples_of_one_event_are_read)
{
    static const char text[] = "a 1 1.000001: 7 cycles: \n\tff one (a)\n\n"
                               "b 2 1.000002: 8 instructions:u: \n\tff two (a)\n\n"
                               "a 1 1.000003: 9 cycles: \n\tff one (a)\n\n";
    static const struct {
        enum fp_choice choice;
        const char *name;
        unsigned rows, left_out;
    } cases[] = {{FP_FIRST_EVENT, "", 2, 1},
                 {FP_ALL_EVENTS, "", 3, 0},
                 {FP_ONE_EVENT, "instructions:u", 1, 2},
                 {FP_ONE_EVENT, "cycles", 2, 1},
                 {FP_ONE_EVENT, "faults", 0, 3}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fp_profile *profile = profile_with_event(text, cases[i].choice, cases[i].name);

        CHECK_INT(profile->rows.count, cases[i].rows);
        CHECK_INT(profile->file->samples, cases[i].rows);
        CHECK_INT(profile->file->left_out, cases[i].left_out);
        CHECK_INT(profile->event_samples[0], 2);
        CHECK_INT(profile->event_samples[1], 1);
        CHECK_INT(profile->file->dialect, FP_PERF);
        CHECK_INT(profile->file->bad, 0);
        fp_profile_destroy(profile);
    }
}

/* A session has one event: a damaged name costs nothing. */
TEST(a_session_has_one_event)
{
    static const char text[] = "beam 1/2 [000] 1.000001: cpu-clock:\n\tff a:b/1 (a.erl)\n"
                               "\tff waiting (status)\n\n"
                               "beam 1/2 [000] 1.000002: cpu-clocc:\n\tff a:b/1 (a.erl)\n"
                               "\tff waiting (status)\n\n";
    struct fp_profile *profile = profile_with_event(text, FP_FIRST_EVENT, "");

    CHECK_INT(profile->rows.count, 2);
    CHECK_INT(profile->file->left_out, 0);
    CHECK_INT(profile->event_samples[0], 2);
    fp_profile_destroy(profile);
}

/* Times are counted from the first sample of a process: the profiler's own may stand before it. */
TEST(the_profilers_own_sample_begins_no_time)
{
    static const char text[] = "flame_prof 1/2147483647 [000] 1.000001: ticks=1/1 name=flame_prof "
                               "e:\n\tffffffff flame_prof_self (flame_prof)\n"
                               "\tffffffff waiting (status)\n\n"
                               "beam 1/2 [000] 3.000002: cpu-clock:\n\tff a:b/1 (a.erl)\n"
                               "\tff waiting (status)\n\n";
    struct fp_profile *profile = profile_of(text, sizeof(text) - 1);

    CHECK_INT(profile->first_us, 1000001);
    CHECK_INT(profile->process_us, 3000002);
    fp_profile_destroy(profile);
}

/* Whatever byte a symbol has, it is encoded as the writer spells it. */
TEST(symbols_are_spelled_as_the_writer_does)
{
    for (int c = 1; c < 256; c++) {
        const char symbol[3] = {'a', (char)c, 'b'};
        char text[200], encoded[9], expected[100];
        struct fp_profile *profile;
        int size =
            snprintf(text, sizeof(text), "x 1/1 [000] 1.000001: e: \n\tff %.3s (d)\n\n", symbol);

        if (c == '\n')
            continue;
        profile = profile_of(text, (size_t)size);
        snprintf(expected, sizeof(expected), "1000001 x 1/1 [] 1 %.*s@d\n",
                 (int)(fp_put_encoded(encoded, (struct fp_slice){symbol, 3}) - encoded), encoded);
        check_profile(profile, expected);
        fp_profile_destroy(profile);
    }
}

TEST_PROFILE(nasty_names_stay_what_they_are, profile_of_corpus("nasty_names.log"))
{
    char *text = profile_text(profile);

    CHECK_INT(profile->rows.count, 14);
    CHECK_INT(profile->warning_count, 0);
    CHECK(strstr(text, " a%20b%3Bc:a%20b%3Bc/0@a%20b.erl root:f/0@r.erl") != NULL);
    CHECK(strstr(text, " x@status root:f/0@r.erl") != NULL);
    CHECK(fp_slice_is(fp_profile_text(profile, profile->process[3].name),
                      FP_SLICE("reductions=1/2")));
    free(text);
}

TEST_PROFILE(the_largest_numbers_fit, profile_of_corpus("edges.log"))
{
    char *text = profile_text(profile);

    CHECK_INT(profile->rows.count, 3);
    CHECK(strstr(text, "reductions=9223372036854775807/-9223372036854775807") != NULL);
    CHECK(strstr(text, "reductions=0/9223372036854775807") != NULL);
    CHECK(strstr(text, "[exiting] 9223372036854775807 ") != NULL);
    /* One tid, two pids: two processes. */
    CHECK_INT(profile->process_count, 2);
    free(text);
}

static uint64_t total_of(struct fp_profile *profile)
{
    struct fp_query query = {.by = {FP_BY_SAMPLES, -1}, .filter = FP_FILTER_ALL};
    struct temporary directory;
    struct fp_output *output;
    char path[512], why[512];
    uint64_t written;
    uint64_t total;

    temporary_make(&directory);
    snprintf(path, sizeof(path), "%s/collapsed", directory.path);
    CHECK_INT(fp_output_open(&output, path, 0, why, sizeof(why)), 0);
    CHECK_INT(fp_export_collapsed(profile, &query, output, &total), 0);
    CHECK_INT(fp_output_close(output, 0, &written, why, sizeof(why)), 0);
    temporary_remove(&directory);
    return total;
}

static int export_as(struct fp_profile *profile, int format, struct fp_output *output)
{
    struct fp_query query = {.by = {FP_BY_SAMPLES, -1}, .filter = FP_FILTER_ALL};
    uint64_t samples, moved;

    query.without_lines = format % 2;
    switch (format / 2) {
    case 0:
        return fp_export_collapsed(profile, &query, output, &samples);
    case 1:
        return fp_export_perf(profile, &query, output, &samples, &moved);
    case 2:
        return fp_export_speedscope(profile, &query, 1, output);
    case 3:
        return fp_export_pprof(profile, &query, output);
    default:
        return fp_export_firefox(profile, &query, output);
    }
}

/* A name of C++ that is longer than all that the file says, of bytes that are shown as three. */
TEST(a_name_that_repeats_itself_has_room)
{
    static const char before[] = "beam 1/1 [000] 1.000001: cpu-clock:\n"
                                 "# reductions=1/1 erl_pid=<0.1.0> (metrics)\n\tffffffff _ZN100";
    static const char behind[] = "C1C1C1C1C1C1C1C1C1Ev (m)\n\tffffffff running (status)\n\n";
    struct temporary directory;
    char text[512], path[512], why[512], *end = text;
    uint64_t written;

    end = mempcpy(end, before, sizeof(before) - 1);
    memset(end, 0xff, 100);
    end = mempcpy(end + 100, behind, sizeof(behind) - 1);
    temporary_make(&directory);
    snprintf(path, sizeof(path), "%s/export", directory.path);
    for (int format = 0; format < 10; format++) {
        struct fp_profile *profile = profile_of(text, (size_t)(end - text));
        struct fp_output *output;
        size_t size;
        char *file;

        CHECK_INT(profile->rows.count, 1);
        CHECK_INT(fp_output_open(&output, path, 0, why, sizeof(why)), 0);
        CHECK_INT(export_as(profile, format, output), 0);
        CHECK_INT(fp_output_close(output, 0, &written, why, sizeof(why)), 0);
        file = temporary_read(path, &size);
        CHECK_INT(written, size);
        /* Ten times the name, each byte as %FF, and what stands between them. */
        CHECK(format >= 2 || size >= 10 * 300 + 9 * 2);
        free(file);
        unlink(path);
        fp_profile_destroy(profile);
    }
    temporary_remove(&directory);
}

/* With all the memory that it needs, and with a little more than the profile has. */
TEST(exports_end_with_a_file_or_for_want_of_memory)
{
    static const char *const names[] = {"ours.log",       "nasty_names.log", "original.log",
                                        "schedulers.log", "perf.txt",        "damaged.log"};
    struct temporary directory;
    char path[512], why[512];
    uint64_t written;
    unsigned full = 0;

    temporary_make(&directory);
    snprintf(path, sizeof(path), "%s/export", directory.path);
    for (unsigned i = 0; i < 6 * 10 * 24; i++) {
        struct fp_profile *profile = profile_of_corpus(names[i % 6]);
        size_t before = profile->budget.used, more = (size_t)1 << (i / 60);
        struct fp_output *output;
        int err;

        profile->budget.limit = before + more;
        CHECK_INT(fp_output_open(&output, path, 0, why, sizeof(why)), 0);
        err = export_as(profile, (int)(i / 6 % 10), output);
        full += err == FP_EFULL;
        CHECK(err == 0 || (err == FP_EFULL && more < (1 << 20)));
        CHECK_INT(fp_output_close(output, err, &written, why, sizeof(why)), err);
        CHECK_INT(access(path, F_OK) == 0, err == 0);
        unlink(path);
        CHECK_INT(profile->budget.used, before);
        fp_profile_destroy(profile);
    }
    CHECK(full > 100);
    temporary_remove(&directory);
}

TEST(what_files_say_adds_up_without_wrapping)
{
    enum { SAMPLES = 5 };
    static const char sample[] = "beam 1/1 [000] %d.000001: 9223372036854775807 cpu-clock:\n"
                                 "# reductions=1/1 memory=9/0 erl_pid=<0.1.0> (metrics)\n"
                                 "\tffffffff a:a/%d (a.erl)\n\tffffffff waiting (status)\n\n";
    char text[SAMPLES * 256];
    struct fp_profile *profile;
    size_t size = 0;

    for (int i = 0; i < SAMPLES; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, sample, i, i);
    profile = profile_of(text, size);
    CHECK_INT(profile->file[0].samples, SAMPLES);
    CHECK_INT(profile->file[0].observations, INT64_MAX);
    CHECK_INT(total_of(profile), INT64_MAX);
    fp_profile_destroy(profile);
}

/* Two samples of so many numbers; every third one changes, every seventh delta is odd. */
static char *many_numbers(int count)
{
    char *text = malloc((size_t)count * 96 + 400), *at = text;

    for (int k = 0; k < 2; k++) {
        at += sprintf(at, "beam 1/1 [000] 1.%06d: ", k + 1);
        for (int i = 0; i < count; i++)
            at += sprintf(at, "m%c%c=%d/%d ", 'a' + i / 26, 'a' + i % 26,
                          i + (i % 3 == 0 ? 10 * k : 0),
                          i % 7 == 0   ? 5
                          : i % 3 == 0 ? 10 * k
                                       : 0);
        at += sprintf(at, "erl_pid=<0.1.0> cpu-clock:\n"
                          "\tffffffff a:a/0 (a.erl)\n\tffffffff waiting (status)\n\n");
    }
    return text;
}

TEST(numbers_of_a_sample_may_be_many)
{
    char *text = many_numbers(200);
    struct fp_profile *profile = profile_of(text, strlen(text));
    struct fp_cursor cursor;
    struct fp_row row;

    CHECK_INT(profile->warning_count, 0);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    for (int k = 0; k < 2; k++) {
        CHECK_INT(fp_cursor_next(&cursor, &row), 1);
        for (int i = 0; i < 200; i++) {
            CHECK_INT(row.value[i], i + (i % 3 == 0 ? 10 * k : 0));
            CHECK_INT(row.delta[i], i % 7 == 0 ? 5 : i % 3 == 0 ? 10 * k : 0);
        }
    }
    CHECK_INT(fp_cursor_next(&cursor, &row), 0);
    fp_cursor_close(&cursor);
    fp_profile_destroy(profile);
    free(text);
    text = many_numbers(257);
    profile = profile_of(text, strlen(text));
    CHECK_INT(profile->rows.count, 0);
    CHECK_TEXT(profile->warning[0].what, "too many different metrics");
    fp_profile_destroy(profile);
    free(text);
}

/* ------------------------------------------------------------------ damage -- */

/* Another file's processes may have the same numbers, and be of another node. */
TEST_PROFILE(nothing_is_carried_into_the_next_file,
             profile_of(WHOLE_71 WHOLE_72, strlen(WHOLE_71 WHOLE_72)))
{
    static const char tail[] =
        SAMPLE("worker 42/71", 10, "reductions+20 ") SAMPLE("beam 42/72", 20, "");

    CHECK_INT(profile_add(profile, tail, sizeof(tail) - 1), 0);
    check_profile(profile, SAYS(01, "42/71", " reductions=100/0 memory=2640/0 minor_gcs=7/0")
                               SAYS(01, "42/72", " reductions=5/1 memory=8/0") SAYS(10, "42/71", "")
                                   SAYS(20, "42/72", ""));
}

/* Six names of 255 characters, each of which is nine bytes. */
TEST(the_longest_names_are_read)
{
    enum { NAME = 255 * 9 };
    static const char *const keys[] = {
        "name=", "label=", "initial_call=", "proc_lib_initial_call="};
    static char text[20000];
    char name[NAME + 1] = "";
    size_t size;
    struct fp_profile *profile;
    const struct fp_process *process;

    for (int i = 0; i < NAME; i++)
        name[i] = "%E2%80%80"[i % 9];
    size = (size_t)sprintf(text, "beam 42/73 [000] 1.000001: reductions=1/0 erl_pid=<0.73.0> ");
    for (int i = 0; i < 4; i++) {
        size += (size_t)sprintf(text + size, "%s%s", keys[i], name);
        size += (size_t)sprintf(text + size, i < 2 ? " " : "%%3A%s/255 ", name);
    }
    size += (size_t)sprintf(text + size, "cpu-clock:\n%s", FRAME);
    profile = profile_of(text, size);
    CHECK_INT(profile->file[0].bad, 0);
    process = profile->process;
    CHECK_INT(fp_profile_text(profile, process->name).size, NAME);
    CHECK_INT(fp_profile_text(profile, process->proc_lib_initial_call).size, 2 * NAME + 5);
    fp_profile_destroy(profile);
}

TEST(fields_that_make_no_sense_are_damage)
{
    /* clang-format off */
    static const char *const fields[] = {
        "reductions+ ", "reductions+-5 ", "reductions=5 ", "reductions=5/ ",
        "minor_gcs+1 memory+1 ", "memory+1 memory+1 ", "port_count+1 ", "reductions=+1/1 ",
        "reductions+1 5 ", "reductions=x ", "reductions+1 memory ", "reductions+1 erl_pid=x ",
        "reductions+1 memory+-5 ", "reductions=5/1 name=a ", "reductions=5/1 label=a erl_pid=x ",
        "reductions=5/1 initial_call=a ", "format=2 ", "reductions=5/1\terl_pid=x ",
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        char text[1024];
        struct fp_profile *profile;

        snprintf(text, sizeof(text), "%sworker 42/71 [000] 1.000002: %scpu-clock:\n%s", WHOLE_71,
                 fields[i], FRAME);
        profile = profile_of(text, strlen(text));
        if (profile->rows.count != 1 || profile->file[0].bad != 1)
            RUN_FAIL("%s is accepted", fields[i]);
        fp_profile_destroy(profile);
    }
}

TEST(a_stack_of_too_many_frames_is_shortened)
{
    enum { FRAMES = 3000, SAMPLES = 2 };
    static char text[SAMPLES * FRAMES * 16];
    struct fp_profile *profile;
    uint32_t nodes[FP_FRAMES_MOST + 1], node;
    size_t size = 0, count = 0;

    for (unsigned i = 1; i <= SAMPLES; i++) {
        size += (size_t)sprintf(text + size, "a 1 1.00000%u: cycles: \n", i);
        for (unsigned n = 0; n < FRAMES; n++)
            size += (size_t)sprintf(text + size, "\tff f%u (a)\n", n);
        size += (size_t)sprintf(text + size, "\n");
    }
    profile = profile_of(text, size);
    CHECK_INT(profile->rows.count, SAMPLES);
    CHECK_INT(profile->file[0].bad, 0);
    CHECK_INT(profile->file[0].shortened, SAMPLES);
    for (node = profile->tree.stack[0].node; node != 0 && count <= FP_FRAMES_MOST;
         node = profile->tree.node[node].parent)
        nodes[count++] = node;
    CHECK_INT(count, FP_FRAMES_MOST);
    for (size_t i = 0; i < count; i++) {
        uint32_t frame = profile->tree.node[nodes[i]].frame;
        struct fp_slice symbol = fp_profile_text(profile, profile->tree.frame[frame].symbol);
        char wanted[16] = "truncated";

        if (i != FP_FRAMES_MOST - 50)
            sprintf(wanted, "f%zu", i < FP_FRAMES_MOST - 50 ? i : FRAMES - FP_FRAMES_MOST + i);
        if (!fp_slice_is(symbol, (struct fp_slice){wanted, strlen(wanted)}))
            RUN_FAIL("frame %zu is %.*s, not %s", i, (int)symbol.size, symbol.at, wanted);
    }
    fp_profile_destroy(profile);
}

TEST(a_newer_format_is_refused)
{
    static const struct {
        const char *word;
        int result;
    } cases[] = {{"", 0},          {" format=1", 0},         {" format=2", 0},
                 {" format=3", 0}, {" format=4", FP_ENEWER}, {" format=33 node=a", FP_ENEWER}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[1024];
        struct fp_profile *profile;

        snprintf(text, sizeof(text),
                 "%sflame_prof 42/2147483647 [000] 1.000002: ticks=1/1 name=flame_prof"
                 " engine=native%s cpu-clock:\n"
                 "\tffffffff flame_prof_self (flame_prof)\n"
                 "\tffffffff waiting (status)\n\n",
                 WHOLE_71, cases[i].word);
        CHECK_INT(fp_profile_create(&profile, GIGABYTE), 0);
        CHECK_INT(profile_add(profile, text, strlen(text)), cases[i].result);
        fp_profile_destroy(profile);
    }
}

#define OWN(micros, format)                                                                        \
    "flame_prof 42/2147483647 [000] 1.0000" #micros ": ticks=1/1 name=flame_prof format=" format   \
    " otp=25 cpu-clock:\n\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"

/* A file has one format: no byte of one own sample costs the file. */
TEST(a_damaged_format_costs_its_sample)
{
    static const char no_sense[] = "a format that makes no sense",
                      later[] = "a later format than this version reads";
    static const struct {
        const char *text, *what;
    } cases[] = {
        {OWN(02, "x") WHOLE_71, no_sense},
        {OWN(02, "2r") WHOLE_71, no_sense},
        {OWN(02, "99999999999999999999") WHOLE_71, no_sense},
        {OWN(02, "3") OWN(03, "4") WHOLE_71, later},
        {OWN(02, "2") OWN(03, "22") OWN(04, "2") WHOLE_71, later},
        {OWN(02, "7") OWN(03, "3") WHOLE_71, later},
        {OWN(02, "7") WHOLE_71 OWN(03, "3"), later},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fp_profile *profile = profile_of(cases[i].text, strlen(cases[i].text));

        CHECK_INT(profile->file[0].samples, 1);
        CHECK_INT(profile->file[0].bad, 1);
        CHECK_TEXT(profile->warning[0].what, cases[i].what);
        fp_profile_destroy(profile);
    }
}

TEST(two_samples_of_a_newer_format_are_believed)
{
    static const char text[] = OWN(02, "4") OWN(03, "4") OWN(04, "3");
    struct fp_profile *profile;

    CHECK_INT(fp_profile_create(&profile, GIGABYTE), 0);
    CHECK_INT(profile_add(profile, text, sizeof(text) - 1), FP_ENEWER);
    fp_profile_destroy(profile);
}

TEST_PROFILE(damage_costs_the_damaged_samples, profile_of_corpus("damaged.log"))
{
    static const struct {
        uint64_t line;
        const char *what;
    } expected[] = {
        {8, "no time in the header"},    {10, "a metric or word that makes no sense"},
        {16, "frames without a header"}, {18, "no status frame at the root"},
        {25, "no time in the header"},   {31, "cut off: no empty line behind it"},
    };

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        CHECK_TEXT(profile->warning[i].what, expected[i].what);
        CHECK_INT(profile->warning[i].line, expected[i].line);
    }
    CHECK_INT(profile->rows.count, 2);
    CHECK_INT(profile->file[0].bad, profile->warning_count);
}

/* Wherever a file is cut off, what was whole is there. */
/* The key at this place in the sample before is a guess: a shorter or a longer one is read, too. */
TEST(a_key_may_begin_with_a_known_one)
{
    static const char *const keys[] = {"torn", "tor", "torn", "torn_changed", "torn"};
    char text[1000], expected[500];
    size_t size = 0, at = 0;
    struct fp_profile *profile;

    for (int i = 0; i < 5; i++) {
        size += (size_t)snprintf(text + size, sizeof(text) - size,
                                 "beam 1/2 [000] 1.%06d: e:\n# %s=%d/0 erl_pid=<0.2.0> (metrics)\n"
                                 "\tff m:f/1 (m.erl)\n\tff waiting (status)\n\n",
                                 i + 1, keys[i], i);
        at += (size_t)snprintf(expected + at, sizeof(expected) - at,
                               "%d beam 1/2 [waiting] 1 m:f/1@m.erl %s=%d/0\n", 1000001 + i,
                               keys[i], i);
    }
    profile = profile_of(text, size);
    check_profile(profile, expected);
    CHECK_INT(profile->warning_count, 0);
    fp_profile_destroy(profile);
}

/* Behind the line of the status nothing of a sample is missing but its empty line. */
TEST(a_file_may_end_anywhere)
{
    size_t size;
    char *bytes = temporary_read("test/corpus/ours.log", &size);

    for (size_t cut = 0; cut <= size; cut++) {
        struct fp_profile *profile = profile_of(bytes, cut);
        uint64_t whole = 0;
        size_t behind = 0; /* the last whole sample, without its empty line */

        for (size_t i = 0; i + 1 < size && i < cut; i++) {
            if (bytes[i] == '\n' && bytes[i + 1] == '\n') {
                behind = i + 1;
                whole++;
            }
        }
        CHECK_INT(profile->rows.count, whole);
        CHECK_INT(profile->warning_count, cut > (behind == 0 ? 0 : behind + 1));
        fp_profile_destroy(profile);
    }
    free(bytes);
}

TEST(what_is_too_long_to_be_a_sample_is_passed_over)
{
    size_t size, most = FP_SCAN_SAMPLE_MOST + 100000;
    char *good = temporary_read("test/corpus/ours.log", &size);

    for (int kind = 0; kind < 3; kind++) {
        char *bytes = malloc(2 * size + most);
        struct fp_profile *profile;

        CHECK(bytes != NULL);
        memcpy(bytes, good, size);
        memset(bytes + size, "x\t#"[kind], most);
        memcpy(bytes + size + most - 2, "\n\n", 2);
        memcpy(bytes + size + most, good, size);
        profile = profile_of(bytes, 2 * size + most);
        CHECK_INT(profile->rows.count, 12);
        CHECK_INT(profile->warning_count, 1);
        CHECK_TEXT(profile->warning[0].what, "longer than any sample");
        fp_profile_destroy(profile);
        free(bytes);
    }
    free(good);
}

/* Much compressed nothing: each step ends where it was told to. */
TEST(a_step_is_short_where_there_is_no_sample)
{
    const size_t size = (size_t)48 << 20;

    for (int kind = 0; kind < 3; kind++) {
        char *bytes = malloc(size), *zst = malloc(ZSTD_compressBound(size));
        struct fp_profile *profile;
        struct fp_source *source;
        size_t packed;
        int steps = 0;

        CHECK(bytes != NULL && zst != NULL);
        memset(bytes, "x\n\t"[kind], size);
        packed = ZSTD_compress(zst, ZSTD_compressBound(size), bytes, size, 1);
        CHECK_INT(fp_profile_create(&profile, GIGABYTE), 0);
        CHECK_INT(bytes_source(&source, zst, packed), 0);
        CHECK_INT(fp_profile_begin(profile, source, FP_SLICE("nothing")), 0);
        while (fp_profile_step(profile, 1 << 20) > 0)
            steps++;
        CHECK(steps > 10);
        CHECK(profile->budget.used < 1 << 20);
        fp_profile_destroy(profile);
        free(bytes);
        free(zst);
    }
}

/* ------------------------------------------------------------- compression -- */

TEST(compressed_files_are_the_same_files)
{
    struct fp_profile *plain = profile_of_corpus("ours.log");
    struct fp_profile *gzip = profile_of_corpus("ours.log.gz");
    struct fp_profile *zstd = profile_of_corpus("two_frames.log.zst");
    char *expected = profile_text(plain), *text = profile_text(zstd);

    check_profile(gzip, expected);
    CHECK_INT(gzip->file[0].source.kind, FP_SOURCE_GZIP);
    CHECK_BYTES(text, strlen(expected), expected, strlen(expected));
    CHECK_INT(zstd->rows.count, plain->rows.count + 14);
    CHECK_INT(zstd->file[0].source.kind, FP_SOURCE_ZSTD);
    CHECK_INT(zstd->warning_count + gzip->warning_count, 0);
    free(expected);
    free(text);
    fp_profile_destroy(plain);
    fp_profile_destroy(gzip);
    fp_profile_destroy(zstd);
}

TEST_PROFILE(a_cut_off_gzip_costs_its_end, profile_of_corpus("cut.log.gz"))
{
    CHECK_INT(profile->rows.count, 4);
    CHECK_INT(profile->file[0].source.is_cut_off, 1);
    CHECK_INT(profile->warning_count, 2);
    CHECK_INT(profile->warning[1].line, 0);
}

TEST_PROFILE(behind_a_damaged_zstd_frame_reading_goes_on,
             profile_of_corpus("damaged_frame.log.zst"))
{
    CHECK_INT(profile->rows.count, 20);
    CHECK_INT(profile->file[0].source.damaged, 1);
    CHECK_TEXT(profile->warning[0].what, "the compressed file is damaged: text is missing");
}

/* Frames as a flush closes them: whatever is cut, earlier frames are there. */
TEST(a_cut_off_zstd_costs_its_last_frame)
{
    size_t size, first, second;
    char *bytes = temporary_read("test/corpus/ours.log", &size);
    char *zst = malloc(2 * ZSTD_compressBound(size));

    CHECK(zst != NULL);
    first = ZSTD_compress(zst, ZSTD_compressBound(size), bytes, size, 1);
    second = ZSTD_compress(zst + first, ZSTD_compressBound(size), bytes, size, 1);
    for (size_t cut = first; cut <= first + second; cut++) {
        struct fp_profile *profile = profile_of(zst, cut);

        CHECK(profile->rows.count >= 6);
        CHECK_INT(profile->rows.count == 12, cut == first + second);
        CHECK_INT(profile->warning_count > 0, cut != first && cut != first + second);
        fp_profile_destroy(profile);
    }
    free(zst);
    free(bytes);
}

/* ------------------------------------------------------------------ limits -- */

TEST(a_limit_is_kept)
{
    size_t size;
    char *bytes = temporary_read("test/corpus/nasty_names.log", &size);
    int full = 0;

    for (size_t limit = 0; limit < 200000; limit += 997) {
        struct fp_profile *profile;

        if (fp_profile_create(&profile, limit) != 0)
            continue;
        if (profile_add(profile, bytes, size) == FP_EFULL)
            full++;
        else
            CHECK_INT(profile->rows.count, 14);
        CHECK(profile->budget.used <= limit);
        fp_profile_destroy(profile);
    }
    CHECK(full > 3);
    free(bytes);
}

TEST_PROFILE(several_files_are_one_profile, profile_of_corpus("ours.log"))
{
    size_t raws = profile->tree.raw_count;

    CHECK_INT(profile_add_corpus(profile, "ours.log"), 0);
    CHECK_INT(profile->tree.raw_count, raws); /* each text was found */
    CHECK_INT(profile->rows.count, 12);
    CHECK_INT(profile->file_count, 2);
    CHECK_INT(profile->process_count, 2);
    CHECK_INT(profile->is_ordered, 0);
    /* What both files have is there once. */
    CHECK_INT(profile->tree.stack_count, 4);
}

static int piece_of(struct fp_profile *profile)
{
    struct temporary directory;
    struct fp_output *output;
    char path[512], why[512];
    uint64_t written;
    int err;

    temporary_make(&directory);
    snprintf(path, sizeof(path), "%s/index", directory.path);
    CHECK_INT(fp_output_open(&output, path, 0, why, sizeof(why)), 0);
    err = fp_export_index_piece(profile, output);
    CHECK_INT(fp_output_close(output, err, &written, why, sizeof(why)), err);
    temporary_remove(&directory);
    return err;
}

TEST_PROFILE(a_thinned_profile_has_no_pieces_and_gets_no_files, profile_of_corpus("ours.log"))
{
    CHECK_INT(fp_profile_thin(profile, 1000000), 0);
    CHECK_INT(piece_of(profile), FP_ESTATE);
    CHECK_INT(profile_add_corpus(profile, "ours.log"), FP_ESTATE);
    CHECK_INT(fp_profile_thin(profile, 2000000), 0);
}

TEST_PROFILE(a_profile_with_pieces_is_not_thinned, profile_of_corpus("ours.log"))
{
    uint64_t rows = profile->rows.count;

    CHECK_INT(piece_of(profile), 0);
    CHECK_INT(fp_profile_thin(profile, 1000000), FP_ESTATE);
    CHECK_INT(profile->rows.count, rows);
    CHECK_INT(piece_of(profile), 0);
}

TEST_PROFILE(after_a_piece_that_failed_there_are_no_more, profile_of_corpus("ours.log"))
{
    size_t limit = profile->budget.limit;

    profile->budget.limit = profile->budget.used;
    CHECK_INT(piece_of(profile), FP_EFULL);
    profile->budget.limit = limit;
    CHECK_INT(piece_of(profile), FP_ESTATE);
}

/* More chunks than one, lines of every length: what is counted is right. */
TEST(window_borders_do_not_show)
{
    char *bytes;
    size_t size;
    FILE *out = open_memstream(&bytes, &size);
    struct fp_profile *profile;
    struct fp_cursor cursor;
    struct fp_row row;
    const int count = 20000;

    for (int i = 0; i < count; i++) {
        fprintf(out,
                "beam 1/%d [000] %d.000001: cpu-clock:\n# reductions=%d/%d"
                " erl_pid=<0.%d.0> (metrics)\n",
                i % 7, i + 1, i, i % 3, i % 7);
        for (int f = 0; f < i % 9; f++)
            fprintf(out, "\tffffffff m%.*s:f/%d (m.erl)\n", i % 61,
                    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", f);
        fprintf(out, "\tffffffff waiting (status)\n\n%s", i == count - 2 ? "bad\n\n" : "");
    }
    fclose(out);
    CHECK(size > 3u << 20);
    profile = profile_of(bytes, size);
    CHECK_INT(profile->rows.count, count);
    CHECK_INT(profile->warning_count, 1);
    {
        uint64_t line = 1;

        for (size_t i = 0; memcmp(bytes + i, "bad\n", 4) != 0; i++)
            line += bytes[i] == '\n';
        CHECK_INT(profile->warning[0].line, line);
    }
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    for (int i = 0; i < count; i++) {
        CHECK_INT(fp_cursor_next(&cursor, &row), 1);
        CHECK_INT(row.time_us, (int64_t)(i + 1) * 1000000 + 1);
        CHECK_INT(row.value[0], i);
        CHECK_INT(row.delta[0], i % 3);
    }
    CHECK_INT(fp_cursor_next(&cursor, &row), 0);
    fp_cursor_close(&cursor);
    fp_profile_destroy(profile);
    free(bytes);
}
