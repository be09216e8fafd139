#include "erts/capture/handler.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "erts/capture/jit_code.h"

/* No C stack of a thread is deeper. */
#define NATIVE_DEPTH_MAX (UINT64_C(64) << 20)
/* Bytes of code read behind a call of C, in pieces. Many instructions may come before the load of
 * the Erlang stack's top (the segments of a binary under construction). */
#define LEAVE_BYTES_MAX 1024u
#define LEAVE_PIECE 64u
/* The longest of the instructions in where_is_top(), and what two pieces share of it. */
#define LEAVE_LONGEST 7u
#define LEAVE_OVERLAP (LEAVE_LONGEST - 1)
/* A stack without a known end is copied up to the end of a page at a time. */
#define PAGE_BYTES 4096u

struct fp_slots fp_slots;

/* ------------------------------------------------------------ the copy -- */

static uint64_t field(const struct fp_capture_scheduler *scheduler,
                      const struct fp_capture *capture, enum fp_field which)
{
    return fp_process_field(&scheduler->layout, capture->structure, which);
}

/* `mov rsp, [r13 + stop]`, with a displacement of one byte, which has a sign, or of four. */
static int loads_stop(const unsigned char code[LEAVE_LONGEST], uint16_t stop)
{
    uint32_t displacement;

    if (code[0] != 0x49 || code[1] != 0x8b)
        return 0;
    memcpy(&displacement, code + 3, sizeof displacement);
    return (code[2] == 0x65 && code[3] == stop && stop <= INT8_MAX) ||
           (code[2] == 0xa5 && displacement == stop);
}

/* The code from `at` on loads the Erlang stack's top from the process structure, or from rbp (`mov
 * rsp, rbp`). */
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
        for (size_t i = 0; i + LEAVE_LONGEST <= sizeof code; i++) {
            if (code[i] == 0x48 && ((code[i + 1] == 0x8b && code[i + 2] == 0xe5) ||
                                    (code[i + 1] == 0x89 && code[i + 2] == 0xec)))
                return FP_TOP_IN_RBP;
            if (loads_stop(code + i, stop))
                return FP_TOP_IN_STOP;
        }
    }
    return FP_TOP_UNKNOWN;
}

/* The lowest word that may be the rbp of JIT code, among the register and the words of the C stack.
 * Heap addresses are among these words: a word counts only if the stack above it can be copied
 * whole. */
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

/* The low end of the copied Erlang stack, when the thread is in C, or in JIT code that has switched
 * to the C stack. 0: not found. */
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
    int is_cut = words > FP_STACK_WORDS_MAX;

    capture->high = hend;
    capture->words = is_cut ? FP_STACK_WORDS_MAX : (uint32_t)words;
    capture->leaf_words = is_cut ? FP_STACK_WORDS_LEAF : (uint32_t)words;
    return (words == 0 || fp_safe_read(scheduler->memory, capture->low, capture->word,
                                       8 * (size_t)capture->leaf_words) == 0) &&
           (!is_cut || fp_safe_read(scheduler->memory, hend - 8ull * FP_STACK_WORDS_ROOT,
                                    capture->word + FP_STACK_WORDS_LEAF,
                                    8 * (size_t)FP_STACK_WORDS_ROOT) == 0);
}

/* Ends the copy at the last word, which is the same for every stack, if it is among words from..to.
 * 1: it is. */
static int end_at_bottom(const struct fp_capture_scheduler *scheduler, struct fp_capture *capture,
                         uint32_t from, uint32_t to)
{
    while (from < to && capture->word[from] != scheduler->bottom)
        from++;
    if (from == to)
        return 0;
    capture->words = capture->leaf_words = from + 1;
    capture->high = capture->low + 8 * (uint64_t)capture->words;
    return 1;
}

/* From `low` up to the last word. */
static int copy_moved_stack(const struct fp_capture_scheduler *scheduler,
                            struct fp_capture *capture)
{
    uint64_t at = capture->low;
    uint32_t words = 0, piece;

    for (; words < FP_STACK_WORDS_LEAF; words += piece, at += 8 * (uint64_t)piece) {
        piece = (uint32_t)(PAGE_BYTES - at % PAGE_BYTES) / 8;
        if (piece > FP_STACK_WORDS_LEAF - words)
            piece = FP_STACK_WORDS_LEAF - words;
        if (fp_safe_read(scheduler->memory, at, capture->word + words, 8 * (size_t)piece) != 0)
            return 0;
        if (end_at_bottom(scheduler, capture, words, words + piece))
            return 1;
    }
    return 0;
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
    /* Between two stores to the structure an old bound may lie behind the new heap, but a stack
     * ends at its last word. */
    if (in_stop)
        (void)end_at_bottom(scheduler, capture, 0, capture->leaf_words);
    return 1;
}

