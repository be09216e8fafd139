/* calls.c - one pass over the ticks: each process is in one call and serves one call at a time. */
#include "report/calls.h"

#include <stdlib.h>

#include "report/tick.h"

/* A longer interval is a pause of the session. */
#define TICK_MOST_US 1000000
#define VOTES 6

/* Stacks, and how often each was seen; of many the rare ones lose their votes. */
struct votes {
    uint32_t stack[VOTES];
    uint64_t count[VOTES]; /* 0: none */
};

struct call_run {
    struct fp_call call;
    struct votes serving, otherwise; /* stacks of the callee */
    bool is_on;
};

/* Of one process. */
struct call_state {
    uint32_t caller, callee; /* its runs, plus 1 */
    int64_t last_us;         /* its last sample; INT64_MIN: none */
};

struct finding {
    struct fp_calls *calls;
    struct fp_profile *profile;
    struct fp_budget *budget;
    struct fp_tick tick;
    uint64_t least; /* ticks */
    struct call_state *state;
    struct call_run *run;
    size_t run_count, run_room;
    struct fp_table serving; /* samples of this tick, by OS process and reference */
    uint64_t intervals, interval_us;
};

/* ---- votes -------------------------------------------------------------- */

/* A sample with words stands for one tick. */
static void vote(struct votes *votes, uint32_t stack)
{
    int free = -1;

    for (int i = 0; i < VOTES; i++) {
        if (votes->count[i] > 0 && votes->stack[i] == stack) {
            votes->count[i]++;
            return;
        }
        if (votes->count[i] == 0)
            free = i;
    }
    if (free >= 0) {
        votes->stack[free] = stack;
        votes->count[free] = 1;
        return;
    }
    for (int i = 0; i < VOTES; i++)
        votes->count[i]--;
}

static uint32_t elected(const struct votes *votes)
{
    int best = 0;

    for (int i = 1; i < VOTES; i++) {
        if (votes->count[i] > votes->count[best])
            best = i;
    }
    return votes->count[best] == 0 ? FP_CALL_NONE : votes->stack[best];
}

/* ---- runs --------------------------------------------------------------- */

static bool same(struct fp_reference a, struct fp_reference b)
{
    return a.number == b.number && a.thread == b.thread;
}

/* A call that was seen for too short is dropped. */
static int finish(struct finding *finding, uint32_t place, int64_t after_us)
{
    struct fp_calls *calls = finding->calls;
    struct call_run *run;
    int err;

    if (place == 0 || !finding->run[place - 1].is_on)
        return 0;
    run = &finding->run[place - 1];
    run->is_on = false;
    if (run->call.ticks < finding->least)
        return 0;
    run->call.after_us = after_us;
    run->call.callee_stack = elected(run->call.served > 0 ? &run->serving : &run->otherwise);
    err = FP_GROW(finding->budget, &calls->call, &calls->room, calls->count + 1);
    if (err == 0)
        calls->call[calls->count++] = run->call;
    return err;
}

/* The run at *place that has this reference, from the last sample on or as a new one. */
static int continue_run(struct finding *finding, const struct fp_tick_sample *sample,
                        struct fp_reference reference, uint32_t *place, struct call_run **run)
{
    int64_t now = finding->tick.time_us, before = finding->state[sample->process].last_us;
    bool is_same = *place != 0 && finding->run[*place - 1].is_on &&
                   same(finding->run[*place - 1].call.reference, reference) &&
                   finding->run[*place - 1].call.last_us < now;
    int err = is_same ? 0 : finish(finding, *place, before > now ? INT64_MAX : now);

    if (err == 0 && *place == 0) {
        err = FP_GROW(finding->budget, &finding->run, &finding->run_room, finding->run_count + 1);
        if (err == 0)
            *place = (uint32_t)++finding->run_count;
    }
    if (err != 0)
        return err;
    *run = &finding->run[*place - 1];
    if (!is_same) {
        **run = (struct call_run){.is_on = true};
        (*run)->call = (struct fp_call){.reference = reference,
                                        .os_pid = finding->profile->process[sample->process].pid,
                                        .caller = FP_CALL_NONE,
                                        .callee = FP_CALL_NONE,
                                        .first_us = now,
                                        .before_us = before > now ? INT64_MIN : before,
                                        .caller_stack = FP_CALL_NONE,
                                        .callee_stack = FP_CALL_NONE};
    }
    (*run)->call.last_us = now;
    (*run)->call.ticks += (uint64_t)sample->count;
    return 0;
}

