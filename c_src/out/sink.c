/*
 * sink.c - a bounded buffer in front of one file.
 *
 *      buffer   |.... written ....|#### waiting ####|.... room ....|
 *               0               begin              end        CAPACITY
 *
 * The waiting bytes go to the file when there are WRITE_AT of them, or at a
 * flush. When the file fails they stay, in order, and only a flush tries
 * again: a full disk costs one system call a flush, not one a sample, and
 * loses nothing as long as the buffer holds it.
 *
 * write_out() is the one place where bytes leave this process.
 */
#include "sink.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../core/error.h"

/* Little enough that the bytes are still in the processor's cache when the
 * kernel copies them: a third of the cost of writing a megabyte at a time. */
#define WRITE_AT ((size_t)64 << 10)
/* Room for what comes while the file does not take bytes; the largest single
 * sample (250 frames of the longest atoms, percent-encoded) is below 3 MiB. */
#define CAPACITY ((size_t)4 << 20)

#define ERROR_BYTES 512
#define SUFFIX_MAX 1000

struct fp_sink {
    uv_file file;
    char *path;
    char *buffer;
    size_t begin, end;
    uint64_t errors;
    bool is_failing; /* the last write failed and no flush has mended it */
    char error[ERROR_BYTES];
    uint64_t cpu_ns; /* of this thread, inside write calls */
};

/* ---- open ------------------------------------------------------------- */

static int refuse(char *why, size_t why_size, const char *path,
                  const char *reason)
{
    snprintf(why, why_size, "%s: %s", path, reason);
    return FP_EIO;
}

/* Synchronous calls do not look at the loop: there need not be one yet. */

static int make_directory(const char *path, char *why, size_t why_size)
{
    uv_fs_t request;
    bool is_directory;
    int made, known;

    made = uv_fs_mkdir(NULL, &request, path, 0700, NULL);
    uv_fs_req_cleanup(&request);
    if (made == 0)
        return 0;
    /* Not every file system says EEXIST first (EROFS, EACCES): look. */
    known = uv_fs_stat(NULL, &request, path, NULL);
    is_directory = known == 0 && (request.statbuf.st_mode & S_IFMT) == S_IFDIR;
    uv_fs_req_cleanup(&request);
    if (is_directory)
        return 0;
    if (known == 0)
        return refuse(why, why_size, path, uv_strerror(UV_ENOTDIR));
    return refuse(why, why_size, path, uv_strerror(made));
}

/* Where the suffix of an existing name goes: see sink.h. */
static size_t stem_size(const char *name)
{
    size_t behind_digit = 0;

    for (size_t i = 0; name[i] != '\0'; i++) {
        if (name[i] >= '0' && name[i] <= '9')
            behind_digit = i + 1;
    }
    if (behind_digit == 0 && name[0] == '.')
        behind_digit = 1;
    return behind_digit + strcspn(name + behind_digit, ".");
}

