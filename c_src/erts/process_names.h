/*
 * process_names.h - what a process is called, out of its structure's neighbours.
 *
 * Read once when a process enters the set and when its registration changes,
 * not at every sample. No allocation; any thread.
 */
#ifndef FP_ERTS_PROCESS_NAMES_H
#define FP_ERTS_PROCESS_NAMES_H

#include "erts/layout.h"
#include "erts/process.h"
#include "format/record.h"

struct fp_process_names {
    uint64_t registered; /* atom, 0 for none */
    struct fp_mfa_words initial_call;
    struct fp_mfa_words proc_lib; /* $initial_call; module 0: none */
};

/* `initial_call_key` is the atom '$initial_call'. What can not be read is left
 * out: a name is never an error. */
void fp_process_names_read(const struct fp_layout *layout,
                           const struct fp_memory *peek,
                           const struct fp_snapshot *snapshot,
                           uint64_t initial_call_key,
                           struct fp_process_names *names);

#endif
