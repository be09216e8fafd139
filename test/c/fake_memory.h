/* fake_memory.h - memory that a test lays out, behind a struct fp_memory.
 *
 * Regions lie at the addresses that the test names; all else is a hole, and reading it fails as the
 * kernel fails: what comes before the hole is copied, the rest is not. A hook may change memory
 * just before an entry of a batch is copied: that is how a process that moves under the sampler's
 * hands looks.
 *
 *      fake_memory_create(&memory);
 *      fake_map(&memory, 0x300000000000, 4096);
 *      fake_put_word(&memory, 0x300000000008, 42);
 *      fp_safe_read_word(&memory.reader, 0x300000000008, &word);
 *
 * Choose addresses where neither the program nor a sanitizer has anything (FAKE_BASE and up):
 * code.c asks mincore(2) about them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/safe_read.h"

#define FAKE_BASE UINT64_C(0x300000000000)
#define FAKE_REGIONS_MAX 128u

struct fake_region {
    uint64_t address;
    size_t size;
    unsigned char *bytes;
};

struct fake_memory {
    struct fp_memory reader;
    struct fake_region region[FAKE_REGIONS_MAX];
    size_t regions;
    void (*before_read)(struct fake_memory *memory, void *arg, uint64_t address, size_t size);
    void *arg;
    uint64_t calls, entries; /* of readv */
};

/* `memory` must stay where it is: memory->reader points to it. */
void fake_memory_create(struct fake_memory *memory);
void fake_memory_destroy(struct fake_memory *memory);

/* What changes memory before a read; NULL: nothing. */
static inline void fake_hook(struct fake_memory *memory,
                             void (*before_read)(struct fake_memory *memory, void *arg,
                                                 uint64_t address, size_t size),
                             void *arg)
{
    memory->before_read = before_read;
    memory->arg = arg;
}

/* A region of zeros. Its bytes, the memory's own. */
unsigned char *fake_map(struct fake_memory *memory, uint64_t address, size_t size);
/* The region that starts there becomes a hole. */
void fake_unmap(struct fake_memory *memory, uint64_t address);

/* Where these bytes are, NULL when not all of them are in one region. */
unsigned char *fake_at(struct fake_memory *memory, uint64_t address, size_t size);

/* Abort when the place is not mapped: the test is wrong. */
void fake_put(struct fake_memory *memory, uint64_t address, const void *bytes, size_t size);
void fake_put_word(struct fake_memory *memory, uint64_t address, uint64_t word);
uint64_t fake_word(struct fake_memory *memory, uint64_t address);
