/* test_process.c - a copied process structure to what process_info/2 would say, and the figures
 * that no process can have. */
#include "base/error.h"
#include "erts/abandoned.h"
#include "erts/layout_solve.h"
#include "erts/process.h"
#include "fake_memory.h"
#include "test.h"

#define HEAP UINT64_C(0x7f0000000000)

struct fixture {
    struct fp_layout layout;
    unsigned char bytes[1024];
    struct fp_snapshot snapshot;
};

static void set(struct fixture *f, enum fp_field field, uint64_t value)
{
    memcpy(f->bytes + f->layout.release.offset[field], &value, fp_field_width(field));
}

static void set_behind_hend(struct fixture *f, uint32_t behind, uint64_t value)
{
    memcpy(f->bytes + f->layout.release.offset[FP_FIELD_hend] + behind, &value, 8);
}

static struct fixture plain(unsigned otp)
{
    struct fixture f = {.layout = {.release = *fp_release_find(otp)}};
    uint64_t call[3] = {0x4b, 0x8b, 3};

    f.layout.snapshot_size = f.layout.release.process_size;
    set(&f, FP_FIELD_id, 0x1503);
    set(&f, FP_FIELD_heap, HEAP);
    set(&f, FP_FIELD_htop, HEAP + 8 * 100);
    set(&f, FP_FIELD_high_water, HEAP + 8 * 40);
    set(&f, FP_FIELD_stop, HEAP + 8 * 220);
    set(&f, FP_FIELD_hend, HEAP + 8 * 233);
    set_behind_hend(&f, FP_SIZE_BEHIND_HEND, 233);
    set(&f, FP_FIELD_old_heap, HEAP + 0x100000);
    set(&f, FP_FIELD_old_htop, HEAP + 0x100000 + 8 * 300);
    set(&f, FP_FIELD_old_hend, HEAP + 0x100000 + 8 * 376);
    set(&f, FP_FIELD_i, 0x1234560);
    set(&f, FP_FIELD_reds, 4711);
    set(&f, FP_FIELD_inner_len, 5);
    set(&f, FP_FIELD_outer_len, 6);
    set(&f, FP_FIELD_dictionary, 0xd000);
    set(&f, FP_FIELD_registered, 0xe000);
    set(&f, FP_FIELD_gen_gcs, 65535);
    set(&f, FP_FIELD_bin_vheap, 11);
    set(&f, FP_FIELD_bin_vheap_block, 12);
    set(&f, FP_FIELD_bin_old_vheap, 13);
    set(&f, FP_FIELD_bin_old_vheap_block, 14);
    set(&f, FP_FIELD_mbuf_size, 50);
    set(&f, FP_FIELD_state, 0x2a);
    memcpy(f.bytes + f.layout.release.offset[FP_FIELD_initial_call], call, 24);
    return f;
}

static int decode(struct fixture *f)
{
    /* Exactly what a caller has: ASan sees a byte beyond. */
    unsigned char *copy = malloc(f->layout.snapshot_size);
    int err;

    memcpy(copy, f->bytes, f->layout.snapshot_size);
    err = fp_process_decode(&f->layout, copy, &f->snapshot);
    free(copy);
    return err;
}

