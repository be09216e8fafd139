/* test_work.c - what processes have in work: found on a stack, read with its sample, written as
 * words of that sample. Over a VM that the test owns. */
#include "base/error.h"
#include "erts/serving.h"
#include "fake_code.h"
#include "fake_terms.h"
#include "fake_vm.h"
#include "format/perf_script.h"
#include "format/write_work.h"
#include "records.h"
#include "sampler_run.h"
#include "session/sampler.h"
#include "test.h"

/* -------------------------------------------------------------- as text -- */

static const char *const atoms[] = {"get", "a b", "{get,_}", "_", "_x", "a@b", "log", "x:y"};
enum { GET = 1, BLANK, BRACES, UNDERSCORE, UNDERSCORE_X, NODE, LOG, COLON, UNKNOWN = 99 };

#define CAST(...)                                                                                  \
    {                                                                                              \
        .kind = FP_MESSAGE_cast, .message = { __VA_ARGS__ }                                        \
    }
#define INFO(name)                                                                                 \
    {                                                                                              \
        .kind = FP_MESSAGE_info, .message = { name, 0, FP_SHAPE_ATOM }                             \
    }
#define OF_KIND(name)                                                                              \
    {                                                                                              \
        .kind = FP_MESSAGE_##name, .message = { GET, 0, FP_SHAPE_ATOM }                            \
    }

/* clang-format off */
static const struct {
    const char *name, *words;
    struct fp_work work;
} told[] = {
    {"an atom", "message=cast/get ", CAST(GET, 0, FP_SHAPE_ATOM)},
    {"a tuple of an atom alone", "message=cast/{get} ", CAST(GET, 1, FP_SHAPE_TUPLE)},
    {"a tuple", "message=cast/{get,_,_} ", CAST(GET, 3, FP_SHAPE_TUPLE)},
    {"the largest tuple told whole", "message=cast/{get,_,_,_,_,_} ", CAST(GET, 6, FP_SHAPE_TUPLE)},
    {"a larger tuple", "message=cast/{get,_,...} ", CAST(GET, 7, FP_SHAPE_TUPLE)},
    {"another term", "message=cast/_ ", CAST(0, 0, FP_SHAPE_OTHER)},
    {"a blank", "message=cast/a%20b ", CAST(BLANK, 0, FP_SHAPE_ATOM)},
    {"a colon", "message=cast/x%3Ay ", CAST(COLON, 0, FP_SHAPE_ATOM)},
    {"no atom looks like a tuple", "message=info/%7Bget%2C_%7D ", INFO(BRACES)},
    {"no atom looks like another term", "message=info/%5F ", INFO(UNDERSCORE)},
    {"no atom begins like another term", "message=info/%5Fx ", INFO(UNDERSCORE_X)},
    {"a call", "message=call/get ", OF_KIND(call)},
    {"an event", "message=event/get ", OF_KIND(event)},
    {"a system message", "message=system/get ", OF_KIND(system)},
    {"a request of I/O", "message=io/get ", OF_KIND(io)},
    {"a monitor's message", "message=down/get ", OF_KIND(down)},
    {"an exit", "message=exit/get ", OF_KIND(exit)},
    {"a timeout", "message=timer/get ", OF_KIND(timer)},
    {"a reply", "message=reply/get ", OF_KIND(reply)},
    {"any other message", "message=info/get ", OF_KIND(info)},
    {"all digits of a trace", "trace=0000000000000000000000000000001f span=000000000000000a ",
     {.trace = {{0, 0x1f}, 0xa}}},
    {"a trace behind a wait",
     "waits_for=lock trace=fedcba98765432100123456789abcdef span=ffffffffffffffff ",
     {.trace = {{0xfedcba9876543210, 0x0123456789abcdef}, ~UINT64_C(0)}, .waits = FP_WORK_LOCK}},
    {"a process", "waits_for=<0.71.2> ", {.waits = FP_WORK_PROCESS, .target.pid = {71, 2}}},
    {"a port", "waits_for=#Port<0.5> ", {.waits = FP_WORK_PORT, .target.word = 5}},
    {"a process of another node", "waits_for=a@b/<0.71.0> ",
     {.waits = FP_WORK_REMOTE_PROCESS, .target.pid = {71, 0}, .node = NODE}},
    {"a name on another node", "waits_for=a@b/log ",
     {.waits = FP_WORK_REMOTE_NAME, .target.word = LOG, .node = NODE}},
    {"a lock", "waits_for=lock ", {.waits = FP_WORK_LOCK}},
    {"a socket", "waits_for=socket ", {.waits = FP_WORK_SOCKET}},
    {"references, from their highest number on",
     "message=call/{get,_} serves=333.22.1 waits_for=<0.9.0> call=4294967295.55.4 request=log ",
     {.kind = FP_MESSAGE_call, .serves = 1, .calls = 1, .waits = FP_WORK_PROCESS,
      .message = {GET, 2, FP_SHAPE_TUPLE}, .request = {LOG, 0, FP_SHAPE_ATOM},
      .served_ref = {1, 22, 333}, .called_ref = {4, 55, UINT32_MAX}, .target.pid = {9, 0}}},
    {"an atom that nobody knows takes its word with it", "call=0.0.0 ",
     {.kind = FP_MESSAGE_call, .calls = 1, .waits = FP_WORK_REMOTE_NAME,
      .message = {UNKNOWN, 2, FP_SHAPE_TUPLE}, .request = {UNKNOWN, 0, FP_SHAPE_ATOM},
      .target.word = LOG, .node = UNKNOWN}},
    {"a kind without a message", "", {.kind = FP_MESSAGE_call}},
    {"a message without a kind", "", {.message = {GET, 0, FP_SHAPE_ATOM}}},
};
/* clang-format on */

