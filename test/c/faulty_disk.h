/* faulty_disk.h - the calls of disk.c, each of which may fail. Included by one file of a test
 * program, it takes the place of disk.c: what does not fail is done by the real one.
 *
 * Any thread may break or mend it. */
#pragma once

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

/* Files looked up by name; of those, which do not look like a log's. */
static _Atomic int disk_stats, disk_foreign_stats;

static inline int counted_fstatat(int folder, const char *name, struct stat *info, int flags)
{
    if (folder == AT_FDCWD) /* the folder itself */
        return fstatat(folder, name, info, flags);
    atomic_fetch_add(&disk_stats, 1);
    if (strstr(name, ".erl_perf.log") == NULL)
        atomic_fetch_add(&disk_foreign_stats, 1);
    return fstatat(folder, name, info, flags);
}

#define fp_fs_open_folder real_open_folder
#define fp_fs_sync_folder real_sync_folder
#define fp_fs_create real_create
#define fp_fs_adopt real_adopt
#define fp_fs_write real_write
#define fp_fs_read real_read
#define fp_fs_cut real_cut
#define fp_fs_sync real_sync
#define fp_fs_size real_size
#define fp_fs_rename real_rename
#define fp_fs_remove real_remove
#define fp_fs_list real_list
#define fstatat counted_fstatat
#include "store/fs.c"
#undef fstatat
#undef fp_fs_open_folder
#undef fp_fs_sync_folder
#undef fp_fs_create
#undef fp_fs_adopt
#undef fp_fs_write
#undef fp_fs_read
#undef fp_fs_cut
#undef fp_fs_sync
#undef fp_fs_size
#undef fp_fs_rename
#undef fp_fs_remove
#undef fp_fs_list

static _Atomic int64_t faulty_room = INT64_MAX; /* bytes that a disk takes */
static void (*faulty_hang)(void);               /* in each write */
/* The calls numbered from `first` on, `n` of them, fail with `err`. */
static _Atomic int faulty_calls, faulty_first, faulty_n, faulty_err;

static inline void faulty_disk_room(int64_t bytes)
{
    atomic_store(&faulty_room, bytes);
}

static inline void faulty_disk_break(int first, int n, int err)
{
    atomic_store(&faulty_calls, 0);
    atomic_store(&faulty_first, first);
    atomic_store(&faulty_err, err);
    atomic_store(&faulty_n, n);
}

static inline void faulty_disk_mend(void)
{
    atomic_store(&faulty_room, INT64_MAX);
    atomic_store(&faulty_n, 0);
}

/* 0, or what this call fails with. */
static int faulty_next(void)
{
    int call = atomic_fetch_add(&faulty_calls, 1) - atomic_load(&faulty_first);

    return call >= 0 && call < atomic_load(&faulty_n) ? -atomic_load(&faulty_err) : 0;
}

#define FAULTY(call)                                                                               \
    do {                                                                                           \
        int faulty = faulty_next();                                                                \
        return faulty != 0 ? faulty : (call);                                                      \
    } while (0)

int fp_fs_open_folder(const char *path)
{
    FAULTY(real_open_folder(path));
}

int fp_fs_sync_folder(int folder)
{
    FAULTY(real_sync_folder(folder));
}

int fp_fs_create(int folder, const char *name)
{
    FAULTY(real_create(folder, name));
}

int fp_fs_adopt(int folder, const char *name)
{
    FAULTY(real_adopt(folder, name));
}

/* A call that fails has written some of it: that is what they do. */
int fp_fs_write(int file, const char *bytes, size_t size)
{
    int64_t room = atomic_load(&faulty_room);
    int err = faulty_next();

    if (faulty_hang != NULL)
        faulty_hang();
    if (err != 0) {
        real_write(file, bytes, size / 2);
        return err;
    }
    if ((int64_t)size <= room) {
        atomic_store(&faulty_room, room == INT64_MAX ? room : room - (int64_t)size);
        return real_write(file, bytes, size);
    }
    real_write(file, bytes, (size_t)room);
    return -ENOSPC;
}

int64_t fp_fs_read(int file, uint64_t at, char *bytes, size_t size)
{
    FAULTY(real_read(file, at, bytes, size));
}

int fp_fs_cut(int file, uint64_t size)
{
    FAULTY(real_cut(file, size));
}

/* So many of the next calls fail. */
static _Atomic int faulty_syncs;

int fp_fs_sync(int file)
{
    if (atomic_load(&faulty_syncs) > 0) {
        atomic_fetch_sub(&faulty_syncs, 1);
        return -EIO;
    }
    FAULTY(real_sync(file));
}

int64_t fp_fs_size(int file)
{
    FAULTY(real_size(file));
}

int fp_fs_rename(int folder, const char *from, const char *to)
{
    FAULTY(real_rename(folder, from, to));
}

int fp_fs_remove(int folder, const char *name)
{
    FAULTY(real_remove(folder, name));
}

int fp_fs_list(int folder, void (*each)(void *arg, const char *name), void *arg)
{
    FAULTY(real_list(folder, each, arg));
}
