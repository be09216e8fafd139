/* jit_code.h - the BIF that a process is in, by the code that called it.
 *
 * An Erlang function calls most BIFs ("light" ones) by a fixed sequence of instructions that names
 * them; the rest ("heavy" ones) are functions of their own whose code is a jump
 * (jit/x86/instr_bif.cpp emit_call_light_bif, emit_call_bif). Reads code through memory only. Any
 * thread, no allocation. */
#pragma once

#include <stdint.h>

#include "base/safe_read.h"

/* An instruction before `at` is a call. */
int fp_is_return_address(const struct fp_memory *memory, uint64_t at);

/* `at` can be an address, and has a module, a function and an arity. */
int fp_is_mfa_at(const struct fp_memory *memory, uint64_t at);

/* The target of the call before `returns_to`; 0: not known. */
uint64_t fp_call_target(const struct fp_memory *memory, uint64_t returns_to);

/* The target of the jump at `at`; `at` itself without a jump. Modules reach shared code through
 * jumps of their own, at their end (beam_asm_module.cpp resolve_fragment). */
uint64_t fp_jump_target(const struct fp_memory *memory, uint64_t at);

/* `at` is `jmp rax`, the second half of a jump that begins with FP_MOV_RAX_BYTES of a move. */
#define FP_MOV_RAX_BYTES 10u
int fp_is_jump_to_rax(const struct fp_memory *memory, uint64_t at);

/* The call before `returns_to` is that of a light BIF: 0 and the address of its module, function
 * and arity. FP_ENOENT: it is not. */
int fp_jit_light(const struct fp_memory *memory, uint64_t returns_to, uint64_t *mfa_at);

/* `current` is a heavy BIF, and the C code that returns to `native_return` runs for such a one. */
int fp_jit_heavy(const struct fp_memory *memory, uint64_t current, uint64_t native_return);

/* A breakpoint on a function called C (call tracing, counting). The calling code removes the two
 * return addresses of the Erlang stack before, and puts them back behind:
 * `push [rbx - x]; push [rbx - y]; ret` (instr_trace.cpp emit_generic_bp_local). */
int fp_jit_is_breakpoint(const struct fp_memory *memory, uint64_t native_return);

/* C was called to find the next process: its result becomes the current process, r13
 * (process_main.cpp). */
int fp_jit_is_schedule(const struct fp_memory *memory, uint64_t native_return);

/* C was called to raise an exception: its result, in rax, is the address to continue at
 * (beam_asm_global.cpp). The address of the raise is on top of the Erlang stack. */
int fp_jit_is_raise(const struct fp_memory *memory, uint64_t native_return);
