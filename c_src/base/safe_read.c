#include "base/safe_read.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

/* The memfd's parts: a view fills the first, which stays until the next view. Other reads are
 * copied by way of the second. */
#define PINNED (512u << 10)
#define BOUNCE (512u << 10)
#define WINDOW ((size_t)PINNED + BOUNCE)

/* How many of remote[0..n) fit into the window together. */
static size_t fitting(const struct iovec *remote, size_t n, size_t *bytes)
{
    size_t i;

    *bytes = 0;
    for (i = 0; i < n && *bytes + remote[i].iov_len <= BOUNCE; i++)
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

static int64_t copy(const struct fp_memory *memory, const struct iovec *local,
                    const struct iovec *remote, size_t n)
{
    /* pwritev(2) itself: a sanitizer's wrapper reads the address before the kernel does. */
    int64_t got = syscall(SYS_pwritev, memory->fd, remote, n, (long)PINNED, 0L);

    if (got > 0)
        scatter(memory->window + PINNED, (size_t)got, local, n);
    return got;
}

/* A piece that is larger than the window. */
static int64_t copy_large(const struct fp_memory *memory, const struct iovec *local,
                          const struct iovec *remote)
{
    size_t done = 0, size = remote->iov_len;

    while (done < size) {
        size_t left = size - done;
        size_t part = left < BOUNCE ? left : BOUNCE;
        struct iovec into = {(char *)local->iov_base + done, part};
        struct iovec from = {(char *)remote->iov_base + done, part};
        int64_t got = copy(memory, &into, &from, 1);

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
    const struct fp_memory *memory = self;
    int64_t total = 0;

    for (size_t i = 0; i < n;) {
        size_t bytes, some = fitting(remote + i, n - i, &bytes);
        int64_t got;

        if (some == 0) {
            some = 1;
            bytes = remote[i].iov_len;
            got = copy_large(memory, local + i, remote + i);
        } else {
            got = copy(memory, local + i, remote + i, some);
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
    const struct fp_memory *memory = self;
    int64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t address = (uint64_t)(uintptr_t)remote[i].iov_base;
        ssize_t got = -1;

        if (address <= INT64_MAX)
            got = pread(memory->fd, local[i].iov_base, remote[i].iov_len, (off_t)address);
        if (got < 0 || (size_t)got != remote[i].iov_len)
            return total > 0 ? total : -1;
        total += got;
    }
    return total;
}

/* A known word, read the way everything else will be. */
static int works(const struct fp_memory *memory)
{
    static const uint64_t known = UINT64_C(0x666c616d655f7072);
    uint64_t word = 0;

    return fp_safe_read_word(memory, (uint64_t)(uintptr_t)&known, &word) == 0 && word == known;
}

int fp_safe_read_open_mem(struct fp_memory *memory)
{
    memory->readv = read_by_file;
    memory->self = memory;
    memory->window = NULL;
    memory->fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (memory->fd >= 0 && works(memory))
        return 0;
    fp_safe_read_close(memory);
    return FP_EDENIED;
}

int fp_safe_read_open(struct fp_memory *memory)
{
    memory->readv = read_by_syscall;
    memory->self = NULL;
    memory->window = NULL;
    memory->fd = -1;
    if (fp_seccomp_allows(FP_CALL_PROCESS_VM_READV) && works(memory))
        return 0;
    return fp_safe_read_open_mem(memory);
}

/* A memfd is a file: beyond RLIMIT_FSIZE the kernel ends the process with SIGXFSZ. */
static int is_window_allowed(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= WINDOW;
}

int fp_safe_read_open_own(struct fp_memory *memory)
{
    void *window = MAP_FAILED;

    memory->readv = read_by_copy;
    memory->self = memory;
    memory->window = NULL;
    memory->fd = is_window_allowed() && fp_seccomp_allows(FP_CALL_PWRITEV) &&
                         fp_seccomp_allows(FP_CALL_MEMFD_CREATE)
                     ? memfd_create("flame_prof", MFD_CLOEXEC)
                     : -1;
    if (memory->fd >= 0 && ftruncate(memory->fd, (off_t)WINDOW) == 0)
        /* Populated for writing: no page is allocated by a later copy. */
        window =
            mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory->fd, 0);
    if (window != MAP_FAILED) {
        memory->window = window;
        if (works(memory))
            return 0;
    }
    fp_safe_read_close(memory);
    return fp_safe_read_open(memory);
}

void fp_safe_read_close(struct fp_memory *memory)
{
    if (memory->window != NULL)
        munmap(memory->window, WINDOW);
    memory->window = NULL;
    if (memory->fd >= 0)
        close(memory->fd);
    memory->fd = -1;
}

const char *fp_safe_read_method(const struct fp_memory *memory)
{
    if (memory->readv == read_by_copy)
        return "pwritev to memfd";
    return memory->readv == read_by_syscall ? "process_vm_readv" : "/proc/self/mem";
}

int fp_safe_read(const struct fp_memory *memory, uint64_t address, void *into, size_t size)
{
    /* cppcheck-suppress ctuuninitvar; it is what is read into */
    struct iovec local = {into, size};
    struct iovec remote = {(void *)(uintptr_t)address, size};
    int64_t got = memory->readv(memory->self, &local, &remote, 1);

    return got == (int64_t)size ? 0 : FP_EFAULT;
}

/* The kernel copies with `rep movsb`, which loads 128 bytes from its source on, whatever the size,
 * and waits for them before the next piece: two lines where the source begins one, or else three.
 * Prefetches overlap these waits: of 10^6 words that are in no cache one takes 55 ns, or 44 if it
 * is read with its line; without prefetches 200. A prefetch never faults and yields no value: it
 * is no dereference. */
#define LINE 64u
#define LOADED 128u
/* The processor finds the rest of a long piece itself. */
#define PREFETCHED 1024u

static uint64_t rounded_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) & ~(unit - 1);
}

