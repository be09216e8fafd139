/* ring.h - the bounded byte queue between one producer and one consumer.
 *
 * Records of varying size, each a multiple of 8 bytes, lie contiguously:
 *
 *      tail (consumer)            head (producer)
 *        v                          v
 *   [....|hdr|payload....|hdr|payload|.........]
 *
 * A record never wraps: a pad record fills the end of the buffer instead. A full ring refuses the
 * new record, so that the oldest data stays intact. The memory is mapped and touched at creation;
 * no operation allocates, locks or calls the system afterwards.
 *
 * head is written by the producer only (release) and read by the consumer (acquire); tail the other
 * way round. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fp_ring;

/* `bytes` is rounded up to a power of two, at least 64 KiB. 0, FP_ENOMEM or FP_EINVAL. *ring
 * belongs to the caller: fp_ring_destroy. */
int fp_ring_create(struct fp_ring **ring, size_t bytes);
void fp_ring_destroy(struct fp_ring *ring);

/* PRODUCER. `size` bytes of contiguous room, a multiple of 8, or NULL when there is none now - or
 * never will be: a record may take at most half of the capacity, less 8 bytes. Nothing is visible
 * before fp_ring_commit(). Reserving again before committing discards the earlier reservation. */
void *fp_ring_reserve(struct fp_ring *ring, size_t size);
/* PRODUCER. Publish what was last reserved. */
void fp_ring_commit(struct fp_ring *ring);

/* CONSUMER. The oldest record and its size, or NULL when the ring is empty. It stays valid until
 * fp_ring_release(). Pad records are skipped inside. */
const void *fp_ring_peek(struct fp_ring *ring, size_t *size);
/* CONSUMER. Give the record last peeked back to the producer. */
void fp_ring_release(struct fp_ring *ring);

/* ANY THREAD. Bytes taken now (a moment's truth), and the capacity. */
size_t fp_ring_used(const struct fp_ring *ring);
size_t fp_ring_capacity(const struct fp_ring *ring);
