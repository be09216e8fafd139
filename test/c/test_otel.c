/* test_otel.c - OpenTelemetry's ids out of a process dictionary, over fake memory: what is one,
 * what is none, and memory that is damaged or changes while it is read. */
#include "base/error.h"
#include "erts/term/otel.h"
#include "fake_terms.h"
#include "test.h"

#define DICTIONARY (FAKE_BASE + 0x10000)
#define HEAP (FAKE_BASE + 0x20000)
#define LITERALS (FAKE_BASE + 0x40000)
#define FAR (FAKE_BASE + 0x100000)
#define HEAP_BYTES 16384u
#define MAP_HEADER UINT64_C(0x6c)
#define ATOM(index) ((uint64_t)(index) << 6 | 0x0b)

static const struct fp_trace expected = {{0xfedcba9876543210, 0x123456789abcdef0},
                                         0xa1b2c3d4e5f60718};
static const struct fp_layout layout = {.otel = {.context = ATOM(1003),
                                                 .otel_tracer = ATOM(7),
                                                 .span_ctx = ATOM(8),
                                                 .map_header = MAP_HEADER}};

struct fixture {
    struct fake_memory memory;
    struct fake_terms heap, literals;
    struct fp_otel otel;
    uint64_t key;
};

static struct fixture *create(void)
{
    struct fixture *b = calloc(1, sizeof *b);

    fake_memory_create(&b->memory);
    fake_map(&b->memory, DICTIONARY, 4096);
    fake_map(&b->memory, HEAP, HEAP_BYTES);
    fake_map(&b->memory, LITERALS, 4096);
    b->heap = (struct fake_terms){&b->memory, HEAP};
    b->literals = (struct fake_terms){&b->memory, LITERALS};
    b->key = FAKE_TUPLE(&b->literals, layout.otel.otel_tracer, layout.otel.span_ctx);
    return b;
}

static void destroy(struct fixture *b)
{
    fake_memory_destroy(&b->memory);
    free(b);
}

static uint64_t integer(struct fixture *b, const uint64_t *word, size_t n)
{
    return fake_boxed(&b->heap, n << 6 | 0x08, word, n);
}

static uint64_t span_of(struct fixture *b, const struct fp_trace *trace, uint32_t arity)
{
    uint64_t word[11], id = integer(b, (const uint64_t[]){trace->id[1], trace->id[0]}, 2);
    uint64_t span = integer(b, &trace->span, 1);

    for (size_t i = 0; i < 11; i++)
        word[i] = ATOM(9);
    word[0] = layout.otel.span_ctx;
    word[1] = id;
    word[arity == 9 ? 2 : 3] = span;
    return fake_tuple(&b->heap, word, arity);
}

/* Behind `others` keys that are atoms, before one that is a tuple. */
static uint64_t context_of(struct fixture *b, uint64_t span, uint32_t others)
{
    uint64_t keys[34], word[36];

    for (uint32_t i = 0; i < others; i++) {
        keys[i] = ATOM(20 + i);
        word[2 + i] = FAKE_SMALL(i);
    }
    keys[others] = b->key;
    word[2 + others] = span;
    keys[others + 1] = FAKE_TUPLE(&b->heap, ATOM(7), ATOM(7));
    word[3 + others] = FAKE_NIL;
    word[0] = others + 2;
    word[1] = fake_tuple(&b->heap, keys, others + 2);
    return fake_boxed(&b->heap, MAP_HEADER, word, 4 + others);
}

/* A dictionary of 16 slots, 12 of them in use: atom 1003 is in slot 11. */
static void put_slot(struct fixture *b, uint64_t word)
{
    const uint32_t head[] = {15, 12, 16, 4};

    fake_put(&b->memory, DICTIONARY, head, sizeof head);
    for (uint32_t i = 0; i < 16; i++)
        fake_put_word(&b->memory, DICTIONARY + 24 + 8 * i, FAKE_NIL);
    fake_put_word(&b->memory, DICTIONARY + 24 + 8 * 11ull, word);
}

static uint64_t entry_of(struct fixture *b, uint64_t context)
{
    return FAKE_TUPLE(&b->heap, layout.otel.context, context);
}

static int find(struct fixture *b, struct fp_trace *trace)
{
    fp_otel_start(&b->otel, DICTIONARY, 0);
    return fp_otel_read(&b->otel, &layout, &b->memory.reader, trace);
}

static void check_found(struct fixture *b)
{
    struct fp_trace trace;

    CHECK_INT(find(b, &trace), FP_OK);
    CHECK(memcmp(&trace, &expected, sizeof trace) == 0);
}

static void check_none(struct fixture *b)
{
    struct fp_trace trace;

    CHECK_INT(find(b, &trace), FP_ENOENT);
    CHECK_INT(trace.span, 0);
}

/* --------------------------------------------------------------- what is one -- */

TEST(both_records_have_their_ids)
{
    for (uint32_t arity = 9; arity <= 11; arity += 2) {
        for (uint32_t others = 0; others <= 30; others += 6) {
            struct fixture *b = create();

            put_slot(b, entry_of(b, context_of(b, span_of(b, &expected, arity), others)));
            check_found(b);
            destroy(b);
        }
    }
}

