/*
 * fs.h - every call to the system about files, and nothing that decides.
 *
 * Names are looked up in an open folder, so a folder that is replaced while we
 * work leads nowhere else, and no link is ever followed. libuv has no such
 * calls; what works on an open file is libuv's.
 *
 * Any one thread at a time. What fails answers a negative system error, which
 * fp_fs_reason() puts into words.
 */
#ifndef FP_STORE_FS_H
#define FP_STORE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A few words, no full stop; until the thread's next call. */
const char *fp_fs_reason(int err);
/* There was no room: the file itself is in order. */
bool fp_fs_is_full(int err);

/* The folder, made with mode 0700 when it is not there (its parent must be). A
 * link is refused with ELOOP. A descriptor for fp_fs_close. */
int fp_fs_open_folder(const char *path);
/* Whether `path` still is this folder. */
bool fp_fs_is_folder(int folder, const char *path);

/* A new file, mode 0600, written at its end only, locked as long as it is
 * open. EEXIST when there is anything of that name, or somebody was quicker to
 * lock it. */
int fp_fs_create(int folder, const char *name);
/* A file of our own that somebody left: locked, for reading and writing.
 * EWOULDBLOCK when it is in use; EPERM when it is not ours alone. */
int fp_fs_adopt(int folder, const char *name);
void fp_fs_close(int file);

/* All of it, or an error after some of it. */
int fp_fs_write(int file, const char *bytes, size_t size);
/* How many bytes were read: less than `size` at the end only. */
int64_t fp_fs_read(int file, uint64_t at, char *bytes, size_t size);
int fp_fs_cut(int file, uint64_t size);
int fp_fs_sync(int file);
int fp_fs_sync_folder(int folder);

int64_t fp_fs_size(int file);
/* Whether `name` is still this file. */
bool fp_fs_is_named(int folder, const char *name, int file);
/* Whether there is anything of that name. */
bool fp_fs_exists(int folder, const char *name);
/* EEXIST rather than to replace what is there. */
int fp_fs_rename(int folder, const char *from, const char *to);
int fp_fs_remove(int folder, const char *name);

/* Calls `each` with every regular file's name and size, links left out. */
int fp_fs_list(int folder,
               void (*each)(void *arg, const char *name, uint64_t size),
               void *arg);

#endif
