/* test_mailbox.c - mailboxes in fake memory: counted by sender and tag while they stand still, and
 * what remains certain while they move. */
#include "base/error.h"
#include "fake_queue.h"
#include "run.h"
#include "waits/mailbox.h"

#define SENDER(n) ((uint64_t)(n) << 4 | 0x03)
#define SIZE (1u << 22)

struct fixture {
    struct fake_vm vm;
    struct fake_queue queue;
    uint64_t pid, get, put;
    struct fp_mailbox *mailbox;
    const struct fp_mailbox_answer *answer;
    unsigned reads; /* of the structure, for hooks */
};

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 16, 4);
    fake_vm_add_atoms(&f->vm);
    f->pid = fake_spawn(&f->vm, 1, 0);
    f->get = fake_atom_term(&f->vm, "get", 3);
    f->put = fake_atom_term(&f->vm, "put", 3);
    fake_queue_create(&f->queue, &f->vm, 1, SIZE);
    return f;
}

static void destroy(struct fixture *f)
{
    if (f->mailbox != NULL)
        fp_mailbox_close(f->mailbox);
    fake_vm_destroy(&f->vm);
    free(f);
}

static void look(struct fixture *f, uint32_t time_ms)
{
    const struct fp_mailbox_limits limits = {3, time_ms, 100000};
    unsigned steps = 0;

    CHECK_INT(fp_mailbox_open(&f->mailbox, &f->vm.layout, &f->vm.memory.reader, f->pid, &limits),
              0);
    while (!fp_mailbox_step(f->mailbox, 65536))
        CHECK(++steps < 1000);
    f->answer = fp_mailbox_answer(f->mailbox);
}

static void add(struct fixture *f, enum fake_chain chain, uint64_t tag, uint64_t from, uint32_t n)
{
    while (n-- > 0)
        fake_queue_add(&f->queue, chain, FAKE_TUPLE(&f->queue.heap, tag, FAKE_SMALL(7)), from);
}

static uint64_t count_of(const struct fp_tally *tally, uint64_t key)
{
    for (uint32_t k = 0; k < tally->used; k++)
        if (tally->row[k].key[0] == key)
            return tally->row[k].count;
    return 0;
}

/* ---------------------------------------------------------- that stand still -- */

static void an_empty_mailbox_is_complete(void)
{
    struct fixture *f = create(27);

    look(f, 1000);
    CHECK(f->answer->is_complete);
    CHECK(!f->answer->has_moved);
    CHECK_INT(f->answer->messages, 0);
    CHECK_INT(f->answer->senders.used, 0);
    destroy(f);
}

static void an_empty_mailbox_of_a_process_that_runs_is_complete(void)
{
    struct fixture *f = create(27);

    fake_set(&f->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING);
    look(f, 1000);
    CHECK(f->answer->is_complete);
    CHECK_INT(f->answer->messages, 0);
    destroy(f);
}

static void messages_are_counted_by_sender_and_tag(void)
{
    static const unsigned releases[] = {25, 27, 29};

    for (size_t r = 0; r < 3; r++) {
        struct fixture *f = create(releases[r]);
        struct fp_mailbox_tag tag;

        add(f, FAKE_INNER, f->get, SENDER(5), 10);
        add(f, FAKE_MIDDLE, f->put, SENDER(5), 4);
        fake_queue_add(&f->queue, FAKE_MIDDLE, FAKE_SIGNAL, 0);
        add(f, FAKE_OUTER, f->get, SENDER(6), 3000);
        look(f, 10000);
        CHECK(f->answer->is_complete);
        CHECK_INT(f->answer->messages, 3014);
        CHECK_INT(f->answer->signals, 1);
        CHECK_INT(f->answer->senders.row[0].key[0], SENDER(6));
        CHECK_INT(count_of(&f->answer->senders, SENDER(6)), 3000);
        CHECK_INT(count_of(&f->answer->senders, SENDER(5)), 14);
        CHECK_INT(count_of(&f->answer->tags, f->get), 3010);
        CHECK_INT(count_of(&f->answer->tags, f->put), 4);
        tag = fp_mailbox_tag_of(&f->answer->tags.row[0]);
        CHECK_INT(tag.kind, FP_MESSAGE_info);
        CHECK_INT(tag.tag.arity, 2);
        CHECK_INT(f->answer->oldest_count, 3);
        CHECK_INT(f->answer->oldest[0].from, SENDER(5));
        CHECK_INT(f->answer->on_heap, 3014);
        CHECK_INT(f->answer->bytes, 3014 * 40);
        destroy(f);
    }
}

