/* world.h - a node that is played: processes, schedulers, code, a disk and a clock, with the
 * sampler and the writer of the product between them, a step at a time.
 *
 *      struct world *w = world_create(&(struct plan){.seed = 7, .interval_us = 10000});
 *      world_spawn(w, 3);
 *      world_run(w, 2000);                          two seconds
 *      world_end(w);                                stop, and all checks of truth.h
 *
 * One thread plays all of them. Time passes between steps and, within a step, with each read of
 * memory; each step is followed by the checks that must hold at any moment. What happens is the
 * plan's, and chance of the plan's seed. */
#pragma once

#include <stdio.h>

#include "base/clock.h"
#include "base/ring.h"
#include "fake_schedulers.h"
#include "faulty_disk.h"
#include "logs.h"
#include "run.h"
#include "session/sampler_internal.h"
#include "session/writer.h"
#include "temporary.h"
#include "virtual_clock.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define PROCESSES 12u
#define TABLE 64u /* slots of the process table: a place is used again with a pid so much higher */
#define DEPTH 8u
#define TURN 4000 /* reductions */
#define UNIX_NS (INT64_C(1795237782) * SECOND)

/* Functions lie so many bytes apart, in the order of their numbers. */
#define FUNCTION_BYTES 0x100u
#define FUNCTIONS 256u
#define MODULES 8u
#define PER_MODULE 4u

/* What happens by itself. 0: it does not. */
struct plan {
    uint64_t seed;
    enum fp_mode mode;
    uint32_t interval_us, top, select_ms, permille;
    uint32_t lookback_ms, flush_ms, flushes_per_file;
    uint64_t most_bytes; /* of all files */
    int is_zst, merges;
    size_t ring_bytes;
    uint32_t events_us; /* between two events, in the mean */
    uint32_t late_us;   /* most that the sampler wakes up too late */
    uint32_t write_late_us;
    uint32_t answer_us; /* most that a capture takes */
    uint32_t read_ns;   /* CPU time of a read of memory */
    uint32_t write_ns;  /* CPU time of the writer, of each 100 bytes in the ring */
    int tears;          /* a process moves before one of so many reads */
    int loses_signals, loads_code, breaks_disk, hangs_disk, steps_clock, moves;
};

struct process {
    int is_alive, is_odd; /* which of its two heaps it has */
    uint32_t generation;
    int at; /* scheduler, or -1 */
    uint8_t status;
    uint32_t depth;
    uint16_t function[DEPTH]; /* leaf first */
    int64_t reductions, turn, queue, heap, gcs;
};

enum thread { NOBODY, SAMPLER, WRITER, THREADS };

/* A capture that a tick has asked for. */
struct question {
    uint64_t state;                                /* 0: what it finds is no sample */
    int64_t asked_ns, last_ns, answer_ns, done_ns; /* last: of the ticks that wait */
    uint32_t ticket, process, generation;          /* mode processes: of whom */
    uint32_t ticks, found;                         /* that wait for it; samples in the files */
    unsigned at;
    int is_answered;
    struct process was;
};

struct tick {
    int64_t from_ns, to_ns;    /* the step's */
    uint64_t state[PROCESSES]; /* 0: none, or a question */
    uint64_t emitted;          /* samples until then */
    unsigned idle;             /* schedulers, a bit each */
};

