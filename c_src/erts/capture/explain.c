#include "erts/capture/explain.h"

#include <string.h>

#include "base/error.h"
#include "erts/capture/jit_code.h"

/* C frames of one stack. */
#define NATIVE_FRAMES_MAX 48u
/* Reductions of one turn on a scheduler (erl_vm.h CONTEXT_REDS). */
#define CONTEXT_REDUCTIONS 4000

_Atomic uint32_t fp_capture_classes_off;

/* One capture on its way to a stack. */
struct explanation {
    const struct fp_capture_code *code;
    const struct fp_capture *capture;
    uint64_t current; /* `current` of the structure: the MFA of a BIF or NIF */
    /* The copied words of the Erlang stack from its top on. */
    const uint64_t *word;
    uint32_t words, leaf_words;
    uint64_t top;
    uint64_t returns_to; /* return_address(); 0: none */
    uint32_t classes;    /* enum fp_capture_class */
    uint32_t count;
    uint64_t frame[NATIVE_FRAMES_MAX + 4]; /* above the Erlang stack's, leaf first */
};

static void add(struct explanation *e, uint64_t frame)
{
    e->frame[e->count++] = frame;
}

static void add_class(struct explanation *e, enum fp_capture_class class, uint64_t frame)
{
    e->classes |= class;
    add(e, frame);
}

/* A word of the structure that is no address may be a frame of another kind (record.h). */
static int is_address(uint64_t word)
{
    return word >= 4096 && word >> 47 == 0;
}

static int in_fragments(const struct explanation *e, uint64_t pc)
{
    return pc - e->code->fragments.start < e->code->fragments.end - e->code->fragments.start;
}

static int in_code(const struct explanation *e, uint64_t pc)
{
    return fp_ranges_contain(e->code->ranges, pc);
}

/* A frame pointer is the place of an older frame. A value on the stack is tagged. */
static int is_frame_pointer(const struct explanation *e, uint64_t word)
{
    return (word & 7) == 0 && word > e->top && word - e->top <= 8ull * e->words;
}

/* The return address on top of the stack, or behind a frame pointer there. It is not aligned, and
 * the stack's walk passes over it, when the call is of a fragment that never walks the stack. */
static uint64_t return_address(const struct explanation *e)
{
    for (uint32_t i = 0; i < 2 && i < e->leaf_words; i++) {
        if (in_code(e, e->word[i]))
            return fp_is_return_address(e->code->memory, e->word[i]) ? e->word[i] : 0;
        if (!is_frame_pointer(e, e->word[i]))
            return 0;
    }
    return 0;
}

/* A raise aligns its address down, so that no call is right before it. The top is no code address
 * once the stack is unwound to the catch, or after the process was scheduled out. */
static int begins_with_code(const struct explanation *e)
{
    return (e->leaf_words > 0 && in_code(e, e->word[0])) ||
           (e->leaf_words > 1 && is_frame_pointer(e, e->word[0]) && in_code(e, e->word[1]));
}

static int calls_fragment(const struct explanation *e)
{
    uint64_t target = fp_call_target(e->code->memory, e->returns_to);

    return in_fragments(e, target) ||
           (target != 0 && in_fragments(e, fp_jump_target(e->code->memory, target)));
}

/* The jumps at a module's end lead to shared code. They are in no function. */
static int in_stub(const struct explanation *e, uint64_t pc)
{
    return e->returns_to != 0 && fp_call_target(e->code->memory, e->returns_to) == pc &&
           in_fragments(e, fp_jump_target(e->code->memory, pc));
}

/* Is a jump to shared code at `pc`? One that was not called may be a stub or the end of a function:
 * a heavy BIF jumps to the stub, and the word before it on the stack is its caller's. */
static int at_jump_to_fragments(const struct explanation *e, uint64_t pc)
{
    return in_fragments(e, fp_jump_target(e->code->memory, pc)) ||
           /* mov rax, target; jmp rax: at its second half */
           (fp_is_jump_to_rax(e->code->memory, pc) &&
            in_fragments(e, fp_jump_target(e->code->memory, pc - FP_MOV_RAX_BYTES)));
}

/* A breakpoint returns behind the first word of its function's code. */
static void add_breakpoint(struct explanation *e)
{
    for (size_t i = 0; i < FP_CAPTURE_KEPT; i++) {
        uint64_t code = e->capture->kept[i] - 8;

        if (in_code(e, e->capture->kept[i]) && fp_is_mfa_at(e->code->memory, code - 24)) {
            add(e, code);
            return;
        }
    }
    add(e, FP_FRAME_AMBIGUOUS);
}

