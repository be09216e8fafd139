/* test_message_queue.c - the signal queues of a process in fake memory: chains, nodes, buffers, and
 * what calibration refuses. */
#include "base/error.h"
#include "erts/message_queue.h"
#include "fake_queue.h"
#include "test.h"

#define ATOM(n) ((uint64_t)(n) << 6 | 0x0b)
#define SENDER UINT64_C(0x503)
#define SIZE (1u << 20)

struct fixture {
    struct fake_vm vm;
    struct fake_queue queue;
    struct fp_page_cache *cache;
    struct fp_queues queues;
    uint64_t pid;
};

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 16, 4);
    f->pid = fake_spawn(&f->vm, 1, 0);
    fake_queue_create(&f->queue, &f->vm, 1, SIZE);
    CHECK_INT(fp_page_cache_create(&f->cache, &f->vm.memory.reader), 0);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_page_cache_destroy(f->cache);
    fake_vm_destroy(&f->vm);
    free(f);
}

static int read_queues(struct fixture *f)
{
    return fp_queues_read(&f->vm.layout, &f->vm.memory.reader, f->pid, fake_process_at(1),
                          &f->queues);
}

TEST_WITH_EACH(empty_queues_have_no_nodes, create, 25, 26, 27, 28, 29)
{
    CHECK_INT(read_queues(f), 0);
    CHECK_INT(f->queues.chains, 3);
    for (unsigned k = 0; k < 3; k++)
        CHECK_INT(f->queues.chain[k].first, 0);
    CHECK_INT(f->queues.fetched, 0);
    CHECK(!fp_queues_run(&f->queues));
}

TEST_WITH_EACH(chains_have_their_ends_and_numbers, create, 25, 26, 27, 28, 29)
{
    uint64_t first = fake_queue_add(&f->queue, FAKE_INNER, ATOM(1), SENDER), last;
    int is_old = f->vm.layout.release.otp < 27;

    fake_queue_add(&f->queue, FAKE_INNER, ATOM(1), SENDER);
    fake_queue_add(&f->queue, FAKE_MIDDLE, ATOM(1), SENDER);
    fake_queue_add(&f->queue, FAKE_OUTER, ATOM(1), SENDER);
    last = fake_queue_add(&f->queue, FAKE_OUTER, ATOM(1), SENDER);
    CHECK_INT(read_queues(f), 0);
    CHECK_INT(f->queues.chain[0].first, first);
    CHECK_INT(f->queues.chain[2].last, last);
    CHECK_INT(f->queues.fetched, is_old ? 3 : 2);
    CHECK_INT(f->queues.chain[0].messages, is_old ? -1 : 2);
    CHECK_INT(f->queues.chain[2].messages, is_old ? 2 : -1);
}

TEST_WITH(a_queue_without_end_is_torn, create(27))
{
    fake_queue_add(&f->queue, FAKE_INNER, ATOM(1), SENDER);
    fake_put_word(&f->vm.memory, fake_queue_at(&f->queue, FAKE_INNER) + 8,
                  fake_queue_at(&f->queue, FAKE_INNER));
    CHECK_INT(read_queues(f), FP_ETORN);
}

TEST_WITH(another_process_is_gone, create(27))
{
    f->pid += 16;
    CHECK_INT(read_queues(f), FP_EGONE);
}

/* Messages go from the outer to the inner queue between the two readings. */
static void fetch(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;

    (void)memory;
    (void)size;
    if (address == fake_process_at(1))
        fake_queue_add(&f->queue, FAKE_MIDDLE, FAKE_SIGNAL, 0);
}

TEST_WITH(queues_that_are_never_the_same_are_torn, create(25))
{
    fake_hook(&f->vm.memory, fetch, f);
    CHECK_INT(read_queues(f), FP_ETORN);
}

/* ----------------------------------------------------------------- buffers -- */

#define BUFFERS (FAKE_MISC + 0x80000)

static void put_buffers(struct fixture *f, uint32_t place)
{
    for (uint64_t k = 0; k < FP_QUEUE_BUFFERS; k++)
        fake_put_word(&f->vm.memory, BUFFERS + 128 * k + place + 8, BUFFERS + 128 * k + place);
    fake_put_word(&f->vm.memory, fake_process_at(1) + f->vm.layout.release.queue.buffers, BUFFERS);
}

static void fill_buffer(struct fixture *f, uint64_t k, uint32_t place)
{
    uint64_t at = BUFFERS + 128 * k + place, node;

    node = fake_queue_add(&f->queue, FAKE_OUTER, ATOM(1), SENDER);
    fake_put_word(&f->vm.memory, at, node);
    fake_put_word(&f->vm.memory, at + 8, node);
    fake_put_word(&f->vm.memory, at + 16, 1);
}

