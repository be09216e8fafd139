/* test_xray.c - what a process in fake memory holds: by path, by type, with its binaries and
 * messages; and heaps that are damaged in every way, which end the look and never loop. */
#include "xray/xray.h"

#include "base/error.h"
#include "broken.h"
#include "fake_queue.h"
#include "test.h"
#include "xray/walker.h"

#define HEAP (FAKE_BASE + UINT64_C(0x800000000))
#define HEAP_WORDS 65536u
#define OUTSIDE (FAKE_BASE + UINT64_C(0x900000000))
#define N 1u

struct fixture {
    struct fake_vm vm;
    struct fake_queue queue;
    struct fake_terms heap;
    uint64_t pid, state, get;
    struct fp_xray *xray;
    const struct fp_xray_answer *answer;
};

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 16, 4);
    fake_vm_add_atoms(&f->vm);
    f->pid = fake_spawn(&f->vm, N, FAKE_JIT + 64);
    f->state = fake_atom_term(&f->vm, "state", 5);
    f->get = fake_atom_term(&f->vm, "get", 3);
    fake_queue_create(&f->queue, &f->vm, N, 1u << 20);
    fake_map(&f->vm.memory, HEAP, 8u * HEAP_WORDS);
    fake_map(&f->vm.memory, OUTSIDE, 8u * 4096);
    f->heap = (struct fake_terms){&f->vm.memory, HEAP};
    return f;
}

static void destroy(struct fixture *f)
{
    if (f->xray != NULL)
        fp_xray_close(f->xray);
    fake_vm_destroy(&f->vm);
    free(f);
}

/* The heap is what was put there; the stack has these words. */
static void settle(struct fixture *f, const uint64_t *word, size_t words)
{
    uint64_t hend = HEAP + 8 * HEAP_WORDS;

    fake_set(&f->vm, N, FP_FIELD_heap, HEAP);
    fake_set(&f->vm, N, FP_FIELD_high_water, HEAP);
    fake_set(&f->vm, N, FP_FIELD_htop, f->heap.at);
    fake_set(&f->vm, N, FP_FIELD_hend, hend);
    fake_set(&f->vm, N, FP_FIELD_stop, hend - 8 * words);
    fake_put(&f->vm.memory, hend - 8 * words, word, 8 * words);
}

static void open_look(struct fixture *f, uint64_t bytes, uint32_t time_ms)
{
    const struct fp_xray_limits limits = {bytes, time_ms};

    if (f->xray != NULL)
        fp_xray_close(f->xray);
    CHECK_INT(
        fp_xray_open(&f->xray, &f->vm.layout, &f->vm.memory.reader, &f->vm.code, f->pid, &limits),
        0);
}

static int end_look(struct fixture *f, uint32_t objects)
{
    unsigned steps = 0;

    while (!fp_xray_step(f->xray, objects))
        CHECK(++steps < 1000000);
    f->answer = fp_xray_answer(f->xray);
    return f->answer->err;
}

static int look_with(struct fixture *f, uint64_t bytes, uint32_t objects, uint32_t time_ms)
{
    open_look(f, bytes, time_ms);
    return end_look(f, objects);
}

static void look(struct fixture *f)
{
    CHECK_INT(look_with(f, 64u << 20, 1000, 10000), 0);
    CHECK(f->answer->is_complete);
}

static const struct fp_xray_node *below(const struct fixture *f, const struct fp_xray_node *parent,
                                        enum fp_xray_step step, uint64_t value)
{
    const struct fp_xray_paths *paths = f->answer->paths;

    for (uint32_t k = 1; k < paths->nodes; k++)
        if (&paths->node[paths->node[k].parent] == parent && paths->node[k].step == step &&
            paths->node[k].value == value)
            return &paths->node[k];
    RUN_FAIL("no such path: step %d, value %" PRIx64, (int)step, value);
    return NULL;
}

static const struct fp_xray_node *root(const struct fixture *f)
{
    return f->answer->paths->node;
}

