/*
 * sink.h - samples to a series of files. WRITER THREAD only (but fp_sink_open:
 * the thread that starts the session, before the writer exists).
 *
 *   one file   2026-11-21@0154.07.erl_perf.log.zst.part, mode 0600, locked while
 *              it is written; it loses its `.part` when it is finished. At any
 *              moment it holds whole blocks (blocks.h), and at most one more
 *              that is being written.
 *   next file  after `flush_close_max` flushes or `file_max_bytes`
 *   retention  the oldest finished files go, so that at most `files_max` with
 *              at most `total_max_bytes` are there, the open one counted
 *   holding    with `hold_ms`, nothing is written at first: the blocks of the
 *              last `hold_ms` are kept in the same memory as those that wait
 *              for the disk, and the oldest are forgotten. fp_sink_commit()
 *              begins a file with what is kept.
 *   trouble    when anything fails, the file is cut back to its last whole block
 *              and the rest waits in memory, up to 5.5 MiB. It is tried again at
 *              every flush that somebody asked for, and after 1, 2, 4 ... 32
 *              seconds: in the same file when the disk was full, else in a new
 *              one.
 */
#ifndef FP_STORE_SINK_H
#define FP_STORE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_sink;

enum fp_sync {
    FP_SYNC_NONE,  /* the kernel decides when it reaches the disk */
    FP_SYNC_FLUSH, /* at each flush, and when a file is finished */
    FP_SYNC_CLOSE  /* when a file is finished */
};

enum fp_sink_event {
    FP_SINK_BEGUN,    /* the path of the new file */
    FP_SINK_FINISHED, /* the path it has now */
    FP_SINK_REMOVED,  /* the path of a file that was too old */
    FP_SINK_FAILED,   /* "path: reason"; once, until it goes on */
    FP_SINK_HEALED    /* the path of the file that takes bytes again */
};

struct fp_sink_options {
    const char *directory; /* copied */
    bool is_zst;
    enum fp_sync sync;
    /* 0: any. */
    uint32_t flush_close_max;
    uint64_t files_max, file_max_bytes, total_max_bytes;
    uint32_t hold_ms; /* 0: written at once */
};

/* Makes the directory if need be, finishes what dead sessions left in it, and
 * begins the first file, unless it holds. 0, FP_ENOMEM or FP_EIO; on FP_EIO *why (at least 256
 * bytes) holds "path: reason". */
int fp_sink_open(struct fp_sink **sink, const struct fp_sink_options *options,
                 char *why, size_t why_size);

/* From now on `notify` is told, inside the call that makes it happen. */
void fp_sink_listen(struct fp_sink *sink,
                    void (*notify)(void *arg, enum fp_sink_event event,
                                   const char *text),
                    void *arg);

/* Text of `looks` samples. 0, or FP_EFULL: refused whole (the file does not
 * take bytes and there is no more room). */
int fp_sink_write(struct fp_sink *sink, const char *text, size_t size,
                  uint64_t looks);

/* What is kept goes to a file, and all that comes from now on. How much that is:
 * text, and the samples it stands for. Does nothing where nothing is held. */
void fp_sink_commit(struct fp_sink *sink, uint64_t *text, uint64_t *looks);
bool fp_sink_is_holding(const struct fp_sink *sink);

/* All that was taken into the file, and to the disk if it is to be. `is_asked`:
 * now, even if it failed a moment ago. 0 or FP_EIO. */
int fp_sink_flush(struct fp_sink *sink, bool is_asked);

/* Now and then: tries again what failed, when it is time to; forgets what has
 * been held for long enough. */
void fp_sink_tend(struct fp_sink *sink);

/* The path of the file that is open, or was last; "" before the first. Until the
 * next call. */
const char *fp_sink_path(const struct fp_sink *sink);
/* The last error as "path: reason", "" when there was none. */
const char *fp_sink_error(const struct fp_sink *sink);

struct fp_sink_figures {
    uint64_t errors;      /* calls that failed */
    uint64_t files;       /* begun */
    uint64_t removed;     /* finished files taken away */
    uint64_t recovered;   /* of dead sessions, finished by this one */
    uint64_t bytes;       /* written to files, as they are there */
    uint64_t file_ns;     /* CPU time inside calls on files */
    uint64_t compress_ns; /* CPU time of compression */
    uint64_t expired;     /* samples that were held and forgotten */
};
struct fp_sink_figures fp_sink_figures(const struct fp_sink *sink);
/* Memory that it may take. */
size_t fp_sink_memory(const struct fp_sink *sink);

struct fp_sink_end {
    uint64_t lost_text, lost_looks; /* taken and not written */
    struct fp_sink_figures figures;
};

/* Flush, finish the file and free; what is only held is forgotten. 0 or FP_EIO: the sink is gone either
 * way. */
int fp_sink_close(struct fp_sink *sink, struct fp_sink_end *end);

#endif
