/* test_explain.c - what is copied of a running process, wherever its thread was, and what that is
 * taken to mean; over a memory that the test lays out. */
#include "base/error.h"
#include "erts/capture/explain.h"
#include "fake_vm.h"
#include "test.h"

/* ------------------------------------------------------- a thread's state -- */

/* A scheduler's C stack, and where JIT code switches to it. */
#define NATIVE (FAKE_DATA + 0x1000000)
#define NATIVE_SIZE 0x20000u
#define BASE (NATIVE + NATIVE_SIZE - 0x100)
#define SCHEDULER (FAKE_DATA + 0x3000000)

/* JIT code: what all share, then functions. What follows on a return to *_STOP takes the Erlang
 * stack's top out of the structure, to *_RBP from rbp, to *_NEITHER from somewhere else. */
#define JIT_SIZE 0x10000u
#define SHARED_END (FAKE_JIT + 0x1000)
#define SHARED_STOP (FAKE_JIT + 0x100)
#define SHARED_RBP (FAKE_JIT + 0x200)
#define SHARED_NEITHER (FAKE_JIT + 0x700) /* and nothing for a KiB */
#define SHARED_NIF (FAKE_JIT + 0x400)
#define SHARED_SCHEDULE (FAKE_JIT + 0x500)
#define SHARED_HEAVY (FAKE_JIT + 0x600) /* the start of call_bif_shared */
#define FUNCTION_STOP (FAKE_JIT + 0x2100)
#define FUNCTION_RBP (FAKE_JIT + 0x2200)
#define FUNCTION (FAKE_JIT + 0x3000) /* where Erlang code is */
#define FIRST (FAKE_JIT + 0x4008)    /* return addresses, with a call each */
#define SECOND (FAKE_JIT + 0x5010)
#define THIRD (FAKE_JIT + 0x6018)
#define LIGHT (FAKE_JIT + 0x7040) /* ... with that of a light BIF */
#define HEAVY_MFA (FAKE_JIT + 0x8000)
#define NIF_MFA (FAKE_JIT + 0x8100)
#define EXPORT FAKE_MISC
#define LIGHT_MFA (EXPORT + 56)
#define ATOM(n) ((uint64_t)(n) << 6 | 0x0b)
/* In no code of the JIT. */
#define C_CODE UINT64_C(0x555500001000)

#define HEAP fake_heap_at(0)
#define HEND (HEAP + 8 * FAKE_HEAP_WORDS)

struct fake_unwind {
    size_t count; /* frames */
    uint64_t pc[64];
    struct fp_registers at_entry;
    int complete;
    size_t max; /* what it was asked for */
    int calls;
};

struct bench {
    struct fake_vm vm;
    struct fp_capture_scheduler scheduler;
    struct fp_registers registers;
    struct fp_capture running;
    struct fp_capture_code code;
    struct fake_unwind unwind;
    struct fp_snapshot snapshot;
    struct fp_stack stack;
};

static size_t unwind(void *self, const struct fp_capture *running, uint64_t *pc, size_t max,
                     struct fp_registers *at_entry, int *complete)
{
    struct fake_unwind *fake = self;
    size_t n = fake->count < max ? fake->count : max;

    (void)running;
    fake->calls++;
    fake->max = max;
    memcpy(pc, fake->pc, n * sizeof *pc);
    *at_entry = fake->at_entry;
    *complete = fake->complete;
    return n;
}

static void put_code(struct bench *b, uint64_t at, const char *bytes, size_t size)
{
    fake_put(&b->vm.memory, at, bytes, size);
}
#define CODE(b, at, bytes) put_code(b, at, bytes, sizeof(bytes) - 1)

/* A call that returns to `at`. */
static void put_call(struct bench *b, uint64_t at, uint64_t target)
{
    int32_t distance = (int32_t)(target - at);

    CODE(b, at - 5, "\xe8");
    fake_put(&b->vm.memory, at - 4, &distance, 4);
}

static void put_mfa(struct bench *b, uint64_t at, uint64_t arity)
{
    fake_put_word(&b->vm.memory, at, ATOM(70));
    fake_put_word(&b->vm.memory, at + 8, ATOM(71));
    fake_put_word(&b->vm.memory, at + 16, arity);
}

static void put_shared_code(struct bench *b)
{
    char leave[] = "\x49\x8b\x65\x58";

    leave[3] = (char)b->vm.layout.release.offset[FP_FIELD_stop];
    put_code(b, SHARED_STOP, leave, 4);
    put_code(b, SHARED_NIF + 40, leave, 4);
    put_code(b, SHARED_HEAVY + 64, leave, 4);
    put_code(b, FUNCTION_STOP + 7, leave, 4);
    CODE(b, SHARED_RBP, "\x48\x89\xec");
    CODE(b, FUNCTION_RBP + 45, "\x48\x8b\xe5"); /* too far behind */
    CODE(b, FUNCTION_RBP + 20, "\x48\x8b\xe5");
    CODE(b, SHARED_SCHEDULE, "\x49\x89\xc5");
}

