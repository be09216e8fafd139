/*
 * zst.h - text to zstd frames, and the table of frames that ends a file.
 *
 * Each frame stands alone: level 1, with its size and a checksum in it, and a
 * window that reaches over all of it. The
 * table is that of the seekable format, in a skippable frame, which every
 * other reader of zstd skips:
 *
 *      5E 2A 4D 18 | size | n x (compressed, text) | n | 00 | B1 EA 92 8F
 *
 * all numbers 32 bits, little end first. Not shared between threads.
 */
#ifndef FP_ZST_H
#define FP_ZST_H

#include <stddef.h>
#include <stdint.h>

struct fp_zst;

/* `text_max`: no frame is of more text. 0 or FP_ENOMEM. */
int fp_zst_create(struct fp_zst **zst, size_t text_max);
void fp_zst_destroy(struct fp_zst *zst);
/* Memory that it holds. */
size_t fp_zst_memory(const struct fp_zst *zst);

/* How much room a frame of so much text may need. */
size_t fp_zst_bound(size_t text);
/* 0 and *size, or FP_ENOMEM. */
int fp_zst_frame(struct fp_zst *zst, const char *text, size_t text_size,
                 char *out, size_t room, size_t *size);

struct fp_zst_entry {
    uint32_t bytes, text;
};

/* An empty one to begin with: all 0. */
struct fp_zst_table {
    struct fp_zst_entry *entry;
    size_t n, room;
    int is_broken; /* there was no memory for an entry: it is not written */
};

/* More than this a table does not take: 128 GiB of text, in frames of 2 MiB. */
#define FP_ZST_TABLE_MAX 65536u

void fp_zst_table_add(struct fp_zst_table *table, size_t bytes, size_t text);
void fp_zst_table_free(struct fp_zst_table *table);
/* The finished skippable frame, to be freed, or NULL. */
char *fp_zst_table_print(const struct fp_zst_table *table, size_t *size);

#endif