struct world {
    struct plan plan;
    uint64_t random;
    struct fake_vm vm;
    struct process process[PROCESSES];
    int runs[SCHEDULERS];   /* the process, or -1 */
    int version[FUNCTIONS]; /* of the module that has its code there; -1: free */
    int module[FUNCTIONS], dirty[FUNCTIONS];
    int place[MODULES]; /* of the latest version */
    int versions, recoded;
    /* time */
    int64_t now_ns, unix_ns, cpu_ns[THREADS];
    enum thread thread;
    int64_t sampler_at, writer_at, event_at, start_ns;
    int64_t offset[16];     /* Unix time less monotonic time, all that there were */
    int64_t stepped_ns[16]; /* when */
    unsigned offsets;
    /* the product */
    struct fp_ring *ring;
    struct fp_counters counters;
    struct fp_sampler *sampler;
    struct fp_writer *writer;
    struct fp_sink *sink;
    struct fp_live_cstack cstack;
    struct fp_symbolizer symbolizer;
    struct fp_sample_clock clock;
    struct fp_sampler_options sampling;
    struct temporary folder;
    _Atomic uint32_t online;
    int has_stopped, is_in_step, flush_err;
    int64_t hangs_until;
    /* the truth (truth.h) */
    struct tick *tick;
    uint32_t ticks, ticks_room;
    struct question *question;
    uint32_t questions, questions_room;
    int open[SCHEDULERS]; /* the question, or -1 */
    struct truth *truth;
};

static struct world *world; /* of the hooks */

static uint32_t chance(struct world *w, uint32_t limit)
{
    return run_below(&w->random, limit);
}

static uint64_t counter(const struct world *w, enum fp_counter which)
{
    return fp_counters_get(&w->counters, which);
}

/* truth.h */
static void truth_changed(struct world *w, uint32_t n);
static void truth_before(struct world *w);
static void truth_step(struct world *w, enum thread thread, int64_t from_ns);
static void truth_answered(struct world *w, unsigned at);

/* ---------------------------------------------------------------- the code -- */

static uint64_t address_of(unsigned function)
{
    return CODE + (uint64_t)FUNCTION_BYTES * function;
}

static int resolve(void *self, uint64_t pc, struct fp_symbol *symbol)
{
    const struct world *w = self;
    uint64_t function = (pc - CODE) / FUNCTION_BYTES;

    if (pc < CODE || function >= FUNCTIONS || w->version[function] < 0)
        return FP_ENOENT;
    symbol->kind = FP_SYMBOL_ERLANG;
    symbol->module_len = (uint32_t)sprintf(symbol->module, "m%d", w->module[function]);
    symbol->function_len = (uint32_t)sprintf(symbol->function, "f%u_v%d",
                                             (unsigned)function % PER_MODULE, w->version[function]);
    symbol->file_len = (uint32_t)sprintf(symbol->file, "m.erl");
    symbol->arity = 1;
    symbol->line = 0;
    return 0;
}

static int no_atom(void *self, uint64_t atom, char text[FP_ATOM_BYTES_MAX])
{
    (void)self, (void)atom, (void)text;
    return FP_ENOENT;
}

static int revalidate(void *self)
{
    struct world *w = self;
    int recoded = w->recoded;

    w->recoded = 0;
    return recoded;
}

/* A place that no code has, or that had other code: the file has all samples of that by now. */
static void load_module(struct world *w, int module)
{
    unsigned first = 0;

    while (first < FUNCTIONS && w->version[first] >= 0)
        first += PER_MODULE;
    if (first == FUNCTIONS || (w->dirty[first] && fp_ring_used(w->ring) > 0))
        return;
    for (unsigned f = first; f < first + PER_MODULE; f++) {
        w->version[f] = w->versions;
        w->module[f] = module;
        w->recoded += w->dirty[f];
    }
    w->versions++;
    w->place[module] = (int)first;
}

static int is_on_a_stack(const struct world *w, unsigned first)
{
    for (uint32_t n = 0; n < PROCESSES; n++)
        for (uint32_t i = 0; w->process[n].is_alive && i < w->process[n].depth; i++)
            if (w->process[n].function[i] / PER_MODULE == first / PER_MODULE)
                return 1;
    return 0;
}

/* Old code that no process is in, when no sample of it is on its way. */
static void purge(struct world *w)
{
    if (fp_ring_used(w->ring) > 0)
        return;
    for (unsigned first = 0; first < FUNCTIONS; first += PER_MODULE) {
        int is_open = 0;

        for (unsigned at = 0; at < SCHEDULERS; at++)
            is_open |= scheduler[at].in_flight;
        if (w->version[first] < 0 || w->place[w->module[first]] == (int)first ||
            is_on_a_stack(w, first) || is_open)
            continue;
        for (unsigned f = first; f < first + PER_MODULE; f++) {
            w->version[f] = -1;
            w->dirty[f] = 1;
        }
        return;
    }
}

