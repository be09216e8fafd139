/*
 * with_seccomp.c - runs a command under a seccomp filter. For tests alone.
 *
 *      with_seccomp kill|eperm SYSCALL... -- COMMAND ARGUMENT...
 *      with_seccomp docker [SYSCALL...] -- COMMAND ARGUMENT...
 *
 * docker: what the default profile of Docker refuses to a process without capabilities
 * (docs.docker.com/engine/security/seccomp), by EPERM; and the SYSCALLs, as process_vm_readv on a
 * kernel before 4.8.
 */
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

static const struct {
    const char *name;
    uint32_t number;
} calls[] = {
    {"process_vm_readv", SYS_process_vm_readv},
    {"pwritev", SYS_pwritev},
    {"memfd_create", SYS_memfd_create},
    {"rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo},
    {"mincore", SYS_mincore},
};

static const uint32_t docker[] = {
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_finit_module,
    SYS_get_mempolicy,
    SYS_init_module,
    SYS_ioperm,
    SYS_iopl,
    SYS_kcmp,
    SYS_kexec_file_load,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_lookup_dcookie,
    SYS_mbind,
    SYS_mount,
    SYS_move_pages,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_perf_event_open,
    SYS_pivot_root,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_set_mempolicy,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapon,
    SYS_swapoff,
    SYS_sysfs,
    SYS_umount2,
    SYS_unshare,
    SYS_uselib,
    SYS_userfaultfd,
    SYS_ustat,
    SYS_vhangup,
    425,
    426,
    427 /* io_uring */,
};

static struct sock_filter filter[128];
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

int main(int argc, char **argv)
{
    int is_kill = argc > 1 && strcmp(argv[1], "kill") == 0, at = 2;
    uint32_t action = is_kill ? SECCOMP_RET_KILL_PROCESS : EPERM_ACTION;
    struct sock_fprog program = {.filter = filter};

    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    for (; at < argc && strcmp(argv[at], "--") != 0; at++)
        if (!answer_by_name(argv[at], action)) {
            fprintf(stderr, "with_seccomp: unknown call %s\n", argv[at]);
            return 2;
        }
    if (at + 1 >= argc)
        return 2;
    if (strcmp(argv[1], "docker") == 0)
        add_docker();
    put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
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
