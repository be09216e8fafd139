#include "zst.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "../core/error.h"

#define TABLE_MAGIC 0x184D2A5Eu
#define TABLE_END_MAGIC 0x8F92EAB1u
#define LEVEL 1
/* What level 1 has is made for text that repeats itself sooner: ours does so
 * from one tick to the next, over some 70 KB. A window of the whole frame and a
 * larger table of hashes save 5 % of the bytes and cost no time. The next better
 * strategies save 10 % more for three times the time. */
#define WINDOW_LOG 22
#define HASH_LOG 17

struct fp_zst {
    ZSTD_CCtx *context;
};

/* A first frame makes the context take the memory that it will need. */
static int take_memory(struct fp_zst *zst, size_t text_max)
{
    char *text = calloc(1, text_max), *out = malloc(fp_zst_bound(text_max));
    int err = FP_ENOMEM;
    size_t size;

    if (text != NULL && out != NULL)
        err = fp_zst_frame(zst, text, text_max, out, fp_zst_bound(text_max),
                           &size);
    free(text);
    free(out);
    return err;
}

int fp_zst_create(struct fp_zst **zst, size_t text_max)
{
    struct fp_zst *made = calloc(1, sizeof(*made));
    int err = FP_ENOMEM;

    if (made == NULL)
        return err;
    made->context = ZSTD_createCCtx();
    if (made->context != NULL) {
        ZSTD_CCtx_setParameter(made->context, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(made->context, ZSTD_c_windowLog, WINDOW_LOG);
        ZSTD_CCtx_setParameter(made->context, ZSTD_c_hashLog, HASH_LOG);
        ZSTD_CCtx_setParameter(made->context, ZSTD_c_checksumFlag, 1);
        err = take_memory(made, text_max);
    }
    if (err != 0)
        fp_zst_destroy(made);
    else
        *zst = made;
    return err;
}

void fp_zst_destroy(struct fp_zst *zst)
{
    if (zst == NULL)
        return;
    ZSTD_freeCCtx(zst->context);
    free(zst);
}

size_t fp_zst_memory(const struct fp_zst *zst)
{
    return sizeof(*zst) + ZSTD_sizeof_CCtx(zst->context);
}

size_t fp_zst_bound(size_t text)
{
    return ZSTD_compressBound(text);
}

int fp_zst_frame(struct fp_zst *zst, const char *text, size_t text_size,
                 char *out, size_t room, size_t *size)
{
    *size = ZSTD_compress2(zst->context, out, room, text, text_size);
    /* There is room by its own bound: only memory can be missing. */
    return ZSTD_isError(*size) ? FP_ENOMEM : 0;
}

/* ---- the table -------------------------------------------------------- */

void fp_zst_table_add(struct fp_zst_table *table, size_t bytes, size_t text)
{
    if (table->n == table->room) {
        size_t room = table->room == 0 ? 64 : 2 * table->room;
        struct fp_zst_entry *grown =
            realloc(table->entry, room * sizeof(*grown));

        if (grown == NULL) {
            table->is_broken = 1;
            return;
        }
        table->entry = grown;
        table->room = room;
    }
    table->entry[table->n++] =
        (struct fp_zst_entry){(uint32_t)bytes, (uint32_t)text};
}

void fp_zst_table_free(struct fp_zst_table *table)
{
    free(table->entry);
    *table = (struct fp_zst_table){NULL, 0, 0, 0};
}

static char *put_u32(char *out, uint32_t n)
{
    for (int byte = 0; byte < 4; byte++, n >>= 8)
        *out++ = (char)(n & 0xff);
    return out;
}

#define TABLE_HEAD_SIZE 8u
#define TABLE_END_SIZE 9u

char *fp_zst_table_print(const struct fp_zst_table *table, size_t *size)
{
    size_t content = 8 * table->n + TABLE_END_SIZE;
    char *bytes = table->is_broken ? NULL : malloc(TABLE_HEAD_SIZE + content);
    char *out;

    if (bytes == NULL)
        return NULL;
    out = put_u32(bytes, TABLE_MAGIC);
    out = put_u32(out, (uint32_t)content);
    for (size_t i = 0; i < table->n; i++) {
        out = put_u32(out, table->entry[i].bytes);
        out = put_u32(out, table->entry[i].text);
    }
    out = put_u32(out, (uint32_t)table->n);
    *out++ = 0; /* no checksums in the table: each frame has its own */
    out = put_u32(out, TABLE_END_MAGIC);
    *size = (size_t)(out - bytes);
    return bytes;
}
