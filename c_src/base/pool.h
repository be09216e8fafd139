/*
 * pool.h - many pieces of memory with one end: what a session keeps of texts.
 *
 * A writer thread that mallocs leaves its arena behind, with what was freed in it: glibc gives each
 * session's thread another one, and on a large host that is gigabytes that nobody uses. A pool's
 * memory comes from the kernel, in chunks that its pieces share, and goes back there whole.
 *
 * Pieces come in sizes of a quarter of a doubling (64, 80, 96, 112, 128, 160 ...), so less than a
 * fifth of one above 64 bytes is wasted. One that was given back waits for another of its size;
 * until then, and with the ends of chunks, it is in `mapped`, which is all that the pool has. A
 * piece above FP_POOL_PIECE_MAX is a mapping of its own.
 *
 * Not shared between threads.
 */
#ifndef FP_BASE_POOL_H
#define FP_BASE_POOL_H

#include <stddef.h>

#define FP_POOL_ALIGNMENT 16u
#define FP_POOL_PIECE_MAX ((size_t)32 << 10)
#define FP_POOL_CHUNK ((size_t)256 << 10)
#define FP_POOL_CLASSES 40u

struct fp_pool_chunk;
struct fp_pool_piece;

/* An empty one to begin with: all 0, but for `most`. */
struct fp_pool {
    size_t most;                  /* bytes that it may map; 0: any */
    size_t mapped;                /* bytes that it has mapped */
    struct fp_pool_chunk *chunks; /* in use; the newest is cut from `at` on */
    struct fp_pool_chunk *spare;  /* left by fp_pool_empty() */
    struct fp_pool_chunk *large;  /* mappings of one piece each */
    char *at, *end;
    struct fp_pool_piece *given[FP_POOL_CLASSES];
};

/* `size` bytes, of any content, at a multiple of FP_POOL_ALIGNMENT. NULL: the kernel has no memory,
 * or it would be more than `most`. A size of 0 is one of
 * 1. */
void *fp_pool_alloc(struct fp_pool *pool, size_t size);
/* `size` as it was taken. NULL is nothing. */
void fp_pool_free(struct fp_pool *pool, void *piece, size_t size);

/* No piece is good any longer. Chunks stay, to be cut anew. */
void fp_pool_empty(struct fp_pool *pool);
/* All memory goes back to the kernel, and the pool can be used again. */
void fp_pool_destroy(struct fp_pool *pool);

#endif
