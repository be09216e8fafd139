/* dictionary.h - a process dictionary, as the VM keeps it.
 *
 *   ProcDict   0 u32 sizeMask, u32 usedSlots, u32 arraySize, u32 splitPosition
 *             16 numElements   24 the slots            (erl_process_dict.h)
 *   a slot     nil, a boxed {Key, Value}, or a list of those
 *
 * Its process alone moves a dictionary, and frees the old array. So the first four numbers are
 * valid when the structure points to it before and after it is read, and its four numbers agree. No
 * allocation; any thread. */
#pragma once

#include <stdint.h>

#include "base/safe_read.h"
#include "erts/layout.h"
#include "erts/process.h"

struct fp_dictionary {
    uint32_t size_mask, used_slots, array_size, split_position;
};

/* Bytes of the array, which process_info(Pid, memory) counts (the entries lie on the heap); -1: the
 * four numbers contradict each other. Pure. */
int64_t fp_dictionary_bytes(const struct fp_dictionary *dictionary);

/* The same, read: of the process of `snapshot`, whose structure is at `address`. 0 bytes without a
 * dictionary. 0; FP_ETORN: the dictionary and the structure do not agree. */
int fp_dictionary_read(const struct fp_layout *layout, const struct fp_memory *memory,
                       uint64_t address, const struct fp_snapshot *snapshot, int64_t *bytes);

/* The value kept under the atom `key`. 0 or FP_ENOENT. */
int fp_dictionary_find(const struct fp_memory *memory, uint64_t dictionary, uint64_t key,
                       uint64_t *value);
