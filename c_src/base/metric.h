/* metric.h - what is measured of a process at each sample.
 *
 * Names and units are those of erlang:process_info/2: bytes for memory, words for everything heap,
 * counts for the rest. The order is that of the file's metrics line, of the record in the ring and
 * of the tuples that the portable engine hands over (flame_prof_portable.erl). */
#pragma once

#include <stdint.h>

#define FP_METRIC_MAP(X)                                                                           \
    X(reductions)                                                                                  \
    X(message_queue_len)                                                                           \
    X(memory)                                                                                      \
    X(total_heap_size)                                                                             \
    X(stack_size)                                                                                  \
    X(heap_size)                                                                                   \
    X(heap_block_size)                                                                             \
    X(old_heap_size)                                                                               \
    X(old_heap_block_size)                                                                         \
    X(recent_size)                                                                                 \
    X(mbuf_size)                                                                                   \
    X(bin_vheap_size)                                                                              \
    X(bin_vheap_block_size)                                                                        \
    X(bin_old_vheap_size)                                                                          \
    X(bin_old_vheap_block_size)                                                                    \
    X(minor_gcs)

enum fp_metric {
#define FP_METRIC_VALUE(name) FP_METRIC_##name,
    FP_METRIC_MAP(FP_METRIC_VALUE)
#undef FP_METRIC_VALUE
        FP_METRIC_COUNT
};

/* "reductions" for FP_METRIC_reductions; NULL outside the list. */
const char *fp_metric_name(int metric);

/* Of memory: while the collector works, sizes may contradict each other; counts never do. */
static inline int fp_metric_is_size(int metric)
{
    return metric != FP_METRIC_reductions && metric != FP_METRIC_message_queue_len &&
           metric != FP_METRIC_minor_gcs;
}

/* The growth of a metric. A full sweep starts the count of minor collections anew. */
static inline int64_t fp_metric_delta(int metric, int64_t before, int64_t now)
{
    if (metric == FP_METRIC_minor_gcs && now < before)
        return now;
    /* Unsigned: values from outside may be any number. */
    return (int64_t)((uint64_t)now - (uint64_t)before);
}

#define FP_STATUS_MAP(X)                                                                           \
    X(waiting)                                                                                     \
    X(runnable)                                                                                    \
    X(running)                                                                                     \
    X(garbage_collecting)                                                                          \
    X(suspended)                                                                                   \
    X(exiting)                                                                                     \
    X(free)

/* What erlang:process_info(Pid, status) answers; `free` is a process whose structure has not been
 * given back yet: the sampler counts it as gone. */
enum fp_status {
#define FP_STATUS_VALUE(name) FP_STATUS_##name,
    FP_STATUS_MAP(FP_STATUS_VALUE)
#undef FP_STATUS_VALUE
        FP_STATUS_COUNT
};

const char *fp_status_name(int status);
