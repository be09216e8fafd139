/* truth.h - what must be true of a world: after each step, and of the files in the end.
 *
 * A state is what a sample says: of which process, its status, its frames and its numbers. At each
 * tick the world's states are noted, and at each capture that of the scheduler. The files must have
 * these, each at its time and no more often; where nothing is lost, exactly as often. Nothing here
 * asks the product for a truth. */
#pragma once

#include "grammar.h"
#include "world.h"

#define STATES (1u << 17)
#define MOMENTS 4096u
/* Microseconds that keep the order of a process' samples in the file. */
#define SLACK_NS 200000

/* How often a state was, and is in the files; and the time in which a sample may have it that is of
 * no tick and no capture: the process moved in the middle of a tick, or its scheduler was not to be
 * asked. */
struct state {
    uint64_t hash;
    uint64_t expected, found;
    int64_t from_ns, to_ns;
};

struct truth {
    struct state state[STATES];
    /* of the ticks: since the last change of the interval */
    int64_t start_ns, interval_ns;
    uint64_t counted, all_ticks;
    uint64_t quarters[4], punctual;
    /* CPU time until then, once a second */
    struct {
        int64_t ns, cpu_ns;
    } moment[MOMENTS];
    uint32_t moments;
    uint64_t flushes, removed; /* bytes of files */
    int was_buffering;
    /* as the step began */
    uint64_t before[PROCESSES];
    int ran[SCHEDULERS];
    uint64_t waited; /* ticks, for captures */
    /* reductions of the last capture of each process */
    int64_t highest[PROCESSES];
    uint32_t highest_of[PROCESSES];
    uint64_t found; /* samples in the files, by their periods */
    int64_t first_us, last_us, offset_ns;
    int is_matching; /* the pass that looks for the file's offset */
    uint64_t unmatched;
    int64_t last_value[PROCESSES][GRAMMAR_NUMBERS];
    uint64_t last_tid[PROCESSES]; /* and 1; 0: none yet */
};

/* ---------------------------------------------------------------- states -- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

/* No stack, on a scheduler: the structure's reductions, or those of an earlier capture. */
static int has_any_reductions(const char *frames)
{
    return strncmp(frames, "running_stack_not_sampled\n", 26) == 0 ||
           strcmp(frames, "[gc]\ngarbage_collecting\n") == 0;
}

/* `frames`: a name and a line end for each, the status last. */
static uint64_t state_of(uint64_t tid, const char *frames, const int64_t *value)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), &tid, sizeof tid);
    int first = has_any_reductions(frames);

    hash = mix(hash, frames, strlen(frames));
    return mix(hash, value + first, (size_t)(GRAMMAR_NUMBERS - first) * sizeof *value) | 1;
}

static void numbers_of(const struct world *w, const struct process *p, int64_t reductions,
                       int64_t value[GRAMMAR_NUMBERS])
{
    const struct fp_release *release = &w->vm.layout.release;

    memset(value, 0, GRAMMAR_NUMBERS * sizeof *value);
    value[0] = reductions;
    value[1] = p->queue;
    value[2] = release->process_size + 8 * FAKE_HEAP_WORDS + release->message_size * p->queue;
    value[3] = FAKE_HEAP_WORDS; /* total_heap_size */
    value[4] = p->depth;        /* stack_size */
    value[5] = p->heap;         /* heap_size */
    value[6] = FAKE_HEAP_WORDS; /* heap_block_size */
    value[9] = 5;               /* recent_size */
    value[15] = p->gcs;
}

static const char *const statuses[] = {
    [FP_STATUS_waiting] = "waiting",     [FP_STATUS_runnable] = "runnable",
    [FP_STATUS_running] = "running",     [FP_STATUS_garbage_collecting] = "garbage_collecting",
    [FP_STATUS_suspended] = "suspended",
};

enum stack_is { WHOLE, NOT_SAMPLED };

static uint64_t state_with(const struct world *w, uint32_t n, const struct process *p,
                           enum stack_is stack, int64_t reductions)
{
    int64_t value[GRAMMAR_NUMBERS];
    char frames[1024];
    int at = 0;

