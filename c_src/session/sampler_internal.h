/*
 * sampler_internal.h - what the rooms of the sampler share.
 *
 *   sampler.c         the life of a sample
 *   sampler_thread.c  the thread, its clock and its budget, birth and end
 *   targets.c  the processes looked at: who they are, who comes and goes
 *   emit.c     records into the ring
 *   on_cpu.c   processes on a scheduler, which captures the stack
 */
#ifndef FP_SESSION_SAMPLER_INTERNAL_H
#define FP_SESSION_SAMPLER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/governor.h"
#include "erts/capture/explain.h"
#include "erts/capture/sigcapture.h"
#include "erts/process.h"
#include "erts/stack.h"
#include "format/record.h"
#include "session/off_cpu.h"
#include "session/sampler.h"
#include "session/series.h"
#include "session/stack_table.h"
#include "session/top_processes.h"

/* Stacks of stopped processes are copied together, as many as fit here. */
#define FP_SAMPLER_STACK_WORDS (256u << 10)

/* A process looked at. Its place in the array is its slot in PROCESS records. */
struct target {
    uint64_t id, address;
    uint8_t live;    /* the place is taken */
    uint8_t defined; /* the writer has its PROCESS record */
    uint8_t kept;    /* chosen again by the selection in hand */
    int8_t status;   /* only samples of this status; -1: all */
    /* `previous` holds the structure of the last sample pushed, with its stack read: not of a
     * running process, whose stack moves without it. */
    uint8_t repeatable;
    struct fp_series series;
    /* Of the last sample pushed: */
    uint32_t state;
    uint64_t stack_token;
    uint64_t i, stop, hend, registered_at;
    int64_t named_us; /* when its PROCESS record was pushed */
    /* Of the last sample but repeats: where the dictionary is, the bytes of its array. */
    uint64_t dictionary;
    int64_t dictionary_bytes;
};

/* A target whose stack is copied in this tick. */
struct target_copy {
    uint32_t slot, spans; /* how many reads */
    struct fp_stack_copy stack;
};

/* A scheduler that was asked. Its place in the array is its slot. */
struct pending_capture {
    uint8_t open;
    uint8_t is_lost; /* fp_sigcapture_is_lost, at the last request */
    uint32_t ticket;
    /* Ticks that wait for the answer. While the signal has not been handled, the thread has not
     * gone on either: what it answers is true of all. */
    uint32_t ticks;
    int64_t first_us, last_us; /* times of the first and the last of them */
    uint32_t target;           /* mode processes: index of its target */
    uint64_t id;               /* likewise */
};

struct fp_sampler {
    struct fp_sampler_options options;
    const struct fp_layout *layout; /* options.layout */
    struct fp_ranges code;
    struct fp_stack_table *stacks;
    struct fp_top_processes *selector;
    uint32_t slots_per_tick, slots_due;
    int64_t pass_ns;        /* CPU time of all passes of the selection */
    const uint64_t *wanted; /* wanted_n of FP_PINNED_WORDS, until the next take */
    size_t wanted_n;
    uint32_t targets; /* size of the next array */
    struct target *target;
    uint32_t *live; /* indices of those in use, live_n of them */
    uint32_t live_n;
    /* targets x snapshot_size: of this tick, and of the last sample */
    unsigned char *structure, *previous;
    unsigned char *again;           /* likewise: read after the stacks */
    struct fp_safe_read_span *span; /* 4 x targets, and one for each scheduler */
    struct target_copy *copy;       /* targets */
    uint64_t *stack_words;          /* FP_SAMPLER_STACK_WORDS */
    uint32_t *by_id;                /* hash of live targets, by_id_mask + 1 */
    uint32_t by_id_mask;
    struct pending_capture *question; /* schedulers */
    uint64_t *runs;                   /* likewise: address of its process, or 0 */
    uint32_t schedulers;
    int is_inside; /* fp_sigcapture_acquire */
    /* fp_sigcapture_check in the tick of that time; the lost schedulers */
    int64_t checked_us;
    int is_signal_lost;
    uint32_t lost_schedulers;
    /* BIFs and NIFs met whose names lie in memory that changes: slot by slot, as the writer knows
     * them. */
    uint64_t (*named)[3]; /* FP_NAMED_SLOTS */
    struct fp_capture_code running_code;
    struct fp_governor governor;
    struct fp_governed governed;
    size_t bytes; /* of the mapping behind the arrays above */
    uint64_t random;
    int64_t last_us;
    pthread_t thread;
    _Atomic int stopping; /* set by fp_sampler_stop (relaxed: only a flag) */
};

