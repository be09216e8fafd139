/* code_index.h - code addresses to module:function/arity and file:line, by copies of memory alone.
 *
 * An ErtsCodeInfo precedes a JIT function, and a BeamCodeHeader, which lists the functions and has
 * the line table, precedes a module. Both are found by a walk back from the address (code_scan.h),
 * once for each function.
 *
 *   BeamCodeHeader          ErtsCodeInfo of function 0        its code
 *   ... functions[0..N] ... | E8 call | bp | M | F | A |  ...instructions...
 *                            ^ functions[0]  ^ MFA        ^ MFA + 24
 *
 * Code memory is reused after a purge: fp_code_index_revalidate() compares what is cached.
 *
 * A struct fp_code_index belongs to one thread. It allocates. */
#pragma once

#include "base/maps.h"
#include "base/safe_read.h"
#include "erts/atom.h"
#include "erts/layout.h"

struct fp_code_index;

struct fp_location {
    uint64_t mfa[3]; /* module, function: atom words; arity */
    uint32_t line;   /* 0: not known */
    uint64_t file;   /* a string term; 0: not known */
};

/* 0 or FP_ENOMEM. `layout`, `memory` must outlive it; ranges are copied. */
int fp_code_index_create(struct fp_code_index **code, const struct fp_layout *layout,
                         const struct fp_memory *memory, const struct fp_ranges *ranges);
void fp_code_index_destroy(struct fp_code_index *code);

/* Where code may be from now on: what is cached stays. */
void fp_code_index_set_ranges(struct fp_code_index *code, const struct fp_ranges *ranges);

/* 0; FP_ENOENT: in no function of a loaded module (a shared fragment, or no code); FP_ENOMEM. */
int fp_code_index_resolve(struct fp_code_index *code, uint64_t pc, struct fp_location *location);

/* Text of an atom, cached until the next call on `code`. NULL: the word is no atom. */
const char *fp_code_index_atom(struct fp_code_index *code, uint64_t atom, uint32_t *len);

/* Text of a location's file, UTF-8; likewise. */
const char *fp_code_index_file(struct fp_code_index *code, uint64_t file, uint32_t *len);

/* Compares every cached function and module with memory, and forgets all when any changed. How many
 * did. About 0.15 us for each cached function. */
int fp_code_index_revalidate(struct fp_code_index *code);

/* Cached functions. */
uint32_t fp_code_index_size(const struct fp_code_index *code);