static void undecoded_messages_have_a_node_and_no_tag(void)
{
    struct fixture *f = create(29);

    fake_queue_add(&f->queue, FAKE_INNER, 0, f->put);
    look(f, 1000);
    CHECK_INT(f->answer->undecoded, 1);
    CHECK_INT(count_of(&f->answer->senders, f->put), 1);
    CHECK_INT(fp_mailbox_tag_of(&f->answer->tags.row[0]).tag.shape, FP_SHAPE_UNKNOWN);
    destroy(f);
}

static void more_senders_than_there_is_room_for_are_counted_together(void)
{
    struct fixture *f = create(27);

    for (uint64_t n = 0; n < 60000; n++)
        fake_queue_add(&f->queue, FAKE_INNER, f->get, SENDER(n));
    look(f, 60000);
    CHECK(f->answer->is_complete);
    CHECK_INT(f->answer->senders.used + f->answer->senders.others, 60000);
    CHECK(f->answer->senders.others > 0);
    destroy(f);
}

static void a_process_that_is_not_there_is_gone(void)
{
    const struct fp_mailbox_limits limits = {3, 10, 100000};
    struct fixture *f = create(27);

    CHECK_INT(fp_mailbox_open(&f->mailbox, &f->vm.layout, &f->vm.memory.reader,
                              f->pid + (UINT64_C(1) << 40), &limits),
              FP_EGONE);
    CHECK(f->mailbox == NULL);
    destroy(f);
}

/* ------------------------------------------------------------ torn for good -- */

static void expect_torn(struct fixture *f)
{
    look(f, 5000);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, FP_ETORN);
    destroy(f);
}

static void a_chain_in_a_circle_ends(void)
{
    for (uint32_t n = 1; n < 40; n += 19) {
        struct fixture *f = create(27);
        uint64_t first = f->queue.heap.at, last;

        for (uint32_t k = 0; k < n; k++)
            last = fake_queue_add(&f->queue, FAKE_OUTER, f->get, SENDER(1));
        fake_put_word(&f->vm.memory, last, first);
        /* An end that is never reached. */
        fake_put_word(&f->vm.memory, fake_queue_at(&f->queue, FAKE_OUTER) + 8, FAKE_MISC + 0x8000);
        expect_torn(f);
    }
}

static void a_chain_with_another_number_is_torn(void)
{
    struct fixture *f = create(25);

    add(f, FAKE_INNER, f->get, SENDER(1), 5);
    fake_set(&f->vm, 1, FP_FIELD_inner_len, 6);
    expect_torn(f);
}

static void a_chain_that_ends_early_is_torn(void)
{
    struct fixture *f = create(27);
    uint64_t third;

    add(f, FAKE_OUTER, f->get, SENDER(1), 2);
    third = fake_queue_add(&f->queue, FAKE_OUTER, f->get, SENDER(1));
    add(f, FAKE_OUTER, f->get, SENDER(1), 2);
    fake_put_word(&f->vm.memory, third, 0);
    expect_torn(f);
}

static void a_node_in_a_hole_is_torn(void)
{
    struct fixture *f = create(27);
    uint64_t third;

    add(f, FAKE_OUTER, f->get, SENDER(1), 2);
    third = fake_queue_add(&f->queue, FAKE_OUTER, f->get, SENDER(1));
    add(f, FAKE_OUTER, f->get, SENDER(1), 2);
    fake_put_word(&f->vm.memory, third, FAKE_MISC + 2 * SIZE);
    look(f, 1000);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, FP_EFAULT);
    CHECK_INT(f->answer->messages, 0);
    destroy(f);
}

