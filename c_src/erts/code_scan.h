/*
 * code_scan.h - JIT functions by the shape of what stands before them.
 *
 *      info                 mfa
 *      | E8 call    | bp    | module | function | arity | EB or E8 ... code
 *      0            8       16       24         32      40
 *
 * E8: call of the i_func_info fragment. EB or E8: the breakpoint trampoline, off or on. Sources:
 * code_ix.h ErtsCodeInfo, jit/x86/beam_asm_module.cpp emit_i_func_info (27, 29),
 * jit/x86/instr_common.cpp (25).
 *
 * Memory is read block by block, downwards from an address (code_index.c) or upwards through a
 * range (functions.c), and never where pages are not resident.
 */
#ifndef FP_ERTS_CODE_SCAN_H
#define FP_ERTS_CODE_SCAN_H

#include <stdint.h>
#include <string.h>

#include "base/maps.h"
#include "base/safe_read.h"
#include "erts/layout.h"

/* From the info to its MFA; the MFA's size, behind which the code starts. */
#define FP_MFA_IN_INFO 16u
#define FP_MFA_SIZE 24u

/* How far a function or a module may reach back. The largest module of OTP has 2 MB of code;
 * generated parsers and tables of others are larger. */
#define FP_WALK_BACK_MAX (32u << 20)
#define FP_CODE_BLOCK 8192u

/* Do the bytes at `mfa` look like the MFA of an ErtsCodeInfo? Compares
 * [mfa - 16, mfa + 25). */
static inline int fp_is_mfa(const unsigned char *mfa)
{
    unsigned char op = mfa[-(int)FP_MFA_IN_INFO], entry = mfa[FP_MFA_SIZE];
    uint64_t word[3];

    if (op != 0xe8 || (entry != 0xeb && entry != 0xe8))
        return 0;
    memcpy(word, mfa, sizeof word);
    return word[2] < 256 && fp_term_is_atom(word[0]) && fp_term_is_atom(word[1]);
}

/* A window over memory below some address, moved downwards block by block. */
struct fp_code_window {
    const struct fp_memory *memory;
    uint64_t low;   /* address of byte[0] */
    uint64_t floor; /* never read below: the mapping's start */
    uint64_t top;   /* first address not in the window */
    unsigned char byte[FP_CODE_BLOCK + 64];
};

/* Make [low, top) the block below `top`, with `overlap` bytes above it. 0, FP_ENOENT when no page
 * below `top` is resident, or FP_EFAULT. */
int fp_code_window_load(struct fp_code_window *w, uint64_t top, uint32_t overlap);

static inline uint64_t fp_code_window_word(const struct fp_code_window *w, uint64_t at)
{
    uint64_t word;

    memcpy(&word, w->byte + (at - w->low), sizeof word);
    return word;
}

/* The window holds [at - 16, at + 25). */
static inline int fp_code_window_is_mfa(const struct fp_code_window *w, uint64_t at)
{
    return fp_is_mfa(w->byte + (at - w->low));
}

/* The range that `pc` is in, or NULL. */
const struct fp_range *fp_range_of(const struct fp_ranges *ranges, uint64_t pc);

/* A tracer's frame holds a pointer to the MFA of the function that it traces (beam_bp.c). It looks
 * like a return address, but what stands there is no code. */
int fp_code_is_before_mfa(const struct fp_memory *memory, uint64_t pc);

#endif