    numbers_of(w, p, reductions, value);
    if (p->status == FP_STATUS_garbage_collecting)
        at += sprintf(frames + at, "[gc]\n");
    else if (stack == NOT_SAMPLED)
        at += sprintf(frames + at, "running_stack_not_sampled\n");
    for (uint32_t i = 0; i < p->depth && stack == WHOLE; i++) {
        unsigned f = p->function[i];

        at += sprintf(frames + at, "m%d:f%u_v%d/1\n", w->module[f], f % PER_MODULE, w->version[f]);
    }
    sprintf(frames + at, "%s\n", statuses[p->status]);
    return state_of(n + TABLE * p->generation, frames, value);
}

/* On a scheduler with a stack: its turn is counted, as a capture does; else as its structure is. */
static uint64_t process_state(const struct world *w, uint32_t n, enum stack_is stack)
{
    const struct process *p = &w->process[n];

    return state_with(w, n, p, stack, p->reductions + (stack == WHOLE ? p->turn : 0));
}

static uint64_t idle_state(unsigned at)
{
    static const int64_t nothing[GRAMMAR_NUMBERS];

    return state_of(INT32_MAX - (at + 1), "[idle]\nwaiting\n", nothing);
}

static uint64_t waiting_ticks(const struct world *w)
{
    uint64_t ticks = 0;

    for (unsigned at = 0; at < SCHEDULERS; at++)
        ticks += w->open[at] < 0 ? 0 : w->question[w->open[at]].ticks;
    return ticks;
}

static struct state *find_state(struct world *w, uint64_t hash)
{
    uint32_t at = (uint32_t)hash % STATES;

    for (uint32_t tried = 0; tried < STATES; tried++, at = (at + 1) % STATES) {
        struct state *state = &w->truth->state[at];

        if (state->hash == hash || state->hash == 0) {
            state->hash = hash;
            return state;
        }
    }
    RUN_FAIL("too many states");
}

static void expect(struct world *w, uint64_t hash, uint64_t times)
{
    if (hash != 0)
        find_state(w, hash)->expected += times;
}

static void expect_also(struct world *w, uint64_t hash, uint64_t times)
{
    struct state *state = find_state(w, hash);

    state->expected += times;
    state->from_ns = state->from_ns == 0 ? w->now_ns : state->from_ns;
    state->to_ns = w->now_ns;
}

/* A capture that is given up has its process as it is then, for each tick that has waited. */
static void expect_not_sampled(struct world *w, uint32_t n)
{
    if (w->plan.loses_signals && w->process[n].is_alive)
        expect_also(w, process_state(w, n, NOT_SAMPLED), 1 + w->truth->waited);
}

/* In the middle of a tick: as it was before, it has been noted. */
static void truth_changed(struct world *w, uint32_t n)
{
    if (!w->is_in_step || !w->process[n].is_alive)
        return;
    if (w->process[n].at < 0)
        expect_also(w, process_state(w, n, WHOLE), 1);
    expect_not_sampled(w, n);
}

/* What is read in the step that begins. */
static void truth_before(struct world *w)
{
    memcpy(w->truth->ran, w->runs, sizeof w->runs);
    w->truth->waited = waiting_ticks(w);
    for (uint32_t n = 0; n < PROCESSES; n++) {
        w->truth->before[n] =
            w->process[n].is_alive && w->process[n].at < 0 ? process_state(w, n, WHOLE) : 0;
        expect_not_sampled(w, n);
    }
}

static int is_lossless(const struct world *w)
{
    const struct plan *plan = &w->plan;

    return !plan->tears && !plan->loses_signals && !plan->breaks_disk && !plan->moves &&
           plan->lookback_ms == 0 && plan->permille == 0 && plan->top == 0 &&
           counter(w, FP_COUNTER_dropped) + counter(w, FP_COUNTER_inconsistent) +
                   counter(w, FP_COUNTER_lost) ==
               0;
}

/* ------------------------------------------------------------------ captures -- */

static void truth_answered(struct world *w, unsigned at)
{
    struct question *question = &w->question[w->open[at]];
    int n = w->runs[at];

    if (n < 0 ||
        (w->plan.mode == FP_MODE_PROCESSES && !w->plan.tears &&
         ((uint32_t)n != question->process || w->process[n].generation != question->generation)))
        return;
    question->state = process_state(w, (uint32_t)n, WHOLE);
    question->process = (uint32_t)n;
    question->was = w->process[n];
}

