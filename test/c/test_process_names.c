/* test_process_names.c - the names around a process: its registration, its initial call and
 * '$initial_call' in its dictionary. */
#include "base/error.h"
#include "erts/dictionary.h"
#include "erts/process_names.h"
#include "fake_memory.h"
#include "test.h"

#define ATOM(n) ((uint64_t)(n) << 6 | 0x0b)
#define SMALL(n) ((uint64_t)(n) << 4 | 0x0f)
#define NIL (~UINT64_C(0) << 6 | 0x3b)
#define KEY_INDEX 77u
#define KEY ATOM(KEY_INDEX)
#define DICTIONARY FAKE_BASE
#define TERMS (FAKE_BASE + 0x10000)
#define REGISTRATION (FAKE_BASE + 0x18000)
#define SLOTS 16u

struct fixture {
    struct fake_memory memory;
    struct fp_snapshot snapshot;
    struct fp_process_names names;
    uint64_t top; /* of the terms */
};

static struct fixture *create(uint32_t used, uint32_t mask)
{
    struct fixture *f = calloc(1, sizeof *f);
    uint32_t head[4] = {mask, used, SLOTS, 0};

    fake_memory_create(&f->memory);
    fake_map(&f->memory, FAKE_BASE, 0x20000);
    f->top = TERMS;
    f->snapshot.dictionary = DICTIONARY;
    f->snapshot.initial_call[0] = ATOM(1);
    f->snapshot.initial_call[1] = ATOM(2);
    f->snapshot.initial_call[2] = 5;
    fake_put(&f->memory, DICTIONARY, head, sizeof head);
    for (uint32_t i = 0; i < SLOTS; i++)
        fake_put_word(&f->memory, DICTIONARY + 24 + 8 * i, NIL);
    return f;
}

static void destroy(struct fixture *f)
{
    fake_memory_destroy(&f->memory);
    free(f);
}

static uint64_t tuple(struct fixture *f, uint64_t n, const uint64_t *element)
{
    uint64_t at = f->top;

    fake_put_word(&f->memory, at, n << 6);
    fake_put(&f->memory, at + 8, element, 8 * n);
    f->top += 8 + 8 * n;
    return at | 2;
}

static uint64_t pair(struct fixture *f, uint64_t key, uint64_t value)
{
    return tuple(f, 2, (uint64_t[]){key, value});
}

static uint64_t call(struct fixture *f)
{
    return tuple(f, 3, (uint64_t[]){ATOM(10), ATOM(11), SMALL(3)});
}

static uint64_t cons(struct fixture *f, uint64_t head, uint64_t tail)
{
    uint64_t at = f->top;

    fake_put_word(&f->memory, at, head);
    fake_put_word(&f->memory, at + 8, tail);
    f->top += 16;
    return at | 1;
}

static void put_slot(struct fixture *f, uint32_t slot, uint64_t term)
{
    fake_put_word(&f->memory, DICTIONARY + 24 + 8 * slot, term);
}

static void read_names(struct fixture *f)
{
    struct fp_layout layout = {.term = {.initial_call = KEY}};

    fp_process_names_read(&layout, &f->memory.reader, 0, &f->snapshot, &f->names);
}

static void expect_call(struct fixture *f)
{
    read_names(f);
    CHECK_INT(f->names.proc_lib.module, ATOM(10));
    CHECK_INT(f->names.proc_lib.function, ATOM(11));
    CHECK_INT(f->names.proc_lib.arity, 3);
}

static void expect_none(struct fixture *f)
{
    read_names(f);
    CHECK_INT(f->names.proc_lib.module, 0);
    CHECK_INT(f->names.proc_lib.function, 0);
    CHECK_INT(f->names.proc_lib.arity, 0);
}

TEST_WITH(a_slot_with_one_entry, create(8, 7))
{
    put_slot(f, KEY_INDEX % 8, pair(f, KEY, call(f)));
    expect_call(f);
}

TEST_WITH(a_slot_with_a_chain, create(8, 7))
{
    uint64_t chain = cons(f, pair(f, KEY, call(f)), NIL);

    for (uint32_t i = 0; i < 10; i++)
        chain = cons(f, pair(f, ATOM(16 * i + 5), SMALL(i)), chain);
    put_slot(f, KEY_INDEX % 8, chain);
    expect_call(f);
}

