/*
 * symbolize.h - the native engine's symbolizer: Erlang code by vm/code, C
 * code by native/. WRITER THREAD, once it is made.
 */
#ifndef FP_ERTS_SYMBOLIZE_H
#define FP_ERTS_SYMBOLIZE_H

#include "base/counters.h"
#include "base/maps.h"
#include "base/safe_read.h"
#include "cstack/live.h"
#include "erts/layout.h"
#include "format/symbolizer.h"

struct fp_symbolize;

/* 0, FP_ENOMEM or FP_EIO. `layout`, `peek`, `live` and `native` must outlive
 * it. With `native`, C code is known: the sets that are put there are freed
 * with this, so that all who read them must have ended before. */
int fp_symbolize_create(struct fp_symbolize **symbols,
                        const struct fp_layout *layout,
                        const struct fp_memory *peek,
                        struct fp_live_ranges *live,
                        struct fp_live_cstack *native);
void fp_symbolize_destroy(struct fp_symbolize *symbols);

/* Valid as long as `symbols`. */
const struct fp_symbolizer *
fp_symbolize_interface(struct fp_symbolize *symbols);

#endif