/* The Erlang side of a call of C, which is the BIF, the NIF or the function. */
static void add_caller(struct explanation *e, uint64_t back)
{
    const struct fp_memory *memory = e->code->memory;
    uint64_t mfa_at;

    if (back == 0) /* in code of a range that is not known yet, not in C */
        add(e, FP_FRAME_AMBIGUOUS);
    else if (!in_fragments(e, back))
        add(e, back - 1);
    else if (back == e->code->nif_return && is_address(e->current))
        add_class(e, FP_CLASS_NIF, FP_FRAME_NIF | e->current);
    else if (back == e->code->nif_return)
        add(e, FP_FRAME_AMBIGUOUS);
    else if (fp_jit_is_raise(memory, back)) {
        /* The place of the raise is on top of the stack. */
        if (!begins_with_code(e))
            add(e, FP_FRAME_AMBIGUOUS);
    } else if (fp_jit_is_breakpoint(memory, back))
        add_breakpoint(e);
    else if (e->returns_to != 0 && fp_jit_light(memory, e->returns_to, &mfa_at) == 0)
        add_class(e, FP_CLASS_LIGHT_BIF, FP_FRAME_BIF | mfa_at);
    else if (e->returns_to != 0 && calls_fragment(e))
        /* A function, as long as light BIFs are told from it. */
        e->classes |= FP_CLASS_LIGHT_BIF;
    else if (fp_jit_heavy(memory, e->current, back))
        add_class(e, FP_CLASS_HEAVY_BIF, FP_FRAME_BIF | e->current);
    else
        add(e, FP_FRAME_AMBIGUOUS);
}

/* The scheduler called C: the process goes, or has just come. */
static int is_in_schedule(const struct explanation *e)
{
    uint64_t back = e->capture->native_return;

    return back != 0 && in_fragments(e, back) && back != e->code->nif_return &&
           fp_jit_is_schedule(e->code->memory, back);
}

/* The leaf; 0: a frame that is there already. Shared code is in no function: its caller is the
 * leaf. */
static uint64_t leaf_in_jit(struct explanation *e)
{
    uint64_t pc = e->capture->registers.rip, back = e->capture->native_return;

    /* JIT code calls some shared code on the C stack (the construction of binaries); from OTP 27 on
     * by a jump of the module's own. */
    if (e->capture->place == FP_CAPTURE_IN_C && in_code(e, back) && !in_fragments(e, back) &&
        in_fragments(e, fp_jump_target(e->code->memory, pc)))
        return back - 1;
    if (in_stub(e, pc))
        return 0;
    if (!in_fragments(e, pc) && at_jump_to_fragments(e, pc)) {
        add(e, FP_FRAME_AMBIGUOUS);
        return 0;
    }
    if (!in_fragments(e, pc))
        return pc;
    if (e->returns_to != 0 ? calls_fragment(e) : begins_with_code(e))
        return 0;
    /* A heavy BIF jumps here. Else the place is unknown: the process yields, goes or comes, or has
     * just caught an exception. */
    if (e->returns_to != 0 && fp_jit_heavy(e->code->memory, e->current, pc))
        add_class(e, FP_CLASS_HEAVY_BIF, FP_FRAME_BIF | e->current);
    else
        add(e, FP_FRAME_AMBIGUOUS);
    return 0;
}

/* Adds the C frames. rbp as it was in JIT code; 0: not found. */
static uint64_t add_native(struct explanation *e)
{
    const struct fp_capture_code *code = e->code;
    struct fp_registers at_entry;
    uint64_t pc[NATIVE_FRAMES_MAX];
    int complete = 0;
    size_t n;

    if (code->unwind == NULL)
        return 0;
    n = code->unwind(code->unwind_self, e->capture, pc, NATIVE_FRAMES_MAX, &at_entry, &complete);
    for (size_t i = 0; i < n && code->with_native; i++)
        add(e, pc[i]);
    if (!complete && code->with_native)
        add(e, FP_FRAME_TRUNCATED);
    return complete ? at_entry.rbp : 0;
}

/* The top of the Erlang stack, within the copy. 0: not known. */
static uint64_t top_of(const struct fp_capture *capture, uint64_t stop, uint64_t rbp)
{
    if (capture->result != FP_CAPTURE_CAPTURED)
        return 0;
    if (capture->place == FP_CAPTURE_IN_ERLANG)
        return capture->registers.rsp;
    if (capture->top_in == FP_TOP_IN_STOP)
        return stop;
    return rbp >= capture->low && rbp <= capture->high && (rbp & 7) == 0 ? rbp : 0;
}

