/* seccomp.h - which system calls a seccomp filter leaves to this process.
 *
 * A filter may answer a call with an error, or kill the caller. Where there is a filter, a child
 * process tries each call once: it inherits the filter, and dies instead of the VM. Where there is
 * none, there is no child. */
#pragma once

/* Calls that the VM itself does not make. */
enum fp_call {
    FP_CALL_PROCESS_VM_READV,
    FP_CALL_PWRITEV,
    FP_CALL_MEMFD_CREATE,
    FP_CALL_RT_TGSIGQUEUEINFO,
    FP_CALL_MINCORE,
    FP_CALL_COUNT
};

/* 1 or 0. The first caller must be a thread that may block: some 0.2 ms under a filter. Any thread
 * from then on: one atomic load. */
int fp_seccomp_allows(enum fp_call call);

/* The "Seccomp:" line in the text of /proc/self/status: 0, 1 or 2; 0 without such a line (a kernel
 * without seccomp). */
/* For tests. */
int fp_seccomp_mode(const char *status);
