/* Words of one sample: what the reader makes of them, and the sums that need them, of whole and of
 * damaged files. */
#include "profile_text.h"
#include "report/aggregate.h"
#include "report/calls.h"
#include "test.h"

#define FRAME(name) "\tffffffff " name " (x.erl)\n\tffffffff waiting (status)\n\n"
#define WHOLE(pid, words)                                                                          \
    "beam 42/" #pid " [000] 1.000001: reductions=1/0 erl_pid=<0." #pid ".0> name=p" #pid " " words \
    "cpu-clock:\n" FRAME("a:a/0")
#define CHANGED(pid, time, words)                                                                  \
    "beam 42/" #pid " [000] " #time ".000001: " words "cpu-clock:\n" FRAME("a:a/0")

/* Each row as `pid message waits_for request serves call`. */
static void check_words(const char *text, const char *expected)
{
    struct fp_profile *profile = profile_of(text, strlen(text));
    struct fp_cursor cursor;
    struct fp_row row;
    char *told;
    size_t size;
    FILE *out = open_memstream(&told, &size);

    CHECK(out != NULL);
    CHECK_INT(profile->warning_count, 0);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while (fp_cursor_next(&cursor, &row) > 0) {
        const struct fp_words *words = fp_row_words(profile, &row);

        put_text(out, profile, profile->process[row.process].erl_pid);
        fprintf(out, " ");
        put_text(out, profile, words->message);
        fprintf(out, " ");
        put_text(out, profile, words->waits_for);
        fprintf(out, " ");
        put_text(out, profile, words->request);
        fprintf(out, " %llu:%u %llu:%u\n", (unsigned long long)row.serves.number, row.serves.thread,
                (unsigned long long)row.call.number, row.call.thread);
    }
    fp_cursor_close(&cursor);
    fclose(out);
    CHECK_TEXT(told, expected);
    free(told);
    fp_profile_destroy(profile);
}

TEST(words_hold_for_one_sample)
{
    check_words(WHOLE(1, "message=call/{get,_} serves=1.2.3 ")      /**/
                CHANGED(1, 2, "reductions+1 ")                      /**/
                CHANGED(1, 3, "message=call/{get,_} serves=1.2.3 ") /**/
                CHANGED(1, 4, "reductions+1 message=info/x%3Ay ")   /**/
                CHANGED(1, 5, "waits_for=<0.2.0> call=0.4.5 request=_ "),
                "<0.1.0> call:{get,_}   4294967298:3 0:0\n"
                "<0.1.0>    0:0 0:0\n"
                "<0.1.0> call:{get,_}   4294967298:3 0:0\n"
                "<0.1.0> info:x:y   0:0 0:0\n"
                "<0.1.0>  <0.2.0> _ 0:0 4:5\n");
}

TEST(the_largest_references_are_read)
{
    check_words(WHOLE(1, "serves=4294967295.4294967295.4294967295 call=0.0.0 "),
                "<0.1.0>    18446744073709551615:4294967295 0:0\n");
}

/* Of the sample itself they are known, although its process is not. */
TEST(behind_damage_words_are_those_of_the_sample)
{
    const char *text = WHOLE(1, "") "damage\n\n" CHANGED(1, 2, "waits_for=lock ");
    struct fp_profile *profile = profile_of(text, strlen(text));

    CHECK_INT(profile->rows.count, 2);
    CHECK_INT(profile->warning_count, 1);
    CHECK_INT(profile->words_count, 2);
    fp_profile_destroy(profile);
}

TEST(words_that_make_no_sense_are_damage)
{
    static const char *const fields[] = {
        "message= ",
        "serves=1.2 ",
        "serves=1.2.3.4 ",
        "call=1..3 ",
        "call=a.b.c ",
        "call=4294967296.0.0 ",
        "call=1.2.3 call=1.2.3 ",
        "message=call/get reductions+1 ",
        "message=call/get name=a ",
        "message=call/get erl_pid=<0.1.0> ",
        "message=call/get unknown=a ",
        "unknown=a message=call/get ",
        "waits_for ",
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        char text[1024];
        struct fp_profile *profile;

        snprintf(text, sizeof(text), "%sbeam 42/1 [000] 2.000001: %scpu-clock:\n" FRAME("a:a/0"),
                 WHOLE(1, ""), fields[i]);
        profile = profile_of(text, strlen(text));
        if (profile->rows.count != 1 || profile->file[0].bad != 1)
            RUN_FAIL("%s is accepted", fields[i]);
        fp_profile_destroy(profile);
    }
}

