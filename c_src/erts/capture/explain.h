/*
 * explain.h - the stack of a process that is running.
 *
 * While Erlang code runs, the processor's stack pointer is the Erlang stack's
 * and what the process structure says of it is old. So the scheduler's thread
 * is interrupted, and in its signal handler, where nothing of it moves,
 * fp_capture_take() copies what is needed. What it means is found out later
 * and elsewhere, by fp_explain_frames().
 *
 *   where the thread was      top of the Erlang stack
 *   ------------------------  ---------------------------------------------
 *   in Erlang code            rsp
 *   in C, called by code      the process structure's `stop`
 *     that saved its stack
 *   in C, otherwise           what rbp was when C was called (JIT code keeps
 *                             it there): found by unwinding the C frames
 *
 * Which of the last two it is, is told by the instructions that follow the
 * call: they load the stack pointer from where it was kept (beam_asm.hpp
 * emit_enter_runtime and emit_leave_runtime; +JPperf's frame pointers keep it
 * in the structure always).
 *
 * The C stack of a scheduler has a fixed top: where JIT code switches to it.
 * The word below it is the return address into JIT code (process_main.cpp).
 */
#ifndef FP_ERTS_CAPTURE_EXPLAIN_H
#define FP_ERTS_CAPTURE_EXPLAIN_H

#include <stdint.h>

#include "base/registers.h"
#include "base/safe_read.h"
#include "erts/dictionary.h"
#include "erts/layout.h"
#include "erts/process.h"
#include "erts/stack.h"

/* Of the C stack, so many bytes from the red zone below rsp on are copied: the
 * frames that matter and, mostly, all of them. */
#define FP_CAPTURE_NATIVE_MAX 16384u

/* Words that are copied from above the C stack. */
#define FP_CAPTURE_KEPT 8u

enum fp_capture_result {
    FP_CAPTURE_CAPTURED,
    FP_CAPTURE_NOBODY,  /* the scheduler had no process */
    FP_CAPTURE_UNFOUND, /* its stack was not where it should be */
};

enum fp_capture_place { FP_CAPTURE_IN_ERLANG, FP_CAPTURE_IN_C };

/* Where the code that called C left the Erlang stack's top. */
enum fp_capture_top { FP_TOP_IN_STOP, FP_TOP_IN_RBP, FP_TOP_UNKNOWN };

/* A scheduler as its handler sees it. Immutable. */
struct fp_capture_scheduler {
    const struct fp_memory *peek; /* for the handler's use alone */
    struct fp_layout layout;
    uint64_t data;        /* address of its ErtsSchedulerData */
    uint64_t native_base; /* where its C stack begins (its highest address) */
    uint64_t bottom; /* the last word of every Erlang stack; 0: not known */
};

/* What the handler found. While the collector exchanges the heaps, the stack is
 * in the new one, of which the structure does not tell the bounds yet
 * (erl_gc.c: it frees the old one in between, which takes a while): then its end
 * is told by its last word. */
struct fp_capture {
    uint8_t result, place, top_in;
    uint64_t process; /* address of its structure */
    struct fp_registers registers;
    /* The Erlang stack from `low` on, the top or a little below it, to `high`:
     * the heap's end, but for a stack that is not in the heap. */
    uint64_t low, high;
    uint32_t words, leaf_words;
    /* In C: the stack from `native_start` on, and where it returns to JIT
     * code. */
    uint32_t native_bytes;
    uint64_t native_start, native_return;
    /* In C, from where the C stack begins upwards: what the JIT's code keeps
     * for a moment (erl_process.h ErtsSchedulerRegisters, TMP_MEM). */
    uint64_t kept[FP_CAPTURE_KEPT];
    unsigned char structure[FP_PROBE_WINDOW];
    struct fp_dictionary dictionary; /* zeros when it is not readable */
    unsigned char native[FP_CAPTURE_NATIVE_MAX];
    uint64_t word[FP_STACK_WORDS_MAX];
};

/* ASYNC-SIGNAL-SAFE: reads through the scheduler's peek, writes to `running`,
 * does nothing else. */
void fp_capture_take(const struct fp_capture_scheduler *scheduler,
                     const struct fp_registers *registers,
                     struct fp_capture *running);

/* By whom C code was called, when it was not a function itself. */
enum fp_capture_caller {
    FP_CALLER_FUNCTION, /* an instruction of an Erlang function */
    FP_CALLER_BIF,
    FP_CALLER_NIF,
    FP_CALLER_BREAKPOINT, /* of a function that has just been called */
    FP_CALLER_RAISE,      /* an exception: its place is on top of the stack */
    FP_CALLER_SCHEDULE, /* the scheduler: the process goes, or has just come */
    FP_CALLER_UNKNOWN
};

/* The VM's code as the reader of captures needs it. */
struct fp_capture_code {
    const struct fp_memory *peek;
    const struct fp_ranges *ranges;
    /* What the JIT's functions share lies here, in no function. */
    struct fp_range fragments;
    /* Where NIFs return to: in the fragment that calls them. */
    uint64_t nif_return;
    /* C frames, innermost first, from a capture: how many, and in `at_entry`
     * the registers as JIT code had them when it called C. NULL: there is no
     * unwinder. `complete` is 0 when the walk ended before JIT code. */
    size_t (*unwind)(void *self, const struct fp_capture *running, uint64_t *pc,
                     size_t max, struct fp_registers *at_entry, int *complete);
    void *unwind_self;
    int with_native; /* C frames are wanted in the stack */
};

/* The snapshot is that of running->structure, decoded by the caller; `stop`,
 * the sizes that hang on it, and the reductions are brought up to the moment of
 * the capture. The frames of the whole stack. 0, or FP_ENOENT when the stack
 * was not found. Any thread, no allocation. */
int fp_explain_frames(const struct fp_capture_code *code,
                      const struct fp_layout *layout,
                      const struct fp_capture *running,
                      struct fp_snapshot *snapshot, struct fp_stack *stack);

#endif
