/* ring.c - one producer, one consumer, bytes in order, no waiting.
 *
 * Positions only grow; `position & mask` is the place in the buffer. A word of the ring's own leads
 * each record:
 *
 *      | span:u32 | is_pad:u32 | payload, span - 8 bytes ... |
 *
 * Each side keeps its own positions and its last view of the other's on a cache line that the other
 * side does not write: in the steady state a push costs no cache miss but for the record itself. */
#include "base/ring.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/error.h"

#define RING_BYTES_MIN ((size_t)64 << 10)
#define RING_BYTES_MAX ((size_t)1 << 30)
#define CACHE_LINE 64

struct span {
    uint32_t size; /* of this word and what follows it */
    uint32_t is_pad;
};

struct fp_ring {
    /* Constant after creation. */
    unsigned char *buffer;
    uint64_t mask;
    size_t mapped;

    /* The producer's. */
    alignas(CACHE_LINE) _Atomic uint64_t head;
    uint64_t tail_seen;
    uint64_t reserved; /* head after the next commit; == head: nothing */

    /* The consumer's. */
    alignas(CACHE_LINE) _Atomic uint64_t tail;
    uint64_t head_seen;
    uint64_t peeked; /* tail after the next release; == tail: nothing */
};

/* The buffer follows the struct in one mapping. */
#define BUFFER_OFFSET ((sizeof(struct fp_ring) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1))

static size_t round_up_to_power_of_two(size_t bytes)
{
    size_t power = RING_BYTES_MIN;

    while (power < bytes)
        power <<= 1;
    return power;
}

int fp_ring_create(struct fp_ring **ring, size_t bytes)
{
    size_t capacity, mapped;
    struct fp_ring *made;

    if (bytes > RING_BYTES_MAX)
        return FP_EINVAL;
    capacity = round_up_to_power_of_two(bytes);
    mapped = BUFFER_OFFSET + capacity;
    /* Populated now: the sampler must never take a page fault on it. */
    made = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                -1, 0);
    if (made == MAP_FAILED)
        return FP_ENOMEM;
    made->buffer = (unsigned char *)made + BUFFER_OFFSET;
    made->mask = capacity - 1;
    made->mapped = mapped;
    atomic_init(&made->head, 0);
    atomic_init(&made->tail, 0);
    *ring = made;
    return 0;
}

void fp_ring_destroy(struct fp_ring *ring)
{
    if (ring != NULL)
        munmap(ring, ring->mapped);
}

static struct span *span_at(const struct fp_ring *ring, uint64_t position)
{
    return (struct span *)(void *)(ring->buffer + (position & ring->mask));
}

/* PRODUCER. Whether the ring has room for everything before `end`. */
static bool has_room_until(struct fp_ring *ring, uint64_t end)
{
    uint64_t capacity = ring->mask + 1;

    if (end - ring->tail_seen <= capacity)
        return true;
    /* acquire: partner is the release in set_tail(). The consumer has read these bytes before the
     * producer overwrites them. */
    ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return end - ring->tail_seen <= capacity;
}

void *fp_ring_reserve(struct fp_ring *ring, size_t size)
{
    /* relaxed: this thread writes it. */
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t capacity = ring->mask + 1;
    uint64_t to_end = capacity - (head & ring->mask);
    uint64_t at = head;
    uint64_t need = size + sizeof(struct span);

    ring->reserved = head;
    if (!FP_CHECK(size % 8 == 0))
        return NULL;
    /* More than half might never fit, wherever the head stands. */
    if (size > capacity / 2 - sizeof(struct span))
        return NULL;
    if (need > to_end)
        at = head + to_end;
    if (!has_room_until(ring, at + need))
        return NULL;
    if (at != head)
        *span_at(ring, head) = (struct span){(uint32_t)to_end, 1};
    *span_at(ring, at) = (struct span){(uint32_t)need, 0};
    ring->reserved = at + need;
    return span_at(ring, at) + 1;
}

void fp_ring_commit(struct fp_ring *ring)
{
    /* relaxed: this thread writes it. */
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    if (!FP_CHECK(ring->reserved - head <= ring->mask + 1))
        return;
    /* release: partner is the acquire in refresh_head(). The record is whole before the consumer
     * sees it. */
    atomic_store_explicit(&ring->head, ring->reserved, memory_order_release);
}

/* CONSUMER. */
static void set_tail(struct fp_ring *ring, uint64_t tail)
{
    /* release: partner is the acquire in has_room_until(). */
    atomic_store_explicit(&ring->tail, tail, memory_order_release);
    ring->peeked = tail;
}

/* CONSUMER. Whether there is anything at `tail`. */
static bool refresh_head(struct fp_ring *ring, uint64_t tail)
{
    if (ring->head_seen != tail)
        return true;
    /* acquire: partner is the release in fp_ring_commit(). */
    ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
    return ring->head_seen != tail;
}

/* CONSUMER. Whether the span at `tail` is whole words, and ends in the buffer and before what is
 * not committed. */
static bool is_sound(const struct fp_ring *ring, uint64_t tail, const struct span *span)
{
    return span->size % 8 == 0 && span->size >= sizeof(*span) &&
           span->size <= ring->head_seen - tail &&
           span->size <= ring->mask + 1 - (tail & ring->mask);
}

/* CONSUMER. NULL: it is not sound, and nothing behind it is known. */
static const struct span *next_span(const struct fp_ring *ring, uint64_t tail)
{
    const struct span *span = span_at(ring, tail);

    return FP_CHECK(is_sound(ring, tail, span)) ? span : NULL;
}

#ifdef FP_SLOW_CHECKS
/* CONSUMER. Whether the spans from `tail` on end where the producer's last commit does. */
static bool is_chain(const struct fp_ring *ring, uint64_t tail)
{
    while (tail != ring->head_seen && is_sound(ring, tail, span_at(ring, tail)))
        tail += span_at(ring, tail)->size;
    return tail == ring->head_seen;
}
#endif

const void *fp_ring_peek(struct fp_ring *ring, size_t *size)
{
    /* relaxed: this thread writes it. */
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    const struct span *span;

    if (!refresh_head(ring, tail))
        return NULL;
    span = next_span(ring, tail);
    if (span != NULL && span->is_pad) {
        /* A pad is always committed together with the record behind it. */
        tail += span->size;
        set_tail(ring, tail);
        span = next_span(ring, tail);
    }
    if (span == NULL || !FP_CHECK_SLOW(is_chain(ring, tail)))
        return NULL;
    ring->peeked = tail + span->size;
    *size = span->size - sizeof(*span);
    return span + 1;
}

void fp_ring_release(struct fp_ring *ring)
{
    if (FP_CHECK(ring->head_seen - ring->peeked <= ring->mask))
        set_tail(ring, ring->peeked);
}

size_t fp_ring_used(const struct fp_ring *ring)
{
    /* acquire, both: partners are set_tail() and fp_ring_commit(). Tail first, so that the
     * difference is never negative; what is pushed and taken between the two loads can make it too
     * large. */
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t used = head - tail;

    return used > ring->mask ? (size_t)ring->mask + 1 : (size_t)used;
}

size_t fp_ring_capacity(const struct fp_ring *ring)
{
    return (size_t)ring->mask + 1;
}
