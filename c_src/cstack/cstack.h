/*
 * cstack.h - the C code of this process: which library an address is in, what
 * function, and who called it.
 *
 *      maps, ELF files --create--> struct fp_cstack --unwind--> addresses
 *                                                   --resolve-> names
 *
 * What is known of the libraries is read once, by a thread that may block, out
 * of the files they were mapped from; the set never changes afterwards. What a
 * sampler's tick calls then looks at the set, and at a copy of a thread's stack,
 * and at nothing else.
 *
 * x86_64 only. Knows nothing of Erlang: code of the JIT is in no library, and
 * that is where a walk that began in C ends.
 */
#ifndef FP_CSTACK_CSTACK_H
#define FP_CSTACK_CSTACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/registers.h"

struct fp_cstack; /* immutable once made */

/* ---- a thread that may block ------------------------------------------ */

/* Read /proc/self/maps and the files of all executable mappings. 0, FP_ENOMEM,
 * or FP_EIO when there is no maps file to be read. A library that cannot be
 * read, or is another file now than the one that was mapped, is no error: it is
 * known by its name. */
int fp_cstack_create(struct fp_cstack **native);
void fp_cstack_destroy(struct fp_cstack *native);

/* Has no library been loaded or unloaded since `native` was made? Asks the
 * dynamic linker's counters, under its lock: well below a microsecond, and no
 * I/O. Whoever hears 0 makes a new set; the old one stays as it is. */
int fp_cstack_is_current(const struct fp_cstack *native);

/* For tests. The memory of the set, in bytes. */
size_t fp_cstack_bytes(const struct fp_cstack *native);

/* ---- any thread: no allocation, no I/O, no lock ----------------------- */

/* A copy of a piece of a thread's stack.
 *
 *      start       rsp
 *      | red zone  | innermost frame ... | callers ...      |
 *      bytes[0]                                   bytes[size]
 *
 * Compilers describe a register that an epilogue has popped as still saved, in
 * what is the red zone by then: a copy that starts at rsp loses the callers of
 * some interrupted epilogues. So start FP_RED_ZONE below rsp. */
struct fp_cstack_stack {
    uint64_t start; /* address of bytes[0] */
    const unsigned char *bytes;
    size_t size;
};

enum fp_cstack_why {
    FP_CSTACK_LEFT,      /* the next address is in no library: all were found,
                          * if it is code of the JIT, which the caller knows */
    FP_CSTACK_OUTERMOST, /* where a thread starts: all were found */
    FP_CSTACK_CUT,       /* a word that is needed is not in the copy */
    FP_CSTACK_NO_CFI,    /* the last function has no unwind information, or such
                          * as cannot be followed */
    FP_CSTACK_STUCK,     /* the stack pointer would not rise */
    FP_CSTACK_FULL,      /* there are more than `max` */
};

/* Where a walk ended. After FP_CSTACK_LEFT, `registers` are what the code that
 * was returned to, or was interrupted, had: rip the whole return address, rsp
 * as it will be right after the return (the address lies 8 below it). Bit N of
 * `known`: the register of DWARF number N has the value that it will have
 * there. */
struct fp_cstack_end {
    enum fp_cstack_why why;
    uint32_t known;
    struct fp_registers registers;
};

/* The addresses of the frames in C, innermost first: how many were put into
 * pc[0..max). pc[0] is rip, the others are return addresses less 1, which is in
 * the function that called; but what a signal interrupted, and the trampoline
 * that a signal handler returns to, are whole. None when rip is in no library.
 * `end` may be NULL. About 0.2 us a frame. */
size_t fp_cstack_unwind(const struct fp_cstack *native,
                        const struct fp_registers *registers,
                        const struct fp_cstack_stack *stack, uint64_t *pc,
                        size_t max, struct fp_cstack_end *end);

/* The library around pc by its file's last name ("beam.smp", "libc.so.6",
 * "[vdso]"), and the function. 0, or FP_ENOENT when pc is in no library.
 *
 * `name` is NULL where no symbol covers pc, as in a stripped library's internal
 * functions: the nearest one before it would be a guess, and most often wrong.
 * Covering is st_value <= pc < st_value + st_size; a function of size 0 (written
 * in assembly) is as long as the unwind information that starts where it does,
 * and without such it covers nothing. Symbols are those of .symtab, or of
 * .dynsym in a file that has no functions there. IFUNC symbols name resolvers,
 * not the code that is run, and are left out. Of several symbols for one place
 * global ones win, then those with fewer leading underscores, not weak ones,
 * shorter ones, the first by strcmp(). Names are as they stand in the file, but
 * for a version (`@@GLIBC_2.14`): they may be mangled, and of any bytes.
 *
 * Both are valid as long as `native` is. */
int fp_cstack_resolve(const struct fp_cstack *native, uint64_t pc,
                      const char **name, const char **library);

#endif
