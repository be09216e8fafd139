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

struct fp_native_symbols;

/* 0, FP_ENOMEM or FP_EIO. `layout`, `peek`, `live` and `native` must outlive
 * it. With `native`, C code is known: the sets that are put there are freed
 * with this, so that all who read them must have ended before. */
int fp_native_symbols_create(struct fp_native_symbols **symbols,
                             const struct fp_layout *layout,
                             const struct fp_peek *peek,
                             struct fp_live_ranges *live,
                             struct fp_live_native *native);
void fp_native_symbols_destroy(struct fp_native_symbols *symbols);

/* Valid as long as `symbols`. */
const struct fp_symbolizer *
fp_native_symbols_interface(struct fp_native_symbols *symbols);

#endif
