/* process_names.h - the names of a process.
 *
 * Read when a process enters the set, when its registration changes, and, with a label, now and
 * then. No allocation; any thread. */
#pragma once

#include "erts/layout.h"
#include "erts/process.h"
#include "format/record.h"

struct fp_process_names {
    uint64_t registered; /* atom, 0 for none */
    uint64_t label;      /* atom, or the first element of a tuple; 0 for none */
    struct fp_mfa_words initial_call;
    struct fp_mfa_words proc_lib; /* $initial_call; module 0: none */
};

/* Of the process of `snapshot`, whose structure is at `address`. A name that cannot be read is left
 * out. There is no label without `address`: it is valid when the process has not collected while it
 * was read. */
void fp_process_names_read(const struct fp_layout *layout, const struct fp_memory *memory,
                           uint64_t address, const struct fp_snapshot *snapshot,
                           struct fp_process_names *names);

/* A process that hibernates has an empty stack, and its `current` is erlang:hibernate/3, as
 * process_info(Pid, current_function) says. */
int fp_process_hibernates(const struct fp_layout *layout, const struct fp_memory *memory,
                          const struct fp_snapshot *snapshot);
