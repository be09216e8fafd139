/* test_weighted.c - the file of allocations: what records of words become, and how it is read.
 *
 * test/corpus/allocations.log is written by hand after doc/format.md; other tests read it, too. */
#include "format/perf_script.h"

#include "base/error.h"

#include "profile_text.h"
#include "records.h"
#include "test.h"

struct fixture {
    struct fp_perf_script *script;
    struct fp_counters stats;
    char text[65536];
    size_t size;
    union record_buffer buffer;
};

static struct fixture *create(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct fp_perf_script_options options = {.event = "alloc-words", .os_pid = 4242};

    CHECK(f != NULL);
    options.stats = &f->stats;
    CHECK_INT(fp_perf_script_create(&f->script, &options), 0);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_perf_script_destroy(f->script);
    free(f);
}

static int take(struct fixture *f, const struct fp_record *record)
{
    const char *text;
    size_t size;
    int err = fp_perf_script_record(f->script, record, &text, &size);

    CHECK(f->size + size <= sizeof f->text);
    if (size > 0)
        memcpy(f->text + f->size, text, size);
    f->size += size;
    return err;
}

static void frame(struct fixture *f, uint32_t id, const char *module, const char *function,
                  uint16_t arity, uint32_t line)
{
    struct bytes m = {module, strlen(module)}, name = {function, strlen(function)};

    CHECK_INT(take(f, make_frame(&f->buffer, id, m, name, arity, line, NO_BYTES)), 0);
}

static void stack(struct fixture *f, uint32_t slot, uint16_t count, uint32_t leaf)
{
    uint64_t word[8];

    for (uint16_t i = 0; i < count; i++)
        word[i] = FP_FRAME_TEXT | (leaf + i);
    CHECK_INT(take(f, make_stack(&f->buffer, slot, word, count)), 0);
}

static const struct fp_record *weighted(struct fixture *f, struct fp_record_weighted record)
{
    memset(&f->buffer, 0, sizeof record);
    memcpy(&f->buffer, &record, sizeof record);
    return make_head(&f->buffer, FP_RECORD_WEIGHTED, sizeof record);
}

#define WEIGHTED(f, ...) take(f, weighted(f, (struct fp_record_weighted){__VA_ARGS__}))

/* A process that keeps a part of what it makes, one that is sent messages, one of no name. */
static void define(struct fixture *f)
{
    CHECK_INT(take(f, make_process(&f->buffer, 0, 71, 0, BYTES("shop"),
                                   CALL("proc_lib", "init_p", 5), CALL("shop", "init", 1))),
              0);
    CHECK_INT(
        take(f, make_process(&f->buffer, 1, 72, 0, NO_BYTES, CALL("erlang", "apply", 2), NO_CALL)),
        0);
    CHECK_INT(take(f, make_process(&f->buffer, 2, 73, 0, NO_BYTES, NO_CALL, NO_CALL)), 0);
    frame(f, 0, "lists", "map", 2, 1559);
    frame(f, 1, "shop", "price", 2, 31);
    frame(f, 2, "proc_lib", "init_p", 5, 0);
    frame(f, 3, "inbox", "loop", 1, 12);
    stack(f, 0, 3, 0);
    stack(f, 1, 1, 3);
}

static void own_sample(struct fixture *f)
{
    static struct fp_gauges counters, none;
    struct fp_self_sample sample = {
        .engine = "native",
        .now = {&none, &counters},
        .before = {&none, &none},
        .now_us = INT64_C(1795237784500000),
        .note = "",
        .about = "node=shop@host otp=29",
    };
    static const struct {
        const char *name;
        int64_t value;
    } figures[] = {{"looks", 812},           {"words", 262145},   {"dropped_words", 0},
                   {"minor", 9400},          {"major", 21},       {"collection_ns", 410000000},
                   {"longest_ns", 12345678}, {"in_step_words", 0}};
    const char *text;
    size_t size;

    counters.n = 0;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        CHECK_INT(fp_gauges_add(&counters, figures[i].name, figures[i].value), 0);
    CHECK_INT(fp_perf_script_self(f->script, &sample, &text, &size), 0);
    memcpy(f->text + f->size, text, size);
    f->size += size;
}

