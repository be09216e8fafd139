/* zstd_frame.h - text to zstd frames, and the table of frames that ends a file.
 *
 * Each frame has its size and a checksum, and is made as its text comes. The table is that of the
 * seekable format, in a frame that other readers skip; numbers have 32 bits, the little end first:
 *
 *      5E 2A 4D 18 | size | n x (compressed, text) | n | 00 | B1 EA 92 8F
 *
 * Not shared between threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct fp_zstd;

/* The most text of a frame that is written, and the most bytes. */
#define FP_ZST_FRAME_MAX ((size_t)24 << 20)

/* 0; FP_ENOMEM, or FP_EINVAL: this libzstd writes other headers. */
int fp_zstd_create(struct fp_zstd **zst);
void fp_zstd_destroy(struct fp_zstd *zst);

/* The most bytes that so much text, and the frame's end, add to a frame. */
size_t fp_zstd_bound(size_t text);
/* More text into the frame that has *size bytes so far, 0: a new one; `is_end`: its last. Behind
 * them is room for fp_zstd_bound(text_size). 0; FP_ENOMEM: the frame is dropped. */
int fp_zstd_put(struct fp_zstd *zst, const char *text, size_t text_size, bool is_end, char *frame,
                size_t *size);
/* Drops the frame that was begun, if any. */
void fp_zstd_drop(struct fp_zstd *zst);

struct fp_zstd_entry {
    uint32_t bytes, text;
};

/* An empty one to begin with: all 0. */
struct fp_zstd_table {
    struct fp_buffer entries; /* n times a struct fp_zstd_entry */
    size_t n;
    int is_broken; /* there was no memory for an entry: it is not written */
};

/* The most entries: a terabyte of text, in frames of 16 MiB. */
#define FP_ZST_TABLE_MAX 65536u

void fp_zstd_table_add(struct fp_zstd_table *table, size_t bytes, size_t text);
void fp_zstd_table_free(struct fp_zstd_table *table);
/* The finished skippable frame, to be freed, or NULL. */
char *fp_zstd_table_print(const struct fp_zstd_table *table, size_t *size);
