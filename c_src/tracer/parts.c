#include "tracer/parts.h"

#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/histogram.h"
#include "base/relaxed.h"
#include "tracer/latency.h"

/* The lowest bits of a state. The others count how often the entry was claimed. */
enum { FREE, CLAIMED, READY, STATES = 4 };

static uint32_t state_of(const struct fp_part_name *part)
{
    return atomic_load_explicit(&part->state, memory_order_acquire);
}

/* The reader may free the entry meanwhile, and a thread claim it for another key: then what is read
 * of that key was released after the claim, and the state is another one. */
static int is_of(const struct fp_part_name *part, uint32_t function, const uint64_t key[3])
{
    uint32_t state = state_of(part);

    if (state % STATES != READY ||
        atomic_load_explicit(&part->function, memory_order_acquire) != function)
        return 0;
    for (size_t i = 0; i < 3; i++)
        if (atomic_load_explicit(&part->key[i], memory_order_acquire) != key[i])
            return 0;
    return state_of(part) == state;
}

/* 0: another thread has it. */
static int claim(struct fp_part_name *part, uint32_t function, const uint64_t key[3])
{
    uint32_t state = state_of(part), claimed = state - state % STATES + STATES + CLAIMED;

    if (state % STATES != FREE || !atomic_compare_exchange_strong(&part->state, &state, claimed))
        return 0;
    atomic_store_explicit(&part->function, function, memory_order_release);
    for (size_t i = 0; i < 3; i++)
        atomic_store_explicit(&part->key[i], key[i], memory_order_release);
    atomic_store_explicit(&part->state, claimed - CLAIMED + READY, memory_order_release);
    return 1;
}

uint32_t fp_parts_find(struct fp_parts *parts, uint32_t function, const uint64_t key[3])
{
    uint64_t hash = fp_hash_two(fp_hash_two(key[0], key[1]), key[2] << 8 | function);
    size_t free = FP_PARTS;

    for (size_t probe = 0; probe < FP_PARTS_PROBES; probe++) {
        size_t at = (hash + probe) & (FP_PARTS - 1);

        if (is_of(&parts->names[at], function, key))
            return (uint32_t)at;
        if (free == FP_PARTS && state_of(&parts->names[at]) % STATES == FREE)
            free = at;
    }
    if (free != FP_PARTS && claim(&parts->names[free], function, key))
        return (uint32_t)free;
    return (uint32_t)(FP_PARTS + function);
}

/* A count's word has the part and the bucket, more than 0, above, and how often below. */
#define COUNT_BITS 32
#define OVER FP_HISTOGRAM_BUCKETS /* the bucket of what is too long for one */
#define BUCKET_BITS 12
_Static_assert(OVER < (size_t)1 << BUCKET_BITS, "a bucket finds room in a word");
_Static_assert(FP_PARTS + FP_PARTS_OTHERS < (size_t)1 << (64 - COUNT_BITS - BUCKET_BITS),
               "a part finds room in a word");

static uint64_t key_of(uint32_t part, uint64_t ns)
{
    size_t bucket = ns < FP_HISTOGRAM_END_NS ? fp_histogram_bucket(ns) : OVER;

    return ((uint64_t)part << BUCKET_BITS | bucket) + 1;
}

/* A count comes after the name of its part: release here, acquire in take(). */
static void count(struct fp_parts_thread *own, uint32_t part, uint64_t ns)
{
    uint64_t key = key_of(part, ns), hash = fp_hash_two(key, 0);

    for (size_t probe = 0; probe < FP_PARTS_PROBES; probe++) {
        _Atomic uint64_t *word = &own->counts[(hash + probe) & (FP_PARTS_COUNTS - 1)];
        uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

        while (old == 0 || old >> COUNT_BITS == key)
            if (atomic_compare_exchange_weak_explicit(word, &old,
                                                      old == 0 ? key << COUNT_BITS | 1 : old + 1,
                                                      memory_order_release, memory_order_relaxed))
                return;
    }
    fp_relaxed_add(&own->missing, 1);
}

/* The calls last: what the reader counts has its time in the sums, and its longest was there to be
 * taken. Release here, acquire in drain_parts. */
void fp_parts_add(struct fp_parts *parts, uint32_t thread, uint32_t at, uint64_t ns,
                  uint64_t own_ns)
{
    struct fp_parts_thread *own = &parts->threads[thread];
    struct fp_part_sums *sums = &own->sums[at];

    if (!FP_CHECK(thread < parts->thread_count && at < FP_PARTS + FP_PARTS_OTHERS))
        return;
    if (fp_relaxed_get(&own->is_used) == 0)
        atomic_store_explicit(&own->is_used, 1, memory_order_release);
    fp_relaxed_add(&sums->total_ns, ns);
    if (own_ns != 0)
        fp_relaxed_add(&sums->own_ns, own_ns);
    if (ns > fp_relaxed_get(&sums->max_ns))
        atomic_store_explicit(&sums->max_ns, ns, memory_order_relaxed);
    count(own, at, ns);
    atomic_store_explicit(&sums->calls, fp_relaxed_get(&sums->calls) + 1, memory_order_release);
}

