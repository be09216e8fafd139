/*
 * directory.h - all of our files in one folder: which is the newest, which have
 * to go, and what a dead session left behind.
 *
 * Files are known by their names (log_name.h); no other is ever touched, nor
 * anything that is not a regular file. A finished file is never written to.
 */
#ifndef FP_STORE_DIRECTORY_H
#define FP_STORE_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "store/log_name.h"

/* Open a new file in progress: `name` is of the second `begun`, or behind the
 * newest file that there is, where that is later. A descriptor, or a negative
 * system error. */
int fp_directory_create(int folder, time_t begun, bool is_zst,
                        struct fp_log_name *name);

/* Give a file in progress its finished name, the next free one when that is
 * taken. 0, or a negative system error: it is as it was. */
int fp_directory_finish(int folder, struct fp_log_name *name);

struct fp_directory_limits {
    uint64_t files, bytes; /* 0: any */
};

struct fp_directory_kept {
    uint64_t files, bytes; /* finished ones that are left */
};

/* Remove the oldest finished files, until those that are left and one more of
 * `bytes_more` (none: files_more 0) are within the limits. `removed` is told
 * each name. 0, or the last negative system error. */
int fp_directory_retain(int folder, const struct fp_directory_limits *limits,
                        uint64_t files_more, uint64_t bytes_more,
                        void (*removed)(void *arg, const char *name), void *arg,
                        struct fp_directory_kept *kept);

/* Finish the files in progress that nobody writes any more: cut to the last
 * good block, given a finished name; removed when nothing is good. How many
 * there were, or a negative system error. May block. */
int fp_directory_recover(int folder);

#endif
