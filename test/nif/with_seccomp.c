/* with_seccomp.c - runs a command under a seccomp filter. For tests alone.
 *
 *      with_seccomp kill|eperm SYSCALL... -- COMMAND ARGUMENT...
 *      with_seccomp allow [SYSCALL...] -- COMMAND ARGUMENT...
 *      with_seccomp docker [SYSCALL...] -- COMMAND ARGUMENT...
 *
 * allow: kills at every call but the SYSCALLs and those that a VM makes by itself.
 *
 * docker: what the default profile of Docker refuses to a process without capabilities
 * (docs.docker.com/engine/security/seccomp), by EPERM; and the SYSCALLs, as process_vm_readv on a
 * kernel before 4.8. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#endif
#define EPERM_ACTION (SECCOMP_RET_ERRNO | EPERM)
#define NAMESPACES 0x7e020000u /* CLONE_NEW*, of clone's flags */

#define CALL(name)                                                                                 \
    {                                                                                              \
#name, SYS_##name                                                                          \
    }

/* clang-format off */
/* Those that flame_prof is documented to make. */
static const struct {
    const char *name;
    uint32_t number;
} calls[] = {
    CALL(process_vm_readv), CALL(pwritev), CALL(memfd_create), CALL(rt_tgsigqueueinfo),
    CALL(mincore), CALL(clone), CALL(wait4), CALL(openat), CALL(pread64), CALL(flock),
    CALL(renameat2), CALL(fdatasync), CALL(fsync), CALL(ftruncate), CALL(fchmod), CALL(unlinkat),
    CALL(getdents64), CALL(clock_nanosleep), CALL(clock_gettime), CALL(gettid), CALL(futex),
};

/* What OTP 25 to 29 and a shell that they start call by themselves (strace -c). */
static const uint32_t vm[] = {
    SYS_accept, SYS_accept4, SYS_access, SYS_arch_prctl, SYS_bind, SYS_brk, SYS_chdir, SYS_chmod,
    SYS_clone, SYS_clone3, SYS_close, SYS_close_range, SYS_connect, SYS_dup, SYS_dup2,
    SYS_epoll_create, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_wait,
    SYS_eventfd2, SYS_execve, SYS_exit, SYS_exit_group, SYS_faccessat, SYS_faccessat2,
    SYS_fadvise64, SYS_fchdir, SYS_fcntl, SYS_fstat, SYS_ftruncate, SYS_futex, SYS_getcwd,
    SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid, SYS_getgroups, SYS_getpeername,
    SYS_getpgid, SYS_getpgrp, SYS_getpid, SYS_getppid, SYS_getrandom, SYS_getsockname,
    SYS_getsockopt, SYS_getuid, SYS_ioctl, SYS_kill, SYS_listen, SYS_lseek, SYS_lstat, SYS_madvise,
    SYS_membarrier, SYS_mremap, SYS_getrusage, SYS_memfd_create, SYS_setfsuid, SYS_setfsgid,
    SYS_futex, SYS_mkdir, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_nanosleep, SYS_newfstatat,
    SYS_openat, SYS_pipe2, SYS_poll, SYS_ppoll, SYS_prctl, SYS_pread64, SYS_preadv, SYS_prlimit64,
    SYS_pselect6, SYS_pwrite64, SYS_read, SYS_readlink, SYS_readv, SYS_recvfrom, SYS_recvmsg,
    SYS_rename, SYS_restart_syscall, SYS_rmdir, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_sched_getaffinity,
    SYS_sched_getscheduler, SYS_sched_setaffinity, SYS_sched_yield, SYS_sendmsg, SYS_sendto,
    SYS_set_robust_list, SYS_set_tid_address, SYS_setsid, SYS_setsockopt, SYS_shutdown,
    SYS_sigaltstack, SYS_socket, SYS_socketpair, SYS_stat, SYS_statx, SYS_sysinfo, SYS_tgkill,
    SYS_timerfd_create, SYS_timerfd_settime, SYS_times, SYS_umask, SYS_uname, SYS_unlink,
    SYS_utimensat, SYS_wait4, SYS_write, SYS_writev,
};

static const uint32_t docker[] = {
    SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_adjtime, SYS_clock_settime, SYS_delete_module,
    SYS_finit_module, SYS_get_mempolicy, SYS_init_module, SYS_ioperm, SYS_iopl, SYS_kcmp,
    SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl, SYS_lookup_dcookie, SYS_mbind, SYS_mount,
    SYS_move_pages, SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_perf_event_open,
    SYS_pivot_root, SYS_quotactl, SYS_reboot, SYS_request_key, SYS_set_mempolicy, SYS_setns,
    SYS_settimeofday, SYS_swapon, SYS_swapoff, SYS_sysfs, SYS_umount2, SYS_unshare, SYS_uselib,
    SYS_userfaultfd, SYS_ustat, SYS_vhangup, 425, 426, 427, /* io_uring */
};
/* clang-format on */

static struct sock_filter filter[512];
static unsigned short length;

static void put(uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    filter[length++] = (struct sock_filter){code, yes, no, k};
}

static void answer(uint32_t number, uint32_t action)
{
    put(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    put(BPF_RET | BPF_K, action, 0, 0);
}

static int answer_by_name(const char *name, uint32_t action)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0) {
            answer(calls[i].number, action);
            return 1;
        }
    return 0;
}

static void add_docker(void)
{
    for (size_t i = 0; i < sizeof docker / sizeof *docker; i++)
        answer(docker[i], EPERM_ACTION);
    answer(435, SECCOMP_RET_ERRNO | ENOSYS); /* clone3 */
    put(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args), 0, 0);
    put(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1);
    put(BPF_RET | BPF_K, EPERM_ACTION, 0, 0);
    put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static int is_mode(int argc, char **argv, const char *mode)
{
    return argc > 1 && strcmp(argv[1], mode) == 0;
}

int main(int argc, char **argv)
{
    int is_allow = is_mode(argc, argv, "allow"), at = 2;
    uint32_t action = is_mode(argc, argv, "kill") ? SECCOMP_RET_KILL_PROCESS
                      : is_allow                  ? SECCOMP_RET_ALLOW
                                                  : EPERM_ACTION;
    struct sock_fprog program = {.filter = filter};

    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    for (; at < argc && strcmp(argv[at], "--") != 0; at++)
        if (!answer_by_name(argv[at], action)) {
            fprintf(stderr, "with_seccomp: unknown call %s\n", argv[at]);
            return 2;
        }
    if (at + 1 >= argc)
        return 2;
    if (is_mode(argc, argv, "docker"))
        add_docker();
    for (size_t i = 0; is_allow && i < sizeof vm / sizeof *vm; i++)
        answer(vm[i], SECCOMP_RET_ALLOW);
    put(BPF_RET | BPF_K, is_allow ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW, 0, 0);
    program.len = length;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("with_seccomp");
        return 3;
    }
    execv(argv[at + 1], argv + at + 1);
    perror(argv[at + 1]);
    return 4;
}