TEST(every_metric_is_what_process_info_says)
{
    static const unsigned releases[] = {25, 26, 27, 28, 29};

    for (size_t i = 0; i < 5; i++) {
        struct fixture f = plain(releases[i]);
        const int64_t *value = f.snapshot.value;
        int64_t total = 233 + 376 + 50;

        CHECK_INT(decode(&f), 0);
        CHECK_INT(f.snapshot.id, 0x1503);
        CHECK_INT(f.snapshot.i, 0x1234560);
        CHECK_INT(f.snapshot.stop, HEAP + 8 * 220);
        CHECK_INT(f.snapshot.hend, HEAP + 8 * 233);
        CHECK_INT(f.snapshot.registered_at, 0xe000);
        CHECK_INT(f.snapshot.dictionary, 0xd000);
        CHECK_INT(f.snapshot.initial_call[0], 0x4b);
        CHECK_INT(f.snapshot.initial_call[2], 3);
        CHECK_INT(f.snapshot.status, FP_STATUS_waiting);
        CHECK_INT(f.snapshot.runs_erlang, 0);
        CHECK_INT(value[FP_METRIC_reductions], 4711);
        CHECK_INT(value[FP_METRIC_message_queue_len], 11);
        CHECK_INT(value[FP_METRIC_heap_size], 100);
        CHECK_INT(value[FP_METRIC_recent_size], 40);
        CHECK_INT(value[FP_METRIC_stack_size], 13);
        CHECK_INT(value[FP_METRIC_heap_block_size], 233);
        CHECK_INT(value[FP_METRIC_old_heap_size], 300);
        CHECK_INT(value[FP_METRIC_old_heap_block_size], 376);
        CHECK_INT(value[FP_METRIC_mbuf_size], 50);
        CHECK_INT(value[FP_METRIC_bin_vheap_size], 11);
        CHECK_INT(value[FP_METRIC_bin_vheap_block_size], 12);
        CHECK_INT(value[FP_METRIC_bin_old_vheap_size], 13);
        CHECK_INT(value[FP_METRIC_bin_old_vheap_block_size], 14);
        CHECK_INT(value[FP_METRIC_minor_gcs], 65535);
        CHECK_INT(value[FP_METRIC_total_heap_size], total);
        CHECK_INT(value[FP_METRIC_memory], f.layout.release.process_size + 8 * total + 11 * 88);
    }
}

TEST(without_an_old_heap_its_sizes_are_0)
{
    struct fixture f = plain(27);

    set(&f, FP_FIELD_old_heap, 0);
    set(&f, FP_FIELD_old_htop, 12345); /* whatever stands there */
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_old_heap_size], 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_old_heap_block_size], 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_total_heap_size], 233 + 50);
}

TEST(an_in_queue_below_nothing_is_no_less_than_nothing)
{
    struct fixture f = plain(29);

    set(&f, FP_FIELD_outer_len, (uint64_t)-2);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_message_queue_len], 3);
    set(&f, FP_FIELD_outer_len, (uint64_t)-20);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_message_queue_len], 0);
}

TEST(full_and_empty_heaps_are_whole)
{
    struct fixture f = plain(27);

    set(&f, FP_FIELD_htop, HEAP);
    set(&f, FP_FIELD_high_water, HEAP);
    set(&f, FP_FIELD_stop, HEAP + 8 * 233);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_stack_size], 0);
    set(&f, FP_FIELD_htop, HEAP + 8 * 233);
    set(&f, FP_FIELD_high_water, HEAP + 8 * 233);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_heap_size], 233);
    set(&f, FP_FIELD_htop, HEAP);
    set(&f, FP_FIELD_stop, HEAP);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_stack_size], 233);
}

/* Each of them is written at another moment while Erlang code runs. */
TEST(the_heap_ends_below_the_stack_unless_erlang_runs)
{
    struct fixture f = plain(27);

    set(&f, FP_FIELD_htop, HEAP + 8 * 221);
    CHECK_INT(decode(&f), FP_ETORN);
    set(&f, FP_FIELD_state, 0xa02a);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_heap_size], 221);
}