/* The oldest message is not found behind them: what the process has taken is not known. */
static void more_signals_at_the_head_than_are_read_are_torn(void)
{
    struct fixture *f = create(27);

    for (unsigned n = 0; n < 300; n++)
        fake_queue_add(&f->queue, FAKE_MIDDLE, FAKE_SIGNAL, 0);
    add(f, FAKE_MIDDLE, f->get, SENDER(1), 10);
    look(f, 5000);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, FP_ETORN);
    CHECK_INT(f->answer->messages, 0);
    CHECK_INT(f->answer->signals, 0);
    destroy(f);
}

/* ------------------------------------------------------------------ moving -- */

/* Not the look-up in the process table. */
static int is_structure(const struct fixture *f, uint64_t address, size_t size)
{
    return address == fake_process_at(1) && size == f->vm.layout.release.process_size;
}

/* The process has run. */
static void run(struct fixture *f)
{
    fake_set(&f->vm, 1, FP_FIELD_reds, f->reads);
}

/* The process takes `taken` messages at its n-th reading. */
static unsigned take_at, taken;

static void take(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;

    (void)memory;
    if (is_structure(f, address, size) && ++f->reads == take_at) {
        for (unsigned n = 0; n < taken; n++)
            fake_queue_take(&f->queue);
        run(f);
    }
}

static struct fixture *taking(unsigned at, unsigned n)
{
    struct fixture *f = create(27);

    add(f, FAKE_INNER, f->get, SENDER(1), 3000);
    add(f, FAKE_INNER, f->put, SENDER(2), 2000);
    take_at = at;
    taken = n;
    f->vm.memory.before_read = take;
    f->vm.memory.arg = f;
    return f;
}

/* Readings 1 and 2 are before the first chunk of 2,048, 3 and 4 behind it, 5 and 6 behind the
 * second. */
static void what_is_taken_while_it_is_read_is_not_counted(void)
{
    struct fixture *f = taking(3, 100);

    look(f, 10000);
    CHECK(f->answer->has_moved);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, 0);
    CHECK_INT(f->answer->taken, 100);
    CHECK_INT(f->answer->doubtful, 100);
    CHECK_INT(f->answer->messages, 4900);
    CHECK_INT(count_of(&f->answer->senders, SENDER(1)), 2900);
    CHECK_INT(count_of(&f->answer->senders, SENDER(2)), 2000);
    destroy(f);
}

static void what_was_read_before_it_is_taken_is_counted(void)
{
    struct fixture *f = taking(5, 700);

    look(f, 10000);
    CHECK(f->answer->has_moved);
    CHECK(f->answer->has_run);
    CHECK(f->answer->has_ended);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, 0);
    CHECK_INT(f->answer->doubtful, 0);
    CHECK_INT(f->answer->taken, 700);
    CHECK_INT(f->answer->messages, 5000);
    destroy(f);
}

/* It takes all messages, and the next one gets the memory of the first. */
static void reuse(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;

    (void)memory;
    if (is_structure(f, address, size) && ++f->reads == 3) {
        uint64_t inner = fake_queue_at(&f->queue, FAKE_INNER);
        uint64_t first = fake_word(&f->vm.memory, inner);

        fake_put_word(&f->vm.memory, first, 0);
        fake_put_word(&f->vm.memory, inner + 8, first);
        run(f);
    }
}

static void a_small_queue_whose_process_ran_is_read_again(void)
{
    struct fixture *f = create(25);

    add(f, FAKE_INNER, f->get, SENDER(1), 1);
    f->vm.memory.before_read = reuse;
    f->vm.memory.arg = f;
    look(f, 1000);
    CHECK(f->answer->is_complete);
    CHECK_INT(f->answer->attempts, 2);
    destroy(f);
}

