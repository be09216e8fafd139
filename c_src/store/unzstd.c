#include "store/unzstd.h"

#include <stdlib.h>
#include <zstd.h>

#include "base/error.h"

struct fp_unzstd {
    ZSTD_DCtx *context;
    int is_between;
    const char *why; /* what the next call has to say; NULL: nothing */
};

int fp_unzstd_create(struct fp_unzstd **unzst)
{
    struct fp_unzstd *made = calloc(1, sizeof(*made));

    if (made == NULL)
        return FP_ENOMEM;
    made->context = ZSTD_createDCtx();
    made->is_between = 1;
    if (made->context == NULL) {
        free(made);
        return FP_ENOMEM;
    }
    ZSTD_DCtx_setParameter(made->context, ZSTD_d_windowLogMax, FP_UNZST_WINDOW_LOG);
    *unzst = made;
    return 0;
}

void fp_unzstd_destroy(struct fp_unzstd *unzst)
{
    if (unzst == NULL)
        return;
    ZSTD_freeDCtx(unzst->context);
    free(unzst);
}

/* Until there is a full buffer, the end of a frame, or no more input: text of a good frame is
 * handed out before the next frame can spoil it. */
static void read_on(struct fp_unzstd *unzst, ZSTD_inBuffer *from, ZSTD_outBuffer *to)
{
    size_t in_before, out_before, left;

    do {
        in_before = from->pos;
        out_before = to->pos;
        left = ZSTD_decompressStream(unzst->context, to, from);
        if (ZSTD_isError(left)) {
            unzst->why = ZSTD_getErrorName(left);
            return;
        }
        if (from->pos == in_before && to->pos == out_before)
            return; /* without progress `left` is of the frame to come */
        unzst->is_between = left == 0;
    } while (to->pos < to->size && !(unzst->is_between && to->pos > 0));
}

int fp_unzstd_read(struct fp_unzstd *unzst, const char *in, size_t in_size, size_t *used, char *out,
                   size_t room, size_t *made, const char **why)
{
    ZSTD_inBuffer from = {in, in_size, 0};
    ZSTD_outBuffer to = {out, room, 0};

    if (unzst->why == NULL)
        read_on(unzst, &from, &to);
    *used = from.pos;
    *made = to.pos;
    if (unzst->why == NULL || to.pos > 0)
        return 0;
    *why = unzst->why;
    unzst->why = NULL;
    unzst->is_between = 1;
    ZSTD_DCtx_reset(unzst->context, ZSTD_reset_session_only);
    return FP_EINVAL;
}

int fp_unzstd_is_between(const struct fp_unzstd *unzst)
{
    return unzst->is_between;
}
