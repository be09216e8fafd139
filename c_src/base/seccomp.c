#include "base/seccomp.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_text.h"

#define KNOWN (UINT32_C(1) << FP_CALL_COUNT)
#define ALL ((UINT32_C(1) << (int)FP_CALL_COUNT) - 1)
#define STACK_BYTES (64u << 10)

/* Bit N: call N is allowed. 0 until KNOWN. */
static _Atomic uint32_t verdict;
static pthread_mutex_t verdict_lock = PTHREAD_MUTEX_INITIALIZER;

/* Shared with the child. */
struct trial {
    _Atomic int result[FP_CALL_COUNT];
    unsigned char stack[STACK_BYTES];
};

enum { UNTRIED, TRYING, REFUSED, ALLOWED };

/* ---------------------------------------------- in the child, signal safe -- */

static int try_call(enum fp_call call)
{
    long self = syscall(SYS_getpid), from = 1, into = 0;
    struct iovec local = {&into, sizeof into}, remote = {&from, sizeof from}, nothing = {NULL, 0};
    siginfo_t info = {.si_code = SI_QUEUE};
    uintptr_t page = (uintptr_t)&from & ~(uintptr_t)4095;
    unsigned char state;

    switch (call) {
    case FP_CALL_PROCESS_VM_READV:
        return syscall(SYS_process_vm_readv, self, &local, 1L, &remote, 1L, 0L) > 0;
    case FP_CALL_PWRITEV: /* a filter answers before the kernel looks at the descriptor */
        return syscall(SYS_pwritev, -1L, &nothing, 1L, 0L, 0L) >= 0 || errno == EBADF;
    case FP_CALL_MEMFD_CREATE:
        return syscall(SYS_memfd_create, "flame_prof", 0L) >= 0;
    case FP_CALL_RT_TGSIGQUEUEINFO: /* signal 0 is only checked, never sent */
        return syscall(SYS_rt_tgsigqueueinfo, self, self, 0L, &info) == 0;
    case FP_CALL_MINCORE:
        return syscall(SYS_mincore, page, 4096L, &state) == 0;
    case FP_CALL_COUNT:
        break;
    }
    return 0;
}

static int child(void *arg)
{
    /* No core of the VM when a call kills: 1 stops the kernel's pipe to a core handler as well,
     * which 0 does not. */
    struct rlimit one_byte = {1, 1};
    struct trial *trial = arg;

    syscall(SYS_prlimit64, 0L, (long)RLIMIT_CORE, &one_byte, NULL);
    for (int i = 0; i < FP_CALL_COUNT; i++) {
        if (atomic_load(&trial->result[i]) != UNTRIED)
            continue;
        atomic_store(&trial->result[i], TRYING);
        atomic_store(&trial->result[i], try_call((enum fp_call)i) ? ALLOWED : REFUSED);
    }
    syscall(SYS_exit_group, 0L);
    return 0;
}

/* ------------------------------------------------------------ in the VM -- */

/* Shared memory saves a copy of the VM's page tables, which takes 1 ms for each 100 MB or so, and
 * copies of the pages that the VM writes meanwhile. Before Linux 5.16 the core dump of a killed
 * process ends all processes that share its memory. */
static int may_share_memory(void)
{
    struct utsname system;
    int major, minor;

    return uname(&system) == 0 && sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 16));
}

/* 0, or -1: no child.
 *
 * No signal tells the VM of the child's end (an exit signal of 0), and no wait() but one with
 * __WCLONE sees it: the VM's children and its SIGCHLD stay as they are. The child runs with all
 * signals blocked, so that a handler of the VM never runs there. */
static int run_child(struct trial *trial)
{
    int flags = CLONE_VFORK | (may_share_memory() ? CLONE_VM : 0);
    int saved_errno = errno, status, pid;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(child, trial->stack + STACK_BYTES, flags, trial);
    while (pid > 0 && waitpid(pid, &status, (int)__WCLONE) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return pid > 0 ? 0 : -1;
}

/* Each child ends at the first call that kills; the next one goes on behind it. */
static uint32_t try_calls(void)
{
    struct trial *trial =
        mmap(NULL, sizeof *trial, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t allowed = 0;

    if (trial == MAP_FAILED)
        return 0;
    for (int n = 0; n <= FP_CALL_COUNT && run_child(trial) == 0; n++)
        if (atomic_load(&trial->result[FP_CALL_COUNT - 1]) != UNTRIED)
            break;
    for (int i = 0; i < FP_CALL_COUNT; i++)
        if (atomic_load(&trial->result[i]) == ALLOWED)
            allowed |= UINT32_C(1) << i;
    munmap(trial, sizeof *trial);
    return allowed;
}

int fp_seccomp_mode(const char *status)
{
    static const char key[] = "Seccomp:";

    for (; status != NULL; status = strchr(status, '\n')) {
        status += *status == '\n';
        if (strncmp(status, key, sizeof key - 1) == 0)
            return atoi(status + sizeof key - 1);
    }
    return 0;
}

static uint32_t find_out(void)
{
    char *status = fp_file_text("/proc/self/status");
    uint32_t allowed = ALL;

    /* Without /proc there may be a filter. */
    if (status == NULL || fp_seccomp_mode(status) != 0)
        allowed = try_calls();
    free(status);
    return KNOWN | allowed;
}

int fp_seccomp_allows(enum fp_call call)
{
    uint32_t known = atomic_load_explicit(&verdict, memory_order_acquire);

    if (known == 0) {
        pthread_mutex_lock(&verdict_lock);
        known = atomic_load(&verdict);
        if (known == 0)
            known = find_out();
        atomic_store(&verdict, known);
        pthread_mutex_unlock(&verdict_lock);
    }
    return known >> call & 1;
}
