/*
 * The reader's decompressor: a resource that one process uses at a time. A call
 * makes at most CHUNK bytes, which takes some 0.2 ms: no need to be dirty.
 */
#include "store/unzstd.h"

#include <stdatomic.h>
#include <string.h>

#include "report_nif/report_library.h"
#include "terms/terms.h"

#define CHUNK (256u << 10)
/* Of a scheduler's time slice, for a full chunk. */
#define CHUNK_PERCENT 25

struct unzst {
    struct fp_unzstd *stream;
    atomic_flag is_used; /* acquire, release: one caller at a time */
};

void fp_unzstd_nif_destroy(ErlNifEnv *env, void *object)
{
    (void)env;
    fp_unzstd_destroy(((struct unzst *)object)->stream);
}

ERL_NIF_TERM fp_nif_unzst_open(ErlNifEnv *env, int argc,
                               const ERL_NIF_TERM argv[])
{
    struct unzst *unzst =
        enif_alloc_resource(fp_report_library(env)->unzst_type, sizeof *unzst);
    ERL_NIF_TERM ref;

    (void)argc;
    (void)argv;
    unzst->stream = NULL;
    atomic_flag_clear(&unzst->is_used);
    ref = enif_make_resource(env, unzst);
    enif_release_resource(unzst);
    if (fp_unzstd_create(&unzst->stream) != 0)
        return enif_raise_exception(env, fp_atom(env, "enomem"));
    return ref;
}

static ERL_NIF_TERM read_on(ErlNifEnv *env, struct fp_unzstd *stream,
                            const ErlNifBinary *in, size_t from)
{
    size_t used, made;
    ErlNifBinary out;
    const char *why;

    if (!enif_alloc_binary(CHUNK, &out))
        return enif_raise_exception(env, fp_atom(env, "enomem"));
    if (fp_unzstd_read(stream, (const char *)in->data + from, in->size - from,
                       &used, (char *)out.data, out.size, &made, &why) != 0) {
        enif_release_binary(&out);
        return fp_error(env, fp_binary(env, why, strlen(why)));
    }
    if (made < out.size)
        enif_realloc_binary(&out, made);
    enif_consume_timeslice(env, 1 + (int)(CHUNK_PERCENT * made / CHUNK));
    return enif_make_tuple4(
        env, fp_atom(env, "ok"), enif_make_binary(env, &out),
        enif_make_uint64(env, from + used),
        fp_atom(env, fp_unzstd_is_between(stream) ? "true" : "false"));
}

ERL_NIF_TERM fp_nif_unzst_read(ErlNifEnv *env, int argc,
                               const ERL_NIF_TERM argv[])
{
    struct unzst *unzst;
    ErlNifBinary in;
    ErlNifUInt64 from;
    ERL_NIF_TERM answer;

    (void)argc;
    if (!enif_get_resource(env, argv[0], fp_report_library(env)->unzst_type,
                           (void **)&unzst) ||
        !enif_inspect_binary(env, argv[1], &in) ||
        !enif_get_uint64(env, argv[2], &from) || from > in.size ||
        atomic_flag_test_and_set_explicit(&unzst->is_used,
                                          memory_order_acquire))
        return enif_make_badarg(env);
    answer = read_on(env, unzst->stream, &in, (size_t)from);
    atomic_flag_clear_explicit(&unzst->is_used, memory_order_release);
    return answer;
}