TEST(figures_that_no_process_has_are_torn)
{
    static const struct {
        enum fp_field field;
        uint64_t value;
    } cases[] = {
        {FP_FIELD_htop, HEAP - 8},
        {FP_FIELD_htop, HEAP + 8 * 234},
        {FP_FIELD_htop, HEAP + 8 * 100 + 4},
        {FP_FIELD_htop, 0},
        {FP_FIELD_stop, HEAP + 8 * 234},
        {FP_FIELD_stop, HEAP - 8},
        {FP_FIELD_stop, HEAP + 8 * 220 + 1},
        {FP_FIELD_stop, 0},
        {FP_FIELD_hend, HEAP - 8},
        {FP_FIELD_hend, HEAP},
        {FP_FIELD_hend, UINT64_MAX},
        {FP_FIELD_heap, 0},
        {FP_FIELD_heap, HEAP + 8 * 233 + 8},
        {FP_FIELD_heap, HEAP + 8 * 50}, /* another heap's high_water */
        {FP_FIELD_high_water, HEAP - 8},
        {FP_FIELD_high_water, HEAP + 8 * 234},
        {FP_FIELD_old_htop, HEAP + 0x100000 - 8},
        {FP_FIELD_old_htop, HEAP + 0x100000 + 8 * 377},
        {FP_FIELD_old_hend, HEAP + 0x100000},
        {FP_FIELD_old_hend, 0},
        {FP_FIELD_old_heap, 1},
        {FP_FIELD_old_hend, HEAP + 0x100000 + 8 * 377}, /* no size of ERTS */
        {FP_FIELD_old_heap, HEAP},                      /* another old heap's */
        {FP_FIELD_hend, HEAP + 8 * 234},                /* no such size of the heap */
        {FP_FIELD_heap, HEAP - 0x10000},                /* another heap's, far below */
        {FP_FIELD_reds, UINT64_C(1) << 63},
        {FP_FIELD_mbuf_size, UINT64_MAX},
        {FP_FIELD_mbuf_size, INT64_MAX},
        {FP_FIELD_bin_vheap, UINT64_C(1) << 63},
        {FP_FIELD_bin_vheap_block, UINT64_MAX},
        {FP_FIELD_bin_old_vheap, UINT64_MAX},
        {FP_FIELD_bin_old_vheap_block, UINT64_MAX},
        {FP_FIELD_inner_len, INT64_MAX},
        {FP_FIELD_inner_len, UINT64_C(1) << 63},
        {FP_FIELD_outer_len, INT64_MAX},
        {FP_FIELD_outer_len, UINT64_C(1) << 63},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f = plain(27);

        set(&f, cases[i].field, cases[i].value);
        if (decode(&f) != FP_ETORN)
            RUN_FAIL("case %zu, %s, is not torn", i, fp_field_name(cases[i].field));
        /* Its id is known all the same. */
        CHECK_INT(f.snapshot.id, 0x1503);
    }
}

/* erts_process_state2status() of erl_process.c, in its order. */
static enum fp_status state2status(uint32_t state)
{
    static const struct {
        uint32_t flags;
        enum fp_status status;
    } order[] = {
        {1u << 10, FP_STATUS_free},
        {1u << 11, FP_STATUS_exiting},
        {1u << 17, FP_STATUS_garbage_collecting},
        {1u << 16, FP_STATUS_suspended},
        {1u << 15 | 1u << 21 | 1u << 29 | 1u << 30, FP_STATUS_running},
        {1u << 13 | 1u << 20 | 1u << 28, FP_STATUS_runnable},
    };

    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if ((state & order[i].flags) != 0)
            return order[i].status;
    return FP_STATUS_waiting;
}

TEST(flags_are_a_status_in_the_order_of_erts)
{
    /* Seen in stock VMs: idle, suspended, running. */
    CHECK_INT(fp_process_status(0x2a), FP_STATUS_waiting);
    CHECK_INT(fp_process_status(0x1002a), FP_STATUS_suspended);
    CHECK_INT(fp_process_status(0xa02a), FP_STATUS_running);
    CHECK_INT(fp_process_status(0x2000202a), FP_STATUS_running);
    /* Each pair of flags, and random ones. */
    for (int a = 0; a < 32; a++)
        for (int b = 0; b < 32; b++) {
            uint32_t state = 1u << a | 1u << b;

            CHECK_INT(fp_process_status(state), state2status(state));
        }
    for (uint64_t random = 1, i = 0; i < 100000; i++) {
        uint32_t state = (uint32_t)run_random(&random) & (uint32_t)run_random(&random);

        CHECK_INT(fp_process_status(state), state2status(state));
    }
}

TEST(only_a_normal_scheduler_makes_the_stack_stale)
{
    struct fixture f = plain(27);

    set(&f, FP_FIELD_state, 0xa02a);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.runs_erlang, 1);
    set(&f, FP_FIELD_state, FP_PSFLG_RUNNING_SYS);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.runs_erlang, 1);
    set(&f, FP_FIELD_state, 0x2000202a); /* in a dirty NIF */
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.runs_erlang, 0);
}

TEST(fields_are_read_in_their_widths)
{
    struct fixture f = plain(27);

    memset(f.bytes, 0xff, sizeof f.bytes);
    for (int field = 0; field < FP_FIELD_COUNT; field++) {
        uint32_t width = fp_field_width(field);

        CHECK(fp_process_field(&f.layout, f.bytes, (enum fp_field)field) == (width == 8 ? UINT64_MAX
                                                                             : width == 4
                                                                                 ? UINT32_MAX
                                                                                 : UINT16_MAX));
    }
}