/* In the handler, structure and dictionary are of one moment. Later the process may move it. */
static void copy_dictionary(const struct fp_capture_scheduler *scheduler,
                            struct fp_capture *capture)
{
    uint64_t at = field(scheduler, capture, FP_FIELD_dictionary);

    if (at == 0 ||
        fp_safe_read(scheduler->memory, at, &capture->dictionary, sizeof capture->dictionary) != 0)
        memset(&capture->dictionary, 0, sizeof capture->dictionary);
}

/* The handler copies words only; the requesting thread reads the terms in them. */
static void copy_windows(const struct fp_capture_scheduler *scheduler, struct fp_windows *windows)
{
    for (uint32_t i = 0; i < windows->count && i < FP_WINDOWS_MAX; i++) {
        struct fp_window *window = &windows->window[i];

        if (window->words > FP_WINDOW_WORDS ||
            fp_safe_read(scheduler->memory, window->address, window->word,
                         8 * (size_t)window->words) != 0)
            window->words = 0;
    }
}

/* Terms are immutable between two collections, and in the handler none begins. During one the words
 * may be of either heap. */
static void copy_work(const struct fp_capture_scheduler *scheduler, struct fp_capture *capture)
{
    struct fp_serving_sites *sites = fp_serving_published();
    struct fp_serving serving;
    struct fp_walk walk;

    if (sites == NULL || !fp_serving_is_captured() ||
        (field(scheduler, capture, FP_FIELD_state) & FP_PSFLG_GC) != 0 ||
        !fp_serving_find(sites, capture->word, capture->words, capture->leaf_words, &serving))
        return;
    memset(&capture->work, 0, sizeof capture->work);
    fp_serving_walk(sites, &walk, scheduler->memory, &scheduler->layout);
    if (fp_serving_read(&walk, &serving, &capture->work))
        capture->work_at = serving.at < capture->leaf_words
                               ? capture->low + 8 * (uint64_t)serving.at
                               : capture->high - 8 * (uint64_t)(capture->words - serving.at);
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
    capture->work_at = 0;
    if (fp_safe_read_word(scheduler->memory, scheduler->data + offsets->current_process,
                          &capture->process) != 0 ||
        capture->process == 0)
        return;
    capture->result = FP_CAPTURE_UNFOUND;
    if (fp_safe_read(scheduler->memory, capture->process, capture->structure,
                     scheduler->layout.snapshot_size) != 0)
        return;
    copy_dictionary(scheduler, capture);
    copy_windows(scheduler, &capture->windows);
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
    if (!copy_from_low(scheduler, capture, heap, hend))
        return;
    capture->result = FP_CAPTURE_CAPTURED;
    copy_work(scheduler, capture);
}

/* --------------------------------------------------------- the handler -- */

static void copy_registers(const ucontext_t *context, struct fp_registers *registers)
{
#if defined(__x86_64__)
    /* In the order of struct fp_registers. */
    static const uint8_t from[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                   REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                   REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    uint64_t word[sizeof from];

    static_assert(sizeof word == sizeof *registers, "one place for each register");
    for (size_t i = 0; i < sizeof from; i++)
        word[i] = (uint64_t)context->uc_mcontext.gregs[from[i]];
    memcpy(registers, word, sizeof word);
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
    int64_t begin;

    if (!fp_slot_move(slot, number, FP_SLOT_REQUESTED, FP_SLOT_HANDLING)) {
        (void)fp_slot_move(slot, number, FP_SLOT_ABANDONED, FP_SLOT_IDLE);
        return;
    }
    begin = fp_monotonic_ns();
    copy_registers(context, &registers);
    fp_handler_copy(&slot->scheduler, &registers, &slot->capture);
    if (!FP_CHECK(fp_capture_is_sound(&slot->capture)))
        fp_capture_empty(&slot->capture);
    slot->handler_ns = (uint64_t)(fp_monotonic_ns() - begin);
    if (!fp_slot_move(slot, number, FP_SLOT_HANDLING, FP_SLOT_READY))
        (void)fp_slot_move(slot, number, FP_SLOT_ABANDONED, FP_SLOT_IDLE);
}

/* Any program may send the signal. A request comes from this process's queue, names a slot, and
 * arrives on the slot's own thread. */
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
