/* blocks.c - one buffer of bytes: closed blocks, and the open one behind them.
 *
 *      | ... |. block .|. block .|.. the open block ..|   room   |
 *            begin               end
 *
 * Text is compressed as it comes, a piece at a time. A sample is taken only if the open block finds
 * room also when it is closed, so that only the end of a session loses what was taken. */
#include "store/blocks.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/pages.h"
#include "store/zstd_frame.h"

/* A block is closed behind the sample that makes it so large. Plain text is then still in the
 * processor's cache when the kernel copies it; the first samples of 100 processes, which are whole
 * in each block, are a sixth of it. A frame starts with an empty window, which at 2 MiB
 * costs 8 % of the bytes, and takes a line in the table. */
#define PLAIN_TEXT ((size_t)256 << 10)
#define FRAME_TEXT ((size_t)16 << 20)
/* For text that does not compress. */
#define FRAME_BYTES ((size_t)1 << 20)
/* Compressed at once: smaller pieces find window and table out of the processor's cache, and take a
 * third more time. */
#define PIECE ((size_t)1 << 20)
/* For what waits while the file takes no bytes. The largest single sample (250 frames of the
 * longest atoms, percent-encoded) is below 3 MiB, and fits behind an open block and its piece. */
#define BYTES_ROOM ((size_t)11 << 19)
#define BLOCKS_MAX 1024u

struct fp_blocks {
    struct fp_zstd *zst; /* NULL: plain text */
    char piece[PIECE];   /* of the open block, not yet compressed */
    size_t piece_size;
    char bytes[BYTES_ROOM];
    size_t begin, end;
    struct fp_block open;
    uint64_t number;                    /* of the open block, less 1 */
    struct fp_block closed[BLOCKS_MAX]; /* a ring: n from `first` on */
    unsigned first, n;
    uint64_t waiting_text, waiting_weight;
    uint64_t cpu_ns;
};

int fp_blocks_create(struct fp_blocks **blocks, bool is_zst)
{
    struct fp_blocks *made = fp_pages_alloc(sizeof(*made));
    int err = 0;

    if (made == NULL)
        return FP_ENOMEM;
    if (is_zst)
        err = fp_zstd_create(&made->zst);
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
    fp_zstd_destroy(blocks->zst);
    fp_pages_free(blocks, sizeof(*blocks));
}

/* Whether bytes, piece and ring of blocks are within their bounds. */
static bool is_sound(const struct fp_blocks *blocks)
{
    return FP_CHECK(blocks->begin <= blocks->end) &&
           FP_CHECK(blocks->end + blocks->open.bytes <= BYTES_ROOM) &&
           FP_CHECK(blocks->piece_size <= PIECE) && FP_CHECK(blocks->n <= BLOCKS_MAX);
}

#ifdef FP_SLOW_CHECKS
/* Whether all that the closed blocks and the open one have waits, and lies there. More waits than
 * that where libzstd failed. */
static bool is_sum(const struct fp_blocks *blocks)
{
    uint64_t text = blocks->open.text, weight = blocks->open.weight;
    size_t bytes = 0;

    for (unsigned i = 0; i < blocks->n; i++) {
        const struct fp_block *block = &blocks->closed[(blocks->first + i) % BLOCKS_MAX];

        text += block->text;
        weight += block->weight;
        bytes += block->bytes;
    }
    return text <= blocks->waiting_text && weight <= blocks->waiting_weight &&
           bytes == blocks->end - blocks->begin;
}
#endif

/* The bytes that `size` more bytes of text may need until the block is closed. */
static size_t bound(const struct fp_blocks *blocks, size_t size)
{
    return blocks->zst == NULL ? size : fp_zstd_bound(blocks->piece_size + size);
}

/* Whether `size` bytes find room behind the open block; moves all blocks to the front where that is
 * needed. */
static bool make_room(struct fp_blocks *blocks, size_t size)
{
    size_t used = blocks->end + blocks->open.bytes;

    if (size > BYTES_ROOM - used && blocks->begin > 0) {
        memmove(blocks->bytes, blocks->bytes + blocks->begin, used - blocks->begin);
        blocks->end -= blocks->begin;
        used -= blocks->begin;
        blocks->begin = 0;
    }
    return size <= BYTES_ROOM - used;
}

static bool is_full(const struct fp_blocks *blocks)
{
    return blocks->open.text >= (blocks->zst == NULL ? PLAIN_TEXT : FRAME_TEXT) ||
           blocks->open.bytes >= FRAME_BYTES;
}

static void reopen(struct fp_blocks *blocks)
{
    memset(&blocks->open, 0, sizeof(blocks->open));
    blocks->number++;
}

static int compress(struct fp_blocks *blocks, const char *text, size_t size, bool is_end)
{
    uint64_t before = fp_thread_cpu_ns();
    int err = fp_zstd_put(blocks->zst, text, size, is_end, blocks->bytes + blocks->end,
                          &blocks->open.bytes);

    blocks->cpu_ns += fp_thread_cpu_ns() - before;
    if (err != 0) /* the samples still wait: the session's end counts them as lost */
        reopen(blocks);
    return err;
}

