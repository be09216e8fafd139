/* test_explain_shared.c - the stack of a running process and the caller of C, in code and stacks
 * that are laid out here. flame_prof_running_SUITE tests the same in a VM. */
#include "base/error.h"
#include "erts/capture/explain.h"
#include "erts/capture/jit_code.h"
#include "fake_memory.h"
#include "test.h"

#define FRAGMENTS FAKE_BASE
#define FRAGMENTS_END (FAKE_BASE + 0x1000)
#define CODE_END (FAKE_BASE + 0x4000)
#define FUNCTION (FAKE_BASE + 0x2000)
#define STUB (FAKE_BASE + 0x3000)
#define DATA (FAKE_BASE + 0x10000)
#define PROCESS (FAKE_BASE + 0x11000)
#define HEAP (FAKE_BASE + 0x20000)
#define HEND (HEAP + 0x1000)
#define NEW_HEAP (FAKE_BASE + 0x30000)
#define NATIVE_BASE (FAKE_BASE + 0x42000)
#define BOTTOM (FRAGMENTS + 0x800)
/* A return address in a function: right behind a call. */
#define CALLER (FUNCTION + 0x100)

struct fixture {
    struct fake_memory memory;
    struct fp_capture_scheduler scheduler;
    struct fp_registers registers;
    struct fp_ranges ranges;
    struct fp_capture_code code;
    struct fp_capture running;
    struct fp_snapshot snapshot;
    struct fp_stack stack;
};

static void set_field(struct fixture *f, enum fp_field field, uint64_t word)
{
    fake_put_word(&f->memory, PROCESS + f->scheduler.layout.release.offset[field], word);
}

static void put_call(struct fixture *f, uint64_t returns_to, uint64_t target)
{
    unsigned char code[5] = {0xe8};
    int32_t distance = (int32_t)(target - returns_to);

    memcpy(code + 1, &distance, 4);
    fake_put(&f->memory, returns_to - 5, code, sizeof code);
}

static void put_jump(struct fixture *f, uint64_t at, uint64_t target)
{
    unsigned char code[5] = {0xe9};
    int32_t distance = (int32_t)(target - (at + 5));

    memcpy(code + 1, &distance, 4);
    fake_put(&f->memory, at, code, sizeof code);
}

/* mov rsp, [r13 + stop] */
static void put_leave(struct fixture *f, uint64_t at)
{
    unsigned char code[4] = {0x49, 0x8b, 0x65,
                             (unsigned char)f->scheduler.layout.release.offset[FP_FIELD_stop]};

    fake_put(&f->memory, at, code, sizeof code);
}

/* A process that called C from `returns_to_jit`; two words on its stack. */
static struct fixture *create(uint64_t returns_to_jit)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_memory_create(&f->memory);
    fake_map(&f->memory, FAKE_BASE, 0x4000);
    fake_map(&f->memory, DATA, 0x2000);
    fake_map(&f->memory, HEAP, 0x1000);
    fake_map(&f->memory, NEW_HEAP, 0x2000);
    fake_map(&f->memory, NATIVE_BASE - 0x2000, 0x2000);
    f->scheduler.memory = &f->memory.reader;
    f->scheduler.layout.release = *fp_release_find(27);
    f->scheduler.layout.snapshot_size = 768;
    f->scheduler.data = DATA;
    f->scheduler.native_base = NATIVE_BASE;
    f->scheduler.bottom = BOTTOM;
    fake_put_word(&f->memory, DATA + f->scheduler.layout.release.running.current_process, PROCESS);
    set_field(f, FP_FIELD_heap, HEAP);
    set_field(f, FP_FIELD_hend, HEND);
    set_field(f, FP_FIELD_stop, HEND - 16);
    fake_put_word(&f->memory, HEND - 16, CALLER);
    fake_put_word(&f->memory, HEND - 8, BOTTOM);
    put_call(f, CALLER, FUNCTION);
    fake_put_word(&f->memory, NATIVE_BASE - 8, returns_to_jit);
    f->registers.rsp = NATIVE_BASE - 64;
    f->registers.rip = 0x1234;
    f->ranges.count = 1;
    f->ranges.range[0] = (struct fp_range){FAKE_BASE, CODE_END};
    f->code.memory = &f->memory.reader;
    f->code.ranges = &f->ranges;
    f->code.fragments = (struct fp_range){FRAGMENTS, FRAGMENTS_END};
    return f;
}