static char *print(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* A new string, or NULL. */
static char *print(const char *format, ...)
{
    va_list list;
    char *string;
    int size;

    va_start(list, format);
    size = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (size < 0)
        return NULL;
    string = malloc((size_t)size + 1);
    if (string == NULL)
        return NULL;
    va_start(list, format);
    vsnprintf(string, (size_t)size + 1, format, list);
    va_end(list);
    return string;
}

/* The n-th choice of a path. */
static char *nth_path(const char *directory, const char *name, int n)
{
    size_t stem = stem_size(name);

    if (n == 0)
        return print("%s/%s", directory, name);
    return print("%s/%.*s-%d%s", directory, (int)stem, name, n, name + stem);
}

/* Exclusively: neither another run's file nor the target of a link that
 * somebody laid there is ever written to. */
static int open_new_file(const char *path)
{
    uv_fs_t request;
    int file;

    file = uv_fs_open(NULL, &request, path,
                      UV_FS_O_WRONLY | UV_FS_O_CREAT | UV_FS_O_EXCL |
                          UV_FS_O_NOFOLLOW,
                      0600, NULL);
    uv_fs_req_cleanup(&request);
    return file;
}

static int open_first_free(struct fp_sink *sink, const char *directory,
                           const char *name, char *why, size_t why_size)
{
    int file = UV_EEXIST;

    for (int n = 0; n <= SUFFIX_MAX && file == UV_EEXIST; n++) {
        free(sink->path);
        sink->path = nth_path(directory, name, n);
        if (sink->path == NULL)
            return FP_ENOMEM;
        file = open_new_file(sink->path);
    }
    if (file < 0)
        return refuse(why, why_size, sink->path, uv_strerror(file));
    sink->file = file;
    return 0;
}

int fp_sink_open(struct fp_sink **sink, const char *directory, const char *name,
                 char *why, size_t why_size)
{
    struct fp_sink *made;
    int err;

    if (name[0] == '\0' || strchr(name, '/') != NULL)
        return refuse(why, why_size, name, uv_strerror(UV_EINVAL));
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return FP_ENOMEM;
    made->buffer = malloc(CAPACITY);
    err = made->buffer == NULL ? FP_ENOMEM : 0;
    if (err != 0)
        goto fail_sink;
    err = make_directory(directory, why, why_size);
    if (err != 0)
        goto fail_buffer;
    err = open_first_free(made, directory, name, why, why_size);
    if (err != 0)
        goto fail_path;
    *sink = made;
    return 0;

fail_path:
    free(made->path);
fail_buffer:
    free(made->buffer);
fail_sink:
    free(made);
    return err;
}

/* ---- write ------------------------------------------------------------ */

static void note_error(struct fp_sink *sink, int uv_err)
{
    sink->errors++;
    snprintf(sink->error, sizeof(sink->error), "%s: %s", sink->path,
             uv_strerror(uv_err));
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Everything that waits to the file. What it does not take stays. */
static int write_out(struct fp_sink *sink, uv_loop_t *loop)
{
    while (sink->begin < sink->end) {
        uv_buf_t buffer = uv_buf_init(sink->buffer + sink->begin,
                                      (unsigned)(sink->end - sink->begin));
        uint64_t before = thread_cpu_ns();
        uv_fs_t request;
        int written;

        written = uv_fs_write(loop, &request, sink->file, &buffer, 1, -1, NULL);
        uv_fs_req_cleanup(&request);
        sink->cpu_ns += thread_cpu_ns() - before;
        if (written <= 0) {
            /* 0 is no error, but asking again at once might never end. */
            note_error(sink, written == 0 ? UV_EIO : written);
            sink->is_failing = true;
            return FP_EIO;
        }
        sink->begin += (size_t)written;
    }
    sink->begin = sink->end = 0;
    sink->is_failing = false;
    return 0;
}

/* Whether `size` more bytes find room behind those that wait. */
static bool make_room(struct fp_sink *sink, uv_loop_t *loop, size_t size)
{
    if (size <= CAPACITY - sink->end)
        return true;
    if (!sink->is_failing)
        write_out(sink, loop);
    if (sink->begin > 0 && size > CAPACITY - sink->end) {
        memmove(sink->buffer, sink->buffer + sink->begin,
                sink->end - sink->begin);
        sink->end -= sink->begin;
        sink->begin = 0;
    }
    return size <= CAPACITY - sink->end;
}

int fp_sink_write(struct fp_sink *sink, uv_loop_t *loop, const char *bytes,
                  size_t size)
{
    if (!make_room(sink, loop, size))
        return FP_EFULL;
    memcpy(sink->buffer + sink->end, bytes, size);
    sink->end += size;
    /* The bytes are taken: a failure now is the next flush's to report. */
    if (sink->end - sink->begin >= WRITE_AT && !sink->is_failing)
        write_out(sink, loop);
    return 0;
}

int fp_sink_flush(struct fp_sink *sink, uv_loop_t *loop)
{
    return write_out(sink, loop);
}

int fp_sink_close(struct fp_sink *sink, uv_loop_t *loop)
{
    int err = fp_sink_flush(sink, loop);
    uv_fs_t request;
    int closed;

    closed = uv_fs_close(loop, &request, sink->file, NULL);
    uv_fs_req_cleanup(&request);
    free(sink->path);
    free(sink->buffer);
    free(sink);
    return closed < 0 ? FP_EIO : err;
}

/* ---- questions -------------------------------------------------------- */

const char *fp_sink_path(const struct fp_sink *sink)
{
    return sink->path;
}

const char *fp_sink_error(const struct fp_sink *sink)
{
    return sink->error;
}

uint64_t fp_sink_cpu_ns(const struct fp_sink *sink)
{
    return sink->cpu_ns;
}

uint64_t fp_sink_errors(const struct fp_sink *sink)
{
    return sink->errors;
}

size_t fp_sink_waiting(const struct fp_sink *sink)
{
    return sink->end - sink->begin;
}
