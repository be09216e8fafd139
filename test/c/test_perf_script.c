/* test_perf_script.c - records to text: the encoding rule by rule, samples word by word, and
 * thousands of random ones against the grammar (grammar.h). */
#include <sys/mman.h>

static size_t mapped_now;
static int mapping_fails;

static void *counting_mmap(void *at, size_t size, int prot, int flags, int file, off_t offset)
{
    if (mapping_fails)
        return MAP_FAILED;
    mapped_now += size;
    return mmap(at, size, prot, flags, file, offset);
}

static int counting_munmap(void *at, size_t size)
{
    mapped_now -= size;
    return munmap(at, size);
}

static void *failing_mremap(void *at, size_t size, size_t new_size, int flags)
{
    return mapping_fails ? MAP_FAILED : mremap(at, size, new_size, flags);
}

#define mmap counting_mmap
#define mremap failing_mremap
#define munmap counting_munmap
#include "base/pages.c"
#undef mmap
#undef mremap
#undef munmap

#include "base/error.h"
#include "fake_code.h"
#include "format/encode.h"
#include "format/perf_script.h"
#include "grammar.h"
#include "records.h"
#include "report/carry.h"
#include "test.h"

/* ---- encoding --------------------------------------------------------- */

static void check_encoded(struct bytes text, const char *expected)
{
    char out[4096];
    size_t size = (size_t)(fp_put_encoded(out, (struct fp_slice){text.text, text.size}) - out);

    CHECK_BYTES(out, size, expected, strlen(expected));
}
#define ENCODED(literal, expected) check_encoded(BYTES(literal), expected)

TEST(what_readers_would_stumble_over_is_percent_encoded)
{
    /* As names usually are. */
    ENCODED("", "");
    ENCODED("handle_call", "handle_call");
    ENCODED("Elixir.Foo.Bar", "Elixir.Foo.Bar");
    ENCODED("baz?", "baz?");
    ENCODED("-f/1-lc$^0/1-0-", "-f/1-lc$^0/1-0-");
    ENCODED("a:b/c=d,e{}[]|!@#*^~`\\-_.", "a:b/c=d,e{}[]|!@#*^~`\\-_.");
    /* Reserved characters. */
    ENCODED("++", "%2B%2B");
    ENCODED("\"", "%22");
    ENCODED("'", "%27");
    ENCODED("f(x)", "f%28x%29");
    ENCODED("a;b", "a%3Bb");
    ENCODED("<0.1.0>", "%3C0.1.0%3E");
    ENCODED("a&b", "a%26b");
    ENCODED("100%", "100%25");
    ENCODED("%41", "%2541");
    /* Blanks and controls. */
    ENCODED("a b", "a%20b");
    ENCODED("\t\n\r", "%09%0A%0D");
    ENCODED("a\0b", "a%00b");
    ENCODED("\x1b[0m\x7f", "%1B[0m%7F");
    ENCODED("\xc2\x80\xc2\x85\xc2\x9f", "%C2%80%C2%85%C2%9F");
    /* Separators of Unicode. */
    ENCODED("\xc2\xa0", "%C2%A0");        /* U+00A0 */
    ENCODED("\xe1\x9a\x80", "%E1%9A%80"); /* U+1680 */
    ENCODED("\xe2\x80\x80", "%E2%80%80"); /* U+2000 */
    ENCODED("\xe2\x80\x8a", "%E2%80%8A"); /* U+200A */
    ENCODED("\xe2\x80\x8b", "%E2%80%8B"); /* U+200B */
    ENCODED("\xe2\x80\xa8", "%E2%80%A8"); /* U+2028 */
    ENCODED("\xe2\x80\xa9", "%E2%80%A9"); /* U+2029 */
    ENCODED("\xe2\x80\xaf", "%E2%80%AF"); /* U+202F */
    ENCODED("\xe2\x81\x9f", "%E2%81%9F"); /* U+205F */
    ENCODED("\xe3\x80\x80", "%E3%80%80"); /* U+3000 */
    ENCODED("\xef\xbb\xbf", "%EF%BB%BF"); /* U+FEFF */
    /* What turns the direction of a line. */
    ENCODED("\xd8\x9c", "%D8%9C");                /* U+061C */
    ENCODED("\xe2\x80\x8c", "%E2%80%8C");         /* U+200C */
    ENCODED("\xe2\x80\x8f", "%E2%80%8F");         /* U+200F */
    ENCODED("\xe2\x80\xaa", "%E2%80%AA");         /* U+202A */
    ENCODED("a\xe2\x80\xaertl", "a%E2%80%AErtl"); /* U+202E */
    ENCODED("\xe2\x81\xa6", "%E2%81%A6");         /* U+2066 */
    ENCODED("\xe2\x81\xa9", "%E2%81%A9");         /* U+2069 */
    /* Other Unicode stays readable. */
    ENCODED("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
    ENCODED("\xc2\xa1", "\xc2\xa1");
    ENCODED("\xe2\x80\x90", "\xe2\x80\x90"); /* U+2010 */
    ENCODED("\xe2\x81\xaa", "\xe2\x81\xaa"); /* U+206A */
    ENCODED("\xe6\xbc\xa2\xe5\xad\x97", "\xe6\xbc\xa2\xe5\xad\x97");
    ENCODED("\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5");
    ENCODED("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf");
    /* Bytes that are not UTF-8. */
    ENCODED("a\xff"
            "b",
            "a%FFb");
    ENCODED("\x80", "%80");
    ENCODED("\xc3", "%C3"); /* cut off */
    ENCODED("\xe2\x80", "%E2%80");
    ENCODED("\xe2\x80"
            "a",
            "%E2%80a");
    ENCODED("\xc0\xaf", "%C0%AF"); /* overlong */
    ENCODED("\xe0\x80\xaf", "%E0%80%AF");
    ENCODED("\xf0\x80\x80\xaf", "%F0%80%80%AF");
    ENCODED("\xed\xa0\x80", "%ED%A0%80");        /* a surrogate */
    ENCODED("\xf4\x90\x80\x80", "%F4%90%80%80"); /* beyond U+10FFFF */
    ENCODED("\xf8\x88\x80\x80\x80", "%F8%88%80%80%80");
    ENCODED("\xc3\xc3\xbc", "%C3\xc3\xbc"); /* goes on behind */
}

/* ---- a script and its text -------------------------------------------- */

struct fixture {
    struct fake_code code;
    struct fp_symbolizer symbolizer;
    struct fp_counters stats;
    struct fp_perf_script *script;
    const char *text;
    size_t size;
    union record_buffer buffer;
};

static const struct fake_function functions[] = {
    {"lists", "map", "lists.erl", 2},                   /* 0 */
    {"my_server", "handle_call", "", 3},                /* 1 */
    {"gen_server", "loop", "gen_server.erl", 7},        /* 2 */
    {"proc_lib", "init_p_do_apply", "proc_lib.erl", 3}, /* 3 */
    {"proc_lib", "init_p", "proc_lib.erl", 5},          /* 4 */
    {"my_server", "init", "", 1},                       /* 5 */
};
static const char *const atoms[] = {"proc_lib", "init_p", "my_server", "init", "the name"};

static struct fixture *setup(int flatten)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct fp_perf_script_options options = {.os_pid = 4242, .collapse_recursion = flatten};

    CHECK(f != NULL);
    f->code.functions = functions;
    f->code.function_count = sizeof(functions) / sizeof(*functions);
    f->code.atoms = atoms;
    f->code.atom_count = sizeof(atoms) / sizeof(*atoms);
    f->symbolizer = fake_symbolizer(&f->code);
    options.symbolizer = &f->symbolizer;
    options.stats = &f->stats;
    CHECK_INT(fp_perf_script_create(&f->script, &options), 0);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_perf_script_destroy(f->script);
    free(f);
}

#define SCRIPT(test) TEST_WITH(test, setup(0))
#define FLAT(test) TEST_WITH(test, setup(1))

static int take(struct fixture *f, const struct fp_record *record)
{
    return fp_perf_script_record(f->script, record, &f->text, &f->size);
}

static void define(struct fixture *f, const struct fp_record *record)
{
    CHECK_INT(take(f, record), 0);
    CHECK_INT(f->size, 0);
}

/* Process 0 is <0.71.0>, with neither name nor calls. */
static void define_plain_process(struct fixture *f)
{
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, NO_CALL, NO_CALL));
}

static struct fixture *setup_plain(void)
{
    struct fixture *f = setup(0);

    define_plain_process(f);
    return f;
}

#define PLAIN(test) TEST_WITH(test, setup_plain())

static void define_stack(struct fixture *f, uint32_t slot, const uint64_t *frame, uint16_t count)
{
    define(f, make_stack(&f->buffer, slot, frame, count));
}

#define STACK(f, slot, ...)                                                                        \
    do {                                                                                           \
        const uint64_t stack_[] = {__VA_ARGS__};                                                   \
        define_stack((f), (slot), stack_, (uint16_t)(sizeof(stack_) / sizeof(*stack_)));           \
    } while (0)

/* A sample of process 0 with stack 0, all values and deltas 0. */
static void sample(struct fixture *f, int64_t time_us)
{
    make_sample(&f->buffer, 0, 0, time_us, 0, 0);
    memset(f->buffer.sample.value, 0, sizeof(f->buffer.sample.value));
    CHECK_INT(take(f, &f->buffer.head), 0);
    CHECK(f->size != 0);
}

#define ADDRESS "\tffffffff "

/* The frames of the last sample, above its status. */
static void check_frames(struct fixture *f, const char *const *frame, size_t count)
{
    const char *begin = memchr(f->text, '\t', f->size);
    char expected[4096];
    int size = 0;

    for (size_t i = 0; i < count; i++)
        size +=
            snprintf(expected + size, sizeof(expected) - (size_t)size, ADDRESS "%s\n", frame[i]);
    snprintf(expected + size, sizeof(expected) - (size_t)size, ADDRESS "waiting (status)\n\n");
    CHECK(begin != NULL);
    CHECK_BYTES(begin, (size_t)(f->text + f->size - begin), expected, strlen(expected));
}

#define FRAMES(f, ...)                                                                             \
    do {                                                                                           \
        const char *const frames_[] = {__VA_ARGS__};                                               \
        check_frames((f), frames_, sizeof(frames_) / sizeof(*frames_));                            \
    } while (0)

#define LIST(...) __VA_ARGS__

