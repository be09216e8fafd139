#include "tracer/births.h"

#include <math.h>
#include <stdatomic.h>

#include "base/random.h"

/* From phase to phase, in the mean. */
#define STRIDE_NS 50e6
#define STRIDES_MAX 4.0
/* The owner asks as often, and when it is told to. */
#define ASKED_NS (20 * 1000 * 1000)
/* A phase sees so many births. Timers of the VM have a resolution of a millisecond. */
#define BIRTHS 20.0
#define LEAST_NS 3e6
#define MS_NS 1e6
/* Phases begin where they take less than such a part of the time, and end where they take more. */
#define PART_LESS 0.25
#define PART_MORE 0.5
/* Two counts that differ by no more than so many, or such a part, are the same; in phases, whose
 * begins and ends are not known to the birth, such a part. */
#define SAME 20.0
#define SAME_PART 0.02
#define SAME_PART_PHASES 0.5
/* How fast the means of births follow the phases. */
#define USUAL 0.1

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Not less. */
static uint32_t whole_ms(double ns)
{
    return (uint32_t)((ns + MS_NS - 1) / MS_NS);
}

static void set_weight(struct fp_births *births, double weight)
{
    atomic_store_explicit(&births->weight, weight > 0 ? weight : 0, memory_order_release);
}

double fp_births_weight(const struct fp_births *births)
{
    return atomic_load_explicit(&births->weight, memory_order_acquire);
}

void fp_births_init(struct fp_births *births, uint64_t seed, int64_t now,
                    const struct fp_births_count *count)
{
    *births = (struct fp_births){.state = FP_BIRTHS_ALL,
                                 .at_ns = INT64_MAX,
                                 .since_ns = now,
                                 .since = count->all,
                                 .looked_born = count->born,
                                 .random = seed | 1};
    set_weight(births, 1);
}

/* What the VM has counted since the last look, and what the tracer was asked for? */
static int are_same(const struct fp_births *births, double seen, uint64_t born)
{
    double part = births->state == FP_BIRTHS_ALL ? SAME_PART : SAME_PART_PHASES;

    return fabs(seen - (double)(born - births->looked_born)) <= larger(SAME, part * seen);
}

int fp_births_look(struct fp_births *births, const struct fp_births_count *count)
{
    double all = births->seen + (double)(uint32_t)(count->all - births->since);

    births->is_unseen = births->state == FP_BIRTHS_PHASE;
    return births->state == FP_BIRTHS_ALL && are_same(births, all, count->born);
}

/* What has been since since_ns: so many births. */
static double see(struct fp_births *births, int64_t now, uint32_t count)
{
    double all = (double)(uint32_t)(count - births->since);

    births->debt += all;
    births->stride += all;
    if (births->state != FP_BIRTHS_GAP) {
        births->seen += all;
        births->seen_ns += (double)(now - births->since_ns);
        births->debt -= fp_births_weight(births) * all;
    }
    births->since_ns = now;
    births->since = count;
    return all;
}

static void plan(struct fp_births *births, enum fp_births_state next, int64_t at)
{
    births->next = next;
    births->at_ns = at;
    births->is_asked = 0;
}

/* When the debt is a quarter to three quarters of what a phase stands for. */
static void plan_phase(struct fp_births *births)
{
    double wanted = fp_births_weight(births) * births->by_phase *
                    (0.25 + fp_random_uniform(&births->random) / 2);
    double ns = (wanted - births->debt) / births->by_stride * STRIDE_NS;

    ns = smaller(larger(ns, MS_NS), STRIDES_MAX * STRIDE_NS);
    plan(births, FP_BIRTHS_PHASE, births->since_ns + (int64_t)ns);
}

/* A phase is to be so long that it sees enough. */
static double length_of(double seen, double ns)
{
    return seen > 0 ? larger(whole_ms(BIRTHS * ns / seen) * MS_NS, LEAST_NS) : STRIDE_NS;
}