static void destroy(struct fixture *f)
{
    fake_memory_destroy(&f->memory);
    free(f);
}

static uint8_t capture(struct fixture *f)
{
    fp_handler_copy(&f->scheduler, &f->registers, &f->running);
    return f->running.result;
}

static int frames(struct fixture *f)
{
    (void)fp_process_decode(&f->scheduler.layout, f->running.structure, &f->snapshot);
    return fp_explain_frames(&f->code, &f->scheduler.layout, &f->running, &f->snapshot, &f->stack);
}

/* ------------------------------------------------------ the stack's top -- */

TEST(the_stack_may_come_back_late)
{
    for (uint64_t bytes = 0; bytes < 1000; bytes += 37) {
        struct fixture *f = create(FUNCTION);

        put_leave(f, FUNCTION + bytes);
        CHECK(capture(f) == FP_CAPTURE_CAPTURED);
        CHECK(f->running.top_in == FP_TOP_IN_STOP);
        CHECK(f->running.low == HEND - 16 && f->running.words == 2);
        destroy(f);
    }
}

static void move_stop(struct fixture *f, uint16_t offset)
{
    f->scheduler.layout.release.offset[FP_FIELD_stop] = offset;
    set_field(f, FP_FIELD_stop, HEND - 16);
}

/* mov rsp, [r13 + displacement], of four bytes */
static void put_far_leave(struct fixture *f, uint64_t at, uint32_t displacement)
{
    unsigned char code[7] = {0x49, 0x8b, 0xa5};

    memcpy(code + 3, &displacement, 4);
    fake_put(&f->memory, at, code, sizeof code);
}

/* Also where the code is read in pieces. */
TEST(the_saved_top_may_lie_far_into_the_process)
{
    static const uint16_t offset[] = {88, 128, 216, 256, 344, 704};

    for (size_t i = 0; i < sizeof offset / sizeof *offset; i++)
        for (uint64_t bytes = 0; bytes < 130; bytes++) {
            struct fixture *f = create(FUNCTION);

            move_stop(f, offset[i]);
            put_far_leave(f, FUNCTION + bytes, offset[i]);
            CHECK(capture(f) == FP_CAPTURE_CAPTURED);
            CHECK(f->running.top_in == FP_TOP_IN_STOP);
            CHECK(f->running.low == HEND - 16 && f->running.words == 2);
            destroy(f);
        }
}

/* One byte reaches from -128 to 127; another displacement's low byte may be that of the field. */
TEST(another_displacement_is_not_that_of_the_saved_top)
{
    for (int is_far = 0; is_far <= 1; is_far++) {
        struct fixture *f = create(FUNCTION);

        move_stop(f, 216);
        if (is_far)
            put_far_leave(f, FUNCTION, 216 + 256);
        else
            put_leave(f, FUNCTION); /* [r13 - 40] */
        CHECK(capture(f) == FP_CAPTURE_UNFOUND);
        CHECK(f->running.top_in == FP_TOP_UNKNOWN);
        destroy(f);
    }
}

TEST_WITH(a_stack_that_never_comes_back_is_unfound, create(FUNCTION))
{
    put_leave(f, FUNCTION + 1500);
    CHECK(capture(f) == FP_CAPTURE_UNFOUND);
    CHECK(f->running.top_in == FP_TOP_UNKNOWN);
}

TEST_WITH(code_may_end_before_it_is_found, create(CODE_END - 10))
{
    CHECK(capture(f) == FP_CAPTURE_UNFOUND);
}

/* ---------------------------------------------------- the stack's bottom -- */

