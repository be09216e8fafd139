#include "erts/allocators_solve.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"

/* ErtsAllocatorThrSpec_t (erl_alloc.h). */
struct thread_entry {
    uint32_t is_enabled, is_delayed, number, size;
    uint64_t instances;
};

/* ErtsAllocatorInfo_t. `extra`: the entry above, or the one instance. */
struct info_entry {
    uint32_t is_alloc_util, is_enabled, size, padding;
    uint64_t extra;
};
_Static_assert(sizeof(struct thread_entry) == 24 && sizeof(struct info_entry) == 24,
               "as the VM has them");

/* The entry of sys_alloc is empty in the one array and different in the other. */
#define FIRST FP_ALLOCATOR_temp_alloc
#define ENTRIES (FP_ALLOCATOR_COUNT - FIRST)
#define TABLE_BYTES (ENTRIES * 24u)
/* One for each scheduler, dirty ones and threads without any. */
#define INSTANCES_MAX 4096u

static int refuse(struct fp_refusal *refusal, int err, const char *why)
{
    return fp_refuse(refusal, err, "allocators", "%s", why);
}

struct fp_allocator_instance *fp_allocators_instance(struct fp_allocators *allocators,
                                                     enum fp_allocator allocator, uint32_t number)
{
    for (uint32_t i = 0; i < allocators->count; i++)
        if (allocators->instance[i].allocator == allocator &&
            allocators->instance[i].number == number)
            return &allocators->instance[i];
    return NULL;
}

/* ----------------------------------------------------------------- arrays -- */

struct search {
    const struct fp_memory *memory;
    struct thread_entry thread[ENTRIES];
    uint64_t table;
};

static int fits_threads(void *arg, uint64_t address, const unsigned char *at)
{
    struct thread_entry entry;

    (void)arg;
    (void)address;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        memcpy(&entry, at + i * sizeof entry, sizeof entry);
        if (entry.number != FIRST + 1 + i || entry.is_enabled > 1 || entry.is_delayed > 1 ||
            (entry.is_enabled ? entry.size < 2 || entry.size > INSTANCES_MAX : entry.size != 0) ||
            (entry.instances != 0) != entry.is_enabled || entry.instances % 8 != 0)
            return 0;
    }
    return 1;
}

static int fits_info(void *arg, uint64_t address, const unsigned char *at)
{
    const struct search *search = arg;
    struct info_entry entry;

    (void)address;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const struct thread_entry *thread = &search->thread[i];

        memcpy(&entry, at + i * sizeof entry, sizeof entry);
        if (entry.is_enabled > 1 || entry.is_alloc_util != entry.is_enabled ||
            entry.size != thread->size || entry.padding != 0 || entry.extra % 8 != 0 ||
            (entry.extra != 0) != entry.is_enabled)
            return 0;
        if (thread->is_enabled && entry.extra != search->table + i * sizeof *thread)
            return 0;
    }
    return 1;
}

static uint32_t instances_of(const struct thread_entry *thread, const struct info_entry *info)
{
    return thread->is_enabled ? thread->size : info->is_enabled;
}

/* 0 or FP_EFAULT. */
static int add_instances(struct fp_allocators *to, const struct fp_memory *memory,
                         enum fp_allocator allocator, const struct thread_entry *thread,
                         const struct info_entry *info)
{
    uint32_t n = instances_of(thread, info);
    int err = 0;

    for (uint32_t i = 0; err == 0 && i < n; i++) {
        uint64_t address = info->extra;

        if (thread->is_enabled)
            err = fp_safe_read_word(memory, thread->instances + 8 * (uint64_t)i, &address);
        if (err == 0 && address != 0)
            to->instance[to->count++] = (struct fp_allocator_instance){
                .address = address, .number = (uint16_t)i, .allocator = (uint8_t)allocator};
    }
    return err;
}

static int make(struct fp_allocators **made, const struct search *search, uint64_t found)
{
    struct info_entry info[ENTRIES];
    struct fp_allocators *allocators;
    uint32_t n = 0;
    int err = fp_safe_read(search->memory, found, info, sizeof info);

    if (err != 0)
        return err;
    for (uint32_t i = 0; i < ENTRIES; i++)
        n += instances_of(&search->thread[i], &info[i]);
    allocators = calloc(1, sizeof *allocators + n * sizeof *allocators->instance);
    if (allocators == NULL)
        return FP_ENOMEM;
    for (uint32_t i = 0; err == 0 && i < ENTRIES; i++)
        err = add_instances(allocators, search->memory, FIRST + i, &search->thread[i], &info[i]);
    if (err == 0)
        *made = allocators;
    else
        free(allocators);
    return err;
}

int fp_allocators_find(struct fp_allocators **allocators, const struct fp_memory *memory,
                       const struct fp_ranges *data, struct fp_refusal *refusal)
{
    struct search search = {.memory = memory};
    uint64_t found = 0;
    int err = fp_scan(memory, data, TABLE_BYTES, fits_threads, NULL, &search.table);

    if (err != 0)
        return refuse(refusal, err,
                      err == FP_ENOENT ? "nothing in the VM's data is the array of instances"
                                       : "more than one place in the VM's data fits");
    err = fp_safe_read(memory, search.table, search.thread, sizeof search.thread);
    if (err == 0)
        err = fp_scan(memory, data, TABLE_BYTES, fits_info, &search, &found);
    if (err == 0)
        err = make(allocators, &search, found);
    return err == 0 ? 0 : refuse(refusal, err, "the array of allocators was not found");
}