static void run_always(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;

    (void)memory;
    if (is_structure(f, address, size) && ++f->reads)
        run(f);
}

static void a_mailbox_of_a_process_that_always_runs_is_not_complete(void)
{
    struct fixture *f = create(29);

    add(f, FAKE_INNER, f->get, SENDER(1), 10);
    f->vm.memory.before_read = run_always;
    f->vm.memory.arg = f;
    look(f, 1000);
    CHECK(!f->answer->is_complete);
    CHECK(f->answer->has_run);
    CHECK(f->answer->has_ended);
    CHECK_INT(f->answer->err, 0);
    CHECK_INT(f->answer->messages, 10);
    destroy(f);
}

#define BUFFERS (FAKE_MISC + 0x100000)
#define QUEUE_IN_BUFFER 40u

/* All messages are in one of the buffers of senders. */
static struct fixture *buffered(void)
{
    struct fixture *f = create(27);
    uint64_t first = f->queue.heap.at, last = 0;

    for (unsigned n = 0; n < 5; n++)
        last = fake_queue_add(&f->queue, FAKE_OUTER, f->get, SENDER(1));
    fake_put_word(&f->vm.memory, fake_queue_at(&f->queue, FAKE_OUTER), 0);
    fake_put_word(&f->vm.memory, fake_queue_at(&f->queue, FAKE_OUTER) + 8,
                  fake_queue_at(&f->queue, FAKE_OUTER));
    for (uint64_t k = 0; k < FP_QUEUE_BUFFERS; k++) {
        uint64_t at = BUFFERS + 128 * k + QUEUE_IN_BUFFER;

        fake_put_word(&f->vm.memory, at, k == 7 ? first : 0);
        fake_put_word(&f->vm.memory, at + 8, k == 7 ? last : at);
    }
    fake_put_word(&f->vm.memory, fake_process_at(1) + f->vm.layout.release.queue.buffers, BUFFERS);
    return f;
}

static void messages_in_buffers_alone_are_counted(void)
{
    struct fixture *f = buffered();

    look(f, 1000);
    CHECK(f->answer->is_complete);
    CHECK_INT(f->answer->messages, 5);
    destroy(f);
}

/* It may have taken them, and others have come. */
static void messages_in_buffers_alone_are_torn_when_the_process_ran(void)
{
    struct fixture *f = buffered();

    f->vm.memory.before_read = run_always;
    f->vm.memory.arg = f;
    look(f, 5000);
    CHECK_INT(f->answer->err, FP_ETORN);
    CHECK_INT(f->answer->messages, 0);
    destroy(f);
}

static void empty_buffer(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;
    uint64_t at = BUFFERS + 128 * 7 + QUEUE_IN_BUFFER;

    (void)memory;
    if (is_structure(f, address, size) && ++f->reads == 3) {
        fake_put_word(&f->vm.memory, at, 0);
        fake_put_word(&f->vm.memory, at + 8, at);
    }
}

static void buffers_that_were_emptied_are_read_again(void)
{
    struct fixture *f = buffered();

    f->vm.memory.before_read = empty_buffer;
    f->vm.memory.arg = f;
    look(f, 1000);
    CHECK_INT(f->answer->attempts, 2);
    CHECK_INT(f->answer->messages, 0);
    CHECK(f->answer->is_complete);
    destroy(f);
}

static void a_queue_that_is_emptied_is_read_again(void)
{
    struct fixture *f = taking(3, 5000);

    look(f, 10000);
    CHECK(f->answer->is_complete);
    CHECK(f->answer->has_moved);
    CHECK_INT(f->answer->messages, 0);
    CHECK_INT(f->answer->attempts, 2);
    destroy(f);
}

static void collect(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;

    (void)memory;
    if (is_structure(f, address, size) && ++f->reads == 3)
        fake_set(&f->vm, 1, FP_FIELD_gen_gcs, 9);
}