/* Slot k of the code at `address`. */
static uint64_t slot(uint64_t k, uint64_t address)
{
    return k << 48 | address;
}

static uint64_t list_of(struct fixture *f, uint64_t element, unsigned n)
{
    uint64_t list = FAKE_NIL;

    while (n-- > 0)
        list = fake_cons(&f->heap, element, list);
    return list;
}

/* ------------------------------------------------------------------- paths -- */

TEST_WITH_EACH(a_record_on_the_stack_is_told_by_its_elements, create, 25, 27, 29)
{
    uint64_t list = list_of(f, FAKE_SMALL(1), 100);
    uint64_t state = FAKE_TUPLE(&f->heap, f->state, list, FAKE_SMALL(2));
    const uint64_t stack[] = {FAKE_NIL, state, FAKE_JIT + 128, FAKE_SMALL(1), state};
    const struct fp_xray_node *node;

    settle(f, stack, 5);
    look(f);
    node = below(f, root(f), FP_XRAY_STACK, slot(1, FAKE_JIT + 64));
    CHECK_INT(node->shape.form, FP_XRAY_FORM_TUPLE);
    CHECK_INT(node->shape.tag, f->state);
    CHECK_INT(node->shape.arity, 3);
    CHECK_INT(node->words, 204);
    CHECK_INT(below(f, node, FP_XRAY_ELEMENT, 2)->words, 200);
    CHECK_INT(f->answer->reached_words, 204);
    CHECK_INT(f->answer->young_words, 204);
    CHECK_INT(f->answer->stack_words, 5);
}

TEST_WITH(what_two_roots_share_counts_at_the_first, create(27))
{
    uint64_t list = list_of(f, FAKE_SMALL(1), 10);
    const uint64_t stack[] = {fake_cons(&f->heap, FAKE_SMALL(1), list), FAKE_JIT + 128, list};

    settle(f, stack, 3);
    look(f);
    CHECK_INT(below(f, root(f), FP_XRAY_STACK, slot(0, FAKE_JIT + 64))->words, 22);
    CHECK_INT(root(f)->words, 22);
}

TEST_WITH(garbage_is_what_no_root_leads_to, create(27))
{
    uint64_t garbage = list_of(f, FAKE_SMALL(1), 50);
    const uint64_t stack[] = {fake_cons(&f->heap, FAKE_SMALL(1), FAKE_NIL)};

    (void)garbage;
    settle(f, stack, 1);
    look(f);
    CHECK_INT(f->answer->young_words, 102);
    CHECK_INT(f->answer->reached_words, 2);
}

/* A tree of 2^14 leaves, and a list as deep as the heap is long. */
TEST_WITH(a_tree_is_one_node_for_each_element, create(29))
{
    uint64_t tree[2] = {FAKE_NIL, FAKE_NIL};

    for (unsigned depth = 0; depth < 1000; depth++)
        tree[depth % 2] = FAKE_TUPLE(&f->heap, FAKE_SMALL(1), tree[0], tree[1]);
    settle(f, tree, 2);
    look(f);
    CHECK_INT(root(f)->words, 4000);
    CHECK(f->answer->paths->nodes < 8);
}

TEST_WITH(deep_nesting_to_the_left_is_walked_to_its_end, create(29))
{
    uint64_t term = FAKE_NIL;

    for (unsigned depth = 0; depth < 20000; depth++)
        term = fake_cons(&f->heap, term, FAKE_NIL);
    settle(f, &term, 1);
    look(f);
    CHECK_INT(root(f)->words, 40000);
    term = fake_cons(&f->heap, FAKE_SMALL(1), FAKE_NIL);
    for (unsigned depth = 0; depth < 8000; depth++)
        term = FAKE_TUPLE(&f->heap, term, FAKE_NIL);
    settle(f, &term, 1);
    look(f);
    CHECK_INT(root(f)->words, 24002);
}

static int is_before_27(const struct fixture *f)
{
    return f->vm.layout.release.otp < 27;
}

