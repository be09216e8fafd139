/* births.h - when new processes have the flag that tells their collections.
 *
 * The flag costs a process some 2 us, even one that does nothing. Where there are few births, each
 * new process has it. Where there are many, those have it that are born in a phase: a few ms each
 * 50 ms, at a moment drawn at random. Until the next look at the table of processes (population.h)
 * sees them, their words have the weight
 *
 *      m = S / B         S: births in 50 ms, by what was seen
 *                        B: births that a phase is expected to see
 *
 *      look | .. | phase | ...... | phase | ... | phase | ..... | look
 *
 * and then that of all others, whenever these were born. The VM counts births, with or without a
 * flag. Each adds to the debt D, the births that no phase stands for yet; a phase that has seen Bt
 * makes it less by m Bt. A phase begins when D is some m B / 2, drawn at random: so D stays about 0
 * and, whatever Bt was, all births but D have been stood for. (By time they would be too few: a
 * process that spawns one after the other is slower in a phase.)
 *
 * WHAT IS RIGHT. m is set after a look, and knows nothing of who is born until the next one; when
 * a phase begins is told by what was before. Phases come at all times since a look alike, so that
 * births have the same chance to be in one, however long they will be unseen. The debt is 0 in the
 * mean at a moment that knows nothing of the phases. One m is in use at a time: it changes only
 * after a look without a phase.
 *
 * WHAT GOES WRONG. A process that a look does not see though it is there gets the next m. Where the
 * births that the VM counts are not those that the tracer is asked for, as another tracer has the
 * new processes, there are no phases, and who is born has no flag until a look sees it.
 *
 * THREADS  weight: any. The others: one at a time. */
#pragma once

#include <stdint.h>

enum fp_births_switch { FP_BIRTHS_KEEP, FP_BIRTHS_ON, FP_BIRTHS_OFF };

/* GAP: new processes have no flag; ALL: they have it; and PHASE: for a while. */
enum fp_births_state { FP_BIRTHS_GAP, FP_BIRTHS_ALL, FP_BIRTHS_PHASE };

/* Until now. */
struct fp_births_count {
    uint32_t all;  /* that the VM counts; it may wrap */
    uint64_t born; /* that the tracer was asked for, with the flag */
};

struct fp_births {
    _Atomic double weight;
    enum fp_births_state state, next; /* `next` at that time */
    int64_t at_ns;
    int is_asked;     /* the owner has been told to ask then */
    int64_t told_ns;  /* that it is so far: it does it before it asks again; 0: it is not so far */
    uint32_t told;    /* births by then */
    int64_t since_ns; /* of the state, or of a later look */
    uint32_t since;
    double debt;
    double length_ns;     /* of a phase, as planned */
    double seen, seen_ns; /* births with the flag since the last look, in so much time */
    uint64_t looked_born; /* at the last look */
    double by_phase;      /* in the mean */
    double by_stride;     /* in STRIDE_NS, in the mean */
    double stride;        /* since the last phase began, at begun_ns */
    int64_t begun_ns;
    uint32_t phases; /* that were seen to their end */
    int was_phase;   /* since the last look */
    int is_unseen;   /* the one that goes on has not seen all who were born in a phase */
    uint64_t random;
};

/* New processes have the flag. */
void fp_births_init(struct fp_births *births, uint64_t seed, int64_t now_ns,
                    const struct fp_births_count *count);
/* Of a process that no look has seen yet. */
double fp_births_weight(const struct fp_births *births);
/* A look at the table begins. 1: since the last one each new process has had the flag, as the
 * counts agree. */
int fp_births_look(struct fp_births *births, const struct fp_births_count *count);
/* It has seen all processes, and the next one is `period_ns` away. 1: there has been a phase since
 * the last one. */
int fp_births_looked(struct fp_births *births, int64_t now_ns, int64_t period_ns,
                     const struct fp_births_count *count);
/* What is to be done with the flag of new processes before the next call, which follows at once if
 * something is. `ask_ms`: when the next one is due; 0: in some 20 ms. */
enum fp_births_switch fp_births_due(struct fp_births *births, int64_t now_ns,
                                    const struct fp_births_count *count, uint32_t *ask_ms);
