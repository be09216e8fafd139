#include "store/perf_map_file.h"

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

#include "base/error.h"
#include "store/fs.h"

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

/* 0 or a negative system error; then nothing is left behind. */
static int write_file(const char *path, const char *bytes, size_t size)
{
    char beside[PATH_MAX];
    int file = open_beside(path, beside), err;

    if (file < 0)
        return -errno;
    /* A umask may have taken from the 0600. */
    err = fchmod(file, 0600) != 0 ? -errno : fp_fs_write(file, bytes, size);
    if (close(file) != 0 && err == 0)
        err = -errno;
    if (err == 0 && rename(beside, path) != 0)
        err = -errno;
    if (err != 0)
        unlink(beside);
    return err;
}

int fp_perf_map_write(const char *path, const char *bytes, size_t size, char *why, size_t why_size)
{
    int err;

    if (is_open_here(path)) {
        snprintf(why, why_size,
                 "%s: this VM writes it itself, as it was started with +JPperf; perf can use it as "
                 "it is",
                 path);
        return FP_ESTATE;
    }
    err = write_file(path, bytes, size);
    if (err == 0)
        return 0;
    snprintf(why, why_size, "%s: %s", path, strerror(-err));
    return FP_EIO;
}