/* ------------------------------------------------------------ the processes -- */

static uint64_t heap_of(const struct world *w, uint32_t n)
{
    return fake_heap_at(n + (w->process[n].is_odd ? PROCESSES : 0));
}

/* Another function than that one, of the latest code: equal neighbours are one frame. */
static uint16_t any_function(struct world *w, int other)
{
    uint16_t function;

    do
        function = (uint16_t)((unsigned)w->place[chance(w, MODULES)] + chance(w, PER_MODULE));
    while (function == other);
    return function;
}

/* All that the VM would have written by now. */
static void write_process(struct world *w, uint32_t n)
{
    static const uint32_t flags[] = {
        [FP_STATUS_waiting] = 0,
        [FP_STATUS_runnable] = FP_PSFLG_ACTIVE,
        [FP_STATUS_running] = FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING,
        [FP_STATUS_garbage_collecting] = FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING | FP_PSFLG_GC,
        [FP_STATUS_suspended] = FP_PSFLG_SUSPENDED,
    };
    struct process *p = &w->process[n];
    uint64_t heap = heap_of(w, n), hend = heap + 8 * FAKE_HEAP_WORDS, words[DEPTH + 1] = {0x1b};

    for (uint32_t i = 1; i < p->depth; i++)
        words[i] = address_of(p->function[i]) + 0x80;
    fake_put(&w->vm.memory, hend - 8 * p->depth, words, 8 * p->depth);
    fake_set_torn(&w->vm, n, FP_FIELD_heap, heap);
    fake_set(&w->vm, n, FP_FIELD_hend, hend);
    fake_set(&w->vm, n, FP_FIELD_htop, heap + 8 * (uint64_t)p->heap);
    fake_set(&w->vm, n, FP_FIELD_high_water, heap + 8 * 5);
    fake_set(&w->vm, n, FP_FIELD_stop, hend - 8 * p->depth);
    fake_set(&w->vm, n, FP_FIELD_i, address_of(p->function[0]) + 0x10);
    fake_set(&w->vm, n, FP_FIELD_reds, (uint64_t)p->reductions);
    fake_set(&w->vm, n, FP_FIELD_outer_len, (uint64_t)p->queue);
    fake_set(&w->vm, n, FP_FIELD_gen_gcs, (uint64_t)p->gcs);
    fake_set(&w->vm, n, FP_FIELD_state, 0x2a | flags[p->status]);
    truth_changed(w, n);
}

static uint32_t number_of(const struct world *w, uint32_t n)
{
    return n + TABLE * w->process[n].generation;
}

static void world_spawn(struct world *w, uint32_t n)
{
    struct process *p = &w->process[n];
    uint32_t generation = p->generation + (p->depth > 0);

    CHECK(!p->is_alive);
    *p = (struct process){.is_alive = 1,
                          .at = -1,
                          .generation = generation,
                          .depth = 2 + chance(w, DEPTH - 2),
                          .reductions = 1000,
                          .heap = 10};
    for (uint32_t i = 0; i < p->depth; i++)
        p->function[i] = any_function(w, i > 0 ? p->function[i - 1] : -1);
    fake_spawn(&w->vm, n, address_of(p->function[0]));
    fake_set(&w->vm, n, FP_FIELD_id, fake_pid(&w->vm.layout, number_of(w, n)));
    write_process(w, n);
}

static void world_pause(struct world *w, uint32_t n, uint8_t status)
{
    struct process *p = &w->process[n];

    take_from_scheduler(&w->vm, n, (unsigned)p->at);
    w->runs[p->at] = -1;
    p->at = -1;
    p->status = status;
    p->reductions += p->turn;
    p->turn = 0;
    write_process(w, n);
}

