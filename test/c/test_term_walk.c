/* test_term_walk.c - the walker of terms over fake memory: every kind, and what is none. */
#include "base/error.h"
#include "erts/term/message.h"
#include "fake_terms.h"
#include "fake_vm.h"
#include "run.h"

#define HEAP FAKE_HEAPS
#define HEAP_BYTES 8192u

struct bench {
    struct fake_vm vm;
    struct fake_terms heap;
    struct fp_walk walk;
    struct fp_ref ref;
    uint64_t get, alias, node_name, node, pid;
    uint64_t reads; /* when the walk began */
};

static uint64_t atom(struct bench *b, const char *text)
{
    return fake_atom_term(&b->vm, text, strlen(text));
}

static void again(struct bench *b)
{
    fp_walk_start(&b->walk, &b->vm.memory.reader, &b->vm.layout, 64);
    b->reads = b->vm.memory.entries;
}

static void create(struct bench *b, unsigned otp)
{
    struct fp_envelopes *envelope = &b->vm.layout.envelope;

    fake_vm_create(&b->vm, otp, 64, 0);
    fake_vm_add_atoms(&b->vm);
    fake_map(&b->vm.memory, HEAP, HEAP_BYTES);
    b->heap = (struct fake_terms){&b->vm.memory, HEAP};
    b->ref = (struct fp_ref){{0x2abcd, 0x12345678, 0x9abcdef0}};
#define MAKE_ATOM(name, text) envelope->name = atom(b, text);
    FP_ENVELOPE_MAP(MAKE_ATOM)
    b->get = atom(b, "get");
    b->alias = envelope->alias;
    b->node_name = atom(b, "other@host");
    b->node = fake_node(&b->heap, b->node_name, 0x66778899);
    b->pid = fake_pid(&b->vm.layout, 33);
    again(b);
}

/* As a walk of its own: the test has put words where the last one has read. */
static void walk(struct bench *b, uint64_t word, struct fp_term *term)
{
    fp_walk_again(&b->walk, 64);
    fp_walk_term(&b->walk, word, term);
}

static enum fp_term_kind kind_of(struct bench *b, uint64_t word)
{
    struct fp_term term;

    walk(b, word, &term);
    CHECK(term.word == word);
    return term.kind;
}

#define CHECK_REF(got, expected) CHECK(memcmp(&(got), &(expected), sizeof(struct fp_ref)) == 0)

static const unsigned releases[] = {25, 26, 27, 28, 29};

/* ---------------------------------------------------------------- terms -- */

static void immediate_terms_cost_no_read(void)
{
    for (size_t i = 0; i < 5; i++) {
        struct bench b;

        create(&b, releases[i]);
        CHECK_INT(kind_of(&b, b.get), FP_TERM_ATOM);
        CHECK_INT(kind_of(&b, FAKE_NIL), FP_TERM_NIL);
        CHECK_INT(kind_of(&b, b.pid), FP_TERM_PID);
        CHECK_INT(kind_of(&b, FAKE_PORT(5)), FP_TERM_PORT);
        CHECK_INT(kind_of(&b, FAKE_SMALL(0)), FP_TERM_OTHER);
        CHECK_INT(kind_of(&b, FAKE_SMALL(-1)), FP_TERM_OTHER);
        CHECK_INT(b.vm.memory.entries, b.reads);
        fake_vm_destroy(&b.vm);
    }
}

