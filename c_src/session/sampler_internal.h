/* sampler_internal.h - what the files of the sampler share. SAMPLER THREAD.
 *
 *   sampler.c         the life of a sample
 *   sampler_thread.c  the thread, its clock and its budget, creation and end
 *   targets.c         the processes that are sampled: which, and since when
 *   on_cpu.c          captures of the processes on schedulers
 *   off_cpu_work.c    messages in work and calls that are waited for, off CPU
 *   trace_ids.c       the traces that processes work for */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/governor.h"
#include "erts/capture/explain.h"
#include "erts/capture/sigcapture.h"
#include "erts/serving.h"
#include "erts/stack_copy.h"
#include "erts/term/otel.h"
#include "session/sampler.h"
#include "session/series.h"
#include "session/stack_table.h"
#include "session/top_processes.h"

/* Stacks off CPU are copied together, as many as fit here. */
#define FP_SAMPLER_STACK_WORDS (256u << 10)

/* Processes whose traces are read together. */
#define FP_OTEL_TOGETHER 64u

/* A process that is sampled. Its place in the array is its slot in PROCESS records. */
struct target {
    uint64_t id, address;
    uint8_t is_live;    /* the place is in use */
    uint8_t is_defined; /* the writer has its PROCESS record */
    uint8_t is_kept;    /* a target after this update, too */
    int8_t status;      /* only samples of this status; -1: all */
    uint8_t has_work, is_of_words;
    /* Of the last sample, what is read where nothing has changed: */
    uint64_t stack_token, registered_at;
    int64_t named_us, named_reductions; /* when its PROCESS record was pushed */
    struct fp_series series;
    struct fp_process_words words; /* of the last structure that was decoded: it is_of_words */
    struct fp_work work;           /* of the last sample, where it has_work */
    struct fp_otel_places otel;
};

/* The words copied with the stack of a process that waits for the reply to a call. */
struct fp_heap_copy {
    const struct fp_site *site; /* where it waits; NULL: for no other */
    uint32_t tail_words, root_words;
    uint64_t tail_at;
    uint64_t *tail, *root;  /* ends of the heap; root of the monitors */
    struct fp_stamp before; /* where there are words */
};
#define FP_HEAP_COPY_SPANS 2u

/* A target whose stack is copied in this tick. */
struct target_copy {
    uint32_t slot, spans; /* how many reads */
    int is_whole;
    struct fp_stack_copy stack;
    struct fp_heap_copy heap;
    struct fp_trace trace;
};

/* A capture that was requested. Its place in the array is the scheduler's slot. */
struct pending_capture {
    uint8_t is_open;
    uint8_t is_lost; /* fp_sigcapture_is_lost, at the last request */
    uint16_t number; /* the scheduler's, from 1 on */
    uint32_t ticket;
    /* Ticks that wait for the capture. Until the handler runs, the thread does not go on: the
     * capture is true of all of them. */
    uint32_t ticks;
    int64_t first_us, last_us; /* times of the first and the last of them */
    uint32_t target;           /* mode processes: its slot */
    uint64_t id;               /* likewise */
};

