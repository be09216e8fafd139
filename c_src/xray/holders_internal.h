/* holders_internal.h - what holders.c and holders_tables.c share: a look under way. */
#pragma once

#include "base/attempt.h"
#include "base/page_cache.h"
#include "erts/term/object.h"
#include "xray/holders.h"

/* Binaries that are read together. */
#define FP_HOLDERS_PENDING FP_SAFE_READ_BATCH_MAX

/* What is the same where no object has left the lists of a process. */
struct fp_holders_mark {
    uint64_t off_heap, overhead, old_overhead;
    uint64_t writable; /* binaries that are appended to have a list of their own */
    uint64_t heap, hend, old_heap, gen_gcs;
    uint64_t first[3]; /* of the queues */
    uint64_t buffers;
};

struct fp_holders_look {
    const struct fp_holders_options *options;
    const struct fp_layout *layout;
    struct fp_holders *holders;
    struct fp_page_cache *cache;
    struct fp_attempts attempts; /* of a process; its deadline is that of all */
    uint64_t pid, address;
    struct fp_holders_mark mark;
    struct fp_ets_walk *walk; /* of a table; NULL: a process is looked at */
    uint32_t from, to;        /* its objects that pending binaries are of */
    int runs;                 /* it is on a scheduler */
    int has_added;            /* since its attempts began; of a table since its batch did */
    uint32_t steps;
    uint32_t pending;
    uint64_t at[FP_HOLDERS_PENDING];
    uint64_t word[FP_HOLDERS_PENDING][FP_BINARY_WORDS];
    struct fp_safe_read_span span[FP_HOLDERS_PENDING];
};

/* The holder that is looked at now. */
static inline struct fp_holder *fp_holders_row(const struct fp_holders_look *look)
{
    return &look->holders->holder[look->holders->holders];
}

/* For one more row. 0; FP_EFULL, FP_ENOMEM. */
int fp_holders_has_room(struct fp_holders_look *look);
/* The binaries of an off-heap list are pending then. 0; FP_ETORN, FP_EFAULT: it changes. */
int fp_holders_read_list(struct fp_holders_look *look, uint64_t at, uint64_t is_message);
/* Those that are pending are the row's, where it has held still. 0; FP_ETORN, FP_EGONE, FP_EFAULT;
 * FP_EFULL, FP_ENOMEM. */
int fp_holders_add_pending(struct fp_holders_look *look);

/* 0: the objects of the walk are linked as before, with the same words; FP_ETORN. */
int fp_holders_confirm_objects(struct fp_holders_look *look);
/* All tables. 0; FP_EFULL, FP_ENOMEM. */
int fp_holders_look_at_tables(struct fp_holders_look *look);