static void ask(struct world *w, unsigned at, int64_t from_ns)
{
    struct question *question;
    uint32_t most_us = w->plan.answer_us, n = w->runs[at] < 0 ? 0 : (uint32_t)w->runs[at];

    if (w->questions == w->questions_room) {
        w->questions_room = 2 * w->questions_room + 64;
        w->question = realloc(w->question, w->questions_room * sizeof *w->question);
        CHECK(w->question != NULL);
    }
    question = &w->question[w->questions];
    *question = (struct question){.asked_ns = from_ns,
                                  .last_ns = from_ns,
                                  .answer_ns = w->now_ns + 1000 * (int64_t)chance(w, most_us + 1),
                                  .ticket = scheduler[at].ticket,
                                  .process = n,
                                  .generation = w->process[n].generation,
                                  .ticks = 1,
                                  .at = at};
    w->open[at] = (int)w->questions++;
}

/* A process that is captured on two schedulers before both are read: its reductions never fall. */
static void read_answer(struct world *w, struct question *question)
{
    uint32_t n = question->process;
    int64_t reductions = question->was.reductions + question->was.turn;

    question->done_ns = w->now_ns;
    if (question->state == 0)
        return;
    if (w->plan.tears) /* the other one may have been of no use */
        expect_also(w, question->state, question->ticks);
    if (w->truth->highest_of[n] == question->was.generation && reductions < w->truth->highest[n])
        question->state = state_with(w, n, &question->was, WHOLE, w->truth->highest[n]);
    else
        w->truth->highest[n] = reductions;
    w->truth->highest_of[n] = question->was.generation;
    expect(w, question->state, question->ticks);
}

/* This tick, too. */
static int waits_for(const struct world *w, const struct question *question)
{
    int n = w->truth->ran[question->at];

    if (w->plan.tears) /* it may have been another one when it was read */
        return 1;
    return n >= 0 &&
           (w->plan.mode == FP_MODE_SCHEDULERS ||
            (question->process == (uint32_t)n && question->generation == w->process[n].generation));
}

/* What the captures' requests have become in this step. */
static void follow_questions(struct world *w, int has_ticked, int64_t from_ns)
{
    for (unsigned at = 0; at < SCHEDULERS; at++) {
        struct question *question = w->open[at] < 0 ? NULL : &w->question[w->open[at]];

        if (question != NULL &&
            (!scheduler[at].in_flight || scheduler[at].ticket != question->ticket)) {
            read_answer(w, question);
            w->open[at] = -1;
            question = NULL;
        }
        if (question == NULL && scheduler[at].in_flight)
            ask(w, at, from_ns);
        else if (question != NULL && has_ticked && waits_for(w, question)) {
            question->ticks++;
            question->last_ns = from_ns;
        }
    }
}

/* --------------------------------------------------------------- the ticks -- */

/* The governor's step is how often the interval is doubled. */
static int64_t interval_now(const struct world *w)
{
    uint64_t step = counter(w, FP_COUNTER_budget_step);

    return w->plan.interval_us * INT64_C(1000) * (step < 2 ? 1 : 1 << (step < 5 ? step - 1 : 4));
}

/* Ticks that were done and that were missed are all that there was time for. */
static void check_ticks(struct world *w, int64_t from_ns)
{
    struct truth *t = w->truth;
    uint64_t all = counter(w, FP_COUNTER_ticks) + counter(w, FP_COUNTER_missed);
    int64_t interval = t->interval_ns, since = from_ns - t->start_ns;
    uint64_t least = (uint64_t)(since / interval) + 1;
    uint64_t most = (uint64_t)((w->now_ns - t->start_ns) / interval) + 1;

    CHECK(since >= 0);
    if (all - t->counted < least || all - t->counted > most)
        RUN_FAIL("%" PRIu64 " ticks done or missed, there was time for %" PRIu64, all - t->counted,
                 least);
    if (w->plan.late_us == 0 && since % interval < interval / 2) {
        t->punctual++;
        t->quarters[since % MS * 4 / MS]++;
    }
    if (interval_now(w) == interval)
        return;
    t->start_ns += (int64_t)(all - t->counted) * interval;
    t->counted = all;
    t->interval_ns = interval_now(w);
}

/* Ticks that a pass over the table takes: the same slots at each, rounded up. */
static uint64_t pass_ticks(const struct world *w, int64_t pass_ms)
{
    int64_t ticks = pass_ms * 1000 / w->plan.interval_us;
    int64_t slots = (TABLE + ticks - 1) / ticks;

    return (uint64_t)((TABLE + slots - 1) / slots);
}

