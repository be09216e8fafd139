/*
 * measure.h - what a sample weighs, and in which drawers it lies: the two
 * questions of every flame graph.
 */
#ifndef FP_REPORT_MEASURE_H
#define FP_REPORT_MEASURE_H

#include "report/profile.h"

enum fp_measure_kind {
    FP_MEASURE_SAMPLES, /* 1 for each look that it stands for */
    FP_MEASURE_PERIOD,  /* the sample's own weight */
    FP_MEASURE_VALUE,   /* a metric as it was, for each look */
    FP_MEASURE_DELTA,   /* its change; by sign */
};

struct fp_measure {
    enum fp_measure_kind kind;
    int metric; /* of the last two */
};

/* The same figure at each of them. */
static inline int64_t fp_times_looks(int64_t figure, int64_t looks)
{
    int64_t product;

    if (__builtin_mul_overflow(figure, looks, &product))
        return figure < 0 ? INT64_MIN : INT64_MAX;
    return product;
}

/* 1 and a metric's value or change at one look; 0: this sample does not have the
 * metric, or it is none: a value below 0, or the profiler's own. */
int fp_figure(const struct fp_profile *profile,
              const struct fp_measure *measure, const struct fp_row *row,
              int64_t *figure);

/* 1 and the weight, which is negative for a delta that is; 0: this sample has no
 * such figure (fp_figure), or is the profiler's own. */
int fp_measure(const struct fp_profile *profile,
               const struct fp_measure *measure, const struct fp_row *row,
               int64_t *weight);

#define FP_LEVEL_MAP(X)                                                        \
    X(status)  /* waiting, running ... */                                      \
    X(process) /* its name, label, initial call, or pid */                     \
    X(pid)     /* its Erlang pid, or thread number */                          \
    X(node)    /* the OS process */                                            \
    X(memory)  /* by powers of ten: memory_10s_MiB */                          \
    X(queue)   /* the same of its message queue: queue_100s */                 \
    X(sign)    /* of the weight: negative, positive */                         \
    X(event)   /* of perf */                                                   \
    X(file)

enum fp_level {
#define FP_LEVEL_VALUE(name) FP_LEVEL_##name,
    FP_LEVEL_MAP(FP_LEVEL_VALUE)
#undef FP_LEVEL_VALUE
        FP_LEVEL_COUNT
};

const char *fp_level_name(int level);

struct fp_query {
    struct fp_measure measure;
    enum fp_level level[FP_LEVEL_COUNT]; /* outermost first */
    uint32_t level_count;
    int without_lines; /* two lines of one function are one frame */
};

/* The drawer of a sample at a level, as a number. */
uint32_t fp_level_code(const struct fp_profile *profile, enum fp_level level,
                       const struct fp_row *row, int64_t weight);

/* That number as text, percent-encoded where it came so. `room` has
 * FP_LEVEL_BYTES. */
#define FP_LEVEL_BYTES 64
struct fp_slice fp_level_text(const struct fp_profile *profile,
                              enum fp_level level, uint32_t code, char *room);

/* What a person calls a process: text number of its name, or of a call, ... */
uint32_t fp_process_label(const struct fp_process *process);

#endif
