/* test_mailbox.c - mailboxes in fake memory: counted by sender and tag while they stand still, and
 * what remains certain while they move. */
#include "waits/mailbox.c"

#include "broken.h"
#include "fake_queue.h"
#include "test.h"

#define SENDER(n) ((uint64_t)(n) << 4 | 0x03)
#define SIZE (1u << 22)

struct fixture {
    struct fake_vm vm;
    struct fake_queue queue;
    uint64_t pid, get, put;
    struct fp_mailbox *mailbox;
    const struct fp_mailbox_answer *answer;
    unsigned reads; /* of the structure */
    unsigned act_at, taken;
    void (*act)(struct fixture *f);
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

TEST_WITH(an_empty_mailbox_is_complete, create(27))
{
    look(f, 1000);
    CHECK(f->answer->is_complete);
    CHECK(!f->answer->has_moved);
    CHECK_INT(f->answer->messages, 0);
    CHECK_INT(f->answer->senders.used, 0);
}

TEST_WITH(an_empty_mailbox_of_a_process_that_runs_is_complete, create(27))
{
    fake_set(&f->vm, 1, FP_FIELD_state, FP_PSFLG_RUNNING);
    look(f, 1000);
    CHECK(f->answer->is_complete);
    CHECK_INT(f->answer->messages, 0);
}

TEST_WITH_EACH(messages_are_counted_by_sender_and_tag, create, 25, 27, 29)
{
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
}

TEST_WITH(undecoded_messages_have_a_node_and_no_tag, create(29))
{
    fake_queue_add(&f->queue, FAKE_INNER, 0, f->put);
    look(f, 1000);
    CHECK_INT(f->answer->undecoded, 1);
    CHECK_INT(count_of(&f->answer->senders, f->put), 1);
    CHECK_INT(fp_mailbox_tag_of(&f->answer->tags.row[0]).tag.shape, FP_SHAPE_UNKNOWN);
}

TEST_WITH(more_senders_than_there_is_room_for_are_counted_together, create(27))
{
    for (uint64_t n = 0; n < 60000; n++)
        fake_queue_add(&f->queue, FAKE_INNER, f->get, SENDER(n));
    look(f, 60000);
    CHECK(f->answer->is_complete);
    CHECK_INT(f->answer->senders.used + f->answer->senders.others, 60000);
    CHECK(f->answer->senders.others > 0);
}

TEST_WITH(a_process_that_is_not_there_is_gone, create(27))
{
    const struct fp_mailbox_limits limits = {3, 10, 100000};

    CHECK_INT(fp_mailbox_open(&f->mailbox, &f->vm.layout, &f->vm.memory.reader,
                              f->pid + (UINT64_C(1) << 40), &limits),
              FP_EGONE);
    CHECK(f->mailbox == NULL);
}

/* ------------------------------------------------------------ torn for good -- */

static void expect_torn(struct fixture *f)
{
    look(f, 5000);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, FP_ETORN);
}

static struct fixture *circle(unsigned n)
{
    struct fixture *f = create(27);
    uint64_t first = f->queue.heap.at, last = 0;

    while (n-- > 0)
        last = fake_queue_add(&f->queue, FAKE_OUTER, f->get, SENDER(1));
    fake_put_word(&f->vm.memory, last, first);
    /* An end that is never reached. */
    fake_put_word(&f->vm.memory, fake_queue_at(&f->queue, FAKE_OUTER) + 8, FAKE_MISC + 0x8000);
    return f;
}

TEST_WITH_EACH(a_chain_in_a_circle_ends, circle, 1, 20, 39)
{
    expect_torn(f);
}

TEST_WITH(a_chain_with_another_number_is_torn, create(25))
{
    add(f, FAKE_INNER, f->get, SENDER(1), 5);
    fake_set(&f->vm, 1, FP_FIELD_inner_len, 6);
    expect_torn(f);
}

TEST_WITH(a_chain_that_ends_early_is_torn, create(27))
{
    uint64_t third;

    add(f, FAKE_OUTER, f->get, SENDER(1), 2);
    third = fake_queue_add(&f->queue, FAKE_OUTER, f->get, SENDER(1));
    add(f, FAKE_OUTER, f->get, SENDER(1), 2);
    fake_put_word(&f->vm.memory, third, 0);
    expect_torn(f);
}