static void put_functions(struct bench *b)
{
    int32_t jump = (int32_t)(SHARED_HEAVY - (HEAVY_MFA + 24 + 37));
    uint64_t export = EXPORT;

    put_call(b, FIRST, FUNCTION);
    put_call(b, SECOND, FUNCTION);
    put_call(b, THIRD, FUNCTION);
    /* mov rcx, Export; mov rax, Bif; lea rdx, [rip - 27]; nop; call */
    CODE(b, LIGHT - 36, "\x48\xb9");
    fake_put_word(&b->vm.memory, LIGHT - 34, export);
    CODE(b, LIGHT - 26, "\x48\xb8");
    CODE(b, LIGHT - 16, "\x48\x8d\x15\xe5\xff\xff\xff\x0f\x1f\x00\x40");
    put_call(b, LIGHT, SHARED_STOP - 0x80);
    put_mfa(b, LIGHT_MFA, 2);
    put_mfa(b, HEAVY_MFA, 1);
    CODE(b, HEAVY_MFA + 24 + 32, "\xe9");
    fake_put(&b->vm.memory, HEAVY_MFA + 24 + 33, &jump, 4);
    put_mfa(b, NIF_MFA, 3);
}

/* Process 0 runs on the scheduler, in a function of its own, called by two others. */
static struct bench *create(unsigned otp)
{
    const uint64_t words[] = {0x1b, FIRST, 0xfffff, SECOND, 0x3b, THIRD};
    struct bench *b = calloc(1, sizeof *b);
    struct fake_memory *memory = &b->vm.memory;

    fake_vm_create(&b->vm, otp, 64, 1);
    memset(fake_map(memory, FAKE_JIT, JIT_SIZE), 0x90, JIT_SIZE);
    fake_map(memory, NATIVE, NATIVE_SIZE);
    fake_map(memory, SCHEDULER, 4096);
    fake_map(memory, EXPORT, 4096);
    fake_spawn(&b->vm, 0, FUNCTION);
    fake_set(&b->vm, 0, FP_FIELD_state, FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING);
    fake_set(&b->vm, 0, FP_FIELD_reds, 100000);
    fake_set_stack(&b->vm, 0, words, 6);
    fake_put_word(memory, SCHEDULER + b->vm.layout.release.running.current_process,
                  fake_process_at(0));
    put_shared_code(b);
    put_functions(b);
    b->scheduler =
        (struct fp_capture_scheduler){&b->vm.memory.reader, b->vm.layout, SCHEDULER, BASE, 0};
    b->code = (struct fp_capture_code){.memory = &b->vm.memory.reader,
                                       .ranges = &b->vm.code,
                                       .fragments = {FAKE_JIT, SHARED_END},
                                       .nif_return = SHARED_NIF,
                                       .unwind = unwind,
                                       .unwind_self = &b->unwind,
                                       .with_native = 1};
    b->registers.rip = FUNCTION + 32;
    b->registers.rsp = HEND - 48;
    return b;
}

static void destroy(struct bench *b)
{
    fake_vm_destroy(&b->vm);
    free(b);
}

#define BENCH(test) TEST_ON(test, struct bench *, b, create(27), destroy)

/* In C, `depth` bytes down its stack, called by JIT code at `returns_to`. */
static void enter_c(struct bench *b, uint64_t depth, uint64_t returns_to)
{
    b->registers.rip = C_CODE;
    b->registers.rsp = BASE - depth;
    fake_put_word(&b->vm.memory, BASE - 8, returns_to);
}

/* C frames, of which the walk found all. */
static void unwinds(struct bench *b, size_t count, uint64_t rbp)
{
    b->unwind.count = count;
    for (size_t i = 0; i < count; i++)
        b->unwind.pc[i] = C_CODE + 0x100 * i;
    b->unwind.complete = 1;
    b->unwind.at_entry.rbp = rbp;
}

static void set_field(struct bench *b, uint64_t offset, uint64_t value, size_t size)
{
    fake_put(&b->vm.memory, fake_process_at(0) + offset, &value, size);
}

static void set_current(struct bench *b, uint64_t mfa)
{
    set_field(b, b->vm.layout.release.running.current, mfa, 8);
}

static void capture(struct bench *b)
{
    memset(&b->running, 0xee, sizeof b->running);
    fp_handler_copy(&b->scheduler, &b->registers, &b->running);
}

static void expect_unfound(struct bench *b)
{
    capture(b);
    CHECK_INT(b->running.result, FP_CAPTURE_UNFOUND);
}

static void expect_captured(struct bench *b, int place, int top_in, uint64_t low, uint32_t words)
{
    capture(b);
    CHECK_INT(b->running.result, FP_CAPTURE_CAPTURED);
    CHECK_INT(b->running.place, place);
    CHECK_INT(b->running.top_in, top_in);
    CHECK(b->running.process == fake_process_at(0));
    CHECK(b->running.low == low);
    CHECK_INT(b->running.words, words);
    CHECK(memcmp(&b->running.registers, &b->registers, sizeof b->registers) == 0);
}

static int frames(struct bench *b)
{
    memset(&b->stack, 0xee, sizeof b->stack);
    fp_process_decode(&b->vm.layout, b->running.structure, &b->snapshot);
    return fp_explain_frames(&b->code, &b->vm.layout, &b->running, &b->snapshot, &b->stack);
}

static void check_frames(struct bench *b, const uint64_t *frame, uint32_t n)
{
    capture(b);
    CHECK_INT(frames(b), 0);
    for (uint32_t i = 0; i < n && i < b->stack.count; i++)
        if (b->stack.frame[i] != frame[i])
            RUN_FAIL("frame %u is %" PRIx64 ", expected %" PRIx64, i, b->stack.frame[i], frame[i]);
    CHECK_INT(b->stack.count, n);
}

