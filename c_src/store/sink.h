/* sink.h - samples to a series of files. WRITER THREAD only, except fp_sink_open: the thread that
 * starts the session, before the writer exists.
 *
 *   one file   2026-11-21@0154.07.shop@host.erl_perf.log.zst.part, mode 0600 and locked;
 *              finished, it loses `.part`. It holds whole blocks (blocks.h), and at most one that
 *              is being written.
 *   next file  after `flushes_per_file` flushes or `max_file_bytes`, or when the clock's offset
 *              changes: a file has one offset
 *   retention  the oldest finished files of the node and kind go, so that at most `max_files` with
 *              at most `max_total_bytes` are there, the open one counted
 *   buffering  with `lookback_ms` (the option lookback) no file is written before
 *              fp_sink_trigger(): the blocks of the last `lookback_ms` stay in memory
 *   failure    the file is cut back to its last whole block and the rest waits in memory, up to
 *              5.5 MiB. Each forced flush tries it again, and time does after 1, 2, 4 ... 32
 *              seconds: in the same file when the disk was full, else in a new one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/log_name.h"

struct fp_sink;

enum fp_sync {
    FP_SYNC_NONE,  /* the kernel decides when it reaches the disk */
    FP_SYNC_FLUSH, /* at each flush, and when a file is finished */
    FP_SYNC_CLOSE  /* when a file is finished */
};

/* Their text is the file's path, where no other is said. */
enum fp_sink_event {
    FP_SINK_BEGUN,
    FP_SINK_FINISHED, /* its new path */
    FP_SINK_REMOVED,
    FP_SINK_FAILED, /* "path: reason"; once, until it works again */
    FP_SINK_HEALED
};

struct fp_sink_options {
    const char *directory;       /* copied */
    char node[FP_LOG_NODE_ROOM]; /* in the files' names; "": none */
    enum fp_log_kind kind;
    bool is_zst;
    enum fp_sync sync;
    /* 0: any. */
    uint32_t flushes_per_file;
    uint64_t max_files, max_file_bytes, max_total_bytes;
    uint32_t lookback_ms; /* 0: written at once */
};

/* Makes the directory where it is missing, finishes what dead sessions left in it, and begins the
 * first file unless the sink buffers. 0; FP_ENOMEM or FP_EIO, and "path: reason" in *why. */
int fp_sink_open(struct fp_sink **sink, const struct fp_sink_options *options, char *why,
                 size_t why_size);

/* From now on each event calls `notify`, inside the call that causes the event. */
void fp_sink_listen(struct fp_sink *sink,
                    void (*notify)(void *arg, enum fp_sink_event event, const char *text),
                    void *arg);

/* Text of `weight` samples. 0; FP_EFULL: refused whole, the memory is full. */
int fp_sink_write(struct fp_sink *sink, const char *text, size_t size, uint64_t weight);

/* The block that the next text goes to: a block is written, lost or damaged as one. No two have the
 * same number, and none has 0. */
uint64_t fp_sink_block(const struct fp_sink *sink);
/* The next text is the first of a file. */
bool fp_sink_begins_file(const struct fp_sink *sink);
/* Unix time less monotonic time for the text that follows: files are named by it. If the file has
 * text, another one is begun. 0; FP_EFULL or FP_ENOMEM, and the offset is as it was. */
int fp_sink_set_offset(struct fp_sink *sink, int64_t offset_ns);

/* Writes what is buffered, *text bytes of *weight samples, and all that follows to a file. */
void fp_sink_trigger(struct fp_sink *sink, uint64_t *text, uint64_t *weight);
bool fp_sink_is_buffering(const struct fp_sink *sink);

/* Everything to the file, and to the disk as `sync` says. `is_forced`: before the next try is due,
 * too. 0 or FP_EIO, also if a file could not be finished since the previous flush. */
int fp_sink_flush(struct fp_sink *sink, bool is_forced);

/* The text so far to the file, for who reads it meanwhile: no flush that is counted or
 * synchronized. */
void fp_sink_publish(struct fp_sink *sink);

/* At least every second: retries what failed when that is due, and drops what is older than
 * `lookback_ms`. */
void fp_sink_retry(struct fp_sink *sink);

/* The path of the latest file; "" before the first. Until the next call. */
const char *fp_sink_path(const struct fp_sink *sink);
/* The last error as "path: reason", "" when there was none. */
const char *fp_sink_error(const struct fp_sink *sink);

struct fp_sink_gauges {
    uint64_t errors;      /* calls that failed */
    uint64_t files;       /* begun */
    uint64_t removed;     /* finished files removed by retention */
    uint64_t recovered;   /* files of dead sessions, finished by this one */
    uint64_t bytes;       /* written to files, as they are there */
    uint64_t file_ns;     /* CPU time inside calls on files */
    uint64_t compress_ns; /* CPU time of compression */
    uint64_t expired;     /* samples that were buffered and dropped */
    uint64_t unsaved;     /* samples in a file that was removed, replaced, or not synced */
};
struct fp_sink_gauges fp_sink_gauges(const struct fp_sink *sink);

#define FP_SINK_WHY_ROOM 4600 /* a path, and what went wrong with it */

struct fp_sink_end {
    uint64_t lost_text, lost_weight; /* taken and not written */
    char why[FP_SINK_WHY_ROOM];      /* of the result: "path: reason", or "" */
    struct fp_sink_gauges gauges;
};

/* Flushes, finishes the file and frees; drops what is only buffered. 0 or FP_EIO: freed, too. */
int fp_sink_close(struct fp_sink *sink, struct fp_sink_end *end);