static int put_piece(struct fp_blocks *blocks, bool is_end)
{
    size_t size = blocks->piece_size;

    blocks->piece_size = 0;
    return compress(blocks, blocks->piece, size, is_end);
}

static int append(struct fp_blocks *blocks, const char *text, size_t size)
{
    if (blocks->zst == NULL) {
        memcpy(blocks->bytes + blocks->end + blocks->open.bytes, text, size);
        blocks->open.bytes += size;
        return 0;
    }
    if (size > PIECE - blocks->piece_size && put_piece(blocks, false) != 0)
        return FP_ENOMEM;
    if (size > PIECE)
        return compress(blocks, text, size, false);
    memcpy(blocks->piece + blocks->piece_size, text, size);
    blocks->piece_size += size;
    return 0;
}

int fp_blocks_put(struct fp_blocks *blocks, const char *text, size_t size, uint64_t weight,
                  int64_t offset_ns)
{
    int err;

    if (!is_sound(blocks) ||
        !FP_CHECK(blocks->open.text == 0 || blocks->open.offset_ns == offset_ns))
        return FP_ENOMEM;
    if (blocks->open.text + size > FP_ZST_FRAME_MAX || !make_room(blocks, bound(blocks, size)))
        return FP_EFULL;
    if (blocks->open.text == 0) {
        blocks->open.begun_ns = fp_monotonic_ns();
        blocks->open.offset_ns = offset_ns;
    }
    err = append(blocks, text, size);
    if (err != 0)
        return err;
    blocks->open.text += size;
    blocks->open.weight += weight;
    blocks->waiting_text += size;
    blocks->waiting_weight += weight;
    if (is_full(blocks))
        fp_blocks_end(blocks); /* FP_EFULL: the block grows; FP_ENOMEM: it is lost */
    return 0;
}

int fp_blocks_end(struct fp_blocks *blocks)
{
    int err;

    if (blocks->open.text == 0)
        return 0;
    if (blocks->n == BLOCKS_MAX)
        return FP_EFULL;
    err = blocks->zst == NULL ? 0 : put_piece(blocks, true);
    if (err != 0)
        return err;
    if (!is_sound(blocks))
        return FP_ENOMEM;
    blocks->open.ended_ns = fp_monotonic_ns();
    blocks->closed[(blocks->first + blocks->n) % BLOCKS_MAX] = blocks->open;
    blocks->n++;
    blocks->end += blocks->open.bytes;
    reopen(blocks);
    (void)FP_CHECK_SLOW(is_sum(blocks));
    return 0;
}

/* Whether the bytes, the text and the samples of the oldest block are among those that wait. */
static bool is_first_whole(const struct fp_blocks *blocks, const struct fp_block *block)
{
    return block->bytes <= blocks->end - blocks->begin && block->text <= blocks->waiting_text &&
           block->weight <= blocks->waiting_weight;
}

const struct fp_block *fp_blocks_first(const struct fp_blocks *blocks, const char **bytes)
{
    const struct fp_block *block = &blocks->closed[blocks->first];

    *bytes = blocks->bytes + blocks->begin;
    return blocks->n > 0 && FP_CHECK(is_first_whole(blocks, block)) ? block : NULL;
}

void fp_blocks_drop_first(struct fp_blocks *blocks)
{
    const struct fp_block *block = &blocks->closed[blocks->first];

    if (!FP_CHECK(blocks->n > 0))
        return;
    blocks->begin += block->bytes;
    blocks->waiting_text -= block->text;
    blocks->waiting_weight -= block->weight;
    blocks->first = (blocks->first + 1) % BLOCKS_MAX;
    blocks->n--;
    if (blocks->n == 0 && blocks->open.bytes == 0)
        blocks->begin = blocks->end = 0;
    (void)FP_CHECK_SLOW(is_sum(blocks));
}

uint64_t fp_blocks_number(const struct fp_blocks *blocks)
{
    return blocks->number + 1;
}

const struct fp_block *fp_blocks_open(const struct fp_blocks *blocks)
{
    return &blocks->open;
}

void fp_blocks_clear(struct fp_blocks *blocks)
{
    if (blocks->zst != NULL)
        fp_zstd_drop(blocks->zst);
    reopen(blocks);
    blocks->piece_size = 0;
    blocks->begin = blocks->end = 0;
    blocks->first = blocks->n = 0;
    blocks->waiting_text = blocks->waiting_weight = 0;
}

void fp_blocks_waiting(const struct fp_blocks *blocks, uint64_t *text, uint64_t *weight)
{
    *text = blocks->waiting_text;
    *weight = blocks->waiting_weight;
}

uint64_t fp_blocks_cpu_ns(const struct fp_blocks *blocks)
{
    return blocks->cpu_ns;
}
