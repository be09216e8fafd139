/*
 * native_symbols.h - the native engine's symbolizer: Erlang code by vm/code, C
 * code by native/. WRITER THREAD, once it is made.
 */
#ifndef FP_NATIVE_SYMBOLS_H
#define FP_NATIVE_SYMBOLS_H

#include "core/stats.h"
#include "native/live.h"
#include "out/symbolizer.h"
#include "vm/layout.h"
#include "vm/maps.h"
#include "vm/peek.h"

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