/* The second selection follows the first within half a second, the others in their interval. */
static void check_selections(const struct world *w)
{
    uint64_t ticks = counter(w, FP_COUNTER_ticks), select_ms = w->sampling.select_interval_ms;
    uint64_t first = pass_ticks(w, select_ms < 500 ? (int64_t)select_ms : 500);

    if (w->plan.mode != FP_MODE_PROCESSES || w->plan.permille != 0)
        return;
    CHECK_INT(counter(w, FP_COUNTER_selections),
              ticks < first ? 1 : 2 + (ticks - first) / pass_ticks(w, (int64_t)select_ms));
}

static uint64_t losses(const struct world *w)
{
    return counter(w, FP_COUNTER_inconsistent) + counter(w, FP_COUNTER_dropped) +
           counter(w, FP_COUNTER_exited);
}

static uint64_t emitted(const struct world *w)
{
    return counter(w, FP_COUNTER_attempted) - losses(w) - waiting_ticks(w);
}

static void note_tick(struct world *w, int64_t from_ns)
{
    struct tick *tick;

    if (w->ticks == w->ticks_room) {
        w->ticks_room = 2 * w->ticks_room + 256;
        w->tick = realloc(w->tick, w->ticks_room * sizeof *w->tick);
        CHECK(w->tick != NULL);
    }
    tick = &w->tick[w->ticks++];
    *tick = (struct tick){.from_ns = from_ns, .to_ns = w->now_ns, .emitted = emitted(w)};
    for (uint32_t n = 0; n < PROCESSES && w->plan.mode == FP_MODE_PROCESSES; n++) {
        tick->state[n] = w->truth->before[n];
        expect(w, tick->state[n], 1);
    }
    for (unsigned at = 0; at < SCHEDULERS && w->plan.mode == FP_MODE_SCHEDULERS; at++)
        if (w->truth->ran[at] < 0 || w->plan.tears) {
            expect(w, idle_state(at), 1);
            tick->idle |= 1u << at;
        }
    for (uint32_t n = 0; n < PROCESSES; n++)
        expect_not_sampled(w, n);
}

/* ------------------------------------------------------- after each step -- */

static void check_causes(struct world *w)
{
    int has_flushed = counter(w, FP_COUNTER_flushes) != w->truth->flushes;
    uint64_t begun = counter(w, FP_COUNTER_attempted);
    uint64_t known = losses(w) + counter(w, FP_COUNTER_written) + counter(w, FP_COUNTER_lost) +
                     counter(w, FP_COUNTER_evicted);

    CHECK_INT(counter(w, FP_COUNTER_inconsistent), counter(w, FP_COUNTER_inconsistent_changed) +
                                                       counter(w, FP_COUNTER_inconsistent_moved) +
                                                       counter(w, FP_COUNTER_inconsistent_unfound) +
                                                       counter(w, FP_COUNTER_inconsistent_late));
    /* Where reads are torn, how many ticks wait is not known to one. */
    w->truth->flushes = counter(w, FP_COUNTER_flushes);
    CHECK(known + (w->plan.tears ? 0 : waiting_ticks(w)) <= begun);
    if (fp_ring_used(w->ring) > 0 || w->plan.tears ||
        ((w->plan.merges || w->plan.permille > 0) && !has_flushed) ||
        (w->plan.lookback_ms > 0 && !w->has_stopped))
        return;
    CHECK_INT(known + waiting_ticks(w), begun);
}

/* No minute is above the budget, and what is before the first tick belongs to the one before. */
static void check_budget(struct world *w)
{
    struct truth *t = w->truth;
    int64_t used =
        w->cpu_ns[SAMPLER] + w->cpu_ns[WRITER] + (int64_t)counter(w, FP_COUNTER_handler_ns);
    uint32_t first;

    if (w->plan.permille == 0 ||
        (t->moments > 0 && w->now_ns - t->moment[t->moments - 1].ns < SECOND))
        return;
    CHECK(t->moments < MOMENTS);
    t->moment[t->moments].ns = w->now_ns;
    t->moment[t->moments++].cpu_ns = used;
    for (first = t->moments - 1; first > 0 && w->now_ns - t->moment[first].ns < 60 * SECOND;)
        first--;
    used -= t->moment[first].cpu_ns;
    if (used * 1000 > w->plan.permille * (w->now_ns - t->moment[first].ns > 60 * SECOND
                                              ? w->now_ns - t->moment[first].ns
                                              : 60 * SECOND))
        RUN_FAIL("%" PRId64 " ms of CPU time in a minute, %u are allowed", used / MS,
                 w->plan.permille * 60);
}

