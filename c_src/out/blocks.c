/*
 * blocks.c - one buffer of text, one of finished bytes.
 *
 *      text    |.... the open block ....|              |
 *
 *      bytes   |   |. block .|. block .|    room       |
 *                  begin               end
 *
 * A sample is taken only if the open block would still find room when it is
 * closed: what was taken is lost by nothing but the end of a session.
 */
#include "blocks.h"

#include <stdlib.h>
#include <string.h>

#include "../core/error.h"
#include "clock.h"
#include "zst.h"

/* Plain text goes out in pieces that are still in the processor's cache when
 * the kernel copies them. Frames are larger: each learns the text anew, and
 * costs a line in the table. */
#define PLAIN_TEXT ((size_t)64 << 10)
#define FRAME_TEXT ((size_t)2 << 20)
/* The largest single sample (250 frames of the longest atoms, percent-encoded)
 * is below 3 MiB. */
#define TEXT_ROOM ((size_t)4 << 20)
/* What waits while the file does not take bytes. */
#define BYTES_ROOM ((size_t)6 << 20)
#define BLOCKS_MAX 1024u

struct fp_blocks {
    struct fp_zst *zst; /* NULL: plain text */
    char *text, *bytes;
    size_t begin, end;
    struct fp_block open;
    struct fp_block closed[BLOCKS_MAX]; /* a ring of n from `first` on */
    unsigned first, n;
    uint64_t waiting_text, waiting_looks;
    uint64_t cpu_ns;
};

int fp_blocks_create(struct fp_blocks **blocks, bool is_zst)
{
    struct fp_blocks *made = calloc(1, sizeof(*made));
    int err = 0;

    if (made == NULL)
        return FP_ENOMEM;
    made->text = malloc(TEXT_ROOM);
    made->bytes = malloc(BYTES_ROOM);
    if (made->text == NULL || made->bytes == NULL)
        err = FP_ENOMEM;
    else if (is_zst)
        err = fp_zst_create(&made->zst, FRAME_TEXT);
    if (err != 0)
        fp_blocks_destroy(made);
    else
        *blocks = made;
    return err;
}

void fp_blocks_destroy(struct fp_blocks *blocks)
{
    if (blocks == NULL)
        return;
    fp_zst_destroy(blocks->zst);
    free(blocks->bytes);
    free(blocks->text);
    free(blocks);
}

/* ---- in --------------------------------------------------------------- */

static size_t bound(const struct fp_blocks *blocks, size_t text)
{
    return blocks->zst == NULL ? text : fp_zst_bound(text);
}

/* Whether `size` bytes find room behind the closed blocks, moved up if need
 * be. */
static bool make_room(struct fp_blocks *blocks, size_t size)
{
    if (size > BYTES_ROOM - blocks->end && blocks->begin > 0) {
        memmove(blocks->bytes, blocks->bytes + blocks->begin,
                blocks->end - blocks->begin);
        blocks->end -= blocks->begin;
        blocks->begin = 0;
    }
    return size <= BYTES_ROOM - blocks->end;
}

int fp_blocks_put(struct fp_blocks *blocks, const char *text, size_t size,
                  uint64_t looks)
{
    size_t most = blocks->zst == NULL ? PLAIN_TEXT : FRAME_TEXT;

    if (blocks->open.text > 0 && blocks->open.text + size > most)
        fp_blocks_end(blocks); /* when it can not, the block grows */
    if (size > TEXT_ROOM - blocks->open.text ||
        !make_room(blocks, bound(blocks, blocks->open.text + size)))
        return FP_EFULL;
    if (blocks->open.text == 0) {
        blocks->open.begun = time(NULL);
        blocks->open.begun_ms = fp_monotonic_ms();
    }
    memcpy(blocks->text + blocks->open.text, text, size);
    blocks->open.text += size;
    blocks->open.looks += looks;
    blocks->waiting_text += size;
    blocks->waiting_looks += looks;
    return 0;
}

static int finish(struct fp_blocks *blocks, size_t *size)
{
    char *out = blocks->bytes + blocks->end;
    uint64_t before;
    int err;

    if (blocks->zst == NULL) {
        memcpy(out, blocks->text, blocks->open.text);
        *size = blocks->open.text;
        return 0;
    }
    before = fp_thread_cpu_ns();
    err = fp_zst_frame(blocks->zst, blocks->text, blocks->open.text, out,
                       BYTES_ROOM - blocks->end, size);
    blocks->cpu_ns += fp_thread_cpu_ns() - before;
    return err;
}

int fp_blocks_end(struct fp_blocks *blocks)
{
    int err;

    if (blocks->open.text == 0)
        return 0;
    if (blocks->n == BLOCKS_MAX ||
        !make_room(blocks, bound(blocks, blocks->open.text)))
        return FP_EFULL;
    err = finish(blocks, &blocks->open.bytes);
    if (err != 0)
        return err;
    blocks->open.ended_ms = fp_monotonic_ms();
    blocks->closed[(blocks->first + blocks->n) % BLOCKS_MAX] = blocks->open;
    blocks->n++;
    blocks->end += blocks->open.bytes;
    memset(&blocks->open, 0, sizeof(blocks->open));
    return 0;
}

/* ---- out -------------------------------------------------------------- */

const struct fp_block *fp_blocks_first(const struct fp_blocks *blocks,
                                       const char **bytes)
{
    *bytes = blocks->bytes + blocks->begin;
    return blocks->n == 0 ? NULL : &blocks->closed[blocks->first];
}

void fp_blocks_drop_first(struct fp_blocks *blocks)
{
    const struct fp_block *block = &blocks->closed[blocks->first];

    blocks->begin += block->bytes;
    blocks->waiting_text -= block->text;
    blocks->waiting_looks -= block->looks;
    blocks->first = (blocks->first + 1) % BLOCKS_MAX;
    blocks->n--;
    if (blocks->n == 0)
        blocks->begin = blocks->end = 0;
}

const struct fp_block *fp_blocks_open(const struct fp_blocks *blocks)
{
    return &blocks->open;
}

void fp_blocks_clear(struct fp_blocks *blocks)
{
    memset(&blocks->open, 0, sizeof(blocks->open));
    blocks->begin = blocks->end = 0;
    blocks->first = blocks->n = 0;
    blocks->waiting_text = blocks->waiting_looks = 0;
}

void fp_blocks_waiting(const struct fp_blocks *blocks, uint64_t *text,
                       uint64_t *looks)
{
    *text = blocks->waiting_text;
    *looks = blocks->waiting_looks;
}

uint64_t fp_blocks_cpu_ns(const struct fp_blocks *blocks)
{
    return blocks->cpu_ns;
}

size_t fp_blocks_memory(const struct fp_blocks *blocks)
{
    return sizeof(*blocks) + TEXT_ROOM + BYTES_ROOM +
           (blocks->zst == NULL ? 0 : fp_zst_memory(blocks->zst));
}
