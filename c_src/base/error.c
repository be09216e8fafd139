/*
 * error.c - names and sentences of the one error list, and nothing else: the tables are made from
 * FP_ERR_MAP, so a new error is described in one place.
 */
#include "base/error.h"

static const struct {
    const char *name;
    const char *text;
} errors[FP_ERR_COUNT] = {
#define FP_ERR_ROW(name, atom, text) [FP_ERR_INDEX_##name] = {atom, text},
    FP_ERR_MAP(FP_ERR_ROW)
#undef FP_ERR_ROW
};

/* Into the table, or -1. Written without negating err: INT_MIN has no opposite. */
static int index_of(int err)
{
    if (err >= 0 || err < -FP_ERR_COUNT)
        return -1;
    return -1 - err;
}

const char *fp_err_name(int err)
{
    int index = index_of(err);

    if (err == FP_OK)
        return "ok";
    return index < 0 ? "unknown" : errors[index].name;
}

const char *fp_err_text(int err)
{
    int index = index_of(err);

    if (err == FP_OK)
        return "no error";
    return index < 0 ? "an error that is none of ours" : errors[index].text;
}