uint64_t fp_parts_missing(const struct fp_parts *parts)
{
    uint64_t missing = 0;

    for (uint32_t i = 0; i < parts->thread_count; i++)
        missing += fp_relaxed_get(&parts->threads[i].missing);
    return missing;
}

static uint64_t take(_Atomic uint64_t *counter)
{
    return atomic_exchange_explicit(counter, 0, memory_order_acquire);
}

/* Of an entry that is in use. */
static void name(const struct fp_parts *parts, size_t at, uint32_t *function, uint64_t key[3])
{
    memset(key, 0, 3 * sizeof *key);
    *function = (uint32_t)(at - FP_PARTS);
    if (at < FP_PARTS) {
        *function = atomic_load_explicit(&parts->names[at].function, memory_order_relaxed);
        for (size_t i = 0; i < 3; i++)
            key[i] = fp_relaxed_get(&parts->names[at].key[i]);
    }
}

static void drain_thread(struct fp_parts *parts, struct fp_parts_thread *thread,
                         void (*each)(void *with, const struct fp_latency_bucket *bucket),
                         void *with)
{
    struct fp_latency_bucket told;

    for (size_t i = 0; i < FP_PARTS_COUNTS; i++) {
        uint64_t word = 0, key;

        if (fp_relaxed_get(&thread->counts[i]) != 0)
            word = take(&thread->counts[i]);
        if (word == 0)
            continue;
        key = (word >> COUNT_BITS) - 1;
        told.bucket = (size_t)key & (((size_t)1 << BUCKET_BITS) - 1);
        told.count = word & ((UINT64_C(1) << COUNT_BITS) - 1);
        if (!FP_CHECK(key >> BUCKET_BITS < FP_PARTS + FP_PARTS_OTHERS))
            continue;
        name(parts, (size_t)(key >> BUCKET_BITS), &told.function, told.key);
        each(with, &told);
    }
}

static int is_used(const struct fp_parts_thread *thread)
{
    return atomic_load_explicit(&thread->is_used, memory_order_acquire) != 0;
}

void fp_parts_drain_buckets(struct fp_parts *parts,
                            void (*each)(void *with, const struct fp_latency_bucket *bucket),
                            void *with)
{
    for (uint32_t i = 0; i < parts->thread_count; i++)
        if (is_used(&parts->threads[i]))
            drain_thread(parts, &parts->threads[i], each, with);
}

static uint64_t calls_of(const struct fp_parts *parts, size_t at)
{
    uint64_t calls = 0;

    for (uint32_t i = 0; i < parts->thread_count; i++)
        if (is_used(&parts->threads[i]))
            calls += atomic_load_explicit(&parts->threads[i].sums[at].calls, memory_order_acquire);
    return calls;
}

/* The sums of all threads, without what was told before; all of it is told then. */
static void take_sums(struct fp_parts *parts, size_t at, struct fp_latency_part *told)
{
    uint64_t calls = calls_of(parts, at), total_ns = 0, own_ns = 0, max_ns = 0;

    for (uint32_t i = 0; i < parts->thread_count; i++) {
        struct fp_part_sums *sums = &parts->threads[i].sums[at];
        uint64_t longest;

        if (!is_used(&parts->threads[i]))
            continue;
        total_ns += fp_relaxed_get(&sums->total_ns);
        own_ns += fp_relaxed_get(&sums->own_ns);
        longest = fp_relaxed_get(&sums->max_ns) == 0 ? 0 : take(&sums->max_ns);
        max_ns = longest > max_ns ? longest : max_ns;
    }
    told->calls = calls - parts->told[at].calls;
    told->total_ns = total_ns - parts->told[at].total_ns;
    told->own_ns = own_ns - parts->told[at].own_ns;
    told->max_ns = max_ns;
    parts->told[at].calls = calls;
    parts->told[at].total_ns = total_ns;
    parts->told[at].own_ns = own_ns;
}

/* By the reader, which alone changes the state of an entry that is ready. */
static void make_free(struct fp_part_name *part)
{
    atomic_store_explicit(&part->state, state_of(part) - READY + FREE, memory_order_release);
}

void fp_parts_drain_parts(struct fp_parts *parts,
                          void (*each)(void *with, const struct fp_latency_part *part),
                          int (*lives)(void *with, uint64_t key), void *with)
{
    for (size_t i = 0; i < FP_PARTS + FP_PARTS_OTHERS; i++) {
        struct fp_latency_part told;

        if (i < FP_PARTS && state_of(&parts->names[i]) % STATES != READY)
            continue;
        name(parts, i, &told.function, told.key);
        if (calls_of(parts, i) == parts->told[i].calls) {
            /* It may have added its last call since: the next drain tells that. */
            if (i < FP_PARTS && lives != NULL && !lives(with, told.key[0]) &&
                calls_of(parts, i) == parts->told[i].calls)
                make_free(&parts->names[i]);
            continue;
        }
        take_sums(parts, i, &told);
        each(with, &told);
    }
}