/* Debian's erts_next_heap_size() of 25, 27 and 29 gives these (seen in their VMs), and each step
 * of a fifth behind 1,3 million words. */
TEST(old_heaps_have_sizes_of_erts_and_no_others)
{
    static const uint64_t sizes[] = {12,     38,     51,     90,      142,     233,     376,
                                     610,    987,    1598,   2586,    4185,    6772,    10958,
                                     17731,  28690,  46422,  75113,   121536,  196650,  318187,
                                     514838, 833026, 999631, 1199557, 1439468, 1727361, 2072833};
    struct fixture f = plain(29);
    size_t at = 0;

    set(&f, FP_FIELD_old_htop, HEAP + 0x100000);
    for (uint64_t words = 1; words < 2200000; words++) {
        int is_size = at < sizeof sizes / sizeof *sizes && sizes[at] == words;

        at += (size_t)is_size;
        set(&f, FP_FIELD_old_hend, HEAP + 0x100000 + 8 * words);
        if ((fp_process_decode(&f.layout, f.bytes, &f.snapshot) == 0) != is_size)
            RUN_FAIL("an old heap of %llu words", (unsigned long long)words);
    }
    CHECK_INT(at, sizeof sizes / sizeof *sizes);
}

/* ------------------------------------------------- what a collection writes -- */

/* Behind the fields of the structure that have a name. */
#define SIZE FP_FIELD_COUNT
#define ABANDONED (FP_FIELD_COUNT + 1)
/* What is between two of these is written without a pause, in any order. */
#define PAUSE 255
#define WRITES_MAX 40

struct write {
    uint8_t field;
    uint64_t value;
};

#define TWO UINT64_C(0x7f0008000000)   /* another block, above the first one */
#define THREE UINT64_C(0x7effff000000) /* one below it */
#define OLD (HEAP + 0x100000)

/* The block at `heap` of `size` words, of which `used` are, and `stack` of the stack. */
#define STOP(heap, size, stack)                                                                    \
    {                                                                                              \
        FP_FIELD_stop, (heap) + 8 * ((size) - (stack))                                             \
    }
#define BLOCK(heap, size, used)                                                                    \
    {FP_FIELD_heap, heap}, {FP_FIELD_htop, (heap) + 8 * (used)},                                   \
    {                                                                                              \
        FP_FIELD_hend, (heap) + 8 * (size)                                                         \
    }

#define OLD_BLOCK(heap, size)                                                                      \
    {FP_FIELD_old_heap, heap}, {FP_FIELD_old_htop, heap},                                          \
    {                                                                                              \
        FP_FIELD_old_hend, (heap) + 8 * (size)                                                     \
    }
#define NO_FRAGMENTS                                                                               \
    {PAUSE, 0}, {FP_FIELD_mbuf_size, 0},                                                           \
    {                                                                                              \
        PAUSE, 0                                                                                   \
    }

/* Each ends with a whole state; KEPT words survive. The first state is plain(): 233 words, of which
 * 100 used and 13 of stack, 376 of old heap, 50 of fragments. */