static void a_collection_moves_terms_on_the_heap(void)
{
    struct fixture *f = create(25);

    add(f, FAKE_INNER, f->get, SENDER(1), 10);
    f->vm.memory.before_read = collect;
    f->vm.memory.arg = f;
    look(f, 1000);
    CHECK_INT(f->answer->attempts, 2);
    CHECK(f->answer->is_complete);
    destroy(f);
}

static void a_process_that_collects_for_ever_is_torn(void)
{
    struct fixture *f = create(25);

    add(f, FAKE_INNER, f->get, SENDER(1), 10);
    fake_set(&f->vm, 1, FP_FIELD_state, FP_PSFLG_GC);
    expect_torn(f);
}

static void leave(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;

    (void)memory;
    if (is_structure(f, address, size) && ++f->reads == 5)
        fake_exit(&f->vm, 1);
}

static void a_process_that_exits_leaves_what_was_certain(void)
{
    struct fixture *f = taking(0, 0);

    f->vm.memory.before_read = leave;
    look(f, 1000);
    CHECK_INT(f->answer->err, FP_EGONE);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->messages, 2048);
    destroy(f);
}

static void the_time_limit_leaves_what_was_certain(void)
{
    struct fixture *f = taking(0, 0);

    look(f, 0);
    CHECK_INT(f->answer->err, 0);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->messages, 2048);
    CHECK_INT(f->answer->expected, 5000);
    destroy(f);
}

/* ------------------------------------------------------------------ chance -- */

static void random_queues_harm_nothing(void)
{
    uint64_t random = 17;

    for (unsigned round = 0; round < 300; round++) {
        struct fixture *f = create(round % 2 ? 25 : 29);
        uint64_t from = FAKE_MISC;

        add(f, FAKE_INNER, f->get, SENDER(1), 20);
        add(f, FAKE_OUTER, f->put, SENDER(2), 20);
        for (unsigned n = 0; n < 4; n++) {
            uint64_t at = from + 8 * (run_random(&random) % ((f->queue.heap.at - from) / 8));
            uint64_t word = run_random(&random);

            if (n % 2 == 0)
                word = from + 8 * (word % ((f->queue.heap.at - from) / 8)) + (word >> 60);
            fake_put_word(&f->vm.memory, at, word);
        }
        look(f, 3);
        CHECK(f->answer->messages <= 40);
        destroy(f);
    }
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    RUN(an_empty_mailbox_is_complete);
    RUN(an_empty_mailbox_of_a_process_that_runs_is_complete);
    RUN(messages_are_counted_by_sender_and_tag);
    RUN(undecoded_messages_have_a_node_and_no_tag);
    RUN(more_senders_than_there_is_room_for_are_counted_together);
    RUN(a_process_that_is_not_there_is_gone);
    RUN(a_chain_in_a_circle_ends);
    RUN(a_chain_with_another_number_is_torn);
    RUN(a_chain_that_ends_early_is_torn);
    RUN(a_node_in_a_hole_is_torn);
    RUN(more_signals_at_the_head_than_are_read_are_torn);
    RUN(what_is_taken_while_it_is_read_is_not_counted);
    RUN(what_was_read_before_it_is_taken_is_counted);
    RUN(a_small_queue_whose_process_ran_is_read_again);
    RUN(a_mailbox_of_a_process_that_always_runs_is_not_complete);
    RUN(messages_in_buffers_alone_are_counted);
    RUN(messages_in_buffers_alone_are_torn_when_the_process_ran);
    RUN(buffers_that_were_emptied_are_read_again);
    RUN(a_queue_that_is_emptied_is_read_again);
    RUN(a_collection_moves_terms_on_the_heap);
    RUN(a_process_that_collects_for_ever_is_torn);
    RUN(a_process_that_exits_leaves_what_was_certain);
    RUN(the_time_limit_leaves_what_was_certain);
    RUN(random_queues_harm_nothing);
    return RUN_END();
}
