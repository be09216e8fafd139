#include "fake_queue.h"

uint64_t fake_queue_at(const struct fake_queue *queue, enum fake_chain chain)
{
    const struct fp_queue_offsets *at = &queue->vm->layout.release.queue;

    return fake_process_at(queue->n) + (chain == FAKE_INNER    ? at->inner
                                        : chain == FAKE_MIDDLE ? at->middle
                                                               : at->outer);
}

void fake_queue_create(struct fake_queue *queue, struct fake_vm *vm, uint32_t n, size_t size)
{
    *queue = (struct fake_queue){.vm = vm, .n = n, .heap = {&vm->memory, FAKE_MISC}};
    fake_map(&vm->memory, FAKE_MISC, size);
    for (enum fake_chain k = FAKE_INNER; k <= FAKE_OUTER; k++) {
        queue->last[k] = fake_queue_at(queue, k);
        fake_put_word(&vm->memory, queue->last[k] + 8, queue->last[k]);
    }
    fake_queue_count(queue);
}

void fake_queue_count(struct fake_queue *queue)
{
    int is_25 = queue->vm->layout.release.otp < 27;

    fake_set(queue->vm, queue->n, FP_FIELD_inner_len,
             queue->count[FAKE_INNER] + (is_25 ? queue->count[FAKE_MIDDLE] : 0));
    fake_set(queue->vm, queue->n, FP_FIELD_outer_len, queue->count[FAKE_OUTER]);
}

uint64_t fake_queue_add(struct fake_queue *queue, enum fake_chain chain, uint64_t term,
                        uint64_t from)
{
    const uint64_t word[] = {0, 0, term, FAKE_NIL, from};
    uint64_t at = queue->heap.at;

    fake_put(queue->heap.memory, at, word, sizeof word);
    queue->heap.at += sizeof word;
    fake_put_word(queue->heap.memory, queue->last[chain], at);
    queue->last[chain] = at;
    fake_put_word(queue->heap.memory, fake_queue_at(queue, chain) + 8, at);
    queue->count[chain] += term != FAKE_SIGNAL;
    fake_queue_count(queue);
    return at;
}

void fake_queue_take(struct fake_queue *queue)
{
    uint64_t first = fake_queue_at(queue, FAKE_INNER), at = fake_word(queue->heap.memory, first);
    uint64_t next = fake_word(queue->heap.memory, at);

    fake_put_word(queue->heap.memory, first, next);
    if (next == 0)
        fake_put_word(queue->heap.memory, first + 8, first);
    /* The allocator links what is free. */
    fake_put_word(queue->heap.memory, at, FAKE_BASE + 0x9008);
    queue->count[FAKE_INNER]--;
    fake_queue_count(queue);
}
