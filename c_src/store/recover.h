/* recover.h - an unfinished file, cut to its good part. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Cuts the file behind its last sample (plain text) or its last readable frame (zstd, which then
 * gets its table), and syncs it. `file` is open for reading and writing and may hold any bytes. How
 * many bytes of samples are left, or a negative system error. May block. */
int64_t fp_recover(int file, bool is_zst);
