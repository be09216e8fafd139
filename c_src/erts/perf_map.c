#include "erts/perf_map.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

static int by_name(const void *a, const void *b)
{
    const struct fp_loaded *x = a, *y = b;

    return x->name < y->name ? -1 : x->name > y->name;
}

/* Is it code of a module that is loaded: the current code, as far as that can be told? */
static int is_loaded(const struct fp_module *module, const struct fp_loaded *loaded, size_t n)
{
    struct fp_loaded key = {.name = module->name};
    const struct fp_loaded *it = n == 0 ? NULL : bsearch(&key, loaded, n, sizeof *loaded, by_name);

    return it != NULL && (it->has_old || !it->has_md5 || !module->has_md5 ||
                          memcmp(it->md5, module->md5, FP_MD5_SIZE) == 0);
}

/* ---- the text --------------------------------------------------------- */

struct writer {
    struct fp_buffer *text;
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    uint32_t module; /* of the function before */
    int module_size; /* of its name; FP_ENOENT: its functions are left out */
    char module_text[FP_ATOM_TEXT_MAX];
};

static int put_place(struct fp_buffer *text, uint64_t start, uint64_t end)
{
    char place[40];
    int size = snprintf(place, sizeof place, "%" PRIx64 " %" PRIx64 " ", start, end - start);

    return fp_buffer_append(text, place, (size_t)size);
}

static int put_shared(struct fp_buffer *text, const struct fp_range *range)
{
    static const char name[] = "[jit shared]\n";
    int err = put_place(text, range->start, range->end);

    return err != 0 ? err : fp_buffer_append(text, name, sizeof name - 1);
}

/* 0; FP_ENOENT: it is left out; FP_ENOMEM. */
static int put_function(struct writer *writer, const struct fp_function *function)
{
    char name[FP_ATOM_TEXT_MAX];
    struct fp_frame frame = {.arity = function->mfa[2]};
    int size, err;

    if (writer->module_size < 0 || function->end <= function->start)
        return FP_ENOENT;
    size = fp_atom_text(writer->layout, writer->memory, function->mfa[1], name);
    if (size < 0)
        return FP_ENOENT;
    frame.module = (struct fp_slice){writer->module_text, (size_t)writer->module_size};
    frame.function = (struct fp_slice){name, (size_t)size};
    err = put_place(writer->text, function->start, function->end);
    if (err == 0)
        err = fp_buffer_reserve(writer->text, fp_frame_room(&frame) + 1);
    if (err == 0)
        fp_buffer_end(writer->text,
                      FP_PUT_LITERAL(fp_put_function(fp_buffer_at(writer->text), &frame), "\n"));
    return err;
}

int fp_perf_map_text(struct fp_buffer *text, const struct fp_functions *functions,
                     struct fp_loaded *loaded, size_t n, const struct fp_layout *layout,
                     const struct fp_memory *memory, struct fp_perf_map_count *count)
{
    struct writer w = {text, layout, memory, FP_NO_MODULE, FP_ENOENT, ""};
    const struct fp_range *shared = functions->shared.range;
    const struct fp_range *shared_end = shared + functions->shared.count;
    int err = 0;

    *count = (struct fp_perf_map_count){0, 0};
    if (n > 0)
        qsort(loaded, n, sizeof *loaded, by_name);
    for (uint32_t i = 0; i < functions->functions && err == 0; i++) {
        const struct fp_function *function = &functions->function[i];

        if (function->module != w.module) {
            w.module = function->module;
            w.module_size = FP_ENOENT;
            if (w.module != FP_NO_MODULE && is_loaded(&functions->module[w.module], loaded, n))
                w.module_size = fp_atom_text(layout, memory, function->mfa[0], w.module_text);
        }
        while (shared < shared_end && shared->start < function->start && err == 0)
            err = put_shared(text, shared++);
        if (err == 0)
            err = put_function(&w, function);
        if (err == 0)
            count->functions++;
        if (err == FP_ENOENT) {
            count->left_out++;
            err = 0;
        }
    }
    return err;
}

/* ---- the file --------------------------------------------------------- */

/* Does descriptor `name` of this process write to `file`? */
static int writes_to(const char *name, const struct stat *file)
{
    int fd = name[0] == '.' ? -1 : atoi(name);
    int flags = fcntl(fd, F_GETFL);
    struct stat info;

    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fstat(fd, &info) == 0 &&
           info.st_dev == file->st_dev && info.st_ino == file->st_ino;
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

/* A new file beside `path`, of a name that cannot be guessed: its descriptor, or -1. */
static int open_beside(const char *path, char beside[PATH_MAX])
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    if (snprintf(beside, PATH_MAX, "%s.%016" PRIx64, path, random) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
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

/* 0, or errno, and nothing is left behind. */
static int write_file(const char *path, const char *bytes, size_t size)
{
    char beside[PATH_MAX];
    int fd = open_beside(path, beside), error = 0;

    if (fd < 0)
        return errno;
    /* A umask may have taken from the 0600. */
    if (fchmod(fd, 0600) != 0 || write_all(fd, bytes, size) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(beside, path) != 0)
        error = errno;
    if (error != 0)
        unlink(beside);
    return error;
}

int fp_perf_map_write(const char *path, const char *bytes, size_t size, char *why, size_t why_size)
{
    int error;

    if (is_open_here(path)) {
        snprintf(why, why_size,
                 "%s: this VM writes it itself, as it was started with +JPperf; perf can use it as "
                 "it is",
                 path);
        return FP_ESTATE;
    }
    error = write_file(path, bytes, size);
    if (error == 0)
        return 0;
    snprintf(why, why_size, "%s: %s", path, strerror(error));
    return FP_EIO;
}
