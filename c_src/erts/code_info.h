/*
 * code_info.h - the ErtsCodeInfo before each JIT function, by its shape.
 *
 *      info                 mfa
 *      | E8 call    | bp    | module | function | arity | EB or E8 ... code
 *      0            8       16       24         32      40
 *
 * The one place that knows what it looks like. Sources: code_ix.h
 * ErtsCodeInfo, jit/x86/beam_asm_module.cpp emit_i_func_info (27, 29),
 * jit/x86/instr_common.cpp (25).
 */
#ifndef FP_ERTS_CODE_INFO_H
#define FP_ERTS_CODE_INFO_H

#include <stdint.h>
#include <string.h>

#include "erts/layout.h"

/* From the info to its MFA; the MFA's size, behind which the code starts. */
#define FP_MFA_IN_INFO 16u
#define FP_MFA_SIZE 24u

/* Do the bytes at `mfa` look like the MFA of an ErtsCodeInfo? [mfa - 16,
 * mfa + 25) is looked at. E8: call of the i_func_info fragment. EB or E8: the
 * breakpoint trampoline that the code starts with, off or on. */
static inline int fp_is_mfa(const unsigned char *mfa)
{
    unsigned char op = mfa[-(int)FP_MFA_IN_INFO], entry = mfa[FP_MFA_SIZE];
    uint64_t word[3];

    if (op != 0xe8 || (entry != 0xeb && entry != 0xe8))
        return 0;
    memcpy(word, mfa, sizeof word);
    return word[2] < 256 && fp_term_is_atom(word[0]) &&
           fp_term_is_atom(word[1]);
}

#endif
