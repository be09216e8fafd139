#include "store/zstd_frame.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/error.h"
#include "base/pages.h"

#define TABLE_MAGIC 0x184D2A5Eu
#define TABLE_END_MAGIC 0x8F92EAB1u
/* Samples repeat those of a tick ago, some 40 KB before, and of a second ago: a window above level
 * 1's default saves bytes and costs no time. The table of hashes stays small enough for a
 * processor's second cache: four times as large it saves 1 % of the bytes for 15 % of the time. The
 * next better strategies save 1 % more for a tenth of the speed, and 10 % for two thirds. */
#define LEVEL 1
#define WINDOW_LOG 22
#define HASH_LOG 15

/* A frame's header (RFC 8878, 3.1.1.1), as libzstd writes it without a size, and with the size in
 * it, which is known at the frame's end:
 *
 *      magic 4 | descriptor 1 | window 1
 *      magic 4 | descriptor 1 | window 1 | size 4
 */
#define DESCRIPTOR 4
#define HEADER_SIZE 6
#define CONTENT_SIZE 4
/* The bits for a dictionary, a size, or no window. */
#define DESCRIPTOR_OTHER 0xe3
#define DESCRIPTOR_SIZE_OF_4 (2 << 6)

struct fp_zstd {
    ZSTD_CCtx *context;
    size_t text; /* in the frame so far */
};

/* The first frame allocates the context's memory, and proves that the header is the one above. */
static int try_it(struct fp_zstd *zst)
{
    size_t size = 0;
    char *frame = fp_pages_alloc(fp_zstd_bound(1));
    int err = FP_ENOMEM;

    if (frame != NULL)
        err = fp_zstd_put(zst, "\n", 1, true, frame, &size);
    if (err == 0 && ZSTD_getFrameContentSize(frame, size) != 1)
        err = FP_EINVAL;
    fp_pages_free(frame, fp_zstd_bound(1));
    return err;
}

int fp_zstd_create(struct fp_zstd **zst)
{
    struct fp_zstd *made = calloc(1, sizeof(*made));
    int err = FP_ENOMEM;

    if (made == NULL)
        return err;
    /* Some 5 MiB by malloc: libzstd's interface with another allocator is not stable. */
    made->context = ZSTD_createCCtx();
    if (made->context != NULL) {
        ZSTD_CCtx_setParameter(made->context, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(made->context, ZSTD_c_windowLog, WINDOW_LOG);
        ZSTD_CCtx_setParameter(made->context, ZSTD_c_hashLog, HASH_LOG);
        ZSTD_CCtx_setParameter(made->context, ZSTD_c_checksumFlag, 1);
        err = try_it(made);
    }
    if (err != 0)
        fp_zstd_destroy(made);
    else
        *zst = made;
    return err;
}

void fp_zstd_destroy(struct fp_zstd *zst)
{
    if (zst == NULL)
        return;
    ZSTD_freeCCtx(zst->context);
    free(zst);
}

/* The context holds back less than a block. */
size_t fp_zstd_bound(size_t text)
{
    return ZSTD_compressBound(text + ZSTD_BLOCKSIZE_MAX) + HEADER_SIZE + CONTENT_SIZE;
}

/* The least significant byte is first on any machine. */
static void put_u32(char *out, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        out[i] = (char)(n >> 8 * i);
}

/* Closes the gap of CONTENT_SIZE before a frame's bytes by a header with room for the size. */
static void make_header(char *frame)
{
    memmove(frame, frame + CONTENT_SIZE, HEADER_SIZE);
    if ((frame[DESCRIPTOR] & DESCRIPTOR_OTHER) == 0)
        frame[DESCRIPTOR] = (char)(frame[DESCRIPTOR] | DESCRIPTOR_SIZE_OF_4);
}

void fp_zstd_drop(struct fp_zstd *zst)
{
    ZSTD_CCtx_reset(zst->context, ZSTD_reset_session_only);
    zst->text = 0;
}

int fp_zstd_put(struct fp_zstd *zst, const char *text, size_t text_size, bool is_end, char *frame,
                size_t *size)
{
    ZSTD_EndDirective directive;
    size_t gap = *size == 0 ? CONTENT_SIZE : 0;
    ZSTD_inBuffer in = {text, text_size, 0};
    ZSTD_outBuffer out = {frame + *size + gap, fp_zstd_bound(text_size) - gap, 0};
    size_t left;

    do {
        /* With text in its first call, ZSTD_e_end makes another header. */
        directive = is_end && in.pos == in.size ? ZSTD_e_end : ZSTD_e_continue;
        left = ZSTD_compressStream2(zst->context, &out, &in, directive);
    } while (!ZSTD_isError(left) && out.pos < out.size &&
             (in.pos < in.size || (is_end && (directive != ZSTD_e_end || left > 0))));
    if (ZSTD_isError(left) || in.pos < in.size) {
        fp_zstd_drop(zst);
        return FP_ENOMEM; /* there is room by its own bound */
    }
    zst->text += text_size;
    if (out.pos > 0) {
        if (gap > 0)
            make_header(frame);
        *size += gap + out.pos;
    }
    if (is_end) {
        put_u32(frame + HEADER_SIZE, (uint32_t)zst->text);
        zst->text = 0;
    }
    return 0;
}

/* ---- the table -------------------------------------------------------- */

void fp_zstd_table_add(struct fp_zstd_table *table, size_t bytes, size_t text)
{
    struct fp_zstd_entry entry = {(uint32_t)bytes, (uint32_t)text};

    if (fp_buffer_append(&table->entries, (const char *)&entry, sizeof(entry)) == 0)
        table->n++;
    else
        table->is_broken = 1;
}

void fp_zstd_table_free(struct fp_zstd_table *table)
{
    fp_buffer_free(&table->entries);
    *table = (struct fp_zstd_table){.n = 0};
}

#define TABLE_HEAD_SIZE 8u
#define TABLE_END_SIZE 9u

char *fp_zstd_table_print(const struct fp_zstd_table *table, size_t *size)
{
    size_t entries = table->n * sizeof(struct fp_zstd_entry);
    char *bytes = table->is_broken ? NULL : malloc(TABLE_HEAD_SIZE + entries + TABLE_END_SIZE);
    char *end;

    if (bytes == NULL)
        return NULL;
    put_u32(bytes, TABLE_MAGIC);
    put_u32(bytes + 4, (uint32_t)(entries + TABLE_END_SIZE));
    end = fp_put(bytes + TABLE_HEAD_SIZE, table->entries.bytes, entries);
    put_u32(end, (uint32_t)table->n);
    end[4] = 0; /* no checksums in the table: each frame has its own */
    put_u32(end + 5, TABLE_END_MAGIC);
    *size = TABLE_HEAD_SIZE + entries + TABLE_END_SIZE;
    return bytes;
}