static void check_buffers(struct fixture *f, uint32_t place)
{
    put_buffers(f, place);
    fill_buffer(f, 0, place);
    fill_buffer(f, 63, place);
    CHECK_INT(read_queues(f), 0);
    CHECK_INT(f->queues.chains, 5);
    CHECK_INT(f->queues.chain[3].messages, f->vm.layout.release.otp < 27 ? 1 : -1);
    CHECK(!f->queues.buffers_unknown);
}

TEST_WITH_EACH(buffers_of_senders_are_chains, create, 25, 26, 27, 28, 29)
{
    check_buffers(f, 40);
}

TEST_WITH_EACH(buffers_of_senders_may_have_their_queue_elsewhere, create, 25, 26, 27, 28, 29)
{
    check_buffers(f, 56);
}

TEST_WITH(buffers_of_another_shape_are_unknown, create(27))
{
    put_buffers(f, 48);
    CHECK_INT(read_queues(f), 0);
    CHECK_INT(f->queues.chains, 3);
    CHECK(f->queues.buffers_unknown);
    fake_put_word(&f->vm.memory, fake_process_at(1) + f->vm.layout.release.queue.buffers,
                  FAKE_MISC + SIZE);
    CHECK_INT(read_queues(f), 0);
    CHECK(f->queues.buffers_unknown);
}

/* ------------------------------------------------------------------- nodes -- */

static int read_node(struct fixture *f, const uint64_t *word, size_t n, struct fp_queue_node *node)
{
    fake_put(&f->vm.memory, FAKE_MISC + 0x40000, word, 8 * n);
    fp_page_cache_forget(f->cache);
    return fp_queue_node_read(f->cache, FAKE_MISC + 0x40000, node);
}

#define READ_NODE(f, node, ...)                                                                    \
    read_node(f, (const uint64_t[]){__VA_ARGS__},                                                  \
              sizeof(const uint64_t[]){__VA_ARGS__} / sizeof(uint64_t), node)

TEST_WITH(a_node_is_a_message_or_a_signal, create(27))
{
    struct fp_queue_node node;

    CHECK_INT(READ_NODE(f, &node, 0x1000, 0, ATOM(7), FAKE_NIL, SENDER), 0);
    CHECK_INT(node.kind, FP_NODE_MESSAGE);
    CHECK_INT(node.from, SENDER);
    CHECK_INT(node.bytes, 40);
    CHECK_INT(node.next, 0x1000);
    CHECK_INT(READ_NODE(f, &node, 0, 0x2000, 0, FAKE_NIL, ATOM(9)), 0);
    CHECK_INT(node.kind, FP_NODE_UNDECODED);
    CHECK_INT(READ_NODE(f, &node, 0x1000, 0x1234567, FAKE_SIGNAL, 1, 2), 0);
    CHECK_INT(node.kind, FP_NODE_SIGNAL);
}

TEST_WITH(what_cannot_be_a_node_is_torn, create(27))
{
    struct fp_queue_node node;

    CHECK_INT(READ_NODE(f, &node, 0x1001, 0, ATOM(7), FAKE_NIL, SENDER), FP_ETORN);
    CHECK_INT(READ_NODE(f, &node, 0x1000, 0, 0x40, FAKE_NIL, SENDER), FP_ETORN);
    CHECK_INT(READ_NODE(f, &node, 0x1000, 0, ATOM(7), FAKE_NIL, 0x1002), FP_ETORN);
    CHECK_INT(READ_NODE(f, &node, 0x1000, 3, ATOM(7), FAKE_NIL, SENDER), FP_ETORN);
    /* More words in use than there are. */
    CHECK_INT(READ_NODE(f, &node, 0, 1, ATOM(7), FAKE_NIL, SENDER, 0, 0, 0, 4, 5), FP_ETORN);
    CHECK_INT(fp_queue_node_read(f->cache, FAKE_MISC + 4, &node), FP_ETORN);
    CHECK_INT(fp_queue_node_read(f->cache, 0, &node), FP_ETORN);
    CHECK_INT(fp_queue_node_read(f->cache, FAKE_MISC + SIZE, &node), FP_EFAULT);
}

