#include "erts/capture/explain.h"

#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "erts/capture/jit_code.h"

/* C frames of one stack. */
#define NATIVE_FRAMES_MAX 48u
/* Reductions of one turn on a scheduler (erl_vm.h CONTEXT_REDS). */
#define CONTEXT_REDUCTIONS 4000

/* Set by a NIF, read by the sampler's thread and by inspections. */
static _Atomic uint32_t classes_off;

void fp_capture_classes_off_set(uint32_t mask)
{
    atomic_store_explicit(&classes_off, mask, memory_order_relaxed);
}

uint32_t fp_capture_classes_off(void)
{
    return atomic_load_explicit(&classes_off, memory_order_relaxed);
}

/* ----------------------------------------------- what the capture means -- */

/* The words of the Erlang stack, once its top is known. */
struct erlang_stack {
    const uint64_t *word;
    uint32_t words, leaf_words;
    uint64_t top;
    uint64_t returns_to; /* see return_address() */
};

/* What is put together here, leaf first. */
struct leaf {
    uint64_t frame[NATIVE_FRAMES_MAX + 4];
    size_t count;
    uint32_t classes; /* of the capture: enum fp_capture_class */
};

static void add(struct leaf *leaf, uint64_t frame)
{
    leaf->frame[leaf->count++] = frame;
}

static void add_class(struct leaf *leaf, enum fp_capture_class class, uint64_t frame)
{
    leaf->classes |= class;
    add(leaf, frame);
}

/* Words of the structure become frames only where they may be addresses: what is no address may be
 * a frame of another kind (record.h). */
static int is_address(uint64_t word)
{
    return word >= 4096 && word >> 47 == 0;
}

static int in_fragments(const struct fp_capture_code *code, uint64_t pc)
{
    return pc - code->fragments.start < code->fragments.end - code->fragments.start;
}

/* May this be where an older frame of the stack is? A value there is tagged. */
static int is_frame_pointer(const struct erlang_stack *stack, uint64_t word)
{
    return (word & 7) == 0 && word > stack->top && word - stack->top <= 8ull * stack->words;
}

/* The return address on top of the stack: where the code that was called returns to. With frame
 * pointers it is behind one. Not aligned, thus no return address for anybody else, when a fragment
 * is called that never looks at the stack. 0: there is none. */
static uint64_t return_address(const struct fp_capture_code *code, const struct erlang_stack *stack)
{
    for (uint32_t i = 0; i < 2 && i < stack->leaf_words; i++) {
        if (fp_ranges_contain(code->ranges, stack->word[i]))
            return fp_is_return_address(code->memory, stack->word[i]) ? stack->word[i] : 0;
        if (!is_frame_pointer(stack, stack->word[i]))
            return 0;
    }
    return 0;
}

/* Is there any code address on top? Where an exception was raised is aligned down, so nothing calls
 * right before it; once the stack has been unwound to who catches, or who was there has been
 * scheduled out, there is none. */
static int begins_with_code(const struct fp_capture_code *code, const struct erlang_stack *stack)
{
    return (stack->leaf_words > 0 && fp_ranges_contain(code->ranges, stack->word[0])) ||
           (stack->leaf_words > 1 && is_frame_pointer(stack, stack->word[0]) &&
            fp_ranges_contain(code->ranges, stack->word[1]));
}

static int calls_fragment(const struct fp_capture_code *code, uint64_t returns_to)
{
    uint64_t target = fp_call_target(code->memory, returns_to);

    return in_fragments(code, target) ||
           (target != 0 && in_fragments(code, fp_jump_target(code->memory, target)));
}

/* Is this one of the jumps at a module's end that lead to shared code? They are in no function, but
 * behind the last one. */
static int in_stub(const struct fp_capture_code *code, uint64_t pc, uint64_t returns_to)
{
    return returns_to != 0 && fp_call_target(code->memory, returns_to) == pc &&
           in_fragments(code, fp_jump_target(code->memory, pc));
}