static const struct collection {
    const char *name;
    struct write write[WRITES_MAX];
} collections[] = {
    {"minor, first old heap",
     {OLD_BLOCK(0, 0),
      {PAUSE, 0},
      OLD_BLOCK(THREE, 610),
      {PAUSE, 0},
      {FP_FIELD_old_htop, THREE + 8 * 40},
      {FP_FIELD_high_water, TWO + 8 * 30},
      {PAUSE, 0},
      STOP(TWO, 376, 13),
      NO_FRAGMENTS,
      BLOCK(TWO, 376, 30),
      {SIZE, 376}}},
    {"minor, to below",
     {{FP_FIELD_old_htop, OLD + 8 * 340},
      {FP_FIELD_high_water, THREE + 8 * 30},
      {PAUSE, 0},
      STOP(THREE, 376, 13),
      NO_FRAGMENTS,
      BLOCK(THREE, 376, 30),
      {SIZE, 376}}},
    {"minor, of one size",
     {{FP_FIELD_high_water, THREE + 8 * 30},
      {PAUSE, 0},
      STOP(THREE, 233, 13),
      NO_FRAGMENTS,
      BLOCK(THREE, 233, 30),
      {SIZE, 233}}},
    {"major, and shrunk in place",
     {OLD_BLOCK(0, 0),
      {PAUSE, 0},
      STOP(TWO, 987, 13),
      NO_FRAGMENTS,
      BLOCK(TWO, 987, 90),
      {SIZE, 987},
      {FP_FIELD_gen_gcs, 0},
      {FP_FIELD_high_water, TWO + 8 * 90},
      {PAUSE, 0},
      /* In this order: with the new stack and the old end the stack would have both blocks' words,
         and nothing would say so. */
      {FP_FIELD_hend, TWO + 8 * 233},
      {PAUSE, 0},
      STOP(TWO, 233, 13),
      {SIZE, 233}}},
    {"grown elsewhere",
     {BLOCK(THREE, 1598, 100),
      STOP(THREE, 1598, 13),
      {FP_FIELD_high_water, THREE + 8 * 40},
      {SIZE, 1598}}},
    {"hibernation",
     {OLD_BLOCK(0, 0),
      NO_FRAGMENTS,
      BLOCK(TWO, 587, 80),
      {FP_FIELD_high_water, TWO + 8 * 80},
      STOP(TWO, 587, 1),
      {SIZE, 587},
      {PAUSE, 0},
      {FP_FIELD_hend, THREE + 8 * 84},
      STOP(THREE, 84, 1),
      {PAUSE, 0},
      {FP_FIELD_high_water, THREE + 8 * 80},
      {PAUSE, 0},
      {FP_FIELD_htop, THREE + 8 * 80},
      {FP_FIELD_heap, THREE},
      {SIZE, 84}}},
    {"literals",
     {OLD_BLOCK(0, 0),
      {PAUSE, 0},
      OLD_BLOCK(TWO, 6772),
      {PAUSE, 0},
      {FP_FIELD_old_htop, TWO + 8 * 6000}}},
    {"put off, and then by a dirty scheduler",
     {STOP(THREE, 77, 13),
      {PAUSE, 0},
      BLOCK(THREE, 77, 0),
      {PAUSE, 0},
      {ABANDONED, HEAP},
      {PAUSE, 0},
      {FP_FIELD_htop, THREE + 8 * 20},
      {PAUSE, 0},
      OLD_BLOCK(0, 0),
      {PAUSE, 0},
      STOP(TWO, 610, 13),
      {PAUSE, 0},
      {ABANDONED, 0},
      {FP_FIELD_mbuf_size, 0},
      {PAUSE, 0},
      BLOCK(TWO, 610, 66),
      {SIZE, 610},
      {FP_FIELD_high_water, TWO + 8 * 66}}},
    {"a second old heap, below the first one",
     {OLD_BLOCK(0, 0),
      {PAUSE, 0},
      OLD_BLOCK(THREE, 987),
      {PAUSE, 0},
      {FP_FIELD_old_htop, THREE + 8 * 500}}},
};

static void write_one(struct fixture *f, const struct write *write)
{
    if (write->field == SIZE)
        set_behind_hend(f, FP_SIZE_BEHIND_HEND, write->value);
    else if (write->field == ABANDONED)
        set_behind_hend(f, FP_ABANDONED_BEHIND_HEND, write->value);
    else
        set(f, (enum fp_field)write->field, write->value);
}

