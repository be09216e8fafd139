/* output.h - a file that is there whole, or not at all.
 *
 * Bytes go to a new file beside `path` (mode 0600, never through a link), which takes that name at
 * the end. fp_output_close() returns the first error.
 *
 * Dirty I/O threads only. One thread at a time. */
#pragma once

#include <stdint.h>

#include "report/strings.h"

struct fp_output;

/* 0; FP_ENOMEM; FP_EIO with a sentence in `why`. `is_gzip`: compress it. */
int fp_output_open(struct fp_output **output, const char *path, int is_gzip, char *why,
                   size_t why_size);

void fp_output_put(struct fp_output *output, const void *bytes, size_t size);
void fp_output_text(struct fp_output *output, struct fp_slice text);
void fp_output_number(struct fp_output *output, int64_t number);
#define FP_OUTPUT_LITERAL(output, literal) fp_output_put((output), (literal), sizeof(literal) - 1)
/* Bytes at a place of their own, which is not counted; not with gzip. */
void fp_output_at(struct fp_output *output, uint64_t at, const void *bytes, size_t size);
/* Makes the file at least so long, with zeros; not with gzip. */
void fp_output_extend(struct fp_output *output, uint64_t size);

/* JSON with its commas. `key` is NULL in an array. Bytes that are no UTF-8 become U+FFFD. `bracket`
 * is "{" or "[", "}" or "]". */
void fp_json_begin(struct fp_output *output, const char *key, const char *bracket);
void fp_json_end(struct fp_output *output, const char *bracket);
void fp_json_number(struct fp_output *output, const char *key, int64_t number);
void fp_json_text(struct fp_output *output, const char *key, struct fp_slice text);
/* Microseconds as milliseconds with three digits behind the point. */
void fp_json_millis(struct fp_output *output, const char *key, int64_t us);
/* JSON as it is: `null`, `[]`. */
void fp_json_plain(struct fp_output *output, const char *key, const char *plain);
/* A text that ends with a NUL. */
void fp_json_word(struct fp_output *output, const char *key, const char *word);

/* Bytes put so far, before compression. */
uint64_t fp_output_size(const struct fp_output *output);

/* For an `err` of 0 the file takes its name, else it is deleted. Returns `err`, or the first error
 * of the output; `why` as above. *bytes is the size of the file, as it is on the disk. */
int fp_output_close(struct fp_output *output, int err, uint64_t *bytes, char *why, size_t why_size);
