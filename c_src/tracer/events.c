/* events.c - see events.h. */
#include "tracer/events.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/relaxed.h"
#include "base/ring.h"

#define LINE 64

/* Its thread alone writes it; without a ring, all other threads. */
struct thread {
    _Alignas(LINE) struct fp_ring *ring;
    _Atomic uint64_t seen, written, dropped, lost, missed;
};

struct fp_events {
    struct fp_events_limits limits;
    int64_t interval_ns, tolerance_ns;
    uint32_t oldest;             /* ring of what was peeked last */
    _Atomic uint64_t unreadable; /* by the reader alone */
    _Alignas(LINE) _Atomic int64_t full_at_ns;
    _Alignas(LINE) _Atomic uint64_t admitted;
    struct thread threads[]; /* limits.threads, and one of those without a ring */
};

int fp_events_create(struct fp_events **events, const struct fp_events_limits *limits)
{
    struct fp_events *made;
    size_t size;

    if (limits->rate == 0 || limits->burst == 0 || limits->threads == 0 ||
        limits->threads > 1u << 16)
        return FP_EINVAL;
    size = sizeof *made + (limits->threads + 1) * sizeof made->threads[0];
    made = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    if (made == NULL)
        return FP_ENOMEM;
    memset(made, 0, size);
    made->limits = *limits;
    made->interval_ns = 1000000000 / limits->rate;
    if (made->interval_ns == 0)
        made->interval_ns = 1;
    made->tolerance_ns = made->interval_ns * (int64_t)(limits->burst - 1);
    for (uint32_t i = 0; i < limits->threads; i++) {
        int err = fp_ring_create(&made->threads[i].ring, limits->ring_bytes);

        if (err != 0) {
            fp_events_destroy(made);
            return err;
        }
    }
    *events = made;
    return 0;
}

void fp_events_destroy(struct fp_events *events)
{
    for (uint32_t i = 0; i < events->limits.threads; i++)
        if (events->threads[i].ring != NULL)
            fp_ring_destroy(events->threads[i].ring);
    free(events);
}

static struct thread *thread_of(struct fp_events *events, uint32_t thread)
{
    uint32_t count = events->limits.threads;

    return &events->threads[thread < count ? thread : count];
}

static int is_empty(const struct fp_events *events, int64_t full_at_ns, int64_t now_ns)
{
    return full_at_ns - now_ns > events->tolerance_ns;
}

int fp_events_is_full(const struct fp_events *events)
{
    return events->limits.events_max != 0 &&
           atomic_load_explicit(&events->admitted, memory_order_relaxed) >=
               events->limits.events_max;
}

int fp_events_would_drop(const struct fp_events *events, int64_t now_ns)
{
    return fp_events_is_full(events) ||
           is_empty(events, atomic_load_explicit(&events->full_at_ns, memory_order_relaxed),
                    now_ns);
}

static int take_token(struct fp_events *events, int64_t now_ns, int is_owed)
{
    int64_t full_at = atomic_load_explicit(&events->full_at_ns, memory_order_relaxed), from;

    do {
        if (!is_owed && is_empty(events, full_at, now_ns))
            return 0;
        from = full_at > now_ns ? full_at : now_ns;
    } while (!atomic_compare_exchange_weak_explicit(&events->full_at_ns, &full_at,
                                                    from + events->interval_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 1;
}

/* Never more than the limit: the output says so many. */
static int take_number(struct fp_events *events)
{
    uint64_t most = events->limits.events_max, admitted;

    if (most == 0)
        return 1;
    admitted = atomic_load_explicit(&events->admitted, memory_order_relaxed);
    do {
        if (admitted >= most)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&events->admitted, &admitted, admitted + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 1;
}

int fp_events_admit(struct fp_events *events, uint32_t thread, int64_t now_ns, int is_owed)
{
    struct thread *own = thread_of(events, thread);

    fp_relaxed_add_shared(&own->seen, 1);
    if (!fp_events_is_full(events) && take_token(events, now_ns, is_owed) && take_number(events))
        return 1;
    fp_relaxed_add_shared(&own->dropped, 1);
    return 0;
}

void fp_events_drop(struct fp_events *events, uint32_t thread, uint64_t n)
{
    struct thread *own = thread_of(events, thread);

    fp_relaxed_add_shared(&own->seen, n);
    fp_relaxed_add_shared(&own->dropped, n);
}

void fp_events_miss(struct fp_events *events, uint32_t thread)
{
    fp_relaxed_add_shared(&thread_of(events, thread)->missed, 1);
}

void *fp_events_reserve(struct fp_events *events, uint32_t thread, size_t size)
{
    struct thread *own = thread_of(events, thread);
    void *room = own->ring == NULL ? NULL : fp_ring_reserve(own->ring, size);

    if (room == NULL)
        fp_relaxed_add_shared(&own->lost, 1);
    return room;
}

void fp_events_commit(struct fp_events *events, uint32_t thread)
{
    struct thread *own = thread_of(events, thread);

    if (!FP_CHECK(own->ring != NULL))
        return;
    fp_ring_commit(own->ring);
    fp_relaxed_add_shared(&own->written, 1);
}

const void *fp_events_peek(struct fp_events *events, int64_t until_ns, size_t *size)
{
    const void *oldest = NULL;
    int64_t oldest_ns = until_ns;

    for (uint32_t i = 0; i < events->limits.threads; i++) {
        size_t bytes;
        const void *event = fp_ring_peek(events->threads[i].ring, &bytes);
        int64_t time_ns;

        if (event == NULL || !FP_CHECK(bytes >= sizeof time_ns))
            continue;
        memcpy(&time_ns, event, sizeof time_ns);
        if (time_ns < oldest_ns) {
            oldest = event;
            oldest_ns = time_ns;
            events->oldest = i;
            *size = bytes;
        }
    }
    return oldest;
}

void fp_events_release(struct fp_events *events)
{
    fp_ring_release(events->threads[events->oldest].ring);
}

void fp_events_release_lost(struct fp_events *events)
{
    fp_relaxed_add_shared(&events->unreadable, 1);
    fp_events_release(events);
}

void fp_events_count(const struct fp_events *events, struct fp_events_counters *counters)
{
    uint64_t unreadable = atomic_load_explicit(&events->unreadable, memory_order_relaxed);

    *counters = (struct fp_events_counters){.lost = unreadable, .written = 0 - unreadable};
    for (uint32_t i = 0; i <= events->limits.threads; i++) {
        const struct thread *thread = &events->threads[i];

        counters->written += atomic_load_explicit(&thread->written, memory_order_relaxed);
        counters->dropped += atomic_load_explicit(&thread->dropped, memory_order_relaxed);
        counters->lost += atomic_load_explicit(&thread->lost, memory_order_relaxed);
        counters->missed += atomic_load_explicit(&thread->missed, memory_order_relaxed);
        counters->seen += atomic_load_explicit(&thread->seen, memory_order_relaxed);
    }
}
