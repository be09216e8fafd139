#include "base/safe_read.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/seccomp.h"

static int64_t read_by_syscall(void *self, const struct iovec *local, const struct iovec *remote,
                               size_t n)
{
    (void)self;
    /* getpid() is a cheap system call and always right, also after a fork. */
    return process_vm_readv(getpid(), local, n, remote, n, 0);
}

/* The memfd's parts: what fp_safe_read_view shows stays in the first until its next call, all else
 * passes through the second. */
#define VIEW (512u << 10)
#define PASSAGE (512u << 10)
#define WINDOW ((size_t)VIEW + PASSAGE)

/* How many of remote[0..n) fit into the window together. */
static size_t fitting(const struct iovec *remote, size_t n, size_t *bytes)
{
    size_t i;

    *bytes = 0;
    for (i = 0; i < n && *bytes + remote[i].iov_len <= PASSAGE; i++)
        *bytes += remote[i].iov_len;
    return i;
}

static void scatter(const unsigned char *from, size_t size, const struct iovec *local, size_t n)
{
    for (size_t i = 0; i < n && size > 0; i++) {
        size_t part = size < local[i].iov_len ? size : local[i].iov_len;

        memcpy(local[i].iov_base, from, part);
        from += part;
        size -= part;
    }
}

static int64_t copy(const struct fp_memory *peek, const struct iovec *local,
                    const struct iovec *remote, size_t n)
{
    /* pwritev(2) itself: a sanitizer's in between would look at the address before the kernel
     * does. */
    int64_t got = syscall(SYS_pwritev, peek->fd, remote, n, (long)VIEW, 0L);

    if (got > 0)
        scatter(peek->window + VIEW, (size_t)got, local, n);
    return got;
}

/* A piece that is larger than the window. */
static int64_t copy_large(const struct fp_memory *peek, const struct iovec *local,
                          const struct iovec *remote)
{
    size_t done = 0, size = remote->iov_len;

    while (done < size) {
        size_t left = size - done;
        size_t part = left < PASSAGE ? left : PASSAGE;
        struct iovec into = {(char *)local->iov_base + done, part};
        struct iovec from = {(char *)remote->iov_base + done, part};
        int64_t got = copy(peek, &into, &from, 1);

        if (got > 0)
            done += (size_t)got;
        if (got < 0 || (size_t)got < part)
            return done > 0 ? (int64_t)done : -1;
    }
    return (int64_t)done;
}

static int64_t read_by_copy(void *self, const struct iovec *local, const struct iovec *remote,
                            size_t n)
{
    const struct fp_memory *peek = self;
    int64_t total = 0;

    for (size_t i = 0; i < n;) {
        size_t bytes, some = fitting(remote + i, n - i, &bytes);
        int64_t got;

        if (some == 0) {
            some = 1;
            bytes = remote[i].iov_len;
            got = copy_large(peek, local + i, remote + i);
        } else {
            got = copy(peek, local + i, remote + i, some);
        }
        if (got < 0)
            return total > 0 ? total : -1;
        total += got;
        if ((size_t)got < bytes)
            break;
        i += some;
    }
    return total;
}

static int64_t read_by_file(void *self, const struct iovec *local, const struct iovec *remote,
                            size_t n)
{
    const struct fp_memory *peek = self;
    int64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t address = (uint64_t)(uintptr_t)remote[i].iov_base;
        ssize_t got = -1;

        if (address <= INT64_MAX)
            got = pread(peek->fd, local[i].iov_base, remote[i].iov_len, (off_t)address);
        if (got < 0 || (size_t)got != remote[i].iov_len)
            return total > 0 ? total : -1;
        total += got;
    }
    return total;
}

/* A known word, read the way everything else will be. */
static int works(const struct fp_memory *peek)
{
    static const uint64_t known = UINT64_C(0x666c616d655f7072);
    uint64_t word = 0;

    return fp_safe_read_word(peek, (uint64_t)(uintptr_t)&known, &word) == 0 && word == known;
}

int fp_safe_read_open_mem(struct fp_memory *peek)
{
    peek->readv = read_by_file;
    peek->self = peek;
    peek->window = NULL;
    peek->fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (peek->fd >= 0 && works(peek))
        return 0;
    fp_safe_read_close(peek);
    return FP_EDENIED;
}

