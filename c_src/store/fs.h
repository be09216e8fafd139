/* fs.h - every system call on files of the store; no decisions.
 *
 * Names are looked up in an open folder, so that a folder that is replaced meanwhile leads nowhere
 * else, and no link is followed. libuv has no such calls; operations on an open file are libuv's.
 *
 * Any one thread at a time. Errors are negative system errors; fp_fs_reason() has their text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A few words, no full stop; valid until the thread's next call. */
const char *fp_fs_reason(int err);
/* The disk or the quota has no room; the file itself is in order. */
bool fp_fs_is_full(int err);

/* Opens the folder; a missing one is made with mode 0700 in a parent that exists. ELOOP for a link.
 * A descriptor for fp_fs_close. */
int fp_fs_open_folder(const char *path);
/* Whether `path` is this folder. */
bool fp_fs_is_folder(int folder, const char *path);
int fp_fs_sync_folder(int folder);
/* Calls `each` with every name, of whatever type; looks none of them up. */
int fp_fs_list(int folder, void (*each)(void *arg, const char *name), void *arg);

/* A new file, mode 0600, written at its end only, locked while it is open. EEXIST where the name
 * exists, or another process locked the file first. */
int fp_fs_create(int folder, const char *name);
/* A file that a dead process left: locked, for reading and writing. EWOULDBLOCK: another process
 * has it locked; EPERM: it is no regular file of this user with one name only. */
int fp_fs_adopt(int folder, const char *name);
void fp_fs_close(int file);
/* Everything, or an error after a part. */
int fp_fs_write(int file, const char *bytes, size_t size);
/* The number of bytes read: less than `size` only at the file's end. */
int64_t fp_fs_read(int file, uint64_t at, char *bytes, size_t size);
int fp_fs_cut(int file, uint64_t size);
int fp_fs_sync(int file);
int64_t fp_fs_size(int file);

/* Whether `name` is this file. */
bool fp_fs_is_named(int folder, const char *name, int file);
/* The size of a regular file; EINVAL: anything else has that name. */
int64_t fp_fs_size_of(int folder, const char *name);
/* EEXIST where `to` exists: nothing is replaced. */
int fp_fs_rename(int folder, const char *from, const char *to);
int fp_fs_remove(int folder, const char *name);
