/* terms.c - makers and readers of Erlang terms. */
#include "terms/terms.h"

#include <string.h>

#include "base/error.h"

ERL_NIF_TERM fp_atom(ErlNifEnv *env, const char *name)
{
    return enif_make_atom(env, name);
}

ERL_NIF_TERM fp_boolean(ErlNifEnv *env, int value)
{
    return fp_atom(env, value ? "true" : "false");
}

ERL_NIF_TERM fp_binary(ErlNifEnv *env, const char *text, size_t size)
{
    ERL_NIF_TERM binary;
    unsigned char *bytes = enif_make_new_binary(env, size, &binary);

    memcpy(bytes, text, size);
    return binary;
}

ERL_NIF_TERM fp_text(ErlNifEnv *env, const char *text)
{
    return fp_binary(env, text, strlen(text));
}

ERL_NIF_TERM fp_ok(ErlNifEnv *env, ERL_NIF_TERM value)
{
    return enif_make_tuple2(env, fp_atom(env, "ok"), value);
}

ERL_NIF_TERM fp_error(ErlNifEnv *env, ERL_NIF_TERM reason)
{
    return enif_make_tuple2(env, fp_atom(env, "error"), reason);
}

ERL_NIF_TERM fp_error_text(ErlNifEnv *env, int err, const char *text)
{
    if (text[0] == '\0')
        text = fp_err_text(err);
    return fp_error(env, enif_make_tuple2(env, fp_atom(env, fp_err_name(err)), fp_text(env, text)));
}

ERL_NIF_TERM fp_result(ErlNifEnv *env, int err)
{
    return err == 0 ? fp_atom(env, "ok") : fp_error(env, fp_atom(env, fp_err_name(err)));
}

ERL_NIF_TERM fp_result_text(ErlNifEnv *env, int err, const char *text)
{
    return err == 0 ? fp_atom(env, "ok") : fp_error_text(env, err, text);
}

void fp_map_put(ErlNifEnv *env, ERL_NIF_TERM *map, const char *key, ERL_NIF_TERM value)
{
    enif_make_map_put(env, *map, fp_atom(env, key), value, map);
}

void fp_map_put_u64(ErlNifEnv *env, ERL_NIF_TERM *map, const char *key, uint64_t value)
{
    fp_map_put(env, map, key, enif_make_uint64(env, value));
}

void *fp_get_object(ErlNifEnv *env, ERL_NIF_TERM ref, ErlNifResourceType *type)
{
    void *object;

    return enif_get_resource(env, ref, type, &object) ? object : NULL;
}

int fp_is_atom(ErlNifEnv *env, ERL_NIF_TERM term, const char *name)
{
    return enif_is_identical(term, fp_atom(env, name));
}

int fp_get_name(ErlNifEnv *env, ERL_NIF_TERM term, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++)
        if (fp_is_atom(env, term, names[i]))
            return i;
    return -1;
}

int fp_map_get(ErlNifEnv *env, ERL_NIF_TERM map, const char *key, ERL_NIF_TERM *value)
{
    return enif_get_map_value(env, map, fp_atom(env, key), value);
}

int fp_get_text(ErlNifEnv *env, ERL_NIF_TERM term, char *text, size_t room)
{
    ErlNifBinary binary;

    if (!enif_inspect_binary(env, term, &binary) || binary.size >= room ||
        memchr(binary.data, 0, binary.size) != NULL)
        return 0;
    memcpy(text, binary.data, binary.size);
    text[binary.size] = '\0';
    return 1;
}