/* The first of the kept words that is such an address. */
static uint64_t breakpoint_mfa(const struct fp_capture_code *code, const struct fp_capture *running)
{
    uint64_t mfa_at = 0;

    for (size_t i = 0; i < FP_CAPTURE_KEPT && mfa_at == 0; i++)
        if (fp_ranges_contain(code->ranges, running->kept[i]))
            mfa_at = fp_jit_breakpoint_mfa(code->memory, running->kept[i]);
    return mfa_at;
}

static enum fp_capture_caller caller_in_fragment(const struct fp_capture_code *code,
                                                 const struct fp_layout *layout,
                                                 const struct fp_capture *running,
                                                 const struct erlang_stack *from, uint64_t *mfa_at)
{
    uint64_t current, returns_to = from->returns_to;

    memcpy(&current, running->structure + layout->release.running.current, sizeof current);
    if (running->native_return == code->nif_return) {
        *mfa_at = current;
        return is_address(current) ? FP_CALLER_NIF : FP_CALLER_UNKNOWN;
    }
    if (fp_jit_is_schedule(code->memory, running->native_return))
        return FP_CALLER_SCHEDULE;
    if (fp_jit_is_raise(code->memory, running->native_return))
        return begins_with_code(code, from) ? FP_CALLER_RAISE : FP_CALLER_UNKNOWN;
    if (fp_jit_is_breakpoint(code->memory, running->native_return)) {
        *mfa_at = breakpoint_mfa(code, running);
        return *mfa_at != 0 ? FP_CALLER_BREAKPOINT : FP_CALLER_UNKNOWN;
    }
    if (returns_to != 0 && fp_jit_light(code->memory, returns_to, mfa_at) == 0)
        return FP_CALLER_LIGHT_BIF;
    if (returns_to != 0 && calls_fragment(code, returns_to))
        return FP_CALLER_FUNCTION;
    if (fp_jit_heavy(code->memory, current, running->native_return)) {
        *mfa_at = current;
        return FP_CALLER_HEAVY_BIF;
    }
    return FP_CALLER_UNKNOWN;
}

/* The Erlang side of a call of C: the BIF or NIF, or the function. */
static enum fp_capture_caller add_caller(const struct fp_capture_code *code,
                                         const struct fp_layout *layout,
                                         const struct fp_capture *running,
                                         const struct fp_snapshot *snapshot,
                                         const struct erlang_stack *from, struct leaf *leaf)
{
    enum fp_capture_caller caller;
    uint64_t mfa_at = 0;

    /* Not in C at all: in code of a range that is not known yet. */
    if (running->native_return == 0) {
        add(leaf, FP_FRAME_AMBIGUOUS);
        return FP_CALLER_UNKNOWN;
    }
    if (!in_fragments(code, running->native_return)) {
        add(leaf, running->native_return - 1);
        return FP_CALLER_FUNCTION;
    }
    caller = caller_in_fragment(code, layout, running, from, &mfa_at);
    switch (caller) {
    case FP_CALLER_LIGHT_BIF:
        add_class(leaf, FP_CLASS_LIGHT_BIF, FP_FRAME_BIF | mfa_at);
        break;
    case FP_CALLER_HEAVY_BIF:
        add_class(leaf, FP_CLASS_HEAVY_BIF, FP_FRAME_BIF | mfa_at);
        break;
    case FP_CALLER_NIF:
        add_class(leaf, FP_CLASS_NIF, FP_FRAME_NIF | mfa_at);
        break;
    case FP_CALLER_BREAKPOINT:
        add(leaf, mfa_at + 24); /* where its code begins */
        break;
    case FP_CALLER_SCHEDULE:
        add(leaf, is_address(snapshot->i) ? snapshot->i : FP_FRAME_AMBIGUOUS);
        break;
    case FP_CALLER_UNKNOWN:
        add(leaf, FP_FRAME_AMBIGUOUS);
        break;
    case FP_CALLER_FUNCTION: /* as long as light BIFs are told from it */
        leaf->classes |= FP_CLASS_LIGHT_BIF;
        break;
    case FP_CALLER_RAISE:
        break;
    }
    return caller;
}

