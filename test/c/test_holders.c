/* test_holders.c - the refc binaries of processes in fake memory, by holder: on heaps and in
 * messages, shared and alone; lists that change or are damaged, which end the look and never make
 * it loop. */
#include "xray/holders.h"

#include <stddef.h>

#include "base/error.h"
#include "erts/process_terms.h"
#include "fake_queue.h"
#include "test.h"

#define BINARIES (FAKE_BASE + UINT64_C(0x900000000))
#define BINARY_BYTES 128u
#define BINARIES_MAX 8192u
#define PROCESSES 4u

struct fixture {
    struct fake_vm vm;
    struct fake_queue queue; /* of process 1 */
    struct fake_terms heap[PROCESSES];
    uint64_t pid[PROCESSES];
    uint64_t binaries;
    struct fp_holders holders;
};

static const unsigned releases[] = {25, 27, 29};

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 16, PROCESSES);
    fake_vm_add_atoms(&f->vm);
    for (uint32_t n = 0; n < PROCESSES; n++) {
        f->pid[n] = fake_spawn(&f->vm, n, FAKE_JIT + 64);
        f->heap[n] = (struct fake_terms){&f->vm.memory, fake_heap_at(n)};
    }
    fake_queue_create(&f->queue, &f->vm, 1, 1u << 20);
    fake_map(&f->vm.memory, BINARIES, (size_t)BINARY_BYTES * BINARIES_MAX);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_holders_free(&f->holders);
    fake_vm_destroy(&f->vm);
    free(f);
}

/* At all, or at one. */
static int look_at(struct fixture *f, const uint64_t *pid, uint64_t bytes, uint32_t time_ms)
{
    const struct fp_holders_options options = {.layout = &f->vm.layout,
                                               .memory = &f->vm.memory.reader,
                                               .bytes = bytes,
                                               .time_ms = time_ms,
                                               .pid = pid,
                                               .pids = pid != NULL};

    fp_holders_free(&f->holders);
    return fp_holders_look(&options, &f->holders);
}

static int look_with(struct fixture *f, uint64_t bytes, uint32_t time_ms)
{
    return look_at(f, NULL, bytes, time_ms);
}

static void look(struct fixture *f)
{
    CHECK_INT(look_with(f, 16u << 20, 10000), 0);
    CHECK_INT(f->holders.processes, PROCESSES);
}

static unsigned otp_of(const struct fixture *f)
{
    return f->vm.layout.release.otp;
}

/* A Binary of this size in a block that takes so many bytes: its address. */
static uint64_t put_binary(struct fixture *f, uint64_t refs, uint64_t size, uint64_t block)
{
    uint64_t at = BINARIES + BINARY_BYTES * f->binaries++ + 8;
    uint64_t refc = at + (otp_of(f) < 27 ? 8 : 16);

    fake_put_word(&f->vm.memory, at - 8, UINT64_C(5) << 40 | block | 2);
    fake_put_word(&f->vm.memory, refc, refs);
    fake_put_word(&f->vm.memory, refc + 8, size);
    return at;
}

/* Links an object that refers to a Binary in front of what `first` leads to. */
static void link_binary(struct fixture *f, struct fake_terms *heap, uint64_t first, uint64_t binary)
{
    uint64_t next = fake_word(&f->vm.memory, first), object;

    if (otp_of(f) < 27) {
        const uint64_t word[] = {1000, next, binary, binary + 24, 0};

        object = fake_boxed(heap, 5u << 6 | 0x20, word, 5);
    } else {
        const uint64_t word[] = {binary, next};

        object = fake_boxed(heap, 2u << 6 | 0x28, word, 2);
    }
    fake_put_word(&f->vm.memory, first, object - 2);
}

static uint64_t first_of(const struct fixture *f, uint32_t n)
{
    return fake_process_at(n) + f->vm.layout.release.offset[FP_FIELD_bin_vheap] - 8u;
}

static void hold(struct fixture *f, uint32_t n, uint64_t binary)
{
    link_binary(f, &f->heap[n], first_of(f, n), binary);
}