/* A sample of process 0 with that stack has these frames. */
#define SHOWN(f, time_us, stack, ...)                                                              \
    do {                                                                                           \
        STACK((f), 0, LIST stack);                                                                 \
        sample((f), (time_us));                                                                    \
        FRAMES((f), __VA_ARGS__);                                                                  \
    } while (0)

static void check_header(struct fixture *f, const char *expected)
{
    CHECK_BYTES(f->text, strlen(expected), expected, strlen(expected));
}

#define ZERO16                                                                                     \
    "reductions=0/0 message_queue_len=0/0 memory=0/0 total_heap_size=0/0"                          \
    " stack_size=0/0 heap_size=0/0 heap_block_size=0/0 old_heap_size=0/0"                          \
    " old_heap_block_size=0/0 recent_size=0/0 mbuf_size=0/0"                                       \
    " bin_vheap_size=0/0 bin_vheap_block_size=0/0 bin_old_vheap_size=0/0"                          \
    " bin_old_vheap_block_size=0/0 minor_gcs=0/0 "

/* ---- whole samples ---------------------------------------------------- */

SCRIPT(a_sample_is_what_the_document_shows)
{
    static const char expected[] =
        "my_server 4242/536870983 [000] 1234567891.011367: " ZERO16
        "erl_pid=<0.71.2> name=my%20server initial_call=proc_lib%3Ainit_p/5"
        " proc_lib_initial_call=my_server%3Ainit/1 cpu-clock:\n"
        "\tffffffff my_server:handle_call/3:99 (my_server.erl)\n"
        "\tffffffff gen_server:loop/7:871 (gen_server.erl)\n"
        "\tffffffff proc_lib:init_p_do_apply/3 (proc_lib.erl)\n"
        "\tffffffff proc_lib:init_p/5 (proc_lib.erl)\n"
        "\tffffffff my_server:init/1 (my_server.erl)\n"
        "\tffffffff waiting (status)\n"
        "\n";

    define(f, make_process(&f->buffer, 0, 71, 2, BYTES("my server"), CALL("proc_lib", "init_p", 5),
                           CALL("my_server", "init", 1)));
    STACK(f, 0, fake_address(1, 99), fake_address(2, 871), fake_address(3, 0));
    sample(f, INT64_C(1234567891011367));
    CHECK_BYTES(f->text, f->size, expected, strlen(expected));
}

SCRIPT(a_label_stands_behind_the_name)
{
    union record_buffer *b = &f->buffer;

    make_process_of_atoms(b, 0, 71, 5, (struct fp_mfa_words){1, 2, 5},
                          (struct fp_mfa_words){0, 0, 0});
    b->process.label = 3; /* an atom word */
    define(f, &b->process.head);
    STACK(f, 0, fake_address(0, 5));
    sample(f, 1000001);
    check_header(f, "the_name 4242/71 [000] 1.000001: " ZERO16
                    "erl_pid=<0.71.0> name=the%20name label=my_server"
                    " initial_call=proc_lib%3Ainit_p/5 cpu-clock:\n");
}

SCRIPT(a_function_without_a_name_is_an_initial_call)
{
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, CALL("shop", "", 0), NO_CALL));
    STACK(f, 0, fake_address(0, 5));
    sample(f, 1000001);
    check_header(f, "shop. 4242/71 [000] 1.000001: " ZERO16
                    "erl_pid=<0.71.0> initial_call=shop%3A/0 cpu-clock:\n");
    FRAMES(f, "lists:map/2:5 (lists.erl)", "shop:/0 (shop.erl)");
}

SCRIPT(names_may_come_as_atom_words)
{
    define(f, make_process_of_atoms(&f->buffer, 0, 71, 5, (struct fp_mfa_words){1, 2, 5},
                                    (struct fp_mfa_words){3, 4, 1}));
    STACK(f, 0, fake_address(0, 5));
    sample(f, 1000001);
    check_header(f, "the_name 4242/71 [000] 1.000001: " ZERO16 "erl_pid=<0.71.0> name=the%20name"
                    " initial_call=proc_lib%3Ainit_p/5"
                    " proc_lib_initial_call=my_server%3Ainit/1 cpu-clock:\n");
    FRAMES(f, "lists:map/2:5 (lists.erl)", "proc_lib:init_p/5 (proc_lib.erl)",
           "my_server:init/1 (my_server.erl)");
}

SCRIPT(an_atom_that_nobody_knows_is_left_out)
{
    define(f, make_process_of_atoms(&f->buffer, 0, 71, 99, (struct fp_mfa_words){1, 99, 5},
                                    (struct fp_mfa_words){99, 4, 1}));
    STACK(f, 0, fake_address(0, 5));
    sample(f, 1000001);
    check_header(f, "beam 4242/71 [000] 1.000001: " ZERO16 "erl_pid=<0.71.0> cpu-clock:\n");
    FRAMES(f, "lists:map/2:5 (lists.erl)");
}

PLAIN(numbers_are_written_as_printf_would)
{
    int64_t pool[64];
    char expected[2048];
    size_t count = 0;
    uint64_t random = 5;

    pool[count++] = 0;
    pool[count++] = INT64_MAX;
    pool[count++] = INT64_MIN;
    for (int64_t power = 1; power <= INT64_MAX / 10; power *= 10) {
        pool[count++] = power;
        pool[count++] = power - 1;
        pool[count++] = -power;
    }
    STACK(f, 0, fake_address(0, 0));
    for (int round = 0; round < 500; round++) {
        int at = 0;

        make_sample(&f->buffer, 0, 0, 2000001 + round, 0, 0);
        fp_perf_script_set_block(f->script, 2 + (uint64_t)round);
        at += snprintf(expected, sizeof(expected), "beam 4242/71 [000] 2.%06d:", round + 1);
        for (int i = 0; i < FP_METRIC_COUNT; i++) {
            int64_t value = pool[run_below(&random, (uint32_t)count)];
            int64_t delta = pool[run_below(&random, (uint32_t)count)];

            f->buffer.sample.value[i] = value;
            f->buffer.sample.delta[i] = delta;
            at += snprintf(expected + at, sizeof(expected) - (size_t)at, " %s=%" PRId64 "/%" PRId64,
                           fp_metric_name(i), value, delta);
        }
        CHECK_INT(take(f, &f->buffer.head), 0);
        check_header(f, expected);
    }
}

PLAIN(each_status_is_the_root_frame)
{
    STACK(f, 0, fake_address(0, 0));
    for (uint8_t status = 0; status < FP_STATUS_COUNT; status++) {
        char expected[64];

        make_sample(&f->buffer, 0, 0, 2000001, 0, 0);
        f->buffer.head.status = status;
        CHECK_INT(take(f, &f->buffer.head), 0);
        snprintf(expected, sizeof(expected), ")\n" ADDRESS "%s (status)\n\n",
                 fp_status_name(status));
        CHECK_BYTES(f->text + f->size - strlen(expected), strlen(expected), expected,
                    strlen(expected));
    }
}

/* ---- tid and time ----------------------------------------------------- */

SCRIPT(the_tid_tells_processes_apart_and_fits_an_int32)
{
    static const struct {
        uint32_t number, serial;
        const char *begin;
    } cases[] = {
        {71, 0, "beam 4242/71 ["},
        {71, 1, "beam 4242/268435527 ["},
        {71, 8, "beam 4242/71 ["},
        {(1u << 28) - 1, 0xffffffff, "beam 4242/2147483647 ["},
    };

    STACK(f, 0, fake_address(0, 0));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        define(f, make_process(&f->buffer, 0, cases[i].number, cases[i].serial, NO_BYTES, NO_CALL,
                               NO_CALL));
        sample(f, 1000001);
        check_header(f, cases[i].begin);
    }
}

PLAIN(no_sample_falls_on_a_whole_second)
{
    STACK(f, 0, fake_address(0, 0));
    sample(f, INT64_C(1700000000000000));
    check_header(f, "beam 4242/71 [000] 1700000000.000001: ");
    sample(f, INT64_C(1700000000999999));
    check_header(f, "beam 4242/71 [000] 1700000000.999999: ");
    /* Pushed off its place, it must not land on one either. */
    sample(f, INT64_C(1700000000999999));
    check_header(f, "beam 4242/71 [000] 1700000001.000001: ");
}

SCRIPT(time_never_decreases_and_grows_within_a_process)
{
    define(f, make_process(&f->buffer, 1, 72, 0, NO_BYTES, NO_CALL, NO_CALL));
    define_plain_process(f);
    STACK(f, 0, fake_address(0, 0));
    sample(f, 5500000);
    check_header(f, "beam 4242/71 [000] 5.500000: ");
    sample(f, 5400000);
    check_header(f, "beam 4242/71 [000] 5.500001: ");
    CHECK_INT(take(f, make_sample(&f->buffer, 1, 0, 5500000, 0, 0)), 0);
    check_header(f, "beam 4242/72 [000] 5.500001: ");
    sample(f, -7);
    check_header(f, "beam 4242/71 [000] 5.500002: ");
}

PLAIN(a_time_beyond_the_year_9999_is_refused)
{
    STACK(f, 0, fake_address(0, 0));
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 0, INT64_MAX, 0, 0)), FP_EINVAL);
}

/* ---- symbols ---------------------------------------------------------- */

/* The line of one text frame. */
static void check_frame(struct bytes module, struct bytes function, uint16_t arity, uint32_t line,
                        struct bytes file, const char *expected)
{
    struct fixture *f = setup(0);

    define_plain_process(f);
    define(f, make_frame(&f->buffer, 0, module, function, arity, line, file));
    SHOWN(f, 1000001, (FP_FRAME_TEXT | 0), expected);
    destroy(f);
}
#define FRAME(m, fn, a, l, file, expected)                                                         \
    check_frame(BYTES(m), BYTES(fn), a, l, BYTES(file), expected)

TEST(a_frame_has_module_function_arity_line_and_file)
{
    FRAME("lists", "map", 2, 1243, "lists.erl", "lists:map/2:1243 (lists.erl)");
    FRAME("lists", "map", 2, 0, "lists.erl", "lists:map/2 (lists.erl)");
    FRAME("lists", "map", 2, 0, "", "lists:map/2 (lists.erl)");
    FRAME("Elixir.Foo.Bar", "baz?", 0, 7, "",
          "Elixir.Foo.Bar:baz?/0:7 "
          "(Elixir.Foo.Bar.erl)");
    FRAME("Elixir.Foo", "f", 0, 7, "lib/my app/foo.ex", "Elixir.Foo:f/0:7 (lib/my%20app/foo.ex)");
}

