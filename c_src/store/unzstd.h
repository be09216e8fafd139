/*
 * unzstd.h - zstd frames back to text, a piece at a time, in bounded memory. Takes any bytes. Not
 * shared between threads.
 */
#ifndef FP_STORE_UNZSTD_H
#define FP_STORE_UNZSTD_H

#include <stddef.h>

struct fp_unzstd;

/* Frames that need a larger window are refused: a session's need 4 MiB, the zstd command's at most
 * 8 MiB by default. */
#define FP_UNZST_WINDOW_LOG 25

/* 0 or FP_ENOMEM. */
int fp_unzstd_create(struct fp_unzstd **unzst);
void fp_unzstd_destroy(struct fp_unzstd *unzst);

/* Some of `in` to `out`: *used and *made say how much. Frames may follow each other, skippable
 * ones between them. 0; or FP_EINVAL and in *why what is wrong (static), and the next call
 * begins anew. */
int fp_unzstd_read(struct fp_unzstd *unzst, const char *in, size_t in_size, size_t *used, char *out,
                   size_t room, size_t *made, const char **why);

/* Whether no frame is half read. */
int fp_unzstd_is_between(const struct fp_unzstd *unzst);

#endif