/* A message in a fragment that refers to these. */
static void send(struct fixture *f, enum fake_chain chain, const uint64_t *binary, size_t n)
{
    struct fake_terms *heap = &f->queue.heap;
    uint64_t at = fake_queue_add(&f->queue, chain, heap->at | 2, f->pid[0]), fragment = heap->at;

    fake_put_word(&f->vm.memory, at + 8, fragment);
    fake_put_word(&f->vm.memory, fragment + 24, 64);
    fake_put_word(&f->vm.memory, fragment + 32, 8 * n < 64 ? 8 * n : 64);
    heap->at += 40;
    for (size_t k = 0; k < n; k++)
        link_binary(f, heap, fragment + 8, binary[k]);
    heap->at = fragment + 40 + 64 * 8;
}

/* So many objects of process 0, of binaries with these references. */
static void hold_many(struct fixture *f, unsigned n, uint64_t refs)
{
    uint64_t list = 0;

    for (unsigned k = 0; k < n; k++) {
        const uint64_t word[] = {put_binary(f, refs, 100, 152), list};

        list = fake_boxed(&f->queue.heap, 2u << 6 | 0x28, word, 2) - 2;
    }
    fake_put_word(&f->vm.memory, first_of(f, 0), list);
}

static const struct fp_holder *holder(const struct fixture *f, uint32_t n)
{
    for (uint32_t k = 0; k < f->holders.holders; k++)
        if (f->holders.holder[k].pid == f->pid[n])
            return &f->holders.holder[k];
    RUN_FAIL("process %u holds nothing", n);
    return NULL;
}

/* ----------------------------------------------------------------- holders -- */

TEST_WITH_EACH(each_binary_counts_once_and_for_each_holder, create, 25, 27, 29)
{
    uint64_t own = put_binary(f, 2, 1000, 1056), both = put_binary(f, 2, 5000, 5064);

    hold(f, 0, own);
    hold(f, 0, own);
    hold(f, 0, both);
    hold(f, 2, both);
    look(f);
    CHECK_INT(f->holders.holders, 2);
    CHECK_INT(f->holders.table.used, 2);
    CHECK_INT(f->holders.bytes, 1056 + 5064);
    CHECK_INT(f->holders.moved, 0);
    CHECK_INT(f->holders.guessed, 0);
    CHECK_INT(holder(f, 0)->binaries, 2);
    CHECK_INT(holder(f, 0)->bytes, 1056 + 5064);
    CHECK_INT(holder(f, 0)->alone_bytes, 1056);
    CHECK_INT(holder(f, 2)->bytes, 5064);
    CHECK_INT(holder(f, 2)->alone_bytes, 0);
    CHECK(!holder(f, 0)->is_partial);
    CHECK(f->holders.holder[0].pid == f->pid[0]);
    CHECK_INT(f->holders.elsewhere, 0);
}

TEST_WITH(what_others_refer_to_is_not_alone, create(27))
{
    hold(f, 3, put_binary(f, 2, 1000, 1056));
    look(f);
    CHECK_INT(holder(f, 3)->alone_bytes, 0);
    CHECK_INT(f->holders.elsewhere, 1);
    CHECK_INT(f->holders.elsewhere_bytes, 1056);
}

TEST_WITH_EACH(binaries_of_messages_are_told_apart, create, 25, 27, 29)
{
    const uint64_t one[] = {put_binary(f, 1, 2000, 2048), put_binary(f, 2, 3000, 3048)};
    const uint64_t two[] = {put_binary(f, 1, 100, 152)};

    hold(f, 1, one[1]);
    send(f, FAKE_INNER, one, 2);
    fake_queue_add(&f->queue, FAKE_MIDDLE, FAKE_SIGNAL, 0);
    send(f, FAKE_MIDDLE, two, 1);
    send(f, FAKE_OUTER, NULL, 0);
    look(f);
    CHECK_INT(f->holders.holders, 1);
    CHECK_INT(holder(f, 1)->binaries, 3);
    CHECK_INT(holder(f, 1)->bytes, 2048 + 3048 + 152);
    CHECK_INT(holder(f, 1)->alone_bytes, 2048 + 3048 + 152);
    CHECK_INT(holder(f, 1)->message_binaries, 2);
    CHECK_INT(holder(f, 1)->message_bytes, 2048 + 152);
}