TEST_WITH(an_entry_is_found_in_a_list, create())
{
    uint64_t list, entry;

    entry = entry_of(f, context_of(f, span_of(f, &expected, 11), 1));
    list = fake_cons(&f->heap, FAKE_TUPLE(&f->heap, ATOM(27), ATOM(27)), FAKE_NIL);
    list = fake_cons(&f->heap, entry, list);
    put_slot(f, fake_cons(&f->heap, FAKE_TUPLE(&f->heap, ATOM(11), ATOM(11)), list));
    check_found(f);
}

TEST_WITH(small_ids_are_integers_of_one_word, create())
{
    struct fp_trace trace;
    uint64_t word[9] = {layout.otel.span_ctx, FAKE_SMALL(5), FAKE_SMALL(6)};

    put_slot(f, entry_of(f, context_of(f, fake_tuple(&f->heap, word, 9), 0)));
    CHECK_INT(find(f, &trace), FP_OK);
    CHECK(trace.id[0] == 0 && trace.id[1] == 5 && trace.span == 6);
}

/* The second time with places and key of the first: a read of the dictionary, one of the rest. */
TEST_WITH(what_is_as_before_costs_two_rounds, create())
{
    struct fp_otel_places places;
    struct fp_safe_read_span span[FP_OTEL_PLACES];
    struct fp_trace trace;
    uint32_t rounds = 0;

    put_slot(f, entry_of(f, context_of(f, span_of(f, &expected, 11), 1)));
    check_found(f);
    places = f->otel.places;
    CHECK(places.count >= 1);
    fp_otel_start(&f->otel, DICTIONARY, f->key);
    while (fp_otel_find(&f->otel, &layout, &trace) == FP_ESTATE) {
        uint32_t n = fp_otel_windows(&f->otel, &places, span);

        fp_safe_read_batch(&f->memory.reader, span, n);
        for (uint32_t i = 0; i < n; i++)
            fp_otel_was_read(&span[i]);
        rounds++;
    }
    CHECK_INT(rounds, 2);
    CHECK(memcmp(&trace, &expected, sizeof trace) == 0);
}

/* In front of a list, an entry: it and its cell are each on a page of their own. */
static uint64_t put_apart(struct fixture *b, uint64_t *page, uint64_t list)
{
    struct fake_terms cell = {&b->memory, *page}, entry = {&b->memory, *page + 4096};

    *page += 8192;
    return fake_cons(&cell, FAKE_TUPLE(&entry, ATOM(27), ATOM(27)), list);
}

/* What was the list's begin before comes late in it: the places of then find no room. */
TEST_WITH(a_list_that_has_become_longer_stays_within_the_windows, create())
{
    struct fp_otel_places places;
    struct fp_safe_read_span span[FP_OTEL_PLACES];
    struct fp_trace trace;
    uint64_t page = FAR, list = FAKE_NIL;

    fake_map(&f->memory, FAR, 18 * 4096);
    for (int i = 0; i < 4; i++)
        list = put_apart(f, &page, list);
    put_slot(f, list);
    check_none(f);
    places = f->otel.places;
    CHECK_INT(places.count, FP_OTEL_PLACES);
    for (int i = 0; i < 5; i++)
        list = put_apart(f, &page, list);
    put_slot(f, list);
    fp_otel_start(&f->otel, DICTIONARY, 0);
    while (fp_otel_find(&f->otel, &layout, &trace) == FP_ESTATE) {
        uint32_t n = fp_otel_windows(&f->otel, &places, span);

        CHECK(f->otel.windows.count <= FP_WINDOWS_MAX);
        fp_safe_read_batch(&f->memory.reader, span, n);
        for (uint32_t i = 0; i < n; i++)
            fp_otel_was_read(&span[i]);
    }
    CHECK_INT(trace.span, 0);
}

/* -------------------------------------------------------------- what is none -- */

TEST_WITH(no_context_is_none, create())
{
    uint64_t span;

    put_slot(f, FAKE_NIL);
    check_none(f);
    span = span_of(f, &expected, 11);
    put_slot(f, FAKE_TUPLE(&f->heap, ATOM(27), context_of(f, span, 0)));
    check_none(f);
    put_slot(f, entry_of(f, ATOM(5)));
    check_none(f);
    put_slot(f, entry_of(f, span));
    check_none(f);
    put_slot(f, entry_of(f, context_of(f, ATOM(5), 0)));
    check_none(f);
    f->key = FAKE_TUPLE(&f->heap, layout.otel.otel_tracer, ATOM(5));
    put_slot(f, entry_of(f, context_of(f, span, 0)));
    check_none(f);
}