static void world_exit(struct world *w, uint32_t n)
{
    struct process *p = &w->process[n];

    if (p->at >= 0)
        world_pause(w, n, FP_STATUS_waiting);
    p->is_alive = 0;
    fake_exit(&w->vm, n);
    truth_changed(w, n);
}

/* A turn's first reductions are counted at once, so that no run leaves the counter as it was. */
static void world_schedule(struct world *w, uint32_t n, unsigned at)
{
    struct process *p = &w->process[n];

    CHECK(p->is_alive && p->at < 0 && w->runs[at] < 0);
    put_on_scheduler(&w->vm, n, at);
    p->at = (int)at;
    w->runs[at] = (int)n;
    p->status = FP_STATUS_running;
    p->turn = 1;
    write_process(w, n);
}

/* It calls and returns. */
static void world_work(struct world *w, uint32_t n, int64_t reductions)
{
    struct process *p = &w->process[n];

    p->turn += p->turn + reductions < TURN ? reductions : 0;
    if (chance(w, 3) == 0 && p->depth < DEPTH) {
        memmove(p->function + 1, p->function, p->depth++ * sizeof p->function[0]);
    } else if (p->depth > 2 && chance(w, 2) == 0) {
        memmove(p->function, p->function + 1, --p->depth * sizeof p->function[0]);
    }
    p->function[0] = any_function(w, p->function[1]);
    p->heap += p->heap < 100 ? chance(w, 8) : 0;
    write_process(w, n);
}

/* The heap moves to the other block. */
static void world_collect(struct world *w, uint32_t n)
{
    struct process *p = &w->process[n];

    p->is_odd = !p->is_odd;
    p->heap = 6 + chance(w, 10);
    p->gcs++;
    p->turn += p->turn + 10 < TURN ? 10 : 0;
    p->status = FP_STATUS_running;
    write_process(w, n);
}

static void world_send(struct world *w, uint32_t n, int64_t messages)
{
    w->process[n].queue += messages;
    write_process(w, n);
}

/* ----------------------------------------------------------------- chance -- */

static void change_running(struct world *w, uint32_t n)
{
    struct process *p = &w->process[n];

    if (p->status == FP_STATUS_garbage_collecting) {
        world_collect(w, n);
        return;
    }
    switch (chance(w, 6)) {
    case 0:
        world_pause(w, n, chance(w, 2) ? FP_STATUS_waiting : FP_STATUS_runnable);
        break;
    case 1:
        p->status = FP_STATUS_garbage_collecting;
        write_process(w, n);
        break;
    case 2:
        if (p->queue > 0)
            world_send(w, n, -1);
        break;
    default:
        world_work(w, n, 1 + chance(w, 300));
    }
}

static void change_waiting(struct world *w, uint32_t n)
{
    struct process *p = &w->process[n];
    unsigned at = chance(w, SCHEDULERS);

    if (p->status == FP_STATUS_suspended || chance(w, 12) == 0) {
        p->status = p->status == FP_STATUS_suspended ? FP_STATUS_runnable : FP_STATUS_suspended;
        write_process(w, n);
    } else if (w->runs[at] < 0) {
        world_schedule(w, n, at);
    }
}

static void change_schedulers(struct world *w)
{
    unsigned at = chance(w, SCHEDULERS);

    other_owner = other_owner == 0 && chance(w, 4) == 0 ? 64 : 0;
    scheduler[at].refuses = chance(w, 2) ? FP_ESIGNAL : 0;
}

static void change_something(struct world *w)
{
    uint32_t n = chance(w, PROCESSES);
    struct process *p = &w->process[n];

    if (w->plan.loads_code && chance(w, 20) == 0) {
        load_module(w, (int)chance(w, MODULES));
        purge(w);
    }
    if (w->plan.loses_signals && chance(w, 100) == 0)
        change_schedulers(w);
    if (!p->is_alive)
        world_spawn(w, n);
    else if (w->plan.moves && chance(w, 60) == 0)
        world_exit(w, n);
    else if (chance(w, 4) == 0)
        world_send(w, n, 1 + chance(w, 3));
    else if (p->at >= 0)
        change_running(w, n);
    else
        change_waiting(w, n);
}