/* ---- a tick ------------------------------------------------------------- */

static uint64_t hash_of(const struct finding *finding, const struct fp_tick_sample *sample,
                        struct fp_reference reference)
{
    return fp_hash_two(finding->profile->process[sample->process].pid ^ reference.thread,
                       reference.number);
}

static uint32_t references_of(const struct finding *finding, const struct fp_tick_sample *sample)
{
    return sample->words == 0 ? 0 : finding->profile->words[sample->words].references;
}

static int add_server(struct finding *finding, size_t place)
{
    const struct fp_tick_sample *sample = &finding->tick.sample[place];
    struct call_state *state = &finding->state[sample->process];
    struct call_run *run;
    int err;

    if ((references_of(finding, sample) & FP_WORDS_SERVES) == 0)
        return finish(finding, state->callee, finding->tick.time_us);
    err = continue_run(finding, sample, sample->serves, &state->callee, &run);
    if (err != 0)
        return err;
    run->call.callee = sample->process;
    run->call.message = finding->profile->words[sample->words].message;
    run->call.is_of_callee = true;
    run->call.served = run->call.ticks;
    vote(&run->serving, sample->stack);
    return fp_table_put(&finding->serving, finding->budget,
                        hash_of(finding, sample, sample->serves), (uint32_t)place);
}

/* The sample of the process that has this call in work at this tick. */
static const struct fp_tick_sample *server_of(struct finding *finding,
                                              const struct fp_tick_sample *caller)
{
    const struct fp_process *process = finding->profile->process;
    struct fp_table_at at;
    uint32_t place;

    fp_table_seek(&finding->serving, hash_of(finding, caller, caller->call), &at);
    while (fp_table_next(&finding->serving, &at, &place)) {
        const struct fp_tick_sample *sample = &finding->tick.sample[place];

        if (same(sample->serves, caller->call) &&
            process[sample->process].pid == process[caller->process].pid)
            return sample;
    }
    return NULL;
}

/* The callee's run gets to know its caller, which may have fewer samples of the call. */
static void join(struct finding *finding, const struct fp_tick_sample *caller, struct call_run *run)
{
    const struct fp_tick_sample *callee = server_of(finding, caller);
    struct call_run *other;
    uint32_t target;

    if (callee != NULL) {
        other = &finding->run[finding->state[callee->process].callee - 1];
        other->call.caller = caller->process;
        other->call.caller_stack = caller->stack;
        other->call.request = run->call.request;
        run->call.callee = callee->process;
        run->call.message = finding->profile->words[callee->words].message;
        run->call.served += (uint64_t)caller->count;
        vote(&run->serving, callee->stack);
        return;
    }
    target = fp_tick_target(&finding->tick, caller->process, run->call.waits_for);
    callee = fp_tick_sample_of(&finding->tick, target);
    if (run->call.served == 0)
        run->call.callee = target;
    if (callee != NULL)
        vote(&run->otherwise, callee->stack);
}

static int add_caller(struct finding *finding, const struct fp_tick_sample *sample)
{
    struct call_state *state = &finding->state[sample->process];
    struct call_run *run;
    int err;

    if ((references_of(finding, sample) & FP_WORDS_CALL) == 0)
        return finish(finding, state->caller, finding->tick.time_us);
    err = continue_run(finding, sample, sample->call, &state->caller, &run);
    if (err != 0)
        return err;
    run->call.caller = sample->process;
    run->call.waits_for = finding->profile->words[sample->words].waits_for;
    run->call.request = finding->profile->words[sample->words].request;
    run->call.caller_stack = sample->stack;
    join(finding, sample, run);
    return 0;
}

