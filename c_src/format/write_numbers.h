/* write_numbers.h - the numbers of a sample, each with a blank behind it. WRITER THREAD only. Each
 * returns the place behind what it wrote. */
#pragma once

#include "base/buffer.h"
#include "base/metric.h"

/* A bound for what the last two write. */
#define FP_NUMBERS_KEY(name) " " #name "="
#define FP_NUMBERS_BYTES_MAX                                                                       \
    (sizeof("" FP_METRIC_MAP(FP_NUMBERS_KEY)) + FP_METRIC_COUNT * (2 * FP_I64_DIGITS + 1))

/* Behind a key: `=value/delta `. */
char *fp_put_number(char *out, int64_t value, int64_t delta);
/* All of them. */
char *fp_put_numbers(char *out, const int64_t *value, const int64_t *delta);
/* Those that differ from `before`, the sample before, most of them as their change. */
char *fp_put_changes(char *out, const int64_t *before, const int64_t *value, const int64_t *delta);