/* The files together, the open one with them, are below their limit; and none is removed that has
 * room there. */
static void check_files(struct world *w)
{
    struct logs logs = logs_list(w->folder.path);
    uint64_t bytes = 0, removed;
    struct stat info;

    for (int i = 0; i < logs.n; i++) {
        CHECK(stat(temporary_at(&w->folder, logs.name[i]), &info) == 0);
        bytes += (uint64_t)info.st_size;
    }
    if (bytes > w->plan.most_bytes)
        RUN_FAIL("the files have %" PRIu64 " bytes, the limit is %" PRIu64, bytes,
                 w->plan.most_bytes);
    removed = counter(w, FP_COUNTER_file_bytes) - bytes;
    if (removed > w->truth->removed)
        CHECK(bytes + removed - w->truth->removed > w->plan.most_bytes);
    w->truth->removed = removed;
}

static uint64_t emitted_until(const struct world *w, int64_t ns)
{
    uint32_t low = 0, high = w->ticks;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (w->tick[middle].to_ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? 0 : w->tick[low - 1].emitted;
}

/* Before a trigger the samples of so long ago are kept, and none older by more than a piece of
 * that, and what the writer needs to wake up. */
static void check_lookback(const struct world *w)
{
    int64_t lookback = w->plan.lookback_ms * MS;
    int64_t slack = lookback / 8 + 200 * MS + w->plan.write_late_us * INT64_C(3000) +
                    w->plan.late_us * INT64_C(1000) + w->truth->interval_ns;
    uint64_t evicted = counter(w, FP_COUNTER_evicted);

    CHECK(evicted <= emitted_until(w, w->now_ns - lookback));
    if (evicted < emitted_until(w, w->now_ns - lookback - slack))
        RUN_FAIL("%" PRIu64 " samples dropped, %" PRIu64 " are older than the lookback", evicted,
                 emitted_until(w, w->now_ns - lookback - slack));
}

static void truth_step(struct world *w, enum thread thread, int64_t from_ns)
{
    struct truth *t = w->truth;
    int has_ticked = counter(w, FP_COUNTER_ticks) != t->all_ticks;

    if (thread == SAMPLER) {
        if (w->start_ns == 0) {
            w->start_ns = t->start_ns = w->now_ns;
            t->interval_ns = interval_now(w);
        }
        t->all_ticks = counter(w, FP_COUNTER_ticks);
        follow_questions(w, has_ticked, from_ns);
        if (!has_ticked && w->ticks > 0)
            w->tick[w->ticks - 1].emitted = emitted(w);
        if (has_ticked) {
            note_tick(w, from_ns);
            check_ticks(w, from_ns);
            check_selections(w);
        }
    } else {
        if (w->plan.most_bytes > 0 && !w->plan.breaks_disk)
            check_files(w);
        if (w->plan.lookback_ms > 0 && !w->plan.merges && !w->plan.tears && t->was_buffering &&
            !w->has_stopped)
            check_lookback(w);
    }
    check_causes(w);
    check_budget(w);
}

static void truth_create(struct world *w)
{
    w->truth = calloc(1, sizeof *w->truth);
    CHECK(w->truth != NULL);
    w->truth->was_buffering = w->plan.lookback_ms > 0;
}

/* --------------------------------------------------------------- the files -- */

/* The names of the frames of a sample in a file, and its status. */
static const char *frames_of(const char *line, char *out, size_t room)
{
    size_t at = 0;

    for (; *line == '\t'; line++) {
        for (line += strlen("\tffffffff "); *line != ' ' && at + 2 < room; line++)
            out[at++] = *line;
        CHECK(*line == ' ');
        out[at++] = '\n';
        while (*line != '\n')
            line++;
    }
    out[at] = '\0';
    return out;
}

/* The samples of the ticks that waited lie evenly between the first and the last of them. A file's
 * times do not fall: a sample may have a later one. */
static int is_in_time(const struct world *w, struct question *question, int64_t ns)
{
    int64_t n = question->ticks, k = question->found;
    int64_t passed = n > 1 ? (question->last_ns - question->asked_ns) * k / (n - 1) : 0;

    if (w->plan.tears || w->plan.breaks_disk || w->truth->is_matching || w->offsets > 1)
        passed = k = 0;
    if (k >= n || ns + 1000 < question->asked_ns + passed || ns > question->done_ns + SLACK_NS)
        return 0;
    question->found += !w->truth->is_matching;
    return 1;
}

/* Was it so then? A microsecond more may be for the order of the file's times, and a capture that
 * comes late is written behind what was sampled meanwhile. */
static int was_so(struct world *w, uint64_t hash, uint64_t tid, int64_t ns)
{
    const struct state *state;
    /* A tick's, that waited for a capture. */
    int64_t waited =
        (w->plan.answer_us + w->plan.late_us + 2 * w->plan.interval_us) * INT64_C(1000);
    uint32_t low = 0, high = w->ticks;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (w->tick[middle].from_ns <= ns + 1000)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    if (tid < INT32_MAX - SCHEDULERS && w->tick[low - 1].to_ns + SLACK_NS >= ns &&
        w->tick[low - 1].state[tid % TABLE] == hash)
        return 1;
    if (tid >= INT32_MAX - SCHEDULERS)
        return hash == idle_state((unsigned)(INT32_MAX - tid - 1)) &&
               w->tick[low - 1].to_ns + SLACK_NS >= ns &&
               (w->tick[low - 1].idle >> (INT32_MAX - tid - 1) & 1) != 0;
    for (uint32_t i = 0; i < w->questions; i++)
        if (w->question[i].state == hash && is_in_time(w, &w->question[i], ns))
            return 1;
    state = find_state(w, hash);
    return state->from_ns != 0 && state->from_ns <= ns + waited && state->to_ns + SLACK_NS >= ns;
}

/* A sample's deltas reach back to the last one that the ring took, which is in the same file. A
 * process has its history in mode schedulers until another one has its slot. */
static int has_history(const struct world *w)
{
    return (w->plan.mode == FP_MODE_PROCESSES || !w->plan.moves) && w->plan.top == 0 &&
           w->plan.permille == 0 && !w->plan.breaks_disk &&
           counter(w, FP_COUNTER_lost) + counter(w, FP_COUNTER_evicted) == 0;
}

static void check_deltas(struct truth *t, const struct grammar_found *found)
{
    uint32_t n = (uint32_t)found->tid % TABLE;

    for (int i = 0; i < GRAMMAR_NUMBERS && t->last_tid[n] == found->tid + 1; i++) {
        int64_t delta = found->value[i] - t->last_value[n][i];

        /* The minor collections since a full sweep; two captures may be read in any order. */
        CHECK_INT(found->delta[i], i == 15 && delta < 0 ? found->value[i] : delta);
    }
    t->last_tid[n] = found->tid + 1;
    memcpy(t->last_value[n], found->value, sizeof t->last_value[n]);
}

static void read_sample(const struct grammar_found *found)
{
    struct world *w = world;
    struct truth *t = w->truth;
    struct state *state;
    char frames[4096];
    uint64_t hash =
        state_of(found->tid, frames_of(found->frames, frames, sizeof frames), found->value);
    int64_t ns = (int64_t)found->time_us * 1000 - t->offset_ns;

    if (t->is_matching) {
        t->unmatched += !was_so(w, hash, found->tid, ns);
        return;
    }
    t->found += found->period;
    if (t->first_us == 0 || (int64_t)found->time_us - t->offset_ns / 1000 < t->first_us)
        t->first_us = (int64_t)found->time_us - t->offset_ns / 1000;
    t->last_us = (int64_t)found->time_us - t->offset_ns / 1000;
    state = find_state(w, hash);
    state->found += found->period;
    /* What a file has that could not be cut is in the next one, too. */
    if (state->expected == 0 || (state->found > state->expected && !w->plan.breaks_disk) ||
        (!w->plan.merges && w->plan.permille == 0 && !was_so(w, hash, found->tid, ns)))
        RUN_FAIL("process %" PRIu64 " was not so at %" PRId64 " us, %" PRIu64 " times of %" PRIu64
                 " (reductions %" PRId64 ", queue %" PRId64 ", memory %" PRId64 "):\n%s",
                 found->tid, ns / 1000, state->found, state->expected, found->value[0],
                 found->value[1], found->value[2], frames);
    if (has_history(w) && found->tid < INT32_MAX - SCHEDULERS)
        check_deltas(t, found);
}

/* A file ends soon when the clock is set by a second and more. */
static void check_offset(const struct world *w, int64_t offset, int64_t last_ns)
{
    int64_t soon = 1500 * MS + (w->plan.hangs_disk ? 4 * SECOND : 0) +
                   (w->plan.write_late_us + w->plan.late_us + w->plan.answer_us) * INT64_C(3000);
    int is_soon = w->plan.breaks_disk || w->plan.lookback_ms > 0 || last_ns == 0;

    for (unsigned i = 0; i < w->offsets; i++)
        is_soon |= llabs(w->offset[i] - offset) < SECOND &&
                   (i + 1 == w->offsets || w->stepped_ns[i + 1] + soon >= last_ns);
    if (!is_soon)
        RUN_FAIL("a file goes on that has another clock");
}

/* Each file has one of the offsets that there were. */
static void read_file(struct world *w, const char *path)
{
    struct truth *t = w->truth;
    const char *wrong;
    uint64_t samples, best = UINT64_MAX;
    int64_t offset = w->offset[0];
    size_t size;
    char *text = logs_read(path, &size);

    memset(t->last_tid, 0, sizeof t->last_tid); /* files may be missing between two */
    grammar_each = read_sample;
    t->is_matching = 1;
    for (unsigned i = 0; i < w->offsets && w->offsets > 1; i++) {
        t->unmatched = 0;
        t->offset_ns = w->offset[i];
        (void)grammar_check(text, size, &samples);
        if (t->unmatched < best) {
            best = t->unmatched;
            offset = w->offset[i];
        }
    }
    t->is_matching = 0;
    t->offset_ns = offset;
    t->last_us = 0;
    wrong = grammar_check(text, size, &samples);
    if (wrong != NULL)
        RUN_FAIL("%s at %zu of %s", wrong, grammar_offset, path);
    grammar_each = NULL;
    check_offset(w, offset, t->last_us * 1000);
    free(text);
}

/* As the next session does: a file that could not be cut may end within a sample. */
static void finish_files(struct world *w)
{
    struct fp_sink_options files = {.directory = w->folder.path};
    struct fp_sink_end end;
    struct fp_sink *sink;
    char why[256];

    faulty_disk_mend();
    CHECK_INT(fp_sink_open(&sink, &files, why, sizeof why), 0);
    CHECK_INT(fp_sink_close(sink, &end), 0);
}

/* Stops the world, and reads what it has written. */
static void world_end(struct world *w)
{
    struct truth *t = w->truth;
    struct logs logs;

    world_stop(w);
    if (w->plan.breaks_disk)
        finish_files(w);
    logs = logs_list(w->folder.path);
    for (int i = 0; i < logs.n; i++)
        read_file(w, temporary_at(&w->folder, logs.name[i]));
    for (uint32_t i = 0; i < STATES; i++) {
        const struct state *state = &t->state[i];

        if (is_lossless(w) && counter(w, FP_COUNTER_files_removed) == 0)
            CHECK_INT(state->found, state->expected);
    }
    CHECK_INT(counter(w, FP_COUNTER_attempted), losses(w) + counter(w, FP_COUNTER_written) +
                                                    counter(w, FP_COUNTER_lost) +
                                                    counter(w, FP_COUNTER_evicted));
    if (w->plan.breaks_disk && counter(w, FP_COUNTER_files_removed) == 0)
        CHECK(t->found + counter(w, FP_COUNTER_unsaved) >= counter(w, FP_COUNTER_written));
    else if (counter(w, FP_COUNTER_files_removed) == 0)
        CHECK_INT(t->found, counter(w, FP_COUNTER_written));
    if (counter(w, FP_COUNTER_errors) == 0)
        CHECK_INT(counter(w, FP_COUNTER_lost), 0);
    /* Ticks are in all parts of a millisecond, whatever timers of the VM are. */
    for (int i = 0; i < 4 && t->punctual >= 64 && w->plan.interval_us >= 2000; i++)
        CHECK(t->quarters[i] > 0);
}
