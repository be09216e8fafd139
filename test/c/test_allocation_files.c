/* Files of the event alloc-words (doc/format.md, Allocations): what a profile and its exports say
 * of them, against the story that the text tells. */
#include <stdlib.h>
#include <unistd.h>

#include "profile_text.h"
#include "report/aggregate.h"
#include "report/export.h"
#include "test.h"

#define STATUS "\tffffffff garbage_collecting (status)\n\n"
#define SAMPLE(us, words, more, stack)                                                             \
    "cache 42/7 [000] 1." us ": " words " alloc-words:\n# words=" words "/" words                  \
    " erl_pid=<0.7.0> name=cache initial_call=cache:init/1" more " (metrics)\n" stack STATUS
#define PUT "\tffffffff maps:put/3 (bif)\n\tffffffff cache:loop/1:9 (cache.erl)\n"
#define KEPT PUT "\tffffffff kept (heap)\n"
#define GARBAGE PUT "\tffffffff garbage (heap)\n"
#define OWN                                                                                        \
    "flame_prof 42/2147483647 [000] 1.900000: looks=4/4 words=5000000/5000000 dropped_words=0/0 "  \
    "name=flame_prof engine=native format=3 node=a@b otp=27 alloc-words:\n"                        \
    "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"
#define LONG(us, kind, cause) " collection_us=" us " collection=" kind " cause=" cause

/* 60,000 words are garbage, 5,000 are kept; two long collections, one of them without a weight. */
static const char story[] = SAMPLE("000001", "60000", "", GARBAGE) /**/
    SAMPLE("000002", "4000", LONG("45000", "major", "heap"), KEPT) /**/
    SAMPLE("500000", "1000", "", KEPT)                             /**/
    SAMPLE("600000", "1", LONG("120000", "minor", "fragments"), GARBAGE) OWN;

static const char samples[] =
    "cache 42/7 [000] 1.000001: reductions=5/0 erl_pid=<0.7.0> cpu-clock:\n"
    "\tffffffff a:b/1 (a.erl)\n\tffffffff running (status)\n\n";

static struct fp_profile *told(void)
{
    struct fp_profile *profile = profile_of(story, strlen(story));

    CHECK_INT(profile->warning_count, 0);
    CHECK_INT(profile->rows.count - profile->own_count, 4);
    return profile;
}

static int64_t sum_by(struct fp_profile *profile, enum fp_by_kind kind)
{
    struct fp_query query = {.filter = FP_FILTER_ALL, .by = {.kind = kind}};
    struct fp_aggregate sums;
    int64_t sum = 0;

    query.by.metric = fp_profile_metric(profile, FP_SLICE("words"));
    CHECK_INT(fp_aggregate_make(&sums, profile, &query), 0);
    for (size_t i = 0; i < sums.count; i++)
        sum += (int64_t)sums.group[i].weight;
    fp_aggregate_free(&sums);
    return sum;
}

TEST_PROFILE(a_sample_weighs_its_words_and_is_one, told())
{
    CHECK(fp_profile_is_of_allocations(profile));
    CHECK_INT(sum_by(profile, FP_BY_SAMPLES), 4);
    CHECK_INT(sum_by(profile, FP_BY_PERIOD), 65001);
    CHECK_INT(sum_by(profile, FP_BY_VALUE), 65001);
    CHECK_INT(sum_by(profile, FP_BY_DELTA), 65001);
    CHECK_INT(profile->file[0].observations, 4);
}

TEST_PROFILE(a_long_collection_is_told_of_its_sample_only, told())
{
    static const char *const texts[] = {"", "45000 major heap", "", "120000 minor fragments", ""};
    struct fp_cursor cursor;
    struct fp_row row;

    CHECK_INT(profile->collection_rows, 2);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    for (int i = 0; i < 5; i++) {
        struct fp_slice text;

        CHECK_INT(fp_cursor_next(&cursor, &row), 1);
        text = fp_profile_text(profile, fp_row_words(profile, &row)->collection);
        CHECK_INT(text.size, strlen(texts[i]));
        CHECK(memcmp(text.at, texts[i], text.size) == 0);
    }
    CHECK_INT(fp_cursor_next(&cursor, &row), 0);
    fp_cursor_close(&cursor);
    /* The words of the process are its own. */
    CHECK_INT(fp_profile_text(profile, profile->process[0].words).size,
              strlen("erl_pid=<0.7.0> name=cache initial_call=cache:init/1"));
}