TEST_WITH(a_node_in_a_hole_is_torn, create(27))
{
    uint64_t third;

    add(f, FAKE_OUTER, f->get, SENDER(1), 2);
    third = fake_queue_add(&f->queue, FAKE_OUTER, f->get, SENDER(1));
    add(f, FAKE_OUTER, f->get, SENDER(1), 2);
    fake_put_word(&f->vm.memory, third, FAKE_MISC + 2 * SIZE);
    look(f, 1000);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, FP_EFAULT);
    CHECK_INT(f->answer->messages, 0);
}

/* The oldest message is not found behind them: what the process has taken is not known. */
TEST_WITH(more_signals_at_the_head_than_are_read_are_torn, create(27))
{
    for (unsigned n = 0; n < 300; n++)
        fake_queue_add(&f->queue, FAKE_MIDDLE, FAKE_SIGNAL, 0);
    add(f, FAKE_MIDDLE, f->get, SENDER(1), 10);
    look(f, 5000);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, FP_ETORN);
    CHECK_INT(f->answer->messages, 0);
    CHECK_INT(f->answer->signals, 0);
}

/* ------------------------------------------------------------------ moving -- */

/* The process has run. */
static void run(struct fixture *f)
{
    fake_set(&f->vm, 1, FP_FIELD_reds, f->reads);
}

/* At its n-th reading, or at each: not at the look-up in the process table. */
static void act(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;

    (void)memory;
    if (address == fake_process_at(1) && size == f->vm.layout.release.process_size &&
        (++f->reads == f->act_at || f->act_at == 0))
        f->act(f);
}

static void when_read(struct fixture *f, unsigned at, void (*act_then)(struct fixture *f))
{
    f->act_at = at;
    f->act = act_then;
    fake_hook(&f->vm.memory, act, f);
}

static void take(struct fixture *f)
{
    for (unsigned n = 0; n < f->taken; n++)
        fake_queue_take(&f->queue);
    run(f);
}

/* 5,000 messages, of which the process takes n at this reading; 0: none. */
static struct fixture *taking(unsigned at, unsigned n)
{
    struct fixture *f = create(27);

    add(f, FAKE_INNER, f->get, SENDER(1), 3000);
    add(f, FAKE_INNER, f->put, SENDER(2), 2000);
    f->taken = n;
    if (at > 0)
        when_read(f, at, take);
    return f;
}

/* Readings 1 and 2 are before the first chunk of 2,048, 3 and 4 behind it, 5 and 6 behind the
 * second. */
TEST_WITH(what_is_taken_while_it_is_read_is_not_counted, taking(3, 100))
{
    look(f, 10000);
    CHECK(f->answer->has_moved);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, 0);
    CHECK_INT(f->answer->taken, 100);
    CHECK_INT(f->answer->doubtful, 100);
    CHECK_INT(f->answer->messages, 4900);
    CHECK_INT(count_of(&f->answer->senders, SENDER(1)), 2900);
    CHECK_INT(count_of(&f->answer->senders, SENDER(2)), 2000);
}

TEST_WITH(what_was_read_before_it_is_taken_is_counted, taking(5, 700))
{
    look(f, 10000);
    CHECK(f->answer->has_moved);
    CHECK(f->answer->has_run);
    CHECK(f->answer->has_ended);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->err, 0);
    CHECK_INT(f->answer->doubtful, 0);
    CHECK_INT(f->answer->taken, 700);
    CHECK_INT(f->answer->messages, 5000);
}

/* It takes all messages, and the next one gets the memory of the first. */
static void reuse(struct fixture *f)
{
    uint64_t inner = fake_queue_at(&f->queue, FAKE_INNER);
    uint64_t first = fake_word(&f->vm.memory, inner);

    fake_put_word(&f->vm.memory, first, 0);
    fake_put_word(&f->vm.memory, inner + 8, first);
    run(f);
}

TEST_WITH(a_small_queue_whose_process_ran_is_read_again, create(25))
{
    add(f, FAKE_INNER, f->get, SENDER(1), 1);
    when_read(f, 3, reuse);
    look(f, 1000);
    CHECK(f->answer->is_complete);
    CHECK_INT(f->answer->attempts, 2);
}

