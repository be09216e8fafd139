/*
 * sink.h - bytes to one file. WRITER THREAD only (but fp_sink_open: the
 * thread that starts the session, before the writer exists).
 *
 * Opens with O_CREAT|O_EXCL|O_NOFOLLOW, mode 0600, in a directory that is made
 * with 0700 when it is not there. Buffers; file calls are libuv's synchronous
 * ones with `loop`. After a failed write the sink tries again at the next
 * flush; what its buffer can not hold meanwhile is refused.
 */
#ifndef FP_SINK_H
#define FP_SINK_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct fp_sink;

/* `directory` may not exist yet (its parent must); `name` is the file's. When
 * anything of that name exists, `-1`, `-2`, ... is put before the first '.'
 * after the time, that is after the last digit of `name` (`x.2026-01-02.perf`
 * becomes `x.2026-01-02-1.perf`). 0, FP_ENOMEM or FP_EIO; on FP_EIO *why (at
 * least 256 bytes) holds "path: reason". */
int fp_sink_open(struct fp_sink **sink, const char *directory, const char *name,
                 char *why, size_t why_size);

/* The path of the open file, valid as long as the sink. */
const char *fp_sink_path(const struct fp_sink *sink);

/* 0, or FP_EFULL: refused whole (the file does not take bytes and the buffer
 * is full). Never blocks on anything but the file itself. */
int fp_sink_write(struct fp_sink *sink, uv_loop_t *loop, const char *bytes,
                  size_t size);

/* Hand everything buffered to the kernel. 0 or FP_EIO. */
int fp_sink_flush(struct fp_sink *sink, uv_loop_t *loop);

/* Flush, close and free. 0 or FP_EIO: the sink is gone either way. */
int fp_sink_close(struct fp_sink *sink, uv_loop_t *loop);

/* The last error as "path: reason", "" when there was none; and how many file
 * operations have failed. */
const char *fp_sink_error(const struct fp_sink *sink);
/* CPU time of the calling thread spent inside write calls so far: the kernel's
 * copy into its page cache, mostly. */
uint64_t fp_sink_cpu_ns(const struct fp_sink *sink);
uint64_t fp_sink_errors(const struct fp_sink *sink);

/* Bytes taken that have not been handed to the kernel yet. */
size_t fp_sink_waiting(const struct fp_sink *sink);

#endif