static void start_stack_at(struct explanation *e, uint64_t top)
{
    const struct fp_capture *capture = e->capture;
    uint32_t below = (uint32_t)((top - capture->low) / 8);

    if (below > capture->leaf_words)
        below = capture->leaf_words;
    e->word = capture->word + below;
    e->words = capture->words - below;
    e->leaf_words = capture->leaf_words - below;
    e->top = top;
    e->returns_to = return_address(e);
}

/* Sizes that depend on the stack's top. Where those of an earlier moment stand they stay, and the
 * words of an abandoned heap are not where the process goes on. */
static void update_sizes(const struct explanation *e, int in_jit, struct fp_snapshot *snapshot)
{
    int64_t *value = snapshot->value;
    uint64_t htop = e->capture->registers.r15;

    snapshot->stop = e->top;
    snapshot->hend = e->capture->high;
    if (snapshot->keeps_sizes)
        return;
    value[FP_METRIC_stack_size] = (int64_t)(e->capture->high - e->top) / 8;
    if (in_jit && snapshot->abandoned == 0 && htop >= snapshot->heap && htop <= e->top &&
        (htop & 7) == 0)
        value[FP_METRIC_heap_size] = (int64_t)(htop - snapshot->heap) / 8;
}

/* The structure's reductions lack those of the process's present turn on the scheduler. */
static void count_turn(int32_t left, struct fp_snapshot *snapshot)
{
    int64_t *reductions = &snapshot->value[FP_METRIC_reductions];

    if (left < 0)
        left = 0;
    if (left <= CONTEXT_REDUCTIONS && *reductions <= INT64_MAX - CONTEXT_REDUCTIONS)
        *reductions += CONTEXT_REDUCTIONS - left;
}

static void put_together(const struct explanation *e, uint64_t leaf, struct fp_stack *stack)
{
    fp_stack_frames(stack, e->code->ranges, leaf, e->word, e->words, e->leaf_words);
    fp_stack_put_on_top(stack, e->frame, e->count);
}

int fp_explain_frames(const struct fp_capture_code *code, const struct fp_layout *layout,
                      const struct fp_capture *capture, struct fp_snapshot *snapshot,
                      struct fp_stack *stack)
{
    const struct fp_capture_offsets *offsets = &layout->release.running;
    int collects = snapshot->status == FP_STATUS_garbage_collecting;
    int in_c = !fp_ranges_contain(code->ranges, capture->registers.rip);
    int in_jit = !in_c || capture->place == FP_CAPTURE_IN_ERLANG, in_schedule;
    struct explanation e = {.code = code,
                            .capture = capture,
                            .classes = FP_CLASS_ERLANG | (collects ? FP_CLASS_GC : 0)};
    uint64_t rbp = capture->registers.rbp, leaf = 0, top;
    int32_t left = (int32_t)capture->registers.r14;

    if ((e.classes & code->off) != 0)
        return FP_EUNVERIFIED;
    memcpy(&e.current, capture->structure + offsets->current, sizeof e.current);
    if (!in_jit)
        memcpy(&left, capture->structure + offsets->fcalls, sizeof left);
    if (in_c && capture->native_bytes > 0)
        rbp = add_native(&e);
    top = top_of(capture, snapshot->stop, rbp);
    if (top == 0 && !(collects && in_c))
        return FP_ENOENT;
    if (collects)
        add(&e, FP_FRAME_GC);
    /* The collector is exchanging the heaps: the stack is not found, the work is known. */
    if (top == 0) {
        add(&e, FP_FRAME_AMBIGUOUS);
        put_together(&e, 0, stack);
        return 0;
    }
    start_stack_at(&e, top);
    in_schedule = in_c && is_in_schedule(&e);
    if (in_schedule)
        add(&e, is_address(snapshot->i) ? snapshot->i : FP_FRAME_AMBIGUOUS);
    else if (in_c)
        add_caller(&e, capture->native_return);
    else
        leaf = leaf_in_jit(&e);
    if ((e.classes & code->off) != 0)
        return FP_EUNVERIFIED;
    /* Aligned, the return address is among the stack's frames by itself. */
    if ((e.returns_to & 3) != 0) {
        if (leaf != 0)
            add(&e, leaf);
        add(&e, e.returns_to - 1);
        leaf = 0;
    }
    put_together(&e, leaf, stack);
    update_sizes(&e, in_jit, snapshot);
    /* In the scheduler, the turn has not begun, or is counted already. */
    if (!in_schedule)
        count_turn(left, snapshot);
    return stack->count > 0 ? 0 : FP_ENOENT;
}
