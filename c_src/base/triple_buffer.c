#include "base/triple_buffer.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/error.h"
#include "base/pages.h"

#define BUFFERS 3u
/* Set in `middle` from a publish until the next take. */
#define FRESH 4u

struct fp_triple_buffer {
    /* Which buffer is between the two, and FRESH. Exchanged with acq_rel order: who takes a buffer
     * sees all that was done to it before. */
    _Atomic unsigned middle;
    unsigned back;  /* the producer's */
    unsigned front; /* the consumer's */
    size_t room;
    size_t n[BUFFERS];
    uint64_t word[];
};

static uint64_t *buffer(struct fp_triple_buffer *handover, unsigned at)
{
    return handover->word + at * handover->room;
}

static size_t bytes(size_t room)
{
    return sizeof(struct fp_triple_buffer) + BUFFERS * room * sizeof(uint64_t);
}

int fp_triple_buffer_create(struct fp_triple_buffer **out, size_t room)
{
    struct fp_triple_buffer *handover = fp_pages_alloc(bytes(room));

    if (handover == NULL)
        return FP_ENOMEM;
    handover->back = 0;
    atomic_init(&handover->middle, 1);
    handover->front = 2;
    handover->room = room;
    *out = handover;
    return 0;
}

void fp_triple_buffer_destroy(struct fp_triple_buffer *handover)
{
    if (handover != NULL)
        fp_pages_free(handover, bytes(handover->room));
}

uint64_t *fp_triple_buffer_begin(struct fp_triple_buffer *handover)
{
    return buffer(handover, handover->back);
}

void fp_triple_buffer_publish(struct fp_triple_buffer *handover, size_t n)
{
    handover->n[handover->back] = n;
    handover->back =
        atomic_exchange_explicit(&handover->middle, handover->back | FRESH, memory_order_acq_rel) &
        ~FRESH;
}

const uint64_t *fp_triple_buffer_take(struct fp_triple_buffer *handover, size_t *n, int *is_new)
{
    /* Only a hint: the exchange orders. Nobody but us takes FRESH away. */
    *is_new = (atomic_load_explicit(&handover->middle, memory_order_relaxed) & FRESH) != 0;
    if (*is_new)
        handover->front =
            atomic_exchange_explicit(&handover->middle, handover->front, memory_order_acq_rel) &
            ~FRESH;
    *n = handover->n[handover->front];
    return buffer(handover, handover->front);
}