#define FRAMES(b, ...)                                                                             \
    do {                                                                                           \
        const uint64_t frames_[] = {__VA_ARGS__};                                                  \
        check_frames((b), frames_, sizeof(frames_) / sizeof(*frames_));                            \
    } while (0)
/* What stands below: aligned return addresses, by themselves. */
#define CALLERS FIRST - 1, SECOND - 1, THIRD - 1

/* ---------------------------------------------------------------- capture -- */

TEST(in_erlang_code_the_stack_begins_at_rsp)
{
    static const unsigned releases[] = {25, 26, 27, 28, 29};

    for (size_t i = 0; i < 5; i++) {
        struct bench *b = create(releases[i]);

        /* What the structure says is old. */
        fake_set(&b->vm, 0, FP_FIELD_stop, HEND - 8);
        expect_captured(b, FP_CAPTURE_IN_ERLANG, FP_TOP_UNKNOWN, HEND - 48, 6);
        CHECK_INT(b->running.leaf_words, 6);
        CHECK(b->running.word[1] == FIRST && b->running.word[5] == THIRD);
        CHECK_INT(b->running.native_bytes, 0);
        CHECK(memcmp(b->running.structure, fake_at(&b->vm.memory, fake_process_at(0), 8),
                     b->vm.layout.snapshot_size) == 0);
        destroy(b);
    }
}

BENCH(an_erlang_stack_may_be_empty_or_all_of_the_heap)
{
    b->registers.rsp = HEND;
    expect_captured(b, FP_CAPTURE_IN_ERLANG, FP_TOP_UNKNOWN, HEND, 0);
    b->registers.rsp = HEAP;
    expect_captured(b, FP_CAPTURE_IN_ERLANG, FP_TOP_UNKNOWN, HEAP, FAKE_HEAP_WORDS);
    b->registers.rsp = HEND - 44; /* no word begins there */
    expect_unfound(b);
}

TEST(in_c_the_stack_begins_at_stop_where_code_has_saved_it)
{
    static const unsigned releases[] = {25, 27, 29};
    static const uint64_t returns[] = {SHARED_STOP, SHARED_NIF, FUNCTION_STOP, SHARED_HEAVY + 64};

    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 4; k++) {
            struct bench *b = create(releases[i]);

            enter_c(b, 256, returns[k]);
            expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_STOP, HEND - 48, 6);
            CHECK(b->running.native_return == returns[k]);
            CHECK(b->running.native_start == BASE - 256 - FP_RED_ZONE);
            CHECK_INT(b->running.native_bytes, 256 + FP_RED_ZONE);
            CHECK(memcmp(b->running.native + 256 + FP_RED_ZONE - 8, &returns[k], 8) == 0);
            destroy(b);
        }
}

/* Lists of words that rbp may be: the register, and what C frames saved. */
TEST(in_c_otherwise_it_begins_at_the_lowest_word_that_rbp_may_be)
{
    static const uint64_t returns[] = {SHARED_RBP, FUNCTION_RBP};

    for (size_t k = 0; k < 2; k++) {
        struct bench *b = create(27);

        enter_c(b, 1024, returns[k]);
        fake_put_word(&b->vm.memory, BASE - 512, HEND - 48);
        expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, HEND - 48, 6);
        /* A word on the heap, as htop is: lower, so more is copied. */
        fake_put_word(&b->vm.memory, BASE - 520, HEAP + 8 * 100);
        expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, HEAP + 8 * 100, FAKE_HEAP_WORDS - 100);
        b->registers.rbp = HEAP + 8 * 50; /* C has not used it yet */
        expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, HEAP + 8 * 50, FAKE_HEAP_WORDS - 50);
        /* In the red zone, too. */
        fake_put_word(&b->vm.memory, BASE - 1024 - FP_RED_ZONE, HEAP);
        expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, HEAP, FAKE_HEAP_WORDS);
        destroy(b);
    }
}

BENCH(words_that_are_no_top_are_no_candidates)
{
    enter_c(b, 256, SHARED_RBP);
    b->registers.rbp = HEAP - 8;
    fake_put_word(&b->vm.memory, BASE - 64, HEAP + 4); /* unaligned */
    fake_put_word(&b->vm.memory, BASE - 72, HEND);     /* nothing on it */
    fake_put_word(&b->vm.memory, BASE - 80, HEND + 8); /* outside */
    fake_put_word(&b->vm.memory, BASE - 88, UINT64_MAX - 7);
    fake_put_word(&b->vm.memory, BASE + 8, HEAP); /* not of the C frames */
    fake_put_word(&b->vm.memory, BASE - 256 - FP_RED_ZONE - 8, HEAP);
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, HEND, 0);
}

BENCH(code_that_has_switched_to_the_c_stack_tells_by_what_comes_next)
{
    b->registers.rsp = BASE;
    b->registers.rip = FUNCTION_STOP;
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_STOP, HEND - 48, 6);
    CHECK(b->running.native_return == 0);
    b->registers.rip = FUNCTION_RBP;
    b->registers.rbp = HEND - 16;
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, HEND - 16, 2);
    b->registers.rip = FUNCTION;
    expect_unfound(b);
}

BENCH(in_c_called_by_who_knows_nothing_is_found)
{
    enter_c(b, 256, SHARED_NEITHER);
    expect_unfound(b);
    CHECK_INT(b->running.top_in, FP_TOP_UNKNOWN);
    enter_c(b, 256, 0x1000); /* unreadable */
    expect_unfound(b);
}