/* The leaf, 0 when it is on the stack already. Shared code is in no function: its caller is the
 * leaf. */
static uint64_t leaf_in_jit(const struct fp_capture_code *code, const struct fp_layout *layout,
                            const struct fp_capture *running, const struct erlang_stack *from,
                            struct leaf *leaf)
{
    uint64_t pc = running->registers.rip, current;

    /* Some is called on the C stack (the construction of binaries), by a jump of the module's own
     * from OTP 27 on. */
    if (running->place == FP_CAPTURE_IN_C &&
        fp_ranges_contain(code->ranges, running->native_return) &&
        !in_fragments(code, running->native_return) &&
        in_fragments(code, fp_jump_target(code->memory, pc)))
        return running->native_return - 1;
    if (!in_fragments(code, pc))
        return in_stub(code, pc, from->returns_to) ? 0 : pc;
    if (from->returns_to != 0 ? calls_fragment(code, from->returns_to)
                              : begins_with_code(code, from))
        return 0;
    /* Jumped to: by a heavy BIF, else from an unknown place (the process yields, goes or comes, or
     * has just caught something). */
    memcpy(&current, running->structure + layout->release.running.current, sizeof current);
    if (from->returns_to != 0 && fp_jit_heavy(code->memory, current, pc))
        add_class(leaf, FP_CLASS_HEAVY_BIF, FP_FRAME_BIF | current);
    else
        add(leaf, FP_FRAME_AMBIGUOUS);
    return 0;
}

/* The C frames; *rbp as it was in JIT code, 0 when that was not found. */
static void add_native(const struct fp_capture_code *code, const struct fp_capture *running,
                       struct leaf *leaf, uint64_t *rbp)
{
    struct fp_registers at_entry;
    uint64_t pc[NATIVE_FRAMES_MAX];
    int complete = 0;
    size_t n;

    *rbp = 0;
    if (code->unwind == NULL)
        return;
    n = code->unwind(code->unwind_self, running, pc, NATIVE_FRAMES_MAX, &at_entry, &complete);
    if (complete)
        *rbp = at_entry.rbp;
    if (!code->with_native)
        return;
    for (size_t i = 0; i < n; i++)
        add(leaf, pc[i]);
    if (!complete)
        add(leaf, FP_FRAME_TRUNCATED);
}

/* Where the Erlang stack's top is, within what was copied. 0: not known. */
static uint64_t top_of(const struct fp_capture *running, const struct fp_snapshot *snapshot,
                       uint64_t rbp)
{
    if (running->place == FP_CAPTURE_IN_ERLANG)
        return running->registers.rsp;
    if (running->top_in == FP_TOP_IN_STOP)
        return snapshot->stop;
    if (rbp >= running->low && rbp <= running->high && (rbp & 7) == 0)
        return rbp;
    return 0;
}

/* The part of the copy from `top` on. */
static struct erlang_stack stack_from(const struct fp_capture *running, uint64_t top)
{
    uint32_t below = (uint32_t)((top - running->low) / 8);
    struct erlang_stack stack = {.top = top};

    if (below > running->leaf_words)
        below = running->leaf_words;
    stack.word = running->word + below;
    stack.words = running->words - below;
    stack.leaf_words = running->leaf_words - below;
    return stack;
}

static void put_together(const struct fp_capture_code *code, const struct leaf *leaf, uint64_t i,
                         const struct erlang_stack *from, struct fp_stack *stack)
{
    fp_stack_frames(stack, code->ranges, i, from->word, from->words, from->leaf_words);
    fp_stack_put_on_top(stack, leaf->frame, (uint32_t)leaf->count);
}

