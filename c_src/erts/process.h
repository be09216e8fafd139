/* process.h - a copied process structure to what process_info/2 says of it. Pure. Any thread. */
#pragma once

#include <string.h>

#include "base/metric.h"
#include "erts/stamp.h"

/* Process state flags: erl_process.h ERTS_PSFLG_BIT(N) is 1 << (6 + N); textually the same in OTP
 * 25 to 29. */
#define FP_PSFLG_FREE (1u << 10)
#define FP_PSFLG_EXITING (1u << 11)
#define FP_PSFLG_ACTIVE (1u << 13)
#define FP_PSFLG_RUNNING (1u << 15)
#define FP_PSFLG_SUSPENDED (1u << 16)
#define FP_PSFLG_GC (1u << 17)
#define FP_PSFLG_ACTIVE_SYS (1u << 20)
#define FP_PSFLG_RUNNING_SYS (1u << 21)
#define FP_PSFLG_OFF_HEAP_MSGQ (1u << 24)
#define FP_PSFLG_DIRTY_ACTIVE_SYS (1u << 28)
#define FP_PSFLG_DIRTY_RUNNING (1u << 29)
#define FP_PSFLG_DIRTY_RUNNING_SYS (1u << 30)
/* Priorities in bits 0..5: actual, user's and queue's, two bits each. */
#define FP_PSFLG_PRIORITIES(prio) ((uint32_t)(prio)*0x15u)
/* The run queue of that priority, the queues that it is in (IN_PRQ_*), and IN_RUNQ. One that waits
 * may be in a queue: a request of a higher priority lets it run ahead of its turn, which comes
 * later. */
#define FP_PSFLG_QUEUES (0x30u | 0x3c0u | 1u << 14)

struct fp_snapshot {
    uint64_t id;
    uint64_t i, stop, hend; /* of the stack: [stop, hend) */
    uint64_t heap;          /* of the heap that it goes on in: [heap, hend) */
    uint64_t abandoned;     /* the heap that a collection was put off on, or 0 */
    uint64_t high_water;
    uint64_t registered_at; /* -> name, 0 for none */
    uint64_t dictionary;    /* -> ProcDict, 0 for none */
    uint64_t current;       /* -> module, function, arity; 0 for none */
    uint64_t initial_call[3];
    uint32_t state;
    uint8_t status;      /* enum fp_status */
    uint8_t runs_erlang; /* on a normal scheduler: `stop` and `i` are stale */
    uint8_t keeps_sizes; /* those of an earlier snapshot stand for the sizes */
    struct fp_stamp stamp;
    int64_t value[FP_METRIC_COUNT];
};

/* The status that erts_process_state2status() (erl_process.c) computes from the flags. */
/* For tests. */
int fp_process_status(uint32_t state);

/* All that a snapshot is decoded from: where these words are equal, so is the snapshot, but for the
 * two sizes of an abandoned heap. What stands behind the fields of layout.h: */
enum fp_process_word {
    FP_WORD_abandoned = FP_FIELD_COUNT,
    FP_WORD_heap_block_size,
    FP_WORD_current,
    FP_WORD_monitors,
    FP_PROCESS_WORDS
};
struct fp_process_words {
    uint64_t word[FP_PROCESS_WORDS]; /* by enum fp_field and enum fp_process_word */
};
void fp_process_words_read(const struct fp_layout *layout, const unsigned char *bytes,
                           struct fp_process_words *words);

/* From the first layout->snapshot_size bytes of the structure. 0; FP_ETORN: its numbers contradict
 * each other, as it changed while it was copied, or as the collector has exchanged some of them
 * (doc/dev/internals.md, What a collection writes). Of a process with an abandoned heap,
 * `heap_size` is then the whole of that, and `recent_size` is 0. */
int fp_process_decode(const struct fp_layout *layout, const unsigned char *bytes,
                      struct fp_snapshot *snapshot);
/* The same, with these two as process_info/2 has them: for that it reads the abandoned heap. */
int fp_process_decode_whole(const struct fp_layout *layout, const struct fp_memory *memory,
                            const unsigned char *bytes, struct fp_snapshot *snapshot);

/* A word of copied bytes. */
static inline uint64_t fp_word_at(const unsigned char *bytes, size_t offset)
{
    uint64_t word;

    memcpy(&word, bytes + offset, 8);
    return word;
}

/* A field of the copied structure, as an unsigned number. */
uint64_t fp_process_field(const struct fp_layout *layout, const unsigned char *bytes,
                          enum fp_field field);