static int add_tick(struct finding *finding)
{
    const struct fp_tick *tick = &finding->tick;
    int err = 0;

    fp_table_clear(&finding->serving);
    for (size_t i = 0; i < tick->count && err == 0; i++)
        err = add_server(finding, i);
    for (size_t i = 0; i < tick->count && err == 0; i++)
        err = add_caller(finding, &tick->sample[i]);
    for (size_t i = 0; i < tick->count; i++)
        finding->state[tick->sample[i].process].last_us = tick->time_us;
    return err;
}

static int add_ticks(struct finding *finding)
{
    int64_t last_us = INT64_MIN;
    int more = 0, err = 0;

    while (err == 0 && (more = fp_tick_next(&finding->tick)) > 0) {
        int64_t now = finding->tick.time_us;

        if (last_us != INT64_MIN && now > last_us && now - last_us < TICK_MOST_US) {
            finding->intervals++;
            finding->interval_us += (uint64_t)(now - last_us);
        }
        last_us = now;
        err = add_tick(finding);
    }
    for (size_t i = 1; i <= finding->run_count && err == 0; i++)
        err = finish(finding, (uint32_t)i, INT64_MAX);
    return err != 0 ? err : more;
}

/* ---- order -------------------------------------------------------------- */

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int64_t length_of(const struct fp_call *call)
{
    return call->last_us - call->first_us;
}

static bool is_bounded(const struct fp_call *call)
{
    return call->before_us != INT64_MIN && call->after_us != INT64_MAX;
}

/* The longest first; of equal ones the first. */
static int by_length(const void *a, const void *b)
{
    const struct fp_call *x = a, *y = b;

    if (length_of(x) != length_of(y))
        return length_of(x) > length_of(y) ? -1 : 1;
    if (x->first_us != y->first_us)
        return x->first_us < y->first_us ? -1 : 1;
    return compare(x->reference.number, y->reference.number);
}

/* The caller's first call of a reference, if its samples show begin and end; else the longest. */
static int by_reference(const void *a, const void *b)
{
    const struct fp_call *x = a, *y = b;
    bool first = !x->is_of_callee && is_bounded(x), other = !y->is_of_callee && is_bounded(y);

    if (x->os_pid != y->os_pid)
        return compare(x->os_pid, y->os_pid);
    if (!same(x->reference, y->reference))
        return x->reference.number != y->reference.number
                   ? compare(x->reference.number, y->reference.number)
                   : compare(x->reference.thread, y->reference.thread);
    return first != other ? (first ? -1 : 1) : by_length(a, b);
}

/* Caller and callee may both have samples of a call. */
static void sort(struct fp_calls *calls)
{
    size_t kept = 0;

    if (calls->count == 0)
        return;
    qsort(calls->call, calls->count, sizeof(*calls->call), by_reference);
    for (size_t i = 0; i < calls->count; i++) {
        const struct fp_call *call = &calls->call[i];

        if (kept == 0 || call->os_pid != calls->call[kept - 1].os_pid ||
            !same(call->reference, calls->call[kept - 1].reference))
            calls->call[kept++] = *call;
    }
    calls->count = kept;
    qsort(calls->call, calls->count, sizeof(*calls->call), by_length);
}

int fp_calls_find(struct fp_calls *calls, struct fp_profile *profile, uint64_t ticks)
{
    struct finding finding = {
        .calls = calls, .profile = profile, .budget = &profile->budget, .least = ticks};
    size_t processes = profile->process_count;
    int err = fp_tick_open(&finding.tick, profile);

    *calls = (struct fp_calls){0};
    if (err == 0)
        err = FP_ZEROS(finding.budget, &finding.state, processes);
    for (size_t i = 0; i < processes && err == 0; i++)
        finding.state[i].last_us = INT64_MIN;
    if (err == 0)
        err = add_ticks(&finding);
    if (err == 0)
        sort(calls);
    if (finding.intervals > 0)
        calls->tick_us = (int64_t)(finding.interval_us / finding.intervals);
    fp_tick_close(&finding.tick);
    fp_table_free(&finding.serving, finding.budget);
    FP_FREE(finding.budget, finding.run, finding.run_room);
    FP_FREE(finding.budget, finding.state, processes);
    return err;
}

void fp_calls_free(struct fp_calls *calls, struct fp_budget *budget)
{
    FP_FREE(budget, calls->call, calls->room);
}