/* What goes and comes has its stack saved. */
BENCH(in_the_scheduler_the_stack_begins_at_stop)
{
    enter_c(b, 512, SHARED_SCHEDULE);
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_STOP, HEND - 48, 6);
}

BENCH(anywhere_else_nothing_is_found)
{
    const uint64_t places[] = {0,
                               8,
                               FAKE_BASE,
                               FAKE_HEAPS - 8,
                               HEND + 8,
                               NATIVE - 8,
                               BASE + FP_RED_ZONE + 8,
                               UINT64_MAX - 7};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        b->registers.rip = C_CODE;
        b->registers.rsp = places[i];
        fake_put_word(&b->vm.memory, BASE - 8, SHARED_STOP);
        expect_unfound(b);
    }
}

BENCH(a_c_stack_that_is_no_such_is_refused)
{
    enter_c(b, 256, SHARED_STOP);
    b->registers.rsp += 4;
    expect_unfound(b);
    enter_c(b, 256, SHARED_STOP);
    b->scheduler.native_base += UINT64_C(65) << 20; /* too deep */
    expect_unfound(b);
    b->scheduler.native_base = BASE;
    fake_unmap(&b->vm.memory, NATIVE);
    expect_unfound(b);
}

BENCH(a_scheduler_without_a_process_has_nobody)
{
    uint64_t at = SCHEDULER + b->vm.layout.release.running.current_process;

    fake_put_word(&b->vm.memory, at, 0);
    capture(b);
    CHECK_INT(b->running.result, FP_CAPTURE_NO_PROCESS);
    fake_unmap(&b->vm.memory, SCHEDULER);
    capture(b);
    CHECK_INT(b->running.result, FP_CAPTURE_NO_PROCESS);
    CHECK_INT(b->running.words, 0);
    CHECK_INT(b->running.native_bytes, 0);
}

BENCH(a_structure_that_can_not_be_read_is_unfound)
{
    fake_unmap(&b->vm.memory, FAKE_PROCESSES);
    expect_unfound(b);
    CHECK(b->running.process == fake_process_at(0));
}

BENCH(heap_ends_that_make_no_sense_are_unfound)
{
    fake_set(&b->vm, 0, FP_FIELD_hend, HEAP - 8);
    expect_unfound(b);
    fake_set(&b->vm, 0, FP_FIELD_hend, HEND + 1);
    expect_unfound(b);
    fake_set(&b->vm, 0, FP_FIELD_hend, HEND);
    fake_set(&b->vm, 0, FP_FIELD_heap, HEAP + 2);
    expect_unfound(b);
    fake_set(&b->vm, 0, FP_FIELD_heap, HEAP);
    fake_set(&b->vm, 0, FP_FIELD_hend, UINT64_MAX - 7); /* unreadable */
    expect_unfound(b);
    fake_set(&b->vm, 0, FP_FIELD_hend, HEND);
    expect_captured(b, FP_CAPTURE_IN_ERLANG, FP_TOP_UNKNOWN, HEND - 48, 6);
}

BENCH(a_stop_outside_of_the_heap_is_unfound)
{
    const uint64_t stops[] = {0, 8, UINT64_MAX - 7, HEND - 44, HEND + 8, HEAP - 8};

    for (size_t i = 0; i < 6; i++) {
        fake_set(&b->vm, 0, FP_FIELD_stop, stops[i]);
        enter_c(b, 256, SHARED_STOP);
        expect_unfound(b);
    }
}

#define LARGE FAKE_DATA
#define LARGE_WORDS 20000u

static void give_large_heap(struct bench *b)
{
    fake_map(&b->vm.memory, LARGE, 8 * LARGE_WORDS);
    for (uint64_t k = 0; k < LARGE_WORDS; k++)
        fake_put_word(&b->vm.memory, LARGE + 8 * k, k << 4 | 0xf);
    fake_set(&b->vm, 0, FP_FIELD_heap, LARGE);
    fake_set(&b->vm, 0, FP_FIELD_htop, LARGE);
    fake_set(&b->vm, 0, FP_FIELD_high_water, LARGE);
    fake_set(&b->vm, 0, FP_FIELD_hend, LARGE + 8 * LARGE_WORDS);
    fake_set(&b->vm, 0, FP_FIELD_stop, LARGE + 8 * LARGE_WORDS);
}

BENCH(a_stack_too_large_keeps_both_ends)
{
    static const uint32_t sizes[] = {FP_STACK_WORDS_MAX, FP_STACK_WORDS_MAX + 1, 15000, 20000};

    give_large_heap(b);
    for (size_t i = 0; i < 4; i++) {
        uint64_t first = LARGE_WORDS - sizes[i];
        uint32_t leaf = sizes[i] <= FP_STACK_WORDS_MAX ? sizes[i] : FP_STACK_WORDS_LEAF;

        b->registers.rsp = LARGE + 8 * first;
        expect_captured(b, FP_CAPTURE_IN_ERLANG, FP_TOP_UNKNOWN, b->registers.rsp,
                        FP_STACK_WORDS_MAX);
        CHECK_INT(b->running.leaf_words, leaf);
        CHECK_INT(b->running.word[0] >> 4, first);
        CHECK_INT(b->running.word[leaf - 1] >> 4, first + leaf - 1);
        CHECK_INT(b->running.word[FP_STACK_WORDS_MAX - 1] >> 4, LARGE_WORDS - 1);
        if (leaf < FP_STACK_WORDS_MAX)
            CHECK_INT(b->running.word[leaf] >> 4, LARGE_WORDS - FP_STACK_WORDS_ROOT);
    }
}

