#include "store/unzstd.h"

#include <stdlib.h>
#include <zstd.h>

#include "base/error.h"

/* Frames that need a larger window are refused: a session's need 4 MiB, the zstd command's at most
 * 8 MiB by default. */
#define WINDOW_LOG 25

struct fp_unzstd {
    ZSTD_DCtx *context;
    int is_between;
    const char *why; /* the next call's error; NULL: none */
};

int fp_unzstd_create(struct fp_unzstd **unzstd)
{
    struct fp_unzstd *made = calloc(1, sizeof(*made));

    if (made == NULL)
        return FP_ENOMEM;
    made->is_between = 1;
    made->context = ZSTD_createDCtx();
    if (made->context == NULL) {
        free(made);
        return FP_ENOMEM;
    }
    ZSTD_DCtx_setParameter(made->context, ZSTD_d_windowLogMax, WINDOW_LOG);
    *unzstd = made;
    return 0;
}

void fp_unzstd_destroy(struct fp_unzstd *unzstd)
{
    if (unzstd == NULL)
        return;
    ZSTD_freeDCtx(unzstd->context);
    free(unzstd);
}

/* Until `to` is full, a frame ends, or `from` is empty: a good frame's text is returned before the
 * next frame's error. */
static void read_on(struct fp_unzstd *unzstd, ZSTD_inBuffer *from, ZSTD_outBuffer *to)
{
    size_t in_before, out_before, left;

    do {
        in_before = from->pos;
        out_before = to->pos;
        left = ZSTD_decompressStream(unzstd->context, to, from);
        if (ZSTD_isError(left)) {
            unzstd->why = ZSTD_getErrorName(left);
            return;
        }
        if (from->pos == in_before && to->pos == out_before)
            return; /* without progress `left` is of the frame to come */
        unzstd->is_between = left == 0;
    } while (to->pos < to->size && !(unzstd->is_between && to->pos > 0));
}

int fp_unzstd_read(struct fp_unzstd *unzstd, const char *in, size_t in_size, size_t *used,
                   char *out, size_t room, size_t *made, const char **why)
{
    ZSTD_inBuffer from = {in, in_size, 0};
    ZSTD_outBuffer to = {out, room, 0};

    if (unzstd->why == NULL)
        read_on(unzstd, &from, &to);
    *used = from.pos;
    *made = to.pos;
    if (unzstd->why == NULL || to.pos > 0)
        return 0;
    *why = unzstd->why;
    unzstd->why = NULL;
    unzstd->is_between = 1;
    ZSTD_DCtx_reset(unzstd->context, ZSTD_reset_session_only);
    return FP_EINVAL;
}

int fp_unzstd_is_between(const struct fp_unzstd *unzstd)
{
    return unzstd->is_between;
}