TEST_WITH_EACH(other_objects_of_the_list_are_passed, create, 25, 27, 29)
{
    uint64_t first = first_of(f, 2), last = put_binary(f, 1, 100, 152);
    uint64_t magic = put_binary(f, 1, 100, 152);

    fake_put_word(&f->vm.memory, magic, 1);
    hold(f, 2, last);
    for (unsigned k = 0; k < 2; k++) { /* a magic reference, a pid of another node */
        const uint64_t word[] = {put_binary(f, 1, 100, 152), fake_word(&f->vm.memory, first), 7};
        uint64_t header = 3u << 6 | (k == 0 ? 0x10 : 0x30);

        fake_put_word(&f->vm.memory, first, fake_boxed(&f->heap[2], header, word, 3) - 2);
    }
    hold(f, 2, magic);
    look(f);
    CHECK_INT(holder(f, 2)->binaries, 1);
    CHECK_INT(f->holders.bytes, 152);
}

TEST_WITH(a_block_without_a_header_is_calculated, create(25))
{
    uint64_t at = put_binary(f, 1, 1000, 1040);

    fake_put_word(&f->vm.memory, at - 8, 17);
    hold(f, 0, at);
    look(f);
    CHECK_INT(f->holders.guessed, 1);
    CHECK(f->holders.bytes >= 1000 + 32 && f->holders.bytes <= 1000 + 64);
}

TEST_WITH(one_of_some_pids_is_looked_at_alone, create(29))
{
    hold(f, 1, put_binary(f, 1, 1000, 1056));
    hold(f, 2, put_binary(f, 1, 2000, 2056));
    CHECK_INT(look_at(f, &f->pid[2], 16u << 20, 1000), 0);
    CHECK_INT(f->holders.holders, 1);
    CHECK_INT(holder(f, 2)->bytes, 2056);
}

TEST_WITH(many_binaries_are_read_in_pieces, create(29))
{
    hold_many(f, 3000, 1);
    look(f);
    CHECK_INT(holder(f, 0)->binaries, 3000);
    CHECK_INT(f->holders.bytes, 3000 * 152);
    CHECK(!holder(f, 0)->is_partial);
}

/* --------------------------------------------------------------- movements -- */

struct mover {
    struct fixture *f;
    unsigned at, reads, until;
    uint64_t address;
};

/* Before this read of the structure another object is in front. */
static void move(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct mover *mover = arg;

    (void)memory;
    if (address != mover->address || size < 512 || ++mover->reads < mover->at ||
        mover->reads > mover->until)
        return;
    fake_set(&mover->f->vm, 0, FP_FIELD_bin_vheap, mover->reads);
}

TEST_WITH(a_list_that_changes_is_read_again, create(27))
{
    struct mover mover = {f, 3, 0, 3, fake_process_at(0)};

    hold(f, 0, put_binary(f, 1, 1000, 1056));
    fake_hook(&f->vm.memory, move, &mover);
    look(f);
    CHECK_INT(mover.reads, 5); /* as a candidate; two attempts of two */
    CHECK_INT(f->holders.moved, 0);
    CHECK_INT(holder(f, 0)->bytes, 1056);
    CHECK(!holder(f, 0)->is_partial);
}

TEST_WITH(a_list_that_always_changes_is_counted_and_not_told, create(27))
{
    struct mover mover = {f, 1, 0, 1000, fake_process_at(0)};

    hold(f, 0, put_binary(f, 1, 1000, 1056));
    hold(f, 2, put_binary(f, 1, 2000, 2056));
    fake_hook(&f->vm.memory, move, &mover);
    look(f);
    CHECK_INT(f->holders.moved, 1);
    CHECK_INT(f->holders.holders, 1);
    CHECK_INT(holder(f, 2)->bytes, 2056);
    CHECK_INT(f->holders.bytes, 2056);
}

TEST_WITH(what_is_read_again_is_no_second_reference, create(29))
{
    struct mover mover = {f, 4, 0, 4, fake_process_at(0)};

    hold_many(f, 1500, 2);
    fake_hook(&f->vm.memory, move, &mover);
    look(f);
    CHECK_INT(mover.reads, 7); /* as a candidate; two attempts of three */
    CHECK_INT(holder(f, 0)->binaries, 1500);
    CHECK(holder(f, 0)->is_partial);
    CHECK_INT(holder(f, 0)->alone_bytes, 0);
    CHECK_INT(f->holders.elsewhere, 1500);
}

/* Before this read the process has exited. */
static void leave(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct mover *mover = arg;

    (void)memory;
    if (address == mover->address && size >= 512 && ++mover->reads == mover->at)
        fake_set(&mover->f->vm, 0, FP_FIELD_state, FP_PSFLG_FREE);
}