/* Each byte of a structure, changed: where its words are those of before, so is the snapshot. */
TEST(equal_words_have_equal_snapshots)
{
    static const unsigned releases[] = {25, 26, 27, 28, 29};

    for (size_t i = 0; i < 5; i++) {
        struct fixture f = plain(releases[i]);
        struct fp_process_words before, now;
        struct fp_snapshot snapshot;
        uint8_t differed[FP_PROCESS_WORDS] = {0};
        uint32_t at = f.layout.release.offset[FP_FIELD_initial_call], shown = 0;

        memset(&f.snapshot, 0, sizeof f.snapshot);
        CHECK_INT(decode(&f), 0);
        snapshot = f.snapshot;
        fp_process_words_read(&f.layout, f.bytes, &before);
        for (uint32_t k = 0; k < f.layout.snapshot_size; k++) {
            if (k >= at && k < at + 24)
                continue; /* a process keeps its first call */
            f.bytes[k] ^= 1;
            fp_process_words_read(&f.layout, f.bytes, &now);
            for (int word = 0; word < FP_PROCESS_WORDS; word++)
                differed[word] |= now.word[word] != before.word[word];
            if (memcmp(&now, &before, sizeof now) == 0) {
                CHECK_INT(decode(&f), 0);
                CHECK(memcmp(&f.snapshot, &snapshot, sizeof snapshot) == 0);
            }
            f.bytes[k] ^= 1;
        }
        for (int word = 0; word < FP_PROCESS_WORDS; word++)
            shown += differed[word];
        CHECK_INT(shown, FP_PROCESS_WORDS - 1);
    }
}

/* Words of each block that a process has, or had, in this test; 0: it has none. */
static int is_block(int64_t words)
{
    static const int64_t blocks[] = {233, 376, 987, 1598, 587, 84, 610};

    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i] == words)
            return 1;
    return 0;
}

static int is_old_block(int64_t words)
{
    return words == 0 || words == 376 || words == 610 || words == 987 || words == 6772;
}

/* What is accepted has the sizes of blocks that there are. */
static int decode_torn(struct fixture *f, const char *name, size_t step)
{
    const int64_t *value = f->snapshot.value;

    if (fp_process_decode(&f->layout, f->bytes, &f->snapshot) != 0)
        return 0;
    if (!is_block(value[FP_METRIC_heap_block_size]) ||
        !is_old_block(value[FP_METRIC_old_heap_block_size]) ||
        value[FP_METRIC_heap_size] > value[FP_METRIC_heap_block_size] ||
        value[FP_METRIC_recent_size] > value[FP_METRIC_heap_block_size] ||
        value[FP_METRIC_stack_size] > 13)
        RUN_FAIL("%s, write %zu: a heap of %lld words, %lld used, %lld of stack, %lld recent; old "
                 "%lld of %lld",
                 name, step, (long long)value[FP_METRIC_heap_block_size],
                 (long long)value[FP_METRIC_heap_size], (long long)value[FP_METRIC_stack_size],
                 (long long)value[FP_METRIC_recent_size], (long long)value[FP_METRIC_old_heap_size],
                 (long long)value[FP_METRIC_old_heap_block_size]);
    return 1;
}

/* The writes up to the next pause, in another order. */
static void shuffle(struct write *write, size_t n, uint64_t *random)
{
    for (size_t from = 0, to; from < n; from = to + 1) {
        for (to = from; to < n && write[to].field != PAUSE;)
            to++;
        for (size_t i = to; i > from + 1; i--) {
            size_t with = from + run_below(random, (uint32_t)(i - from));
            struct write swap = write[i - 1];

            write[i - 1] = write[with];
            write[with] = swap;
        }
    }
}

static size_t writes_of(const struct collection *collection)
{
    size_t n = WRITES_MAX;

    while (collection->write[n - 1].value == 0 && collection->write[n - 1].field == 0)
        n--;
    return n;
}

TEST(between_two_writes_of_a_collection_no_size_is_made_up)
{
    static const unsigned releases[] = {25, 27, 29};
    uint64_t random = 1;

    for (size_t k = 0; k < sizeof collections / sizeof *collections; k++) {
        size_t n = writes_of(&collections[k]), whole = 0, torn = 0;

        for (uint32_t try = 0; try < 300; try++) {
            struct fixture f = plain(releases[try % 3]);
            struct write write[WRITES_MAX];

            set(&f, FP_FIELD_state, FP_PSFLG_GC | 0xa02a);
            memcpy(write, collections[k].write, sizeof write);
            if (try >= 3)
                shuffle(write, n, &random);
            for (size_t i = 0; i < n; i++) {
                if (write[i].field == PAUSE)
                    continue;
                write_one(&f, &write[i]);
                if (decode_torn(&f, collections[k].name, i))
                    whole++;
                else
                    torn++;
            }
            if (fp_process_decode(&f.layout, f.bytes, &f.snapshot) != 0)
                RUN_FAIL("%s: what it ends with is torn", collections[k].name);
        }
        CHECK(whole > 0 && torn > 0);
    }
}

