/* fuzz.h - what the fuzz targets share: numbers out of an input, and memory behind a fake reader
 * that the input lays out.
 *
 * An input of a target that looks at foreign memory is a few numbers, and then pieces of memory up
 * to its end:
 *
 *      u8   where and how: a region in the low four bits, FUZZ_* above
 *      u16  where in the region, in words
 *      u8   how many words follow
 *      u8   FUZZ_LATER: after how many more reads it comes to be
 *      u64  words
 *
 * Pages that no piece touches are holes. So that pointers lead somewhere, a word is relocated (but
 * with FUZZ_RAW, which is for code): one of 32 bits whose top four are N, not 0, is an address in
 * region N - 1. A mutation of a small number so becomes a pointer into the input itself, and one of
 * a pointer mostly stays one. Regions are those of fake_vm.h, and one for a C stack. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../c/fake_vm.h"

/* Each target: any bytes. Returns when all is well. */
#define FUZZ_TARGETS(X)                                                                            \
    X(atom)                                                                                        \
    X(bif)                                                                                         \
    X(cfi)                                                                                         \
    X(code)                                                                                        \
    X(elf)                                                                                         \
    X(functions)                                                                                   \
    X(layout)                                                                                      \
    X(log_name)                                                                                    \
    X(maps)                                                                                        \
    X(process)                                                                                     \
    X(read)                                                                                        \
    X(recover)                                                                                     \
    X(running)                                                                                     \
    X(sampler)                                                                                     \
    X(stack)                                                                                       \
    X(table)                                                                                       \
    X(term)

#define FUZZ_DECLARE(name) void fuzz_##name(const uint8_t *bytes, size_t size);
FUZZ_TARGETS(FUZZ_DECLARE)
#undef FUZZ_DECLARE

/* What must hold whatever the input: abort(), which is what a fuzzer sees. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fuzz_fail(__FILE__, __LINE__, #condition);                                             \
    } while (0)

_Noreturn static inline void fuzz_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: expected %s\n", file, line, what);
    abort();
}

/* ---- numbers ---------------------------------------------------------- */

/* Behind its end there are zeros. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

void fuzz_take(struct fuzz_input *input, void *into, size_t size);
uint8_t fuzz_u8(struct fuzz_input *input);
uint16_t fuzz_u16(struct fuzz_input *input);
uint32_t fuzz_u32(struct fuzz_input *input);
uint64_t fuzz_u64(struct fuzz_input *input);
/* Of 8 bytes, relocated. */
uint64_t fuzz_word(struct fuzz_input *input);
/* Of 4 bytes, relocated. */
uint64_t fuzz_address(struct fuzz_input *input);

#define FUZZ_REGIONS 9u
#define FUZZ_REGION(n) (FAKE_BASE + ((uint64_t)(n) << 32))
#define FUZZ_REGION_BYTES (UINT64_C(1) << 19) /* what pieces reach of it */
#define FUZZ_NATIVE FUZZ_REGION(8)            /* for a scheduler's C stack */

uint64_t fuzz_relocated(uint64_t word);
/* The other way, for those who make inputs: `word` where there is none. */
uint64_t fuzz_relocatable(uint64_t word);

/* The layout of a release that the input picks. */
void fuzz_layout_of(struct fuzz_input *input, struct fp_layout *layout);
/* Up to three ranges of whole pages in the JIT's region. */
void fuzz_ranges(struct fuzz_input *input, struct fp_ranges *ranges);
/* A piece of the input of at most `most` bytes, u16 and these. */
struct fuzz_input fuzz_part(struct fuzz_input *input, size_t most);

/* ---- memory ----------------------------------------------------------- */

#define FUZZ_RAW 0x10u   /* words stay what they are */
#define FUZZ_LATER 0x20u /* when reads have gone by */
#define FUZZ_AWAY 0x40u  /* no words: so many pages are not resident */

#define FUZZ_LATER_MAX 16u
#define FUZZ_AWAY_MAX 32u

struct fuzz_later {
    uint64_t at; /* by then, so many entries have been read */
    uint64_t address;
    const uint8_t *bytes;
    uint8_t words, flags;
};

struct fuzz_memory {
    struct fake_memory memory;
    struct fuzz_later later[FUZZ_LATER_MAX];
    uint32_t laters, came;
    uint64_t away[FUZZ_AWAY_MAX];
    uint32_t aways;
    uint64_t looks; /* how often it was asked what is resident */
};

/* All that is left of the input. One at a time: resident.h is about it. */
void fuzz_memory_create(struct fuzz_memory *memory, struct fuzz_input *input);
void fuzz_memory_destroy(struct fuzz_memory *memory);

/* Reads and looks at residency since it was made. */
uint64_t fuzz_memory_asked(const struct fuzz_memory *memory);