/* Linear hashing: slots above those in use have not been split off yet; 77 & 15 is 13. */
TEST_WITH(a_slot_that_is_not_split_off_yet, create(13, 15))
{
    put_slot(f, KEY_INDEX & 7, pair(f, KEY, call(f)));
    expect_call(f);
}

TEST_WITH(a_slot_that_was_split_off_last, create(14, 15))
{
    put_slot(f, 13, pair(f, KEY, call(f)));
    expect_call(f);
}

TEST_WITH(without_the_entry_there_is_none, create(8, 7))
{
    expect_none(f);                                        /* an empty slot */
    put_slot(f, KEY_INDEX % 8, pair(f, ATOM(5), call(f))); /* another key */
    expect_none(f);
    put_slot(f, KEY_INDEX % 8, pair(f, KEY, call(f)));
    f->snapshot.dictionary = 0;
    expect_none(f);
    f->snapshot.dictionary = 0x1000; /* not readable */
    expect_none(f);
}

TEST_WITH(an_absurd_dictionary_has_no_entry, create(8, UINT32_MAX))
{
    put_slot(f, KEY_INDEX % 8, pair(f, KEY, call(f)));
    expect_none(f);
}

TEST_WITH(an_entry_of_another_shape_is_none, create(8, 7))
{
    const uint64_t shapes[][3] = {
        {SMALL(10), ATOM(11), SMALL(3)}, /* no module */
        {ATOM(10), SMALL(11), SMALL(3)},  {ATOM(10), ATOM(11), ATOM(3)},
        {ATOM(10), ATOM(11), SMALL(256)}, /* no function has so many */
        {ATOM(10), ATOM(11), UINT64_MAX}, /* -1 */
    };
    const uint64_t others[] = {tuple(f, 2, shapes[0]), ATOM(9), 0x1000 | 2 /* unreadable */};

    for (size_t i = 0; i < 8; i++) {
        put_slot(f, KEY_INDEX % 8, pair(f, KEY, i < 5 ? tuple(f, 3, shapes[i]) : others[i - 5]));
        expect_none(f);
    }
    put_slot(f, KEY_INDEX % 8, 0x1000 | 1);
    expect_none(f);
}

TEST_WITH(a_chain_without_end_ends, create(8, 7))
{
    uint64_t at = f->top;

    cons(f, pair(f, ATOM(5), SMALL(1)), at | 1); /* head first: at moved */
    f->top = at + 64;
    fake_put_word(&f->memory, at, pair(f, ATOM(5), SMALL(1)));
    fake_put_word(&f->memory, at + 8, at | 1); /* its own tail */
    put_slot(f, KEY_INDEX % 8, at | 1);
    f->memory.calls = 0;
    expect_none(f);
    CHECK(f->memory.calls < 100);
}

/* The structure is behind the registration; nothing else of it matters here. */
#define STRUCTURE (REGISTRATION + 0x1000)
#define LABEL_INDEX 78u

/* `dictionary`: where the structure has it by then. */
static uint64_t read_label_of(struct fixture *f, uint64_t label, uint64_t dictionary)
{
    struct fp_layout layout = {.term = {.process_label = ATOM(LABEL_INDEX)}, .snapshot_size = 1024};

    layout.release = *fp_release_find(27);
    put_slot(f, LABEL_INDEX % 8, pair(f, ATOM(LABEL_INDEX), label));
    fake_put_word(&f->memory, STRUCTURE + layout.release.offset[FP_FIELD_dictionary], dictionary);
    fp_process_names_read(&layout, &f->memory.reader, STRUCTURE, &f->snapshot, &f->names);
    return f->names.label;
}

static uint64_t read_label(struct fixture *f, uint64_t label)
{
    return read_label_of(f, label, f->snapshot.dictionary);
}

TEST_WITH(a_label_is_an_atom_or_what_a_tuple_begins_with, create(8, 15))
{
    CHECK_INT(read_label(f, ATOM(5)), ATOM(5));
    CHECK_INT(read_label(f, tuple(f, 2, (uint64_t[]){ATOM(6), SMALL(1)})), ATOM(6));
    CHECK_INT(read_label(f, tuple(f, 1, (uint64_t[]){ATOM(7)})), ATOM(7));
}