/* ---- sums ---------------------------------------------------------------- */

#define PROCESSES 9u
#define TICKS 200u

/* Processes that wait for each other in all ways, and calls that go on: the file of node 0 or 1,
 * some of whose processes wait for those of the other one, by pid or name. */
static char *made(uint64_t seed, unsigned node)
{
    const char *const at[] = {"<0.%u.0>", node == 0 ? "n1@h/<0.%u.0>" : "n0@h/<0.%u.0>",
                              node == 0 ? "n1@h/p%u" : "n0@h/p%u"};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    CHECK(out != NULL);
    for (unsigned t = 0; t < TICKS; t++) {
        for (unsigned p = 1; p <= PROCESSES; p++) {
            fprintf(out, "beam %u/%u [000] %u.%06u: reductions=%u/0 erl_pid=<0.%u.0> name=p%u ",
                    42 + node, p, 1 + t / 100, 9000 * (t % 100) + 300 * node + 1, t, p, p);
            if (run_below(&seed, 3) > 0)
                fprintf(out, "message=call/{m%u,_} serves=7.%u.1 ", run_below(&seed, 3),
                        p + 100 * (t / 16));
            if (run_below(&seed, 3) > 0) {
                const char *whom = at[run_below(&seed, 3)];

                fprintf(out, "waits_for=");
                /* NOLINTNEXTLINE(clang-diagnostic-format-nonliteral) */
                fprintf(out, whom, 1 + run_below(&seed, PROCESSES + 2));
                fprintf(out, " call=7.%u.1 request=r ", 1 + p % PROCESSES + 100 * (t / 16));
            }
            fprintf(out, "cpu-clock:\n\tffffffff f:f%u/0 (x.erl)\n\tffffffff g:g/0 (x.erl)\n",
                    run_below(&seed, 4));
            fprintf(out, "\tffffffff waiting (status)\n\n");
        }
    }
    fprintf(out,
            "flame_prof %u/2147483647 [000] 3.000001: ticks=0/0 name=flame_prof engine=native "
            "format=3 node=n%u@h cpu-clock:\n\tffffffff flame_prof_self (flame_prof)\n"
            "\tffffffff waiting (status)\n\n",
            42 + node, node);
    fclose(out);
    return text;
}

/* Of both files; they are freed. Damaged ones have other bytes in so many places. */
static struct fp_profile *profile_of_both(uint64_t seed, uint64_t *damage)
{
    struct fp_profile *profile = NULL;

    for (unsigned node = 0; node < 2; node++) {
        char *text = made(seed + node, node);
        size_t size = strlen(text);

        for (uint32_t n = damage == NULL ? 0 : run_below(damage, 20); n > 0; n--)
            text[run_below(damage, (uint32_t)size)] = "\n\t 0123456789<>.=/"[run_below(damage, 19)];
        if (node == 0)
            profile = profile_of(text, size);
        else
            CHECK_INT(profile_add(profile, text, size), 0);
        free(text);
    }
    return profile;
}

/* 0 or an error. */
static int add_up(struct fp_profile *profile)
{
    struct fp_query query = {.filter = FP_FILTER_ALL,
                             .dimension = {FP_DIMENSION_message},
                             .dimension_count = 1,
                             .with_chains = 1};
    struct fp_aggregate sums;
    struct fp_calls calls;
    uint32_t nodes[FP_FRAMES_MOST];
    int err = 0;

    for (query.without_lines = 0; query.without_lines < 2 && err == 0; query.without_lines++) {
        err = fp_aggregate_make(&sums, profile, &query);
        for (size_t i = 0; i < sums.count && err == 0; i++)
            CHECK(fp_aggregate_stack(&sums, sums.group[i].node, nodes) <= FP_FRAMES_MOST);
        fp_aggregate_free(&sums);
    }
    if (err == 0) {
        err = fp_calls_find(&calls, profile, 3);
        for (size_t i = 0; i < calls.count && err == 0; i++)
            CHECK(calls.call[i].last_us >= calls.call[i].first_us);
        fp_calls_free(&calls, &profile->budget);
    }
    return err;
}

