/* code_scan.h - finds JIT functions by the bytes before their code.
 *
 *      info                 mfa                               code
 *      | E8 call    | bp    | module | function | arity       | EB or E8 ...
 *      0            8       16       24         32            40
 *
 * E8: call of the i_func_info fragment. EB or E8: the breakpoint trampoline, off or on. Sources:
 * code_ix.h ErtsCodeInfo, jit/x86/beam_asm_module.cpp emit_i_func_info (27, 29),
 * jit/x86/instr_common.cpp (25).
 *
 * Memory is read block by block and only where its pages are resident (resident.h). A page that is
 * not resident, or not readable, is a hole. No allocation; any thread. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/maps.h"
#include "base/safe_read.h"
#include "erts/layout.h"

/* From the info to its MFA; the MFA's size, behind which the code starts. */
#define FP_MFA_IN_INFO 16u
#define FP_MFA_SIZE 24u

/* Are these FP_MFA_SIZE bytes two atoms and an arity? */
static inline int fp_is_mfa(const unsigned char *mfa)
{
    uint64_t word[3];

    memcpy(word, mfa, sizeof word);
    return word[2] < 256 && fp_term_is_atom(word[0]) && fp_term_is_atom(word[1]);
}

/* Do the bytes around `mfa`, from 16 before it to 8 behind it, have the shape of an info? */
static inline int fp_is_code_info(const unsigned char *mfa)
{
    unsigned char op = mfa[-(int)FP_MFA_IN_INFO], entry = mfa[FP_MFA_SIZE];

    return op == 0xe8 && (entry == 0xeb || entry == 0xe8) && fp_is_mfa(mfa);
}

/* How far a function or a module may reach back. The largest module of OTP has 2 MB of code;
 * generated parsers and tables are larger. */
#define FP_CODE_BACK_MAX (32u << 20)
#define FP_CODE_BLOCK 8192u

/* A walk downwards through code, in steps of 8 bytes, that ends at the first hole: a function is
 * one piece, and so is a module. */
struct fp_code_walk {
    const struct fp_memory *memory;
    uint64_t floor; /* nothing below is read */
    uint64_t at;    /* where the walk is: an MFA may stand here */
    uint64_t low;   /* [low, at + 32) is in `byte` */
    unsigned char byte[FP_CODE_BLOCK];
};

/* The first step is to `from`. */
void fp_code_walk_start(struct fp_code_walk *walk, const struct fp_memory *memory, uint64_t floor,
                        uint64_t from);
int fp_code_walk_load(struct fp_code_walk *walk);

/* 1, or 0 at the end. */
static inline int fp_code_walk_next(struct fp_code_walk *walk)
{
    walk->at -= 8;
    return walk->at >= walk->low + FP_MFA_IN_INFO || fp_code_walk_load(walk);
}

/* The bytes around `at`: from 16 bytes before it to 32 bytes behind it. */
static inline const unsigned char *fp_code_walk_bytes(const struct fp_code_walk *walk)
{
    return walk->byte + (walk->at - walk->low);
}

/* Calls `found` for each info in [from, to), upwards, until it returns other than 0: returns that.
 * Passes over holes, or ends with FP_ENOENT at the first. 0 at the end. */
typedef int fp_code_found(void *arg, uint64_t mfa_at, const unsigned char *mfa);
int fp_code_scan(const struct fp_memory *memory, uint64_t from, uint64_t to, int passes_holes,
                 fp_code_found *found, void *arg);

/* The function that starts last at or before `pc`, however long it is. 0 or FP_ENOENT. */
int fp_code_nearest(const struct fp_memory *memory, const struct fp_ranges *ranges, uint64_t pc,
                    uint64_t mfa[3], uint64_t *mfa_at);

/* The first function at or after `from` in the range: where its info begins. FP_ENOENT: none, or a
 * hole is before it, which may hold an earlier one. Some 30 us for 100 KB. */
int fp_code_first(const struct fp_memory *memory, const struct fp_range *range, uint64_t from,
                  uint64_t *info);

/* Where the JIT's code is, in a process that other JITs share: fp_maps_code(), of the anonymous
 * ranges those that have an info. Its results; with FP_EFULL the first FP_RANGES_MAX ranges. Reads
 * /proc/self/maps: a thread that may block. */
int fp_code_ranges(const struct fp_memory *memory, struct fp_ranges *ranges);

/* A sentence on that result. */
const char *fp_code_ranges_why(int err);

/* The range that `pc` is in, or NULL. */
const struct fp_range *fp_range_of(const struct fp_ranges *ranges, uint64_t pc);