TEST(nasty_names_are_encoded_in_symbol_and_file)
{
    FRAME("erlang", "++", 2, 0, "", "erlang:%2B%2B/2 (erlang.erl)");
    FRAME("m", "-f/1-lc$^0/1-0-", 1, 3, "", "m:-f/1-lc$^0/1-0-/1:3 (m.erl)");
    FRAME("a b", "c;d", 1, 0, "", "a%20b:c%3Bd/1 (a%20b.erl)");
    FRAME("m", "<f(x)>", 1, 0, "f(1).erl", "m:%3Cf%28x%29%3E/1 (f%281%29.erl)");
    FRAME("\xc3\xa4", "\xe2\x80\xa8", 0, 0, "\xff", "\xc3\xa4:%E2%80%A8/0 (%FF)");
    FRAME("", "", 0, 0, "", ":/0 (.erl)");
}

TEST(a_symbol_never_begins_like_something_else)
{
    FRAME("0xfoo", "f", 0, 0, "", "%30xfoo:f/0 (0xfoo.erl)");
    FRAME("_Zfoo", "f", 0, 0, "", "%5FZfoo:f/0 (_Zfoo.erl)");
    FRAME("__Zfoo", "f", 0, 0, "", "%5F_Zfoo:f/0 (__Zfoo.erl)");
    FRAME("_Rust", "f", 0, 0, "", "%5FRust:f/0 (_Rust.erl)");
    FRAME("[unknown]", "f", 0, 0, "", "%5Bunknown]:f/0 ([unknown].erl)");
    FRAME("[unknown", "f", 0, 0, "", "[unknown:f/0 ([unknown.erl)");
    FRAME("_z", "_Z", 0, 0, "", "_z:_Z/0 (_z.erl)");
    FRAME("0", "0x", 0, 0, "", "0:0x/0 (0.erl)");
}

TEST(a_character_at_the_17th_byte_is_encoded)
{
    char name[64], symbol[256];

    /* Seventeen bytes in all. */
    FRAME("\xc3\xa4", "abcdefghijkl", 0, 0, "f", "%C3%A4:abcdefghijkl/0 (f)");
    FRAME("\xc3\xa4", "abcdefghijk", 0, 0, "f", "\xc3\xa4:abcdefghijk/0 (f)");
    for (size_t letters = 8; letters < 20; letters++) {
        struct fixture *f = setup(0);
        struct bytes bytes = {name, 3 + letters};
        /* Bytes from the symbol's end: letters + "/0" are behind it. */
        size_t behind = letters + 2;
        int spans = behind < 17 && behind + 3 >= 17;

        memcpy(name, "\xe6\xbc\xa2", 3);
        memset(name + 3, 'x', letters);
        snprintf(symbol, sizeof(symbol), "m:%s%.*s/0 (m.erl)", spans ? "%E6%BC%A2" : "\xe6\xbc\xa2",
                 (int)letters, "xxxxxxxxxxxxxxxxxxxxxxxx");
        define_plain_process(f);
        define(f, make_frame(&f->buffer, 0, BYTES("m"), bytes, 0, 0, NO_BYTES));
        STACK(f, 0, FP_FRAME_TEXT | 0);
        sample(f, 1000001);
        FRAMES(f, symbol);
        destroy(f);
    }
}

SCRIPT(atoms_of_255_characters_pass_whole)
{
    char name[1020];
    struct bytes bytes = {name, sizeof(name)};
    uint64_t samples;

    for (size_t i = 0; i < sizeof(name); i += 4)
        memcpy(name + i, "\xf0\x9f\x94\xa5", 4);
    define(f, make_process(&f->buffer, 0, 1, 0, bytes, (struct call){bytes, bytes, 255}, NO_CALL));
    define(f, make_frame(&f->buffer, 0, bytes, bytes, 254, 1, NO_BYTES));
    STACK(f, 0, FP_FRAME_TEXT | 0);
    sample(f, 1000001);
    CHECK(grammar_check(f->text, f->size, &samples) == NULL);
    CHECK(f->size > 8 * sizeof(name));
}

/* ---- pseudo frames, unresolved ones, roots ---------------------------- */

PLAIN(pseudo_frames_have_their_names)
{
    SHOWN(f, 1000001, (FP_FRAME_RUNNING), "running_stack_not_sampled (flame_prof)");
    SHOWN(f, 1000002, (FP_FRAME_GC), "[gc] (flame_prof)");
    SHOWN(f, 1000003, (FP_FRAME_UNREADABLE), "stack_unreadable (flame_prof)");
    SHOWN(f, 1000004, (fake_address(0, 1), FP_FRAME_TRUNCATED, fake_address(2, 2)),
          "lists:map/2:1 (lists.erl)", "truncated (flame_prof)",
          "gen_server:loop/7:2 (gen_server.erl)");
}

PLAIN(unresolved_frames_are_left_out_and_counted_once_a_rendering)
{
    SHOWN(f, 1000001,
          (fake_address(0, 1), fake_address(500, 1), FP_FRAME_NONE, FP_FRAME_TEXT | 9,
           FP_FRAME_TEXT | FP_FRAME_TEXT_MAX),
          "lists:map/2:1 (lists.erl)");
    sample(f, 1000002);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), 4);
    fp_perf_script_recode(f->script);
    sample(f, 1000003);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), 8);
}

PLAIN(a_leaf_of_unknown_code_is_ambiguous)
{
    STACK(f, 0, fake_address(500, 1), fake_address(0, 1));
    sample(f, 1000001);
    FRAMES(f, "ambiguous (flame_prof)", "lists:map/2:1 (lists.erl)");
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), 1);
}

PLAIN(a_stack_is_never_empty)
{
    define_stack(f, 0, NULL, 0);
    sample(f, 1000001);
    FRAMES(f, "no_frames (flame_prof)");
    SHOWN(f, 1000002, (fake_address(500, 1)), "no_frames (flame_prof)");
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, CALL("m", "f", 1), NO_CALL));
    sample(f, 1000003);
    FRAMES(f, "m:f/1 (m.erl)");
}

SCRIPT(a_root_that_is_there_already_is_not_repeated)
{
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, CALL("proc_lib", "init_p", 5),
                           CALL("my_server", "init", 1)));
    /* The line does not matter. */
    SHOWN(f, 1000001, (fake_address(2, 1), fake_address(4, 99)),
          "gen_server:loop/7:1 (gen_server.erl)", "proc_lib:init_p/5:99 (proc_lib.erl)",
          "my_server:init/1 (my_server.erl)");
    /* The initial call stands between: the frame before $initial_call is not the stack's last
     * one. */
    SHOWN(f, 1000002, (fake_address(2, 1), fake_address(5, 0)),
          "gen_server:loop/7:1 (gen_server.erl)", "my_server:init/1 (my_server.erl)",
          "proc_lib:init_p/5 (proc_lib.erl)", "my_server:init/1 (my_server.erl)");
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, CALL("my_server", "init", 1),
                           CALL("my_server", "init", 1)));
    sample(f, 1000003);
    FRAMES(f, "gen_server:loop/7:1 (gen_server.erl)", "my_server:init/1 (my_server.erl)");
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, NO_CALL, CALL("my_server", "init", 1)));
    sample(f, 1000004);
    FRAMES(f, "gen_server:loop/7:1 (gen_server.erl)", "my_server:init/1 (my_server.erl)");
}

SCRIPT(one_stack_gets_the_roots_of_each_process)
{
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, CALL("gen_server", "loop", 7), NO_CALL));
    define(f, make_process(&f->buffer, 1, 72, 0, NO_BYTES, CALL("gen_server", "loop", 8), NO_CALL));
    SHOWN(f, 1000001, (fake_address(2, 1)), "gen_server:loop/7:1 (gen_server.erl)");
    CHECK_INT(take(f, make_sample(&f->buffer, 1, 0, 1000002, 0, 0)), 0);
    FRAMES(f, "gen_server:loop/7:1 (gen_server.erl)", "gen_server:loop/8 (gen_server.erl)");
}

FLAT(recursion_is_flattened_to_the_leaf_most_frame)
{
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, CALL("gen_server", "loop", 7), NO_CALL));
    define(f, make_frame(&f->buffer, 0, BYTES("lists"), BYTES("map"), 2, 7, BYTES("lists.erl")));
    define(f, make_frame(&f->buffer, 1, BYTES("lists"), BYTES("map"), 3, 7, BYTES("lists.erl")));
    SHOWN(f, 1000001,
          (fake_address(0, 1), fake_address(0, 2), FP_FRAME_TEXT | 0, FP_FRAME_TEXT | 1,
           FP_FRAME_TRUNCATED, FP_FRAME_TEXT | 1, FP_FRAME_TEXT | 0, fake_address(0, 1),
           fake_address(2, 8), fake_address(2, 9)),
          "lists:map/2:1 (lists.erl)", "lists:map/3:7 (lists.erl)", "truncated (flame_prof)",
          "lists:map/3:7 (lists.erl)", "lists:map/2:7 (lists.erl)",
          "gen_server:loop/7:8 (gen_server.erl)");
}

/* ---- what is kept ----------------------------------------------------- */

PLAIN(a_process_that_gets_a_name_goes_on_repeating)
{
    STACK(f, 0, fake_address(0, 1));
    sample(f, 1000001);
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 1000002)), 0);
    define(f, make_process(&f->buffer, 0, 71, 0, BYTES("new"), NO_CALL, NO_CALL));
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 1000003)), 0);
    check_header(f, "new 4242/71 [000] 1.000003: " ZERO16 "erl_pid=<0.71.0> name=new cpu-clock:\n");
}

PLAIN(code_is_asked_once_until_it_is_said_to_have_changed)
{
    static const struct fake_function newer[] = {{"lists", "foldl", "", 3}};

    STACK(f, 0, fake_address(0, 1));
    sample(f, 1000001);
    sample(f, 1000002);
    CHECK_INT(f->code.resolved, 1);
    f->code.functions = newer;
    f->code.function_count = 1;
    sample(f, 1000003);
    FRAMES(f, "lists:map/2:1 (lists.erl)");
    fp_perf_script_recode(f->script);
    sample(f, 1000004);
    FRAMES(f, "lists:foldl/3:1 (lists.erl)");
    CHECK_INT(f->code.resolved, 2);
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 1000005)), 0);
    FRAMES(f, "lists:foldl/3:1 (lists.erl)");
    /* A frame of another stack. */
    SHOWN(f, 1000006, (FP_FRAME_GC, fake_address(0, 1)), "[gc] (flame_prof)",
          "lists:foldl/3:1 (lists.erl)");
    CHECK_INT(f->code.resolved, 2);
}

