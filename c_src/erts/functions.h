/*
 * functions.h - every JIT function there is in the code ranges, at one go.
 *
 * code.h asks what stands around one address; this walks over all resident pages and notes each
 * ErtsCodeInfo (code_scan.h), then gives the functions to modules: a module is a BeamCodeHeader
 * whose table lists exactly functions that were found, in order.
 *
 *      | shared fragments |header|info|f 0 |info|f 1 | rest |  free  |header| ...
 *      ^ range                        [start, end)          ^ module's end
 *
 * The VM does not wipe code that it unloads. Functions that a module left behind are found too, as
 * long as nothing was put over them; once a part of it was overwritten, the rest belongs to no
 * module. A module that was unloaded and is still whole looks like any other: only the VM can tell
 * (perf_map.h).
 *
 * A dirty scheduler's work: 4 ms for 8,000 functions. No state.
 */
#ifndef FP_ERTS_FUNCTIONS_H
#define FP_ERTS_FUNCTIONS_H

#include "base/maps.h"
#include "base/safe_read.h"
#include "erts/layout.h"

/* More than this many functions, and fp_functions_read refuses: 64 MB. */
#define FP_FUNCTIONS_MAX (1u << 20)
#define FP_NO_MODULE UINT32_MAX
#define FP_MD5_SIZE 16u

struct fp_function {
    uint64_t mfa_at;
    uint64_t start, end; /* of its code: [start, end) */
    uint64_t mfa[3];     /* module, function: atom words; arity */
    uint32_t module;     /* index, or FP_NO_MODULE */
};

struct fp_module {
    uint64_t name;       /* atom word */
    uint64_t start, end; /* header and code: [start, end) */
    uint32_t first, count;
    int has_md5; /* what module_info(md5) answers could be read */
    unsigned char md5[FP_MD5_SIZE];
};

/* Sorted by address, disjoint. The end of a function of a module is where the next one's info
 * begins, or the module's end; that of any other the next info, of any module, or the range's
 * end. */
struct fp_functions {
    struct fp_function *function;
    uint32_t functions, room;
    struct fp_module *module;
    uint32_t modules, module_room;
    struct fp_ranges shared; /* before the first function of a range: the
                                fragments that all code shares */
};

/* Everything that can be read: a range, or a part of one, that vanishes meanwhile is a hole. 0,
 * FP_ENOMEM, or FP_EFULL; then there is nothing to be freed. */
int fp_functions_read(struct fp_functions *functions, const struct fp_release *release,
                      const struct fp_memory *memory, const struct fp_ranges *ranges);
void fp_functions_free(struct fp_functions *functions);

#endif
