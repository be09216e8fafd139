/* unzstd.h - zstd frames back to text, a piece at a time, in bounded memory. Takes any bytes. Not
 * shared between threads. */
#pragma once

#include <stddef.h>

struct fp_unzstd;

/* 0 or FP_ENOMEM. */
int fp_unzstd_create(struct fp_unzstd **unzstd);
void fp_unzstd_destroy(struct fp_unzstd *unzstd);

/* Some of `in`, *used bytes, to *made bytes in `out`. Frames may follow each other, skippable ones
 * between them. 0; FP_EINVAL and a static text in *why: the next call begins anew. */
int fp_unzstd_read(struct fp_unzstd *unzstd, const char *in, size_t in_size, size_t *used,
                   char *out, size_t room, size_t *made, const char **why);

/* Whether no frame is half read. */
int fp_unzstd_is_between(const struct fp_unzstd *unzstd);