struct fp_sampler {
    struct fp_sampler_options options;
    const struct fp_layout *layout; /* options.layout */
    struct fp_ranges code;
    struct fp_stack_table *stacks;
    struct fp_top_processes *top;
    uint32_t slots_per_tick, slots_due;
    int64_t pass_ns;        /* CPU time of all passes of the selection */
    const uint64_t *pinned; /* pinned_n of FP_PINNED_WORDS, until the next tick */
    size_t pinned_n;
    uint32_t targets; /* size of the next array */
    struct target *target;
    uint32_t *live; /* slots in use, live_n of them */
    uint32_t live_n;
    unsigned char *structure, *again; /* targets x snapshot_size: before and after the stacks */
    struct fp_safe_read_span *span;   /* 6 x targets, and one for each scheduler */
    struct target_copy *copy;         /* targets */
    uint64_t *stack_words;            /* FP_SAMPLER_STACK_WORDS */
    uint32_t *by_id;                  /* hash of live targets, by_id_mask + 1 */
    uint32_t by_id_mask;
    struct pending_capture *pending; /* schedulers */
    uint64_t *current;               /* likewise: address of its process, or 0 */
    struct fp_otel *otel;            /* FP_OTEL_TOGETHER where options.otel */
    uint32_t schedulers;
    int is_acquired; /* fp_sigcapture_acquire */
    /* fp_sigcapture_check in the tick of checked_us */
    int64_t checked_us;
    int is_signal_lost;
    uint32_t lost_schedulers, refused_in_a_row;
    /* Names of BIFs and NIFs that lie in memory which changes: slot by slot, as the writer has
     * them. */
    uint64_t (*named)[3]; /* FP_NAMED_SLOTS */
    struct fp_capture_code capture_code;
    /* Of fp_serving_published(), as checked in the tick of sites_us: which have their code. NULL:
     * there are none, or they are not used. */
    struct fp_serving_sites *sites;
    int64_t sites_us;
    uint8_t site_is_valid[FP_SITES_MAX];
    struct fp_work_batch *work;
    struct fp_governor governor;
    int has_begun; /* fp_sampler_begin */
    /* The next tick: its number since `start_ns`, and when it is due. */
    int64_t start_ns, tick, due_ns;
    int64_t poll_ns; /* from one poll to the next, until then */
    int is_pending;  /* captures, at the last poll */
    struct fp_governed governed;
    size_t bytes; /* of the mapping behind the arrays above */
    uint64_t random;
    int64_t tick_us;
    uint16_t on_scheduler;  /* that runs the process of the next sample, from 1 on; 0: none */
    uint64_t broken_before; /* fp_check_count() when it was created */
    pthread_t thread;
    _Atomic int stopping; /* set by fp_sampler_stop (relaxed: only a flag) */
};

static inline void fp_sampler_count(struct fp_sampler *s, enum fp_counter counter, uint64_t n)
{
    fp_counters_add(s->options.counters, counter, n);
}

/* `n` samples begun and given up, for this cause. */
static inline void fp_sampler_give_up(struct fp_sampler *s, enum fp_counter cause, uint32_t n)
{
    fp_sampler_count(s, FP_COUNTER_inconsistent, n);
    fp_sampler_count(s, cause, n);
}

static inline int fp_target_admits(const struct target *target, uint8_t status)
{
    return target->status < 0 || target->status == status;
}

/* off_cpu_work.c */

/* At a tick's begin. */
void fp_off_cpu_work_begin(struct fp_sampler *s);
/* Before the stack of a copy is read: what is read with it. `bytes`: the structure. */
void fp_off_cpu_work_plan(const struct fp_sampler *s, struct target_copy *copy,
                          const unsigned char *bytes);
/* The reads, into `room` for all their words: how many, up to FP_HEAP_COPY_SPANS. */
static inline uint32_t fp_off_cpu_work_room(const struct target_copy *copy)
{
    return copy->heap.tail_words + copy->heap.root_words;
}
uint32_t fp_off_cpu_work_spans(struct target_copy *copy, uint64_t *room,
                               struct fp_safe_read_span *span);
/* After the reads: the same number. */
uint32_t fp_off_cpu_work_found(struct target_copy *copy, const struct fp_safe_read_span *span);
/* What the processes of copies [0, n) have in work, and what they wait for: as far as is read
 * together. Of how many: fp_off_cpu_work() tells those until the next call. */
uint32_t fp_off_cpu_work_read(struct fp_sampler *s, const struct target_copy *copy, uint32_t n);
/* Of the one at place `i` of them; NULL: nothing is known. */
const struct fp_work *fp_off_cpu_work(const struct fp_sampler *s, uint32_t i);
/* Of s->work. */
size_t fp_off_cpu_work_bytes(void);

/* trace_ids.c */

/* Reads the traces of these `n`, before their stacks: what proves a stack whole proves a trace, but
 * for what fp_off_cpu_trace looks at. Nothing where options.otel is 0. */
void fp_off_cpu_otel(struct fp_sampler *s, struct target_copy *copy, uint32_t n);
/* Puts the trace of a whole copy, if there is one, to its work, which may be NULL: then it is
 * *room. */
const struct fp_work *fp_off_cpu_trace(const struct fp_sampler *s, const struct target_copy *copy,
                                       const struct fp_work *work, struct fp_work *room);
/* The windows that the capture of a running process needs for its trace; NULL: none. */
const struct fp_windows *fp_trace_windows(struct fp_sampler *s, uint64_t process);
/* Likewise the trace of a capture, of which there are so many samples. */
const struct fp_work *fp_capture_trace(struct fp_sampler *s, const struct fp_capture *capture,
                                       uint32_t samples, const struct fp_work *work,
                                       struct fp_work *room);