int fp_safe_read_open(struct fp_memory *peek)
{
    peek->readv = read_by_syscall;
    peek->self = NULL;
    peek->window = NULL;
    peek->fd = -1;
    if (fp_seccomp_allows(FP_CALL_PROCESS_VM_READV) && works(peek))
        return 0;
    return fp_safe_read_open_mem(peek);
}

int fp_safe_read_open_own(struct fp_memory *peek)
{
    void *window = MAP_FAILED;

    peek->readv = read_by_copy;
    peek->self = peek;
    peek->window = NULL;
    peek->fd = fp_seccomp_allows(FP_CALL_PWRITEV) && fp_seccomp_allows(FP_CALL_MEMFD_CREATE)
                   ? memfd_create("flame_prof", MFD_CLOEXEC)
                   : -1;
    if (peek->fd >= 0 && ftruncate(peek->fd, (off_t)WINDOW) == 0)
        /* Populated for writing: no page is allocated by a later copy. */
        window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, peek->fd, 0);
    if (window != MAP_FAILED) {
        peek->window = window;
        if (works(peek))
            return 0;
    }
    fp_safe_read_close(peek);
    return fp_safe_read_open(peek);
}

void fp_safe_read_close(struct fp_memory *peek)
{
    if (peek->window != NULL)
        munmap(peek->window, WINDOW);
    peek->window = NULL;
    if (peek->fd >= 0)
        close(peek->fd);
    peek->fd = -1;
}

const char *fp_safe_read_method(const struct fp_memory *peek)
{
    if (peek->readv == read_by_copy)
        return "pwritev to memfd";
    return peek->readv == read_by_syscall ? "process_vm_readv" : "/proc/self/mem";
}

int fp_safe_read(const struct fp_memory *peek, uint64_t address, void *into, size_t size)
{
    /* cppcheck-suppress ctuuninitvar; it is what is read into */
    struct iovec local = {into, size};
    struct iovec remote = {(void *)(uintptr_t)address, size};
    int64_t got = peek->readv(peek->self, &local, &remote, 1);

    return got == (int64_t)size ? 0 : FP_EFAULT;
}

/* Read spans[0..n), n <= FP_SAFE_READ_BATCH_MAX: how many came whole before the first that did
 * not. */
static size_t read_prefix(const struct fp_memory *peek, const struct fp_safe_read_span *spans,
                          size_t n)
{
    struct iovec local[FP_SAFE_READ_BATCH_MAX], remote[FP_SAFE_READ_BATCH_MAX];
    int64_t got;
    size_t whole = 0;

    for (size_t i = 0; i < n; i++) {
        local[i] = (struct iovec){spans[i].into, spans[i].size};
        remote[i] = (struct iovec){(void *)(uintptr_t)spans[i].address, spans[i].size};
    }
    got = peek->readv(peek->self, local, remote, n);
    if (got < 0)
        got = 0; /* the first that is not empty could not be read */
    while (whole < n && got >= (int64_t)spans[whole].size)
        got -= spans[whole++].size;
    return whole;
}

size_t fp_safe_read_batch(const struct fp_memory *peek, struct fp_safe_read_span *spans, size_t n)
{
    size_t readable = 0;

    for (size_t at = 0; at < n;) {
        size_t chunk = n - at < FP_SAFE_READ_BATCH_MAX ? n - at : FP_SAFE_READ_BATCH_MAX;
        size_t whole = read_prefix(peek, spans + at, chunk);

        for (size_t i = 0; i < whole; i++)
            spans[at + i].result = 0;
        readable += whole;
        at += whole;
        if (whole < chunk) /* the kernel stopped at this one: pass over it */
            spans[at++].result = FP_EFAULT;
    }
    return readable;
}

size_t fp_safe_read_view(const struct fp_memory *peek, struct fp_safe_read_span *spans, size_t n)
{
    struct iovec remote[FP_SAFE_READ_BATCH_MAX];
    size_t total = 0;

    if (peek->window == NULL || n > FP_SAFE_READ_BATCH_MAX)
        return fp_safe_read_batch(peek, spans, n);
    for (size_t i = 0; i < n; i++) {
        remote[i] = (struct iovec){(void *)(uintptr_t)spans[i].address, spans[i].size};
        total += spans[i].size;
    }
    if (total > VIEW || syscall(SYS_pwritev, peek->fd, remote, n, 0L, 0L) != (long)total)
        return fp_safe_read_batch(peek, spans, n);
    total = 0;
    for (size_t i = 0; i < n; i++) {
        spans[i].into = peek->window + total;
        spans[i].result = 0;
        total += spans[i].size;
    }
    return n;
}
