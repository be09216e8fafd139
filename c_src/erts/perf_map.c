#include "erts/perf_map.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "erts/atom.h"
#include "format/write_frame.h"

/* ---- which modules ---------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct fp_loaded *x = a, *y = b;

    return x->name < y->name ? -1 : x->name > y->name;
}

static int is_loaded(const struct fp_module *module, const struct fp_loaded *loaded, size_t n)
{
    struct fp_loaded key = {.name = module->name};
    const struct fp_loaded *it = bsearch(&key, loaded, n, sizeof *loaded, by_name);

    if (it == NULL)
        return 0;
    if (it->has_old || !it->has_md5 || !module->has_md5)
        return 1;
    return memcmp(it->md5, module->md5, FP_MD5_SIZE) == 0;
}

/* ---- the text --------------------------------------------------------- */

struct writer {
    struct fp_buffer *text;
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    uint64_t module; /* atom word of what is in module_text */
    int module_size; /* or why there is nothing */
    char module_text[FP_ATOM_TEXT_MAX];
};

static char *put_hex(char *out, uint64_t value)
{
    int shift = 60;

    while (shift > 0 && value >> shift == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *out++ = "0123456789abcdef"[value >> shift & 15];
    return out;
}

/* `START SIZE ` */
static int put_place(struct fp_buffer *text, uint64_t start, uint64_t end)
{
    int err = fp_buffer_reserve(text, 64);
    char *out;

    if (err != 0)
        return err;
    out = put_hex(fp_buffer_at(text), start);
    *out++ = ' ';
    out = put_hex(out, end - start);
    *out++ = ' ';
    fp_buffer_end(text, out);
    return 0;
}

static int put_shared(struct fp_buffer *text, const struct fp_range *range)
{
    static const char name[] = "[jit shared]\n";
    int err = put_place(text, range->start, range->end);

    return err != 0 ? err : fp_buffer_append(text, name, sizeof name - 1);
}

/* Functions come module by module: one text at a time is kept. */
static void read_module_name(struct writer *writer, uint64_t module)
{
    if (writer->module == module)
        return;
    writer->module = module;
    writer->module_size = fp_atom_text(writer->layout, writer->memory, module, writer->module_text);
}

/* 0; FP_ENOENT: its names are no atoms; FP_ENOMEM. */
static int put_function(struct writer *writer, const struct fp_function *function)
{
    char name[FP_ATOM_TEXT_MAX];
    struct fp_frame frame = {.arity = function->mfa[2]};
    int size = fp_atom_text(writer->layout, writer->memory, function->mfa[1], name);
    int err;

    read_module_name(writer, function->mfa[0]);
    if (size < 0 || writer->module_size < 0)
        return FP_ENOENT;
    frame.module = (struct fp_slice){writer->module_text, (size_t)writer->module_size};
    frame.function = (struct fp_slice){name, (size_t)size};
    err = put_place(writer->text, function->start, function->end);
    if (err == 0)
        err = fp_buffer_reserve(writer->text, fp_frame_room(&frame) + 1);
    if (err != 0)
        return err;
    fp_buffer_end(writer->text,
                  FP_PUT_LITERAL(fp_put_function(fp_buffer_at(writer->text), &frame), "\n"));
    return 0;
}

/* Those of a module that is not loaded, and those of none, say nothing true. */
static int put_if_loaded(struct writer *writer, const struct fp_functions *functions, uint32_t i,
                         const unsigned char *is_wanted, struct fp_perf_map_count *count)
{
    const struct fp_function *function = &functions->function[i];
    int err = FP_ENOENT;

    if (function->module != FP_NO_MODULE && is_wanted[function->module] &&
        function->end > function->start)
        err = put_function(writer, function);
    if (err == FP_ENOENT)
        count->left_out++;
    else
        count->functions++;
    return err == FP_ENOENT ? 0 : err;
}

static int put_all(struct writer *writer, const struct fp_functions *functions,
                   const unsigned char *is_wanted, struct fp_perf_map_count *count)
{
    uint32_t shared = 0;
    int err = 0;

    for (uint32_t i = 0; i < functions->functions && err == 0; i++) {
        if (shared < functions->shared.count &&
            functions->shared.range[shared].start < functions->function[i].start)
            err = put_shared(writer->text, &functions->shared.range[shared++]);
        if (err == 0)
            err = put_if_loaded(writer, functions, i, is_wanted, count);
    }
    return err;
}

int fp_perf_map_text(struct fp_buffer *text, const struct fp_functions *functions,
                     struct fp_loaded *loaded, size_t n, const struct fp_layout *layout,
                     const struct fp_memory *memory, struct fp_perf_map_count *count)
{
    struct writer writer = {.text = text, .layout = layout, .memory = memory};
    unsigned char *is_wanted = calloc(functions->modules + 1u, 1);
    int err;

    *count = (struct fp_perf_map_count){0, 0};
    if (is_wanted == NULL)
        return FP_ENOMEM;
    if (n > 0)
        qsort(loaded, n, sizeof *loaded, by_name);
    for (uint32_t i = 0; i < functions->modules && n > 0; i++)
        is_wanted[i] = (unsigned char)is_loaded(&functions->module[i], loaded, n);
    err = put_all(&writer, functions, is_wanted, count);
    free(is_wanted);
    return err;
}

/* ---- the file --------------------------------------------------------- */

static int refuse(char *why, size_t why_size, const char *path, int error)
{
    snprintf(why, why_size, "%s: %s", path, strerror(error));
    return FP_EIO;
}

static int is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Does descriptor `name` of ours write to `file`? */
static int writes_to(const char *name, const struct stat *file)
{
    int fd = name[0] == '.' ? -1 : atoi(name);
    int flags = fcntl(fd, F_GETFL);
    struct stat info;

    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fstat(fd, &info) == 0 &&
           is_same_file(&info, file);
}

/* The VM, started with +JPperf, keeps its map open and appends to it. */
static int is_open_here(const char *path)
{
    struct stat file;
    struct dirent *entry;
    DIR *descriptors;
    int found = 0;

    if (lstat(path, &file) != 0 || !S_ISREG(file.st_mode))
        return 0;
    descriptors = opendir("/proc/self/fd");
    if (descriptors == NULL)
        return 0;
    while (!found && (entry = readdir(descriptors)) != NULL)
        found = writes_to(entry->d_name, &file);
    closedir(descriptors);
    return found;
}

/* A new file beside `path`, named so that nobody can have guessed it: its descriptor, or -1. */
static int open_beside(const char *path, char *beside, size_t size)
{
    int fd = -1;

    for (int attempt = 0; attempt < 16; attempt++) {
        uint64_t random;

        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return -1;
        if ((size_t)snprintf(beside, size, "%s.%016llx", path, (unsigned long long)random) >=
            size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return fd;
}

static int write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Write, close, rename: 0, or errno. */
static int fill(int fd, const char *beside, const char *path, const char *bytes, size_t size)
{
    int error = 0;

    /* A umask may have taken from the 0600. */
    if (fchmod(fd, 0600) != 0 || write_all(fd, bytes, size) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(beside, path) != 0)
        error = errno;
    return error;
}

int fp_perf_map_write(const char *path, const char *bytes, size_t size, char *why, size_t why_size)
{
    char beside[PATH_MAX];
    int fd, error;

    if (is_open_here(path)) {
        snprintf(why, why_size,
                 "%s: this VM writes it itself, as it was started with "
                 "+JPperf; perf can use it as it is",
                 path);
        return FP_ESTATE;
    }
    fd = open_beside(path, beside, sizeof beside);
    if (fd < 0)
        return refuse(why, why_size, path, errno);
    error = fill(fd, beside, path, bytes, size);
    if (error == 0)
        return 0;
    unlink(beside);
    return refuse(why, why_size, path, error);
}
