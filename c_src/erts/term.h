/* term.h - terms of the VM, as words: erl_term.h, the same in OTP 25 to 29.
 *
 * The terms that are followed into memory: entries of a process dictionary (dictionary.c), the
 * values of '$initial_call' and '$process_label' (process_names.c), file names (code_index.c). */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/safe_read.h"
#include "erts/layout.h"

#define FP_ARITY_MAX 255u

static inline int fp_term_is_list(uint64_t term)
{
    return (term & 3) == 1;
}

static inline int fp_term_is_boxed(uint64_t term)
{
    return (term & 3) == 2;
}

static inline uint64_t fp_term_address(uint64_t term)
{
    return term & ~UINT64_C(7);
}

/* A small integer of 0..255; -1 for any other term. */
static inline int fp_term_arity(uint64_t term)
{
    return (term & 0xf) == 0xf && term >> 4 <= FP_ARITY_MAX ? (int)(term >> 4) : -1;
}

static inline uint64_t fp_atom_index(uint64_t atom)
{
    return atom >> 6;
}

/* The elements of a tuple, behind its header, which is arity << 6. */
static inline int fp_term_read_tuple(const struct fp_memory *memory, uint64_t term, uint32_t arity,
                                     uint64_t *word)
{
    return fp_term_is_boxed(term) &&
                   fp_safe_read(memory, fp_term_address(term), word, 8 * (1 + (size_t)arity)) ==
                       0 &&
                   word[0] == (uint64_t)arity << 6
               ? 0
               : FP_ENOENT;
}
