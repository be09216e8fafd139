/* registers.h - a thread's registers (x86_64), in the order of their DWARF numbers, so that unwind
 * information can name them. */
#pragma once

#include <stdint.h>

/* Those that calls preserve (rbx, rbp, rsp, r12 to r15) are what a caller can rely on; the others
 * matter where a thread was interrupted in one of few prologues, and may be 0 where they are not
 * known. */
struct fp_registers {
    uint64_t rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t rip;
};

/* Below rsp a leaf function may keep this much (System V ABI). */
#define FP_RED_ZONE 128u