/* The second time with atoms that were rendered before. */
TEST(work_is_told_in_words)
{
    struct fake_code code = {.atoms = atoms, .atom_count = sizeof atoms / sizeof *atoms};
    struct fp_symbolizer symbolizer = fake_symbolizer(&code);
    static struct fp_work_atoms known;
    static char text[FP_WORK_BYTES_MAX];

    for (size_t i = 0; i < 2 * sizeof told / sizeof *told; i++) {
        size_t row = i % (sizeof told / sizeof *told);

        run_name = told[row].name;
        *fp_put_work(text, &known, &symbolizer, &told[row].work) = '\0';
        CHECK_TEXT(text, told[row].words);
    }
}

/* -------------------------------------------------- in a file's samples -- */

struct file {
    struct fake_code code;
    struct fp_symbolizer symbolizer;
    struct fp_counters stats;
    struct fp_perf_script *script;
    const char *text;
    size_t size;
    union record_buffer buffer;
};

static void take(struct file *f, const struct fp_record *record)
{
    CHECK_INT(fp_perf_script_record(f->script, record, &f->text, &f->size), 0);
}

static const struct fp_record *with_work(struct file *f, const struct fp_record *record)
{
    struct fp_work work = {.kind = FP_MESSAGE_cast, .message = {GET, 0, FP_SHAPE_ATOM}};

    memcpy(f->buffer.bytes + record->size, &work, sizeof work);
    f->buffer.head.size += (uint32_t)sizeof work;
    return &f->buffer.head;
}

static void open_file(struct file *f, int coalesce_idle)
{
    static const uint64_t frame[] = {FP_FRAME_UNREADABLE};
    struct fp_perf_script_options options = {.os_pid = 7, .coalesce_idle = coalesce_idle};

    memset(f, 0, sizeof *f);
    f->code = (struct fake_code){.atoms = atoms, .atom_count = sizeof atoms / sizeof *atoms};
    f->symbolizer = fake_symbolizer(&f->code);
    options.symbolizer = &f->symbolizer;
    options.stats = &f->stats;
    CHECK_INT(fp_perf_script_create(&f->script, &options), 0);
    take(f, make_process(&f->buffer, 0, 71, 0, NO_BYTES, NO_CALL, NO_CALL));
    take(f, make_stack(&f->buffer, 0, frame, 1));
}

static void check_begin(struct file *f, const char *expected)
{
    size_t size = strlen(expected);

    if (f->size < size || memcmp(f->text, expected, size) != 0)
        RUN_FAIL("%.*s", (int)f->size, f->text);
}