static uint64_t map_subtag(const struct fixture *f)
{
    return is_before_27(f) ? 0x3c : 0x2c;
}

TEST_WITH_EACH(keys_of_maps_are_told_where_they_are_atoms, create, 25, 27, 29)
{
    uint64_t flat = map_subtag(f) | 1u << 8;
    uint64_t node = map_subtag(f) | 3u << 6 | UINT64_C(3) << 16;
    uint64_t keys = FAKE_TUPLE(&f->heap, f->get, FAKE_SMALL(5));
    uint64_t value = list_of(f, FAKE_SMALL(1), 20), other = list_of(f, FAKE_SMALL(2), 5);
    const uint64_t small[] = {2, keys, value, other};
    const uint64_t large[] = {2, fake_cons(&f->heap, f->state, list_of(f, FAKE_SMALL(1), 3)),
                              fake_cons(&f->heap, list_of(f, FAKE_SMALL(1), 4), f->state)};
    const uint64_t stack[] = {fake_boxed(&f->heap, flat, small, 4),
                              fake_boxed(&f->heap, node, large, 3)};
    const struct fp_xray_node *map;

    settle(f, stack, 2);
    look(f);
    map = below(f, root(f), FP_XRAY_STACK, slot(0, FAKE_JIT + 64));
    CHECK_INT(map->shape.form, FP_XRAY_FORM_MAP);
    CHECK_INT(map->words, 5 + 3 + 40 + 10);
    CHECK_INT(below(f, map, FP_XRAY_VALUE, f->get)->words, 40);
    CHECK_INT(below(f, map, FP_XRAY_VALUE, 0)->words, 10);
    map = below(f, root(f), FP_XRAY_STACK, slot(1, FAKE_JIT + 64));
    CHECK_INT(map->words, 4 + 4 + 6 + 8);
    CHECK_INT(below(f, map, FP_XRAY_VALUE, f->state)->words, 6);
    CHECK_INT(below(f, map, FP_XRAY_KEYS, 0)->words, 8);
    CHECK_INT(f->answer->reached_words, f->answer->young_words);
}

TEST_WITH(the_keys_of_a_literal_tuple_are_told_too, create(29))
{
    struct fake_terms literals = {&f->vm.memory, OUTSIDE};
    uint64_t keys = FAKE_TUPLE(&literals, f->get);
    const uint64_t map[] = {1, keys, list_of(f, FAKE_SMALL(1), 20)};
    const uint64_t stack[] = {fake_boxed(&f->heap, map_subtag(f) | 1u << 8, map, 3)};

    settle(f, stack, 1);
    look(f);
    CHECK_INT(
        below(f, below(f, root(f), FP_XRAY_STACK, slot(0, FAKE_JIT + 64)), FP_XRAY_VALUE, f->get)
            ->words,
        40);
    CHECK_INT(f->answer->literals, 1);
}

/* ---------------------------------------------------------------- binaries -- */

/* A Binary of this size, in memory that is no heap; its address. */
static uint64_t put_binary(struct fixture *f, uint64_t at, uint64_t refs, uint64_t size)
{
    uint32_t refc = is_before_27(f) ? 8 : 16;

    fake_put_word(&f->vm.memory, OUTSIDE + at + refc, refs);
    fake_put_word(&f->vm.memory, OUTSIDE + at + refc + 8, size);
    return OUTSIDE + at;
}

