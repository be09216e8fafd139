#include "tracer/population.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pages.h"
#include "erts/abandoned.h"
#include "erts/process.h"
#include "erts/process_table.h"

/* Slots beyond share places. */
#define PLACES_MAX (1u << 20)
/* So many processes are all current, always. */
#define FEW 256u
#define MEMBERS 128.0 /* of a group that is current for PERIOD_NS */
#define PERIOD_NS INT64_C(500000000)
/* A look takes such a part of the time. */
#define LOOK_PART 200
/* Between the first two looks, which tell what each process does. */
#define FIRST_MS 100
/* Who has done such a part of the work is busy, and no more when it does half of that. */
#define BUSY_PART_LEAST 256u
/* One that stands for its group's share of all does no more than such a part of the work. */
#define BUSY_PART_OF_ALL 16u
/* A heap that takes some half a millisecond to collect. */
#define LARGE_WORDS 65536u
#define GROUPS_LOG_MAX 16u
#define NONE UINT64_MAX

enum state {
    REST,     /* its group's turn tells */
    BECOMING, /* as REST, until its flag is set */
    ALWAYS,
};

struct member {
    _Atomic uint64_t pid; /* releases what the others are */
    _Atomic uint32_t state, has_flag;
    uint64_t reductions, look; /* of the last look that saw it */
};

struct live {
    uint64_t pid, work;
    struct member *place; /* NULL: it shares one with another, and has a flag and the weight 1 */
    uint8_t is_large, has_flag, wants_flag; /* has_flag: it is new, and has it since its birth */
};

struct fp_population {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    struct member *place;
    uint32_t mask, seed;
    _Atomic uint64_t current, next; /* k << 32 | group, or NONE */
    /* Of the look. Then the first `todo` are those that something is left to be done for. */
    struct live *live;
    size_t live_count, todo, done;
    uint64_t looks, rotation;
    uint32_t k;
    int is_looked;
    int was_all, had_all; /* new ones had the flag at the last look, and since the one before */
    int64_t due_ns, period_ns, begun_ns;
    struct fp_births births;
    double words, rate;
    uint32_t rate_of; /* k, and whether there was a phase */
    _Atomic double variance;
};

static uint64_t load(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_acquire);
}

static struct member *place_of(const struct fp_population *population, uint64_t pid)
{
    return &population->place[fp_pid_slot(population->layout, pid) & population->mask];
}

/* ------------------------------------------------------------- schedulers -- */

static int is_in(const struct fp_population *population, uint64_t group, uint64_t pid)
{
    uint32_t k = (uint32_t)(group >> 32), number, serial;

    if (group == NONE || k == 0)
        return group != NONE;
    fp_pid_numbers(population->layout, pid, &number, &serial);
    return (number * UINT32_C(0x9e3779b9) + population->seed) >> (32 - k) == (uint32_t)group;
}

double fp_population_weight(const struct fp_population *population, uint64_t pid)
{
    const struct member *place = place_of(population, pid);
    uint64_t current;

    if (load(&place->pid) != pid)
        return fp_births_weight(&population->births);
    if (atomic_load_explicit(&place->state, memory_order_acquire) == ALWAYS)
        return 1;
    current = load(&population->current);
    return is_in(population, current, pid) ? (double)(UINT64_C(1) << (current >> 32)) : 0;
}

int fp_population_keeps(struct fp_population *population, uint64_t pid)
{
    struct member *place = place_of(population, pid);

    if (load(&place->pid) != pid ||
        atomic_load_explicit(&place->state, memory_order_acquire) != REST ||
        is_in(population, load(&population->current), pid) ||
        is_in(population, load(&population->next), pid))
        return 1;
    atomic_store_explicit(&place->has_flag, 0, memory_order_release);
    return 0;
}

/* ------------------------------------------------------------------- look -- */

/* The first look does not know since when they have worked. One that may have the flag gets it
 * again: else it might never have it. */
static void meet(struct fp_population *population, struct member *place, struct live *live,
                 uint64_t reductions)
{
    int is_first = population->looks == 1;

    live->has_flag = !is_first && population->had_all;
    live->work = is_first ? 0 : reductions;
    atomic_store_explicit(&place->state, REST, memory_order_relaxed);
    atomic_store_explicit(&place->has_flag, live->has_flag, memory_order_relaxed);
    atomic_store_explicit(&place->pid, live->pid, memory_order_release);
}

