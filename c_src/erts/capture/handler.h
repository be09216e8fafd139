/* handler.h - what runs in the signal handler, on a scheduler's own thread, and the slots that it
 * shares with the threads that send the signal. handler.c is ASYNC-SIGNAL-SAFE throughout and
 * writes to its slot only. What it may call stands in tools/check_threads.sh, which follows its
 * calls.
 *
 * While Erlang code runs, the stack pointer register is the Erlang stack's and the process
 * structure is old. In the handler nothing of the interrupted thread moves: fp_handler_copy()
 * copies what explain.h needs to know the stack.
 *
 *   where the thread was         top of the Erlang stack
 *   ---------------------------  ------------------------------------------------------
 *   in Erlang code               rsp
 *   in C, called by code that    `stop` of the process structure
 *     saved its stack
 *   in C, otherwise              rbp at the call of C (JIT code keeps it there): found by
 *                                unwinding the C frames
 *
 * The instructions behind the call tell the last two apart: they load the stack pointer from where
 * it was kept (beam_asm.hpp emit_enter_runtime, emit_leave_runtime; with +JPperf true it is always
 * the structure). A scheduler's C stack has a fixed top, where JIT code switches to it; the word
 * below the top is the return address into JIT code (process_main.cpp). */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/registers.h"
#include "base/safe_read.h"
#include "erts/dictionary.h"
#include "erts/layout.h"
#include "erts/process.h"
#include "erts/serving.h"
#include "erts/stack.h"

/* Bytes of the C stack that are copied, from the red zone below rsp on: mostly all frames. */
#define FP_CAPTURE_NATIVE_MAX 16384u
/* Words copied from above the C stack. */
#define FP_CAPTURE_KEPT 8u

enum fp_capture_result {
    FP_CAPTURE_CAPTURED,
    FP_CAPTURE_NO_PROCESS, /* the scheduler had no process */
    FP_CAPTURE_UNFOUND,    /* the stack was not where it should be */
};

enum fp_capture_place { FP_CAPTURE_IN_ERLANG, FP_CAPTURE_IN_C };

/* Where the code that called C left the Erlang stack's top. */
enum fp_capture_top { FP_TOP_IN_STOP, FP_TOP_IN_RBP, FP_TOP_UNKNOWN };

/* A scheduler as its handler sees it. Immutable once it is registered. */
struct fp_capture_scheduler {
    const struct fp_memory *memory;
    struct fp_layout layout;
    uint64_t data;        /* address of its ErtsSchedulerData */
    uint64_t native_base; /* where its C stack begins (its highest address) */
    uint64_t bottom;      /* the last word of every Erlang stack; 0: not known */
};

/* The handler's copies. While the collector exchanges the heaps, the stack is in the new one, and
 * the structure does not have its bounds yet (erl_gc.c): then the stack ends at its last word. */
struct fp_capture {
    uint8_t result, place, top_in;
    uint64_t process; /* address of its structure */
    struct fp_registers registers;
    /* The Erlang stack from `low`, its top or a little below, to `high`: the heap's end, or the end
     * of a stack outside of the heap. */
    uint64_t low, high;
    uint32_t words, leaf_words;
    /* In C: the stack from `native_start` on, and its return address into JIT code. */
    uint32_t native_bytes;
    uint64_t native_start, native_return;
    /* In C: words above the base of the C stack, where JIT code keeps temporaries (erl_process.h
     * ErtsSchedulerRegisters, TMP_MEM). */
    uint64_t kept[FP_CAPTURE_KEPT];
    unsigned char structure[FP_PROBE_WINDOW];
    struct fp_dictionary dictionary; /* zeros when it is not readable */
    /* Address on the Erlang stack of the return address that tells the message in work, which
     * counts if it is above the stack's top; 0: none. */
    uint64_t work_at;
    struct fp_work work;
    struct fp_windows windows; /* that the request named */
    unsigned char native[FP_CAPTURE_NATIVE_MAX];
    uint64_t word[FP_STACK_WORDS_MAX];
};

/* Whether the numbers of what was copied are within its arrays: before the slot is given away, and
 * before it is read. */
static inline int fp_capture_is_sound(const struct fp_capture *capture)
{
    return capture->result <= FP_CAPTURE_UNFOUND && capture->words <= FP_STACK_WORDS_MAX &&
           capture->leaf_words <= capture->words &&
           capture->native_bytes <= FP_CAPTURE_NATIVE_MAX &&
           capture->windows.count <= FP_WINDOWS_MAX;
}

/* Nothing was copied. */
static inline void fp_capture_empty(struct fp_capture *capture)
{
    capture->result = FP_CAPTURE_UNFOUND;
    capture->words = capture->leaf_words = capture->native_bytes = capture->windows.count = 0;
    capture->work_at = 0;
}

void fp_handler_copy(const struct fp_capture_scheduler *scheduler,
                     const struct fp_registers *registers, struct fp_capture *capture);

/* ---------------------------------------------------------------- the slots -- */

/* sigcapture.h has the diagram. */
enum fp_slot_state {
    FP_SLOT_IDLE,
    FP_SLOT_REQUESTED,
    FP_SLOT_HANDLING,
    FP_SLOT_READY,
    FP_SLOT_ABANDONED
};

/* A slot's state and the number of its last request, in one word. */
#define FP_SLOT_WORD(number, state) ((uint32_t)(number) << 3 | (uint32_t)(state))
#define FP_SLOT_STATE(word) ((enum fp_slot_state)((word)&7u))
#define FP_SLOT_NUMBER(word) ((word) >> 3)

/* Some 82 KiB; pages of a slot that never registers are never touched. */
struct fp_slot {
    /* release by the thread that gives the slot away, acquire by the one that takes it */
    _Atomic uint32_t state;
    /* Set last, with release: from then on all but `capture` is immutable. */
    _Atomic int is_registered;
    /* Its thread was outside of the handler since the shutdown began. */
    _Atomic int has_quiesced;
    pid_t thread; /* 0: no signal was ever sent to it */
    clockid_t cpu_clock;
    /* fp_sigcapture_is_lost: the request that was seen pending, and the thread's CPU time then. */
    _Atomic uint32_t watched;
    _Atomic uint64_t watched_ns;
    struct fp_capture_scheduler scheduler;
    uint64_t handler_ns;
    struct fp_capture capture;
};

/* The handler may run at any time after its installation: this outlives an unload of the library
 * until the shutdown. Defined in handler.c. */
extern struct fp_slots {
    struct fp_slot *slot;
    _Atomic unsigned count; /* release after `slot` is mapped */
    pid_t process;
} fp_slots;

/* Moves the request `number` on; 0: its slot is in another state, or has another request. */
int fp_slot_move(struct fp_slot *slot, uint32_t number, enum fp_slot_state from,
                 enum fp_slot_state to);

/* The action of the signal. */
void fp_handler(int signal, siginfo_t *info, void *context);
