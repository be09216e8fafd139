/* jit_code.h - which BIF a process is in, by the code that called it.
 *
 * An Erlang function calls most BIFs ("light" ones) by a fixed sequence of instructions that names
 * them; the rest ("heavy" ones) are functions of their own whose code is a jump
 * (jit/x86/instr_bif.cpp emit_call_light_bif, emit_call_bif). Reads code through memory only. Any
 * thread, no allocation. */
#pragma once

#include <stdint.h>

#include "base/safe_read.h"

/* Is there an instruction before `at` that calls? */
int fp_is_return_address(const struct fp_memory *memory, uint64_t at);

/* Do module, function and arity stand there, at what can be an address? */
/* For tests. */
int fp_is_mfa_at(const struct fp_memory *memory, uint64_t at);

/* Where the call before `returns_to` goes; 0 where that cannot be told. */
uint64_t fp_call_target(const struct fp_memory *memory, uint64_t returns_to);

/* Where the jump at `at` goes; `at` itself where there is none. Modules reach shared code through
 * jumps of their own, at their end (beam_asm_module.cpp resolve_fragment). */
uint64_t fp_jump_target(const struct fp_memory *memory, uint64_t at);

/* The call before `returns_to` is that of a light BIF: 0 and where its module, function and arity
 * stand. FP_ENOENT: it is not. */
int fp_jit_light(const struct fp_memory *memory, uint64_t returns_to, uint64_t *mfa_at);

/* Is `current` a heavy BIF, and the C code that returns to `native_return` called for such a
 * one? */
int fp_jit_heavy(const struct fp_memory *memory, uint64_t current, uint64_t native_return);

/* Was C called because of a breakpoint on a function (call tracing, counting)? The code that calls
 * it takes the two return addresses on the Erlang stack away before and puts them back behind:
 * `push [rbx - x]; push [rbx - y]; ret` (instr_trace.cpp emit_generic_bp_local). */
int fp_jit_is_breakpoint(const struct fp_memory *memory, uint64_t native_return);

/* The function whose breakpoint returns to `at`: where its module, function and arity stand; 0: it
 * is no such address. */
uint64_t fp_jit_breakpoint_mfa(const struct fp_memory *memory, uint64_t at);

/* Was C called to find the next process to run? (process_main.cpp: what it answers becomes the
 * current process, r13.) */
int fp_jit_is_schedule(const struct fp_memory *memory, uint64_t native_return);

/* Was C called to raise an exception? (beam_asm_global.cpp: what it answers is where to go on, in
 * rax.) Where it was raised is on top of the Erlang stack. */
int fp_jit_is_raise(const struct fp_memory *memory, uint64_t native_return);
