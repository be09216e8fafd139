/*
 * native_symbols.h - the writer's symbolizer over vm/code. WRITER THREAD.
 */
#ifndef FP_NATIVE_SYMBOLS_H
#define FP_NATIVE_SYMBOLS_H

#include "core/stats.h"
#include "out/symbolizer.h"
#include "vm/layout.h"
#include "vm/maps.h"
#include "vm/peek.h"

struct fp_native_symbols;

/* 0 or FP_ENOMEM. `layout`, `peek` and `live` must outlive it. */
int fp_native_symbols_create(struct fp_native_symbols **symbols,
                             const struct fp_layout *layout,
                             const struct fp_peek *peek,
                             struct fp_live_ranges *live);
void fp_native_symbols_destroy(struct fp_native_symbols *symbols);

/* Valid as long as `symbols`. */
const struct fp_symbolizer *
fp_native_symbols_interface(struct fp_native_symbols *symbols);

#endif
