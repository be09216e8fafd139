/*
 * output.c - one buffer, an optional deflate behind it, one file.
 */
#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "base/buffer.h"
#include "report/text.h"

#define BUFFER_BYTES ((size_t)256 << 10)
#define NAMES_MOST 100

struct fp_output {
    int file, is_gzip;
    bool needs_comma; /* the next value of the JSON */
    int failed;       /* errno of what failed first; -1: zlib */
    char *path, *temporary;
    char *buffer;
    size_t used;
    uint64_t size;    /* of what was put */
    uint64_t written; /* of the file, up to its end */
    z_stream gzip;
    unsigned char *packed; /* BUFFER_BYTES */
};

/* -------------------------------------------------------------- to the file -- */

void fp_output_at(struct fp_output *output, uint64_t at, const void *bytes, size_t size)
{
    const char *from = bytes;

    while (size > 0 && output->failed == 0) {
        ssize_t n = pwrite(output->file, from, size, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            output->failed = errno;
            return;
        }
        from += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
}

static void append(struct fp_output *output, const void *bytes, size_t size)
{
    fp_output_at(output, output->written, bytes, size);
    output->written += size;
}

static void pack(struct fp_output *output, int flush)
{
    z_stream *gzip = &output->gzip;
    int got = Z_OK;

    gzip->next_in = (unsigned char *)output->buffer;
    gzip->avail_in = (unsigned)output->used;
    do {
        gzip->next_out = output->packed;
        gzip->avail_out = (unsigned)BUFFER_BYTES;
        got = deflate(gzip, flush);
        append(output, output->packed, BUFFER_BYTES - gzip->avail_out);
    } while (gzip->avail_out == 0 && output->failed == 0);
    if (got == Z_STREAM_ERROR && output->failed == 0)
        output->failed = -1;
}

static void drain(struct fp_output *output, int flush)
{
    if (output->is_gzip)
        pack(output, flush);
    else
        append(output, output->buffer, output->used);
    output->used = 0;
}

/* ---------------------------------------------------------------------- put -- */

void fp_output_put(struct fp_output *output, const void *bytes, size_t size)
{
    const char *at = bytes;

    output->size += size;
    while (size > 0) {
        size_t some = BUFFER_BYTES - output->used;

        some = size < some ? size : some;
        /* cppcheck-suppress uninitvar; what fp_put_i64() has written */
        memcpy(output->buffer + output->used, at, some);
        output->used += some;
        at += some;
        size -= some;
        if (output->used == BUFFER_BYTES)
            drain(output, Z_NO_FLUSH);
    }
}

void fp_output_text(struct fp_output *output, struct fp_slice text)
{
    fp_output_put(output, text.at, text.size);
}

void fp_output_number(struct fp_output *output, int64_t number)
{
    char digits[FP_I64_DIGITS + 1];

    fp_output_put(output, digits, (size_t)(fp_put_i64(digits, number) - digits));
}

void fp_output_head(struct fp_output *output, const void *bytes, size_t size)
{
    drain(output, Z_NO_FLUSH);
    fp_output_at(output, 0, bytes, size);
}

void fp_output_extend(struct fp_output *output, uint64_t size)
{
    struct stat info;

    drain(output, Z_NO_FLUSH);
    output->size = size;
    if (output->failed == 0 && fstat(output->file, &info) == 0 && (uint64_t)info.st_size < size &&
        ftruncate(output->file, (off_t)size) != 0)
        output->failed = errno;
}

static void put_json_byte(struct fp_output *output, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    char escaped[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};

    if (byte == '"' || byte == '\\')
        fp_output_put(output, (char[2]){'\\', (char)byte}, 2);
    else if (byte < ' ' || byte == 0x7f || byte == '<')
        fp_output_put(output, escaped, sizeof(escaped));
    else
        fp_output_put(output, &byte, 1);
}

static void put_json_text(struct fp_output *output, struct fp_slice text)
{
    const char *at = text.at, *end = at + text.size;

    FP_OUTPUT_LITERAL(output, "\"");
    while (at < end) {
        uint32_t point;
        size_t size = fp_utf8(at, (size_t)(end - at), &point);

        if (size == 1)
            put_json_byte(output, (unsigned char)*at);
        else if (size > 1)
            fp_output_put(output, at, size);
        else
            FP_OUTPUT_LITERAL(output, "\xef\xbf\xbd");
        at += size == 0 ? 1 : size;
    }
    FP_OUTPUT_LITERAL(output, "\"");
}

static void begin_json(struct fp_output *output, const char *key)
{
    if (output->needs_comma)
        FP_OUTPUT_LITERAL(output, ",");
    if (key != NULL) {
        put_json_text(output, (struct fp_slice){key, strlen(key)});
        FP_OUTPUT_LITERAL(output, ":");
    }
    output->needs_comma = true;
}

void fp_json_begin(struct fp_output *output, const char *key, const char *bracket)
{
    begin_json(output, key);
    fp_output_put(output, bracket, 1);
    output->needs_comma = false;
}

/* A line for each, so that no line of the file is too long for an editor. */
void fp_json_end(struct fp_output *output, const char *bracket)
{
    fp_output_put(output, bracket, 1);
    FP_OUTPUT_LITERAL(output, "\n");
    output->needs_comma = true;
}

void fp_json_number(struct fp_output *output, const char *key, int64_t number)
{
    begin_json(output, key);
    fp_output_number(output, number);
}

void fp_json_text(struct fp_output *output, const char *key, struct fp_slice text)
{
    begin_json(output, key);
    put_json_text(output, text);
}

void fp_json_word(struct fp_output *output, const char *key, const char *word)
{
    fp_json_text(output, key, (struct fp_slice){word, strlen(word)});
}

uint64_t fp_output_size(const struct fp_output *output)
{
    return output->size;
}

/* ------------------------------------------------------------ open and close -- */

/* A free name beside the wanted one. */
static int open_temporary(struct fp_output *output, const char *path)
{
    size_t size = strlen(path) + 40;

    output->temporary = malloc(size);
    if (output->temporary == NULL)
        return ENOMEM;
    for (int n = 0; n < NAMES_MOST; n++) {
        snprintf(output->temporary, size, "%s.%d-%d.tmp", path, (int)getpid(), n);
        output->file =
            open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (output->file >= 0 || errno != EEXIST)
            break;
    }
    return output->file < 0 ? errno : 0;
}

static void destroy(struct fp_output *output)
{
    if (output->is_gzip)
        deflateEnd(&output->gzip);
    free(output->packed);
    free(output->buffer);
    free(output->temporary);
    free(output->path);
    free(output);
}

static int start_gzip(struct fp_output *output)
{
    output->packed = malloc(BUFFER_BYTES);
    /* 16: the gzip format. */
    if (output->packed == NULL ||
        deflateInit2(&output->gzip, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return FP_ENOMEM;
    output->is_gzip = 1;
    return 0;
}

int fp_output_open(struct fp_output **output, const char *path, int is_gzip, char *why,
                   size_t why_size)
{
    struct fp_output *made = calloc(1, sizeof(*made));
    int err = 0, number;

    if (made == NULL)
        return FP_ENOMEM;
    made->path = strdup(path);
    made->buffer = malloc(BUFFER_BYTES);
    if (made->path == NULL || made->buffer == NULL)
        err = FP_ENOMEM;
    if (err == 0 && is_gzip)
        err = start_gzip(made);
    if (err == 0) {
        number = open_temporary(made, path);
        if (number != 0) {
            snprintf(why, why_size, "%s", strerror(number));
            err = FP_EIO;
        }
    }
    if (err != 0)
        destroy(made);
    else
        *output = made;
    return err;
}

int fp_output_close(struct fp_output *output, int err, char *why, size_t why_size)
{
    if (err == 0)
        drain(output, Z_FINISH);
    if (close(output->file) != 0 && output->failed == 0)
        output->failed = errno;
    if (err == 0 && output->failed == 0 && rename(output->temporary, output->path) != 0)
        output->failed = errno;
    if (err == 0 && output->failed != 0) {
        snprintf(why, why_size, "%s",
                 output->failed < 0 ? "zlib failed" : strerror(output->failed));
        err = FP_EIO;
    }
    if (err != 0)
        unlink(output->temporary);
    destroy(output);
    return err;
}