TEST_WITH(any_other_term_is_no_label, create(8, 15))
{
    CHECK_INT(read_label(f, SMALL(5)), 0);
    CHECK_INT(read_label(f, NIL), 0);
    CHECK_INT(read_label(f, 0x1000 | 2), 0); /* not readable */
    CHECK_INT(read_label(f, tuple(f, 2, (uint64_t[]){SMALL(1), ATOM(6)})), 0);
    CHECK_INT(read_label(f, tuple(f, 0, NULL)), 0);
    CHECK_INT(read_label(f, cons(f, ATOM(5), NIL)), 0); /* a string, say */
}

TEST_WITH(a_label_read_while_terms_moved_is_none, create(8, 15))
{
    uint64_t *const moved[] = {&f->snapshot.stamp.heap, &f->snapshot.stamp.hend};
    const uint32_t moves_terms[] = {FP_PSFLG_GC, FP_PSFLG_EXITING, FP_PSFLG_FREE};

    f->snapshot.stamp.gen_gcs = 1; /* one less by now */
    CHECK_INT(read_label(f, ATOM(5)), 0);
    f->snapshot.stamp.gen_gcs = 0;
    for (size_t k = 0; k < 2; k++) {
        *moved[k] = 8;
        CHECK_INT(read_label(f, ATOM(5)), 0);
        *moved[k] = 0;
    }
    for (size_t k = 0; k < 3; k++) {
        f->snapshot.state = moves_terms[k];
        CHECK_INT(read_label(f, ATOM(5)), 0);
    }
    f->snapshot.state = 0;
    CHECK_INT(read_label_of(f, ATOM(5), DICTIONARY + 0x1000), 0);
    f->snapshot.stamp.reds = 1; /* it has run since: its terms are where they were */
    CHECK_INT(read_label(f, ATOM(5)), ATOM(5));
}

TEST_WITH(a_registered_name, create(8, 7))
{
    read_names(f);
    CHECK_INT(f->names.registered, 0);
    f->snapshot.registered_at = REGISTRATION;
    fake_put_word(&f->memory, REGISTRATION + 32, ATOM(42));
    read_names(f);
    CHECK_INT(f->names.registered, ATOM(42));
    fake_put_word(&f->memory, REGISTRATION + 32, SMALL(42)); /* reused */
    read_names(f);
    CHECK_INT(f->names.registered, 0);
    f->snapshot.registered_at = 0x1000;
    read_names(f);
    CHECK_INT(f->names.registered, 0);
}

TEST_WITH(an_initial_call_that_is_none_is_left_out, create(8, 7))
{
    read_names(f);
    CHECK_INT(f->names.initial_call.module, ATOM(1));
    CHECK_INT(f->names.initial_call.function, ATOM(2));
    CHECK_INT(f->names.initial_call.arity, 5);
    f->snapshot.initial_call[2] = 256;
    read_names(f);
    CHECK_INT(f->names.initial_call.module, 0);
    f->snapshot.initial_call[2] = 255;
    f->snapshot.initial_call[1] = SMALL(1);
    read_names(f);
    CHECK_INT(f->names.initial_call.module, 0);
    CHECK_INT(f->names.initial_call.arity, 0);
}

TEST(a_dictionary_s_bytes_are_those_of_its_array)
{
    static const struct fp_dictionary whole[] = {{15, 8, 16, 0},        {15, 9, 16, 1},
                                                 {15, 16, 16, 8},       {31, 16, 40, 0},
                                                 {1023, 700, 800, 188}, {1, 1, 1, 0}},
                                      broken[] = {
                                          {0, 0, 0, 0},    /* not read */
                                          {15, 8, 7, 0},   /* more than there is room for */
                                          {14, 7, 16, 0},  /* no mask */
                                          {15, 7, 16, 0},  /* half of them are always in use */
                                          {15, 9, 16, 0},  /* one was not split off */
                                          {15, 17, 20, 9}, /* the mask should have grown */
                                          {UINT32_MAX, 8, 16, 0},
                                          {0x7f3e1108, 0x7f3e, 900000000, 0},
                                      };

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        CHECK_INT(fp_dictionary_bytes(&whole[i]), 24 + 8 * whole[i].array_size);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        CHECK_INT(fp_dictionary_bytes(&broken[i]), -1);
}