/* ---------------------------------------------------------------- offsets -- */

/* Of an Allctr_t: 25, 27 and 29 have 2.4 KB before what the strategy adds. */
#define WINDOW_WORDS 512u

struct window {
    uint64_t word[WINDOW_WORDS];
};

struct offsets {
    uint32_t at, agree, candidates;
    uint8_t is_seen[FP_ALLOCATOR_COUNT]; /* by an instance that agrees */
};

static int is_pool(const uint64_t *word, const uint64_t *expected)
{
    size_t behind = (FP_POOL_WORDS - FP_POOL_OPTIONS) * 8;

    return memcmp(word, expected, (FP_POOL_OPTIONS - 1) * 8) == 0 &&
           memcmp(word + FP_POOL_OPTIONS, expected + FP_POOL_OPTIONS, behind) == 0;
}

/* So many words of an instance are not 0, or a place full of zeros fits as well. */
#define TELLING_WORDS 6u

static int is_telling(const uint64_t *word, uint32_t n)
{
    uint32_t telling = 0;

    for (uint32_t i = 0; i < n; i++)
        telling += word[i] != 0;
    return telling >= TELLING_WORDS;
}

static void count_agreeing(struct offsets *offsets, uint32_t at, const struct window *window,
                           const struct fp_allocator_fact *fact, size_t facts, int is_of_pool)
{
    uint32_t agree = 0;

    for (size_t i = 0; i < facts; i++) {
        const uint64_t *word = &window[i].word[at];
        int fits = is_of_pool
                       ? fact[i].has_pool && fact[i].pool[0] != 0 && fact[i].pool[2] != 0 &&
                             is_pool(word, fact[i].pool)
                       : is_telling(fact[i].statistics, FP_STATISTICS_WORDS) &&
                             memcmp(word, fact[i].statistics, sizeof fact[i].statistics) == 0;

        agree += (uint32_t)fits;
    }
    if (agree == 0)
        return;
    offsets->candidates++;
    offsets->at = at * 8;
    offsets->agree = agree;
}

static void find_offset(struct offsets *offsets, const struct window *window,
                        const struct fp_allocator_fact *fact, size_t facts, int is_of_pool)
{
    uint32_t words = is_of_pool ? FP_POOL_WORDS : FP_STATISTICS_WORDS;

    memset(offsets, 0, sizeof *offsets);
    for (uint32_t at = 0; at + words <= WINDOW_WORDS; at++)
        count_agreeing(offsets, at, window, fact, facts, is_of_pool);
}

/* 0, FP_EFAULT, or FP_ENOENT: Erlang says of an instance that was not found, or has another number
 * of them. */
static int read_windows(struct window *window, struct fp_allocators *allocators,
                        const struct fp_memory *memory, const struct fp_allocator_fact *fact,
                        size_t facts)
{
    if (facts != allocators->count)
        return FP_ENOENT;
    for (size_t i = 0; i < facts; i++) {
        struct fp_allocator_instance *instance =
            fp_allocators_instance(allocators, fact[i].allocator, fact[i].number);
        int err = instance == NULL
                      ? FP_ENOENT
                      : fp_safe_read(memory, instance->address, window[i].word, sizeof *window);

        if (err != 0)
            return err;
        instance->has_tree = fact[i].has_tree != 0;
        instance->is_pooled = fact[i].has_pool != 0;
    }
    return 0;
}

static int solve(struct fp_allocators *allocators, const struct window *window,
                 const struct fp_allocator_fact *fact, size_t facts, struct fp_refusal *refusal)
{
    struct offsets statistics, pool;

    find_offset(&statistics, window, fact, facts, 0);
    if (statistics.candidates > 1)
        return refuse(refusal, FP_EAMBIGUOUS, "the statistics may be at more than one offset");
    if (statistics.agree < FP_ALLOCATORS_AGREE)
        return refuse(refusal, FP_ENOENT,
                      "too few instances hold what system_info says: the layout is another one, or "
                      "all of them are at work");
    find_offset(&pool, window, fact, facts, 1);
    if (pool.candidates > 1)
        return refuse(refusal, FP_EAMBIGUOUS, "the pool of carriers may be at several offsets");
    allocators->statistics = statistics.at;
    allocators->pool = pool.at;
    allocators->has_pool = pool.candidates == 1;
    for (size_t i = 0; i < facts; i++)
        if (fact[i].has_pool && !allocators->has_pool)
            return refuse(refusal, FP_ENOENT, "the pool of carriers was not found");
    return 0;
}

int fp_allocators_solve(struct fp_allocators *allocators, const struct fp_memory *memory,
                        const struct fp_allocator_fact *fact, size_t facts,
                        struct fp_refusal *refusal)
{
    size_t bytes = (facts + 1) * sizeof(struct window);
    struct window *window = fp_pages_alloc(bytes);
    int err;

    if (window == NULL)
        return refuse(refusal, FP_ENOMEM, fp_err_text(FP_ENOMEM));
    err = read_windows(window, allocators, memory, fact, facts);
    if (err == 0)
        err = solve(allocators, window, fact, facts, refusal);
    else
        refuse(refusal, err,
               err == FP_ENOENT ? "system_info tells of other instances than were found"
                                : "an instance is not readable");
    fp_pages_free(window, bytes);
    return err;
}