TEST_WITH(fragments_count_as_memory, create(27))
{
    const uint64_t second[] = {0, 0, 0, 10, 10}, at = FAKE_MISC + 0x50000;
    struct fp_queue_node node;

    fake_put(&f->vm.memory, at, second, sizeof second);
    CHECK_INT(READ_NODE(f, &node, 0, 1, ATOM(7), FAKE_NIL, SENDER, at, 0, 0, 4, 3), 0);
    CHECK(node.is_combined);
    CHECK_INT(node.bytes, 80 + 8 * 4);
    CHECK_INT(fp_queue_fragments(f->cache, &node), 40 + 8 * 10);
    CHECK_INT(READ_NODE(f, &node, 0, at, ATOM(7), FAKE_NIL, SENDER), 0);
    CHECK_INT(fp_queue_fragments(f->cache, &node), 40 + 8 * 10);
    fake_put_word(&f->vm.memory, at, at); /* for ever */
    fp_page_cache_forget(f->cache);
    CHECK_INT(fp_queue_fragments(f->cache, &node), FP_ETORN);
}

/* ------------------------------------------------------------- calibration -- */

struct probes {
    struct fake_vm vm;
    struct fp_probe probe[4];
    struct fp_solve_input input;
    struct fake_queue queue[4];
};

/* Two with 3 and 6 fetched messages, two with 5 and 8 in the in-queue. */
static struct probes *probed(unsigned otp)
{
    static const int64_t inner[] = {3, 6, 0, 0}, outer[] = {0, 0, 5, 8};
    struct probes *p = calloc(1, sizeof *p);

    fake_vm_create(&p->vm, otp, 16, 8);
    p->input.probe = p->probe;
    p->input.probes = 4;
    for (uint32_t k = 0; k < 4; k++) {
        struct fp_probe *probe = &p->probe[k];

        probe->address = fake_process_at(k + 1);
        probe->parent = SENDER;
        fake_spawn(&p->vm, k + 1, 0);
        fake_queue_create(&p->queue[k], &p->vm, k + 1, SIZE);
        fake_unmap(&p->vm.memory, FAKE_MISC);
        probe->fact[FP_FACT_inner_len] = inner[k];
        probe->fact[FP_FACT_outer_len] = outer[k];
        fake_map(&p->vm.memory, FAKE_MISC + SIZE * (k + 1), SIZE);
        p->queue[k].heap.at = FAKE_MISC + SIZE * (k + 1);
        for (int64_t n = 0; n < inner[k]; n++)
            fake_queue_add(&p->queue[k], FAKE_INNER, ATOM(1), SENDER);
        for (int64_t n = 0; n < outer[k]; n++)
            fake_queue_add(&p->queue[k], FAKE_OUTER, ATOM(1), SENDER);
    }
    return p;
}

static const char *checked(struct probes *p)
{
    for (uint32_t k = 0; k < 4; k++) {
        struct fp_probe *probe = &p->probe[k];

        probe->window_size = p->vm.layout.release.process_size;
        CHECK_INT(
            fp_safe_read(&p->vm.memory.reader, probe->address, probe->window, probe->window_size),
            0);
    }
    return fp_queues_check(&p->vm.layout, &p->vm.memory.reader, &p->input);
}

static void finish(struct probes *p)
{
    fake_vm_destroy(&p->vm);
    free(p);
}

#define PROBES_TEST(test, otp) TEST_ON(test, struct probes *, p, probed(otp), finish)

TEST(probes_with_what_was_sent_are_accepted)
{
    for (unsigned otp = 25; otp <= 29; otp++) {
        struct probes *p = probed(otp);

        CHECK(checked(p) == NULL);
        finish(p);
    }
}

PROBES_TEST(probes_with_anything_else_are_refused, 27)
{
    p->probe[0].fact[FP_FACT_inner_len]++;
    CHECK(checked(p) != NULL);
    p->probe[0].fact[FP_FACT_inner_len]--;
    CHECK(checked(p) == NULL);
    p->probe[3].parent = SENDER + 16;
    CHECK(checked(p) != NULL);
    p->probe[3].parent = SENDER;
    p->vm.layout.release.queue.outer -= 8;
    CHECK(checked(p) != NULL);
    p->vm.layout.release.queue.outer += 8;
    p->vm.layout.release.queue.buffers = p->vm.layout.release.queue.outer;
    CHECK(checked(p) != NULL);
}

/* As a list at a wrong offset may be. */
PROBES_TEST(signals_in_a_circle_are_refused, 27)
{
    uint64_t signal = fake_queue_add(&p->queue[0], FAKE_INNER, FAKE_SIGNAL, 0);

    CHECK(checked(p) == NULL);
    fake_put_word(&p->vm.memory, signal, signal);
    fake_put_word(&p->vm.memory, fake_queue_at(&p->queue[0], FAKE_INNER) + 8, signal + 8);
    CHECK(checked(p) != NULL);
}

PROBES_TEST(too_few_probes_are_refused, 29)
{
    p->input.probes = 3;
    CHECK(checked(p) != NULL);
}