TEST(damaged_files_are_added_up)
{
    uint64_t seed = 17;

    for (int round = 0; round < 200; round++) {
        struct fp_profile *profile = profile_of_both((uint64_t)round, &seed);
        size_t used = profile->budget.used;

        CHECK_INT(add_up(profile), 0);
        /* But for the names of what ends a chain. */
        CHECK(profile->budget.used - used < 4096);
        fp_profile_destroy(profile);
    }
}

TEST(for_want_of_memory_sums_are_refused)
{
    int full = 0;

    for (size_t more = 0; more < 400000; more += 2003) {
        struct fp_profile *profile = profile_of_both(1, NULL);
        int err;

        profile->budget.limit = profile->budget.used + more;
        err = add_up(profile);
        CHECK(err == 0 || err == FP_EFULL);
        full += err != 0;
        CHECK(profile->budget.used <= profile->budget.limit);
        fp_profile_destroy(profile);
    }
    CHECK(full > 10);
}

/* A name on another node: both may be of 255 characters of three bytes, each byte as %HH. */
TEST(the_longest_name_on_another_node_is_kept_whole)
{
    char atom[255 * 9 + 1], *text;
    struct fp_profile *profile;
    struct fp_slice told;

    for (size_t i = 0; i < 255 * 3; i++)
        memcpy(atom + 3 * i, i % 3 == 0 ? "%E2" : "%82", 4);
    CHECK(asprintf(&text, WHOLE(1, "waits_for=%s/%s "), atom, atom) > 0);
    profile = profile_of(text, strlen(text));
    told = fp_profile_text(profile, profile->words[1].waits_for);
    CHECK_INT(told.size, 2 * strlen(atom) + 1);
    CHECK(memcmp(told.at + strlen(atom) + 1, atom, strlen(atom)) == 0);
    fp_profile_destroy(profile);
    free(text);
}

/* The deepest stacks that wait: no root is lost. */
TEST(a_chain_for_which_there_is_no_room_keeps_its_root)
{
    for (unsigned frames = FP_FRAMES_MOST - 3; frames <= FP_FRAMES_MOST; frames++) {
        struct fp_query query = {.filter = FP_FILTER_ALL, .with_chains = 1};
        uint32_t nodes[FP_FRAMES_MOST];
        struct fp_profile *profile;
        struct fp_aggregate sums;
        struct fp_slice leaf, root;
        char *text;
        size_t size, count;
        FILE *out = open_memstream(&text, &size);

        CHECK(out != NULL);
        fprintf(out, "beam 42/1 [000] 1.000001: reductions=1/0 erl_pid=<0.1.0> name=p "
                     "waits_for=<0.2.0> cpu-clock:\n");
        for (unsigned i = 1; i < frames; i++)
            fprintf(out, "\tffffffff f:f/0 (x.erl)\n");
        fprintf(out, "\tffffffff r:root/0 (x.erl)\n\tffffffff waiting (status)\n\n");
        fclose(out);
        profile = profile_of(text, size);
        CHECK_INT(profile->warning_count, 0);
        CHECK_INT(fp_aggregate_make(&sums, profile, &query), 0);
        CHECK_INT(sums.count, 1);
        count = fp_aggregate_stack(&sums, sums.group[0].node, nodes);
        CHECK_INT(count, frames + 2 <= FP_FRAMES_MOST ? frames + 2 : FP_FRAMES_MOST);
        root = fp_aggregate_symbol(&sums, nodes[0]);
        CHECK(root.size == 8 && memcmp(root.at, "r:root/0", 8) == 0);
        leaf = fp_aggregate_symbol(&sums, nodes[count - 1]);
        CHECK(leaf.at[0] == (frames + 2 <= FP_FRAMES_MOST ? 'n'
                             : frames < FP_FRAMES_MOST    ? 't'
                                                          : 'f'));
        fp_aggregate_free(&sums);
        fp_profile_destroy(profile);
        free(text);
    }
}
