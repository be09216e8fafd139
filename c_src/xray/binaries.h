/* binaries.h - the refc binaries that a process refers to, each once.
 *
 * A binary counts at the node (paths.h) that it was found at first. Terms of the process show
 * `seen` bytes of it: a binary of 64 KB of which a sub-binary of 100 bytes is left has 100. What
 * several terms show is added, up to its size.
 *
 * One thread. */
#pragma once

#include <stdint.h>

#include "base/safe_read.h"

struct fp_xray_binary {
    uint64_t address; /* of its Binary; 0: a free entry */
    uint64_t size;
    union {
        uint64_t seen;
        struct {
            uint32_t processes;   /* that refer to it */
            uint32_t refs_before; /* of those before the one that was looked at last */
        } by;                     /* holders.c */
    };
    uint32_t node;
    uint32_t refs;   /* of this process's heap: ProcBins, BinRefs */
    int64_t counted; /* references that the VM counts */
};

struct fp_xray_binaries {
    const struct fp_memory *memory;
    struct fp_xray_binary *entry;
    uint64_t used, room, limit;
    uint64_t untold; /* references to binaries that had no room */
    unsigned otp;
};

/* At most `limit` binaries, a power of two; memory grows up to 1.5 times 40 bytes for each. */
void fp_xray_binaries_create(struct fp_xray_binaries *binaries, const struct fp_memory *memory,
                             unsigned otp, uint64_t limit);
void fp_xray_binaries_destroy(struct fp_xray_binaries *binaries);
void fp_xray_binaries_clear(struct fp_xray_binaries *binaries);

/* The entry of an address: one with address 0 is new, and the caller's to fill. It stays in its
 * place until the next call. 0; FP_EFULL: there is no room; FP_ENOMEM. */
int fp_xray_binary_entry(struct fp_xray_binaries *binaries, uint64_t address,
                         struct fp_xray_binary **entry);

/* One reference to a Binary was found, at `node`. 0; FP_ETORN: there is none at that address;
 * FP_EFAULT; FP_ENOMEM. */
int fp_xray_binary_add(struct fp_xray_binaries *binaries, uint64_t address, uint32_t node);
/* A Binary that references will be found to: what is needed of it is read now. The same errors. */
int fp_xray_binary_know(struct fp_xray_binaries *binaries, uint64_t address);
/* A term shows so many bytes of it. */
void fp_xray_binary_show(struct fp_xray_binaries *binaries, uint64_t address, uint64_t bytes);
