/* fragment.h - memory for terms that go to no heap: of a message, and of a process that must not
 * collect (erl_message.h, ErlHeapFragment; the same in 25, 27 and 29).
 *
 *      next | off-heap: first, overhead | words allocated | words used | memory
 *
 * Any thread; no allocation. */
#pragma once

#include "base/safe_read.h"

#define FP_FRAGMENT_BYTES 40u
/* Of one message; more are a circle. */
#define FP_FRAGMENTS_OF_MESSAGE 64u

struct fp_fragment {
    uint64_t next;        /* 0: the last one */
    uint64_t off_heap;    /* -> the first object with something outside of it, or 0 */
    uint64_t start;       /* address of its memory */
    uint64_t room, words; /* allocated and in use */
};

/* 0; FP_EFAULT; FP_ETORN for what cannot be one. */
int fp_fragment_read(const struct fp_memory *memory, uint64_t address,
                     struct fp_fragment *fragment);