/* What a term of a refc binary, and of `bytes` of it, is made of. Adds to the off-heap list. */
static uint64_t put_part(struct fixture *f, uint64_t binary, uint64_t size, uint64_t bytes)
{
    uint32_t first = f->vm.layout.release.offset[FP_FIELD_bin_vheap] - 8u;
    uint64_t at = fake_process_at(N) + first, next = fake_word(&f->vm.memory, at), whole;

    if (is_before_27(f)) {
        const uint64_t word[] = {size, next, binary, binary + 24, 0};
        whole = fake_boxed(&f->heap, 5u << 6 | 0x20, word, 5);
    } else {
        const uint64_t word[] = {binary, next};
        whole = fake_boxed(&f->heap, 2u << 6 | 0x28, word, 2);
    }
    fake_put_word(&f->vm.memory, at, whole - 2);
    if (is_before_27(f)) {
        const uint64_t word[] = {bytes, 7, 0, whole};
        return fake_boxed(&f->heap, 4u << 6 | 0x28, word, 4);
    } else {
        const uint64_t word[] = {binary + 32, 8 * 7, 8 * (7 + bytes), whole};
        return fake_boxed(&f->heap, 4u << 6 | 0x24, word, 4);
    }
}

TEST_WITH_EACH(a_part_of_a_binary_pins_all_of_it, create, 25, 27, 29)
{
    uint64_t one = put_binary(f, 64, 1, 65536);
    uint64_t two = put_binary(f, 256, 3, 1000);
    uint64_t lost = put_binary(f, 512, 1, 5000);
    const uint64_t stack[] = {put_part(f, one, 65536, 100), put_part(f, two, 1000, 10)};
    const struct fp_xray_node *node;

    (void)put_part(f, lost, 5000, 5);
    settle(f, stack, 2);
    look(f);
    node = below(f, root(f), FP_XRAY_STACK, slot(0, FAKE_JIT + 64));
    CHECK_INT(node->shape.form, FP_XRAY_FORM_BINARY);
    CHECK_INT(node->binary_bytes, 65536);
    CHECK_INT(node->seen_bytes, 100);
    CHECK_INT(f->answer->binaries.count, 2);
    CHECK_INT(f->answer->binaries.bytes, 66536);
    CHECK_INT(f->answer->binaries.shared_bytes, 1000);
    CHECK_INT(f->answer->garbage.count, 1);
    CHECK_INT(f->answer->garbage.bytes, 5000);
}

/* ---------------------------------------------------------------- messages -- */

TEST_WITH(a_message_counts_with_the_memory_that_it_brings, create(29))
{
    struct fake_terms far = {&f->vm.memory, OUTSIDE + 40};
    uint64_t list = FAKE_NIL, message, at;
    const uint64_t nothing = FAKE_NIL;

    for (unsigned k = 0; k < 30; k++)
        list = fake_cons(&far, FAKE_SMALL(k), list);
    message = FAKE_TUPLE(&far, f->get, list);
    fake_put_word(&f->vm.memory, OUTSIDE + 24, 100); /* words, and those in use */
    fake_put_word(&f->vm.memory, OUTSIDE + 32, 63);
    at = fake_queue_add(&f->queue, FAKE_INNER, message, f->pid);
    fake_put_word(&f->vm.memory, at + 8, OUTSIDE);
    fake_queue_add(&f->queue, FAKE_OUTER, list_of(f, FAKE_SMALL(1), 4), f->pid);
    fake_queue_add(&f->queue, FAKE_MIDDLE, f->get, f->pid);
    settle(f, &nothing, 1);
    look(f);
    CHECK_INT(f->answer->messages, 3);
    CHECK_INT(f->answer->message_words, 63);
    CHECK_INT(f->answer->message_bytes, 3 * f->vm.layout.release.message_size);
    CHECK_INT(f->answer->root_words[FP_XRAY_MESSAGE], 63 + 8);
    CHECK_INT(f->answer->reached_words, 63 + 8);
    CHECK_INT(root(f)->words, 63 + 8);
}

/* --------------------------------------------------------------- movements -- */

TEST_WITH(a_process_that_runs_is_not_told, create(27))
{
    settle(f, (uint64_t[]){list_of(f, FAKE_SMALL(1), 10)}, 1);
    fake_set(&f->vm, N, FP_FIELD_state, FP_PSFLG_RUNNING);
    CHECK_INT(look_with(f, 64u << 20, 1000, 5), FP_ETORN);
}

