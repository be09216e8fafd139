/* inspect.h - processes, and those that the schedulers run, read once: by the functions of the
 * sampler, without a session.
 *
 * One thread, which may block, opens, uses and closes an inspection. It waits for captures, for at
 * most some 0.2 s each; the sampler never does. */
#pragma once

#include <stdint.h>

#include "base/maps.h"
#include "base/safe_read.h"
#include "cstack/live.h"
#include "erts/code_index.h"
#include "erts/process.h"
#include "erts/stack.h"

struct fp_inspect {
    int is_capturing; /* fp_sigcapture_acquire */
    int is_check;     /* captures of all classes, off or not */
    int is_brief;     /* no captures; a stack is the current function alone */
    struct fp_memory memory;
    const struct fp_layout *layout;
    struct fp_ranges ranges;
    struct fp_code_index *code;
    struct fp_live_cstack cstack; /* set NULL: no C code is known */
    uint64_t *word;               /* FP_STACK_WORDS_MAX */
};

/* One process. A metric below 0 is unknown: the collector was exchanging the heaps. */
struct fp_process_view {
    struct fp_snapshot snapshot;
    struct fp_stack stack;
    unsigned scheduler; /* the normal one that ran it; 0: none, or unknown */
};

/* 0; FP_ESTATE without a layout; FP_EIO, FP_EDENIED, FP_ENOMEM. Takes 6 ms on Debian 12; 5 of them
 * for the unwind tables and symbols of the C libraries, which are left out where no scheduler is
 * registered. fp_inspect_close() in any case.
 *
 * A brief inspection is for many processes: it never waits for one, and is without the libraries
 * and all but a stack's leaf. */
int fp_inspect_open(struct fp_inspect *inspect, const struct fp_layout *layout, int is_brief);
void fp_inspect_close(struct fp_inspect *inspect);

/* A process by its pid term. 0, FP_EGONE or FP_EFAULT. On a scheduler that cannot capture, the
 * stack is FP_FRAME_RUNNING; of a process that never holds still it is FP_FRAME_UNREADABLE. */
int fp_inspect_process(struct fp_inspect *inspect, uint64_t pid, struct fp_process_view *view);

struct fp_inspect_request {
    uint32_t ticket;
    int err; /* 0: requested; else what fp_inspect_poll() returns */
};

/* A capture of every scheduler, requested within a millisecond: request[0.. fp_sigcapture_count()).
 * Each has to be polled. */
void fp_inspect_request_all(struct fp_inspect *inspect, struct fp_inspect_request *request);
/* 0; FP_ENOENT: the scheduler runs nothing; FP_ESTATE: no capture came, or another reader has the
 * scheduler, or it is not registered; FP_EGONE: the process has exited. */
int fp_inspect_poll(struct fp_inspect *inspect, unsigned at,
                    const struct fp_inspect_request *request, struct fp_process_view *view);

/* Calls `each` with the pid term of every process on a dirty scheduler, except `self`. Walks the
 * process table, at 0.2 to 0.5 us a process. 0, FP_EFAULT or FP_ENOMEM. */
int fp_inspect_dirty(struct fp_inspect *inspect, uint64_t self,
                     void (*each)(void *arg, uint64_t pid), void *arg);
