/* test_process.c - a copied process structure to what process_info/2 would say, and the figures
 * that no process can have. */
#include "base/error.h"
#include "erts/process.h"
#include "run.h"

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

static void every_metric_is_what_process_info_says(void)
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

static void without_an_old_heap_its_sizes_are_0(void)
{
    struct fixture f = plain(27);

    set(&f, FP_FIELD_old_heap, 0);
    set(&f, FP_FIELD_old_htop, 12345); /* whatever stands there */
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_old_heap_size], 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_old_heap_block_size], 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_total_heap_size], 233 + 50);
}

static void an_in_queue_below_nothing_is_no_less_than_nothing(void)
{
    struct fixture f = plain(29);

    set(&f, FP_FIELD_outer_len, (uint64_t)-2);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_message_queue_len], 3);
    set(&f, FP_FIELD_outer_len, (uint64_t)-20);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_message_queue_len], 0);
}

static void full_and_empty_heaps_are_whole(void)
{
    struct fixture f = plain(27);

    set(&f, FP_FIELD_htop, HEAP);
    set(&f, FP_FIELD_high_water, HEAP);
    set(&f, FP_FIELD_stop, HEAP + 8 * 233);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_stack_size], 0);
    set(&f, FP_FIELD_htop, HEAP + 8 * 233);
    set(&f, FP_FIELD_high_water, HEAP + 8 * 233);
    set(&f, FP_FIELD_stop, HEAP);
    CHECK_INT(decode(&f), 0);
    CHECK_INT(f.snapshot.value[FP_METRIC_heap_size], 233);
}

static void figures_that_no_process_has_are_torn(void)
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

static void flags_are_a_status_in_the_order_of_erts(void)
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

static void only_a_normal_scheduler_makes_the_stack_stale(void)
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

static void fields_are_read_in_their_widths(void)
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

static void random_bytes_are_torn_or_make_sense(void)
{
    struct fixture f = plain(29);
    uint64_t random = 1;
    int whole = 0;

    for (int i = 0; i < 300000; i++) {
        int err;

        if (i % 8 == 0)
            f = plain(29);
        for (uint32_t n = run_below(&random, 4); n > 0; n--)
            set(&f, (enum fp_field)run_below(&random, FP_FIELD_COUNT),
                run_below(&random, 2) == 0 ? run_random(&random) >> run_below(&random, 64)
                                           : HEAP + 8 * run_below(&random, 400));
        err = fp_process_decode(&f.layout, f.bytes, &f.snapshot);
        CHECK(err == 0 || err == FP_ETORN);
        for (int m = 0; err == 0 && m < FP_METRIC_COUNT; m++)
            CHECK(f.snapshot.value[m] >= 0);
        if (err == 0) {
            CHECK(f.snapshot.stop <= f.snapshot.hend);
            CHECK((f.snapshot.hend - f.snapshot.stop) % 8 == 0);
            whole++;
        }
    }
    CHECK(whole > 10000 && whole < 290000);
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    RUN(every_metric_is_what_process_info_says);
    RUN(without_an_old_heap_its_sizes_are_0);
    RUN(an_in_queue_below_nothing_is_no_less_than_nothing);
    RUN(full_and_empty_heaps_are_whole);
    RUN(figures_that_no_process_has_are_torn);
    RUN(flags_are_a_status_in_the_order_of_erts);
    RUN(only_a_normal_scheduler_makes_the_stack_stale);
    RUN(fields_are_read_in_their_widths);
    RUN(random_bytes_are_torn_or_make_sense);
    return RUN_END();
}
