/* report_nif.c - load and upgrade of flame_prof_report_nif.so, its handles and its table of NIFs.
 * The library has no thread and no state but the type of its handles. */
#include "report_nif/report_nif.h"

struct fp_handle {
    const struct fp_handle_kind *kind;
    ErlNifMutex *lock;
    void *object; /* NULL: closed */
};

static void destroy(ErlNifEnv *env, void *object)
{
    struct fp_handle *handle = object;

    (void)env;
    if (handle->object != NULL)
        handle->kind->destroy(handle->object);
    if (handle->lock != NULL)
        enif_mutex_destroy(handle->lock);
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

/* Locked, or NULL with what is to be answered. */
static struct fp_handle *enter(ErlNifEnv *env, ERL_NIF_TERM term, const struct fp_handle_kind *kind,
                               ERL_NIF_TERM *refusal)
{
    struct fp_handle *handle = fp_get_object(env, term, enif_priv_data(env));

    if (handle == NULL || handle->kind != kind) {
        *refusal = enif_make_badarg(env);
        return NULL;
    }
    if (enif_mutex_trylock(handle->lock) != 0) {
        *refusal = fp_error(env, fp_atom(env, "busy"));
        return NULL;
    }
    if (handle->object != NULL)
        return handle;
    enif_mutex_unlock(handle->lock);
    *refusal = fp_error(env, fp_atom(env, "closed"));
    return NULL;
}

ERL_NIF_TERM fp_handle_call(ErlNifEnv *env, const ERL_NIF_TERM argv[],
                            const struct fp_handle_kind *kind, fp_handle_nif *nif)
{
    ERL_NIF_TERM result;
    struct fp_handle *handle = enter(env, argv[0], kind, &result);

    if (handle == NULL)
        return result;
    result = nif(env, argv, handle->object);
    enif_mutex_unlock(handle->lock);
    return result;
}

ERL_NIF_TERM fp_handle_close(ErlNifEnv *env, ERL_NIF_TERM term, const struct fp_handle_kind *kind)
{
    ERL_NIF_TERM refusal;
    struct fp_handle *handle = enter(env, term, kind, &refusal);

    if (handle == NULL)
        return refusal;
    kind->destroy(handle->object);
    handle->object = NULL;
    enif_mutex_unlock(handle->lock);
    return fp_atom(env, "ok");
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    ErlNifResourceTypeInit init = {.dtor = destroy};

    (void)info;
    *priv = enif_open_resource_type_x(env, "flame_prof_report", &init, ERL_NIF_RT_CREATE, NULL);
    return *priv == NULL ? -1 : 0;
}

/* Two versions of the code would share one resource type. */
static int upgrade(ErlNifEnv *env, void **priv, void **old_priv, ERL_NIF_TERM info)
{
    (void)env;
    (void)priv;
    (void)old_priv;
    (void)info;
    return -1;
}

#define ROW(name, arity, flags) {#name, arity, fp_nif_##name, flags},

static ErlNifFunc functions[] = {FP_REPORT_NIF_MAP(ROW)};

ERL_NIF_INIT(flame_prof_report_nif, functions, load, NULL, upgrade, NULL)
