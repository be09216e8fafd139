#include "looks_nif/handle.h"

#include <stdatomic.h>
#include <string.h>

#include "terms/terms.h"

void *fp_look_handle_new(ErlNifResourceType *type, size_t bytes, void (*close)(void *look),
                         int *err)
{
    struct fp_look_handle *handle = enif_alloc_resource(type, bytes);

    memset(handle, 0, bytes);
    handle->close = close;
    *err = fp_safe_read_open_own(&handle->memory);
    handle->is_open = *err == 0;
    return handle;
}

ERL_NIF_TERM fp_look_handle_result(ErlNifEnv *env, struct fp_look_handle *handle, int err)
{
    ERL_NIF_TERM term = enif_make_resource(env, handle);

    enif_release_resource(handle);
    return err == 0 ? fp_ok(env, term) : fp_result(env, err);
}

void *fp_look_handle_enter(ErlNifEnv *env, ERL_NIF_TERM term, ErlNifResourceType *type)
{
    void *object;
    struct fp_look_handle *handle;

    if (!enif_get_resource(env, term, type, &object))
        return NULL;
    handle = object;
    if (atomic_exchange_explicit(&handle->entered, 1, memory_order_acquire))
        return NULL;
    if (handle->look != NULL)
        return handle;
    fp_look_handle_leave(handle);
    return NULL;
}

void fp_look_handle_leave(struct fp_look_handle *handle)
{
    atomic_store_explicit(&handle->entered, 0, memory_order_release);
}

void fp_look_handle_close(struct fp_look_handle *handle)
{
    if (handle->look != NULL)
        handle->close(handle->look);
    if (handle->is_open)
        fp_safe_read_close(&handle->memory);
    handle->look = NULL;
    handle->is_open = 0;
}

void fp_look_handle_destroy(ErlNifEnv *env, void *object)
{
    (void)env;
    fp_look_handle_close(object);
}
