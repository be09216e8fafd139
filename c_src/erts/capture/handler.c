#include "erts/capture/handler.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "erts/capture/jit_code.h"

/* No C stack of a thread is deeper. */
#define NATIVE_DEPTH_MAX (UINT64_C(64) << 20)
/* Bytes of code read behind a call of C: many instructions may come before the one that takes the
 * Erlang stack back (the segments of a binary under construction); bytes at a time. */
#define LEAVE_BYTES_MAX 1024u
#define LEAVE_PIECE 64u
/* The longest instruction that is looked for, less one. */
#define LEAVE_OVERLAP 3u
/* A stack without a known end is copied up to the end of a page at a time. */
#define PAGE_BYTES 4096u

struct fp_slots fp_slots;

/* ------------------------------------------------------------ the copy -- */

static uint64_t field(const struct fp_capture_scheduler *scheduler,
                      const struct fp_capture *capture, enum fp_field which)
{
    return fp_process_field(&scheduler->layout, capture->structure, which);
}

/* Does the code from `at` on load the Erlang stack's top from the process structure (`mov rsp, [r13
 * + stop]`), or from rbp (`mov rsp, rbp`)? */
static uint8_t where_is_top(const struct fp_memory *memory, const struct fp_layout *layout,
                            uint64_t at)
{
    unsigned char code[LEAVE_PIECE];
    uint16_t stop = layout->release.offset[FP_FIELD_stop];

    /* The scheduler's code saved it before and does not load it again. */
    if (fp_jit_is_schedule(memory, at))
        return FP_TOP_IN_STOP;
    for (uint64_t end = at + LEAVE_BYTES_MAX; at < end; at += sizeof code - LEAVE_OVERLAP) {
        if (fp_safe_read(memory, at, code, sizeof code) != 0)
            return FP_TOP_UNKNOWN;
        for (size_t i = 0; i + 4 <= sizeof code; i++) {
            if (code[i] == 0x48 && ((code[i + 1] == 0x8b && code[i + 2] == 0xe5) ||
                                    (code[i + 1] == 0x89 && code[i + 2] == 0xec)))
                return FP_TOP_IN_RBP;
            if (code[i] == 0x49 && code[i + 1] == 0x8b && code[i + 2] == 0x65 &&
                code[i + 3] == stop)
                return FP_TOP_IN_STOP;
        }
    }
    return FP_TOP_UNKNOWN;
}

/* The lowest word that may be the rbp of JIT code: one that the C frames saved, or the register.
 * Heap addresses are among these words, so only a word that leaves a stack that can be copied whole
 * counts. */
static uint64_t lowest_candidate(const struct fp_capture *capture, uint64_t lowest, uint64_t hend)
{
    uint64_t best = hend, word = capture->registers.rbp;

    for (uint32_t at = 0;; at += 8) {
        if (word >= lowest && word < best && (word & 7) == 0)
            best = word;
        if (at + 8 > capture->native_bytes)
            return best;
        memcpy(&word, capture->native + at, sizeof word);
    }
}

static int copy_native(const struct fp_capture_scheduler *scheduler, struct fp_capture *capture)
{
    uint64_t start = capture->registers.rsp - FP_RED_ZONE;
    uint64_t size = scheduler->native_base - start;

    if (size > NATIVE_DEPTH_MAX || (size & 7) != 0)
        return 0;
    if (size > FP_CAPTURE_NATIVE_MAX)
        size = FP_CAPTURE_NATIVE_MAX;
    capture->native_start = start;
    capture->native_bytes = (uint32_t)size;
    if (fp_safe_read(scheduler->memory, scheduler->native_base, capture->kept,
                     sizeof capture->kept) != 0)
        memset(capture->kept, 0, sizeof capture->kept);
    return fp_safe_read(scheduler->memory, start, capture->native, (size_t)size) == 0;
}

/* Where the copy of the Erlang stack begins when the thread is in C, or in JIT code that has
 * switched to the C stack already. 0: not found. */
static uint64_t low_end_in_c(const struct fp_capture_scheduler *scheduler,
                             struct fp_capture *capture, uint64_t heap, uint64_t hend)
{
    uint64_t stop = field(scheduler, capture, FP_FIELD_stop), at, lowest;

