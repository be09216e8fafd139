/* functions.h - all JIT functions in the code ranges, and the modules that they belong to.
 *
 * One scan (code_scan.h) finds the functions. A module is a BeamCodeHeader whose table lists
 * functions that were found, in order, and nothing else.
 *
 *      | shared fragments |header|info|f 0 |info|f 1 | rest |  free  |header| ...
 *      ^ range                        [start, end)          ^ module's end
 *
 * The VM does not wipe code that it unloads. Functions of an unloaded module are found as long as
 * nothing overwrites them; once a part of it is overwritten, the rest belongs to no module. An
 * unloaded module that is whole looks like a loaded one: only the VM can tell (perf_map.h).
 *
 * A dirty scheduler's work: 4 ms for 8,000 functions. No state. */
#pragma once

#include "base/maps.h"
#include "base/safe_read.h"
#include "erts/layout.h"

/* 64 MB; with more, fp_functions_read() fails. */
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
    int has_md5; /* md5: as module_info(md5) */
    unsigned char md5[FP_MD5_SIZE];
};

/* Sorted by address, disjoint. A function ends where the next info of its range begins, the last of
 * a module with the module, the last of a range with the range. */
struct fp_functions {
    struct fp_function *function;
    uint32_t functions, room;
    struct fp_module *module;
    uint32_t modules, module_room;
    struct fp_ranges
        shared; /* the fragments that all code shares: a range up to its first module */
};

/* A range, or a part of one, that cannot be read is a hole. 0, FP_ENOMEM, or FP_EFULL; then there
 * is nothing to be freed. */
int fp_functions_read(struct fp_functions *functions, const struct fp_release *release,
                      const struct fp_memory *memory, const struct fp_ranges *ranges);
void fp_functions_free(struct fp_functions *functions);
