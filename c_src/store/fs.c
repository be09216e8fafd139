#include "store/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

/* RENAME_NOREPLACE of linux/fs.h, which redefines names of other headers. */
#define RENAME_WITHOUT_REPLACING 1u

const char *fp_fs_reason(int err)
{
    static _Thread_local char text[128];

    if (err == -ELOOP) /* of O_NOFOLLOW */
        return "is a symbolic link";
    if (err == -EDQUOT) /* libuv has no text for it */
        return "disk quota exceeded";
    return uv_strerror_r(err, text, sizeof(text));
}

bool fp_fs_is_full(int err)
{
    return err == -ENOSPC || err == -EDQUOT;
}

/* The error of a call that fails with -1 and errno. */
static int error_of(int result)
{
    return result < 0 ? -errno : result;
}

/* The error of a call of libuv. */
static int done(uv_fs_t *request, int result)
{
    uv_fs_req_cleanup(request);
    return result;
}

int fp_fs_open_folder(const char *path)
{
    int made = error_of(mkdir(path, 0700));
    int folder = error_of(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;

    if (folder == -ENOENT)
        return made < 0 ? made : folder;
    if (folder == -ENOTDIR && lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return -ELOOP;
    return folder;
}

bool fp_fs_is_folder(int folder, const char *path)
{
    return fp_fs_is_named(AT_FDCWD, path, folder);
}

int fp_fs_sync_folder(int folder)
{
    return error_of(fsync(folder));
}

int fp_fs_create(int folder, const char *name)
{
    int file = error_of(openat(
        folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0600));

    /* A file system without locks is no error. */
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(file);
        return -EEXIST;
    }
    return file;
}

int fp_fs_adopt(int folder, const char *name)
{
    /* O_NONBLOCK: the name may be a pipe's. */
    int file =
        error_of(openat(folder, name, O_RDWR | O_NOFOLLOW | O_APPEND | O_NONBLOCK | O_CLOEXEC));
    struct stat info;
    int err = 0;

    if (file < 0)
        return file;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
        info.st_nlink != 1)
        err = -EPERM;
    else if (flock(file, LOCK_EX | LOCK_NB) != 0)
        err = -EWOULDBLOCK; /* in use, or a file system without locks */
    if (err == 0)
        return file;
    close(file);
    return err;
}

void fp_fs_close(int file)
{
    uv_fs_t request;

    done(&request, uv_fs_close(NULL, &request, file, NULL));
}

int fp_fs_write(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        uv_buf_t buffer = uv_buf_init((char *)bytes, (unsigned)size);
        uv_fs_t request;
        int written = done(&request, uv_fs_write(NULL, &request, file, &buffer, 1, -1, NULL));

        if (written <= 0) /* 0 is no error, and need not end */
            return written == 0 ? -EIO : written;
        bytes += written;
        size -= (size_t)written;
    }
    return 0;
}

int64_t fp_fs_read(int file, uint64_t at, char *bytes, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t got = pread(file, bytes + done, size - done, (off_t)(at + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

int fp_fs_cut(int file, uint64_t size)
{
    uv_fs_t request;

    return done(&request, uv_fs_ftruncate(NULL, &request, file, (int64_t)size, NULL));
}

int fp_fs_sync(int file)
{
    uv_fs_t request;

    return done(&request, uv_fs_fdatasync(NULL, &request, file, NULL));
}

int64_t fp_fs_size(int file)
{
    struct stat info;

    return fstat(file, &info) == 0 ? (int64_t)info.st_size : -errno;
}

bool fp_fs_is_named(int folder, const char *name, int file)
{
    struct stat opened, named;

    return fstat(file, &opened) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

int64_t fp_fs_size_of(int folder, const char *name)
{
    struct stat info;

    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    return S_ISREG(info.st_mode) ? (int64_t)info.st_size : -EINVAL;
}

int fp_fs_rename(int folder, const char *from, const char *to)
{
    int err =
        error_of((int)syscall(SYS_renameat2, folder, from, folder, to, RENAME_WITHOUT_REPLACING));

    /* Some file systems have only the rename that replaces. */
    if (err != -EINVAL && err != -ENOSYS)
        return err;
    if (fp_fs_size_of(folder, to) != -ENOENT)
        return -EEXIST;
    return error_of(renameat(folder, from, folder, to));
}

int fp_fs_remove(int folder, const char *name)
{
    return error_of(unlinkat(folder, name, 0));
}

int fp_fs_list(int folder, void (*each)(void *arg, const char *name), void *arg)
{
    /* Opened anew: a copy of the descriptor would share its position. */
    int opened = error_of(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *entry;
    DIR *list;

    if (opened < 0)
        return opened;
    list = fdopendir(opened);
    if (list == NULL) {
        close(opened);
        return -ENOMEM;
    }
    while ((entry = readdir(list)) != NULL)
        each(arg, entry->d_name);
    closedir(list);
    return 0;
}