TEST_WITH(a_stack_that_is_being_moved_ends_with_its_last_word, create(FUNCTION))
{
    uint64_t top = NEW_HEAP + 0x1000 - 24;

    put_leave(f, FUNCTION);
    /* Across a page: it is copied up to the end of each. */
    set_field(f, FP_FIELD_stop, top);
    fake_put_word(&f->memory, top, CALLER);
    fake_put_word(&f->memory, top + 8, 0x3b);
    fake_put_word(&f->memory, top + 24, BOTTOM);
    fake_put_word(&f->memory, top + 32, CALLER);
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    CHECK(f->running.words == 4 && f->running.high == top + 32);
    CHECK(f->running.word[3] == BOTTOM);
    CHECK(frames(f) == 0);
    CHECK(f->snapshot.stop == top && f->snapshot.hend == top + 32);
    CHECK(f->snapshot.value[FP_METRIC_stack_size] == 4);
}

TEST_WITH(a_moved_stack_without_an_end_is_unfound, create(FUNCTION))
{
    put_leave(f, FUNCTION);
    set_field(f, FP_FIELD_stop, NEW_HEAP);
    CHECK(capture(f) == FP_CAPTURE_UNFOUND);
    set_field(f, FP_FIELD_stop, NEW_HEAP + 3);
    CHECK(capture(f) == FP_CAPTURE_UNFOUND);
    /* No scheduler has told what the last word is. */
    fake_put_word(&f->memory, NEW_HEAP + 8, BOTTOM);
    set_field(f, FP_FIELD_stop, NEW_HEAP);
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    f->scheduler.bottom = 0;
    CHECK(capture(f) == FP_CAPTURE_UNFOUND);
}

/* Between two stores of the collector the old heap's end may be behind. */
TEST_WITH(nothing_behind_the_last_word_is_stack, create(FUNCTION))
{
    put_leave(f, FUNCTION);
    set_field(f, FP_FIELD_stop, HEND - 64);
    fake_put_word(&f->memory, HEND - 64, CALLER);
    fake_put_word(&f->memory, HEND - 56, BOTTOM);
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    CHECK(f->running.words == 2 && f->running.high == HEND - 48);
}

/* ------------------------------------------------------------ the caller -- */

static int has(const struct fixture *f, uint64_t frame)
{
    for (uint32_t i = 0; i < f->stack.count; i++)
        if (f->stack.frame[i] == frame)
            return 1;
    return 0;
}

TEST_WITH(shared_code_is_reached_through_the_modules_jumps, create(FRAGMENTS + 0x200))
{
    put_leave(f, FRAGMENTS + 0x200);
    put_call(f, CALLER, STUB);
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    CHECK(frames(f) == 0);
    CHECK(has(f, FP_FRAME_AMBIGUOUS));
    put_jump(f, STUB, FRAGMENTS + 0x100);
    CHECK(frames(f) == 0);
    CHECK(!has(f, FP_FRAME_AMBIGUOUS));
    CHECK(f->stack.frame[0] == CALLER - 1);
}

TEST_WITH(a_module_s_jump_is_no_leaf, create(0))
{
    put_call(f, CALLER, STUB);
    put_jump(f, STUB, FRAGMENTS + 0x100);
    f->registers.rip = STUB;
    f->registers.rsp = HEND - 16;
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    CHECK(f->running.place == FP_CAPTURE_IN_ERLANG);
    CHECK(frames(f) == 0);
    CHECK(f->stack.frame[0] == CALLER - 1);
}

TEST_WITH(shared_code_that_nobody_called_is_ambiguous, create(0))
{
    f->registers.rip = FRAGMENTS + 0x300;
    f->registers.rsp = HEND - 16;
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    /* The call on top of the stack was that of a function. */
    CHECK(frames(f) == 0);
    CHECK(f->stack.frame[0] == FP_FRAME_AMBIGUOUS);
    put_call(f, CALLER, FRAGMENTS + 0x280);
    CHECK(frames(f) == 0);
    CHECK(f->stack.frame[0] == CALLER - 1);
    /* None at all. */
    fake_put_word(&f->memory, HEND - 16, 0x3b);
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    CHECK(frames(f) == 0);
    CHECK(f->stack.frame[0] == FP_FRAME_AMBIGUOUS);
}