/* Stacks of some 600 KB each: together far beyond what may be kept. */
PLAIN(the_memory_for_rendered_stacks_is_bounded)
{
    enum { STACKS = 100, FRAMES = 200 };
    char name[1020];
    struct bytes bytes = {name, sizeof(name)};
    uint64_t frame[FRAMES], samples;

    memset(name, '%', sizeof(name));
    define(f, make_frame(&f->buffer, 0, BYTES("m"), bytes, 0, 1, NO_BYTES));
    for (size_t i = 0; i < FRAMES; i++)
        frame[i] = FP_FRAME_TEXT | 0;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < STACKS; i++) {
            define_stack(f, i, frame, (uint16_t)(FRAMES - i));
            CHECK_INT(take(f, make_sample(&f->buffer, 0, i, 1, 0, 0)), 0);
            CHECK(f->size > (FRAMES - i) * 3 * sizeof(name));
        }
        for (uint32_t i = 0; i < STACKS; i++) {
            fp_perf_script_set_block(f->script, 2 + i);
            CHECK_INT(take(f, make_repeat(&f->buffer, 0, i, 1)), 0);
            CHECK(f->size > (FRAMES - i) * 3 * sizeof(name));
            CHECK(grammar_check(f->text, f->size, &samples) == NULL);
        }
    }
}

/* More FRAME text than may be kept: what is beyond counts as unresolved. */
PLAIN(the_memory_for_text_frames_is_bounded)
{
    char name[1020];
    struct bytes bytes = {name, sizeof(name)};

    memset(name, '%', sizeof(name));
    for (uint32_t i = 0; i < 12000; i++)
        define(f, make_frame(&f->buffer, i, bytes, bytes, 0, 1, BYTES("f")));
    STACK(f, 0, FP_FRAME_TEXT | 0, FP_FRAME_TEXT | 11999);
    sample(f, 1000001);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), 1);
    /* Defined anew, the slot gives its room back. */
    define(f, make_frame(&f->buffer, 0, BYTES("m"), BYTES("f"), 0, 1, NO_BYTES));
    define(f, make_frame(&f->buffer, 11999, BYTES("m"), BYTES("g"), 0, 1, NO_BYTES));
    SHOWN(f, 1000002, (FP_FRAME_TEXT | 0, FP_FRAME_TEXT | 11999), "m:f/0:1 (m.erl)",
          "m:g/0:1 (m.erl)");
}

/* A stack of `count` frames, of which no two stacks or frames have the same line. */
static void define_lines(struct fixture *f, uint32_t slot, uint16_t count)
{
    uint64_t frame[FP_STACK_FRAMES_MAX];

    for (uint16_t k = 0; k < count; k++)
        frame[k] = fake_address(0, 1 + (slot + 251u * k) % 65000);
    define_stack(f, slot, frame, count);
}

static void check_lines(struct fixture *f, uint32_t slot, uint16_t count)
{
    const char *at;

    CHECK_INT(take(f, make_sample(&f->buffer, 0, slot, 1, 0, 0)), 0);
    at = memchr(f->text, '\t', f->size);
    for (uint16_t k = 0; k < count; k++) {
        char line[64];
        int size = snprintf(line, sizeof(line), ADDRESS "lists:map/2:%u (lists.erl)\n",
                            1 + (slot + 251u * k) % 65000);

        CHECK_BYTES(at, (size_t)size, line, (size_t)size);
        at += size;
    }
    CHECK(memcmp(at, ADDRESS "waiting", strlen(ADDRESS "waiting")) == 0);
}

/* src/options/flame_prof_options.erl counts 16 MiB for the words of stacks, and 12 MiB for the
 * tables of processes, stacks, frames and functions. */
TEST(the_memory_for_the_words_of_stacks_is_bounded)
{
    static const uint16_t counts[] = {2, 4, 8, 16, 31, 32, 33, 64, 128, 250, 250, 3, 249};
    struct fixture *f;

    mapped_now = 0;
    f = setup(0);
    define_plain_process(f);
    for (size_t n = 0; n < sizeof(counts) / sizeof(*counts); n++) {
        for (uint32_t slot = 0; slot < FP_STACK_SLOTS; slot++)
            define_lines(f, slot, counts[n]);
        CHECK(mapped_now <= (size_t)28 << 20);
        for (uint32_t slot = 0; slot < FP_STACK_SLOTS; slot += 63)
            check_lines(f, slot, counts[n]);
    }
    destroy(f);
}

TEST(without_a_symbolizer_text_frames_do)
{
    struct fp_counters stats;
    struct fp_perf_script_options options = {.os_pid = 1, .stats = &stats};
    struct fixture f;

    memset(&f, 0, sizeof(f));
    memset(&stats, 0, sizeof(stats));
    CHECK_INT(fp_perf_script_create(&f.script, &options), 0);
    define(&f, make_process_of_atoms(&f.buffer, 0, 71, 5, (struct fp_mfa_words){1, 2, 3},
                                     (struct fp_mfa_words){0, 0, 0}));
    define(&f, make_frame(&f.buffer, 3, BYTES("m"), BYTES("f"), 0, 1, NO_BYTES));
    STACK(&f, 0, FP_FRAME_TEXT | 3, fake_address(0, 1));
    sample(&f, 1000001);
    FRAMES(&f, "m:f/0:1 (m.erl)");
    CHECK_INT(fp_counters_get(&stats, FP_COUNTER_unresolved), 1);
    fp_perf_script_destroy(f.script);
}

/* ---- nonsense --------------------------------------------------------- */

SCRIPT(slots_that_were_not_defined_are_refused)
{
    const struct fp_record *record = make_sample(&f->buffer, 0, 0, 1, 0, 0);

    CHECK_INT(take(f, record), FP_EINVAL);
    define_plain_process(f);
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 1)), FP_EINVAL);
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 0, 1, 0, 0)), FP_EINVAL);
    STACK(f, 0, fake_address(0, 1));
    sample(f, 1);
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 1)), 0);
    /* Another process in the slot has no sample to repeat. */
    define(f, make_process(&f->buffer, 0, 72, 0, NO_BYTES, NO_CALL, NO_CALL));
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 1)), FP_EINVAL);
}

PLAIN(numbers_out_of_range_are_refused)
{
    union record_buffer *b = &f->buffer;
    uint64_t frame[FP_STACK_FRAMES_MAX + 1] = {0};

    STACK(f, 0, fake_address(0, 1));
    CHECK_INT(take(f, make_process(b, FP_PROCESS_SLOTS, 1, 0, NO_BYTES, NO_CALL, NO_CALL)),
              FP_EINVAL);
    CHECK_INT(take(f, make_stack(b, FP_STACK_SLOTS, frame, 1)), FP_EINVAL);
    CHECK_INT(take(f, make_stack(b, 1, frame, FP_STACK_FRAMES_MAX + 1)), FP_EINVAL);
    CHECK_INT(take(f, make_stack(b, 1, frame, FP_STACK_FRAMES_MAX)), 0);
    CHECK_INT(take(f, make_frame(b, FP_FRAME_TEXT_MAX, NO_BYTES, NO_BYTES, 0, 0, NO_BYTES)),
              FP_EINVAL);
    CHECK_INT(take(f, make_sample(b, FP_PROCESS_SLOTS, 0, 1, 0, 0)), FP_EINVAL);
    CHECK_INT(take(f, make_sample(b, 0, FP_STACK_SLOTS, 1, 0, 0)), FP_EINVAL);
    make_sample(b, 0, 0, 1, 0, 0);
    b->head.status = FP_STATUS_COUNT;
    CHECK_INT(take(f, &b->head), FP_EINVAL);
    CHECK_INT(take(f, make_head(b, FP_RECORD_PAD, 64)), FP_EINVAL);
    CHECK_INT(take(f, make_head(b, 77, 64)), FP_EINVAL);
    CHECK_INT(f->size, 0);
}

SCRIPT(lengths_beyond_the_record_are_refused)
{
    union record_buffer *b = &f->buffer;
    const uint64_t frame[2] = {1, 1};

    make_process(b, 0, 1, 0, BYTES("abc"), NO_CALL, NO_CALL);
    b->process.registered_name = 9;
    CHECK_INT(take(f, &b->head), FP_EINVAL);
    b->process.registered_name = UINT64_MAX;
    CHECK_INT(take(f, &b->head), FP_EINVAL);
    b->process.registered_name = 4;
    b->process.initial_call.module = UINT64_MAX - 3;
    CHECK_INT(take(f, &b->head), FP_EINVAL);
    make_frame(b, 0, BYTES("a"), BYTES("b"), 0, 0, NO_BYTES);
    b->frame.function_len = 0xffff;
    CHECK_INT(take(f, &b->head), FP_EINVAL);
    make_stack(b, 0, frame, 2);
    b->head.count = 3;
    CHECK_INT(take(f, &b->head), FP_EINVAL);
    /* Too short for their type. */
    for (uint8_t type = FP_RECORD_PROCESS; type <= FP_RECORD_REPEAT; type++) {
        memset(b, 0, sizeof(*b));
        CHECK_INT(take(f, make_head(b, type, 8)), FP_EINVAL);
    }
}

PLAIN(a_refused_stack_does_not_leave_the_old_one_behind)
{
    uint64_t frame[FP_STACK_FRAMES_MAX + 1] = {0};

    STACK(f, 0, fake_address(0, 1));
    sample(f, 1);
    CHECK_INT(take(f, make_stack(&f->buffer, 0, frame, FP_STACK_FRAMES_MAX + 1)), FP_EINVAL);
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 0, 2, 0, 0)), FP_EINVAL);
}

/* Bytes at random in records of right size: refused or not, never a crash (the sanitizers look),
 * and what comes out follows the grammar. */
