/*
 * agent_nif.c - the table of NIFs, and the library's load, upgrade and unload.
 *
 * LOAD     makes the resource types, and no system call of its own: a seccomp
 *          filter may kill the caller of some
 * UPGRADE  is refused while this library's code is mapped: threads may be
 *          inside it (code:load_file answers {error, on_load_failure})
 * UNLOAD   joins the sessions that have ended: ERTS calls it when no handle is
 *          left, and a writer holds one until its end
 *
 * Scheduler use: what is not marked dirty returns within microseconds.
 */
#include <stdlib.h>
#include <string.h>

#include <uv.h>
#include <zstd.h>

#include "agent_nif/library.h"
#include "base/error.h"
#include "session/session.h"
#include "terms/terms.h"

struct fp_layout *fp_library_layout(struct fp_library *library)
{
    struct fp_layout *layout;

    enif_mutex_lock(library->lock);
    layout = library->layout;
    enif_mutex_unlock(library->lock);
    return layout;
}

/* struct enif_environment_t (global.h): a module's data, then the process, which begins with the
 * pid term. Believed only when it does. */
#define PROCESS_IN_ENV 8u

uint64_t fp_own_process(ErlNifEnv *env, const struct fp_memory *peek)
{
    uint64_t address = 0, id = 0;
    ErlNifPid self;

    if (fp_safe_read_word(peek, (uint64_t)(uintptr_t)env + PROCESS_IN_ENV, &address) != 0 ||
        fp_safe_read_word(peek, address, &id) != 0 || enif_self(env, &self) == NULL ||
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
    if (library->peek_err != 0)
        library->peek_err = fp_safe_read_open(&library->peek);
    err = library->peek_err;
    enif_mutex_unlock(library->lock);
    return err == 0 ? NULL : fp_err_text(err);
#endif
}

static const char *arch(void)
{
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

static ERL_NIF_TERM platform(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    const char *why = fp_library_open_memory(fp_library(env));
    ERL_NIF_TERM map = enif_make_new_map(env);

    (void)argc;
    (void)argv;
    fp_map_put(env, &map, "native", fp_boolean(env, why == NULL));
    fp_map_put_text(env, &map, "why", why == NULL ? "" : why);
    fp_map_put_text(env, &map, "arch", arch());
    fp_map_put_text(env, &map, "libuv", uv_version_string());
    fp_map_put_text(env, &map, "zstd", ZSTD_versionString());
    return map;
}

static void library_free(struct fp_library *library)
{
    if (library->peek_err == 0)
        fp_safe_read_close(&library->peek);
    if (library->lock != NULL)
        enif_mutex_destroy(library->lock);
    enif_free(library->layout);
    enif_free(library);
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    struct fp_library *library = enif_alloc(sizeof *library);
    ErlNifResourceTypeInit calibration = {.dtor = fp_calibration_destroy};
    ErlNifResourceTypeInit session = fp_session_type_init;
    ErlNifResourceTypeInit sends = fp_sends_type_init;
    ErlNifResourceTypeInit selector = {.dtor = fp_top_handle_destroy};

    (void)info;
    if (library == NULL)
        return -1;
    memset(library, 0, sizeof *library);
    library->peek_err = 1;
    library->lock = enif_mutex_create("flame_prof_library");
    fp_sends_make_atoms(env, &library->sends_atoms);
    library->calibration_type = enif_open_resource_type_x(env, "flame_prof_calibration",
                                                          &calibration, ERL_NIF_RT_CREATE, NULL);
    library->session_type =
        enif_open_resource_type_x(env, "flame_prof_session", &session, ERL_NIF_RT_CREATE, NULL);
    library->selector_type =
        enif_open_resource_type_x(env, "flame_prof_selector", &selector, ERL_NIF_RT_CREATE, NULL);
    library->sends_type =
        enif_open_resource_type_x(env, "flame_prof_sends", &sends, ERL_NIF_RT_CREATE, NULL);
    if (library->lock == NULL || library->selector_type == NULL ||
        library->calibration_type == NULL || library->session_type == NULL ||
        library->sends_type == NULL) {
        library_free(library);
        return -1;
    }
    *priv = library;
    return 0;
}

static int upgrade(ErlNifEnv *env, void **priv, void **old_priv, ERL_NIF_TERM info)
{
    (void)env;
    (void)priv;
    (void)old_priv;
    (void)info;
    return -1;
}

static void unload(ErlNifEnv *env, void *priv)
{
    (void)env;
    fp_session_join_all(priv);
    library_free(priv);
}

#define CPU ERL_NIF_DIRTY_JOB_CPU_BOUND
#define IO ERL_NIF_DIRTY_JOB_IO_BOUND

static ErlNifFunc functions[] = {
    {"platform", 0, platform, IO},
    {"calibration_open", 0, fp_nif_calibration_open, IO},
    {"calibration_probe", 1, fp_nif_calibration_probe, 0},
    {"calibration_solve", 2, fp_nif_calibration_solve, CPU},
    {"layout_info", 0, fp_nif_layout_info, CPU},
    {"snapshot", 1, fp_nif_snapshot, IO},
    {"write_perf_map", 1, fp_nif_write_perf_map, IO},
    {"session_start", 1, fp_nif_session_start, IO},
    {"session_push", 2, fp_nif_session_push, CPU},
    {"session_flush", 1, fp_nif_session_flush, 0},
    {"session_commit", 2, fp_nif_session_commit, 0},
    {"session_stop", 1, fp_nif_session_stop, 0},
    {"session_close", 1, fp_nif_session_close, IO},
    {"session_info", 1, fp_nif_session_info, 0},
    {"session_schedulers_online", 2, fp_nif_session_schedulers_online, 0},
    {"session_want", 2, fp_nif_session_want, CPU},
    {"session_chosen", 1, fp_nif_session_chosen, 0},
    {"sends_open", 1, fp_nif_sends_open, 0},
    {"sends_end", 1, fp_nif_sends_end, 0},
    {"sends_seen", 1, fp_nif_sends_seen, 0},
    {"enabled", 3, fp_nif_sends_enabled, 0},
    {"trace", 5, fp_nif_sends_trace, 0},
    {"capture_probe", 1, fp_nif_capture_probe, 0},
    {"captures_off", 1, fp_nif_captures_off, 0},
    {"schedulers_prepare", 1, fp_nif_schedulers_prepare, IO},
    {"scheduler_register", 1, fp_nif_scheduler_register, 0},
    {"schedulers_retire_begin", 0, fp_nif_schedulers_retire_begin, IO},
    {"scheduler_retire", 1, fp_nif_scheduler_retire, 0},
    {"schedulers_retire_end", 0, fp_nif_schedulers_retire_end, IO},
    {"selector_new", 1, fp_nif_selector_new, CPU},
    {"selector_next", 1, fp_nif_selector_next, CPU},
    {"session_figures", 2, fp_nif_session_figures, 0},
};

ERL_NIF_INIT(flame_prof_nif, functions, load, NULL, upgrade, unload)
