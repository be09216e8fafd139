/*
 * recover.h - a file that nobody finished, cut to what is good in it.
 */
#ifndef FP_STORE_RECOVER_H
#define FP_STORE_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

/* Cut behind the last sample (plain text) or the last whole frame that can be
 * read (zstd, which then gets its table), and bring it to the disk. `file` is
 * open for reading and writing. What is in it may be anything. How many bytes
 * of samples are left, or a negative system error. May block. */
int64_t fp_recover(int file, bool is_zst);

#endif