static void step_clock(struct world *w, int64_t ns)
{
    w->unix_ns += ns;
    CHECK(w->offsets < sizeof w->offset / sizeof *w->offset);
    w->stepped_ns[w->offsets] = w->now_ns;
    w->offset[w->offsets++] = w->unix_ns;
}

static void change_disk(struct world *w)
{
    if (w->plan.breaks_disk && chance(w, 3000) == 0) {
        if (chance(w, 2))
            faulty_disk_room(chance(w, 100000));
        else
            faulty_disk_break((int)chance(w, 8), 1 + (int)chance(w, 30), EIO);
    } else if (w->plan.breaks_disk && chance(w, 1000) == 0) {
        faulty_disk_mend();
    }
    if (w->plan.steps_clock && chance(w, 1000) == 0 && w->offsets < 10)
        step_clock(w, (chance(w, 2) ? 1 : -1) * (int64_t)(chance(w, 2) ? 300 * MS : 7200 * SECOND));
    if (w->plan.hangs_disk && chance(w, 2000) == 0)
        w->hangs_until = w->now_ns + (int64_t)chance(w, 3000) * MS;
}

/* ----------------------------------------------------------------- the time -- */

static int64_t read_world_clock(clockid_t clock)
{
    if (clock == CLOCK_THREAD_CPUTIME_ID)
        return world->cpu_ns[world->thread];
    return world->now_ns + (clock == CLOCK_REALTIME ? world->unix_ns : 0);
}

static void spend(struct world *w, int64_t ns)
{
    w->cpu_ns[w->thread] += ns;
    w->now_ns += ns;
}

/* The process whose memory is read has a turn on a scheduler just then. */
static void tear(struct world *w, uint64_t address)
{
    uint32_t n = PROCESSES;
    unsigned at = chance(w, SCHEDULERS);

    if (address >= FAKE_HEAPS && address < FAKE_JIT)
        n = (uint32_t)((address - FAKE_HEAPS) / (8 * FAKE_HEAP_WORDS)) % PROCESSES;
    else if (address >= FAKE_PROCESSES && address < FAKE_HEAPS)
        n = (uint32_t)((address - FAKE_PROCESSES) / FAKE_PROCESS_STRIDE) % PROCESSES;
    if (n == PROCESSES || !w->process[n].is_alive || w->process[n].at >= 0 || w->runs[at] >= 0)
        return;
    world_schedule(w, n, at);
    for (uint32_t i = chance(w, 4); i > 0; i--)
        chance(w, 4) ? world_work(w, n, 10) : world_collect(w, n);
    world_pause(w, n, FP_STATUS_waiting);
}

/* Memory is read: it takes time, and others go on meanwhile. */
static void before_read(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    struct world *w = arg;

    (void)memory, (void)size;
    if (w->thread != SAMPLER)
        return;
    spend(w, w->plan.read_ns);
    if (!w->plan.tears || !w->is_in_step || chance(w, (uint32_t)w->plan.tears) != 0)
        return;
    if (chance(w, 2))
        change_something(w);
    else
        tear(w, address);
}

/* ----------------------------------------------------------------- the steps -- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t late(struct world *w, uint32_t most_us)
{
    /* Seldom, and then by any time. */
    return most_us == 0 || chance(w, 8) != 0 ? 0 : (int64_t)chance(w, most_us) * 1000;
}

static void sampler_step(struct world *w)
{
    int64_t from_ns = w->now_ns;

    truth_before(w);
    w->thread = SAMPLER;
    w->is_in_step = w->start_ns != 0;
    w->sampler_at = fp_sampler_step(w->sampler) + late(w, w->plan.late_us);
    w->is_in_step = 0;
    w->thread = NOBODY;
    truth_step(w, SAMPLER, from_ns);
}