TEST_WITH(shared_code_on_the_c_stack_belongs_to_who_called_it, create(FUNCTION + 0x400))
{
    put_leave(f, FUNCTION + 0x400);
    f->registers.rip = FRAGMENTS + 0x300;
    f->registers.rsp = NATIVE_BASE - 8;
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    CHECK(frames(f) == 0);
    CHECK(f->stack.frame[0] == FUNCTION + 0x3ff);
    CHECK(f->stack.frame[1] == CALLER - 1);
}

TEST_WITH(an_exception_has_its_place_until_it_is_unwound, create(FRAGMENTS + 0x200))
{
    /* leave; test rax, rax; je; jmp rax */
    static const unsigned char raise[] = {0x48, 0x85, 0xc0, 0x74, 0x10, 0xff, 0xe0};

    put_leave(f, FRAGMENTS + 0x200);
    fake_put(&f->memory, FRAGMENTS + 0x204, raise, sizeof raise);
    /* Aligned down: no call is right before it. */
    fake_put_word(&f->memory, HEND - 16, FUNCTION + 0x80);
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    CHECK(frames(f) == 0);
    CHECK(f->stack.frame[0] == FUNCTION + 0x7f);
    CHECK(!has(f, FP_FRAME_AMBIGUOUS));
    fake_put_word(&f->memory, HEND - 16, 0x1f);
    CHECK(capture(f) == FP_CAPTURE_CAPTURED);
    CHECK(frames(f) == 0);
    CHECK(f->stack.frame[0] == FP_FRAME_AMBIGUOUS);
}

TEST_WITH(jumps_of_each_form_are_followed, create(0))
{
    static const unsigned char through_rax[] = {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 0x10, 0xff, 0xe0};
    static const unsigned char by_table[] = {0x40, 0xff, 0x25, 9, 0, 0, 0};
    static const unsigned char near[] = {0x40, 0xe9, 0x10, 0, 0, 0};
    const struct fp_memory *reader = &f->memory.reader;

    fake_put(&f->memory, STUB, through_rax, sizeof through_rax);
    CHECK(fp_jump_target(reader, STUB) == UINT64_C(0x1007060504030201));
    fake_put(&f->memory, STUB, by_table, sizeof by_table);
    fake_put_word(&f->memory, STUB + 16, FRAGMENTS + 7);
    CHECK(fp_jump_target(reader, STUB) == FRAGMENTS + 7);
    fake_put(&f->memory, STUB, near, sizeof near);
    CHECK(fp_jump_target(reader, STUB) == STUB + 6 + 0x10);
    /* No jump, and no memory. */
    CHECK(fp_jump_target(reader, STUB + 0x100) == STUB + 0x100);
    CHECK(fp_jump_target(reader, CODE_END - 4) == CODE_END - 4);
}

/* Whatever the memory holds, captures end, within their bounds. */
TEST(any_bytes_are_survived)
{
    uint64_t seed = 88172645463325252u;

    for (int round = 0; round < 300; round++) {
        struct fixture *f = create(FRAGMENTS + 0x200);

        for (size_t r = 0; r < f->memory.regions; r++)
            for (size_t i = 0; i < f->memory.region[r].size; i += 8) {
                uint64_t word;

                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                /* Often an address that means something here. */
                word = (seed & 7) == 0 ? seed : FAKE_BASE + (seed >> 8) % 0x42000;
                memcpy(f->memory.region[r].bytes + i, &word, 8);
            }
        fake_put_word(&f->memory, DATA + f->scheduler.layout.release.running.current_process,
                      PROCESS);
        f->registers.rip = FAKE_BASE + (seed >> 8) % 0x5000;
        f->registers.rsp = round % 2 == 0 ? NATIVE_BASE - 64 : FAKE_BASE + (seed >> 24) % 0x42000;
        (void)capture(f);
        CHECK(f->running.words <= FP_STACK_WORDS_MAX);
        CHECK(f->running.leaf_words <= f->running.words);
        if (f->running.result != FP_CAPTURE_NO_PROCESS) {
            (void)frames(f);
            CHECK(f->stack.count <= FP_STACK_FRAMES_MAX);
        }
        destroy(f);
    }
}
