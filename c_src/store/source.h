/* source.h - the text of a file: plain, gzip or zstd, by its first bytes and not by its name.
 *
 * Damage is counted and costs as little as it can: reading goes on at the next zstd frame. The text
 * of a zstd frame or gzip member of up to 24 MiB is read only when its checksum is right, that of a
 * longer one before. What the end of the file cuts off has no checksum, and is read as far as it
 * goes: copies of files that are being written, and full disks, leave such ends, and damage does
 * not. Memory: 2 MiB, for compressed
 * files 24 MiB more, and the window of a decompressor (at most 128 MiB, as zstd -d has it; 4 MiB or
 * less for what flame_prof writes).
 *
 * Calls read the disk: dirty I/O threads only. One thread at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fp_source;

enum fp_source_kind { FP_SOURCE_PLAIN, FP_SOURCE_GZIP, FP_SOURCE_ZSTD };

struct fp_source_state {
    enum fp_source_kind kind;
    uint64_t bytes_in; /* of the file, read so far */
    uint64_t text;     /* bytes of text made of them */
    /* Places where compressed bytes made no sense, and the text of the zstd frames there, as far
     * as they say its size. */
    uint64_t damaged, lost_text;
    int is_cut_off; /* it ends in the middle of what was compressed */
};

/* 0; FP_ENOMEM; FP_EIO with a sentence in `why`. Only regular files: opening a pipe could block. */
int fp_source_open(struct fp_source **source, const char *path, char *why, size_t why_size);
/* The same from byte `from` on, where a sample or a zstd frame begins. `is_part`: the file is being
 * written, and what is not whole at its end is left out: state.bytes_in is the next `from`. A gzip
 * member, and a frame of more than 24 MiB of text, end as cut off. FP_ESTATE: the file is shorter,
 * or no sample begins there: it is another text than the one that `from` is of. */
int fp_source_open_at(struct fp_source **source, const char *path, uint64_t from, int is_part,
                      char *why, size_t why_size);
void fp_source_close(struct fp_source *source);
/* Closes the file; the memory stays, for fp_source_reopen() alone. Otherwise a reader of a growing
 * file spends a tenth of its time on new memory. */
void fp_source_rest(struct fp_source *source);
/* fp_source_open_at() with this source's memory. After an error the source is closed. */
int fp_source_reopen(struct fp_source *source, const char *path, uint64_t from, int is_part,
                     char *why, size_t why_size);

/* `source` is a struct fp_source: this is a reader of format/scan.h. Up to `room` (at least 1)
 * bytes of text to `to`; *size is 0 at the end. 0, or FP_EIO: the disk says so. */
int fp_source_read(void *source, char *to, size_t room, size_t *size);
const struct fp_source_state *fp_source_state(const struct fp_source *source);
/* The size of the file when it was opened. */
uint64_t fp_source_size(const struct fp_source *source);

const char *fp_source_kind_name(enum fp_source_kind kind);
