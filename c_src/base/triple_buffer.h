/* triple_buffer.h - the latest list of words, from one thread to another.
 *
 * Neither side waits, and nothing is allocated after creation. The producer has one of three
 * buffers and the consumer another; each exchanges its own for the third. An untaken list is
 * overwritten.
 *
 *   producer: begin -> fill -> publish          consumer: take -> read
 *                       back <-> middle <-> front */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fp_triple_buffer;

/* For lists of up to `room` words. 0 or FP_ENOMEM. */
int fp_triple_buffer_create(struct fp_triple_buffer **list, size_t room);
void fp_triple_buffer_destroy(struct fp_triple_buffer *list);

/* ONE PRODUCER at a time: room for a list; then publishes its first `n` words. */
uint64_t *fp_triple_buffer_begin(struct fp_triple_buffer *list);
void fp_triple_buffer_publish(struct fp_triple_buffer *list, size_t n);

/* ONE CONSUMER at a time. The latest list; *is_new says whether it was published since the last
 * call. It stays as it is until the next call. Empty at first. */
const uint64_t *fp_triple_buffer_take(struct fp_triple_buffer *list, size_t *n, int *is_new);
