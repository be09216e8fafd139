/* fake_queue.h - the signal queues of process n in a fake VM, linked as in erl_message.h. */
#pragma once

#include "fake_terms.h"
#include "fake_vm.h"

enum fake_chain { FAKE_INNER, FAKE_MIDDLE, FAKE_OUTER };

#define FAKE_SIGNAL UINT64_C(0x1030) /* a header with the subtag of an external pid */

struct fake_queue {
    struct fake_vm *vm;
    uint32_t n;
    struct fake_terms heap; /* where nodes and terms go */
    uint64_t last[3];       /* address of the word that the next node is linked to */
    uint64_t count[3];
};

/* Empty ones. Maps `size` bytes at FAKE_MISC for nodes and terms. */
void fake_queue_create(struct fake_queue *queue, struct fake_vm *vm, uint32_t n, size_t size);

/* A message without fragment, at the end; its address. FAKE_SIGNAL as the term: a signal. */
uint64_t fake_queue_add(struct fake_queue *queue, enum fake_chain chain, uint64_t term,
                        uint64_t from);

/* The process takes its oldest message, as `receive` does. */
void fake_queue_take(struct fake_queue *queue);

/* Writes the counters, as the release has them. */
void fake_queue_count(struct fake_queue *queue);

/* Address of the pair {first, last} of a chain. */
uint64_t fake_queue_at(const struct fake_queue *queue, enum fake_chain chain);
