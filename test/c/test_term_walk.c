/* test_term_walk.c - the walker of terms over fake memory: every kind, and what is none. */
#include "base/error.h"
#include "broken.h"
#include "erts/term/message.h"
#include "fake_terms.h"
#include "fake_vm.h"
#include "test.h"

#define HEAP FAKE_HEAPS
#define HEAP_BYTES 8192u

struct fixture {
    struct fake_vm vm;
    struct fake_terms heap;
    struct fp_walk walk;
    struct fp_ref ref;
    uint64_t get, alias, node_name, node, pid;
    uint64_t reads; /* when the walk began */
};

static struct fixture *create(unsigned otp)
{
    struct fixture *b = calloc(1, sizeof *b);

    fake_vm_create(&b->vm, otp, 64, 0);
    fake_vm_add_atoms(&b->vm);
    fake_map(&b->vm.memory, HEAP, HEAP_BYTES);
    b->heap = (struct fake_terms){&b->vm.memory, HEAP};
    b->ref = (struct fp_ref){{0x2abcd, 0x12345678, 0x9abcdef0}};
    fake_vm_add_envelopes(&b->vm);
    b->get = fake_text_atom(&b->vm, "get");
    b->alias = b->vm.layout.envelope.alias;
    b->node_name = fake_text_atom(&b->vm, "other@host");
    b->node = fake_node(&b->heap, b->node_name, 0x66778899);
    b->pid = fake_pid(&b->vm.layout, 33);
    fp_walk_start(&b->walk, &b->vm.memory.reader, &b->vm.layout, 64);
    b->reads = b->vm.memory.entries;
    return b;
}

static void destroy(struct fixture *b)
{
    fake_vm_destroy(&b->vm);
    free(b);
}

/* As a walk of its own: the test has put words where the last one has read. */
static void walk(struct fixture *b, uint64_t word, struct fp_term *term)
{
    fp_walk_again(&b->walk, 64);
    fp_walk_term(&b->walk, word, term);
}

static enum fp_term_kind kind_of(struct fixture *b, uint64_t word)
{
    struct fp_term term;

    walk(b, word, &term);
    CHECK(term.word == word);
    return term.kind;
}

#define CHECK_REF(got, expected) CHECK(memcmp(&(got), &(expected), sizeof(struct fp_ref)) == 0)

/* ---------------------------------------------------------------- terms -- */

TEST_WITH_EACH(immediate_terms_cost_no_read, create, 25, 26, 27, 28, 29)
{
    CHECK_INT(kind_of(f, f->get), FP_TERM_ATOM);
    CHECK_INT(kind_of(f, FAKE_NIL), FP_TERM_NIL);
    CHECK_INT(kind_of(f, f->pid), FP_TERM_PID);
    CHECK_INT(kind_of(f, FAKE_PORT(5)), FP_TERM_PORT);
    CHECK_INT(kind_of(f, FAKE_SMALL(0)), FP_TERM_OTHER);
    CHECK_INT(kind_of(f, FAKE_SMALL(-1)), FP_TERM_OTHER);
    CHECK_INT(f->vm.memory.entries, f->reads);
}

TEST_WITH(words_that_are_no_terms_are_unreadable, create(27))
{
    static const uint64_t none[] = {
        0,           0x10,                     /* a header, an address of code */
        0x1b,        0x51b,                    /* a catch */
        0x2b,        0x7b,                     /* no atom, nil of other bits */
        0x40 | 0x2b, ~UINT64_C(0) << 6 | 0x0b, /* an atom of an absurd index */
        1,           2,                        /* NULL as a cell and boxed */
    };

    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK_INT(kind_of(f, none[i]), FP_TERM_UNREADABLE);
}

TEST_WITH(an_atom_that_is_newer_than_the_walk_is_one, create(25))
{
    uint64_t newer;

    newer = fake_text_atom(&f->vm, "newer");
    CHECK_INT(kind_of(f, newer), FP_TERM_ATOM);
    CHECK_INT(f->walk.budget, 63);
    CHECK_INT(kind_of(f, newer), FP_TERM_ATOM);
    CHECK_INT(f->walk.budget, 64);
    CHECK_INT(kind_of(f, newer + 64), FP_TERM_UNREADABLE);
}