TEST(words_stand_behind_the_numbers_of_a_changed_sample_and_for_that_one_only)
{
    struct file f;
    const char *words;

    open_file(&f, 0);
    take(&f, with_work(&f, make_sample(&f.buffer, 0, 0, 1500000, 0, 0)));
    words = memmem(f.text, f.size, " erl_pid=<0.71.0> message=cast/get cpu-clock:\n", 46);
    CHECK(words != NULL);
    make_sample(&f.buffer, 0, 0, 1600000, 0, 0);
    f.buffer.sample.value[0] = f.buffer.sample.delta[0] = 12;
    take(&f, with_work(&f, &f.buffer.head));
    check_begin(&f, "beam 7/71 [000] 1.600000: reductions+12 message=cast/get cpu-clock:\n");
    take(&f, with_work(&f, make_repeat(&f.buffer, 0, 0, 1700000)));
    check_begin(&f, "beam 7/71 [000] 1.700000: message=cast/get cpu-clock:\n");
    take(&f, make_repeat(&f.buffer, 0, 0, 1800000));
    check_begin(&f, "beam 7/71 [000] 1.800000: cpu-clock:\n");
    fp_perf_script_destroy(f.script);
}

TEST(a_sample_with_words_is_not_merged_with_others)
{
    struct file f;

    open_file(&f, 1);
    take(&f, make_sample(&f.buffer, 0, 0, 1500000, 0, 0));
    take(&f, make_repeat(&f.buffer, 0, 0, 1600000));
    take(&f, make_repeat(&f.buffer, 0, 0, 1700000));
    CHECK_INT(f.size, 0);
    take(&f, with_work(&f, make_repeat(&f.buffer, 0, 0, 1800000)));
    check_begin(&f, "beam 7/71 [000] 1.700000: 2 cpu-clock:\n");
    CHECK(memmem(f.text, f.size, "1.800000: message=cast/get cpu-clock:\n", 38) != NULL);
    fp_perf_script_destroy(f.script);
}

/* ---------------------------------------------------------- on a stack -- */

#define CODE (FAKE_JIT + 0x1000)
#define SERVES (CODE + 0x100) /* a return address into handle_msg/6 */
#define WHOLE (CODE + 0x140)  /* into its clause for all but calls */
#define TYPED (CODE + 0x180)  /* of gen_statem */
#define LOOP (CODE + 0x200)   /* `i` */
#define CALLS (CODE + 0x240)  /* `i` of a caller */
#define REQUEST (CODE + 0x280)
#define PORTS (CODE + 0x2c0) /* `i` */
#define ROOT (CODE + 0x3000)

struct fixture {
    struct fake_vm vm;
    struct fake_terms heap;
    struct fp_ring *ring;
    struct fp_counters counters;
    struct fp_sampler *sampler;
    struct fp_ref ref;
    uint64_t get, put, pid, reductions;
    struct fp_record_sample last;
    struct fp_work work;
    int has_work, samples;
};

static void publish(struct fixture *b)
{
    static const struct fp_site_row rows[] = {
        {SERVES, FP_SITE_serves, 1},   {SERVES, FP_SITE_from, 3}, {WHOLE, FP_SITE_message, 0},
        {TYPED, FP_SITE_queue, 1},     {LOOP, FP_SITE_loop, 0},   {CALLS, FP_SITE_call, 1},
        {REQUEST, FP_SITE_request, 0}, {PORTS, FP_SITE_port, 0},
    };
    struct fp_sites *sites;

    CHECK_INT(fp_sites_create(&sites, &b->vm.memory.reader, &b->vm.code, rows,
                              sizeof rows / sizeof *rows),
              0);
    fp_serving_publish(sites);
    fp_sites_release(sites);
}

static void create_sampler(struct fixture *b, int messages)
{
    const struct fp_sampler_options options = {
        .layout = b->vm.layout,
        .memory = &b->vm.memory.reader,
        .code = &b->vm.live_code,
        .ring = b->ring,
        .counters = &b->counters,
        .interval_us = 1000,
        .messages = messages,
        .ranking = {{.top = 8, .is_delta = 1, .every = 1}},
        .rankings = 1,
        .select_interval_ms = 1000000,
        .status = -1,
    };

    CHECK_INT(fp_sampler_create(&b->sampler, &options), 0);
}

static struct fixture *create(unsigned otp)
{
    struct fixture *b = calloc(1, sizeof *b);

    fake_vm_create(&b->vm, otp, 64, 8);
    fake_vm_add_atoms(&b->vm);
    fake_vm_add_jit(&b->vm);
    fake_map(&b->vm.memory, FAKE_MISC, 65536);
    b->heap = (struct fake_terms){&b->vm.memory, FAKE_MISC};
    b->ref = (struct fp_ref){{3, 22, 111}};
    fake_vm_add_envelopes(&b->vm);
    b->get = fake_text_atom(&b->vm, "get");
    b->put = fake_text_atom(&b->vm, "put");
    b->pid = fake_pid(&b->vm.layout, 2);
    b->vm.layout.port_limit = 8; /* one cache line: a port's number is its word */
    publish(b);
    CHECK_INT(fp_ring_create(&b->ring, 1u << 16), 0);
    create_sampler(b, 1);
    return b;
}

