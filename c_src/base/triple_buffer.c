#include "base/triple_buffer.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "base/error.h"
#include "base/pages.h"

#define BUFFERS 3u
/* Set in `middle` from a publish until the next take. */
#define FRESH 4u

struct fp_triple_buffer {
    /* The third buffer, and FRESH. Exchanged with acq_rel order: the thread that gets a buffer sees
     * all that was done to it before. */
    _Atomic unsigned middle;
    unsigned back;  /* the producer's */
    unsigned front; /* the consumer's */
    size_t room;
    size_t n[BUFFERS];
    uint64_t word[];
};

static uint64_t *buffer(struct fp_triple_buffer *list, unsigned at)
{
    return list->word + at * list->room;
}

static size_t bytes(size_t room)
{
    return sizeof(struct fp_triple_buffer) + BUFFERS * room * sizeof(uint64_t);
}

int fp_triple_buffer_create(struct fp_triple_buffer **out, size_t room)
{
    struct fp_triple_buffer *list = fp_pages_alloc(bytes(room));

    if (list == NULL)
        return FP_ENOMEM;
    list->back = 0;
    atomic_init(&list->middle, 1);
    list->front = 2;
    list->room = room;
    *out = list;
    return 0;
}

void fp_triple_buffer_destroy(struct fp_triple_buffer *list)
{
    if (list != NULL)
        fp_pages_free(list, bytes(list->room));
}

uint64_t *fp_triple_buffer_begin(struct fp_triple_buffer *list)
{
    return buffer(list, list->back);
}

void fp_triple_buffer_publish(struct fp_triple_buffer *list, size_t n)
{
    if (!FP_CHECK(n <= list->room))
        n = 0;
    list->n[list->back] = n;
    list->back =
        atomic_exchange_explicit(&list->middle, list->back | FRESH, memory_order_acq_rel) & ~FRESH;
}

const uint64_t *fp_triple_buffer_take(struct fp_triple_buffer *list, size_t *n, int *is_new)
{
    /* Only a hint: the exchange orders. Only the consumer clears FRESH. */
    *is_new = (atomic_load_explicit(&list->middle, memory_order_relaxed) & FRESH) != 0;
    if (*is_new)
        list->front =
            atomic_exchange_explicit(&list->middle, list->front, memory_order_acq_rel) & ~FRESH;
    *n = FP_CHECK(list->n[list->front] <= list->room) ? list->n[list->front] : 0;
    return buffer(list, list->front);
}