static inline void fp_sampler_count(struct fp_sampler *s, enum fp_counter stat, uint64_t n)
{
    fp_counters_add(s->options.stats, stat, n);
}

static inline int fp_sampler_wants(const struct target *target, uint8_t status)
{
    return target->status < 0 || target->status == status;
}

/* Samples begun and given up, for this cause. */
static inline void fp_emit_torn(struct fp_sampler *s, enum fp_counter cause, uint32_t n)
{
    fp_sampler_count(s, FP_COUNTER_torn, n);
    fp_sampler_count(s, cause, n);
}

/* emit.c */

/* One sample, with what it needs defined before it; NULL frames: those of the last. Reductions
 * never fall: those of a running process are counted up to now, later ones of the same turn perhaps
 * only up to its last pause. 1; 0 when it was dropped because the ring is full: then the next one's
 * deltas reach back to the last that was not. */
int fp_emit_sample(struct fp_sampler *s, uint32_t slot, const struct fp_snapshot *now,
                   const struct fp_stack *frames);
/* With one special frame instead of a stack. */
void fp_emit_special(struct fp_sampler *s, uint32_t slot, const struct fp_snapshot *now,
                     uint64_t frame);
/* The frame word of a NIF by its name, which the writer is told; FP_FRAME_NONE when there is no
 * room for it. */
uint64_t fp_emit_nif_name(struct fp_sampler *s, const uint64_t mfa[3]);
/* A scheduler that runs no process: slot of its pseudo process, number. */
void fp_emit_idle(struct fp_sampler *s, uint32_t slot, uint32_t number);

/* targets.c */

/* The memory of `now` is with its dictionary's array, of so many bytes: read in the same moment. 0,
 * or FP_ETORN when `bytes` is negative. */
int fp_target_add_dictionary(struct target *target, struct fp_snapshot *now, int64_t bytes);
/* What is known of every stack is no longer believed. */
void fp_targets_forget_stacks(struct fp_sampler *s);
void fp_target_release(struct fp_sampler *s, uint32_t slot);
/* Those released in the last tick are not looked at again. */
void fp_targets_drop_released(struct fp_sampler *s);
/* Make the chosen and the wanted the set: who stays keeps its slot and its history. */
void fp_targets_update(struct fp_sampler *s);
/* The target of a process met on a scheduler, made where there is none. */
uint32_t fp_target_find_or_add(struct fp_sampler *s, uint64_t id, uint64_t address);

/* sampler.c */

void fp_sampler_tick(struct fp_sampler *s);

/* sampler_thread.c */

/* Before the first tick: the first selection, and the budget's start. The monotonic time, in
 * nanoseconds. */
/* For tests. */
int64_t fp_sampler_begin(struct fp_sampler *s);
/* The next slice of a pass of the selection; the last one changes the targets. */
void fp_select_slice(struct fp_sampler *s);

/* on_cpu.c */

/* When s->schedulers is known: what reading their answers needs. */
void fp_on_cpu_create(struct fp_sampler *s);
/* Take in what has been answered: of the last tick. */
void fp_on_cpu_poll(struct fp_sampler *s);
/* Is an answer still to come? */
int fp_on_cpu_is_pending(const struct fp_sampler *s);
/* Request a capture of this target's scheduler. 0: requested, or given up and counted; FP_ENOENT:
 * it is not registered, or does not answer. */
int fp_on_cpu_request(struct fp_sampler *s, uint32_t slot);
/* Mode schedulers: ask all that run a process, push a sample of the others. */
void fp_on_cpu_request_all(struct fp_sampler *s);
/* At the end: take in what comes yet, give up the rest. Up to 100 ms. */
void fp_on_cpu_drain(struct fp_sampler *s);

#endif
