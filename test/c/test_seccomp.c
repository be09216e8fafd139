/* test_seccomp.c - what a seccomp filter leaves: each case in a process of its own, since a filter
 * stays. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/seccomp.h"
#include "test.h"

#define ANSWER_EPERM (SECCOMP_RET_ERRNO | EPERM)

static const struct {
    enum fp_call call;
    uint32_t number;
} calls[] = {
    {FP_CALL_PROCESS_VM_READV, SYS_process_vm_readv},
    {FP_CALL_PWRITEV, SYS_pwritev},
    {FP_CALL_MEMFD_CREATE, SYS_memfd_create},
    {FP_CALL_RT_TGSIGQUEUEINFO, SYS_rt_tgsigqueueinfo},
    {FP_CALL_MINCORE, SYS_mincore},
};

/* Calls of `mask` get `action`. */
static void install(uint32_t mask, uint32_t action)
{
    struct sock_filter filter[32];
    struct sock_fprog program = {.filter = filter};
    unsigned short n = 0;

    filter[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < FP_CALL_COUNT; i++)
        if (mask >> i & 1) {
            filter[n++] =
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
            filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
        }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len = n;
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static volatile sig_atomic_t told;

static void on_child(int sig)
{
    (void)sig;
    told = 1;
}

/* In a process of its own: which calls are allowed under that filter. */
static void check_under(uint32_t mask, uint32_t action)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGCHLD, on_child);
        if (mask != 0)
            install(mask, action);
        for (int i = 0; i < FP_CALL_COUNT; i++)
            CHECK_INT(fp_seccomp_allows(calls[i].call), !(mask >> i & 1));
        /* No child is left, and none was told of. */
        CHECK_INT(waitpid(-1, &status, __WALL), -1);
        CHECK_INT(errno, ECHILD);
        CHECK_INT(told, 0);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

TEST(each_call_that_kills_is_refused_and_no_other)
{
    for (uint32_t mask = 1; mask < 1u << FP_CALL_COUNT; mask++)
        check_under(mask, SECCOMP_RET_KILL_PROCESS);
}

TEST(each_call_that_is_answered_with_an_error_is_refused)
{
    for (uint32_t mask = 1; mask < 1u << FP_CALL_COUNT; mask++)
        check_under(mask, ANSWER_EPERM);
}

TEST(a_filter_that_kills_a_thread_or_traps_kills_nobody_else)
{
    check_under((1u << FP_CALL_COUNT) - 1, SECCOMP_RET_KILL_THREAD);
    check_under((1u << FP_CALL_COUNT) - 1, SECCOMP_RET_TRAP);
}

TEST(the_mode_is_a_line_of_status)
{
    CHECK_INT(fp_seccomp_mode("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"), 2);
    CHECK_INT(fp_seccomp_mode("Seccomp:\t1\n"), 1);
    CHECK_INT(fp_seccomp_mode("Name:\tSeccomp:2\nSeccomp:\t0\n"), 0);
    CHECK_INT(fp_seccomp_mode("Seccomp_filters:\t3\n"), 0);
    CHECK_INT(fp_seccomp_mode("Name:\tx"), 0);
    CHECK_INT(fp_seccomp_mode(""), 0);
}