static int see(void *arg, uint64_t address, const unsigned char *structure)
{
    struct fp_population *population = arg;
    const struct fp_layout *layout = population->layout;
    struct live *live = &population->live[population->live_count];
    uint64_t reductions = fp_process_field(layout, structure, FP_FIELD_reds);
    uint32_t hend_at = layout->release.offset[FP_FIELD_hend];
    struct member *place;

    (void)address;
    if (population->live_count == layout->process_limit)
        return 0; /* slots that were read twice, while processes came and went */
    population->live_count++;
    *live = (struct live){.pid = fp_process_field(layout, structure, FP_FIELD_id)};
    live->is_large = fp_word_at(structure, hend_at + FP_SIZE_BEHIND_HEND) >= LARGE_WORDS;
    place = place_of(population, live->pid);
    if (place->look == population->looks)
        return 0;
    if (load(&place->pid) != live->pid)
        meet(population, place, live, reductions);
    else if (reductions > place->reductions)
        live->work = reductions - place->reductions;
    place->reductions = reductions;
    place->look = population->looks;
    live->place = place;
    return 0;
}

static uint32_t groups_log(const struct fp_population *population)
{
    double most = MEMBERS * (double)population->period_ns / (double)PERIOD_NS;
    double n = (double)population->live_count, members;
    uint32_t k = 0;

    if (n <= (population->k > 0 ? FEW / 2 : FEW))
        return 0;
    members = n / (double)(UINT64_C(1) << population->k);
    if (population->k > 0 && members > most / 3 && members < most * 1.5)
        return population->k;
    while (k < GROUPS_LOG_MAX && n > most * (double)(UINT64_C(1) << k))
        k++;
    return k;
}

static double busy_part(const struct fp_population *population)
{
    uint32_t part = BUSY_PART_OF_ALL << population->k;

    return part > BUSY_PART_LEAST ? part : BUSY_PART_LEAST;
}

/* 1: something is left to be done. */
static int decide(struct fp_population *population, struct fp_turns *turns, struct live *live,
                  double all)
{
    struct member *place = live->place;
    double work = (double)live->work * busy_part(population);
    uint32_t state;

    live->wants_flag = place == NULL;
    if (place == NULL)
        return 1;
    if (fp_turns_find(turns, live->pid) != NULL)
        return 0;
    state = atomic_load_explicit(&place->state, memory_order_relaxed);
    if (work > all || live->is_large)
        state = state == ALWAYS || live->has_flag ? ALWAYS : BECOMING;
    else if (state != REST && work <= all / 2)
        state = REST;
    atomic_store_explicit(&place->state, state, memory_order_seq_cst);
    if (state != REST || is_in(population, load(&population->next), live->pid))
        live->wants_flag = !atomic_exchange_explicit(&place->has_flag, 1, memory_order_seq_cst);
    return live->wants_flag || state == BECOMING;
}

static int look(struct fp_population *population, struct fp_turns *turns,
                const struct fp_births_count *count)
{
    int are_all = fp_births_look(&population->births, count) || population->layout->births == 0;
    int err;
    uint64_t group;
    double all = 0;

    population->live_count = population->todo = population->done = 0;
    population->looks++;
    population->had_all = population->was_all && are_all;
    population->was_all = are_all;
    err = fp_processes_each(population->layout, population->memory, see, population);
    if (err != 0)
        return err;
    if (population->looks == 1 && population->live_count > FEW)
        return FIRST_MS;
    population->k = groups_log(population);
    group = population->rotation++ & ((UINT64_C(1) << population->k) - 1);
    atomic_store_explicit(&population->next, (uint64_t)population->k << 32 | group,
                          memory_order_seq_cst);
    for (size_t i = 0; i < population->live_count; i++)
        all += (double)population->live[i].work;
    for (size_t i = 0; i < population->live_count; i++)
        if (decide(population, turns, &population->live[i], all))
            population->live[population->todo++] = population->live[i];
    population->is_looked = 1;
    return 0;
}

int fp_population_wants_look(const struct fp_population *population, int64_t now)
{
    return !population->is_looked && now >= population->due_ns;
}

int fp_population_look(struct fp_population *population, struct fp_turns *turns, int64_t now,
                       const struct fp_births_count *count)
{
    int64_t cpu = (int64_t)fp_thread_cpu_ns(), period;
    int answer = look(population, turns, count);

    period = LOOK_PART * ((int64_t)fp_thread_cpu_ns() - cpu);
    population->period_ns = period > PERIOD_NS ? period : PERIOD_NS;
    population->due_ns = answer > 0 ? now : now + population->period_ns;
    return answer;
}