TEST_WITH(a_mailbox_of_a_process_that_always_runs_is_not_complete, create(29))
{
    add(f, FAKE_INNER, f->get, SENDER(1), 10);
    when_read(f, 0, run);
    look(f, 1000);
    CHECK(!f->answer->is_complete);
    CHECK(f->answer->has_run);
    CHECK(f->answer->has_ended);
    CHECK_INT(f->answer->err, 0);
    CHECK_INT(f->answer->messages, 10);
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

TEST_WITH(messages_in_buffers_alone_are_counted, buffered())
{
    look(f, 1000);
    CHECK(f->answer->is_complete);
    CHECK_INT(f->answer->messages, 5);
}

/* It may have taken them, and others have come. */
TEST_WITH(messages_in_buffers_alone_are_torn_when_the_process_ran, buffered())
{
    when_read(f, 0, run);
    look(f, 5000);
    CHECK_INT(f->answer->err, FP_ETORN);
    CHECK_INT(f->answer->messages, 0);
}

static void empty_buffer(struct fixture *f)
{
    uint64_t at = BUFFERS + 128 * 7 + QUEUE_IN_BUFFER;

    fake_put_word(&f->vm.memory, at, 0);
    fake_put_word(&f->vm.memory, at + 8, at);
}

TEST_WITH(buffers_that_were_emptied_are_read_again, buffered())
{
    when_read(f, 3, empty_buffer);
    look(f, 1000);
    CHECK_INT(f->answer->attempts, 2);
    CHECK_INT(f->answer->messages, 0);
    CHECK(f->answer->is_complete);
}

TEST_WITH(a_queue_that_is_emptied_is_read_again, taking(3, 5000))
{
    look(f, 10000);
    CHECK(f->answer->is_complete);
    CHECK(f->answer->has_moved);
    CHECK_INT(f->answer->messages, 0);
    CHECK_INT(f->answer->attempts, 2);
}

static void collect(struct fixture *f)
{
    fake_set(&f->vm, 1, FP_FIELD_gen_gcs, 9);
}

TEST_WITH(a_collection_moves_terms_on_the_heap, create(25))
{
    add(f, FAKE_INNER, f->get, SENDER(1), 10);
    when_read(f, 3, collect);
    look(f, 1000);
    CHECK_INT(f->answer->attempts, 2);
    CHECK(f->answer->is_complete);
}

TEST_WITH(a_process_that_collects_for_ever_is_torn, create(25))
{
    add(f, FAKE_INNER, f->get, SENDER(1), 10);
    fake_set(&f->vm, 1, FP_FIELD_state, FP_PSFLG_GC);
    expect_torn(f);
}

static void leave(struct fixture *f)
{
    fake_exit(&f->vm, 1);
}

TEST_WITH(a_process_that_exits_leaves_what_was_certain, taking(0, 0))
{
    when_read(f, 5, leave);
    look(f, 1000);
    CHECK_INT(f->answer->err, FP_EGONE);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->messages, 2048);
}

TEST_WITH(the_time_limit_leaves_what_was_certain, taking(0, 0))
{
    look(f, 0);
    CHECK_INT(f->answer->err, 0);
    CHECK(!f->answer->is_complete);
    CHECK_INT(f->answer->messages, 2048);
    CHECK_INT(f->answer->expected, 5000);
}

/* ------------------------------------------------------------------ chance -- */

TEST(random_queues_harm_nothing)
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

TEST_WITH(a_mailbox_that_was_written_over_ends, create(25))
{
    const struct fp_mailbox_limits limits = {3, 1000, 100000};

    add(f, FAKE_INNER, f->get, SENDER(1), 3);
    CHECK_INT(fp_mailbox_open(&f->mailbox, &f->vm.layout, &f->vm.memory.reader, f->pid, &limits),
              0);
    f->mailbox->visited = 1;
    CHECK_BROKEN("waits/mailbox.c", CHECK(fp_mailbox_step(f->mailbox, 65536)));
    CHECK_INT(fp_mailbox_answer(f->mailbox)->err, FP_ENOMEM);
}

TEST(a_tally_that_was_written_over_counts_no_new_row)
{
    struct fp_tally tally;

    CHECK_INT(fp_tally_create(&tally, 8), 0);
    fp_tally_add(&tally, 1, 2);
    for (uint32_t k = 0; k < tally.rows; k++)
        tally.row[k].key[0] += 99;
    CHECK_BROKEN("waits/tally.c", fp_tally_add(&tally, 3, 4));
    CHECK_INT(tally.others, 1);
    tally.used = 9;
    CHECK_BROKEN("waits/tally.c", fp_tally_sort(&tally));
    fp_tally_destroy(&tally);
}