void fp_safe_read_soon(uint64_t address, size_t size)
{
    uint64_t before = address & (LINE - 1);
    uint64_t bytes = before + rounded_up(size < PREFETCHED ? size : PREFETCHED, LOADED);

    /* By offsets: the last line of all has none behind it. */
    for (uint64_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch((const void *)(uintptr_t)(address - before + at));
}

/* The bytes to read for it: each unit that it has a part of, as a whole. */
static struct iovec in_units(const struct fp_safe_read_span *span, uint64_t unit)
{
    uint64_t begin = span->address & ~(unit - 1);

    return (struct iovec){(void *)(uintptr_t)begin,
                          rounded_up(span->address + span->size, unit) - begin};
}

/* The sum of the sizes. */
static size_t name_remote(struct iovec *remote, const struct fp_safe_read_span *spans, size_t n,
                          uint64_t unit)
{
    size_t total = 0;

    for (size_t i = 0; i < n; i++) {
        remote[i] = in_units(&spans[i], unit);
        fp_safe_read_soon((uint64_t)(uintptr_t)remote[i].iov_base, remote[i].iov_len);
        total += remote[i].iov_len;
    }
    return total;
}

/* Read spans[0..n), n <= FP_SAFE_READ_BATCH_MAX: how many came whole before the first that did
 * not. */
static size_t read_prefix(const struct fp_memory *memory, const struct fp_safe_read_span *spans,
                          size_t n)
{
    struct iovec local[FP_SAFE_READ_BATCH_MAX], remote[FP_SAFE_READ_BATCH_MAX];
    int64_t got;
    size_t whole = 0;

    for (size_t i = 0; i < n; i++)
        local[i] = (struct iovec){spans[i].into, spans[i].size};
    name_remote(remote, spans, n, 1);
    got = memory->readv(memory->self, local, remote, n);
    if (got < 0)
        got = 0; /* the first that is not empty could not be read */
    while (whole < n && got >= (int64_t)spans[whole].size)
        got -= spans[whole++].size;
    return whole;
}

size_t fp_safe_read_batch(const struct fp_memory *memory, struct fp_safe_read_span *spans, size_t n)
{
    size_t readable = 0;

    for (size_t at = 0; at < n;) {
        size_t chunk = n - at < FP_SAFE_READ_BATCH_MAX ? n - at : FP_SAFE_READ_BATCH_MAX;
        size_t whole = read_prefix(memory, spans + at, chunk);

        for (size_t i = 0; i < whole; i++)
            spans[at + i].result = 0;
        readable += whole;
        at += whole;
        if (whole < chunk) /* the kernel stopped at this one: pass over it */
            spans[at++].result = FP_EFAULT;
    }
    return readable;
}

static size_t view(const struct fp_memory *memory, struct fp_safe_read_span *spans, size_t n,
                   uint64_t unit)
{
    struct iovec remote[FP_SAFE_READ_BATCH_MAX];
    unsigned char *at = memory->window;
    size_t total;

    if (memory->window == NULL || n > FP_SAFE_READ_BATCH_MAX)
        return fp_safe_read_batch(memory, spans, n);
    total = name_remote(remote, spans, n, unit);
    if (total > PINNED || syscall(SYS_pwritev, memory->fd, remote, n, 0L, 0L) != (long)total)
        return fp_safe_read_batch(memory, spans, n);
    for (size_t i = 0; i < n; i++) {
        spans[i].into = at + (spans[i].address & (unit - 1));
        spans[i].result = 0;
        at += remote[i].iov_len;
    }
    return n;
}

size_t fp_safe_read_view(const struct fp_memory *memory, struct fp_safe_read_span *spans, size_t n)
{
    return view(memory, spans, n, 1);
}

size_t fp_safe_read_lines(const struct fp_memory *memory, struct fp_safe_read_span *spans, size_t n)
{
    return view(memory, spans, n, LINE);
}
