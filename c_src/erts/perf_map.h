/* perf_map.h - the functions of the JIT as /tmp/perf-PID.map, where Linux perf looks for names of
 * code that is in no file.
 *
 *      START SIZE SYMBOL LF     both in hex, sorted by START, disjoint
 *
 * A symbol is module:function/arity as in profile files (format/encode.c), or `[jit shared]`.
 *
 * A dirty scheduler's work: it allocates, and takes some 10 us for each function, most of it for
 * its name. No state. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "erts/functions.h"

/* A module that is loaded, as Erlang says. */
struct fp_loaded {
    uint64_t name; /* atom word */
    int has_md5;   /* there is current code */
    unsigned char md5[FP_MD5_SIZE];
    int has_old; /* old code, not purged yet; of unknown MD5 */
};

struct fp_perf_map_count {
    uint64_t functions;
    uint64_t left_out; /* found, but of no module that is loaded */
};

/* Appends the map of `functions`, without those of modules that are not in loaded[0..n): code that
 * was purged and not overwritten yet. A copy of a loaded module is left out if its MD5 is not that
 * of the current code, unless the module has old code. Sorts `loaded`. 0 or FP_ENOMEM. */
int fp_perf_map_text(struct fp_buffer *text, const struct fp_functions *functions,
                     struct fp_loaded *loaded, size_t n, const struct fp_layout *layout,
                     const struct fp_memory *memory, struct fp_perf_map_count *count);