/* targets.c */

/* Adds the array of the dictionary, of so many bytes, to the memory of `now`: both of one moment.
 * 0, or FP_ETORN when `bytes` is negative. */
int fp_target_add_dictionary(struct fp_snapshot *now, int64_t bytes);
/* The same, with the dictionary read here. */
int fp_target_read_dictionary(struct fp_sampler *s, uint32_t slot, struct fp_snapshot *now);
/* While the collector exchanges the heaps of a process, their sizes contradict each other: those of
 * the last sample stand for them. 0, or FP_ETORN when it does not collect or has no last sample. */
int fp_target_keep_sizes(const struct fp_sampler *s, const struct target *target,
                         struct fp_snapshot *now);
/* The stack of each target is read again. */
void fp_targets_forget_stacks(struct fp_sampler *s);
/* Removes the targets of the last tick whose processes have exited. */
void fp_targets_drop_exited(struct fp_sampler *s);
/* Makes the selected and the pinned processes the targets. A process that stays one keeps its slot
 * and its history. */
void fp_targets_update(struct fp_sampler *s);
/* Mode schedulers: the target of a process, made where there is none. */
uint32_t fp_target_find_or_add(struct fp_sampler *s, uint64_t id, uint64_t address);

/* sampler.c */

void fp_sampler_tick(struct fp_sampler *s);
/* One sample, with what it needs defined before it; NULL frames: those of the last; NULL work: it
 * is not known. Reductions never fall: a capture counts them up to now, the structure perhaps only
 * up to the process' last pause. 1; 0 when the ring is full and the sample was dropped: then the
 * next one's deltas reach back to the last in the ring. */
int fp_emit_sample(struct fp_sampler *s, uint32_t slot, const struct fp_snapshot *now,
                   const struct fp_stack *frames, const struct fp_work *work);
/* A scheduler that runs no process: slot of its pseudo process, number. */
void fp_emit_idle(struct fp_sampler *s, uint32_t slot, uint32_t number);

/* sampler_thread.c */

#define FP_MS_NS INT64_C(1000000)

/* How late a tick of this interval, of a millisecond or more, is, of a random number, in
 * nanoseconds. The VM lets timers end at whole milliseconds of its clock, so what a program does
 * then is always in the same part of a millisecond, and so are ticks at whole milliseconds: the
 * delays are spread over whole milliseconds, that no part of one is favoured. An interval of 1 ms
 * has no room for that. */
static inline int64_t fp_tick_delay_ns(int64_t interval_ns, uint64_t random)
{
    int64_t most = interval_ns / 16 / FP_MS_NS * FP_MS_NS;

    if (most == 0)
        most = interval_ns >= 2 * FP_MS_NS ? FP_MS_NS : interval_ns / 4;
    return (int64_t)(random % (uint64_t)most);
}

/* Does what is due: the first time the first selection, then a tick, or a poll for captures. The
 * monotonic time of the next step, in nanoseconds, at most 50 ms from now. */
/* For tests. */
int64_t fp_sampler_step(struct fp_sampler *s);
/* After the last step. */
/* For tests. */
void fp_sampler_end(struct fp_sampler *s);
/* Before the first tick: the first selection, and the budget's start. The monotonic time, in
 * nanoseconds. */
/* For tests. */
int64_t fp_sampler_begin(struct fp_sampler *s);
/* About once a second: the budget, and what it allows. 1 when the ticks' interval has changed. */
/* For tests. */
int fp_sampler_govern(struct fp_sampler *s);
/* The next slice of a pass of the selection; the last one changes the targets. */
void fp_select_slice(struct fp_sampler *s);

/* on_cpu.c */

/* When s->schedulers is known. */
void fp_on_cpu_create(struct fp_sampler *s);
/* Handles the captures that have come: how many are still pending. */
uint32_t fp_on_cpu_poll(struct fp_sampler *s);
/* Requests a capture of this target's scheduler. 0: requested, or given up and counted; FP_ENOENT:
 * it is not registered, or lost. */
int fp_on_cpu_request(struct fp_sampler *s, uint32_t slot);
/* Mode schedulers: a capture of each that runs a process, a sample of each that is idle. */
void fp_on_cpu_request_all(struct fp_sampler *s);
/* At the end: handles what comes within 100 ms, gives up the rest. */
void fp_on_cpu_drain(struct fp_sampler *s);
