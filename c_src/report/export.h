/* export.h - a profile for other tools. Each writes to an output that the caller opens and closes;
 * 0, FP_EFULL or FP_ENOMEM. */
#pragma once

#include "report/aggregate.h"
#include "report/output.h"

/* One line a stack: `waiting;gen_server:loop/7 1234`, dimensions first, root first. For
 * flamegraph.pl, inferno, speedscope. The query may get a dimension `sign` (aggregate.h). *total is
 * the sum of the weights. */
int fp_export_collapsed(struct fp_profile *profile, struct fp_query *query,
                        struct fp_output *output, uint64_t *total);

/* doc/format.md's weighted export: each sample whose weight is not 0, with the weight as its
 * period, and a `negative (sign)` or `positive (sign)` frame below the status for a delta. *moved
 * counts the samples whose time was changed to keep times in order. */
int fp_export_perf(struct fp_profile *profile, const struct fp_query *query,
                   struct fp_output *output, uint64_t *samples, uint64_t *moved);

/* speedscope's JSON: a profile for each query, at least one. The first says whether lines are left
 * out. */
int fp_export_speedscope(struct fp_profile *profile, struct fp_query *queries, uint32_t count,
                         struct fp_output *output);

/* pprof's protobuf; the output should be one with gzip. Samples, and of each metric the sum of its
 * deltas and of its values; labels pid, name, status. The query says which samples, and whether
 * lines are left out. */
int fp_export_pprof(struct fp_profile *profile, const struct fp_query *query,
                    struct fp_output *output);

/* The Firefox Profiler's JSON: a thread for each process, with its samples, and markers for garbage
 * collections and changes of the status. */
int fp_export_firefox(struct fp_profile *profile, const struct fp_query *query,
                      struct fp_output *output);

/* The viewer's index: doc/dev/viewer_index.md. `is_packed`: small instead of mapped. */
int fp_export_index(struct fp_profile *profile, struct fp_output *output, int is_packed);
/* The rows that the previous pieces lack; the first piece is a whole index. FP_ESTATE: a new row is
 * earlier than all before it, so that their times are others now; or the profile was thinned, or a
 * piece has failed. */
int fp_export_index_piece(struct fp_profile *profile, struct fp_output *output);

/* "bytes", "words" or "count". */
struct fp_slice fp_metric_unit(struct fp_slice name);
/* How many bytes each of a query's weights is, where a format knows bytes: 1 for `memory`, 8 for
 * `words` of allocations; 0: it is none. */
int64_t fp_by_bytes(const struct fp_profile *profile, const struct fp_by *by);
/* "reductions", "reductions delta", "samples". `room` has 160 bytes. */
struct fp_slice fp_by_name(const struct fp_profile *profile, const struct fp_by *by, char *room);
