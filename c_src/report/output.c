/* output.c - one buffer, before a file or zlib's writer of one. */
#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "base/buffer.h"
#include "report/text.h"

#define BUFFER_BYTES ((size_t)256 << 10)
#define NAMES_MOST 100

struct fp_output {
    int file;
    gzFile gzip;      /* owns `file`; NULL: no compression */
    bool needs_comma; /* the next value of the JSON */
    int failed;       /* the first errno; -1: zlib's own error */
    char *path, *temporary;
    char *buffer;
    size_t used;
    uint64_t size;    /* of what was put */
    uint64_t written; /* of the file, up to its end */
};

/* -------------------------------------------------------------- to the file -- */

static void fail(struct fp_output *output, int error)
{
    if (output->failed == 0)
        output->failed = error;
}

void fp_output_at(struct fp_output *output, uint64_t at, const void *bytes, size_t size)
{
    const char *from = bytes;

    while (size > 0 && output->failed == 0) {
        ssize_t n = pwrite(output->file, from, size, (off_t)at);

        if (n < 0 && errno != EINTR)
            fail(output, errno);
        if (n < 0)
            continue;
        from += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
}

static void drain(struct fp_output *output)
{
    int code;

    if (output->gzip == NULL)
        fp_output_at(output, output->written, output->buffer, output->used);
    else if (output->used > 0 && output->failed == 0 &&
             gzwrite(output->gzip, output->buffer, (unsigned)output->used) == 0)
        fail(output, (gzerror(output->gzip, &code), code) == Z_ERRNO ? errno : -1);
    output->written += output->used;
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
            drain(output);
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

void fp_output_extend(struct fp_output *output, uint64_t size)
{
    struct stat info;

    drain(output);
    output->size = size;
    if (output->failed == 0 && fstat(output->file, &info) == 0 && (uint64_t)info.st_size < size &&
        ftruncate(output->file, (off_t)size) != 0)
        fail(output, errno);
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
    FP_OUTPUT_LITERAL(output, "\"");
    while (text.size > 0) {
        struct fp_slice next = fp_utf8_next(&text);

        if (next.size == 1)
            put_json_byte(output, (unsigned char)*next.at);
        else
            fp_output_text(output, next);
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

void fp_json_millis(struct fp_output *output, const char *key, int64_t us)
{
    uint64_t rest = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    char fraction[4] = {'.', (char)('0' + rest / 100 % 10), (char)('0' + rest / 10 % 10),
                        (char)('0' + rest % 10)};

    begin_json(output, key);
    if (us < 0)
        FP_OUTPUT_LITERAL(output, "-");
    fp_output_number(output, (int64_t)(rest / 1000));
    fp_output_put(output, fraction, sizeof(fraction));
}

void fp_json_plain(struct fp_output *output, const char *key, const char *plain)
{
    begin_json(output, key);
    fp_output_put(output, plain, strlen(plain));
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

/* A free name beside `path`. 0 or FP_EIO, with errno. */
static int open_temporary(struct fp_output *output, const char *path, size_t size)
{
    for (int n = 0; n < NAMES_MOST; n++) {
        snprintf(output->temporary, size, "%s.%d-%d.tmp", path, (int)getpid(), n);
        output->file =
            open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (output->file >= 0 || errno != EEXIST)
            break;
    }
    return output->file < 0 ? FP_EIO : 0;
}

static void destroy(struct fp_output *output)
{
    free(output->buffer);
    free(output->temporary);
    free(output->path);
    free(output);
}

int fp_output_open(struct fp_output **output, const char *path, int is_gzip, char *why,
                   size_t why_size)
{
    struct fp_output *made = calloc(1, sizeof(*made));
    size_t size = strlen(path) + 40;
    int err = FP_ENOMEM;

    if (made == NULL)
        return FP_ENOMEM;
    made->path = strdup(path);
    made->temporary = malloc(size);
    made->buffer = malloc(BUFFER_BYTES);
    if (made->path != NULL && made->temporary != NULL && made->buffer != NULL)
        err = open_temporary(made, path, size);
    if (err == FP_EIO)
        snprintf(why, why_size, "%s", strerror(errno));
    if (err == 0 && is_gzip && (made->gzip = gzdopen(made->file, "wb6")) == NULL) {
        close(made->file);
        unlink(made->temporary);
        err = FP_ENOMEM;
    }
    if (err != 0)
        destroy(made);
    else
        *output = made;
    return err;
}

static void close_file(struct fp_output *output)
{
    int code = output->gzip != NULL ? gzclose(output->gzip) : close(output->file);

    if (code != 0)
        fail(output, output->gzip == NULL || code == Z_ERRNO ? errno : -1);
}

int fp_output_close(struct fp_output *output, int err, uint64_t *bytes, char *why, size_t why_size)
{
    struct stat info = {0};

    if (err == 0)
        drain(output);
    close_file(output);
    if (stat(output->temporary, &info) != 0)
        fail(output, errno);
    *bytes = (uint64_t)info.st_size;
    if (err == 0 && output->failed == 0 && rename(output->temporary, output->path) != 0)
        fail(output, errno);
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
