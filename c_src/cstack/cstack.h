/* cstack.h - the C code of this process: the library and the function around an address, and the
 * callers in a copied stack.
 *
 *      maps, ELF files --create--> struct fp_cstack --unwind--> addresses
 *                                                   --resolve-> names
 *
 * A thread that may block reads the libraries' files once; the set never changes afterwards. A
 * sampler's tick reads the set and a copy of a thread's stack, and nothing else.
 *
 * x86_64 only. Knows nothing of Erlang: code of the JIT is in no library, so a walk that began in C
 * ends there. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/registers.h"

struct fp_cstack; /* immutable once made */

/* ---- a thread that may block ------------------------------------------ */

/* Read /proc/self/maps and the files of all executable mappings. 0, FP_ENOMEM, or FP_EIO without a
 * readable maps file. No error, the set has its name only: a library whose file is unreadable,
 * another one than the mapped, or does not fit into what the others leave of `bytes_max`. */
int fp_cstack_create(struct fp_cstack **cstack, size_t bytes_max);
void fp_cstack_destroy(struct fp_cstack *cstack);

/* 1 when no library was loaded or unloaded since the set was made. Reads the dynamic linker's
 * counters, under its lock: 30 ns, no I/O. */
int fp_cstack_is_current(const struct fp_cstack *cstack);

/* ---- any thread: no allocation, no I/O, no lock ----------------------- */

/* A copy of a piece of a thread's stack.
 *
 *      start       rsp
 *      | red zone  | innermost frame ... | callers ...      |
 *      bytes[0]                                   bytes[size]
 *
 * Compilers describe a register that an epilogue has popped as still saved, then in the red zone: a
 * copy that starts at rsp loses the callers of some interrupted epilogues. So a copy starts
 * FP_RED_ZONE below rsp. */
struct fp_cstack_stack {
    uint64_t start; /* address of bytes[0] */
    const unsigned char *bytes;
    size_t size;
};

enum fp_cstack_why {
    FP_CSTACK_LEFT,      /* the next address is in no library: the walk is
                          * complete if it is code of the JIT */
    FP_CSTACK_OUTERMOST, /* where a thread starts: the walk is complete */
    FP_CSTACK_CUT,       /* a needed word is not in the copy */
    FP_CSTACK_NO_CFI,    /* the last function has no row */
    FP_CSTACK_STUCK,     /* the stack pointer would not rise */
    FP_CSTACK_FULL,      /* there are more than `max` */
};

/* Where a walk ended. After FP_CSTACK_LEFT, `registers` are those of the code outside right after
 * the return to it: rip the whole return address, rsp 8 above the word with that address. Bit N of
 * `known`: the register of DWARF number N is right. */
struct fp_cstack_end {
    enum fp_cstack_why why;
    uint32_t known;
    struct fp_registers registers;
};

/* Put the addresses of the C frames into pc[0..max), innermost first; returns how many. pc[0] is
 * rip, the others are return addresses less 1, so inside of the calling function; the address that
 * a signal interrupted, and the trampoline that a signal handler returns to, are whole. None when
 * rip is in no library. `end` may be NULL. About 0.1 us a frame. */
size_t fp_cstack_unwind(const struct fp_cstack *cstack, const struct fp_registers *registers,
                        const struct fp_cstack_stack *stack, uint64_t *pc, size_t max,
                        struct fp_cstack_end *end);

/* The library around pc by its file's last name ("beam.smp", "libc.so.6", "[vdso]"), and the
 * function. 0, or FP_ENOENT when pc is in no library.
 *
 * `name` is NULL where no symbol covers pc, as in a stripped library's internal functions: the
 * nearest one before it would be a guess, and most often wrong. A function of size 0 (written in
 * assembly) is as long as the unwind information that starts where it does. Symbols are those of
 * .symtab, or of .dynsym in a file that has no functions there. IFUNC symbols name resolvers, not
 * the code that is run, and are left out. Of several symbols for one place global ones win, then
 * those with fewer leading underscores, not weak ones, shorter ones, the first by strcmp(). Names
 * are the file's, without a version (`@@GLIBC_2.14`): mangled perhaps, and of any bytes. Both are
 * valid as long as the set. */
int fp_cstack_resolve(const struct fp_cstack *cstack, uint64_t pc, const char **name,
                      const char **library);
