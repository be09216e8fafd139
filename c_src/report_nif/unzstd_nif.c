/* unzstd_nif.c - the decompressor of flame_prof_reader. A call makes at most CHUNK bytes, in some
 * 0.2 ms of text; it may read any number of frames and blocks without text, so it is dirty. */
#include "report_nif/report_nif.h"
#include "store/unzstd.h"

#define CHUNK (256u << 10)

static void destroy(void *stream)
{
    fp_unzstd_destroy(stream);
}

static const struct fp_handle_kind kind = {"flame_prof_unzst", destroy};

FP_REPORT_NIF(fp_nif_unzst_open)
{
    struct fp_unzstd *stream;
    ERL_NIF_TERM term = 0;

    if (fp_unzstd_create(&stream) == 0)
        term = fp_handle_new(env, &kind, stream);
    return term == 0 ? enif_raise_exception(env, fp_atom(env, "enomem")) : term;
}

/* (Stream, Bytes, From) -> {ok, Text, Used, IsBetweenFrames} | {error, Text} */
FP_HANDLE_NIF(fp_nif_unzst_read, kind)
{
    ErlNifBinary in, out;
    ErlNifUInt64 from;
    size_t used, made;
    const char *why;

    if (!enif_inspect_binary(env, argv[1], &in) || !enif_get_uint64(env, argv[2], &from) ||
        from > in.size)
        return enif_make_badarg(env);
    if (!enif_alloc_binary(CHUNK, &out))
        return enif_raise_exception(env, fp_atom(env, "enomem"));
    if (fp_unzstd_read(object, (const char *)in.data + from, in.size - from, &used,
                       (char *)out.data, out.size, &made, &why) != 0) {
        enif_release_binary(&out);
        return fp_error(env, fp_text(env, why));
    }
    if (made < out.size)
        enif_realloc_binary(&out, made);
    return enif_make_tuple4(env, fp_atom(env, "ok"), enif_make_binary(env, &out),
                            enif_make_uint64(env, from + used),
                            fp_boolean(env, fp_unzstd_is_between(object)));
}
