/* looks_nif.c - the table of NIFs, and the library's load and unload.
 *
 * LOAD     makes the resource types, and no system call of its own
 * UPGRADE  has no callback, thus ERTS refuses it
 * UNLOAD   frees what was found; ERTS calls it when no handle is left. No thread is its own.
 *
 * A handle that a process still has keeps the library mapped after a purge. If it is loaded again
 * then, both instances have the same static variables: these are of the last one that was loaded,
 * and the unload of an earlier one leaves them alone. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "erts/serving.h"
#include "looks_nif/handle.h"
#include "looks_nif/looks.h"
#include "looks_nif/tracer_nif.h"
#include "terms/terms.h"

ERL_NIF_TERM fp_nif_is_loaded(FP_NIF_ARGS)
{
    return fp_boolean(env, 1);
}

static _Atomic(struct fp_looks *) newest;

static void looks_free(struct fp_looks *looks)
{
    if (looks->tracing_lock != NULL)
        enif_mutex_destroy(looks->tracing_lock);
    free(looks->tables);
    free(looks->table_objects);
    fp_vm_close(&looks->vm);
    enif_free(looks);
}

static int open_types(ErlNifEnv *env, struct fp_looks *looks)
{
    const struct {
        const char *name;
        ErlNifResourceTypeInit init;
        ErlNifResourceType **type;
    } types[] = {
        {"flame_prof_calibration", {.dtor = NULL}, &looks->calibration_type},
        {"flame_prof_selector", {.dtor = fp_look_handle_destroy}, &looks->selector_type},
        {"flame_prof_sends", fp_sends_type_init, &looks->sends_type},
        {"flame_prof_mailbox", {.dtor = fp_look_handle_destroy}, &looks->mailbox_type},
        {"flame_prof_xray", {.dtor = fp_look_handle_destroy}, &looks->xray_type},
    };

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        *types[i].type =
            enif_open_resource_type_x(env, types[i].name, &types[i].init, ERL_NIF_RT_CREATE, NULL);
        if (*types[i].type == NULL)
            return -1;
    }
    return 0;
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    struct fp_looks *looks = enif_alloc(sizeof *looks);

    (void)info;
    if (looks == NULL)
        return -1;
    memset(looks, 0, sizeof *looks);
    looks->tracing_lock = enif_mutex_create("flame_prof_tracing");
#define MAKE_ATOM(name) looks->sends_atoms.name = fp_atom(env, #name);
    FP_SENDS_ATOMS(MAKE_ATOM)
#undef MAKE_ATOM
#define MAKE_ATOM(name) looks->tracer_atoms.name = fp_atom(env, #name);
    FP_TRACER_ATOMS(MAKE_ATOM)
    if (fp_vm_open(&looks->vm) != 0 || looks->tracing_lock == NULL || open_types(env, looks) != 0) {
        looks_free(looks);
        return -1;
    }
    atomic_store(&newest, looks);
    *priv = looks;
    return 0;
}

static void unload(ErlNifEnv *env, void *priv)
{
    struct fp_looks *last = priv;

    (void)env;
    if (atomic_compare_exchange_strong(&newest, &last, NULL)) {
        fp_tracer_forget();
        fp_serving_forget();
    }
    looks_free(priv);
}

/* ------------------------------------------------------------- the table -- */

#define CPU ERL_NIF_DIRTY_JOB_CPU_BOUND
#define IO ERL_NIF_DIRTY_JOB_IO_BOUND
#define ENTRY(name, arity, flags) {#name, arity, fp_nif_##name, flags},
static ErlNifFunc functions[] = {FP_VM_NIFS(ENTRY) FP_LOOKS_NIFS(ENTRY)};

ERL_NIF_INIT(flame_prof_looks_nif, functions, load, NULL, NULL, unload)