TEST_WITH(a_process_that_exits_meanwhile_is_partial, create(29))
{
    struct mover mover = {f, 4, 0, 0, fake_process_at(0)};

    hold_many(f, 1500, 1);
    fake_hook(&f->vm.memory, leave, &mover);
    look(f);
    CHECK_INT(holder(f, 0)->binaries, 1024);
    CHECK(holder(f, 0)->is_partial);
}

TEST_WITH(a_process_that_collects_is_not_told, create(25))
{
    hold(f, 0, put_binary(f, 1, 1000, 1056));
    fake_set(&f->vm, 0, FP_FIELD_state, FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING | FP_PSFLG_GC);
    look(f);
    CHECK_INT(f->holders.moved, 1);
    CHECK_INT(f->holders.holders, 0);
}

TEST_WITH(a_binary_that_was_freed_is_none, create(29))
{
    hold(f, 0, put_binary(f, 0, 1000, 1056));
    look(f);
    CHECK_INT(f->holders.moved, 1);
    CHECK_INT(f->holders.table.used, 0);
}

TEST_WITH(a_running_process_is_told_where_its_list_stays, create(29))
{
    hold(f, 0, put_binary(f, 1, 1000, 1056));
    fake_set(&f->vm, 0, FP_FIELD_state, FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING);
    look(f);
    CHECK_INT(holder(f, 0)->bytes, 1056);
    CHECK_INT(f->holders.moved, 0);
}

/* ------------------------------------------------------------------ limits -- */

TEST_WITH(more_than_the_budget_is_refused, create(29))
{
    hold_many(f, 3000, 1);
    CHECK_INT(look_with(f, 64u << 10, 10000), FP_EFULL);
    CHECK_INT(look_with(f, 4u << 20, 10000), 0);
    CHECK_INT(f->holders.table.used, 3000);
}

#define LONG_MS (10u * 60 * 1000)
#define LONG_LIST (FAKE_BASE + UINT64_C(0xa00000000))
#define LONG_OBJECTS (1u << 17)

/* Objects that refer to pids of other nodes; the last one leads to the one at `back`. */
static void put_circle(struct fixture *f, uint64_t first, unsigned n, unsigned back)
{
    struct fake_terms *heap = &f->queue.heap;
    uint64_t start = heap->at;

    for (unsigned k = 0; k < n; k++) {
        const uint64_t word[] = {7, start + 32 * (k + 1 < n ? k + 1 : back), 7};

        (void)fake_boxed(heap, 3u << 6 | 0x30, word, 3);
    }
    fake_put_word(&f->vm.memory, first, start);
}

TEST_WITH(what_the_time_is_over_for_is_late, create(29))
{
    hold(f, 0, put_binary(f, 1, 1000, 1056));
    hold(f, 2, put_binary(f, 1, 2000, 2056));
    CHECK_INT(look_with(f, 16u << 20, 0), 0);
    CHECK_INT(f->holders.processes, PROCESSES);
    CHECK_INT(f->holders.late, 2);
    CHECK_INT(f->holders.holders, 0);
    CHECK_INT(f->holders.moved, 0);
}

/* More objects than are passed between two looks at the time, of a process that was asked for. */
TEST(a_list_that_is_longer_than_the_time_is_not_told)
{
    for (unsigned ms = 0; ms <= LONG_MS; ms += LONG_MS) {
        struct fixture *f = create(29);
        f->queue.heap = (struct fake_terms){&f->vm.memory, LONG_LIST};
        fake_map(&f->vm.memory, LONG_LIST, 32u * LONG_OBJECTS);
        put_circle(f, first_of(f, 0), LONG_OBJECTS, 0);
        fake_put_word(&f->vm.memory, f->queue.heap.at - 16, 0);
        CHECK_INT(look_at(f, &f->pid[0], 16u << 20, ms), 0);
        CHECK_INT(f->holders.moved, ms == 0);
        destroy(f);
    }
}