static void words_that_are_no_terms_are_unreadable(void)
{
    static const uint64_t none[] = {
        0,           0x10,                     /* a header, an address of code */
        0x1b,        0x51b,                    /* a catch */
        0x2b,        0x7b,                     /* no atom, nil of other bits */
        0x40 | 0x2b, ~UINT64_C(0) << 6 | 0x0b, /* an atom of an absurd index */
        1,           2,                        /* NULL as a cell and boxed */
    };
    struct bench b;

    create(&b, 27);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK_INT(kind_of(&b, none[i]), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

static void an_atom_that_is_newer_than_the_walk_is_one(void)
{
    struct bench b;
    uint64_t newer;

    create(&b, 25);
    newer = atom(&b, "newer");
    CHECK_INT(kind_of(&b, newer), FP_TERM_ATOM);
    CHECK_INT(b.walk.budget, 63);
    CHECK_INT(kind_of(&b, newer), FP_TERM_ATOM);
    CHECK_INT(b.walk.budget, 64);
    CHECK_INT(kind_of(&b, newer + 64), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

static void references_are_told_by_their_numbers(void)
{
    for (size_t i = 0; i < 5; i++) {
        struct fp_term term;
        struct bench b;

        create(&b, releases[i]);
        walk(&b, fake_ref(&b.heap, &b.ref), &term);
        CHECK_INT(term.kind, FP_TERM_REF);
        CHECK_REF(term.ref, b.ref);
        walk(&b, fake_pid_ref(&b.heap, &b.ref, b.pid), &term);
        CHECK_INT(term.kind, FP_TERM_REF);
        CHECK_REF(term.ref, b.ref);
        CHECK_INT(kind_of(&b, fake_magic_ref(&b.heap)), FP_TERM_OTHER);
        fake_vm_destroy(&b.vm);
    }
}

static void references_of_absurd_numbers_are_unreadable(void)
{
    const struct fp_ref absurd = {{1u << 18, 1, 1}};
    const uint64_t word[] = {UINT64_C(0x1ffffffff), 1, 1, 1, 1};
    struct bench b;

    create(&b, 27);
    CHECK_INT(kind_of(&b, fake_ref(&b.heap, &absurd)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, fake_pid_ref(&b.heap, &absurd, b.pid)), FP_TERM_UNREADABLE);
    for (uint64_t n = 0; n < 6; n++)
        CHECK_INT(kind_of(&b, fake_boxed(&b.heap, n << 6 | 0x10, word, 5)),
                  n == 2 || n == 3 ? FP_TERM_REF : FP_TERM_UNREADABLE);
    fake_put_word(&b.vm.memory, b.heap.at, 0xd0); /* a pid reference without its mark */
    CHECK_INT(kind_of(&b, b.heap.at | 2), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

static void remote_terms_are_told_with_their_node(void)
{
    for (size_t i = 0; i < 5; i++) {
        struct fp_term term;
        struct bench b;

        create(&b, releases[i]);
        walk(&b, fake_remote_pid(&b.heap, b.node, 1234, 5), &term);
        CHECK_INT(term.kind, FP_TERM_REMOTE_PID);
        CHECK(term.remote.node == b.node_name);
        CHECK_INT(term.remote.creation, 0x66778899);
        CHECK_INT(term.remote.number, 1234);
        CHECK_INT(term.remote.serial, 5);
        for (uint32_t n = 1; n <= 5; n++) {
            walk(&b, fake_remote_ref(&b.heap, b.node, &b.ref, n), &term);
            CHECK_INT(term.kind, n < 3 ? FP_TERM_OTHER : FP_TERM_REMOTE_REF);
            if (n < 3)
                continue;
            CHECK(term.remote.node == b.node_name);
            CHECK_REF(term.remote.ref, b.ref);
        }
        CHECK_INT(kind_of(&b, fake_remote_port(&b.heap, b.node, 77)), FP_TERM_OTHER);
        fake_vm_destroy(&b.vm);
    }
}

static void remote_terms_without_a_node_are_unreadable(void)
{
    struct bench b;
    uint64_t no_name;

    create(&b, 27);
    no_name = fake_node(&b.heap, FAKE_SMALL(1), 1);
    CHECK_INT(kind_of(&b, fake_remote_pid(&b.heap, no_name, 1, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, fake_remote_pid(&b.heap, 0, 1, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, fake_remote_pid(&b.heap, b.node + 4, 1, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, fake_remote_ref(&b.heap, no_name, &b.ref, 3)), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

static void what_the_calibration_has_not_proven_is_unreadable(void)
{
    struct bench b;

    create(&b, 29);
    b.vm.layout.remote_terms = 0;
    CHECK_INT(kind_of(&b, fake_remote_pid(&b.heap, b.node, 1, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, fake_remote_ref(&b.heap, b.node, &b.ref, 3)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, FAKE_TUPLE(&b.heap, b.get)), FP_TERM_TUPLE);
    b.vm.layout.terms = 0;
    CHECK_INT(kind_of(&b, FAKE_TUPLE(&b.heap, b.get)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, fake_cons(&b.heap, b.get, b.get)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, b.get), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

static void all_other_boxed_terms_are_other(void)
{
    /* By the subtag in bits 2..5: 0 tuple, 4 reference, 12 and 14 remote ones, which have tests. */
    static const unsigned other[] = {1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 13, 15};
    const uint64_t word[] = {FAKE_SMALL(1), FAKE_SMALL(2)};
    struct bench b;

    create(&b, 29);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        CHECK_INT(kind_of(&b, fake_boxed(&b.heap, 2 << 6 | other[i] << 2, word, 2)), FP_TERM_OTHER);
    fake_vm_destroy(&b.vm);
}

static void tuples_have_their_elements(void)
{
    uint64_t word[100], got[100];
    struct fp_term term, element;
    struct bench b;

    create(&b, 27);
    for (uint32_t i = 0; i < 100; i++)
        word[i] = FAKE_SMALL(i);
    word[99] = b.get;
    walk(&b, fake_tuple(&b.heap, word, 100), &term);
    CHECK_INT(term.kind, FP_TERM_TUPLE);
    CHECK_INT(term.arity, 100);
    CHECK_INT(fp_walk_elements(&b.walk, &term, 0, 100, got), 0);
    CHECK(memcmp(got, word, sizeof word) == 0);
    CHECK_INT(fp_walk_elements(&b.walk, &term, 99, 1, got), 0);
    CHECK(got[0] == b.get);
    CHECK_INT(fp_walk_elements(&b.walk, &term, 99, 2, got), FP_ENOENT);
    CHECK_INT(fp_walk_elements(&b.walk, &term, 101, 0, got), FP_ENOENT);
    CHECK_INT(fp_walk_elements(&b.walk, &term, UINT32_MAX, UINT32_MAX, got), FP_ENOENT);
    fp_walk_element(&b.walk, &term, 99, &element);
    CHECK_INT(element.kind, FP_TERM_ATOM);
    fp_walk_element(&b.walk, &term, 100, &element);
    CHECK_INT(element.kind, FP_TERM_UNREADABLE);
    walk(&b, fake_tuple(&b.heap, word, 0), &term);
    CHECK_INT(term.kind, FP_TERM_TUPLE);
    CHECK_INT(term.arity, 0);
    fp_walk_element(&b.walk, &term, 0, &element);
    CHECK_INT(element.kind, FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

static void lists_have_head_and_tail(void)
{
    struct fp_term term, head, tail;
    struct bench b;

    create(&b, 27);
    walk(&b, fake_cons(&b.heap, b.alias, b.pid), &term);
    CHECK_INT(term.kind, FP_TERM_LIST);
    fp_walk_element(&b.walk, &term, 0, &head);
    fp_walk_element(&b.walk, &term, 1, &tail);
    CHECK(head.word == b.alias && tail.word == b.pid);
    fp_walk_element(&b.walk, &term, 2, &tail);
    CHECK_INT(tail.kind, FP_TERM_UNREADABLE);
    fp_walk_element(&b.walk, &head, 0, &tail); /* an atom has none */
    CHECK_INT(tail.kind, FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

static void an_absurd_arity_is_unreadable(void)
{
    struct bench b;
    struct fp_term term;
    uint64_t word = FAKE_SMALL(1), got[1];

    create(&b, 27);
    CHECK_INT(kind_of(&b, fake_boxed(&b.heap, UINT64_C(1) << 30, &word, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, fake_boxed(&b.heap, UINT64_C(1) << 63, &word, 1)), FP_TERM_UNREADABLE);
    walk(&b, fake_boxed(&b.heap, 0xffffffull << 6, &word, 1), &term);
    CHECK_INT(term.arity, 0xffffff);
    CHECK_INT(fp_walk_elements(&b.walk, &term, 0xfffffe, 1, got), FP_ENOENT);
    fake_vm_destroy(&b.vm);
}

static void what_the_collector_has_moved_is_unreadable(void)
{
    struct bench b;
    uint64_t tuple, cell;

    create(&b, 27);
    tuple = FAKE_TUPLE(&b.heap, b.get);
    cell = fake_cons(&b.heap, 0, HEAP | 1);
    fake_put_word(&b.vm.memory, tuple - 2, HEAP | 2);
    CHECK_INT(kind_of(&b, tuple), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, cell), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

/* ---------------------------------------------------------------- reads -- */

static void terms_at_the_end_of_memory_are_whole_or_unreadable(void)
{
    struct bench b;

    create(&b, 27);
    for (uint64_t left = 1; left <= 5; left++) {
        enum fp_term_kind fits;

        b.heap.at = HEAP + HEAP_BYTES - 8 * left;
        if (left >= 2) {
            CHECK_INT(kind_of(&b, fake_cons(&b.heap, b.get, b.get)), FP_TERM_LIST);
            b.heap.at = HEAP + HEAP_BYTES - 8 * left;
        }
        fake_put_word(&b.vm.memory, b.heap.at, 0x90);
        if (left >= 2)
            fake_put_word(&b.vm.memory, b.heap.at + 8, UINT64_C(0x1ffffffff));
        fits = left >= 3 ? FP_TERM_REF : FP_TERM_UNREADABLE;
        CHECK_INT(kind_of(&b, b.heap.at | 2), fits);
        fake_put_word(&b.vm.memory, b.heap.at, 0xd0);
        fits = left >= 4 ? FP_TERM_REF : FP_TERM_UNREADABLE;
        CHECK_INT(kind_of(&b, b.heap.at | 2), fits);
        CHECK_INT(kind_of(&b, b.heap.at | 1), FP_TERM_UNREADABLE); /* its head is a header */
    }
    CHECK_INT(kind_of(&b, (HEAP + HEAP_BYTES - 8) | 1), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, (HEAP + HEAP_BYTES) | 2), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, UINT64_C(0xfffffffffffffff8) | 2), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(&b, UINT64_C(0xfffffffffffffff8) | 1), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

static void a_term_that_crosses_pages_is_read(void)
{
    struct fp_term term;
    struct bench b;

    create(&b, 27);
    b.heap.at = HEAP + 4096 - 8;
    fp_walk_term(&b.walk, fake_pid_ref(&b.heap, &b.ref, b.pid), &term);
    CHECK_INT(term.kind, FP_TERM_REF);
    CHECK_REF(term.ref, b.ref);
    fake_vm_destroy(&b.vm);
}

/* Before its second read memory becomes `word` at `at`. */
struct change {
    struct bench *b;
    uint64_t at, word, reads;
};

static void change_memory(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct change *change = arg;

    (void)address;
    (void)size;
    if (++change->reads == 2)
        fake_put_word(memory, change->at, change->word);
}

static enum fp_term_kind kind_after_change(struct bench *b, uint64_t term, uint64_t at,
                                           uint64_t word)
{
    struct change change = {b, at, word, 0};
    struct fp_term got;

    b->vm.memory.arg = &change;
    b->vm.memory.before_read = change_memory;
    walk(b, term, &got);
    b->vm.memory.before_read = NULL;
    CHECK_INT(change.reads, 2);
    return got.kind;
}

static void a_term_that_changes_between_two_reads_is_unreadable(void)
{
    struct bench b;
    uint64_t ref, pid;

    create(&b, 27);
    b.heap.at = HEAP + 4096 - 8; /* its header is all that the first read gets */
    ref = fake_ref(&b.heap, &b.ref);
    CHECK_INT(kind_after_change(&b, ref, ref - 2, 1 << 6), FP_TERM_UNREADABLE);
    fake_put_word(&b.vm.memory, ref - 2, 0x90);
    CHECK_INT(kind_after_change(&b, ref, ref + 6, HEAP), FP_TERM_OTHER); /* magic */
    fake_put_word(&b.vm.memory, ref - 2, 0xd0);
    CHECK_INT(kind_after_change(&b, ref, ref + 6, HEAP), FP_TERM_UNREADABLE);
    b.heap.at = HEAP + 4096 + 256;
    pid = fake_remote_pid(&b.heap, b.node, 1, 2);
    CHECK_INT(kind_after_change(&b, pid, b.node + 24, FAKE_NIL), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

/* With what is left of the budget, and what is at hand. */
static enum fp_term_kind kind_on(struct bench *b, uint64_t word)
{
    struct fp_term term;

    fp_walk_term(&b->walk, word, &term);
    return term.kind;
}

static void a_spent_budget_makes_the_rest_unreadable(void)
{
    struct bench b;
    uint64_t far;

    create(&b, 27);
    far = FAKE_TUPLE(&b.heap, b.get);
    b.heap.at += 1024;
    fp_walk_again(&b.walk, 1);
    CHECK_INT(kind_on(&b, far), FP_TERM_TUPLE);
    CHECK_INT(kind_on(&b, FAKE_TUPLE(&b.heap, b.get)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_on(&b, b.get), FP_TERM_ATOM);
    CHECK_INT(kind_on(&b, (uint64_t)b.vm.atoms << 6 | 0x0b), FP_TERM_UNREADABLE);
    CHECK_INT(kind_on(&b, far), FP_TERM_TUPLE); /* at hand */
    fp_walk_again(&b.walk, 0);
    CHECK_INT(kind_on(&b, far), FP_TERM_UNREADABLE);
    CHECK_INT(b.vm.memory.entries, b.reads + 1);
    fake_vm_destroy(&b.vm);
}

static void what_the_caller_has_copied_is_not_read(void)
{
    struct fp_term term;
    struct bench b;
    uint64_t cell, ref, copy[8];

    create(&b, 27);
    ref = fake_ref(&b.heap, &b.ref);
    cell = fake_cons(&b.heap, b.alias, ref);
    memcpy(copy, fake_at(&b.vm.memory, ref - 2, 40), 40);
    fake_unmap(&b.vm.memory, HEAP);
    fp_walk_again(&b.walk, 8);
    fp_walk_copy(&b.walk, ref - 2, copy, 5);
    fp_walk_term(&b.walk, cell, &term);
    CHECK_INT(term.kind, FP_TERM_LIST);
    fp_walk_element(&b.walk, &term, 1, &term);
    CHECK_REF(term.ref, b.ref);
    CHECK_INT(b.walk.budget, 8);
    fp_walk_copy(&b.walk, ref - 2, copy, 4); /* cut: the cell lies half outside */
    CHECK_INT(kind_on(&b, cell), FP_TERM_UNREADABLE);
    fp_walk_again(&b.walk, 8);
    CHECK_INT(kind_on(&b, ref), FP_TERM_UNREADABLE);
    fake_vm_destroy(&b.vm);
}

/* ------------------------------------------------------------- messages -- */

static struct fp_message read_message(struct bench *b, uint64_t word)
{
    struct fp_message message;

    fp_walk_again(&b->walk, FP_MESSAGE_READS);
    fp_message_read(&b->walk, &b->vm.layout.envelope, word, &message);
    return message;
}

static void check_message(struct bench *b, uint64_t word, enum fp_message_kind kind,
                          enum fp_shape shape, uint64_t tag, uint32_t arity)
{
    struct fp_message message = read_message(b, word);

    CHECK_TEXT(fp_message_kind_name(message.kind), fp_message_kind_name(kind));
    CHECK_INT(message.tag.shape, shape);
    CHECK_INT(message.tag.atom, tag);
    CHECK_INT(message.tag.arity, arity);
}

static void check_from(struct bench *b, uint64_t word, uint64_t from, int has_ref)
{
    struct fp_message message = read_message(b, word);

    CHECK(message.from == from);
    CHECK_INT(message.has_ref, has_ref);
    if (has_ref)
        CHECK_REF(message.ref, b->ref);
}

#define ENVELOPE(b, name) ((b)->vm.layout.envelope.name)

static uint64_t alias_tag(struct bench *b)
{
    return fake_cons(&b->heap, b->alias, fake_pid_ref(&b->heap, &b->ref, b->pid));
}

static uint64_t request(struct bench *b)
{
    return FAKE_TUPLE(&b->heap, b->get, FAKE_SMALL(1));
}

static void calls_have_caller_reference_and_tag(void)
{
    struct bench b;
    uint64_t from, call, multi;
    const struct fp_ref other = {{1, 2, 3}};

    create(&b, 27);
    from = FAKE_TUPLE(&b.heap, b.pid, alias_tag(&b));
    call = FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_call), from, request(&b));
    check_message(&b, call, FP_MESSAGE_call, FP_SHAPE_TUPLE, b.get, 2);
    check_from(&b, call, b.pid, 1);
    from = FAKE_TUPLE(&b.heap, b.pid, fake_ref(&b.heap, &b.ref));
    call = FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_call), from, b.get);
    check_message(&b, call, FP_MESSAGE_call, FP_SHAPE_ATOM, b.get, 0);
    check_from(&b, call, b.pid, 1);
    multi = fake_cons(&b.heap, b.alias, fake_ref(&b.heap, &other));
    multi = fake_cons(&b.heap, multi, fake_ref(&b.heap, &b.ref));
    from = FAKE_TUPLE(&b.heap, b.pid, multi);
    check_from(&b, FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_call), from, b.get), b.pid, 1);
    call = FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_call), b.get, FAKE_NIL); /* no From */
    check_message(&b, call, FP_MESSAGE_call, FP_SHAPE_OTHER, 0, 0);
    check_from(&b, call, 0, 0);
    call = FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_call), from);
    check_message(&b, call, FP_MESSAGE_info, FP_SHAPE_TUPLE, ENVELOPE(&b, gen_call), 2);
    fake_vm_destroy(&b.vm);
}

static void a_call_of_another_node_has_neither_caller_nor_reference(void)
{
    struct bench b;
    uint64_t from, call;

    create(&b, 27);
    from = fake_remote_ref(&b.heap, b.node, &b.ref, 5);
    from = fake_cons(&b.heap, b.alias, from);
    from = FAKE_TUPLE(&b.heap, fake_remote_pid(&b.heap, b.node, 7, 0), from);
    call = FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_call), from, b.get);
    check_message(&b, call, FP_MESSAGE_call, FP_SHAPE_ATOM, b.get, 0);
    check_from(&b, call, 0, 0);
    fake_vm_destroy(&b.vm);
}

static void events_of_gen_event_are_told(void)
{
    struct bench b;
    uint64_t from, inner;

    create(&b, 27);
    check_message(&b, FAKE_TUPLE(&b.heap, ENVELOPE(&b, notify), request(&b)), FP_MESSAGE_event,
                  FP_SHAPE_TUPLE, b.get, 2);
    from = FAKE_TUPLE(&b.heap, b.pid, alias_tag(&b));
    inner = FAKE_TUPLE(&b.heap, ENVELOPE(&b, sync_notify), request(&b));
    inner = FAKE_TUPLE(&b.heap, b.pid, from, inner);
    check_message(&b, inner, FP_MESSAGE_event, FP_SHAPE_TUPLE, b.get, 2);
    check_from(&b, inner, b.pid, 1);
    inner = FAKE_TUPLE(&b.heap, ENVELOPE(&b, call), b.alias, b.get);
    inner = FAKE_TUPLE(&b.heap, b.pid, from, inner);
    check_message(&b, inner, FP_MESSAGE_call, FP_SHAPE_ATOM, b.get, 0);
    check_from(&b, inner, b.pid, 1);
    inner = FAKE_TUPLE(&b.heap, b.pid, from, b.get);
    check_message(&b, inner, FP_MESSAGE_call, FP_SHAPE_ATOM, b.get, 0);
    inner = FAKE_TUPLE(&b.heap, fake_pid(&b.vm.layout, 34), from, b.get); /* not its label */
    check_message(&b, inner, FP_MESSAGE_info, FP_SHAPE_OTHER, 0, 0);
    check_from(&b, inner, 0, 0);
    from = fake_remote_pid(&b.heap, b.node, 7, 1);
    inner = fake_remote_pid(&b.heap, b.node, 7, 1);
    from = FAKE_TUPLE(&b.heap, from, b.get);
    check_message(&b, FAKE_TUPLE(&b.heap, inner, from, b.get), FP_MESSAGE_call, FP_SHAPE_ATOM,
                  b.get, 0);
    inner = fake_remote_pid(&b.heap, b.node, 7, 2);
    check_message(&b, FAKE_TUPLE(&b.heap, inner, from, b.get), FP_MESSAGE_info, FP_SHAPE_OTHER, 0,
                  0);
    fake_vm_destroy(&b.vm);
}

static void other_envelopes_are_told(void)
{
    struct bench b;
    uint64_t from, ref, word;

    create(&b, 29);
    from = FAKE_TUPLE(&b.heap, b.pid, alias_tag(&b));
    ref = fake_ref(&b.heap, &b.ref);
    check_message(&b, FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_cast), b.get), FP_MESSAGE_cast,
                  FP_SHAPE_ATOM, b.get, 0);
    word = FAKE_TUPLE(&b.heap, ENVELOPE(&b, system), from, b.get);
    check_message(&b, word, FP_MESSAGE_system, FP_SHAPE_ATOM, b.get, 0);
    check_from(&b, word, b.pid, 1);
    word = FAKE_TUPLE(&b.heap, ENVELOPE(&b, io_request), b.pid, ref, request(&b));
    check_message(&b, word, FP_MESSAGE_io, FP_SHAPE_TUPLE, b.get, 2);
    check_from(&b, word, b.pid, 1);
    word = FAKE_TUPLE(&b.heap, ENVELOPE(&b, DOWN), ref, b.get, b.pid, b.get);
    check_message(&b, word, FP_MESSAGE_down, FP_SHAPE_ATOM, ENVELOPE(&b, DOWN), 0);
    word = FAKE_TUPLE(&b.heap, ENVELOPE(&b, EXIT), b.pid, b.get);
    check_message(&b, word, FP_MESSAGE_exit, FP_SHAPE_ATOM, ENVELOPE(&b, EXIT), 0);
    word = FAKE_TUPLE(&b.heap, ENVELOPE(&b, EXIT), FAKE_PORT(3), b.get);
    check_message(&b, word, FP_MESSAGE_exit, FP_SHAPE_ATOM, ENVELOPE(&b, EXIT), 0);
    word = FAKE_TUPLE(&b.heap, ENVELOPE(&b, timeout), ref, request(&b));
    check_message(&b, word, FP_MESSAGE_timer, FP_SHAPE_TUPLE, b.get, 2);
    check_from(&b, word, 0, 0);
    word = FAKE_TUPLE(&b.heap, ref, b.get);
    check_message(&b, word, FP_MESSAGE_reply, FP_SHAPE_OTHER, 0, 0);
    check_from(&b, word, 0, 1);
    word = FAKE_TUPLE(&b.heap, alias_tag(&b), b.get);
    check_message(&b, word, FP_MESSAGE_reply, FP_SHAPE_OTHER, 0, 0);
    check_from(&b, word, 0, 1);
    fake_vm_destroy(&b.vm);
}

static void what_only_begins_like_an_envelope_is_info(void)
{
    struct bench b;

    create(&b, 25);
    const uint64_t first[] = {ENVELOPE(&b, system), ENVELOPE(&b, DOWN), ENVELOPE(&b, EXIT),
                              ENVELOPE(&b, timeout), ENVELOPE(&b, io_request)};
    const uint32_t arity[] = {3, 5, 3, 3, 4};

    for (size_t i = 0; i < 5; i++) {
        const uint64_t word[] = {first[i], b.get, b.pid, b.get, b.get, b.get};

        for (uint32_t n = 1; n <= 6; n++)
            check_message(&b, fake_tuple(&b.heap, word, n), FP_MESSAGE_info, FP_SHAPE_TUPLE,
                          first[i], n);
        check_message(&b, fake_tuple(&b.heap, word, arity[i]), FP_MESSAGE_info, FP_SHAPE_TUPLE,
                      first[i], arity[i]);
    }
    check_message(&b, b.get, FP_MESSAGE_info, FP_SHAPE_ATOM, b.get, 0);
    check_message(&b, FAKE_SMALL(1), FP_MESSAGE_info, FP_SHAPE_OTHER, 0, 0);
    check_message(&b, FAKE_TUPLE(&b.heap, FAKE_SMALL(1), b.get), FP_MESSAGE_info, FP_SHAPE_OTHER, 0,
                  0);
    check_message(&b, FAKE_TUPLE(&b.heap, fake_cons(&b.heap, b.get, b.get), b.get), FP_MESSAGE_info,
                  FP_SHAPE_OTHER, 0, 0);
    fake_vm_destroy(&b.vm);
}

static void a_message_that_cannot_be_read_is_unknown(void)
{
    struct bench b;
    const uint64_t hole = (HEAP + HEAP_BYTES) | 2;

    create(&b, 27);
    check_message(&b, 0, FP_MESSAGE_unknown, FP_SHAPE_UNKNOWN, 0, 0);
    check_message(&b, hole, FP_MESSAGE_unknown, FP_SHAPE_UNKNOWN, 0, 0);
    check_message(&b, FAKE_TUPLE(&b.heap, hole, b.get), FP_MESSAGE_unknown, FP_SHAPE_UNKNOWN, 0, 0);
    check_message(&b, FAKE_TUPLE(&b.heap, fake_cons(&b.heap, b.alias, hole), b.get),
                  FP_MESSAGE_unknown, FP_SHAPE_UNKNOWN, 0, 0);
    check_message(&b, FAKE_TUPLE(&b.heap, fake_cons(&b.heap, hole, b.pid), b.get),
                  FP_MESSAGE_unknown, FP_SHAPE_UNKNOWN, 0, 0);
    check_message(&b, FAKE_TUPLE(&b.heap, ENVELOPE(&b, system), hole, b.get), FP_MESSAGE_unknown,
                  FP_SHAPE_UNKNOWN, 0, 0);
    check_message(&b, FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_cast), hole), FP_MESSAGE_cast,
                  FP_SHAPE_UNKNOWN, 0, 0);
    fake_vm_destroy(&b.vm);
}

static void envelopes_that_are_not_known_match_nothing(void)
{
    struct bench b;
    uint64_t word;

    create(&b, 27);
    word = FAKE_TUPLE(&b.heap, ENVELOPE(&b, gen_cast), b.get);
    memset(&b.vm.layout.envelope, 0, sizeof b.vm.layout.envelope);
    check_message(&b, word, FP_MESSAGE_info, FP_SHAPE_TUPLE, fake_word(&b.vm.memory, word - 2 + 8),
                  2);
    check_message(&b, FAKE_TUPLE(&b.heap, 0, b.get), FP_MESSAGE_unknown, FP_SHAPE_UNKNOWN, 0, 0);
    fake_vm_destroy(&b.vm);
}

static void a_list_that_holds_itself_ends(void)
{
    struct bench b;
    uint64_t cell = HEAP + 4096;

    create(&b, 27);
    fake_put_word(&b.vm.memory, cell, cell | 1);
    fake_put_word(&b.vm.memory, cell + 8, cell | 1);
    fake_put_word(&b.vm.memory, cell + 16, 2 << 6);
    fake_put_word(&b.vm.memory, cell + 24, cell | 1);
    fake_put_word(&b.vm.memory, cell + 32, (cell + 16) | 2);
    check_message(&b, (cell + 16) | 2, FP_MESSAGE_info, FP_SHAPE_OTHER, 0, 0);
    check_message(&b, cell | 1, FP_MESSAGE_info, FP_SHAPE_OTHER, 0, 0);
    fake_put_word(&b.vm.memory, cell + 24, (cell + 16) | 2);
    check_message(&b, (cell + 16) | 2, FP_MESSAGE_info, FP_SHAPE_OTHER, 0, 0);
    fake_vm_destroy(&b.vm);
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    RUN(immediate_terms_cost_no_read);
    RUN(words_that_are_no_terms_are_unreadable);
    RUN(an_atom_that_is_newer_than_the_walk_is_one);
    RUN(references_are_told_by_their_numbers);
    RUN(references_of_absurd_numbers_are_unreadable);
    RUN(remote_terms_are_told_with_their_node);
    RUN(remote_terms_without_a_node_are_unreadable);
    RUN(what_the_calibration_has_not_proven_is_unreadable);
    RUN(all_other_boxed_terms_are_other);
    RUN(tuples_have_their_elements);
    RUN(lists_have_head_and_tail);
    RUN(an_absurd_arity_is_unreadable);
    RUN(what_the_collector_has_moved_is_unreadable);
    RUN(terms_at_the_end_of_memory_are_whole_or_unreadable);
    RUN(a_term_that_crosses_pages_is_read);
    RUN(a_term_that_changes_between_two_reads_is_unreadable);
    RUN(a_spent_budget_makes_the_rest_unreadable);
    RUN(what_the_caller_has_copied_is_not_read);
    RUN(calls_have_caller_reference_and_tag);
    RUN(a_call_of_another_node_has_neither_caller_nor_reference);
    RUN(events_of_gen_event_are_told);
    RUN(other_envelopes_are_told);
    RUN(what_only_begins_like_an_envelope_is_info);
    RUN(a_message_that_cannot_be_read_is_unknown);
    RUN(envelopes_that_are_not_known_match_nothing);
    RUN(a_list_that_holds_itself_ends);
    return RUN_END();
}