FLAT(random_records_never_crash)
{
    uint64_t random = 77, samples, accepted = 0;

    for (uint32_t i = 0; i < 200000; i++) {
        union record_buffer *b = &f->buffer;
        size_t size = 8 * (1 + run_below(&random, 64));

        for (size_t at = 0; at < size; at += 8) {
            uint64_t word = run_random(&random);

            /* Small halves, so that slots and lengths are often right. */
            word &= run_below(&random, 4) != 0 ? 0x0000000700000007 : ~0ull;
            memcpy(b->bytes + at, &word, 8);
        }
        b->head.size = (uint32_t)size;
        b->head.type = (uint8_t)run_below(&random, 7);
        b->head.count = (uint16_t)run_below(&random, 40);
        b->head.status = (uint8_t)run_below(&random, 8);
        fp_perf_script_set_block(f->script, 1 + i);
        if (take(f, &b->head) == 0 && f->size != 0) {
            const char *wrong = grammar_check(f->text, f->size, &samples);

            if (wrong != NULL)
                RUN_FAIL("%s at %zu of [%.*s]", wrong, grammar_offset, (int)f->size, f->text);
            accepted++;
        }
    }
    CHECK(accepted > 1000);
}

/* ---- everything at random --------------------------------------------- */

/* clang-format off */
static const char *const nasty[] = {
    "++", "Elixir.Foo.Bar", "baz?", "-f/1-lc$^0/1-0-", "0xfoo", "_Zfoo", "__Zx", "_Rx", "[unknown]",
    " ", "a b", "(x)", ";", "<0.1.0>", "&", "%", "\"q\"", "'", "\n", "\t", "\x7f", "\xc3\xa4",
    "\xe6\xbc\xa2", "\xf0\x9f\x94\xa5", "\xe2\x80\xa8", "\xef\xbb\xbf", "\xc2\x85", "\xff", "\xc3",
    "\xed\xa0\x80", ":", "/", "1", "=", "abcdefghijklmno", "#", "(status)", "(flame_prof)", "[gc]",
    "x", "\xe2\x82", "\xf0\x9f",
};
/* clang-format on */

static struct bytes random_name(uint64_t *random, char room[1020])
{
    size_t pieces = 1 + run_below(random, run_below(random, 20) ? 5 : 60);
    size_t size = 0;

    for (size_t i = 0; i < pieces; i++) {
        const char *piece = nasty[run_below(random, sizeof(nasty) / sizeof(*nasty))];

        if (size + strlen(piece) > 1020)
            break;
        memcpy(room + size, piece, strlen(piece));
        size += strlen(piece);
    }
    return (struct bytes){room, size};
}

#define RANDOM_FRAMES 400u
#define RANDOM_STACKS 300u
#define RANDOM_PROCESSES 100u

static void define_random_process(struct fixture *f, uint64_t *random, uint32_t slot)
{
    char room[5][1020];
    struct call initial = {random_name(random, room[0]), random_name(random, room[1]),
                           run_below(random, 256)};
    struct call proc_lib = {random_name(random, room[2]), random_name(random, room[3]),
                            run_below(random, 256)};
    struct bytes name = random_name(random, room[4]);

    /* Each slot has tids of its own, so that time may go on in any way. */
    define(f, make_process(&f->buffer, slot, slot + RANDOM_PROCESSES * run_below(random, 100), 0,
                           run_below(random, 2) ? name : NO_BYTES,
                           run_below(random, 4) ? initial : NO_CALL,
                           run_below(random, 2) ? proc_lib : NO_CALL));
}

static void define_random_frame(struct fixture *f, uint64_t *random, uint32_t id)
{
    char room[3][1020];
    struct bytes file = random_name(random, room[2]);

    file.size = file.size > 255 ? 255 : file.size;
    define(f, make_frame(&f->buffer, id, random_name(random, room[0]), random_name(random, room[1]),
                         (uint16_t)run_below(random, 256),
                         run_below(random, 3) * run_below(random, 100000),
                         run_below(random, 2) ? file : NO_BYTES));
}

static void define_random_stack(struct fixture *f, uint64_t *random, uint32_t slot)
{
    uint64_t frame[FP_STACK_FRAMES_MAX];
    uint16_t count =
        (uint16_t)run_below(random, run_below(random, 10) ? 20 : FP_STACK_FRAMES_MAX + 1);

    for (uint16_t i = 0; i < count; i++) {
        uint32_t kind = run_below(random, 10);

        if (kind == 0)
            frame[i] = run_below(random, FP_FRAME_SPECIAL_END);
        else if (kind < 4)
            frame[i] = fake_address(run_below(random, 7), run_below(random, 1000));
        else
            frame[i] = FP_FRAME_TEXT | run_below(random, RANDOM_FRAMES + 5);
    }
    define_stack(f, slot, frame, count);
}

static void random_sample(struct fixture *f, uint64_t *random, int64_t time)
{
    union record_buffer *b = &f->buffer;
    uint32_t process = run_below(random, RANDOM_PROCESSES);
    uint32_t stack = run_below(random, RANDOM_STACKS);
    uint8_t status = (uint8_t)run_below(random, FP_STATUS_COUNT);
    int err;

    if (run_below(random, 2)) {
        make_repeat(b, process, stack, time);
        b->head.status = status;
        err = take(f, &b->head);
        if (err == 0)
            return;
        CHECK_INT(err, FP_EINVAL); /* not sampled since it was defined */
    }
    make_sample(b, process, stack, time, 0, 0);
    b->head.status = status;
    for (int i = 0; i < FP_METRIC_COUNT; i++) {
        b->sample.value[i] = (int64_t)(run_random(random) >> run_below(random, 64));
        b->sample.delta[i] = (int64_t)(run_random(random) >> run_below(random, 64));
    }
    CHECK_INT(take(f, &b->head), 0);
}

TEST(thousands_of_random_samples_follow_the_grammar)
{
    for (int flatten = 0; flatten < 2; flatten++) {
        struct fixture *f = setup(flatten);
        const size_t room = (size_t)64 << 20;
        char *file = malloc(room);
        uint64_t random = 2026, samples, expected = 0;
        int64_t time = INT64_C(1700000000000000);
        const char *wrong;
        size_t size = 0;

        CHECK(file != NULL);
        for (uint32_t i = 0; i < RANDOM_FRAMES; i++)
            define_random_frame(f, &random, i);
        for (uint32_t i = 0; i < RANDOM_STACKS; i++)
            define_random_stack(f, &random, i);
        for (uint32_t i = 0; i < RANDOM_PROCESSES; i++)
            define_random_process(f, &random, i);
        while (expected < 6000) {
            switch (run_below(&random, 40)) {
            case 0:
                define_random_frame(f, &random, run_below(&random, RANDOM_FRAMES));
                break;
            case 1:
                define_random_stack(f, &random, run_below(&random, RANDOM_STACKS));
                break;
            case 2:
                define_random_process(f, &random, run_below(&random, RANDOM_PROCESSES));
                break;
            case 3:
                fp_perf_script_recode(f->script);
                break;
            default:
                time += (int64_t)run_below(&random, 1000000) - 300000;
                random_sample(f, &random, time);
                if (f->size > room - size)
                    goto full;
                memcpy(file + size, f->text, f->size);
                size += f->size;
                expected++;
            }
        }
    full:
        CHECK(expected >= 2000);
        wrong = grammar_check(file, size, &samples);
        if (wrong != NULL)
            RUN_FAIL("%s, in the sample before [%.*s]", wrong, 300, file + grammar_offset - 300);
        CHECK_INT(samples, expected);
        free(file);
        destroy(f);
    }
}

/* A checker that takes everything would make the test above worthless. */
SCRIPT(the_grammar_check_finds_damage)
{
    uint64_t samples;
    char text[4096];
    int found = 0, tried = 0;

    define(f, make_process(&f->buffer, 0, 71, 2, BYTES("my"), CALL("proc_lib", "init_p", 5),
                           CALL("my_server", "init", 1)));
    STACK(f, 0, fake_address(1, 99), fake_address(2, 871));
    sample(f, INT64_C(1234567891011367));
    CHECK(f->size < sizeof(text));
    CHECK(grammar_check(f->text, f->size, &samples) == NULL);
    for (size_t at = 0; at < f->size; at++) {
        static const char damage[] = " \n\t;(+\xff";

        for (size_t i = 0; damage[i] != '\0'; i++) {
            memcpy(text, f->text, f->size);
            if (text[at] == damage[i])
                continue;
            text[at] = damage[i];
            tried++;
            found += grammar_check(text, f->size, &samples) != NULL;
        }
    }
    CHECK_INT(found, tried);
    for (size_t size = 1; size < f->size; size++)
        CHECK(grammar_check(f->text, size, &samples) != NULL);
}

/* ---- waiting processes of which nothing moves --------------------------- */

static struct fixture *setup_merging(void)
{
    struct fixture *f = setup(1);
    struct fp_perf_script_options options = {
        .os_pid = 4242, .coalesce_idle = 1, .symbolizer = &f->symbolizer, .stats = &f->stats};

    fp_perf_script_destroy(f->script);
    CHECK_INT(fp_perf_script_create(&f->script, &options), 0);
    define_plain_process(f);
    return f;
}

#define MERGING(test) TEST_WITH(test, setup_merging())

/* The text is not terminated. */
static const char *find(const struct fixture *f, const char *what)
{
    return memmem(f->text, f->size, what, strlen(what));
}

static uint64_t looks(struct fixture *f)
{
    return fp_perf_script_weight(f->script);
}

MERGING(a_waiting_process_is_written_once_a_second_with_its_weight)
{
    const int64_t begin = 5000001;
    unsigned texts = 0, all = 0;

    STACK(f, 0, fake_address(0, 1));
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 0, begin, 1, 1)), 0);
    CHECK_INT(looks(f), 1);
    for (int tick = 1; tick <= 1000; tick++) {
        CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, begin + tick * 10000)), 0);
        texts += f->size > 0;
        all += (unsigned)looks(f);
        if (f->size == 0)
            continue;
        CHECK_INT(looks(f), 100);
        CHECK(find(f, ": 100 cpu-clock:\n") != NULL);
    }
    CHECK_INT(texts, 10);
    CHECK_INT(all, 1000);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_merged), 990);
}

