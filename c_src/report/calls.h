/* calls.h - calls that lasted for several ticks.
 *
 * A reference is unique in the life of a node: 18 bits of a thread and 64 bits that this thread
 * counts up, from a number that depends on the time of the start. They do not wrap. So the same
 * reference in two samples of one OS process is the same call.
 *
 * A call was made between the caller's sample before the first one with the reference and that one;
 * it ended between the last one and the caller's next sample. If the caller has too few samples,
 * those of the callee tell how long the call was in work.
 *
 * Not shared between threads. */
#pragma once

#include "report/profile.h"

#define FP_CALL_NONE UINT32_MAX

struct fp_call {
    struct fp_reference reference;
    uint64_t os_pid;
    bool is_of_callee;                    /* the times are those of the callee's samples */
    uint32_t caller, callee;              /* processes, or FP_CALL_NONE */
    uint32_t waits_for, request, message; /* texts */
    int64_t first_us, last_us;            /* with the reference */
    int64_t before_us, after_us;          /* without it; INT64_MIN, INT64_MAX: there is none */
    uint64_t ticks;                       /* samples with it, as observations */
    uint64_t served;                      /* of these, at which the callee had the call in work */
    uint32_t caller_stack, callee_stack;  /* stacks, or FP_CALL_NONE */
};

struct fp_calls {
    struct fp_call *call; /* the longest first */
    size_t count, room;
    int64_t tick_us; /* a mean interval of ticks; 0: not known */
};

/* Calls that were seen at `ticks` ticks or more: all that lasted for more ticks than that are among
 * them. One whose caller has no samples has those of the callee that had it in work. 0, FP_EFULL or
 * FP_ENOMEM; free it in any case. */
int fp_calls_find(struct fp_calls *calls, struct fp_profile *profile, uint64_t ticks);
void fp_calls_free(struct fp_calls *calls, struct fp_budget *budget);