static void destroy(struct fixture *b)
{
    fp_sampler_destroy(b->sampler);
    fp_ring_destroy(b->ring);
    fake_vm_destroy(&b->vm);
    free(b);
}

/* The samples of one tick: the last of them, and its work. */
static void tick(struct fixture *b)
{
    const struct fp_record *record;
    size_t size;

    b->has_work = b->samples = 0;
    sampler_run(b->sampler, 1);
    while ((record = fp_ring_peek(b->ring, &size)) != NULL) {
        if (record->type == FP_RECORD_SAMPLE || record->type == FP_RECORD_REPEAT) {
            b->samples++;
            b->has_work = fp_record_work(record) != NULL;
            if (b->has_work)
                b->work = *fp_record_work(record);
        }
        fp_ring_release(b->ring);
    }
}

/* It has run, and has come to this. */
static void stands(struct fixture *b, uint64_t i, const uint64_t *word, size_t words)
{
    fake_spawn(&b->vm, 1, i);
    fake_set_stack(&b->vm, 1, word, words);
    fake_set(&b->vm, 1, FP_FIELD_reds, b->reductions += 1000);
}

#define STANDS(b, i, ...)                                                                          \
    stands(b, i, (const uint64_t[]){__VA_ARGS__},                                                  \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t from(struct fixture *b)
{
    uint64_t tag = fake_cons(&b->heap, b->vm.layout.envelope.alias, fake_ref(&b->heap, &b->ref));

    return FAKE_TUPLE(&b->heap, b->pid, tag);
}

static void expect_message(struct fixture *b, uint8_t kind, uint32_t shape, uint64_t atom,
                           uint32_t arity)
{
    tick(b);
    CHECK_INT(b->samples, 1);
    CHECK(b->has_work);
    CHECK_INT(b->work.kind, kind);
    CHECK_INT(b->work.message.shape, shape);
    CHECK(b->work.message.atom == atom);
    CHECK_INT(b->work.message.arity, arity);
}

static void expect_no_work(struct fixture *b)
{
    tick(b);
    CHECK_INT(b->samples, 1);
    CHECK(!b->has_work);
}

static void check_serves(const struct fixture *b)
{
    CHECK_INT(b->work.serves, 1);
    CHECK(memcmp(b->work.served_ref, b->ref.n, sizeof b->ref.n) == 0);
}

TEST_WITH_EACH(a_call_in_work_is_told_with_its_reference, create, 25, 26, 27, 28, 29)
{
    STANDS(f, CODE, FAKE_SMALL(1), SERVES, f->put, FAKE_TUPLE(&f->heap, f->get, f->pid), f->put,
           from(f), ROOT);
    expect_message(f, FP_MESSAGE_call, FP_SHAPE_TUPLE, f->get, 2);
    check_serves(f);
    CHECK_INT(f->work.waits, FP_WORK_NO_TARGET);
}

TEST_WITH(a_message_with_its_envelope_is_told_by_it, create(27))
{
    uint64_t cast;

    cast = FAKE_TUPLE(&f->heap, f->vm.layout.envelope.gen_cast, f->put);
    STANDS(f, CODE, WHOLE, cast, ROOT);
    expect_message(f, FP_MESSAGE_cast, FP_SHAPE_ATOM, f->put, 0);
    CHECK_INT(f->work.serves, 0);
    /* It is the same process that goes on, with an immediate message. */
    STANDS(f, CODE, WHOLE, f->get, ROOT);
    expect_message(f, FP_MESSAGE_info, FP_SHAPE_ATOM, f->get, 0);
}

/* With another event behind it. */
static void has_event(struct fixture *b, uint64_t type, uint64_t content)
{
    uint64_t next = FAKE_TUPLE(&b->heap, b->put, b->put);
    uint64_t queue = fake_cons(&b->heap, next, FAKE_NIL);

    queue = fake_cons(&b->heap, FAKE_TUPLE(&b->heap, type, content), queue);
    STANDS(b, CODE, TYPED, b->put, queue, ROOT);
}

TEST_WITH(an_event_of_gen_statem_is_told_by_its_type, create(29))
{
    const struct fp_envelopes *envelope = &f->vm.layout.envelope;
    uint64_t down;

    has_event(f, FAKE_TUPLE(&f->heap, envelope->call, from(f)), f->get);
    expect_message(f, FP_MESSAGE_call, FP_SHAPE_ATOM, f->get, 0);
    check_serves(f);
    has_event(f, envelope->cast, FAKE_TUPLE(&f->heap, f->get));
    expect_message(f, FP_MESSAGE_cast, FP_SHAPE_TUPLE, f->get, 1);
    down =
        FAKE_TUPLE(&f->heap, envelope->DOWN, fake_ref(&f->heap, &f->ref), f->put, f->pid, f->put);
    has_event(f, envelope->info, down);
    expect_message(f, FP_MESSAGE_down, FP_SHAPE_ATOM, envelope->DOWN, 0);
    has_event(f, envelope->state_timeout, FAKE_SMALL(4));
    expect_message(f, FP_MESSAGE_timer, FP_SHAPE_OTHER, 0, 0);
    /* internal: no message. */
    has_event(f, f->put, f->get);
    tick(f);
    CHECK(!f->has_work);
}

TEST_WITH(a_server_that_waits_for_its_next_message_has_nothing_in_work, create(27))
{
    STANDS(f, LOOP, f->get, FAKE_TUPLE(&f->heap, f->get), ROOT);
    expect_no_work(f);
}

TEST_WITH(a_caller_is_told_with_the_call_and_its_request, create(25))
{
    STANDS(f, CALLS, f->put, fake_ref(&f->heap, &f->ref), REQUEST,
           FAKE_TUPLE(&f->heap, f->get, f->get), ROOT);
    tick(f);
    CHECK(f->has_work);
    CHECK_INT(f->work.calls, 1);
    CHECK(memcmp(f->work.called_ref, f->ref.n, sizeof f->ref.n) == 0);
    CHECK_INT(f->work.request.shape, FP_SHAPE_TUPLE);
    CHECK(f->work.request.atom == f->get);
    CHECK_INT(f->work.kind, FP_MESSAGE_unknown);
    /* It has no monitor. */
    CHECK_INT(f->work.waits, FP_WORK_NO_TARGET);
    /* A server that makes a call while it serves one. */
    STANDS(f, CALLS, f->put, fake_ref(&f->heap, &f->ref), REQUEST, f->put, SERVES, f->put, f->get,
           f->put, from(f), ROOT);
    expect_message(f, FP_MESSAGE_call, FP_SHAPE_ATOM, f->get, 0);
    check_serves(f);
    CHECK_INT(f->work.calls, 1);
    CHECK_INT(f->work.request.shape, FP_SHAPE_ATOM);
    CHECK(f->work.request.atom == f->put);
}

static void count_heap(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    (void)memory;
    (void)size;
    *(int *)arg += address >= FAKE_MISC;
}

TEST_WITH(a_process_that_stands_still_is_told_from_memory, create(27))
{
    int reads = 0;

    STANDS(f, CODE, SERVES, f->put, FAKE_TUPLE(&f->heap, f->get, f->pid), f->put, from(f), ROOT);
    fake_hook(&f->vm.memory, count_heap, &reads);
    tick(f);
    CHECK(reads > 0);
    reads = 0;
    for (int i = 0; i < 10; i++) {
        expect_message(f, FP_MESSAGE_call, FP_SHAPE_TUPLE, f->get, 2);
        check_serves(f);
    }
    CHECK_INT(reads, 0);
}

struct mover {
    struct fixture *b;
    enum fp_field field;
    uint64_t value;
};

/* When the first term is read. */
static void move(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    const struct mover *mover = arg;

    (void)memory;
    (void)size;
    if (address >= FAKE_MISC)
        fake_set(&mover->b->vm, 1, mover->field, mover->value);
}

TEST(a_process_that_moves_while_its_terms_are_read_has_no_words)
{
    static const struct {
        enum fp_field field;
        uint64_t value;
    } moves[] = {
        {FP_FIELD_reds, 1001},
        {FP_FIELD_gen_gcs, 7},
        {FP_FIELD_i, CODE + 0x700},
        {FP_FIELD_state, FP_PSFLG_RUNNING},
    };

    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        struct fixture *b = create(27);
        struct mover mover = {b, moves[i].field, moves[i].value};

        STANDS(b, CODE, SERVES, b->put, FAKE_TUPLE(&b->heap, b->get, b->pid), b->put, from(b),
               ROOT);
        fake_hook(&b->vm.memory, move, &mover);
        expect_no_work(b);
        destroy(b);
    }
}

