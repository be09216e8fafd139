/* fuzz_running.c - a running process of any bytes: its structure, its stacks and the code around
 * it, captured as the signal handler does, and understood. */
#include "fuzz.h"

#include "base/error.h"
#include "erts/capture/explain.h"

/* The handler may look at a KiB of code behind a return address, 61 bytes at a time, and at 6,144
 * words of a stack, a page at a time. */
#define CAPTURE_ASKED_MAX 64u
/* Whose code calls C is found with some reads; a heavy BIF's code may have as many jumps as bytes,
 * each of two reads. */
#define FRAMES_ASKED_MAX 512u

/* C frames as the input has them. */
struct script {
    struct fp_registers at_entry;
    size_t count;
    int complete;
};

static size_t unwind(void *self, const struct fp_capture *running, uint64_t *pc, size_t max,
                     struct fp_registers *at_entry, int *complete)
{
    const struct script *script = self;
    size_t n = script->count < max ? script->count : max;

    (void)running;
    for (size_t i = 0; i < n; i++)
        pc[i] = UINT64_C(0x555500000000) + i;
    *at_entry = script->at_entry;
    *complete = script->complete;
    return n;
}

static void take_registers(struct fuzz_input *input, struct fp_registers *r)
{
    r->rip = fuzz_address(input);
    r->rsp = fuzz_address(input);
    r->rbp = fuzz_address(input);
    r->r15 = fuzz_address(input);
    r->r14 = fuzz_u32(input);
}

static void check_capture(const struct fp_capture *running)
{
    FUZZ_CHECK(running->result <= FP_CAPTURE_UNFOUND);
    FUZZ_CHECK(running->place <= FP_CAPTURE_IN_C);
    FUZZ_CHECK(running->top_in <= FP_TOP_UNKNOWN);
    FUZZ_CHECK(running->native_bytes <= FP_CAPTURE_NATIVE_MAX);
    FUZZ_CHECK(running->leaf_words <= running->words && running->words <= FP_STACK_WORDS_MAX);
    if (running->result != FP_CAPTURE_CAPTURED)
        return;
    FUZZ_CHECK(running->low % 8 == 0 && running->low <= running->high);
    FUZZ_CHECK(running->words == running->leaf_words
                   ? running->high - running->low == 8ull * running->words
                   : running->high - running->low > 8ull * running->words);
}

/* A word is one of the special ones, an address in user space, or the address of a BIF's or NIF's
 * name: never the id of a text, nor a slot. */
static int is_frame(uint64_t frame)
{
    uint64_t named = frame & (FP_FRAME_BIF | FP_FRAME_NIF);

    if (frame < FP_FRAME_SPECIAL_END)
        return frame != FP_FRAME_NONE && frame != FP_FRAME_IDLE && frame != FP_FRAME_UNREADABLE &&
               frame != FP_FRAME_RUNNING;
    return (frame & ~(FP_FRAME_BIF | FP_FRAME_NIF)) >> 47 == 0 &&
           named != (FP_FRAME_BIF | FP_FRAME_NIF);
}

static void check_frames(const struct fp_stack *stack, const struct fp_snapshot *before,
                         const struct fp_snapshot *now)
{
    FUZZ_CHECK(stack->count > 0 && stack->count <= FP_STACK_FRAMES_MAX);
    for (uint32_t i = 0; i < stack->count; i++)
        FUZZ_CHECK(is_frame(stack->frame[i]));
    FUZZ_CHECK(now->value[FP_METRIC_stack_size] >= 0);
    FUZZ_CHECK(now->value[FP_METRIC_heap_size] >= 0);
    FUZZ_CHECK(now->value[FP_METRIC_reductions] >= before->value[FP_METRIC_reductions]);
}

static void understand(const struct fp_capture_code *code, const struct fp_layout *layout,
                       const struct fp_capture *running)
{
    struct fp_snapshot before, now;
    struct fp_stack stack;
    int err = fp_process_decode(layout, running->structure, &before);

    now = before;
    if (err != 0 && now.status != FP_STATUS_garbage_collecting)
        return; /* torn: nobody goes on */
    if (err != 0)
        memset(now.value, 0, sizeof now.value); /* of an earlier sample */
    before = now;
    err = fp_explain_frames(code, layout, running, &now, &stack);
    FUZZ_CHECK(err == 0 || err == FP_ENOENT);
    if (err == 0)
        check_frames(&stack, &before, &now);
}

void fuzz_running(const uint8_t *bytes, size_t size)
{
    static struct fp_capture running;
    struct fuzz_input input = {bytes, size};
    struct fp_capture_scheduler scheduler = {.memory = NULL};
    struct fp_capture_code code = {.unwind = unwind};
    struct fp_registers registers = {.rip = 0};
    struct fuzz_memory memory;
    struct script script = {.count = 0};
    struct fp_ranges ranges;

    fuzz_layout_of(&input, &scheduler.layout);
    scheduler.memory = code.memory = &memory.memory.reader;
    scheduler.data = fuzz_address(&input);
    scheduler.native_base = fuzz_address(&input);
    scheduler.bottom = fuzz_address(&input);
    take_registers(&input, &registers);
    fuzz_ranges(&input, &ranges);
    code.ranges = &ranges;
    code.fragments.start = fuzz_address(&input);
    code.fragments.end = code.fragments.start + fuzz_u16(&input);
    code.nif_return = fuzz_address(&input);
    code.with_native = fuzz_u8(&input) & 1;
    script.count = fuzz_u8(&input);
    script.complete = fuzz_u8(&input) & 1;
    script.at_entry.rbp = fuzz_address(&input);
    code.unwind_self = &script;
    fuzz_memory_create(&memory, &input);
    fp_handler_copy(&scheduler, &registers, &running);
    FUZZ_CHECK(fuzz_memory_asked(&memory) <= CAPTURE_ASKED_MAX);
    check_capture(&running);
    if (running.result != FP_CAPTURE_NO_PROCESS &&
        (running.result == FP_CAPTURE_CAPTURED || running.process != 0))
        understand(&code, &scheduler.layout, &running);
    FUZZ_CHECK(fuzz_memory_asked(&memory) <= CAPTURE_ASKED_MAX + FRAMES_ASKED_MAX);
    fuzz_memory_destroy(&memory);
}
