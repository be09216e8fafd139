#include "tracer/collections.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/pages.h"

/* Minor and major collections. */
struct lengths {
    struct fp_histogram of[2];
};

/* A reader compares `pid' before and after: 0 while the place changes hands. All are stored with
 * release and loaded with acquire, which keeps their order. */
struct place {
    _Atomic uint64_t pid, ns, longest_ns, count[2];
};

struct fp_collections {
    uint32_t threads, mask;
    struct lengths *lengths; /* by thread */
    struct place *place;     /* mask + 1; a page is memory once it is written to */
};

static uint64_t get(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_acquire);
}

static void put(_Atomic uint64_t *at, uint64_t value)
{
    atomic_store_explicit(at, value, memory_order_release);
}

static size_t places_bytes(const struct fp_collections *collections)
{
    return ((size_t)collections->mask + 1) * sizeof *collections->place;
}

struct fp_collections *fp_collections_create(uint32_t threads, uint32_t slots)
{
    struct fp_collections *made = calloc(1, sizeof *made);
    uint32_t places = 1;

    if (made == NULL)
        return NULL;
    while (places < slots && places < FP_COLLECTIONS_PLACES_MAX)
        places *= 2;
    made->threads = threads;
    made->mask = places - 1;
    made->lengths = calloc(threads, sizeof *made->lengths);
    made->place = fp_pages_reserve(places_bytes(made));
    if (made->lengths != NULL && made->place != NULL)
        return made;
    fp_collections_destroy(made);
    return NULL;
}

void fp_collections_destroy(struct fp_collections *collections)
{
    if (collections == NULL)
        return;
    fp_pages_free(collections->place, places_bytes(collections));
    free(collections->lengths);
    free(collections);
}

static void take(struct place *place, uint64_t pid)
{
    put(&place->pid, 0);
    put(&place->ns, 0);
    put(&place->longest_ns, 0);
    put(&place->count[0], 0);
    put(&place->count[1], 0);
    put(&place->pid, pid);
}

void fp_collections_add(struct fp_collections *collections, uint32_t thread, uint32_t slot,
                        uint64_t pid, int is_major, uint64_t ns, uint32_t times)
{
    struct place *place = &collections->place[slot & collections->mask];

    if (!FP_CHECK(thread < collections->threads))
        return;
    fp_histogram_add_all(&collections->lengths[thread].of[is_major != 0], ns, times);
    if (get(&place->pid) != pid)
        take(place, pid);
    put(&place->ns, get(&place->ns) + ns * times);
    put(&place->count[is_major != 0], get(&place->count[is_major != 0]) + times);
    if (ns > get(&place->longest_ns))
        put(&place->longest_ns, ns);
}

void fp_collections_lengths(const struct fp_collections *collections, int is_major,
                            struct fp_histogram_copy *lengths)
{
    memset(lengths, 0, sizeof *lengths);
    for (uint32_t i = 0; i < collections->threads; i++)
        fp_histogram_read(lengths, &collections->lengths[i].of[is_major != 0]);
}

/* 0: no process has the place, or one takes it. */
static int read_place(const struct place *place, struct fp_collected *collected)
{
    collected->pid = get(&place->pid);
    if (collected->pid == 0)
        return 0;
    collected->minor = get(&place->count[0]);
    collected->major = get(&place->count[1]);
    collected->ns = get(&place->ns);
    collected->longest_ns = get(&place->longest_ns);
    return get(&place->pid) == collected->pid;
}

/* Into those that are in order: how many they are then. */
static uint32_t insert(struct fp_collected *top, uint32_t n, uint32_t most,
                       const struct fp_collected *one)
{
    uint32_t at = n;

    if (!FP_CHECK(n <= most))
        return most;
    while (at > 0 && top[at - 1].ns < one->ns)
        at--;
    if (at == most)
        return n;
    n = n < most ? n + 1 : most;
    memmove(top + at + 1, top + at, (n - at - 1) * sizeof *top);
    top[at] = *one;
    return n;
}

uint32_t fp_collections_top(const struct fp_collections *collections, struct fp_collected *top,
                            uint32_t most)
{
    struct fp_collected one;
    uint32_t n = 0;

    for (uint32_t i = 0; i <= collections->mask; i++)
        if (read_place(&collections->place[i], &one))
            n = insert(top, n, most, &one);
    return n;
}