/* Among the words that rbp may be, only what can be copied whole counts. */
BENCH(no_candidate_is_farther_from_the_end_than_can_be_copied)
{
    uint64_t lowest = LARGE + 8 * (LARGE_WORDS - FP_STACK_WORDS_MAX);

    give_large_heap(b);
    enter_c(b, 256, SHARED_RBP);
    b->registers.rbp = lowest - 8;
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, LARGE + 8 * LARGE_WORDS, 0);
    b->registers.rbp = lowest;
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, lowest, FP_STACK_WORDS_MAX);
    CHECK_INT(b->running.leaf_words, FP_STACK_WORDS_MAX);
}

BENCH(of_a_deep_c_stack_the_inner_end_is_kept)
{
    uint64_t depth = FP_CAPTURE_NATIVE_MAX - FP_RED_ZONE;

    enter_c(b, depth, SHARED_STOP);
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_STOP, HEND - 48, 6);
    CHECK_INT(b->running.native_bytes, FP_CAPTURE_NATIVE_MAX);
    enter_c(b, depth + 0x8000, SHARED_STOP);
    fake_put_word(&b->vm.memory, b->registers.rsp - FP_RED_ZONE, 4711);
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_STOP, HEND - 48, 6);
    CHECK_INT(b->running.native_bytes, FP_CAPTURE_NATIVE_MAX);
    CHECK(b->running.native_start == b->registers.rsp - FP_RED_ZONE);
    CHECK_INT(b->running.native[0], 4711 & 255);
    CHECK(b->running.native_return == SHARED_STOP);
    /* What rbp was has been saved beyond: it is not seen. */
    enter_c(b, depth + 0x8000, SHARED_RBP);
    fake_put_word(&b->vm.memory, BASE - 64, HEND - 48);
    expect_captured(b, FP_CAPTURE_IN_C, FP_TOP_IN_RBP, HEND, 0);
}

/* ----------------------------------------------------------------- frames -- */

BENCH(erlang_code_is_the_leaf)
{
    FRAMES(b, FUNCTION + 32, CALLERS);
    CHECK_INT(b->unwind.calls, 0);
}

/* A heavy BIF of a module's function jumps to the module's jump, behind the last function. */
BENCH(a_jump_to_shared_code_that_was_not_called_is_in_no_function)
{
    const uint64_t words[] = {FIRST, 0x1b, SECOND, 0x3b, THIRD, 0x1b};
    uint64_t stub = FUNCTION + 0x800;
    int32_t far = (int32_t)(SHARED_HEAVY - (stub + 5));

    fake_set_stack(&b->vm, 0, words, 6);
    CODE(b, stub, "\xe9");
    fake_put(&b->vm.memory, stub + 1, &far, 4);
    b->registers.rip = stub;
    FRAMES(b, FP_FRAME_AMBIGUOUS, CALLERS);
    /* Called, it is its caller's. */
    put_call(b, FIRST, stub);
    FRAMES(b, CALLERS);
    put_call(b, FIRST, FUNCTION);
    /* A jump that stays in the module is code of its function. */
    far = 16;
    fake_put(&b->vm.memory, stub + 1, &far, 4);
    FRAMES(b, stub, CALLERS);
    /* mov rax, SHARED_HEAVY; jmp rax */
    CODE(b, stub, "\x48\xb8");
    fake_put_word(&b->vm.memory, stub + 2, SHARED_HEAVY);
    CODE(b, stub + 10, "\xff\xe0");
    FRAMES(b, FP_FRAME_AMBIGUOUS, CALLERS);
    b->registers.rip = stub + 10;
    FRAMES(b, FP_FRAME_AMBIGUOUS, CALLERS);
    fake_put_word(&b->vm.memory, stub + 2, FUNCTION);
    FRAMES(b, stub + 10, CALLERS);
}

BENCH(a_function_that_calls_c_is_below_the_c_frames)
{
    enter_c(b, 256, FUNCTION_STOP);
    unwinds(b, 2, 0);
    FRAMES(b, C_CODE, C_CODE + 0x100, FUNCTION_STOP - 1, CALLERS);
    /* Not wanted. */
    b->code.with_native = 0;
    FRAMES(b, FUNCTION_STOP - 1, CALLERS);
}

BENCH(a_light_bif_stands_between_c_and_its_caller)
{
    const uint64_t words[] = {LIGHT, 0x1b, SECOND};

    fake_set_stack(&b->vm, 0, words, 3);
    enter_c(b, 256, SHARED_STOP);
    unwinds(b, 1, 0);
    FRAMES(b, C_CODE, FP_FRAME_BIF | LIGHT_MFA, LIGHT - 1, SECOND - 1);
}

