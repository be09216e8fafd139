#include "report_nif/report_nif.h"

static void destroy(ErlNifEnv *env, void *object)
{
    struct fp_handle *handle = object;

    (void)env;
    if (handle->object != NULL)
        handle->kind->destroy(handle->object);
    if (handle->lock != NULL)
        enif_mutex_destroy(handle->lock);
}

int fp_handle_load(ErlNifEnv *env, void **priv)
{
    ErlNifResourceTypeInit init = {.dtor = destroy};

    *priv = enif_open_resource_type_x(env, "flame_prof_report", &init, ERL_NIF_RT_CREATE, NULL);
    return *priv == NULL ? -1 : 0;
}

ERL_NIF_TERM fp_handle_new(ErlNifEnv *env, const struct fp_handle_kind *kind, void *object)
{
    struct fp_handle *handle = enif_alloc_resource(enif_priv_data(env), sizeof(*handle));
    ERL_NIF_TERM term = 0;

    if (handle == NULL) {
        kind->destroy(object);
        return 0;
    }
    *handle =
        (struct fp_handle){.kind = kind, .lock = enif_mutex_create(kind->name), .object = object};
    if (handle->lock != NULL)
        term = enif_make_resource(env, handle);
    enif_release_resource(handle);
    return term;
}

struct fp_handle *fp_handle_enter(ErlNifEnv *env, ERL_NIF_TERM term,
                                  const struct fp_handle_kind *kind)
{
    struct fp_handle *handle;
    void *object;

    if (!enif_get_resource(env, term, enif_priv_data(env), &object))
        return NULL;
    handle = object;
    if (handle->kind != kind || enif_mutex_trylock(handle->lock) != 0)
        return NULL;
    if (handle->object != NULL)
        return handle;
    enif_mutex_unlock(handle->lock);
    return NULL;
}

ERL_NIF_TERM fp_handle_leave(struct fp_handle *handle, ERL_NIF_TERM answer)
{
    enif_mutex_unlock(handle->lock);
    return answer;
}

ERL_NIF_TERM fp_handle_close(ErlNifEnv *env, struct fp_handle *handle)
{
    handle->kind->destroy(handle->object);
    handle->object = NULL;
    return fp_handle_leave(handle, enif_make_atom(env, "ok"));
}
