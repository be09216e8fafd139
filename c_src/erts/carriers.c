#include "erts/carriers.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "erts/allocators_solve.h"

/* Carrier_t: size and flags, next, previous, allocator; then what the pool has of it. */
struct carrier_head {
    uint64_t header, next;
};
#define SIZE_MASK (~UINT64_C(7))
#define POOL_IN_CARRIER 32u
/* From the list of multi-block carriers on (Allctr_t). */
#define SINGLE_LIST 16u
#define SENTINEL 56u
/* Before the counters: 2 KB are more than the VM has there. */
#define LISTS_MAX 2048u
#define TRIES 3
/* Marks in the pointers of the pool's ring. */
#define POINTER_MASK (~UINT64_C(3))
#define CARRIERS_MAX (1u << 22)

static int add(struct fp_carriers *to, uint64_t start, uint64_t size)
{
    if (to->count == to->room) {
        uint32_t room = to->room == 0 ? 1024 : 2 * to->room;
        struct fp_range *range =
            to->room == 0
                ? fp_pages_alloc(room * sizeof *range)
                : fp_pages_resize(to->range, to->room * sizeof *range, room * sizeof *range);

        if (range == NULL)
            return FP_ENOMEM;
        to->range = range;
        to->room = room;
    }
    to->range[to->count++] = (struct fp_range){start, start + size};
    to->bytes += size;
    return 0;
}

/* Takes back what was added since. */
static void take_back(struct fp_carriers *to, uint32_t count, uint64_t bytes)
{
    to->count = count;
    to->bytes = bytes;
}

/* 0: so many carriers of so many bytes; FP_ETORN: others, which were taken back. */
static int walk_list(const struct fp_memory *memory, uint64_t list, uint64_t carriers,
                     uint64_t bytes, struct fp_carriers *to)
{
    uint32_t count = to->count;
    uint64_t before = to->bytes, end[2];
    struct carrier_head head = {0};
    uint64_t at, n = 0, last = 0;
    int err = fp_safe_read(memory, list, end, sizeof end);

    for (at = end[0]; err == 0 && at != 0 && n < carriers; at = head.next) {
        err = at % 8 != 0 ? FP_ETORN : fp_safe_read(memory, at, &head, sizeof head);
        if (err == 0)
            err = add(to, at, head.header & SIZE_MASK);
        last = at;
        n++;
    }
    if (err == 0 && at == 0 && n == carriers && to->bytes - before == bytes && last == end[1])
        return 0;
    take_back(to, count, before);
    return err == FP_ENOMEM ? err : FP_ETORN;
}

static uint64_t count_of(const struct fp_carriers_figures *figures)
{
    return figures->mseg_carriers + figures->sys_carriers;
}

static uint64_t bytes_of(const struct fp_carriers_figures *figures)
{
    return figures->mseg_bytes + figures->sys_bytes;
}

/* ---------------------------------------------------------------- offsets -- */

/* At which offset the instance's list of multi-block carriers proves itself: how many. */
static uint32_t count_places(const struct fp_memory *memory, uint64_t instance,
                             const struct fp_carriers_figures *multi, struct fp_carriers *scratch,
                             uint32_t *agree)
{
    uint32_t places = 0;

    for (uint32_t at = 0; at < LISTS_MAX; at += 8) {
        if (walk_list(memory, instance + at, count_of(multi), bytes_of(multi), scratch) != 0)
            continue;
        take_back(scratch, 0, 0);
        agree[at / 8]++;
        places++;
    }
    return places;
}

/* So many of the instances are walked. */
#define SOLVED 8u

static int choose(struct fp_allocators *allocators, const uint32_t *agree)
{
    uint32_t places = 0, at = 0;

    for (uint32_t i = 0; i < LISTS_MAX / 8; i++) {
        if (agree[i] == 0)
            continue;
        places++;
        at = i;
    }
    if (places > 1)
        return FP_EAMBIGUOUS;
    if (places == 0 || agree[at] < FP_ALLOCATORS_AGREE)
        return FP_ENOENT;
    allocators->lists = at * 8;
    return 0;
}

int fp_carriers_solve(struct fp_allocators *allocators, const struct fp_memory *memory)
{
    uint32_t agree[LISTS_MAX / 8] = {0}, solved = 0;
    struct fp_carriers scratch = {0};
    struct fp_allocator_figures *figures = calloc(allocators->count, sizeof *figures);
    int err = figures == NULL ? FP_ENOMEM : 0;

    if (err == 0 && fp_allocators_read(allocators, memory, 0, allocators->count, figures) < 0)
        err = FP_ENOMEM;
    for (uint32_t i = 0; err == 0 && i < allocators->count && solved < SOLVED; i++)
        if (figures[i].err == 0 && count_of(&figures[i].multi) > 0)
            solved += count_places(memory, allocators->instance[i].address, &figures[i].multi,
                                   &scratch, agree) > 0;
    free(figures);
    fp_carriers_free(&scratch);
    return err != 0 ? err : choose(allocators, agree);
}

/* ------------------------------------------------------------------- walk -- */