MERGING(what_nobody_adds_to_is_not_held_for_ever)
{
    for (uint32_t slot = 0; slot < 2; slot++) {
        define(f, make_process(&f->buffer, slot, 71 + slot, 0, NO_BYTES, NO_CALL, NO_CALL));
        define_stack(f, slot, (uint64_t[]){fake_address(0, 1)}, 1);
        take(f, make_sample(&f->buffer, slot, slot, 5000001, 1, 1));
        take(f, make_repeat(&f->buffer, slot, slot, 5010001));
    }
    take(f, make_sample(&f->buffer, 0, 0, 6500001, 2, 1));
    CHECK_INT(looks(f), 2);
    CHECK_INT(fp_perf_script_merged(f->script, FP_MERGED_LEFT, &f->text, &f->size), 0);
    CHECK(find(f, "beam 4242/72 ") == f->text);
    CHECK_INT(fp_perf_script_merged(f->script, FP_MERGED_LEFT, &f->text, &f->size), 0);
    CHECK_INT(f->size, 0);
}

/* Its old stack, its old name: they are written before they are replaced. */
MERGING(what_is_held_is_written_as_it_was)
{
    STACK(f, 0, fake_address(0, 1));
    take(f, make_sample(&f->buffer, 0, 0, 5000001, 1, 1));
    take(f, make_repeat(&f->buffer, 0, 0, 5010001));
    take(f, make_stack(&f->buffer, 0, (uint64_t[]){fake_address(2, 1)}, 1));
    CHECK_INT(looks(f), 1);
    CHECK(f->size > 0);
    take(f, make_repeat(&f->buffer, 0, 0, 5020001));
    take(f, make_process(&f->buffer, 0, 99, 0, NO_BYTES, NO_CALL, NO_CALL));
    CHECK_INT(looks(f), 1);
    CHECK(find(f, "beam 4242/71 ") == f->text);
}

/* Whatever comes in whatever order: every look is in exactly one period. */
MERGING(no_look_is_lost_or_counted_twice)
{
    uint64_t random = 3, taken = 0, all = 0;
    int64_t time_us = 5000001;

    for (int i = 0; i < 200000; i++) {
        uint32_t slot = run_below(&random, 50), what = run_below(&random, 100);
        int err;

        time_us += run_below(&random, 3000);
        if (what < 2)
            err = take(f,
                       make_process(&f->buffer, slot, 71 + slot, what, NO_BYTES, NO_CALL, NO_CALL));
        else if (what < 5)
            err =
                take(f, make_stack(&f->buffer, slot % 20, (uint64_t[]){fake_address(0, what)}, 1));
        else if (what < 15)
            err = take(f, make_sample(&f->buffer, slot, slot % 20, time_us, 1, 1));
        else
            err = take(f, make_repeat(&f->buffer, slot, slot % 20, time_us));
        taken += what >= 5 && err == 0;
        all += looks(f);
        if (what == 99 && i % 10 == 0) {
            CHECK_INT(fp_perf_script_merged(f->script, FP_MERGED_LEFT, &f->text, &f->size), 0);
            all += looks(f);
        }
    }
    do {
        CHECK_INT(fp_perf_script_merged(f->script, FP_MERGED_ALL, &f->text, &f->size), 0);
        all += looks(f);
    } while (f->size > 0);
    CHECK(taken > 150000);
    CHECK_INT(all, taken);
}

/* ---- what a reader makes of it ----------------------------------------- */

#define OBSERVATIONS 20000

/* The observations of one process: `given` to the script, and `read` from its text. */
struct reader {
    struct fp_carry carry;
    struct fp_strings strings;
    struct fp_budget budget;
    struct fp_fields fields;
    int64_t time_us; /* of the last sample */
    uint32_t given_n, read_n;
    int64_t given[OBSERVATIONS], read[OBSERVATIONS]; /* their reductions */
};

static struct reader *reader_create(void)
{
    struct reader *reader = calloc(1, sizeof(*reader));

    CHECK(reader != NULL);
    reader->budget.limit = (size_t)64 << 20;
    return reader;
}

static void reader_destroy(struct reader *reader)
{
    fp_carry_free(&reader->carry, &reader->budget);
    fp_strings_free(&reader->strings, &reader->budget);
    free(reader);
}

static void read_sample(struct reader *reader, const struct fp_scan_piece *piece)
{
    struct fp_sample sample;
    const char *bad;

    CHECK(fp_sample_read(piece, FP_FLAME_PROF, &sample) == NULL);
    CHECK_INT(fp_carry_read(&reader->carry, &reader->strings, &reader->budget, &sample,
                            &reader->fields, &bad),
              0);
    CHECK(sample.header.time_us > reader->time_us);
    reader->time_us = sample.header.time_us;
    CHECK_INT(reader->fields.count, FP_METRIC_COUNT);
    for (uint32_t i = 0; i < FP_METRIC_COUNT; i++)
        CHECK_INT(reader->fields.value[i], reader->fields.value[0] + i * 1000);
    for (int64_t i = 0; i < sample.header.period; i++)
        reader->read[reader->read_n++] = reader->fields.value[0];
}

static void read_text(struct reader *reader, const struct fixture *f)
{
    const char *at = f->text, *end;

    for (end = f->size == 0 ? at : at + f->size; at < end;) {
        const char *header = memchr(at, '\n', (size_t)(end - at));
        const char *empty = memmem(at, (size_t)(end - at), "\n\n", 2);
        struct fp_scan_piece piece = {.is_ended = 1, .line = 1};

        CHECK(header != NULL && empty != NULL);
        piece.header = (struct fp_slice){at, (size_t)(header - at)};
        piece.stack = (struct fp_slice){header + 1, (size_t)(empty - header)};
        read_sample(reader, &piece);
        at = empty + 2;
    }
}

/* A process gets another slot each time when it is selected again, and its merged REPEATs may wait
 * in the one before. */
MERGING(a_process_that_changes_its_slot_is_read_as_it_was)
{
    struct reader *reader = reader_create();
    uint64_t random = 9, block = 1;
    uint32_t slot = 0;
    int64_t value = 0;

    STACK(f, 0, fake_address(0, 1));
    for (int i = 0; i < OBSERVATIONS; i++) {
        int64_t time_us = 5000001 + i * 10000;
        bool is_new = i == 0 || run_below(&random, 10) == 0;

        if (is_new) {
            slot = run_below(&random, 4);
            CHECK_INT(take(f, make_process(&f->buffer, slot, 71, 0, NO_BYTES, NO_CALL, NO_CALL)),
                      0);
            read_text(reader, f);
        }
        if (is_new || run_below(&random, 5) == 0) {
            value += 1 + run_below(&random, 100);
            make_sample(&f->buffer, slot, 0, time_us, value, 0);
        } else {
            make_repeat(&f->buffer, slot, 0, time_us);
        }
        reader->given[reader->given_n++] = value;
        CHECK_INT(take(f, &f->buffer.head), 0);
        read_text(reader, f);
        if (run_below(&random, 10) == 0)
            fp_perf_script_set_block(f->script, ++block);
    }
    do {
        CHECK_INT(fp_perf_script_merged(f->script, FP_MERGED_ALL, &f->text, &f->size), 0);
        read_text(reader, f);
    } while (f->size > 0);
    CHECK_INT(reader->read_n, reader->given_n);
    for (uint32_t i = 0; i < reader->given_n; i++)
        CHECK_INT(reader->read[i], reader->given[i]);
    reader_destroy(reader);
}

/* The longest numbers and words that there are: no line is too long for the Firefox Profiler, and a
 * reader has one sample with all numbers. */
FLAT(a_long_sample_of_the_profiler_goes_on_in_the_next)
{
    static struct fp_gauges node, counters, none;
    static char note[FP_NOTE_ROOM], about[512];
    struct fp_self_sample sample = {.engine = "portable",
                                    .mode = "schedulers",
                                    .now = {&node, &counters},
                                    .before = {&none, &none},
                                    .now_us = 20000001,
                                    .note = note,
                                    .about = about};
    struct reader *reader = reader_create();
    const char *text, *at, *end, *bad;
    struct fp_sample read;
    size_t size;
    int lines = 0, samples = 0;

    memset(note, '%', sizeof(note) - 1);
    memset(about, '%', sizeof(about) - 1);
    memcpy(about, "options=", 8);
    for (int i = 0; i < 120; i++) {
        char name[FP_GAUGES_NAME_ROOM];

        memset(name, 'x', sizeof(name) - 1);
        memcpy(name, (char[]){'n', (char)('a' + i / 26), (char)('a' + i % 26)}, 3);
        name[sizeof(name) - 1] = '\0';
        CHECK_INT(fp_gauges_add(i < 60 ? &node : &counters, name, INT64_MIN + 1 + i), 0);
    }
    CHECK_INT(fp_perf_script_self(f->script, &sample, &text, &size), 0);
    for (at = text, end = text + size; at < end; lines++) {
        const char *header = memchr(at, '\n', (size_t)(end - at));
        const char *empty = memmem(at, (size_t)(end - at), "\n\n", 2);
        struct fp_scan_piece piece = {.is_ended = 1, .line = 1};

        CHECK(header != NULL && empty != NULL);
        CHECK(header - at < 4096);
        piece.header = (struct fp_slice){at, (size_t)(header - at)};
        piece.stack = (struct fp_slice){header + 1, (size_t)(empty - header)};
        CHECK(fp_sample_read(&piece, FP_FLAME_PROF, &read) == NULL);
        CHECK(fp_sample_is_own(&read));
        CHECK(read.header.time_us > reader->time_us);
        reader->time_us = read.header.time_us;
        CHECK_INT(fp_carry_read(&reader->carry, &reader->strings, &reader->budget, &read,
                                &reader->fields, &bad),
                  0);
        samples += !reader->fields.is_begun;
        at = empty + 2;
    }
    CHECK(lines > 2);
    CHECK_INT(samples, 1);
    CHECK_INT(reader->fields.count, 120);
    for (uint32_t i = 0; i < 120; i++) {
        struct fp_slice key = fp_strings_at(&reader->strings, reader->fields.key[i]);

        CHECK_INT(key.at[1], 'a' + i / 26);
        CHECK_INT(key.at[2], 'a' + i % 26);
        CHECK_INT(reader->fields.value[i], INT64_MIN + 1 + i);
        CHECK_INT(reader->fields.delta[i], 0);
    }
    reader_destroy(reader);
}

