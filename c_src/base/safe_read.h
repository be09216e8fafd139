/* safe_read.h - the only place where memory of the VM is read.
 *
 * A bad address gives FP_EFAULT, never a signal: the kernel copies. Three ways, of which seccomp.h
 * leaves some:
 *
 *   copy   pwritev(2) from the addresses into a memfd, whose pages are mapped here: 80 ns for each
 *          of 100 x 680 bytes, where process_vm_readv takes 400 ns to look up and pin their pages.
 *          The window belongs to one thread at a time.
 *   readv  process_vm_readv(2) on this process.
 *   file   pread(2) on /proc/self/mem.
 *
 * The limit of `copy`: the kernel loads from the address as the program would. If a driver's memory
 * is mapped at a stale address, it reads that memory, and it waits for pages of FUSE, NFS or
 * userfaultfd. `readv` and `file` refuse device memory (VM_IO, VM_PFNMAP).
 *
 * Memory may change during a read: callers check, and count. No allocation and no lock after
 * opening. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* One entry of a batch. */
struct fp_safe_read_span {
    uint64_t address;
    void *into;
    uint32_t size;
    int32_t result; /* out: 0 or FP_EFAULT */
};

/* Words of memory, and their copy. */
#define FP_WINDOW_WORDS 36u
#define FP_WINDOWS_MAX 16u
struct fp_windows {
    uint32_t count;
    struct fp_window {
        uint64_t address;
        uint32_t words; /* 0: they could not be read */
        uint64_t word[FP_WINDOW_WORDS];
    } window[FP_WINDOWS_MAX];
};

struct fp_memory {
    /* Copy remote[0..n) to local[0..n), like process_vm_readv: how many bytes were copied before
     * the first bad address, or -1. The fake memory of the tests stands behind this. */
    int64_t (*readv)(void *self, const struct iovec *local, const struct iovec *remote, size_t n);
    void *self;
    int fd;                /* memfd, or /proc/self/mem; -1 when not used */
    unsigned char *window; /* the memfd's pages, NULL when not used */
};

/* The most that the kernel takes in one call (IOV_MAX). Larger batches are cut. */
#define FP_SAFE_READ_BATCH_MAX 1024u

/* For any thread at any time: readv, or file. 0 or FP_EDENIED. *memory stays at its address until
 * fp_safe_read_close. The first call of all may block (seccomp.h). */
int fp_safe_read_open(struct fp_memory *memory);
/* For one thread: copy, where that works. */
int fp_safe_read_open_own(struct fp_memory *memory);
void fp_safe_read_close(struct fp_memory *memory);

/* "pwritev to memfd", "process_vm_readv" or "/proc/self/mem". */
const char *fp_safe_read_method(const struct fp_memory *memory);

/* 0 or FP_EFAULT. On FP_EFAULT what `into` holds is undefined. */
int fp_safe_read(const struct fp_memory *memory, uint64_t address, void *into, size_t size);

/* One aligned or unaligned word. */
static inline int fp_safe_read_word(const struct fp_memory *memory, uint64_t address,
                                    uint64_t *word)
{
    return fp_safe_read(memory, address, word, sizeof *word);
}

/* Many at once, read in the order given, each with a result of its own. A bad entry costs one more
 * system call. How many were readable. */
size_t fp_safe_read_batch(const struct fp_memory *memory, struct fp_safe_read_span *spans,
                          size_t n);

/* The same without a copy where the window has room: then `into` points into the window, which the
 * caller may change, until the next view. The pieces follow each other without gaps. */
size_t fp_safe_read_view(const struct fp_memory *memory, struct fp_safe_read_span *spans, size_t n);
/* A view whose pieces lie apart: the window has the whole cache lines that they are in, which the
 * kernel reads sooner. For pieces of a word to some lines. */
size_t fp_safe_read_lines(const struct fp_memory *memory, struct fp_safe_read_span *spans,
                          size_t n);

/* These bytes will be read soon: the processor may begin to load them while it does something else.
 * Reads nothing, and no address is a bad one. */
void fp_safe_read_soon(uint64_t address, size_t size);

/* By /proc/self/mem only. */
/* For tests. */
int fp_safe_read_open_mem(struct fp_memory *memory);