TEST(words_of_collections_that_make_no_sense_are_damage)
{
    static const char *const texts[] = {
        SAMPLE("000001", "1", " collection_us=x collection=minor cause=heap", KEPT),
        SAMPLE("000001", "1", " collection_us=-1 collection=minor cause=heap", KEPT),
        SAMPLE("000001", "1", " collection_us=99999999999999999999 collection=minor", KEPT),
        SAMPLE("000001", "1", " collection_us=1 collection_us=1", KEPT),
        SAMPLE("000001", "1", " collection_us=1 cause=", KEPT),
        SAMPLE("000001", "1", " collection_us=1 label=a", KEPT),
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct fp_profile *profile = profile_of(texts[i], strlen(texts[i]));

        if (profile->rows.count != 0 || profile->file[0].bad != 1)
            RUN_FAIL("%s is accepted", texts[i]);
        fp_profile_destroy(profile);
    }
}

TEST(files_of_samples_and_of_allocations_are_read_apart)
{
    struct fp_profile *profile = told();

    CHECK_INT(profile_add(profile, samples, strlen(samples)), FP_EMIXED);
    CHECK_INT(profile->rows.count, 5);
    fp_profile_destroy(profile);
    profile = profile_of(samples, strlen(samples));
    CHECK_INT(profile_add(profile, story, strlen(story)), FP_EMIXED);
    fp_profile_destroy(profile);
    profile = told();
    CHECK_INT(profile_add(profile, story, strlen(story)), 0);
    fp_profile_destroy(profile);
}

/* A byte that is another one costs its sample, and not the file. */
TEST(another_event_within_a_file_is_damage)
{
    char *text = strdup(story), *event = strstr(strchr(text, '\t'), "alloc-words");
    struct fp_profile *profile;

    event[0] = 'b';
    profile = profile_of(text, strlen(text));
    CHECK_INT(profile->rows.count, 4);
    CHECK_INT(profile->file[0].bad, 1);
    fp_profile_destroy(profile);
    free(text);
}

/* What an export has written, as text. */
static char *exported(struct fp_profile *profile, const char *format)
{
    struct fp_query query = {.filter = FP_FILTER_ALL, .by = {.kind = FP_BY_VALUE}};
    char path[] = "/tmp/flame_prof_XXXXXX", why[256];
    uint64_t written;
    struct fp_output *output;
    uint64_t count, moved;
    size_t size;
    char *text;
    int fd = mkstemp(path), err;

    CHECK(fd >= 0);
    close(fd);
    query.by.metric = fp_profile_metric(profile, FP_SLICE("words"));
    CHECK_INT(fp_output_open(&output, path, 0, why, sizeof(why)), 0);
    err = strcmp(format, "collapsed") == 0 ? fp_export_collapsed(profile, &query, output, &count)
          : strcmp(format, "perf") == 0    ? fp_export_perf(profile, &query, output, &count, &moved)
          : strcmp(format, "firefox") == 0 ? fp_export_firefox(profile, &query, output)
          : strcmp(format, "index") == 0   ? fp_export_index(profile, output, 0)
          : strcmp(format, "pprof") == 0   ? fp_export_pprof(profile, &query, output)
                                           : fp_export_speedscope(profile, &query, 1, output);
    CHECK_INT(fp_output_close(output, err, &written, why, sizeof(why)), 0);
    text = temporary_read(path, &size);
    unlink(path);
    text = realloc(text, size + 1);
    text[size] = '\0';
    /* Of pprof and of the index: texts between numbers. */
    for (size_t i = 0; i < size; i++)
        text[i] = text[i] == '\0' ? '.' : text[i];
    return text;
}

static void expect(const char *format, const char *wanted)
{
    struct fp_profile *profile = told();
    char *text = exported(profile, format);

    if (strstr(text, wanted) == NULL)
        RUN_FAIL("%s: no %s in %s", format, wanted, text);
    free(text);
    fp_profile_destroy(profile);
}

TEST(exports_say_words_or_bytes)
{
    expect("collapsed", "kept;cache:loop/1:9;maps:put/3 5000\n");
    expect("collapsed", "garbage;cache:loop/1:9;maps:put/3 60001\n");
    expect("speedscope", "\"unit\":\"bytes\"");
    expect("speedscope", "\"endValue\":520008");
    expect("firefox", "\"weightType\":\"bytes\"");
    expect("firefox", "\"weight\":[480000,32000,8000,8]");
    expect("pprof", "alloc_space");
    expect("pprof", "bytes");
    expect("index", "\"events\":[\"alloc-words\"]");
    expect("index", "\"collection\":{\"type\":\"sparse\"");
    expect("index", "120000 minor fragments");
}

TEST(the_weighted_export_of_allocations_is_such_a_file_again)
{
    struct fp_profile *profile = told(), *again;
    char *text = exported(profile, "perf");

    again = profile_of(text, strlen(text));
    CHECK(fp_profile_is_of_allocations(again));
    CHECK_INT(again->warning_count, 0);
    CHECK_INT(sum_by(again, FP_BY_VALUE), 65001);
    free(text);
    fp_profile_destroy(again);
    fp_profile_destroy(profile);
}