/* One instance's, tried again with its counters read anew. */
static int walk_instance(const struct fp_allocators *allocators, const struct fp_memory *memory,
                         uint32_t i, struct fp_allocator_figures *figures, struct fp_carriers *to)
{
    uint64_t list = allocators->instance[i].address + allocators->lists;
    int err = FP_ETORN;

    for (int try = 0; try < TRIES && err == FP_ETORN; try++) {
        uint32_t count = to->count;
        uint64_t bytes = to->bytes;

        if (try > 0 && fp_allocators_read(allocators, memory, i, i + 1, figures) != 1)
            return 0;
        err = walk_list(memory, list, count_of(&figures->multi), bytes_of(&figures->multi), to);
        if (err == 0)
            err = walk_list(memory, list + SINGLE_LIST, count_of(&figures->single),
                            bytes_of(&figures->single), to);
        if (err != 0)
            take_back(to, count, bytes);
    }
    return err == FP_ENOMEM ? err : 0;
}

/* The ring of one pool: 0, or FP_ETORN. `next`: its offset in what the pool has of a carrier. */
static int walk_ring(const struct fp_memory *memory, uint64_t sentinel, uint32_t next,
                     uint64_t pooled, struct fp_carriers *to)
{
    uint64_t at = 0, header = 0;
    int err = fp_safe_read_word(memory, sentinel + next, &at);

    at &= POINTER_MASK;
    for (uint32_t n = 0; err == 0 && at != sentinel; n++) {
        uint64_t carrier = at - POOL_IN_CARRIER;

        if (n == pooled || n == CARRIERS_MAX || at % 8 != 0)
            return FP_ETORN;
        err = fp_safe_read_word(memory, carrier, &header);
        if (err == 0)
            err = add(to, carrier, header & SIZE_MASK);
        if (err == 0)
            err = fp_safe_read_word(memory, at + next, &at);
        at &= POINTER_MASK;
    }
    return err;
}

static int walk_rings(const struct fp_allocators *allocators, const struct fp_memory *memory,
                      uint32_t next, uint64_t pooled, struct fp_carriers *to)
{
    uint64_t seen[FP_ALLOCATOR_COUNT] = {0}, sentinel;
    uint32_t count = 0, k;
    int err = 0;

    for (uint32_t i = 0; err == 0 && i < allocators->count; i++) {
        err = fp_safe_read_word(
            memory, allocators->instance[i].address + allocators->lists + SENTINEL, &sentinel);
        for (k = 0; k < count && seen[k] != sentinel; k++)
            ;
        if (err != 0 || sentinel == 0 || k < count || count == FP_ALLOCATOR_COUNT)
            continue;
        seen[count++] = sentinel;
        err = walk_ring(memory, sentinel, next, pooled, to);
    }
    return err;
}

/* The pool's part of a carrier begins with a block's header, two or three words and `next`. */
static void walk_pools(const struct fp_allocators *allocators, const struct fp_memory *memory,
                       uint64_t pooled, uint64_t bytes, struct fp_carriers *to)
{
    for (uint32_t next = 24; pooled > 0 && next <= 32; next += 8) {
        uint32_t count = to->count;
        uint64_t before = to->bytes;

        if (walk_rings(allocators, memory, next, pooled, to) == 0 && to->count - count == pooled &&
            to->bytes - before == bytes)
            return;
        take_back(to, count, before);
    }
}

static int by_start(const void *a, const void *b)
{
    const struct fp_range *left = a, *right = b;

    return left->start < right->start ? -1 : left->start > right->start;
}

int fp_carriers_walk(const struct fp_allocators *allocators, const struct fp_memory *memory,
                     struct fp_carriers *carriers)
{
    struct fp_allocator_figures *figures;
    uint64_t pooled = 0, pooled_bytes = 0;
    int err = 0;

    memset(carriers, 0, sizeof *carriers);
    if (allocators->lists == 0)
        return FP_ENOENT;
    figures = calloc(allocators->count, sizeof *figures);
    if (figures == NULL ||
        fp_allocators_read(allocators, memory, 0, allocators->count, figures) < 0)
        err = FP_ENOMEM;
    for (uint32_t i = 0; err == 0 && i < allocators->count; i++) {
        err = figures[i].err;
        if (err == 0)
            err = walk_instance(allocators, memory, i, &figures[i], carriers);
        carriers->counted +=
            bytes_of(&figures[i].multi) + bytes_of(&figures[i].single) + figures[i].pool_bytes;
        pooled += figures[i].pool_carriers;
        pooled_bytes += figures[i].pool_bytes;
    }
    free(figures);
    if (err != 0) {
        fp_carriers_free(carriers);
        return err;
    }
    walk_pools(allocators, memory, pooled, pooled_bytes, carriers);
    if (carriers->count > 0)
        qsort(carriers->range, carriers->count, sizeof *carriers->range, by_start);
    return 0;
}

void fp_carriers_free(struct fp_carriers *carriers)
{
    fp_pages_free(carriers->range, carriers->room * sizeof *carriers->range);
    memset(carriers, 0, sizeof *carriers);
}
