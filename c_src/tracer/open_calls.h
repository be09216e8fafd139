/* open_calls.h - the calls that have begun and not ended, of each process, in fixed memory.
 *
 * A function is open at most once in a process: calls inside of its outermost one are left out. So
 * a process that calls itself for ever has one open call, and the VM has one frame for it.
 *
 * A process has a slot while it has an open call. It is found among FP_CALLS_PROBES slots from its
 * hash on; where these are taken, the call is not measured.
 *
 * THREADS  begin, end, top: the thread that runs the process. sweep, open: one thread at a time,
 *          beside the others. No lock, no allocation. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define FP_CALLS_SLOTS ((size_t)1 << 15)
#define FP_CALLS_PROBES ((size_t)16)
#define FP_CALLS_DEPTH 16u

/* Of a call: no caller is known. */
#define FP_CALLS_NO_CALLER UINT32_MAX

/* Of a call: the user sets `began_ns' later. Without that its end is no end. */
#define FP_CALLS_NOT_YET INT64_C(-1)

struct fp_open_call {
    int64_t began_ns;
    uint64_t inner_ns;         /* of measured calls that it has made */
    _Atomic uint32_t function; /* which another thread may read */
    uint32_t caller;           /* of the user, FP_CALLS_NO_CALLER at first */
};

struct fp_process_calls {
    _Atomic uint32_t depth;
    struct fp_open_call call[FP_CALLS_DEPTH];
};

/* Its pages are reserved: a slot takes memory once it was used. */
struct fp_open_calls {
    _Atomic uint64_t pid[FP_CALLS_SLOTS]; /* 0: free */
    struct fp_process_calls open[FP_CALLS_SLOTS];
};

enum fp_call_begin {
    FP_CALL_BEGAN,
    FP_CALL_IS_INNER,
    FP_CALLS_FULL, /* too many processes */
    FP_CALLS_DEEP, /* too many measured functions in each other */
};

struct fp_call_end {
    uint64_t ns, own_ns;
    uint32_t caller;
};

/* `pid' is any word but 0. */
enum fp_call_begin fp_open_calls_begin(struct fp_open_calls *calls, uint64_t pid, uint32_t function,
                                       int64_t now_ns);
/* The call that began last in the process, if it is of this function; or NULL. */
struct fp_open_call *fp_open_calls_top(struct fp_open_calls *calls, uint64_t pid,
                                       uint32_t function);
/* 1; 0: no such call is known, or its time has not begun. Calls inside of it that have not ended
 * are forgotten. */
int fp_open_calls_end(struct fp_open_calls *calls, uint64_t pid, uint32_t function, int64_t now_ns,
                      struct fp_call_end *end);

/* Frees the slots of processes that do not live. */
void fp_open_calls_sweep(struct fp_open_calls *calls, int (*lives)(void *with, uint64_t pid),
                         void *with);
/* Adds the open calls of each function below `functions'. */
void fp_open_calls_count(const struct fp_open_calls *calls, uint64_t *open, uint32_t functions);