TEST_WITH(ids_that_are_no_positive_integers_are_none, create())
{
    static const uint64_t none[] = {ATOM(5), FAKE_NIL, FAKE_SMALL(0), ~UINT64_C(0) << 4 | 0xf};
    const uint64_t word[3] = {1, 2, 3};
    uint64_t too_big, negative, empty;

    too_big = integer(f, word, 3);
    negative = fake_boxed(&f->heap, 2 << 6 | 0x0c, word, 2);
    empty = fake_boxed(&f->heap, 0x08, word, 1);
    for (size_t i = 0; i < 7; i++) {
        uint64_t id = i < 4 ? none[i] : i == 4 ? too_big : i == 5 ? negative : empty;
        uint64_t span[9] = {layout.otel.span_ctx, id, FAKE_SMALL(1)};

        put_slot(f, entry_of(f, context_of(f, fake_tuple(&f->heap, span, 9), 0)));
        check_none(f);
        span[1] = FAKE_SMALL(1);
        span[2] = id;
        put_slot(f, entry_of(f, context_of(f, fake_tuple(&f->heap, span, 9), 0)));
        check_none(f);
    }
}

TEST_WITH(what_calibration_has_not_proven_is_none, create())
{
    struct fp_layout unproven = layout;
    struct fp_trace trace;

    put_slot(f, entry_of(f, context_of(f, span_of(f, &expected, 9), 0)));
    unproven.otel.map_header = 0;
    fp_otel_start(&f->otel, DICTIONARY, 0);
    CHECK_INT(fp_otel_read(&f->otel, &unproven, &f->memory.reader, &trace), FP_ENOENT);
    CHECK_INT(f->memory.entries, 0);
}

TEST(what_cannot_be_read_is_none)
{
    static const uint64_t gone[] = {DICTIONARY, HEAP, LITERALS};

    for (size_t i = 0; i < 3; i++) {
        struct fixture *b = create();

        put_slot(b, entry_of(b, context_of(b, span_of(b, &expected, 11), 0)));
        fake_unmap(&b->memory, gone[i]);
        check_none(b);
        destroy(b);
    }
}

TEST_WITH(a_list_that_holds_itself_ends, create())
{
    uint64_t entry;

    entry = FAKE_TUPLE(&f->heap, ATOM(27), ATOM(27));
    put_slot(f, fake_cons(&f->heap, entry, (f->heap.at) | 1));
    check_none(f);
}

/* ------------------------------------------------------------ damaged memory -- */

#define ROUNDS 200000

/* Where a word of the heap is changed just before a read. */
struct damage {
    uint64_t seed, until;
};

static uint64_t any_word(uint64_t *seed)
{
    static const uint64_t likely[] = {0,       2,          1,        0x48,        0x88,
                                      0x2c8,   0x240,      0x80,     MAP_HEADER,  ATOM(7),
                                      ATOM(8), ATOM(1003), FAKE_NIL, ~UINT64_C(0)};
    uint32_t kind = run_below(seed, 3);

    if (kind == 0)
        return likely[run_below(seed, sizeof likely / sizeof *likely)];
    return kind == 1 ? run_random(seed)
                     : HEAP + 8 * (uint64_t)run_below(seed, HEAP_BYTES / 8) + run_below(seed, 4);
}

static void damage(struct fake_memory *memory, uint64_t *seed, uint64_t until)
{
    uint64_t words = (until - HEAP) / 8;

    if (run_below(seed, 4) == 0)
        fake_put_word(memory, DICTIONARY + 8 * run_below(seed, 19), any_word(seed));
    else
        fake_put_word(memory, HEAP + 8 * (uint64_t)run_below(seed, (uint32_t)words),
                      any_word(seed));
}

static void before_read(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct damage *d = arg;

    (void)address;
    (void)size;
    if (run_below(&d->seed, 2) == 0)
        damage(memory, &d->seed, d->until);
}

/* Ends within its windows; an id that is told is one. Under ASan and UBSan. */
TEST_WITH(any_damage_is_survived, create())
{
    struct damage d = {.seed = 17};
    struct fp_trace trace;
    uint32_t found = 0, none = 0;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t entries = f->memory.entries;
        uint32_t damages = run_below(&d.seed, 4);
        int err;

        f->heap.at = HEAP + 8 * (uint64_t)run_below(&d.seed, 1024);
        put_slot(f, entry_of(f, context_of(f, span_of(f, &expected, round % 2 ? 9 : 11),
                                           run_below(&d.seed, 30))));
        d.until = f->heap.at;
        while (damages-- > 0)
            damage(&f->memory, &d.seed, d.until);
        f->memory.before_read = round % 3 == 0 ? before_read : NULL;
        f->memory.arg = &d;
        err = find(f, &trace);
        f->memory.before_read = NULL;
        CHECK(err == FP_OK || err == FP_ENOENT);
        CHECK(f->memory.entries - entries <= FP_WINDOWS_MAX);
        CHECK((err == FP_OK) == (trace.span != 0));
        CHECK((err == FP_OK) == ((trace.id[0] | trace.id[1]) != 0));
        *(err == FP_OK ? &found : &none) += 1;
    }
    CHECK(found > ROUNDS / 100 && none > ROUNDS / 100);
}
