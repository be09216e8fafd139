/*
 * pool.c - chunks, cut from the front; and pieces that were given back, in a list for each size.
 *
 *      | chunk | piece | piece | given | piece |      at ... end      |
 *
 * Nothing is merged again: a list's pieces serve their own size only. Who has a bound, and can make
 * anew what it keeps, empties the pool when it is reached: then all of it can be cut to any sizes.
 */
#include "base/pool.h"
#include "base/assume.h"

#include <stdint.h>

#include "base/pages.h"

/* Tests see a piece that is used after it was given, or beyond its end. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define HIDE(at, size) __asan_poison_memory_region((at), (size))
#define SHOW(at, size) __asan_unpoison_memory_region((at), (size))
#else
#define HIDE(at, size) ((void)(at), (void)(size))
#define SHOW(at, size) ((void)(at), (void)(size))
#endif

/* What a mapping begins with: a chunk, or the mapping of a large piece. */
struct fp_pool_chunk {
    struct fp_pool_chunk *next;
    struct fp_pool_chunk **link; /* what points here; of a large one only */
    size_t bytes;
    size_t unused; /* for the alignment */
};

struct fp_pool_piece {
    struct fp_pool_piece *next;
};

#define HEAD sizeof(struct fp_pool_chunk)

_Static_assert(HEAD % FP_POOL_ALIGNMENT == 0, "pieces are aligned");
_Static_assert(sizeof(struct fp_pool_piece) <= FP_POOL_ALIGNMENT, "a link fits");

/* ---- sizes ------------------------------------------------------------ */

/* 16, 32, 48, 64, and from there on four for each doubling. */
#define EVEN_CLASSES 4u
#define EVEN_LOG 6u

/* The smallest class for 1 to FP_POOL_PIECE_MAX bytes. */
static unsigned class_of(size_t size)
{
    size_t last = size - 1;
    unsigned log;

    if (last < (size_t)1 << EVEN_LOG)
        return (unsigned)(last / FP_POOL_ALIGNMENT);
    log = 63u - (unsigned)__builtin_clzll(last);
    return EVEN_CLASSES + 4 * (log - EVEN_LOG) + (unsigned)(last >> (log - 2) & 3);
}

static size_t room_of(unsigned class)
{
    unsigned log;

    if (class < EVEN_CLASSES)
        return (class + 1) * FP_POOL_ALIGNMENT;
    log = (class - EVEN_CLASSES) / 4 + EVEN_LOG;
    FP_ASSUME(log < 32); /* class_of() of a size that is no large one */
    return (5 + class % 4) * ((size_t)1 << (log - 2));
}

_Static_assert(EVEN_CLASSES % 4 == 0, "class % 4 is the quarter");

/* ---- mappings --------------------------------------------------------- */

static struct fp_pool_chunk *map(struct fp_pool *pool, size_t bytes)
{
    struct fp_pool_chunk *made;

    if (pool->most > 0 && (pool->mapped > pool->most || bytes > pool->most - pool->mapped))
        return NULL;
    made = fp_pages_alloc(bytes);
    if (made != NULL) {
        made->bytes = bytes;
        pool->mapped += bytes;
    }
    return made;
}

static void unmap(struct fp_pool *pool, struct fp_pool_chunk *chunk)
{
    pool->mapped -= chunk->bytes;
    /* The next mapping at this place may be anybody's. */
    SHOW(chunk, chunk->bytes);
    fp_pages_free(chunk, chunk->bytes);
}

static void unmap_all(struct fp_pool *pool, struct fp_pool_chunk **list)
{
    while (*list != NULL) {
        struct fp_pool_chunk *chunk = *list;

        *list = chunk->next;
        unmap(pool, chunk);
    }
}

/* One with room for `size` bytes: a spare one, or a new one, which is smaller than others when the
 * bound is near. */
static struct fp_pool_chunk *find_chunk(struct fp_pool *pool, size_t size)
{
    size_t bytes = FP_POOL_CHUNK;

    while (pool->spare != NULL) {
        struct fp_pool_chunk *chunk = pool->spare;

        pool->spare = chunk->next;
        if (chunk->bytes >= HEAD + size)
            return chunk;
        unmap(pool, chunk);
    }
    if (pool->most > pool->mapped && pool->most - pool->mapped < bytes)
        bytes = (pool->most - pool->mapped) & ~(FP_PAGE - 1);
    return bytes < HEAD + size ? NULL : map(pool, bytes);
}