/* Readers of the last line have them all; before it are gauges of the node. */
FLAT(all_counters_of_the_profiler_are_in_the_last_line)
{
    static struct fp_gauges node, counters, none;
    struct fp_self_sample sample = {.engine = "native",
                                    .now = {&node, &counters},
                                    .before = {&none, &none},
                                    .now_us = 20000001,
                                    .note = "",
                                    .about = "options=select:top_100"};
    const char *text, *last;
    char name[FP_GAUGES_NAME_ROOM];
    size_t size;

    for (int i = 0; i < 110; i++) {
        snprintf(name, sizeof name, "node_gauge_%c%c", 'a' + i / 26, 'a' + i % 26);
        CHECK_INT(fp_gauges_add(&node, name, 1234567890), 0);
    }
    for (int i = 0; i < 45; i++) {
        snprintf(name, sizeof name, "counter_%c%c", 'a' + i / 26, 'a' + i % 26);
        CHECK_INT(fp_gauges_add(&counters, name, 1234567), 0);
    }
    CHECK_INT(fp_perf_script_self(f->script, &sample, &text, &size), 0);
    CHECK(memmem(text, size, "continues=true", 14) != NULL);
    for (const char *at = last = text; at != NULL;) {
        at = memmem(at, (size_t)(text + size - at), "\n\n", 2);
        if (at != NULL && (at += 2) < text + size)
            last = at;
    }
    for (int i = 0; i < 45; i++) {
        int length = snprintf(name, sizeof name, "counter_%c%c=", 'a' + i / 26, 'a' + i % 26);

        CHECK(memmem(last, (size_t)(text + size - last), name, (size_t)length) != NULL);
    }
}

/* Its first sample in a slot is not at the time of the last one in the slot before. */
MERGING(the_times_of_a_process_grow_when_it_changes_its_slot)
{
    struct reader *reader = reader_create();

    STACK(f, 0, fake_address(0, 1));
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, NO_CALL, NO_CALL));
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 0, 5000001, 1, 1)), 0);
    read_text(reader, f);
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 5010001)), 0);
    /* Another process of the same tick comes first. */
    define(f, make_process(&f->buffer, 1, 72, 0, NO_BYTES, NO_CALL, NO_CALL));
    CHECK_INT(take(f, make_sample(&f->buffer, 1, 0, 5020001, 1, 1)), 0);
    CHECK_INT(take(f, make_process(&f->buffer, 2, 71, 0, NO_BYTES, NO_CALL, NO_CALL)), 0);
    CHECK_INT(looks(f), 1);
    read_text(reader, f);
    CHECK_INT(take(f, make_sample(&f->buffer, 2, 0, 5020001, 2, 1)), 0);
    read_text(reader, f);
    CHECK_INT(reader->read_n, 3);
    reader_destroy(reader);
}

/* Its names are read again from time to time. */
MERGING(a_definition_that_changes_nothing_makes_no_text)
{
    union record_buffer *b = &f->buffer;

    define(f, make_process(b, 0, 71, 0, BYTES("one"), NO_CALL, NO_CALL));
    STACK(f, 0, fake_address(0, 1));
    CHECK_INT(take(f, make_sample(b, 0, 0, 5000001, 1, 1)), 0);
    CHECK_INT(take(f, make_repeat(b, 0, 0, 5010001)), 0);
    make_process(b, 0, 71, 0, BYTES("one"), NO_CALL, NO_CALL);
    b->process.goes_on = 1;
    define(f, &b->head); /* what is merged stays merged */
    CHECK_INT(take(f, make_repeat(b, 0, 0, 5020001)), 0);
    CHECK_INT(take(f, make_sample(b, 0, 0, 5030001, 2, 1)), 0);
    check_header(f, "one 4242/71 [000] 5.020001: 2 cpu-clock:\n");
    CHECK(find(f, "5.030001: reductions+1 ") != NULL);
    make_process(b, 0, 71, 0, BYTES("two"), NO_CALL, NO_CALL);
    b->process.goes_on = 1;
    define(f, &b->head);
    CHECK_INT(take(f, make_sample(b, 0, 0, 5040001, 3, 1)), 0);
    check_header(f, "two 4242/71 [000] 5.040001: reductions=3/1 ");
    /* It may have had another slot in between. */
    define(f, make_process(b, 0, 71, 0, BYTES("two"), NO_CALL, NO_CALL));
    CHECK_INT(take(f, make_sample(b, 0, 0, 5050001, 4, 1)), 0);
    check_header(f, "two 4242/71 [000] 5.050001: reductions=4/1 ");
}

/* Process 0 with a merged REPEAT, for whose long stack there is no memory. Stack 1 is short. */
static void merge_what_does_not_fit(struct fixture *f)
{
    define_lines(f, 0, 250);
    STACK(f, 1, fake_address(0, 1));
    define_plain_process(f);
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 1, 5000001, 1, 1)), 0);
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 5010001)), 0);
    CHECK_INT(looks(f), 0);
    mapping_fails = 1;
}

MERGING(without_memory_a_process_does_not_get_the_text_of_another)
{
    merge_what_does_not_fit(f);
    CHECK_INT(take(f, make_process(&f->buffer, 0, 72, 0, NO_BYTES, NO_CALL, NO_CALL)), FP_ENOMEM);
    mapping_fails = 0;
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 1, 5020001, 700, 1)), FP_EINVAL);
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 1, 5030001)), FP_EINVAL);
    /* What was merged is of the process before. */
    fp_perf_script_set_block(f->script, 2);
    CHECK_INT(take(f, make_process(&f->buffer, 0, 72, 0, NO_BYTES, NO_CALL, NO_CALL)), 0);
    CHECK_INT(looks(f), 1);
    check_header(f, "beam 4242/71 [000] 5.010001: reductions=1/0 ");
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 1, 5030001)), FP_EINVAL);
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 1, 5040001, 800, 1)), 0);
    check_header(f, "beam 4242/72 [000] 5.040001: reductions=800/1 ");
}

MERGING(without_memory_no_repeat_has_values_of_an_earlier_sample)
{
    merge_what_does_not_fit(f);
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 1, 5020001, 700, 1)), FP_ENOMEM);
    mapping_fails = 0;
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 1, 5030001)), FP_EINVAL);
    CHECK(f->size > 0); /* what was merged before */
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 1, 5040001, 800, 1)), 0);
    check_header(f, "beam 4242/71 [000] 5.040001: reductions=800/1 ");
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 1, 5050001)), 0);
}

/* ---- frames in C, and those who call it ------------------------------- */

static const struct fake_function mixed[] = {
    {"lists", "map", "lists.erl", 2},        /* 0 */
    {"erlang", "put", "", 2},                /* 1 */
    {"my_nif", "go!", "", 3},                /* 2 */
    {"", "", "", 0},                         /* 3 */
    {"", "memcpy", "libc.so.6", 0},          /* 4 */
    {"", "", "beam.smp", 0},                 /* 5 */
    {"", "_ZN3foo3barEv", "libfoo.so", 0},   /* 6 */
    {"", "f(int) [clone]", "lib foo.so", 0}, /* 7 */
    {"", "0x12", "[vdso]", 0},               /* 8 */
    {"", "memcpy", "libother.so", 0},        /* 9 */
    {"", "[unknown]", "libc.so.6", 0},       /* 10 */
    {"", "a\xff\n", "\xc3\xbc.so", 0},       /* 11 */
};

static const uint8_t kinds[] = {FP_SYMBOL_ERLANG, FP_SYMBOL_BIF,    FP_SYMBOL_NIF,
                                FP_SYMBOL_NONE,   FP_SYMBOL_NATIVE, FP_SYMBOL_NATIVE,
                                FP_SYMBOL_NATIVE, FP_SYMBOL_NATIVE, FP_SYMBOL_NATIVE,
                                FP_SYMBOL_NATIVE, FP_SYMBOL_NATIVE, FP_SYMBOL_NATIVE};

static struct fixture *setup_kinds(int flatten)
{
    struct fixture *f = setup(flatten);

    f->code.functions = mixed;
    f->code.function_count = sizeof(mixed) / sizeof(*mixed);
    f->code.kinds = kinds;
    define_plain_process(f);
    return f;
}

#define KINDS(test) TEST_WITH(test, setup_kinds(0))

KINDS(a_bif_and_a_nif_say_so_instead_of_a_file)
{
    SHOWN(f, 1000001, (fake_address(1, 0), fake_address(2, 0), fake_address(0, 7)),
          "erlang:put/2 (bif)", "my_nif:go!/3 (nif)", "lists:map/2:7 (lists.erl)");
}

KINDS(what_functions_share_is_no_frame_and_no_loss)
{
    SHOWN(f, 1000001, (fake_address(3, 0), fake_address(0, 7), fake_address(3, 1)),
          "lists:map/2:7 (lists.erl)");
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), 0);
}

KINDS(a_c_function_is_a_name_and_a_library)
{
    unsigned long samples;

    SHOWN(f, 1000001,
          (fake_address(4, 0), fake_address(5, 0), fake_address(6, 0), fake_address(7, 0),
           fake_address(8, 0), fake_address(10, 0), fake_address(11, 0)),
          "memcpy (libc.so.6)", "[beam.smp] (beam.smp)", "_ZN3foo3barEv (libfoo.so)",
          "f%28int%29%20[clone] (lib%20foo.so)", "%30x12 ([vdso])", "%5Bunknown] (libc.so.6)",
          "a%FF%0A (\xc3\xbc.so)");
    CHECK(grammar_check(f->text, f->size, &samples) == NULL);
}

TEST_WITH(c_functions_of_one_name_are_of_their_libraries, setup_kinds(1))
{
    SHOWN(f, 1000001,
          (fake_address(4, 0), fake_address(4, 1), fake_address(9, 0), fake_address(9, 1)),
          "memcpy (libc.so.6)", "memcpy (libother.so)");
}

#define NAMED(slot) (FP_FRAME_NIF | FP_FRAME_SLOT | (slot))

KINDS(a_nif_may_be_named_by_a_record)
{
    define(f, make_name(&f->buffer, 0, (struct fp_mfa_words){3, 4, 2}));
    define(f, make_name(&f->buffer, FP_NAMED_SLOTS - 1, (struct fp_mfa_words){1, 2, 255}));
    SHOWN(f, 1000001, (NAMED(0), NAMED(FP_NAMED_SLOTS - 1), fake_address(0, 7)),
          "my_server:init/2 (nif)", "proc_lib:init_p/255 (nif)", "lists:map/2:7 (lists.erl)");
    CHECK_INT(f->code.resolved, 1); /* no code was looked at for them */
}