static void count_a_reduction(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct fixture *f = arg;

    (void)memory;
    (void)size;
    if (address >= HEAP && address < HEAP + 8 * HEAP_WORDS)
        fake_set(&f->vm, N, FP_FIELD_reds, fake_get(&f->vm, N, FP_FIELD_reds) + 1);
}

TEST_WITH(a_process_that_ran_meanwhile_is_not_told, create(27))
{
    settle(f, (uint64_t[]){list_of(f, FAKE_SMALL(1), 10)}, 1);
    fake_hook(&f->vm.memory, count_a_reduction, f);
    /* Time for more than one, also on a busy machine. */
    CHECK_INT(look_with(f, 64u << 20, 1000, 500), FP_ETORN);
    CHECK(f->answer->attempts > 1);
    f->vm.memory.before_read = NULL;
    look(f);
    CHECK_INT(f->answer->reached_words, 20);
}

/* The VM has given its heap back, which is no fault of the engine. */
TEST_WITH(a_heap_that_has_gone_meanwhile_has_moved, create(27))
{
    const uint64_t stack[] = {list_of(f, FAKE_SMALL(1), 10)};
    const uint64_t hole = HEAP + 8 * HEAP_WORDS;

    settle(f, stack, 1);
    fake_set(&f->vm, N, FP_FIELD_hend, hole + 65536);
    fake_set(&f->vm, N, FP_FIELD_stop, hole + 65536 - 8);
    CHECK_INT(look_with(f, 64u << 20, 1000, 50), FP_ELAYOUT);
    fake_hook(&f->vm.memory, count_a_reduction, f);
    CHECK_INT(look_with(f, 64u << 20, 1000, 50), FP_ETORN);
}

/* Nothing is known of it then, also not that it has moved. */
TEST_WITH(a_structure_that_cannot_be_read_is_a_fault, create(27))
{
    settle(f, &f->state, 1);
    open_look(f, 64u << 20, 50);
    fake_unmap(&f->vm.memory, FAKE_PROCESSES);
    CHECK_INT(end_look(f, 1000), FP_EFAULT);
}

/* At once: another attempt would see the same layout. */
TEST_WITH(a_layout_that_does_not_fit_is_refused_at_once, create(27))
{
    settle(f, &f->state, 1);
    f->vm.layout.release.queue.buffers = f->vm.layout.release.process_size;
    CHECK_INT(look_with(f, 64u << 20, 1000, 10000), FP_ELAYOUT);
    CHECK_INT(f->answer->attempts, 1);
}

/* All that is read later is another's by then. */
TEST_WITH_EACH(a_process_that_was_copied_may_go_on, create, 25, 29)
{
    uint64_t binary = put_binary(f, 64, 1, 65536);
    const uint64_t stack[] = {list_of(f, FAKE_SMALL(1), 100), put_part(f, binary, 65536, 100)};

    fake_queue_add(&f->queue, FAKE_INNER, list_of(f, FAKE_SMALL(2), 5), f->pid);
    settle(f, stack, 2);
    open_look(f, 64u << 20, 1000);
    CHECK(!fp_xray_step(f->xray, 1));
    fake_set(&f->vm, N, FP_FIELD_reds, 12345);
    memset(fake_at(&f->vm.memory, HEAP, 8u * HEAP_WORDS), 0xa5, 8u * HEAP_WORDS);
    fake_put_word(&f->vm.memory, binary + 8, 0);
    fake_put_word(&f->vm.memory, binary + 16, 0);
    CHECK_INT(end_look(f, 1), 0);
    CHECK_INT(f->answer->attempts, 1);
    CHECK_INT(f->answer->root_words[FP_XRAY_MESSAGE], 2 * 5);
    CHECK(f->answer->root_words[FP_XRAY_STACK] > 2 * 100);
    CHECK_INT(f->answer->binaries.count, 1);
    CHECK_INT(f->answer->binaries.bytes, 65536);
    CHECK(f->answer->is_complete);
}