TEST_WITH_EACH(references_are_told_by_their_numbers, create, 25, 26, 27, 28, 29)
{
    struct fp_term term;

    walk(f, fake_ref(&f->heap, &f->ref), &term);
    CHECK_INT(term.kind, FP_TERM_REF);
    CHECK_REF(term.ref, f->ref);
    walk(f, fake_pid_ref(&f->heap, &f->ref, f->pid), &term);
    CHECK_INT(term.kind, FP_TERM_REF);
    CHECK_REF(term.ref, f->ref);
    CHECK_INT(kind_of(f, fake_magic_ref(&f->heap)), FP_TERM_OTHER);
}

TEST_WITH(references_of_absurd_numbers_are_unreadable, create(27))
{
    const struct fp_ref absurd = {{1u << 18, 1, 1}};
    const uint64_t word[] = {UINT64_C(0x1ffffffff), 1, 1, 1, 1};

    CHECK_INT(kind_of(f, fake_ref(&f->heap, &absurd)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, fake_pid_ref(&f->heap, &absurd, f->pid)), FP_TERM_UNREADABLE);
    for (uint64_t n = 0; n < 6; n++)
        CHECK_INT(kind_of(f, fake_boxed(&f->heap, n << 6 | 0x10, word, 5)),
                  n == 2 || n == 3 ? FP_TERM_REF : FP_TERM_UNREADABLE);
    fake_put_word(&f->vm.memory, f->heap.at, 0xd0); /* a pid reference without its mark */
    CHECK_INT(kind_of(f, f->heap.at | 2), FP_TERM_UNREADABLE);
}

TEST_WITH_EACH(remote_terms_are_told_with_their_node, create, 25, 26, 27, 28, 29)
{
    struct fp_term term;

    walk(f, fake_remote_pid(&f->heap, f->node, 1234, 5), &term);
    CHECK_INT(term.kind, FP_TERM_REMOTE_PID);
    CHECK(term.remote.node == f->node_name);
    CHECK_INT(term.remote.creation, 0x66778899);
    CHECK_INT(term.remote.number, 1234);
    CHECK_INT(term.remote.serial, 5);
    for (uint32_t n = 1; n <= 5; n++) {
        walk(f, fake_remote_ref(&f->heap, f->node, &f->ref, n), &term);
        CHECK_INT(term.kind, n < 3 ? FP_TERM_OTHER : FP_TERM_REMOTE_REF);
        if (n < 3)
            continue;
        CHECK(term.remote.node == f->node_name);
        CHECK_REF(term.remote.ref, f->ref);
    }
    CHECK_INT(kind_of(f, fake_remote_port(&f->heap, f->node, 77)), FP_TERM_OTHER);
}

