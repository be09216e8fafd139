/* symbolize.h - the native engine's symbolizer: Erlang code by code_index, C code by cstack.
 *
 * It keeps three things fresh while the VM loads and purges code: the ranges of code, the cached
 * functions, and the set of libraries. WRITER THREAD, but for create. */
#pragma once

#include "base/counters.h"
#include "base/maps.h"
#include "base/safe_read.h"
#include "cstack/live.h"
#include "erts/layout.h"
#include "format/symbolizer.h"

struct fp_symbolize;

/* 0, FP_ENOMEM or FP_EIO. `layout`, `memory`, `live` and `cstack` must outlive it. With
 * `cstack`, C code has names: the sets of libraries there are made and freed here, so the
 * sampler ends before. */
int fp_symbolize_create(struct fp_symbolize **symbols, const struct fp_layout *layout,
                        const struct fp_memory *memory, struct fp_live_ranges *live,
                        struct fp_live_cstack *cstack);
void fp_symbolize_destroy(struct fp_symbolize *symbols);

/* Valid as long as `symbols`. */
const struct fp_symbolizer *fp_symbolize_interface(struct fp_symbolize *symbols);