/* Where it took the time, this test would. */
TEST(a_circle_is_seen_long_before_the_time_is_over)
{
    for (unsigned n = 1; n < 300; n += n / 3 + 1) {
        struct fixture *f = create(29);

        put_circle(f, first_of(f, 0), n, n / 2);
        hold(f, 2, put_binary(f, 1, 2000, 2056));
        CHECK_INT(look_with(f, 16u << 20, LONG_MS), 0);
        CHECK_INT(f->holders.holders, 1);
        CHECK_INT(f->holders.moved, 1);
        destroy(f);
    }
}

TEST_WITH(a_long_list_is_no_circle, create(29))
{
    put_circle(f, first_of(f, 0), 10000, 0);
    fake_put_word(&f->vm.memory, f->queue.heap.at - 16, 0);
    look(f);
    CHECK_INT(f->holders.moved, 0);
}

TEST_WITH(a_circle_of_messages_is_seen_too, create(29))
{
    uint64_t first, last;

    send(f, FAKE_INNER, NULL, 0);
    first = fake_word(&f->vm.memory, fake_process_at(1) + f->vm.layout.release.queue.inner);
    send(f, FAKE_INNER, NULL, 0);
    last = fake_word(&f->vm.memory, first);
    send(f, FAKE_INNER, NULL, 0);
    fake_put_word(&f->vm.memory, last, first);
    CHECK_INT(look_with(f, 16u << 20, LONG_MS), 0);
    CHECK_INT(f->holders.moved, 1);
}

TEST(a_layout_whose_places_lie_outside_is_refused)
{
    static const struct {
        enum fp_field field;
        uint16_t at;
    } wrong[] = {{FP_FIELD_heap, 72},
                 {FP_FIELD_i, 64},
                 {FP_FIELD_mbuf_size, 16},
                 {FP_FIELD_bin_vheap, 0},
                 {FP_FIELD_dictionary, UINT16_MAX - 8},
                 {FP_FIELD_hend, UINT16_MAX - 8}};
    static const size_t queue[] = {
        offsetof(struct fp_queue_offsets, inner), offsetof(struct fp_queue_offsets, middle),
        offsetof(struct fp_queue_offsets, outer), offsetof(struct fp_queue_offsets, buffers)};
    const size_t fields = sizeof wrong / sizeof *wrong;

    for (size_t r = 0; r < 3 * (fields + sizeof queue / sizeof *queue); r++) {
        struct fixture *f = create(releases[r % 3]);
        struct fp_release *release = &f->vm.layout.release;
        uint16_t outside = (uint16_t)(release->process_size - 7);
        struct fp_process_terms view;

        CHECK(fp_process_terms_fit(&f->vm.layout));
        if (r / 3 < fields)
            release->offset[wrong[r / 3].field] = wrong[r / 3].at;
        else
            memcpy((char *)&release->queue + queue[r / 3 - fields], &outside, sizeof outside);
        CHECK_INT(fp_process_terms_read(&f->vm.layout, &f->vm.memory.reader, f->pid[0],
                                        fake_process_at(0), &view),
                  FP_ELAYOUT);
        CHECK_INT(look_with(f, 16u << 20, LONG_MS), FP_EUNSUPPORTED);
        destroy(f);
    }
}

TEST(damaged_lists_end)
{
    uint64_t seed = 88172645463325252u;
    unsigned told = 0;

    for (unsigned round = 0; round < 600; round++) {
        struct fixture *f = create(releases[round % 3]);
        uint64_t binary[8];

        for (unsigned k = 0; k < 8; k++)
            hold(f, k % PROCESSES, binary[k] = put_binary(f, 2, 100 * k, 200 * k));
        send(f, FAKE_INNER, binary, 4);
        for (unsigned k = 0; k < 4; k++) {
            uint64_t word = run_random(&seed), at = run_random(&seed);

            word = (at & 1) != 0   ? fake_heap_at((uint32_t)word % 4) + (word >> 8) % 600
                   : (at & 2) != 0 ? BINARIES + (word >> 8) % 4096
                                   : word;
            at >>= 4;
            fake_put_word(&f->vm.memory,
                          (at & 1) != 0 ? fake_heap_at((uint32_t)at % 4) + 8 * (at >> 8) % 128
                                        : FAKE_MISC + 8 * ((at >> 8) % 64),
                          word);
        }
        CHECK_INT(look_with(f, 16u << 20, LONG_MS), 0);
        told += f->holders.holders == PROCESSES;
        CHECK(f->holders.table.used <= 512);
        destroy(f);
    }
    CHECK(told > 0);
}