/* The kernel copies from the lowest address on, and may be interrupted: what is above was written
 * later. */
TEST(of_a_copy_over_several_writes_no_size_is_made_up)
{
    uint64_t random = 7;

    for (size_t k = 0; k < sizeof collections / sizeof *collections; k++) {
        size_t n = writes_of(&collections[k]);

        for (uint32_t try = 0; try < 20000; try++) {
            struct fixture f = plain(try % 2 == 0 ? 25 : 29), later;
            size_t from = run_below(&random, (uint32_t)n), split;
            struct write write[WRITES_MAX];

            set(&f, FP_FIELD_state, FP_PSFLG_GC | 0xa02a);
            memcpy(write, collections[k].write, sizeof write);
            shuffle(write, n, &random);
            for (size_t i = 0; i < from; i++)
                if (write[i].field != PAUSE)
                    write_one(&f, &write[i]);
            later = f;
            for (size_t i = from, to = from + run_below(&random, (uint32_t)(n - from)) + 1; i < to;
                 i++)
                if (write[i].field != PAUSE)
                    write_one(&later, &write[i]);
            split = 8 * run_below(&random, f.layout.snapshot_size / 8u);
            memcpy(f.bytes + split, later.bytes + split, sizeof f.bytes - split);
            (void)decode_torn(&f, collections[k].name, from);
        }
    }
}

/* ----------------------------------------------------- an abandoned heap -- */

/* As delay_garbage_collection() leaves it: what process_info/2 says is of the heap that was
 * abandoned; it goes on in a fragment of 77 words. */
TEST(a_heap_that_a_collection_was_put_off_on_has_its_sizes)
{
    static const unsigned releases[] = {25, 27, 29};

    for (size_t i = 0; i < 3; i++) {
        struct fixture f = plain(releases[i]);
        struct fake_memory memory;
        int64_t *value = f.snapshot.value, total = 233 + 376 + 50;

        fake_memory_create(&memory);
        fake_map(&memory, HEAP, 8192);
        fake_map(&memory, THREE, 8192);
        fake_put_word(&memory, HEAP + 8 * 100, (233 - 100 - 1) << 6 | 8);
        fake_put_word(&memory, HEAP + 8 * 232, 100);
        for (size_t k = 0;
             f.bytes[f.layout.release.offset[FP_FIELD_hend] + FP_ABANDONED_BEHIND_HEND + 5] == 0;
             k++)
            if (collections[7].write[k].field != PAUSE)
                write_one(&f, &collections[7].write[k]);
        set(&f, FP_FIELD_htop, THREE + 8 * 20);
        if (releases[i] >= 27) {
            fake_put_word(&memory, THREE + 8 * 77, HEAP + 8 * 40);
            set(&f, FP_FIELD_high_water, THREE);
        }
        CHECK_INT(fp_process_decode_whole(&f.layout, &memory.reader, f.bytes, &f.snapshot), 0);
        CHECK_INT(value[FP_METRIC_heap_block_size], 233);
        CHECK_INT(value[FP_METRIC_heap_size], 100);
        CHECK_INT(value[FP_METRIC_recent_size], 40);
        CHECK_INT(value[FP_METRIC_stack_size], 13);
        CHECK_INT(value[FP_METRIC_total_heap_size], total);
        CHECK_INT(value[FP_METRIC_memory],
                  f.layout.release.process_size + 8 * (total + 77) + 11 * 88);
        /* Without a read: all of it. */
        CHECK_INT(decode(&f), 0);
        CHECK_INT(value[FP_METRIC_heap_size], 233);
        /* Full to the brim: the last word is one of the stack that was there. */
        fake_put_word(&memory, HEAP + 8 * 232, FAKE_BASE);
        CHECK_INT(fp_process_decode_whole(&f.layout, &memory.reader, f.bytes, &f.snapshot), 0);
        CHECK_INT(value[FP_METRIC_heap_size], 233);
        /* Not what ERTS leaves there. */
        fake_put_word(&memory, HEAP + 8 * 232, 99);
        CHECK_INT(fp_process_decode_whole(&f.layout, &memory.reader, f.bytes, &f.snapshot),
                  FP_ETORN);
        fake_memory_destroy(&memory);
    }
}
