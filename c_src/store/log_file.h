/* log_file.h - one file in progress: its whole blocks, and the samples in it.
 *
 * Without a descriptor (-1) there is no file, and only fp_log_file_begin() may be called. Errors
 * are negative system errors. Any one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "store/log_name.h"
#include "store/zstd_frame.h"

struct fp_log_file {
    int descriptor; /* -1: there is none */
    struct fp_log_name name;
    bool is_zst;
    uint64_t size; /* of whole blocks */
    uint32_t flushes;
    int64_t offset_ns; /* of the times in it */
    /* Samples in it, and those of them that are not known to be on the disk. */
    uint64_t weight, unsynced;
    struct fp_zstd_table table;
};

/* `kind`, `node` as in a file's name. On an error *file is as it was. */
int fp_log_file_begin(struct fp_log_file *file, int folder, time_t begun, enum fp_log_kind kind,
                      const char *node, bool is_zst, int64_t offset_ns);
/* A block of `text` bytes of text, `size` as written. On an error a part of it may be in the file:
 * fp_log_file_cut(). */
int fp_log_file_write(struct fp_log_file *file, const char *bytes, size_t size, size_t text,
                      uint64_t weight);
/* Back to the last whole block. */
int fp_log_file_cut(struct fp_log_file *file);
/* To the disk. An error adds the samples since the last call to *unsaved: the kernel reports data
 * that it could not write once, and drops it. */
int fp_log_file_sync(struct fp_log_file *file, uint64_t *unsaved);
/* Whether the folder still has the file under its name. */
bool fp_log_file_is_named(const struct fp_log_file *file, int folder);
/* Adds the table of a zst file, and gives it the name of a finished one; `is_synced`: on the disk,
 * too. *bytes grows by the table's size, *unsaved as above, and by all samples of a file that has
 * lost its name. */
int fp_log_file_finish(struct fp_log_file *file, int folder, bool is_synced, uint64_t *bytes,
                       uint64_t *unsaved);
int fp_log_file_remove(const struct fp_log_file *file, int folder);
/* The file stays where it is. */
void fp_log_file_close(struct fp_log_file *file);
