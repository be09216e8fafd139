/* agent_nif.c - the table of NIFs, and the library's load, upgrade and unload.
 *
 * LOAD     makes the resource types, and no system call of its own: a seccomp filter may kill the
 *          caller of one
 * UPGRADE  has no callback, thus ERTS refuses it (code:load_file returns {error,
 *          on_load_failure}): threads may be inside the mapped code
 * UNLOAD   joins the sessions that have ended: ERTS calls it when no handle is left, and a writer
 *          holds one until its end */
#include <stdlib.h>
#include <string.h>

#include <uv.h>
#include <zstd.h>

#include "agent_nif/library.h"
#include "agent_nif/tracer_nif.h"
#include "base/error.h"
#include "session/session.h"
#include "terms/terms.h"

/* struct enif_environment_t (global.h): a module's data, then the process, which begins with its
 * pid term. */
#define PROCESS_IN_ENV 8u

uint64_t fp_own_process(ErlNifEnv *env, const struct fp_memory *memory)
{
    uint64_t address = 0, id = 0;
    ErlNifPid self;

    if (fp_safe_read_word(memory, (uint64_t)(uintptr_t)env + PROCESS_IN_ENV, &address) != 0 ||
        fp_safe_read_word(memory, address, &id) != 0 || enif_self(env, &self) == NULL ||
        id != enif_make_pid(env, &self))
        return 0;
    return address;
}

const char *fp_library_open_memory(struct fp_library *library)
{
#if !defined(__x86_64__) || !defined(__linux__)
    (void)library;
    return "the native engine knows Linux on x86_64 only";
#elif !defined(__GLIBC__)
    (void)library;
    return "the native engine knows glibc only";
#else
    int err;

    enif_mutex_lock(library->lock);
    if (library->memory_err != 0)
        library->memory_err = fp_safe_read_open(&library->memory);
    err = library->memory_err;
    enif_mutex_unlock(library->lock);
    return err == 0 ? NULL : fp_err_text(err);
#endif
}

#if defined(__x86_64__)
#define ARCH "x86_64"
#elif defined(__aarch64__)
#define ARCH "aarch64"
#else
#define ARCH "other"
#endif

FP_NIF(platform)
{
    const char *why = fp_library_open_memory(fp_library(env));
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "native", fp_boolean(env, why == NULL));
    fp_map_put(env, &map, "why", fp_text(env, why == NULL ? "" : why));
    fp_map_put(env, &map, "arch", fp_text(env, ARCH));
    fp_map_put(env, &map, "libuv", fp_text(env, uv_version_string()));
    fp_map_put(env, &map, "zstd", fp_text(env, ZSTD_versionString()));
    return map;
}

static void library_free(struct fp_library *library)
{
    if (library->memory_err == 0)
        fp_safe_read_close(&library->memory);
    if (library->lock != NULL)
        enif_mutex_destroy(library->lock);
    if (library->tracing_lock != NULL)
        enif_mutex_destroy(library->tracing_lock);
    fp_sites_release(library->sites);
    free(library->allocators);
    free(library->tables);
    free(library->table_objects);
    enif_free(library->layout);
    enif_free(library);
}

static int open_types(ErlNifEnv *env, struct fp_library *library)
{
    const struct {
        const char *name;
        ErlNifResourceTypeInit init;
        ErlNifResourceType **type;
    } types[] = {
        {"flame_prof_calibration", {.dtor = NULL}, &library->calibration_type},
        {"flame_prof_session", fp_session_type_init, &library->session_type},
        {"flame_prof_selector", {.dtor = fp_top_handle_destroy}, &library->selector_type},
        {"flame_prof_sends", fp_sends_type_init, &library->sends_type},
        {"flame_prof_mailbox", {.dtor = fp_mailbox_handle_destroy}, &library->mailbox_type},
        {"flame_prof_xray", {.dtor = fp_xray_handle_destroy}, &library->xray_type},
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
    struct fp_library *library = enif_alloc(sizeof *library);

    (void)info;
    if (library == NULL)
        return -1;
    memset(library, 0, sizeof *library);
    library->memory_err = 1;
    library->lock = enif_mutex_create("flame_prof_library");
    library->tracing_lock = enif_mutex_create("flame_prof_tracing");
#define MAKE_ATOM(name) library->sends_atoms.name = fp_atom(env, #name);
    FP_SENDS_ATOMS(MAKE_ATOM)
#undef MAKE_ATOM
#define MAKE_ATOM(name) library->tracer_atoms.name = fp_atom(env, #name);
    FP_TRACER_ATOMS(MAKE_ATOM)
    if (library->lock == NULL || library->tracing_lock == NULL || open_types(env, library) != 0) {
        library_free(library);
        return -1;
    }
    *priv = library;
    return 0;
}

static void unload(ErlNifEnv *env, void *priv)
{
    (void)env;
    fp_session_join_all(priv);
    fp_tracer_forget();
    library_free(priv);
}

#define CPU ERL_NIF_DIRTY_JOB_CPU_BOUND
#define IO ERL_NIF_DIRTY_JOB_IO_BOUND
#define ENTRY(name, arity, flags) {#name, arity, fp_nif_##name, flags},
static ErlNifFunc functions[] = {FP_NIFS(ENTRY)};

ERL_NIF_INIT(flame_prof_nif, functions, load, NULL, NULL, unload)