TEST_WITH(remote_terms_without_a_node_are_unreadable, create(27))
{
    uint64_t no_name;

    no_name = fake_node(&f->heap, FAKE_SMALL(1), 1);
    CHECK_INT(kind_of(f, fake_remote_pid(&f->heap, no_name, 1, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, fake_remote_pid(&f->heap, 0, 1, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, fake_remote_pid(&f->heap, f->node + 4, 1, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, fake_remote_ref(&f->heap, no_name, &f->ref, 3)), FP_TERM_UNREADABLE);
}

TEST_WITH(what_the_calibration_has_not_proven_is_unreadable, create(29))
{
    f->vm.layout.remote_terms = 0;
    CHECK_INT(kind_of(f, fake_remote_pid(&f->heap, f->node, 1, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, fake_remote_ref(&f->heap, f->node, &f->ref, 3)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, FAKE_TUPLE(&f->heap, f->get)), FP_TERM_TUPLE);
    f->vm.layout.terms = 0;
    CHECK_INT(kind_of(f, FAKE_TUPLE(&f->heap, f->get)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, fake_cons(&f->heap, f->get, f->get)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, f->get), FP_TERM_UNREADABLE);
}

TEST_WITH(all_other_boxed_terms_are_other, create(29))
{
    /* By the subtag in bits 2..5: 0 tuple, 4 reference, 12 and 14 remote ones, which have tests. */
    static const unsigned other[] = {1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 13, 15};
    const uint64_t word[] = {FAKE_SMALL(1), FAKE_SMALL(2)};

    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        CHECK_INT(kind_of(f, fake_boxed(&f->heap, 2 << 6 | other[i] << 2, word, 2)), FP_TERM_OTHER);
}

TEST_WITH(tuples_have_their_elements, create(27))
{
    uint64_t word[100], got[100];
    struct fp_term term, element;

    for (uint32_t i = 0; i < 100; i++)
        word[i] = FAKE_SMALL(i);
    word[99] = f->get;
    walk(f, fake_tuple(&f->heap, word, 100), &term);
    CHECK_INT(term.kind, FP_TERM_TUPLE);
    CHECK_INT(term.arity, 100);
    CHECK_INT(fp_walk_elements(&f->walk, &term, 0, 100, got), 0);
    CHECK(memcmp(got, word, sizeof word) == 0);
    CHECK_INT(fp_walk_elements(&f->walk, &term, 99, 1, got), 0);
    CHECK(got[0] == f->get);
    CHECK_INT(fp_walk_elements(&f->walk, &term, 99, 2, got), FP_ENOENT);
    CHECK_INT(fp_walk_elements(&f->walk, &term, 101, 0, got), FP_ENOENT);
    CHECK_INT(fp_walk_elements(&f->walk, &term, UINT32_MAX, UINT32_MAX, got), FP_ENOENT);
    fp_walk_element(&f->walk, &term, 99, &element);
    CHECK_INT(element.kind, FP_TERM_ATOM);
    fp_walk_element(&f->walk, &term, 100, &element);
    CHECK_INT(element.kind, FP_TERM_UNREADABLE);
    walk(f, fake_tuple(&f->heap, word, 0), &term);
    CHECK_INT(term.kind, FP_TERM_TUPLE);
    CHECK_INT(term.arity, 0);
    fp_walk_element(&f->walk, &term, 0, &element);
    CHECK_INT(element.kind, FP_TERM_UNREADABLE);
}

TEST_WITH(lists_have_head_and_tail, create(27))
{
    struct fp_term term, head, tail;

    walk(f, fake_cons(&f->heap, f->alias, f->pid), &term);
    CHECK_INT(term.kind, FP_TERM_LIST);
    fp_walk_element(&f->walk, &term, 0, &head);
    fp_walk_element(&f->walk, &term, 1, &tail);
    CHECK(head.word == f->alias && tail.word == f->pid);
    fp_walk_element(&f->walk, &term, 2, &tail);
    CHECK_INT(tail.kind, FP_TERM_UNREADABLE);
    fp_walk_element(&f->walk, &head, 0, &tail); /* an atom has none */
    CHECK_INT(tail.kind, FP_TERM_UNREADABLE);
}

TEST_WITH(an_absurd_arity_is_unreadable, create(27))
{
    struct fp_term term;
    uint64_t word = FAKE_SMALL(1), got[1];

    CHECK_INT(kind_of(f, fake_boxed(&f->heap, UINT64_C(1) << 30, &word, 1)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, fake_boxed(&f->heap, UINT64_C(1) << 63, &word, 1)), FP_TERM_UNREADABLE);
    walk(f, fake_boxed(&f->heap, 0xffffffull << 6, &word, 1), &term);
    CHECK_INT(term.arity, 0xffffff);
    CHECK_INT(fp_walk_elements(&f->walk, &term, 0xfffffe, 1, got), FP_ENOENT);
}

TEST_WITH(what_the_collector_has_moved_is_unreadable, create(27))
{
    uint64_t tuple, cell;

    tuple = FAKE_TUPLE(&f->heap, f->get);
    cell = fake_cons(&f->heap, 0, HEAP | 1);
    fake_put_word(&f->vm.memory, tuple - 2, HEAP | 2);
    CHECK_INT(kind_of(f, tuple), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, cell), FP_TERM_UNREADABLE);
}

/* ---------------------------------------------------------------- reads -- */

TEST_WITH(terms_at_the_end_of_memory_are_whole_or_unreadable, create(27))
{
    for (uint64_t left = 1; left <= 5; left++) {
        enum fp_term_kind fits;

        f->heap.at = HEAP + HEAP_BYTES - 8 * left;
        if (left >= 2) {
            CHECK_INT(kind_of(f, fake_cons(&f->heap, f->get, f->get)), FP_TERM_LIST);
            f->heap.at = HEAP + HEAP_BYTES - 8 * left;
        }
        fake_put_word(&f->vm.memory, f->heap.at, 0x90);
        if (left >= 2)
            fake_put_word(&f->vm.memory, f->heap.at + 8, UINT64_C(0x1ffffffff));
        fits = left >= 3 ? FP_TERM_REF : FP_TERM_UNREADABLE;
        CHECK_INT(kind_of(f, f->heap.at | 2), fits);
        fake_put_word(&f->vm.memory, f->heap.at, 0xd0);
        fits = left >= 4 ? FP_TERM_REF : FP_TERM_UNREADABLE;
        CHECK_INT(kind_of(f, f->heap.at | 2), fits);
        CHECK_INT(kind_of(f, f->heap.at | 1), FP_TERM_UNREADABLE); /* its head is a header */
    }
    CHECK_INT(kind_of(f, (HEAP + HEAP_BYTES - 8) | 1), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, (HEAP + HEAP_BYTES) | 2), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, UINT64_C(0xfffffffffffffff8) | 2), FP_TERM_UNREADABLE);
    CHECK_INT(kind_of(f, UINT64_C(0xfffffffffffffff8) | 1), FP_TERM_UNREADABLE);
}

TEST_WITH(a_term_that_crosses_pages_is_read, create(27))
{
    struct fp_term term;

    f->heap.at = HEAP + 4096 - 8;
    fp_walk_term(&f->walk, fake_pid_ref(&f->heap, &f->ref, f->pid), &term);
    CHECK_INT(term.kind, FP_TERM_REF);
    CHECK_REF(term.ref, f->ref);
}

/* Before its second read memory becomes `word` at `at`. */
struct change {
    struct fixture *b;
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

static enum fp_term_kind kind_after_change(struct fixture *b, uint64_t term, uint64_t at,
                                           uint64_t word)
{
    struct change change = {b, at, word, 0};
    struct fp_term got;

    fake_hook(&b->vm.memory, change_memory, &change);
    walk(b, term, &got);
    b->vm.memory.before_read = NULL;
    CHECK_INT(change.reads, 2);
    return got.kind;
}

TEST_WITH(a_term_that_changes_between_two_reads_is_unreadable, create(27))
{
    uint64_t ref, pid;

    f->heap.at = HEAP + 4096 - 8; /* its header is all that the first read gets */
    ref = fake_ref(&f->heap, &f->ref);
    CHECK_INT(kind_after_change(f, ref, ref - 2, 1 << 6), FP_TERM_UNREADABLE);
    fake_put_word(&f->vm.memory, ref - 2, 0x90);
    CHECK_INT(kind_after_change(f, ref, ref + 6, HEAP), FP_TERM_OTHER); /* magic */
    fake_put_word(&f->vm.memory, ref - 2, 0xd0);
    CHECK_INT(kind_after_change(f, ref, ref + 6, HEAP), FP_TERM_UNREADABLE);
    f->heap.at = HEAP + 4096 + 256;
    pid = fake_remote_pid(&f->heap, f->node, 1, 2);
    CHECK_INT(kind_after_change(f, pid, f->node + 24, FAKE_NIL), FP_TERM_UNREADABLE);
}

/* With what is left of the budget, and what is at hand. */
static enum fp_term_kind kind_on(struct fixture *b, uint64_t word)
{
    struct fp_term term;

    fp_walk_term(&b->walk, word, &term);
    return term.kind;
}

TEST_WITH(a_spent_budget_makes_the_rest_unreadable, create(27))
{
    uint64_t far;

    far = FAKE_TUPLE(&f->heap, f->get);
    f->heap.at += 1024;
    fp_walk_again(&f->walk, 1);
    CHECK_INT(kind_on(f, far), FP_TERM_TUPLE);
    CHECK_INT(kind_on(f, FAKE_TUPLE(&f->heap, f->get)), FP_TERM_UNREADABLE);
    CHECK_INT(kind_on(f, f->get), FP_TERM_ATOM);
    CHECK_INT(kind_on(f, (uint64_t)f->vm.atoms << 6 | 0x0b), FP_TERM_UNREADABLE);
    CHECK_INT(kind_on(f, far), FP_TERM_TUPLE); /* at hand */
    fp_walk_again(&f->walk, 0);
    CHECK_INT(kind_on(f, far), FP_TERM_UNREADABLE);
    CHECK_INT(f->vm.memory.entries, f->reads + 1);
}

TEST_WITH(what_the_caller_has_copied_is_not_read, create(27))
{
    struct fp_term term;
    uint64_t cell, ref, copy[8];

    ref = fake_ref(&f->heap, &f->ref);
    cell = fake_cons(&f->heap, f->alias, ref);
    memcpy(copy, fake_at(&f->vm.memory, ref - 2, 40), 40);
    fake_unmap(&f->vm.memory, HEAP);
    fp_walk_again(&f->walk, 8);
    fp_walk_copy(&f->walk, ref - 2, copy, 5);
    fp_walk_term(&f->walk, cell, &term);
    CHECK_INT(term.kind, FP_TERM_LIST);
    fp_walk_element(&f->walk, &term, 1, &term);
    CHECK_REF(term.ref, f->ref);
    CHECK_INT(f->walk.budget, 8);
    fp_walk_copy(&f->walk, ref - 2, copy, 4); /* cut: the cell lies half outside */
    CHECK_INT(kind_on(f, cell), FP_TERM_UNREADABLE);
    fp_walk_again(&f->walk, 8);
    CHECK_INT(kind_on(f, ref), FP_TERM_UNREADABLE);
}

/* ------------------------------------------------------------- messages -- */

static struct fp_message read_message(struct fixture *b, uint64_t word)
{
    struct fp_message message;

    fp_walk_again(&b->walk, FP_MESSAGE_READS);
    fp_message_read(&b->walk, &b->vm.layout.envelope, word, &message);
    return message;
}

static void check_message(struct fixture *b, uint64_t word, enum fp_message_kind kind,
                          enum fp_shape shape, uint64_t tag, uint32_t arity)
{
    struct fp_message message = read_message(b, word);

    CHECK_TEXT(fp_message_kind_name(message.kind), fp_message_kind_name(kind));
    CHECK_INT(message.tag.shape, shape);
    CHECK_INT(message.tag.atom, tag);
    CHECK_INT(message.tag.arity, arity);
}

static void check_from(struct fixture *b, uint64_t word, uint64_t from, int has_ref)
{
    struct fp_message message = read_message(b, word);

    CHECK(message.from == from);
    CHECK_INT(message.has_ref, has_ref);
    if (has_ref)
        CHECK_REF(message.ref, b->ref);
}

static void check_both(struct fixture *b, uint64_t word, uint64_t from, int has_ref,
                       enum fp_message_kind kind, enum fp_shape shape, uint64_t tag, uint32_t arity)
{
    check_message(b, word, kind, shape, tag, arity);
    check_from(b, word, from, has_ref);
}

#define ENVELOPE(name) (f->vm.layout.envelope.name)
#define TUPLE(...) FAKE_TUPLE(&f->heap, __VA_ARGS__)
#define EXPECT(word, kind, shape, tag, arity)                                                      \
    check_message(f, word, FP_MESSAGE_##kind, FP_SHAPE_##shape, tag, arity)
/* And who has sent it, and whether it has the reference. */
#define EXPECT_FROM(word, from, has_ref, kind, shape, tag, arity)                                  \
    check_both(f, word, from, has_ref, FP_MESSAGE_##kind, FP_SHAPE_##shape, tag, arity)

static uint64_t alias_tag(struct fixture *b)
{
    return fake_cons(&b->heap, b->alias, fake_pid_ref(&b->heap, &b->ref, b->pid));
}

static uint64_t request(struct fixture *b)
{
    return FAKE_TUPLE(&b->heap, b->get, FAKE_SMALL(1));
}

TEST_WITH(calls_have_caller_reference_and_tag, create(27))
{
    uint64_t from, call, multi;
    const struct fp_ref other = {{1, 2, 3}};

    from = TUPLE(f->pid, alias_tag(f));
    EXPECT_FROM(TUPLE(ENVELOPE(gen_call), from, request(f)), f->pid, 1, call, TUPLE, f->get, 2);
    from = TUPLE(f->pid, fake_ref(&f->heap, &f->ref));
    EXPECT_FROM(TUPLE(ENVELOPE(gen_call), from, f->get), f->pid, 1, call, ATOM, f->get, 0);
    multi = fake_cons(&f->heap, f->alias, fake_ref(&f->heap, &other));
    multi = fake_cons(&f->heap, multi, fake_ref(&f->heap, &f->ref));
    from = TUPLE(f->pid, multi);
    check_from(f, TUPLE(ENVELOPE(gen_call), from, f->get), f->pid, 1);
    call = TUPLE(ENVELOPE(gen_call), f->get, FAKE_NIL); /* no From */
    EXPECT_FROM(call, 0, 0, call, OTHER, 0, 0);
    EXPECT(TUPLE(ENVELOPE(gen_call), from), info, TUPLE, ENVELOPE(gen_call), 2);
}

TEST_WITH(a_call_of_another_node_has_neither_caller_nor_reference, create(27))
{
    uint64_t from;

    from = fake_remote_ref(&f->heap, f->node, &f->ref, 5);
    from = fake_cons(&f->heap, f->alias, from);
    from = TUPLE(fake_remote_pid(&f->heap, f->node, 7, 0), from);
    EXPECT_FROM(TUPLE(ENVELOPE(gen_call), from, f->get), 0, 0, call, ATOM, f->get, 0);
}

TEST_WITH(events_of_gen_event_are_told, create(27))
{
    uint64_t from, inner;

    EXPECT(TUPLE(ENVELOPE(notify), request(f)), event, TUPLE, f->get, 2);
    from = TUPLE(f->pid, alias_tag(f));
    inner = TUPLE(ENVELOPE(sync_notify), request(f));
    EXPECT_FROM(TUPLE(f->pid, from, inner), f->pid, 1, event, TUPLE, f->get, 2);
    inner = TUPLE(ENVELOPE(call), f->alias, f->get);
    EXPECT_FROM(TUPLE(f->pid, from, inner), f->pid, 1, call, ATOM, f->get, 0);
    EXPECT(TUPLE(f->pid, from, f->get), call, ATOM, f->get, 0);
    inner = TUPLE(fake_pid(&f->vm.layout, 34), from, f->get); /* not its label */
    EXPECT_FROM(inner, 0, 0, info, OTHER, 0, 0);
    from = fake_remote_pid(&f->heap, f->node, 7, 1);
    inner = fake_remote_pid(&f->heap, f->node, 7, 1);
    from = TUPLE(from, f->get);
    EXPECT(TUPLE(inner, from, f->get), call, ATOM, f->get, 0);
    inner = fake_remote_pid(&f->heap, f->node, 7, 2);
    EXPECT(TUPLE(inner, from, f->get), info, OTHER, 0, 0);
}

TEST_WITH(other_envelopes_are_told, create(29))
{
    uint64_t from = TUPLE(f->pid, alias_tag(f)), ref = fake_ref(&f->heap, &f->ref);

    EXPECT(TUPLE(ENVELOPE(gen_cast), f->get), cast, ATOM, f->get, 0);
    EXPECT_FROM(TUPLE(ENVELOPE(system), from, f->get), f->pid, 1, system, ATOM, f->get, 0);
    EXPECT_FROM(TUPLE(ENVELOPE(io_request), f->pid, ref, request(f)), f->pid, 1, io, TUPLE, f->get,
                2);
    EXPECT(TUPLE(ENVELOPE(DOWN), ref, f->get, f->pid, f->get), down, ATOM, ENVELOPE(DOWN), 0);
    EXPECT(TUPLE(ENVELOPE(EXIT), f->pid, f->get), exit, ATOM, ENVELOPE(EXIT), 0);
    EXPECT(TUPLE(ENVELOPE(EXIT), FAKE_PORT(3), f->get), exit, ATOM, ENVELOPE(EXIT), 0);
    EXPECT_FROM(TUPLE(ENVELOPE(timeout), ref, request(f)), 0, 0, timer, TUPLE, f->get, 2);
    EXPECT_FROM(TUPLE(ref, f->get), 0, 1, reply, OTHER, 0, 0);
    EXPECT_FROM(TUPLE(alias_tag(f), f->get), 0, 1, reply, OTHER, 0, 0);
}

TEST_WITH(what_only_begins_like_an_envelope_is_info, create(25))
{
    const uint64_t first[] = {ENVELOPE(system), ENVELOPE(DOWN), ENVELOPE(EXIT), ENVELOPE(timeout),
                              ENVELOPE(io_request)};
    const uint32_t arity[] = {3, 5, 3, 3, 4};

    for (size_t i = 0; i < 5; i++) {
        const uint64_t word[] = {first[i], f->get, f->pid, f->get, f->get, f->get};

        for (uint32_t n = 1; n <= 6; n++)
            EXPECT(fake_tuple(&f->heap, word, n), info, TUPLE, first[i], n);
        EXPECT(fake_tuple(&f->heap, word, arity[i]), info, TUPLE, first[i], arity[i]);
    }
    EXPECT(f->get, info, ATOM, f->get, 0);
    EXPECT(FAKE_SMALL(1), info, OTHER, 0, 0);
    EXPECT(TUPLE(FAKE_SMALL(1), f->get), info, OTHER, 0, 0);
    EXPECT(TUPLE(fake_cons(&f->heap, f->get, f->get), f->get), info, OTHER, 0, 0);
}

TEST_WITH(a_message_that_cannot_be_read_is_unknown, create(27))
{
    const uint64_t hole = (HEAP + HEAP_BYTES) | 2;

    EXPECT(0, unknown, UNKNOWN, 0, 0);
    EXPECT(hole, unknown, UNKNOWN, 0, 0);
    EXPECT(TUPLE(hole, f->get), unknown, UNKNOWN, 0, 0);
    EXPECT(TUPLE(fake_cons(&f->heap, f->alias, hole), f->get), unknown, UNKNOWN, 0, 0);
    EXPECT(TUPLE(fake_cons(&f->heap, hole, f->pid), f->get), unknown, UNKNOWN, 0, 0);
    EXPECT(TUPLE(ENVELOPE(system), hole, f->get), unknown, UNKNOWN, 0, 0);
    EXPECT(TUPLE(ENVELOPE(gen_cast), hole), cast, UNKNOWN, 0, 0);
}

TEST_WITH(envelopes_that_are_not_known_match_nothing, create(27))
{
    uint64_t word;

    word = TUPLE(ENVELOPE(gen_cast), f->get);
    memset(&f->vm.layout.envelope, 0, sizeof f->vm.layout.envelope);
    EXPECT(word, info, TUPLE, fake_word(&f->vm.memory, word - 2 + 8), 2);
    EXPECT(TUPLE(0, f->get), unknown, UNKNOWN, 0, 0);
}

TEST_WITH(a_list_that_holds_itself_ends, create(27))
{
    uint64_t cell = HEAP + 4096;

    fake_put_word(&f->vm.memory, cell, cell | 1);
    fake_put_word(&f->vm.memory, cell + 8, cell | 1);
    fake_put_word(&f->vm.memory, cell + 16, 2 << 6);
    fake_put_word(&f->vm.memory, cell + 24, cell | 1);
    fake_put_word(&f->vm.memory, cell + 32, (cell + 16) | 2);
    EXPECT((cell + 16) | 2, info, OTHER, 0, 0);
    EXPECT(cell | 1, info, OTHER, 0, 0);
    fake_put_word(&f->vm.memory, cell + 24, (cell + 16) | 2);
    EXPECT((cell + 16) | 2, info, OTHER, 0, 0);
}

TEST_WITH(a_walk_that_was_written_over_reads_nothing, create(25))
{
    const uint64_t word[2] = {1, 2};

    f->walk.copies = FP_WALK_COPIES + 1;
    CHECK_BROKEN("erts/term/walk.c", CHECK(fp_walk_words(&f->walk, HEAP, 1) == NULL));
    CHECK_BROKEN("erts/term/walk.c", fp_walk_copy(&f->walk, HEAP, word, 2));
    CHECK_INT(f->walk.copies, FP_WALK_COPIES + 1);
    fp_walk_again(&f->walk, 1);
    CHECK(fp_walk_words(&f->walk, HEAP, 1) != NULL);
}