BENCH(a_heavy_bif_is_named_by_current)
{
    set_current(b, HEAVY_MFA);
    enter_c(b, 256, SHARED_HEAVY + 64);
    unwinds(b, 1, 0);
    FRAMES(b, C_CODE, FP_FRAME_BIF | HEAVY_MFA, CALLERS);
    /* A word that is left of an earlier one is not believed. */
    set_current(b, HEAVY_MFA + 8);
    FRAMES(b, C_CODE, FP_FRAME_AMBIGUOUS, CALLERS);
    set_current(b, 0);
    FRAMES(b, C_CODE, FP_FRAME_AMBIGUOUS, CALLERS);
    set_current(b, HEAVY_MFA);
    enter_c(b, 256, SHARED_STOP); /* not of the heavy ones' code */
    FRAMES(b, C_CODE, FP_FRAME_AMBIGUOUS, CALLERS);
}

BENCH(a_nif_is_named_by_current)
{
    set_current(b, NIF_MFA);
    enter_c(b, 256, SHARED_NIF);
    unwinds(b, 1, 0);
    FRAMES(b, C_CODE, FP_FRAME_NIF | NIF_MFA, CALLERS);
}

/* Refused with this class off, and with all others off its frames are there only if Erlang code,
 * which each stack has, is on. */
static void check_class(struct bench *b, uint32_t class)
{
    const uint32_t all = FP_CLASS_LIGHT_BIF | FP_CLASS_HEAVY_BIF | FP_CLASS_NIF | FP_CLASS_GC;

    capture(b);
    b->code.off = class;
    CHECK_INT(frames(b), FP_EUNVERIFIED);
    b->code.off = FP_CLASS_ERLANG;
    CHECK_INT(frames(b), FP_EUNVERIFIED);
    b->code.off = all & ~class;
    CHECK_INT(frames(b), 0);
    b->code.off = 0;
}

BENCH(a_capture_of_a_class_that_is_off_is_refused)
{
    check_class(b, FP_CLASS_ERLANG);
    set_current(b, NIF_MFA);
    enter_c(b, 256, SHARED_NIF);
    check_class(b, FP_CLASS_NIF);
    set_current(b, HEAVY_MFA);
    enter_c(b, 256, SHARED_HEAVY + 64);
    check_class(b, FP_CLASS_HEAVY_BIF);
    fake_set(&b->vm, 0, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    enter_c(b, 256, FUNCTION_STOP);
    check_class(b, FP_CLASS_GC);
}

/* A word that is no address could pass for a frame of another kind. */
BENCH(a_nif_is_ambiguous_where_current_is_no_address)
{
    static const uint64_t words[] = {0,
                                     FP_FRAME_IDLE,
                                     FP_FRAME_TEXT | 7,
                                     FP_FRAME_SLOT | 7,
                                     FP_FRAME_BIF | NIF_MFA,
                                     UINT64_C(1) << 47};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        set_current(b, words[i]);
        enter_c(b, 256, SHARED_NIF);
        unwinds(b, 1, 0);
        FRAMES(b, C_CODE, FP_FRAME_AMBIGUOUS, CALLERS);
    }
}

BENCH(in_the_scheduler_a_process_is_where_it_continues)
{
    enter_c(b, 256, SHARED_SCHEDULE);
    unwinds(b, 1, 0);
    FRAMES(b, C_CODE, FUNCTION, CALLERS);
    /* Its turn has not begun, or is counted already. */
    CHECK_INT(b->snapshot.value[FP_METRIC_reductions], 100000);
}

BENCH(in_the_scheduler_it_is_ambiguous_where_that_is_no_address)
{
    static const uint64_t words[] = {0, FP_FRAME_IDLE, FP_FRAME_RUNNING, FP_FRAME_TEXT | 7,
                                     FP_FRAME_NIF | FIRST};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        fake_set(&b->vm, 0, FP_FIELD_i, words[i]);
        enter_c(b, 256, SHARED_SCHEDULE);
        unwinds(b, 1, 0);
        FRAMES(b, C_CODE, FP_FRAME_AMBIGUOUS, CALLERS);
    }
}

/* The module that the fragments call from has not aligned the stack. */
TEST(an_unaligned_return_address_of_a_fragment_is_a_frame)
{
    for (uint64_t off = 1; off < 4; off++) {
        const uint64_t words[] = {FIRST + off, SECOND};
        struct bench *b = create(27);

        fake_set_stack(&b->vm, 0, words, 2);
        put_call(b, FIRST + off, SHARED_STOP - 0x40);
        b->registers.rsp = HEND - 16;
        FRAMES(b, FUNCTION + 32, FIRST + off - 1, SECOND - 1);
        enter_c(b, 256, SHARED_STOP);
        unwinds(b, 1, 0);
        FRAMES(b, C_CODE, FIRST + off - 1, SECOND - 1);
        destroy(b);
    }
}

/* A value on top that looks like an address of code is none without a call. */
BENCH(an_unaligned_word_without_a_call_is_no_frame)
{
    const uint64_t words[] = {FUNCTION + 0x81, SECOND};

    fake_set_stack(&b->vm, 0, words, 2);
    b->registers.rsp = HEND - 16;
    FRAMES(b, FUNCTION + 32, SECOND - 1);
}

