#include "base/arena.h"

#include <string.h>

#include "base/error.h"
#include "base/pages.h"

#define CHUNK_BYTES ((size_t)256 << 10)

struct fp_arena_chunk {
    struct fp_arena_chunk *next;
    size_t bytes;
};

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* Not below `size`, which is above 1. */
static size_t power_of_two(size_t size)
{
    return (size_t)1 << (64 - __builtin_clzll(size - 1));
}

/* The bytes of a chunk with room for `need`: less than others have when `most` is near; 0: none. */
static size_t chunk_bytes(const struct fp_arena *arena, size_t need)
{
    size_t bytes = round_up(need > CHUNK_BYTES ? need : CHUNK_BYTES, FP_PAGE);
    size_t left;

    if (arena->most == 0)
        return bytes;
    left = arena->mapped < arena->most ? arena->most - arena->mapped : 0;
    if (bytes > left)
        bytes = left & ~(FP_PAGE - 1);
    return bytes < need ? 0 : bytes;
}

void *fp_arena_alloc(struct fp_arena *arena, size_t size)
{
    size_t rest = (size_t)(arena->end - arena->at), bytes;
    struct fp_arena_chunk *chunk;
    char *at = arena->at;

    size = round_up(size > 0 ? size : 1, 16);
    if (size <= rest) {
        arena->at += size;
        return at;
    }
    bytes = chunk_bytes(arena, sizeof(*chunk) + size);
    chunk = bytes == 0 ? NULL : fp_pages_alloc(bytes);
    if (chunk == NULL)
        return NULL;
    *chunk = (struct fp_arena_chunk){arena->chunks, bytes};
    arena->chunks = chunk;
    arena->mapped += bytes;
    at = (char *)(chunk + 1);
    if (bytes - sizeof(*chunk) - size > rest) { /* the larger rest is cut next */
        arena->at = at + size;
        arena->end = (char *)chunk + bytes;
    }
    return at;
}

int fp_arena_keep(struct fp_arena *arena, struct fp_kept *kept, const void *bytes, size_t size)
{
    if (kept->bytes == NULL || size > kept->room) {
        size_t room = kept->room == 0 ? size : power_of_two(size);
        void *larger = fp_arena_alloc(arena, room);

        kept->size = 0;
        if (larger == NULL)
            return FP_ENOMEM;
        kept->bytes = larger;
        kept->room = (uint32_t)room;
    }
    if (size > 0) /* memcpy forbids NULL, which an empty text may be */
        memcpy(kept->bytes, bytes, size);
    kept->size = (uint32_t)size;
    return 0;
}

void fp_arena_free(struct fp_arena *arena)
{
    while (arena->chunks != NULL) {
        struct fp_arena_chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        fp_pages_free(chunk, chunk->bytes);
    }
    arena->mapped = 0;
    arena->at = arena->end = NULL;
}