    if (!copy_native(scheduler, capture))
        return 0;
    at = capture->registers.rip;
    if (capture->registers.rsp < scheduler->native_base) {
        if (fp_safe_read_word(scheduler->memory, scheduler->native_base - 8,
                              &capture->native_return) != 0)
            return 0;
        at = capture->native_return;
    }
    capture->top_in = where_is_top(scheduler->memory, &scheduler->layout, at);
    if (capture->top_in != FP_TOP_IN_RBP)
        return capture->top_in == FP_TOP_IN_STOP ? stop : 0;
    lowest = hend - heap > 8u * FP_STACK_WORDS_MAX ? hend - 8u * FP_STACK_WORDS_MAX : heap;
    return lowest_candidate(capture, lowest, hend);
}

static int copy_stack(const struct fp_capture_scheduler *scheduler, struct fp_capture *capture,
                      uint64_t hend)
{
    uint64_t words = (hend - capture->low) / 8;
    uint32_t root = 0;

    capture->high = hend;
    capture->words = capture->leaf_words = (uint32_t)words;
    if (words > FP_STACK_WORDS_MAX) {
        capture->words = FP_STACK_WORDS_MAX;
        capture->leaf_words = FP_STACK_WORDS_LEAF;
        root = FP_STACK_WORDS_ROOT;
    }
    return (capture->leaf_words == 0 || fp_safe_read(scheduler->memory, capture->low, capture->word,
                                                     8 * (size_t)capture->leaf_words) == 0) &&
           (root == 0 || fp_safe_read(scheduler->memory, hend - 8ull * root,
                                      capture->word + capture->leaf_words, 8 * (size_t)root) == 0);
}

static void end_stack_at(struct fp_capture *capture, uint32_t last)
{
    capture->words = capture->leaf_words = last + 1;
    capture->high = capture->low + 8 * (uint64_t)capture->words;
}

/* From `low` up to the last word, which is the same for every stack. */
static int copy_moved_stack(const struct fp_capture_scheduler *scheduler,
                            struct fp_capture *capture)
{
    uint64_t at = capture->low;
    uint32_t words = 0;

    while (words < FP_STACK_WORDS_LEAF) {
        uint32_t piece = (uint32_t)(PAGE_BYTES - at % PAGE_BYTES) / 8;

        if (piece > FP_STACK_WORDS_LEAF - words)
            piece = FP_STACK_WORDS_LEAF - words;
        if (fp_safe_read(scheduler->memory, at, capture->word + words, 8 * (size_t)piece) != 0)
            return 0;
        at += 8 * (uint64_t)piece;
        for (uint32_t end = words + piece; words < end; words++)
            if (capture->word[words] == scheduler->bottom) {
                end_stack_at(capture, words);
                return 1;
            }
    }
    return 0;
}

/* Between two stores to the structure an old bound may lie behind the new heap, but no stack goes
 * on beyond its last word. */
static void end_at_bottom(const struct fp_capture_scheduler *scheduler, struct fp_capture *capture)
{
    for (uint32_t i = 0; i + 1 < capture->leaf_words; i++)
        if (capture->word[i] == scheduler->bottom)
            end_stack_at(capture, i);
}

static int copy_from_low(const struct fp_capture_scheduler *scheduler, struct fp_capture *capture,
                         uint64_t heap, uint64_t hend)
{
    int in_stop = capture->place == FP_CAPTURE_IN_C && capture->top_in == FP_TOP_IN_STOP &&
                  scheduler->bottom != 0;

    if (capture->low == 0 || (capture->low & 7) != 0)
        return 0;
    if (capture->low < heap || capture->low > hend)
        return in_stop && copy_moved_stack(scheduler, capture);
    if (!copy_stack(scheduler, capture, hend))
        return 0;
    if (in_stop)
        end_at_bottom(scheduler, capture);
    return 1;
}

/* Only now are structure and dictionary of one moment: the process may move it as soon as the
 * handler returns. */
static void copy_dictionary(const struct fp_capture_scheduler *scheduler,
                            struct fp_capture *capture)
{
    uint64_t at = field(scheduler, capture, FP_FIELD_dictionary);

    if (at == 0 ||
        fp_safe_read(scheduler->memory, at, &capture->dictionary, sizeof capture->dictionary) != 0)
        memset(&capture->dictionary, 0, sizeof capture->dictionary);
}