KINDS(a_name_that_is_not_known_is_left_out_and_counted)
{
    define(f, make_name(&f->buffer, 1, (struct fp_mfa_words){3, 99, 2}));
    SHOWN(f, 1000001, (NAMED(0), NAMED(1), NAMED(FP_NAMED_SLOTS), fake_address(0, 7)),
          "lists:map/2:7 (lists.erl)");
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), 3);
}

KINDS(names_that_make_no_sense_are_refused)
{
    struct fp_mfa_words mfa = {3, 4, 2};

    CHECK_INT(take(f, make_name(&f->buffer, FP_NAMED_SLOTS, mfa)), FP_EINVAL);
    CHECK_INT(take(f, make_name(&f->buffer, UINT32_MAX, mfa)), FP_EINVAL);
    make_name(&f->buffer, 0, mfa);
    f->buffer.head.size -= 8;
    CHECK_INT(take(f, &f->buffer.head), FP_EINVAL);
    SHOWN(f, 1000001, (NAMED(0), fake_address(0, 7)), "lists:map/2:7 (lists.erl)");
}

/* Its code was swapped out, or just being loaded. */
PLAIN(what_could_not_be_resolved_is_tried_again_ever_more_seldom)
{
    static const unsigned after[] = {16, 256, 4096};
    uint64_t unresolved = 1;

    STACK(f, 0, fake_address(0, 1), fake_address(500, 1));
    sample(f, 1000001);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), unresolved);
    for (size_t i = 0; i < 3; i++) {
        for (unsigned k = 1; k < after[i]; k++)
            sample(f, 1000001);
        CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), unresolved);
        sample(f, 1000001);
        CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), ++unresolved);
    }
    for (unsigned k = 0; k < 10000; k++)
        sample(f, 1000001);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), unresolved);
    /* The slot's next stack is another one. */
    STACK(f, 0, fake_address(500, 2));
    for (unsigned k = 0; k < 17; k++)
        sample(f, 1000001);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), unresolved + 2);
}

SCRIPT(what_is_resolved_at_last_is_shown_and_not_tried_again)
{
    unsigned long resolved;

    f->code.function_count = 5;
    define_plain_process(f);
    SHOWN(f, 1000001, (fake_address(0, 1), fake_address(5, 1)), "lists:map/2:1 (lists.erl)");
    f->code.function_count = 6;
    for (int k = 0; k < 15; k++)
        sample(f, 1000001);
    FRAMES(f, "lists:map/2:1 (lists.erl)");
    sample(f, 1000001);
    FRAMES(f, "lists:map/2:1 (lists.erl)", "my_server:init/1:1 (my_server.erl)");
    resolved = f->code.resolved;
    for (int k = 0; k < 600; k++)
        sample(f, 1000001);
    CHECK_INT(f->code.resolved, resolved);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_unresolved), 1);
}

SCRIPT(a_scheduler_that_idles_is_a_thread_of_its_own)
{
    define(f, make_scheduler(&f->buffer, 0, 3));
    STACK(f, 0, FP_FRAME_IDLE);
    sample(f, 1000001);
    check_header(f, "scheduler 4242/2147483644 [000] 1.000001: " ZERO16 "scheduler=3 cpu-clock:\n");
    FRAMES(f, "[idle] (flame_prof)");
    define(f, make_scheduler(&f->buffer, 0, 1024));
    sample(f, 1000002);
    check_header(f,
                 "scheduler 4242/2147482623 [000] 1.000002: " ZERO16 "scheduler=1024 cpu-clock:\n");
}

PLAIN(what_can_not_be_told_says_so)
{
    SHOWN(f, 1000001, (FP_FRAME_AMBIGUOUS, fake_address(0, 1)), "ambiguous (flame_prof)",
          "lists:map/2:1 (lists.erl)");
}

/* ---- what a sample leaves out ----------------------------------------- */

/* A sample of process 0 with these numbers, whose deltas are to the numbers before. */
static void take_numbers(struct fixture *f, int64_t time_us, int64_t reductions, int64_t memory,
                         int64_t minor_gcs, int64_t gcs_delta)
{
    static int64_t before[2];
    int64_t *value = f->buffer.sample.value, *delta = f->buffer.sample.delta;

    make_sample(&f->buffer, 0, 0, time_us, 0, 0);
    memset(value, 0, sizeof(f->buffer.sample.value));
    memset(delta, 0, sizeof(f->buffer.sample.delta));
    value[FP_METRIC_reductions] = reductions;
    value[FP_METRIC_memory] = memory;
    value[FP_METRIC_minor_gcs] = minor_gcs;
    delta[FP_METRIC_reductions] = reductions - before[0];
    delta[FP_METRIC_memory] = memory - before[1];
    delta[FP_METRIC_minor_gcs] = gcs_delta;
    before[0] = reductions;
    before[1] = memory;
    CHECK_INT(take(f, &f->buffer.head), 0);
}

PLAIN(only_what_has_changed_is_written)
{
    STACK(f, 0, fake_address(0, 1));
    take_numbers(f, 1000001, 0, 0, 0, 0);
    check_header(f, "beam 4242/71 [000] 1.000001: " ZERO16 "erl_pid=<0.71.0> cpu-clock:\n");
    take_numbers(f, 1000002, 12, 800, 0, 0);
    check_header(f, "beam 4242/71 [000] 1.000002: reductions+12 memory+800 cpu-clock:\n");
    take_numbers(f, 1000003, 12, 700, 3, 3);
    check_header(f, "beam 4242/71 [000] 1.000003: memory-100 minor_gcs+3 cpu-clock:\n");
    take_numbers(f, 1000004, 12, 700, 3, 0);
    check_header(f, "beam 4242/71 [000] 1.000004: cpu-clock:\n");
    /* A full sweep counted from 0 again. */
    take_numbers(f, 1000005, 12, 700, 1, 1);
    check_header(f, "beam 4242/71 [000] 1.000005: minor_gcs=1/1 cpu-clock:\n");
    take_numbers(f, 1000006, 12, 700, 1, 1);
    check_header(f, "beam 4242/71 [000] 1.000006: minor_gcs=1/1 cpu-clock:\n");
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 1000007)), 0);
    check_header(f, "beam 4242/71 [000] 1.000007: cpu-clock:\n");
}

PLAIN(the_first_sample_of_a_process_in_a_block_is_whole)
{
    define(f, make_process(&f->buffer, 1, 72, 0, NO_BYTES, NO_CALL, NO_CALL));
    STACK(f, 0, fake_address(0, 1));
    sample(f, 1000001);
    fp_perf_script_set_block(f->script, 2);
    CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 1000002)), 0);
    check_header(f, "beam 4242/71 [000] 1.000002: " ZERO16 "erl_pid=<0.71.0> cpu-clock:\n");
    sample(f, 1000003);
    check_header(f, "beam 4242/71 [000] 1.000003: cpu-clock:\n");
    CHECK_INT(take(f, make_sample(&f->buffer, 1, 0, 1000004, 0, 0)), 0);
    check_header(f, "beam 4242/72 [000] 1.000004: ");
    CHECK(find(f, " erl_pid=<0.72.0> cpu-clock:") != NULL);
}

SCRIPT(the_command_is_a_name_that_other_programs_read)
{
    static const struct {
        const char *name, *expected;
    } cases[] = {
        {"shop_cache", "shop_cache 4"},
        {"Elixir.Shop.Cache", "Elixir.Shop.Cache 4"},
        {"pool_worker_12", "pool_worker 4"},
        {"1st", "_st 4"},
        {"a b", "a_b 4"},
        {"gr\xc3\xbc\xc3\x9f", "gr 4"},
        {"\xe6\xbc\xa2\xe5\xad\x97", "beam 4"},
        {"7", "beam 4"},
        {"x", "beam 4"},
        {".x", "beam 4"},
        {"java_bridge", "beam 4"},
        {"swapper", "beam 4"},
        {"a_name_of_more_than_thirty_one_letters", "a_name_of_more_than_thirty_one 4"},
    };

    STACK(f, 0, fake_address(0, 1));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct bytes name = {cases[i].name, strlen(cases[i].name)};

        define(f, make_process(&f->buffer, 0, 71, 0, name, CALL("m", "f", 1), NO_CALL));
        sample(f, 1000001);
        check_header(f, cases[i].expected);
    }
    define(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, CALL("proc_lib", "init_p", 5),
                           CALL("shop_order", "init", 1)));
    sample(f, 1000001);
    check_header(f, "shop_order.init 4242/71 ");
    define(f,
           make_process(&f->buffer, 0, 71, 0, NO_BYTES, CALL("shop", "-f/0-fun-0-", 1), NO_CALL));
    sample(f, 1000001);
    check_header(f, "shop.-f_-fun-_- 4242/71 ");
}

PLAIN(the_cpu_is_the_scheduler_that_ran_the_process)
{
    static const struct {
        uint16_t scheduler;
        const char *expected;
    } cases[] = {{0, "beam 4242/71 [000] 1"},
                 {1, "beam 4242/71 [001] 1"},
                 {64, "beam 4242/71 [064] 1"},
                 {128, "beam 4242/71 [128] 1"},
                 {1024, "beam 4242/71 [1024] 1"}};

    STACK(f, 0, fake_address(0, 1));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        make_sample(&f->buffer, 0, 0, 1000001, 0, 0);
        f->buffer.head.count = cases[i].scheduler;
        CHECK_INT(take(f, &f->buffer.head), 0);
        check_header(f, cases[i].expected);
    }
}

/* stackcollapse-perf.pl reads a period only directly behind the time. */
MERGING(a_whole_sample_has_no_period)
{
    uint64_t samples;

    STACK(f, 0, fake_address(0, 1));
    CHECK_INT(take(f, make_sample(&f->buffer, 0, 0, 5000001, 0, 0)), 0);
    for (int tick = 1; tick <= 7; tick++)
        CHECK_INT(take(f, make_repeat(&f->buffer, 0, 0, 5000001 + tick * 10000)), 0);
    fp_perf_script_set_block(f->script, 2);
    CHECK_INT(fp_perf_script_merged(f->script, FP_MERGED_ALL, &f->text, &f->size), 0);
    CHECK_INT(fp_perf_script_weight(f->script), 7);
    CHECK(grammar_check(f->text, f->size, &samples) == NULL);
    CHECK_INT(samples, 2);
    CHECK_INT(grammar_looks, 7);
    CHECK(find(f, "5.070001: 6 cpu-clock:\n") != NULL);
}
