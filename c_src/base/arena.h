/* arena.h - memory that ends as a whole: the texts of a session.
 *
 * The writer's thread calls no malloc for them: glibc gives each session's thread an arena of its
 * own, which keeps what was freed in it. A struct fp_arena maps chunks, cuts them from the front
 * and unmaps all of them together.
 *
 * A struct fp_kept keeps its room when its bytes change. A larger room is a power of two, so those
 * that lie waste are together smaller than the last one. Not shared between threads. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fp_arena_chunk;

/* All 0 but `most` is an empty one. */
struct fp_arena {
    size_t most;                   /* bytes that it may map; 0: any */
    size_t mapped;                 /* bytes that it has mapped */
    struct fp_arena_chunk *chunks; /* newest first */
    char *at, *end;                /* the free part of one of them */
};

struct fp_kept {
    void *bytes;
    uint32_t size, room;
};

/* `size` bytes at a multiple of 16. NULL: no memory, or more than `most`. */
void *fp_arena_alloc(struct fp_arena *arena, size_t size);

/* Copy `size` bytes to `kept`, which then has these only. 0, or FP_ENOMEM: it has none. */
int fp_arena_keep(struct fp_arena *arena, struct fp_kept *kept, const void *bytes, size_t size);

/* Unmap all. The arena is empty then, and each struct fp_kept of it is invalid. */
void fp_arena_free(struct fp_arena *arena);