void fp_handler_copy(const struct fp_capture_scheduler *scheduler,
                     const struct fp_registers *registers, struct fp_capture *capture)
{
    const struct fp_capture_offsets *offsets = &scheduler->layout.release.running;
    uint64_t heap, hend, rsp = registers->rsp;

    capture->result = FP_CAPTURE_NO_PROCESS;
    capture->place = FP_CAPTURE_IN_C;
    capture->top_in = FP_TOP_UNKNOWN;
    capture->registers = *registers;
    capture->native_bytes = 0;
    capture->native_return = 0;
    capture->words = capture->leaf_words = 0;
    if (fp_safe_read_word(scheduler->memory, scheduler->data + offsets->current_process,
                          &capture->process) != 0 ||
        capture->process == 0)
        return;
    capture->result = FP_CAPTURE_UNFOUND;
    if (fp_safe_read(scheduler->memory, capture->process, capture->structure,
                     scheduler->layout.snapshot_size) != 0)
        return;
    copy_dictionary(scheduler, capture);
    heap = field(scheduler, capture, FP_FIELD_heap);
    hend = field(scheduler, capture, FP_FIELD_hend);
    if (hend < heap || ((heap | hend) & 7) != 0)
        return;
    if (rsp >= heap && rsp <= hend) {
        capture->place = FP_CAPTURE_IN_ERLANG;
        capture->low = rsp;
    } else {
        capture->low = low_end_in_c(scheduler, capture, heap, hend);
    }
    if (copy_from_low(scheduler, capture, heap, hend))
        capture->result = FP_CAPTURE_CAPTURED;
}

/* --------------------------------------------------------- the handler -- */

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void copy_registers(const ucontext_t *context, struct fp_registers *registers)
{
#if defined(__x86_64__)
    const greg_t *at = context->uc_mcontext.gregs;

#define REGISTER(name, index) registers->name = (uint64_t)at[index]
    REGISTER(rax, REG_RAX);
    REGISTER(rdx, REG_RDX);
    REGISTER(rcx, REG_RCX);
    REGISTER(rbx, REG_RBX);
    REGISTER(rsi, REG_RSI);
    REGISTER(rdi, REG_RDI);
    REGISTER(rbp, REG_RBP);
    REGISTER(rsp, REG_RSP);
    REGISTER(r8, REG_R8);
    REGISTER(r9, REG_R9);
    REGISTER(r10, REG_R10);
    REGISTER(r11, REG_R11);
    REGISTER(r12, REG_R12);
    REGISTER(r13, REG_R13);
    REGISTER(r14, REG_R14);
    REGISTER(r15, REG_R15);
    REGISTER(rip, REG_RIP);
#undef REGISTER
#else
    (void)context;
    memset(registers, 0, sizeof *registers);
#endif
}

int fp_slot_move(struct fp_slot *slot, uint32_t number, enum fp_slot_state from,
                 enum fp_slot_state to)
{
    uint32_t expected = FP_SLOT_WORD(number, from);

    return atomic_compare_exchange_strong_explicit(&slot->state, &expected,
                                                   FP_SLOT_WORD(number, to), memory_order_acq_rel,
                                                   memory_order_acquire);
}

static void handle(struct fp_slot *slot, uint32_t number, const ucontext_t *context)
{
    struct fp_registers registers;
    uint64_t begin;

    if (!fp_slot_move(slot, number, FP_SLOT_REQUESTED, FP_SLOT_HANDLING)) {
        (void)fp_slot_move(slot, number, FP_SLOT_ABANDONED, FP_SLOT_IDLE);
        return;
    }
    begin = clock_ns();
    copy_registers(context, &registers);
    fp_handler_copy(&slot->scheduler, &registers, &slot->capture);
    slot->handler_ns = clock_ns() - begin;
    if (!fp_slot_move(slot, number, FP_SLOT_HANDLING, FP_SLOT_READY))
        (void)fp_slot_move(slot, number, FP_SLOT_ABANDONED, FP_SLOT_IDLE);
}

/* Any program may send the signal. A request is a signal that this process queued, that names a
 * slot, and that arrives on the slot's own thread. */
void fp_handler(int signal, siginfo_t *info, void *context)
{
    uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    unsigned at = (unsigned)(value >> 32);
    int saved = errno;

    (void)signal;
    if (info->si_code == SI_QUEUE && info->si_pid == fp_slots.process &&
        at < atomic_load_explicit(&fp_slots.count, memory_order_acquire) &&
        fp_slots.slot[at].thread == (pid_t)syscall(SYS_gettid))
        handle(&fp_slots.slot[at], (uint32_t)value, context);
    errno = saved;
}