/* Each new process has had the flag since the last look, and the next one is due. */
static int may_begin(struct fp_births *births, int64_t now, const struct fp_births_count *count)
{
    see(births, now, count->all);
    births->length_ns = length_of(births->seen, births->seen_ns);
    if (births->length_ns >= PART_LESS * STRIDE_NS || !are_same(births, births->seen, count->born))
        return 0;
    births->by_stride = births->seen * STRIDE_NS / births->seen_ns;
    births->by_phase = births->by_stride * births->length_ns / STRIDE_NS;
    births->phases = 0;
    births->stride = 0;
    return 1;
}

static void go_on(struct fp_births *births, int64_t now, int is_same)
{
    if (is_same && births->is_unseen && births->seen > 0)
        return;
    if (!is_same || births->length_ns > PART_MORE * STRIDE_NS || births->by_phase < 1) {
        plan(births, FP_BIRTHS_ALL, now);
        return;
    }
    set_weight(births, births->by_stride / births->by_phase);
    if (births->next != FP_BIRTHS_PHASE)
        plan_phase(births);
}

int fp_births_looked(struct fp_births *births, int64_t now, int64_t period,
                     const struct fp_births_count *count)
{
    int was_phase = births->was_phase, is_same;

    see(births, now, count->all);
    is_same = are_same(births, births->seen, count->born);
    if (births->seen_ns > 0)
        births->length_ns = length_of(births->seen, births->seen_ns);
    /* Off just before the next look: until that is over, no phase may begin. */
    if (births->state == FP_BIRTHS_ALL)
        plan(births, FP_BIRTHS_GAP, now + period);
    else
        go_on(births, now, is_same);
    births->seen = births->seen_ns = 0;
    births->looked_born = count->born;
    births->was_phase = 0;
    return was_phase;
}

static double followed(double mean, double value, uint32_t count)
{
    return mean + (value - mean) * larger(USUAL, 1 / (2.0 + count));
}

static void begin_phase(struct fp_births *births)
{
    double ns = (double)(births->since_ns - births->begun_ns);

    if (births->phases > 0)
        births->by_stride =
            followed(births->by_stride, births->stride * STRIDE_NS / ns, births->phases);
    births->stride = 0;
    births->is_unseen = 1;
    births->begun_ns = births->since_ns;
    plan(births, FP_BIRTHS_GAP, births->since_ns + (int64_t)births->length_ns);
}

static void end_phase(struct fp_births *births, double seen)
{
    births->by_phase = followed(births->by_phase, seen, births->phases);
    births->phases++;
    births->was_phase = 1;
    plan_phase(births);
}

/* What the owner was told it has done. */
static void done(struct fp_births *births)
{
    int was_phase = births->state == FP_BIRTHS_PHASE;
    double all = see(births, births->told_ns, births->told);

    births->told_ns = 0;
    births->state = births->next;
    plan(births, FP_BIRTHS_GAP, INT64_MAX);
    if (births->state == FP_BIRTHS_PHASE)
        begin_phase(births);
    else if (births->state == FP_BIRTHS_ALL)
        births->debt = 0;
    else if (was_phase)
        end_phase(births, all);
}

/* 0: the owner asks by then as always, or has been told to. */
static uint32_t ask_ms_of(struct fp_births *births, int64_t now)
{
    int64_t ns = births->at_ns - now;

    if (births->is_asked || ns >= ASKED_NS)
        return 0;
    births->is_asked = 1;
    return whole_ms((double)ns);
}

enum fp_births_switch fp_births_due(struct fp_births *births, int64_t now,
                                    const struct fp_births_count *count, uint32_t *ask_ms)
{
    *ask_ms = 0;
    if (births->told_ns != 0)
        done(births);
    if (now < births->at_ns) {
        *ask_ms = ask_ms_of(births, now);
        return FP_BIRTHS_KEEP;
    }
    if (births->state == FP_BIRTHS_ALL && !may_begin(births, now, count)) {
        plan(births, FP_BIRTHS_GAP, INT64_MAX);
        return FP_BIRTHS_KEEP;
    }
    births->told_ns = now;
    births->told = count->all;
    if (births->next == FP_BIRTHS_GAP)
        return FP_BIRTHS_OFF;
    if (births->next == FP_BIRTHS_ALL)
        set_weight(births, 1);
    return FP_BIRTHS_ON;
}