/* ---- pieces ----------------------------------------------------------- */

static void keep(struct fp_pool *pool, void *at, unsigned class)
{
    struct fp_pool_piece *piece = at;

    SHOW(piece, sizeof(*piece));
    piece->next = pool->given[class];
    pool->given[class] = piece;
    HIDE(piece, room_of(class));
}

/* What is left of the chunk that was cut last, to the lists. */
static void keep_rest(struct fp_pool *pool)
{
    while (pool->at < pool->end) {
        size_t left = (size_t)(pool->end - pool->at);
        unsigned class = FP_POOL_CLASSES - 1;

        if (left < FP_POOL_PIECE_MAX) {
            class = class_of(left);
            if (room_of(class) > left)
                class --;
        }
        keep(pool, pool->at, class);
        pool->at += room_of(class);
    }
}

static void *cut(struct fp_pool *pool, size_t room)
{
    void *piece;

    if ((size_t)(pool->end - pool->at) < room) {
        struct fp_pool_chunk *chunk = find_chunk(pool, room);

        if (chunk == NULL)
            return NULL;
        keep_rest(pool);
        chunk->next = pool->chunks;
        pool->chunks = chunk;
        pool->at = (char *)chunk + HEAD;
        pool->end = (char *)chunk + chunk->bytes;
        HIDE(pool->at, (size_t)(pool->end - pool->at));
    }
    piece = pool->at;
    pool->at += room;
    return piece;
}

/* Whole pages, with the head. */
static size_t large_bytes(size_t size)
{
    return (HEAD + size + FP_PAGE - 1) & ~(FP_PAGE - 1);
}

static void *take_large(struct fp_pool *pool, size_t size)
{
    struct fp_pool_chunk *made;

    if (size > SIZE_MAX / 2)
        return NULL;
    made = map(pool, large_bytes(size));
    if (made == NULL && pool->spare != NULL) {
        unmap_all(pool, &pool->spare);
        made = map(pool, large_bytes(size));
    }
    if (made == NULL)
        return NULL;
    made->next = pool->large;
    made->link = &pool->large;
    if (made->next != NULL)
        made->next->link = &made->next;
    pool->large = made;
    HIDE((char *)made + HEAD + size, made->bytes - HEAD - size);
    return (char *)made + HEAD;
}

static void give_large(struct fp_pool *pool, void *piece)
{
    struct fp_pool_chunk *chunk = (void *)((char *)piece - HEAD);

    *chunk->link = chunk->next;
    if (chunk->next != NULL)
        chunk->next->link = chunk->link;
    unmap(pool, chunk);
}

void *fp_pool_alloc(struct fp_pool *pool, size_t size)
{
    struct fp_pool_piece *piece;
    unsigned class;

    if (size == 0)
        size = 1;
    if (size > FP_POOL_PIECE_MAX)
        return take_large(pool, size);
    class = class_of(size);
    piece = pool->given[class];
    if (piece == NULL) {
        piece = cut(pool, room_of(class));
    } else {
        SHOW(piece, sizeof(*piece));
        pool->given[class] = piece->next;
        HIDE(piece, sizeof(*piece));
    }
    if (piece != NULL)
        SHOW(piece, size);
    return piece;
}

void fp_pool_free(struct fp_pool *pool, void *piece, size_t size)
{
    if (piece == NULL)
        return;
    if (size > FP_POOL_PIECE_MAX)
        give_large(pool, piece);
    else
        keep(pool, piece, class_of(size == 0 ? 1 : size));
}

void fp_pool_empty(struct fp_pool *pool)
{
    unmap_all(pool, &pool->large);
    while (pool->chunks != NULL) {
        struct fp_pool_chunk *chunk = pool->chunks;

        pool->chunks = chunk->next;
        chunk->next = pool->spare;
        pool->spare = chunk;
    }
    for (unsigned class = 0; class < FP_POOL_CLASSES; class ++)
        pool->given[class] = NULL;
    pool->at = pool->end = NULL;
}

void fp_pool_destroy(struct fp_pool *pool)
{
    fp_pool_empty(pool);
    unmap_all(pool, &pool->spare);
}