/* Sizes that hang on the stack's top. */
static void size_anew(const struct fp_capture *running, uint64_t top, int in_jit,
                      struct fp_snapshot *snapshot)
{
    int64_t *value = snapshot->value;
    uint64_t htop = running->registers.r15;
    uint64_t heap = snapshot->hend - 8ull * (uint64_t)value[FP_METRIC_heap_block_size];

    snapshot->stop = top;
    snapshot->hend = running->high;
    value[FP_METRIC_stack_size] = (int64_t)(running->high - top) / 8;
    if (in_jit && htop >= heap && htop <= top && (htop & 7) == 0)
        value[FP_METRIC_heap_size] = (int64_t)(htop - heap) / 8;
}

/* Reductions up to now: those of the turn on the scheduler that it is in. */
static void count_turn(const struct fp_layout *layout, const struct fp_capture *running, int in_jit,
                       struct fp_snapshot *snapshot)
{
    int64_t *reductions = &snapshot->value[FP_METRIC_reductions];
    int32_t left = (int32_t)running->registers.r14;

    if (!in_jit)
        memcpy(&left, running->structure + layout->release.running.fcalls, sizeof left);
    if (left < 0)
        left = 0;
    if (left <= CONTEXT_REDUCTIONS && *reductions <= INT64_MAX - CONTEXT_REDUCTIONS)
        *reductions += CONTEXT_REDUCTIONS - left;
}

/* The collector is exchanging the heaps, and the stack with them: where it is cannot be told, what
 * the process does can. */
static int only_collecting(struct leaf *leaf, struct fp_stack *stack)
{
    add(leaf, FP_FRAME_GC);
    add(leaf, FP_FRAME_AMBIGUOUS);
    memcpy(stack->frame, leaf->frame, 8 * leaf->count);
    stack->count = (uint32_t)leaf->count;
    return 0;
}

int fp_explain_frames(const struct fp_capture_code *code, const struct fp_layout *layout,
                      const struct fp_capture *running, struct fp_snapshot *snapshot,
                      struct fp_stack *stack)
{
    int collects = snapshot->status == FP_STATUS_garbage_collecting;
    int in_c = !fp_ranges_contain(code->ranges, running->registers.rip);
    int in_jit = !in_c || running->place == FP_CAPTURE_IN_ERLANG;
    enum fp_capture_caller caller = FP_CALLER_FUNCTION;
    struct leaf leaf = {.classes = FP_CLASS_ERLANG};
    struct erlang_stack from;
    uint64_t rbp = running->registers.rbp, leaf_at = 0, top;

    if (collects)
        leaf.classes |= FP_CLASS_GC;
    if ((leaf.classes & code->off) != 0)
        return FP_EUNVERIFIED;
    if (in_c && running->native_bytes > 0)
        add_native(code, running, &leaf, &rbp);
    top = running->result == FP_CAPTURE_CAPTURED ? top_of(running, snapshot, rbp) : 0;
    if (top == 0)
        return collects && in_c ? only_collecting(&leaf, stack) : FP_ENOENT;
    from = stack_from(running, top);
    from.returns_to = return_address(code, &from);
    if (collects)
        add(&leaf, FP_FRAME_GC);
    if (in_c)
        caller = add_caller(code, layout, running, snapshot, &from, &leaf);
    else
        leaf_at = leaf_in_jit(code, layout, running, &from, &leaf);
    if ((leaf.classes & code->off) != 0)
        return FP_EUNVERIFIED;
    /* Aligned, it is among the stack's frames by itself. */
    if ((from.returns_to & 3) != 0) {
        if (leaf_at != 0)
            add(&leaf, leaf_at);
        add(&leaf, from.returns_to - 1);
        leaf_at = 0;
    }
    put_together(code, &leaf, leaf_at, &from, stack);
    size_anew(running, top, in_jit, snapshot);
    /* In the scheduler, its turn has not begun or is counted already. */
    if (caller != FP_CALLER_SCHEDULE)
        count_turn(layout, running, in_jit, snapshot);
    return stack->count > 0 ? 0 : FP_ENOENT;
}
