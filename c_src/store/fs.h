/*
 * fs.h - every call to the system about files, and nothing that decides.
 *
 * Names are looked up in an open folder, so a folder that is replaced while we
 * work leads nowhere else, and no link is ever followed. libuv has no such
 * calls; what works on an open file is libuv's.
 *
 * Any one thread at a time. What fails answers a negative system error, which
 * fp_disk_reason() puts into words.
 */
#ifndef FP_STORE_FS_H
#define FP_STORE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A few words, no full stop; until the thread's next call. */
const char *fp_disk_reason(int err);
/* There was no room: the file itself is in order. */
bool fp_disk_is_full(int err);

/* The folder, made with mode 0700 when it is not there (its parent must be). A
 * link is refused with ELOOP. A descriptor for fp_disk_close. */
int fp_disk_open_folder(const char *path);
/* Whether `path` still is this folder. */
bool fp_disk_is_folder(int folder, const char *path);

/* A new file, mode 0600, written at its end only, locked as long as it is
 * open. EEXIST when there is anything of that name, or somebody was quicker to
 * lock it. */
int fp_disk_create(int folder, const char *name);
/* A file of our own that somebody left: locked, for reading and writing.
 * EWOULDBLOCK when it is in use; EPERM when it is not ours alone. */
int fp_disk_adopt(int folder, const char *name);
void fp_disk_close(int file);

/* All of it, or an error after some of it. */
int fp_disk_write(int file, const char *bytes, size_t size);
/* How many bytes were read: less than `size` at the end only. */
int64_t fp_disk_read(int file, uint64_t at, char *bytes, size_t size);
int fp_disk_cut(int file, uint64_t size);
int fp_disk_sync(int file);
int fp_disk_sync_folder(int folder);

int64_t fp_disk_size(int file);
/* Whether `name` is still this file. */
bool fp_disk_is_named(int folder, const char *name, int file);
/* Whether there is anything of that name. */
bool fp_disk_exists(int folder, const char *name);
/* EEXIST rather than to replace what is there. */
int fp_disk_rename(int folder, const char *from, const char *to);
int fp_disk_remove(int folder, const char *name);

/* Calls `each` with every regular file's name and size, links left out. */
int fp_disk_list(int folder,
                 void (*each)(void *arg, const char *name, uint64_t size),
                 void *arg);

#endif