/* ERTS_FRAME_LAYOUT_FP_RA: before each return address is a frame pointer. */
BENCH(frame_pointers_are_looked_through)
{
    const uint64_t words[] = {HEND - 24, LIGHT, 0x1b, HEND - 8, SECOND};
    const uint64_t odd[] = {HEND - 16, FIRST + 1, HEND - 8, SECOND};

    fake_set_stack(&b->vm, 0, words, 5);
    enter_c(b, 256, SHARED_STOP);
    unwinds(b, 1, 0);
    FRAMES(b, C_CODE, FP_FRAME_BIF | LIGHT_MFA, LIGHT - 1, SECOND - 1);
    fake_set_stack(&b->vm, 0, odd, 4);
    put_call(b, FIRST + 1, SHARED_STOP - 0x40);
    FRAMES(b, C_CODE, FIRST, SECOND - 1);
    /* A value that is no frame pointer hides what is behind it. */
    fake_put_word(&b->vm.memory, HEND - 32, HEND + 8);
    FRAMES(b, C_CODE, FP_FRAME_AMBIGUOUS, SECOND - 1);
    fake_put_word(&b->vm.memory, HEND - 32, HEND - 32);
    FRAMES(b, C_CODE, FP_FRAME_AMBIGUOUS, SECOND - 1);
}

BENCH(without_saved_top_it_is_the_rbp_that_unwinding_finds)
{
    /* On the heap, below the stack, something that looks like a frame. */
    fake_put_word(&b->vm.memory, HEAP + 800, THIRD);
    enter_c(b, 512, FUNCTION_RBP);
    fake_put_word(&b->vm.memory, BASE - 128, HEAP + 8 * 90);
    fake_put_word(&b->vm.memory, BASE - 256, HEND - 48);
    unwinds(b, 2, HEND - 48);
    FRAMES(b, C_CODE, C_CODE + 0x100, FUNCTION_RBP - 1, CALLERS);
    CHECK(b->running.low == HEAP + 8 * 90);
    CHECK(b->snapshot.stop == HEND - 48);
    CHECK_INT(b->snapshot.value[FP_METRIC_stack_size], 6);
}

BENCH(an_rbp_that_can_not_be_is_not_believed)
{
    static const int64_t from_end[] = {-64, -44, 8, 1 << 20};

    enter_c(b, 512, FUNCTION_RBP);
    fake_put_word(&b->vm.memory, BASE - 256, HEND - 48);
    for (size_t i = 0; i < 4; i++) {
        unwinds(b, 1, HEND + (uint64_t)from_end[i]);
        capture(b);
        CHECK_INT(b->running.result, FP_CAPTURE_CAPTURED);
        CHECK_INT(frames(b), FP_ENOENT);
    }
    unwinds(b, 1, 0);
    CHECK_INT(frames(b), FP_ENOENT);
}

BENCH(an_incomplete_walk_says_so_and_tells_no_rbp)
{
    enter_c(b, 256, FUNCTION_STOP);
    unwinds(b, 2, 0);
    b->unwind.complete = 0;
    FRAMES(b, C_CODE, C_CODE + 0x100, FP_FRAME_TRUNCATED, FUNCTION_STOP - 1, CALLERS);
    unwinds(b, 0, 0);
    b->unwind.complete = 0;
    FRAMES(b, FP_FRAME_TRUNCATED, FUNCTION_STOP - 1, CALLERS);
    enter_c(b, 256, FUNCTION_RBP);
    b->registers.rbp = HEND - 48;
    unwinds(b, 2, HEND - 48);
    b->unwind.complete = 0;
    capture(b);
    CHECK_INT(frames(b), FP_ENOENT);
}

BENCH(without_an_unwinder_there_are_no_c_frames)
{
    b->code.unwind = NULL;
    enter_c(b, 256, FUNCTION_STOP);
    FRAMES(b, FUNCTION_STOP - 1, CALLERS);
    enter_c(b, 256, FUNCTION_RBP);
    b->registers.rbp = HEND - 48;
    capture(b);
    CHECK_INT(frames(b), FP_ENOENT);
}

BENCH(code_of_the_jit_on_the_c_stack_is_the_leaf)
{
    b->registers.rsp = BASE;
    b->registers.rip = FUNCTION_STOP;
    FRAMES(b, FUNCTION_STOP, CALLERS);
    CHECK_INT(b->unwind.calls, 0);
}

/* The VM has mapped more memory for code since the ranges were read. */
BENCH(code_that_is_in_no_known_range_is_ambiguous)
{
    b->registers.rip = C_CODE;
    FRAMES(b, FP_FRAME_AMBIGUOUS, CALLERS);
}

BENCH(the_collector_has_its_marker_above_who_called_it)
{
    fake_set(&b->vm, 0, FP_FIELD_state, FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING | FP_PSFLG_GC);
    enter_c(b, 256, FUNCTION_STOP);
    unwinds(b, 2, 0);
    FRAMES(b, C_CODE, C_CODE + 0x100, FP_FRAME_GC, FUNCTION_STOP - 1, CALLERS);
    b->registers.rip = FUNCTION + 32;
    b->registers.rsp = HEND - 48;
    FRAMES(b, FP_FRAME_GC, FUNCTION + 32, CALLERS);
}

/* Its stack is on its way from one heap to the other. */
BENCH(while_the_collector_moves_the_stack_that_alone_is_told)
{
    fake_set(&b->vm, 0, FP_FIELD_state, FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING | FP_PSFLG_GC);
    fake_set(&b->vm, 0, FP_FIELD_stop, FAKE_DATA);
    enter_c(b, 256, FUNCTION_STOP);
    unwinds(b, 2, 0);
    FRAMES(b, C_CODE, C_CODE + 0x100, FP_FRAME_GC, FP_FRAME_AMBIGUOUS);
    CHECK_INT(b->running.result, FP_CAPTURE_UNFOUND);
    b->code.with_native = 0;
    FRAMES(b, FP_FRAME_GC, FP_FRAME_AMBIGUOUS);
    /* In Erlang code there is no collection. */
    b->registers.rip = FUNCTION;
    b->registers.rsp = FAKE_DATA;
    capture(b);
    CHECK_INT(frames(b), FP_ENOENT);
}