TEST_WITH(a_message_that_cannot_be_read_is_not_told, create(27))
{
    STANDS(f, CODE, SERVES, f->put, (FAKE_MISC + 0x100000) | 2, f->put, f->put, ROOT);
    expect_no_work(f);
}

TEST_WITH(a_site_whose_code_is_another_is_not_trusted, create(27))
{
    fake_put(&f->vm.memory, SERVES - 8, "\x01\x02", 2);
    STANDS(f, CODE, SERVES, f->put, f->get, f->put, from(f), ROOT);
    expect_no_work(f);
}

/* The code of all is compared twice a second. */
TEST(a_site_whose_code_changes_between_two_checks_is_not_trusted)
{
    static const uint64_t site[] = {SERVES, CALLS, REQUEST};

    for (size_t i = 0; i < sizeof site / sizeof *site; i++) {
        struct fixture *b = create(27);

        STANDS(b, CALLS, b->put, fake_ref(&b->heap, &b->ref), REQUEST, b->put, SERVES, b->put,
               b->get, b->put, from(b), ROOT);
        tick(b);
        CHECK(b->has_work);
        fake_set(&b->vm, 1, FP_FIELD_reds, 2000);
        tick(b);
        CHECK(b->has_work);
        fake_set(&b->vm, 1, FP_FIELD_reds, 3000);
        fake_put(&b->vm.memory, site[i] - 8, "\x01\x02", 2);
        expect_no_work(b);
        destroy(b);
    }
}

