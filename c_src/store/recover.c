/*
 * recover.c - plain text is searched from its end for the empty line that ends
 * a sample. Frames are walked from the beginning by their headers, which costs
 * a small read for each 128 KiB of text, and then the last ones are read until
 * one is whole: a file whose tail never reached the disk has the right length
 * and the wrong bytes.
 */
#include "store/recover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/pages.h"
#include "store/fs.h"
#include "store/zstd_frame.h"

/* ---- plain text ------------------------------------------------------- */

#define WINDOW ((size_t)64 << 10)

/* Behind the last LF LF of `size` bytes, 0: there is none. */
static size_t last_end(const char *bytes, size_t size)
{
    for (; size >= 2; size--)
        if (bytes[size - 1] == '\n' && bytes[size - 2] == '\n')
            return size;
    return 0;
}

static int64_t good_text(int file, uint64_t size)
{
    char *window = malloc(WINDOW);
    size_t found = 0;

    if (window == NULL)
        return -ENOMEM;
    while (found == 0 && size > 0) {
        uint64_t from = size > WINDOW ? size - WINDOW : 0;
        int64_t got = fp_fs_read(file, from, window, (size_t)(size - from));

        if (got < 0) {
            free(window);
            return got;
        }
        found = last_end(window, (size_t)got);
        /* One byte twice: the pair may lie across the border. */
        size = found > 0 ? from + found : from > 0 ? from + 1 : 0;
    }
    free(window);
    return (int64_t)size;
}

/* ---- frames ----------------------------------------------------------- */

/* Largest that a frame's header can be (RFC 8878, 3.1.1.1). */
#define HEADER_MAX 18
#define BLOCK_HEADER 3u
#define CHECKSUM 4u
#define BLOCK_RLE 1u
#define BLOCK_RESERVED 3u
#define MAGIC 0xFD2FB528u

static uint32_t get(const unsigned char *bytes, int size)
{
    uint32_t n = 0;

    while (size-- > 0)
        n = n << 8 | bytes[size];
    return n;
}

/* 3.1.1.1.1: the sizes of the fields behind the descriptor. */
static size_t header_size(unsigned descriptor)
{
    static const size_t dictionary[] = {0, 1, 2, 4};
    static const size_t content[] = {0, 2, 4, 8};
    size_t single = descriptor >> 5 & 1;
    size_t size = 5 + (1 - single) + dictionary[descriptor & 3];

    return size + (descriptor >> 6 == 0 ? single : content[descriptor >> 6]);
}

/* Behind the blocks of a frame that begin at `at`; 0: they do not end. */
static uint64_t walk_blocks(int file, uint64_t at)
{
    unsigned char bytes[BLOCK_HEADER];

    for (;;) {
        uint32_t header, type;

        if (fp_fs_read(file, at, (char *)bytes, sizeof(bytes)) !=
            (int64_t)sizeof(bytes))
            return 0;
        header = get(bytes, sizeof(bytes));
        type = header >> 1 & 3;
        if (type == BLOCK_RESERVED)
            return 0;
        at += BLOCK_HEADER + (type == BLOCK_RLE ? 1 : header >> 3);
        if ((header & 1) != 0)
            return at;
    }
}

/* Behind the frame at `at`, and how much text it says it holds; 0: there is no
 * whole frame of ours. */
static uint64_t walk_frame(int file, uint64_t at, uint64_t size, uint64_t *text)
{
    unsigned char head[HEADER_MAX];
    uint64_t end;
    int64_t got = fp_fs_read(file, at, (char *)head, sizeof(head));

    if (got < 6 || get(head, 4) != MAGIC || (head[4] & 4) == 0)
        return 0;
    *text = ZSTD_getFrameContentSize(head, (size_t)got);
    if (*text == ZSTD_CONTENTSIZE_ERROR || *text > UINT32_MAX)
        return 0;
    end = walk_blocks(file, at + header_size(head[4]));
    if (end == 0 || end + CHECKSUM > size || end + CHECKSUM - at > UINT32_MAX)
        return 0;
    return end + CHECKSUM;
}

static bool is_readable(int file, uint64_t at,
                        const struct fp_zstd_entry *entry)
{
    char *bytes, *text;
    bool is_good = false;

    /* What says that it is larger is damaged. */
    if (entry->bytes > FP_ZST_FRAME_MAX || entry->text > FP_ZST_FRAME_MAX)
        return false;
    bytes = fp_pages_take(entry->bytes);
    text = fp_pages_take(entry->text + 1u);
    if (bytes != NULL && text != NULL &&
        fp_fs_read(file, at, bytes, entry->bytes) == (int64_t)entry->bytes)
        is_good = ZSTD_decompress(text, entry->text, bytes, entry->bytes) ==
                  entry->text;
    fp_pages_give(bytes, entry->bytes);
    fp_pages_give(text, entry->text + 1u);
    return is_good;
}

static int64_t good_frames(int file, uint64_t size, struct fp_zstd_table *table)
{
    uint64_t at = 0, end, text;

    while (!table->is_broken && table->n < FP_ZST_TABLE_MAX &&
           (end = walk_frame(file, at, size, &text)) != 0) {
        fp_zstd_table_add(table, (size_t)(end - at), (size_t)text);
        at = end;
    }
    if (table->is_broken)
        return -ENOMEM;
    for (; table->n > 0; table->n--) {
        const struct fp_zstd_entry *last = &table->entry[table->n - 1];

        if (is_readable(file, at - last->bytes, last))
            break;
        at -= last->bytes;
    }
    return (int64_t)at;
}

/* ---- both ------------------------------------------------------------- */

static int add_table(int file, const struct fp_zstd_table *table)
{
    size_t size;
    char *bytes = fp_zstd_table_print(table, &size);
    int err = bytes == NULL ? -ENOMEM : fp_fs_write(file, bytes, size);

    free(bytes);
    return err;
}

int64_t fp_recover(int file, bool is_zst)
{
    struct fp_zstd_table table = {NULL, 0, 0, 0};
    int64_t size = fp_fs_size(file), good;
    int err = 0;

    if (size < 0)
        return size;
    good = is_zst ? good_frames(file, (uint64_t)size, &table)
                  : good_text(file, (uint64_t)size);
    if (good > 0 && good < size)
        err = fp_fs_cut(file, (uint64_t)good);
    /* Without its table, on a full disk, it is a good file as well. */
    if (good > 0 && err == 0 && is_zst && add_table(file, &table) != 0)
        err = fp_fs_cut(file, (uint64_t)good);
    if (good > 0 && err == 0)
        err = fp_fs_sync(file);
    fp_zstd_table_free(&table);
    return err != 0 ? err : good;
}