static void writer_step(struct world *w)
{
    int64_t from_ns = w->now_ns, next_ms;

    w->thread = WRITER;
    w->cpu_ns[WRITER] += (int64_t)fp_ring_used(w->ring) / 100 * w->plan.write_ns;
    next_ms = fp_writer_step(w->writer);
    w->thread = NOBODY;
    w->has_stopped = next_ms == 0;
    w->writer_at = next_ms * MS + late(w, w->plan.write_late_us);
    truth_step(w, WRITER, from_ns);
}

/* The handler of a scheduler that was asked. */
static void answer(struct world *w, unsigned at)
{
    struct question *question = &w->question[w->open[at]];
    int n = w->runs[at];

    question->is_answered = 1;
    run_handler(&w->vm, at, n < 0 ? CODE : address_of(w->process[n].function[0]) + 0x10,
                n < 0 ? 0 : (int)(TURN - w->process[n].turn));
    truth_answered(w, at);
}

/* What is due next but a step of the writer, which may be in one. */
static void play_one(struct world *w, int64_t until_ns)
{
    int64_t next = until_ns;
    int asked = -1;

    for (unsigned at = 0; at < SCHEDULERS; at++)
        if (w->open[at] >= 0 && !w->question[w->open[at]].is_answered &&
            w->question[w->open[at]].answer_ns < next) {
            next = w->question[w->open[at]].answer_ns;
            asked = (int)at;
        }
    if (w->event_at < next)
        next = w->event_at;
    if (w->sampler_at < next)
        next = w->sampler_at;
    if (next > w->now_ns)
        w->now_ns = next;
    if (next == until_ns)
        return;
    if (next == w->sampler_at) {
        sampler_step(w);
    } else if (next == w->event_at) {
        change_something(w);
        change_disk(w);
        w->event_at = w->now_ns + (1 + (int64_t)chance(w, 2 * w->plan.events_us)) * 1000;
    } else {
        answer(w, (unsigned)asked);
    }
}

/* A write takes so long; the others go on. */
static void hang(void)
{
    enum thread thread = world->thread;

    while (thread == WRITER && world->now_ns < world->hangs_until)
        play_one(world, world->hangs_until);
    world->thread = thread;
}

static void world_run(struct world *w, int64_t ms)
{
    int64_t until = w->now_ns + ms * MS;

    while (w->now_ns < until) {
        if (w->writer_at <= w->now_ns)
            writer_step(w);
        else
            play_one(w, sooner(until, w->writer_at));
    }
}

/* -------------------------------------------------------- beginning and end -- */

static void notify(void *arg, enum fp_writer_event event, uint64_t ticket, int err, const char *why)
{
    struct world *w = arg;

    (void)event, (void)ticket, (void)why;
    w->flush_err = err;
}

static void create_sampler(struct world *w)
{
    const struct plan *plan = &w->plan;

    w->sampling = (struct fp_sampler_options){
        .mode = plan->mode,
        .running_stacks = 1,
        .cstack = &w->cstack,
        .schedulers_online = &w->online,
        .layout = w->vm.layout,
        .memory = &w->vm.memory.reader,
        .code = &w->vm.live_code,
        .ring = w->ring,
        .counters = &w->counters,
        .clock_offset_ns = w->unix_ns,
        .interval_us = plan->interval_us,
        .cpu_permille = plan->permille,
        .ranking = {{.top = plan->top == 0 ? PROCESSES : plan->top, .is_delta = 1, .every = 1}},
        .rankings = 1,
        .select_interval_ms = plan->select_ms == 0 ? 1000 : plan->select_ms,
        .status = -1};
    CHECK_INT(fp_sampler_create(&w->sampler, &w->sampling), 0);
}