TEST_WITH(a_process_that_waits_for_a_port_is_told_with_it, create(27))
{
    STANDS(f, PORTS, FAKE_PORT(5), ROOT);
    tick(f);
    CHECK(f->has_work);
    CHECK_INT(f->work.waits, FP_WORK_PORT);
    CHECK_INT(f->work.target.word, 5);
}

TEST_WITH(without_the_option_nothing_is_told, create(27))
{
    fp_sampler_destroy(f->sampler);
    create_sampler(f, 0);
    STANDS(f, CODE, SERVES, f->put, f->get, f->put, from(f), ROOT);
    expect_no_work(f);
}

TEST_WITH(the_site_nearest_to_the_root_counts_and_none_of_another_end, create(27))
{
    struct fp_serving_sites *sites;
    struct fp_serving serving;
    uint64_t word[] = {WHOLE, 1, SERVES, 2, 3, ROOT};

    sites = fp_serving_published();
    fp_serving_check(sites, &f->vm.memory.reader, &f->vm.layout);
    CHECK_INT(fp_serving_find(sites, word, 6, 6, &serving), 1);
    CHECK_INT(serving.at, 2);
    CHECK_INT(serving.slots, 3);
    CHECK(serving.slot == word + 3);
    /* The words behind the leaf's end are of other frames. */
    CHECK_INT(fp_serving_find(sites, word, 6, 4, &serving), 1);
    CHECK_INT(serving.at, 2);
    CHECK_INT(serving.slots, 1);
    CHECK_INT(fp_serving_find(sites, word + 3, 3, 3, &serving), 0);
}

TEST_WITH(equal_sites_are_published_once, create(27))
{
    struct fp_serving_sites *sites;

    sites = fp_serving_published();
    for (unsigned i = 0; i < 2 * FP_SERVING_TABLES_MAX; i++)
        publish(f);
    CHECK(fp_serving_published() == sites);
}

/* The last of all: no other table can be published after it. */
TEST_WITH(tables_that_change_too_often_are_refused, create(27))
{
    struct fp_serving_sites *last = NULL;
    int err = 0;

    for (uint32_t n = 0; n <= FP_SERVING_TABLES_MAX && err == 0; n++) {
        struct fp_site_row rows[] = {{SERVES, FP_SITE_serves, n % 50},
                                     {WHOLE, FP_SITE_cast, n / 50}};
        struct fp_sites *sites;

        CHECK_INT(fp_sites_create(&sites, &f->vm.memory.reader, &f->vm.code, rows, 2), 0);
        last = fp_serving_published();
        err = fp_serving_publish(sites);
        fp_sites_release(sites);
    }
    CHECK_INT(err, FP_EFULL);
    CHECK(fp_serving_published() == last);
}