TEST_WITH(a_process_that_has_exited_is_gone, create(27))
{
    settle(f, &f->get, 1);
    fake_set(&f->vm, N, FP_FIELD_state, FP_PSFLG_EXITING);
    CHECK_INT(look_with(f, 64u << 20, 1000, 1000), FP_EGONE);
}

TEST_WITH(a_heap_beyond_the_budget_is_refused_with_what_it_takes, create(27))
{
    settle(f, &f->get, 1);
    CHECK_INT(look_with(f, 4u << 20, 1000, 1000), FP_EFULL);
    CHECK(f->answer->bytes_needed > 4u << 20);
    CHECK_INT(look_with(f, f->answer->bytes_needed + (8u << 20), 1000, 1000), 0);
}

/* ------------------------------------------------------------------ damage -- */

/* Words that look like what a heap has: pointers into it, headers of all kinds, anything. */
static uint64_t any_word(uint64_t *seed)
{
    uint64_t r = run_random(seed);

    switch (r >> 60 & 7) {
    case 0:
    case 1:
        return HEAP + 8 * (r % 4096) + 1 + (r >> 40 & 1);
    case 2:
        return (r >> 20 & 0x1f) << 6 | (r & 0x3c);
    case 3:
        return (r >> 20 & 0xfffff) << 6 | (r & 0x3c);
    case 4:
        return (r & 0xffff) << 4 | 0xf;
    case 5:
        return r;
    case 6:
        return OUTSIDE + 8 * (r % 8192) + 2;
    default:
        return HEAP + 8 * (r % 4200) + (r >> 40 & 7);
    }
}

TEST(damaged_heaps_end)
{
    static const unsigned releases[] = {25, 27, 29};
    uint64_t seed = 88172645463325252u;
    unsigned told = 0;

    for (unsigned round = 0; round < 6000; round++) {
        struct fixture *f = create(releases[round % 3]);
        uint64_t stack[32], damage = round % 2 == 0 ? 4096 : 3;
        uint32_t first = f->vm.layout.release.offset[FP_FIELD_bin_vheap] - 8u;
        int err;

        while (f->heap.at < HEAP + 8 * 4096)
            (void)list_of(f, FAKE_TUPLE(&f->heap, f->get, f->heap.at - 7), 3);
        for (uint64_t k = 0; k < damage; k++)
            fake_put_word(&f->vm.memory, HEAP + 8 * (run_random(&seed) % 4096), any_word(&seed));
        for (unsigned k = 0; k < 32; k++)
            stack[k] = any_word(&seed) | 1;
        fake_put_word(&f->vm.memory, fake_process_at(N) + first,
                      round % 5 == 0 ? HEAP + 8 * (run_random(&seed) % 4096) : 0);
        settle(f, stack, 32);
        if (round % 7 == 0)
            fake_queue_add(&f->queue, FAKE_INNER, any_word(&seed) | 2, f->pid);
        err = look_with(f, 64u << 20, 500, 1000);
        CHECK(err == 0 || err == FP_ELAYOUT);
        if (err == 0)
            CHECK(f->answer->reached_words <= f->answer->young_words + 32);
        told += err == 0;
        destroy(f);
    }
    CHECK(told > 0);
}

TEST_WITH(a_walker_that_was_written_over_visits_nothing, create(27))
{
    const struct fp_xray_walker_limits limits = {
        .paths = 16, .types = 16, .entries = 16, .binaries = 16};
    struct fp_xray_walker walker;

    CHECK_INT(
        fp_xray_walker_create(&walker, &f->vm.memory.reader, &f->vm.memory.reader, 27, &limits), 0);
    fp_xray_walker_clear(&walker);
    CHECK_INT(fp_xray_walk(&walker, 10), 1);
    walker.entries = 7;
    CHECK_BROKEN("xray/walker.c", CHECK_INT(fp_xray_walk(&walker, 10), FP_ETORN));
    fp_xray_walker_destroy(&walker);
}