/* -------------------------------------------------------------------- due -- */

/* By what processes that stand for others have done since the last call, and before. */
static void compare(struct fp_population *population, int64_t now, double words, int was_phase)
{
    uint64_t current = load(&population->current);
    uint32_t rate_of = current == NONE ? 0 : (uint32_t)(current >> 32) * 2 + (uint32_t)was_phase;
    double ns = (double)(now - population->begun_ns), rate, less;

    if (rate_of == 0 || rate_of != population->rate_of || ns <= 0)
        population->rate = -1;
    if (rate_of > 0 && ns > 0) {
        rate = (words - population->words) / ns;
        less = population->rate < 0 ? 0 : (rate - population->rate) * ns;
        atomic_store_explicit(&population->variance,
                              fp_population_variance(population) + less * less / 2,
                              memory_order_relaxed);
        population->rate = rate;
    }
    population->rate_of = rate_of;
    population->words = words;
    population->begun_ns = now;
}

/* All flags of what the look has said are set. */
static void begin(struct fp_population *population, int64_t now,
                  const struct fp_population_seen *seen)
{
    int was_phase = 0;

    /* Where two may share a place, it is not known of each whether a look has seen it. */
    if (population->layout->births != 0 &&
        population->mask >= population->layout->process_limit - 1)
        was_phase =
            fp_births_looked(&population->births, now, population->period_ns, &seen->births);
    compare(population, now, seen->words, was_phase);
    for (size_t i = 0; i < population->todo; i++) {
        struct member *place = population->live[i].place;

        if (place != NULL && atomic_load_explicit(&place->state, memory_order_relaxed) == BECOMING)
            atomic_store_explicit(&place->state, ALWAYS, memory_order_release);
    }
    atomic_store_explicit(&population->current, load(&population->next), memory_order_release);
    population->due_ns = now + population->period_ns;
    population->is_looked = 0;
}

uint32_t fp_population_due(struct fp_population *population, int64_t now,
                           const struct fp_population_seen *seen, uint64_t *pids, uint32_t most)
{
    uint32_t count = 0;

    if (!population->is_looked || most == 0)
        return 0;
    for (; count < most && population->done < population->todo; population->done++)
        if (population->live[population->done].wants_flag)
            pids[count++] = population->live[population->done].pid;
    if (count == 0)
        begin(population, now, seen);
    return count;
}

enum fp_births_switch fp_population_switch(struct fp_population *population, int64_t now,
                                           const struct fp_population_seen *seen, uint32_t *ask_ms)
{
    return fp_births_due(&population->births, now, &seen->births, ask_ms);
}

double fp_population_variance(const struct fp_population *population)
{
    return atomic_load_explicit(&population->variance, memory_order_relaxed);
}

/* --------------------------------------------------------------- lifetime -- */

static size_t places_bytes(const struct fp_population *population)
{
    return ((size_t)population->mask + 1) * sizeof *population->place;
}

static size_t live_bytes(const struct fp_population *population)
{
    return (size_t)population->layout->process_limit * sizeof *population->live;
}

int fp_population_create(struct fp_population **out, const struct fp_layout *layout,
                         const struct fp_memory *memory, uint64_t seed, int64_t now,
                         const struct fp_births_count *births)
{
    struct fp_population *made = calloc(1, sizeof *made);
    uint32_t places = 1;

    if (made == NULL)
        return FP_ENOMEM;
    while (places < layout->process_limit && places < PLACES_MAX)
        places *= 2;
    made->layout = layout;
    made->memory = memory;
    made->mask = places - 1;
    made->seed = (uint32_t)(seed * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    made->period_ns = PERIOD_NS;
    made->rate = -1;
    made->was_all = 1;
    fp_births_init(&made->births, seed, now, births);
    atomic_init(&made->current, NONE);
    atomic_init(&made->next, NONE);
    made->place = fp_pages_reserve(places_bytes(made));
    made->live = fp_pages_reserve(live_bytes(made));
    if (made->place == NULL || made->live == NULL) {
        fp_population_destroy(made);
        return FP_ENOMEM;
    }
    *out = made;
    return 0;
}

void fp_population_destroy(struct fp_population *population)
{
    if (population == NULL)
        return;
    fp_pages_free(population->place, places_bytes(population));
    fp_pages_free(population->live, live_bytes(population));
    free(population);
}