static void the_corpus(struct fixture *f)
{
    int64_t us = INT64_C(1795237782923952);

    define(f);
    CHECK_INT(WEIGHTED(f, .time_us = us, .weight = 49152, .fate = FP_HEAP_FATE_kept,
                       .cause = FP_GC_CAUSE_heap),
              0);
    CHECK_INT(WEIGHTED(f, .time_us = us, .weight = 16384, .fate = FP_HEAP_FATE_garbage,
                       .cause = FP_GC_CAUSE_heap),
              0);
    CHECK_INT(WEIGHTED(f, .process = 1, .stack = 1, .time_us = us + 100000, .weight = 131072,
                       .cause = FP_GC_CAUSE_fragments, .is_long = 1, .is_major = 1,
                       .collection_us = 12345),
              0);
    CHECK_INT(WEIGHTED(f, .process = 2, .stack = 0, .time_us = us + 1000000, .weight = 65536,
                       .fate = FP_HEAP_FATE_garbage, .cause = FP_GC_CAUSE_binaries),
              0);
    CHECK_INT(WEIGHTED(f, .time_us = us + 1100000, .weight = 1, .cause = FP_GC_CAUSE_unknown,
                       .is_long = 1, .collection_us = 1001),
              0);
    own_sample(f);
}

TEST_WITH(records_become_what_the_document_shows, create())
{
    char expected[65536];
    FILE *file = fopen("test/corpus/allocations.log", "r");
    size_t size;

    CHECK(file != NULL);
    size = fread(expected, 1, sizeof expected, file);
    fclose(file);
    the_corpus(f);
    CHECK_BYTES(f->text, f->size, expected, size);
}

/* Before those of the collection, which are behind all others. */
TEST_WITH(the_message_in_work_is_a_word, create())
{
    static const char expected[] =
        "# words=7/7 erl_pid=<0.72.0> initial_call=erlang%3Aapply/2 message=cast/_ "
        "collection_us=1001 collection=minor (metrics)\n";

    define(f);
    CHECK_INT(WEIGHTED(f, .process = 1, .stack = 1, .time_us = 1, .weight = 7, .is_long = 1,
                       .collection_us = 1001, .message_kind = FP_MESSAGE_cast,
                       .message.shape = FP_SHAPE_OTHER),
              0);
    CHECK(memmem(f->text, f->size, expected, sizeof expected - 1) != NULL);
}

/* By the reader, every word of it. */
TEST_WITH(what_is_written_is_read, create())
{
    struct fp_profile *profile;
    struct fp_cursor cursor;
    struct fp_row row;
    int64_t words = 0;

    the_corpus(f);
    profile = profile_of(f->text, f->size);
    CHECK_INT(profile->file->bad, 0);
    CHECK_INT(profile->warning_count, 0);
    CHECK_INT(profile->rows.count, 6); /* with the profiler's own, of period 1 */
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while (fp_cursor_next(&cursor, &row) > 0)
        words += (int64_t)row.period;
    fp_cursor_close(&cursor);
    CHECK_INT(words, 49152 + 16384 + 131072 + 65536 + 1 + 1);
    fp_profile_destroy(profile);
}

TEST_WITH(the_deepest_stack_with_the_longest_words_fits, create())
{
    uint64_t word[FP_STACK_FRAMES_MAX];
    const char *at;
    int lines = 0;

    define(f);
    for (uint32_t i = 0; i < FP_STACK_FRAMES_MAX; i++)
        word[i] = FP_FRAME_TEXT | (i % 2);
    CHECK_INT(take(f, make_stack(&f->buffer, 5, word, FP_STACK_FRAMES_MAX)), 0);
    CHECK_INT(WEIGHTED(f, .stack = 5, .time_us = FP_TIME_US_MAX, .weight = INT64_MAX,
                       .cause = FP_GC_CAUSE_fragments, .is_long = 1, .is_major = 1,
                       .collection_us = UINT64_MAX),
              0);
    f->text[f->size] = '\0';
    for (at = f->text; (at = strstr(at, "\t")) != NULL; at++)
        lines++;
    CHECK_INT(lines, 255);
    CHECK(strstr(f->text, " 9223372036854775807 alloc-words:\n# words=9223372036854775807/") !=
          NULL);
}

TEST_WITH(records_that_make_no_sense_are_refused, create())
{
    static const struct fp_record_weighted wrong[] = {
        {.weight = 0},
        {.weight = UINT64_MAX},
        {.weight = 1, .fate = FP_HEAP_FATES},
        {.weight = 1, .cause = FP_GC_CAUSES},
        {.weight = 1, .process = FP_PROCESS_SLOTS},
        {.weight = 1, .process = 3},
        {.weight = 1, .stack = FP_STACK_SLOTS},
        {.weight = 1, .stack = 2},
        {.weight = 1, .time_us = FP_TIME_US_MAX + 1},
    };

    define(f);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(take(f, weighted(f, wrong[i])), FP_EINVAL);
    CHECK_INT(f->size, 0);
}
