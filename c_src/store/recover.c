/* recover.c - searches plain text from its end for the empty line that ends a sample. Walks frames
 * from the first, and decompresses the last ones until one is whole: a file whose tail never
 * reached the disk has the right length and the wrong bytes. */
#include "store/recover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/pages.h"
#include "store/fs.h"
#include "store/zstd_frame.h"

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
    int64_t got = window == NULL ? -ENOMEM : 0;
    size_t found = 0;

    while (got >= 0 && found == 0 && size > 0) {
        uint64_t from = size > WINDOW ? size - WINDOW : 0;

        got = fp_fs_read(file, from, window, (size_t)(size - from));
        if (got > 0)
            found = last_end(window, (size_t)got);
        /* One byte twice: the pair may lie across the border. */
        size = found > 0 ? from + found : from > 0 ? from + 1 : 0;
    }
    free(window);
    return got < 0 ? got : (int64_t)size;
}

/* Most frames are smaller than the first of these. */
static const size_t windows[] = {(size_t)1 << 20, FP_ZST_FRAME_MAX};

/* The whole frame at `at`, read to `bytes`. False: there is none that this library has written. */
static bool find_frame(int file, uint64_t at, char *bytes, struct fp_zstd_entry *frame)
{
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        int64_t got = fp_fs_read(file, at, bytes, windows[i]);
        size_t size;
        unsigned long long text;

        if (got <= 0)
            return false;
        size = ZSTD_findFrameCompressedSize(bytes, (size_t)got);
        /* 0 is a skippable frame's; an unknown one, and none, are large. */
        text = ZSTD_getFrameContentSize(bytes, (size_t)got);
        if (text == 0 || text > FP_ZST_FRAME_MAX)
            return false;
        if (!ZSTD_isError(size)) {
            *frame = (struct fp_zstd_entry){(uint32_t)size, (uint32_t)text};
            return true;
        }
    }
    return false;
}

static bool is_readable(int file, uint64_t at, char *bytes, const struct fp_zstd_entry *frame)
{
    char *text = fp_pages_alloc(frame->text);
    bool is_good = text != NULL &&
                   fp_fs_read(file, at, bytes, frame->bytes) == (int64_t)frame->bytes &&
                   ZSTD_decompress(text, frame->text, bytes, frame->bytes) == frame->text;

    fp_pages_free(text, frame->text);
    return is_good;
}

static int64_t good_frames(int file, struct fp_zstd_table *table)
{
    char *bytes = fp_pages_alloc(FP_ZST_FRAME_MAX);
    struct fp_zstd_entry frame;
    uint64_t at = 0;

    if (bytes == NULL)
        return -ENOMEM;
    while (!table->is_broken && table->n < FP_ZST_TABLE_MAX &&
           find_frame(file, at, bytes, &frame)) {
        fp_zstd_table_add(table, frame.bytes, frame.text);
        at += frame.bytes;
    }
    for (; !table->is_broken && table->n > 0; table->n--) {
        memcpy(&frame, table->entries.bytes + (table->n - 1) * sizeof(frame), sizeof(frame));
        if (is_readable(file, at - frame.bytes, bytes, &frame))
            break;
        at -= frame.bytes;
    }
    fp_pages_free(bytes, FP_ZST_FRAME_MAX);
    return table->is_broken ? -ENOMEM : (int64_t)at;
}

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
    struct fp_zstd_table table = {.n = 0};
    int64_t size = fp_fs_size(file), good;
    int err = 0;

    if (size < 0)
        return size;
    good = is_zst ? good_frames(file, &table) : good_text(file, (uint64_t)size);
    if (good > 0 && good < size)
        err = fp_fs_cut(file, (uint64_t)good);
    /* On a full disk a file without its table is a good file as well. */
    if (good > 0 && err == 0 && is_zst && add_table(file, &table) != 0)
        err = fp_fs_cut(file, (uint64_t)good);
    if (good > 0 && err == 0)
        err = fp_fs_sync(file);
    fp_zstd_table_free(&table);
    return err != 0 ? err : good;
}