static void create_writer(struct world *w)
{
    const struct plan *plan = &w->plan;
    struct fp_sink_options files = {.directory = w->folder.path,
                                    .sync = FP_SYNC_NONE,
                                    .is_zst = plan->is_zst,
                                    .flushes_per_file = plan->flushes_per_file,
                                    .max_total_bytes = plan->most_bytes,
                                    .lookback_ms = plan->lookback_ms};
    struct fp_writer_options options = {.ring = w->ring,
                                        .counters = &w->counters,
                                        .script = {.os_pid = 1,
                                                   .symbolizer = &w->symbolizer,
                                                   .coalesce_idle = plan->merges,
                                                   .stats = &w->counters},
                                        .engine = "native",
                                        .flush_interval_ms = plan->flush_ms,
                                        .note = "",
                                        .clock = &w->clock,
                                        .reads_clock = 1,
                                        .notify = notify,
                                        .arg = w};
    char why[256];

    CHECK_INT(fp_sink_open(&w->sink, &files, why, sizeof why), 0);
    options.sink = w->sink;
    CHECK_INT(fp_writer_create(&w->writer, &options), 0);
}

static void truth_create(struct world *w);

static struct world *world_create(const struct plan *plan)
{
    struct world *w = calloc(1, sizeof *w);

    CHECK(w != NULL);
    world = w;
    w->plan = *plan;
    w->random = plan->seed;
    w->now_ns = 1000 * SECOND;
    step_clock(w, UNIX_NS + (int64_t)chance(w, 1000000) * 1000);
    virtual_clock = read_world_clock;
    virtual_sleep = NULL;
    faulty_disk_mend();
    faulty_hang = hang;
    fake_vm_create(&w->vm, 27, TABLE, 2 * PROCESSES);
    fake_schedulers_create(&w->vm);
    w->vm.memory.before_read = before_read;
    w->vm.memory.arg = w;
    for (unsigned at = 0; at < SCHEDULERS; at++)
        w->runs[at] = w->open[at] = -1;
    for (unsigned f = 0; f < FUNCTIONS; f++)
        w->version[f] = -1;
    CHECK_INT(fp_ring_create(&w->ring, plan->ring_bytes == 0 ? 1u << 20 : plan->ring_bytes), 0);
    for (int module = 0; module < (int)MODULES; module++)
        load_module(w, module);
    w->symbolizer = (struct fp_symbolizer){w, resolve, no_atom, revalidate};
    atomic_store(&w->online, SCHEDULERS);
    atomic_store(&w->clock.offset_us, w->unix_ns / 1000);
    w->sampler_at = w->writer_at = w->now_ns;
    w->event_at = plan->events_us == 0 ? INT64_MAX : w->now_ns;
    temporary_make(&w->folder);
    truth_create(w);
    create_sampler(w);
    create_writer(w);
    return w;
}

/* Nothing happens any more; captures that are asked for come within the time that the end waits,
 * or they do not. */
static void sleep_to_the_end(int64_t until_ns)
{
    for (unsigned at = 0; at < SCHEDULERS; at++)
        if (world->open[at] >= 0 && !world->question[world->open[at]].is_answered &&
            world->question[world->open[at]].answer_ns <= until_ns)
            answer(world, at);
    world->now_ns = until_ns;
}

static void world_stop(struct world *w)
{
    int64_t from_ns = w->now_ns;

    virtual_sleep = sleep_to_the_end;
    for (unsigned at = 0; at < SCHEDULERS; at++)
        if (w->open[at] >= 0 && chance(w, 2))
            w->question[w->open[at]].answer_ns = INT64_MAX; /* it does not come */
    w->thread = SAMPLER;
    fp_sampler_end(w->sampler);
    w->thread = NOBODY;
    truth_step(w, SAMPLER, from_ns);
    w->hangs_until = 0;
    fp_writer_stop(w->writer);
    while (!w->has_stopped)
        writer_step(w);
}

static void world_destroy(struct world *w)
{
    fp_sampler_destroy(w->sampler);
    fp_writer_destroy(w->writer);
    fp_ring_destroy(w->ring);
    fake_vm_destroy(&w->vm);
    temporary_remove(&w->folder);
    free(w->tick);
    free(w->question);
    free(w->truth);
    free(w);
    world = NULL;
}