/* --------------------------------------------------------------- figures -- */

BENCH(reductions_of_this_turn_are_counted)
{
    static const struct {
        int32_t left;
        int64_t done;
    } turns[] = {{4000, 0},    {3999, 1},         {1, 3999}, {0, 4000},     {-1, 4000},
                 {-500, 4000}, {INT32_MIN, 4000}, {4001, 0}, {INT32_MAX, 0}};
    uint16_t at = b->vm.layout.release.running.fcalls;

    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        enter_c(b, 256, FUNCTION_STOP);
        set_field(b, at, (uint32_t)turns[i].left, 4);
        b->registers.r14 = 2500; /* C may have put anything there */
        capture(b);
        CHECK_INT(frames(b), 0);
        CHECK_INT(b->snapshot.value[FP_METRIC_reductions], 100000 + turns[i].done);
        /* In Erlang code it is a register's; 32 bits of it. */
        set_field(b, at, 17, 4);
        b->registers.rip = FUNCTION;
        b->registers.rsp = HEND - 48;
        b->registers.r14 = UINT64_C(0x5a5a5a5a00000000) | (uint32_t)turns[i].left;
        capture(b);
        CHECK_INT(frames(b), 0);
        CHECK_INT(b->snapshot.value[FP_METRIC_reductions], 100000 + turns[i].done);
    }
}

BENCH(reductions_near_the_end_of_all_numbers_do_not_wrap)
{
    fake_set(&b->vm, 0, FP_FIELD_reds, INT64_MAX - 10);
    capture(b);
    CHECK_INT(frames(b), 0);
    CHECK(b->snapshot.value[FP_METRIC_reductions] > 0);
}

BENCH(sizes_are_those_of_the_moment)
{
    fake_set(&b->vm, 0, FP_FIELD_stop, HEND - 8 * 200);
    b->registers.r15 = HEAP + 8 * 33;
    capture(b);
    CHECK_INT(frames(b), 0);
    CHECK_INT(b->snapshot.value[FP_METRIC_stack_size], 6);
    CHECK_INT(b->snapshot.value[FP_METRIC_heap_size], 33);
    CHECK(b->snapshot.stop == HEND - 48);
    /* Not when r15 cannot be the heap's top. */
    for (int i = 0; i < 3; i++) {
        const uint64_t wrong[] = {HEAP - 8, HEAP + 3, HEND - 40};

        b->registers.r15 = wrong[i];
        capture(b);
        CHECK_INT(frames(b), 0);
        CHECK_INT(b->snapshot.value[FP_METRIC_heap_size], 10);
    }
    /* In C, what the structure says is what it is. */
    enter_c(b, 256, FUNCTION_STOP);
    b->registers.r15 = HEAP + 8 * 33;
    capture(b);
    CHECK_INT(frames(b), 0);
    CHECK_INT(b->snapshot.value[FP_METRIC_heap_size], 10);
    CHECK_INT(b->snapshot.value[FP_METRIC_stack_size], 200);
}

/* ------------------------------------------------------------------- cuts -- */

BENCH(a_deep_stack_is_cut_and_says_so)
{
    uint64_t words[480];

    for (uint64_t k = 0; k < 480; k++)
        words[k] = FAKE_JIT + 0x9000 + 8 * k;
    fake_set_stack(&b->vm, 0, words, 480);
    enter_c(b, 256, FUNCTION_STOP);
    unwinds(b, 64, 0); /* more than there is room for */
    fake_set(&b->vm, 0, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    capture(b);
    CHECK_INT(frames(b), 0);
    CHECK_INT(b->unwind.max, 48);
    CHECK_INT(b->stack.count, FP_STACK_FRAMES_MAX);
    CHECK(b->stack.frame[47] == C_CODE + 0x100 * 47);
    CHECK(b->stack.frame[48] == FP_FRAME_GC);
    CHECK(b->stack.frame[49] == FUNCTION_STOP - 1);
    CHECK(b->stack.frame[50] == words[0] - 1);
    CHECK(b->stack.frame[FP_STACK_FRAMES_MAX - 1] == FP_FRAME_TRUNCATED);
}

/* All there can be above the stack, at once. */
BENCH(the_most_that_can_be_put_on_top_fits)
{
    const uint64_t words[] = {FIRST + 1, SECOND};

    fake_set_stack(&b->vm, 0, words, 2);
    put_call(b, FIRST + 1, FUNCTION);
    enter_c(b, 256, SHARED_STOP);
    unwinds(b, 48, 0);
    b->unwind.complete = 0;
    fake_set(&b->vm, 0, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    capture(b);
    CHECK_INT(frames(b), 0);
    CHECK_INT(b->stack.count, 48 + 5);
    CHECK(b->stack.frame[48] == FP_FRAME_TRUNCATED);
    CHECK(b->stack.frame[49] == FP_FRAME_GC);
    CHECK(b->stack.frame[50] == FP_FRAME_AMBIGUOUS);
    CHECK(b->stack.frame[51] == FIRST);
    CHECK(b->stack.frame[52] == SECOND - 1);
}
