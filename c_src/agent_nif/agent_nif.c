/* agent_nif.c - the table of NIFs, and the library's load, upgrade and unload.
 *
 * LOAD     makes the resource type, and no system call of its own: a seccomp filter may kill the
 *          caller of one
 * UPGRADE  has no callback, thus ERTS refuses it (code:load_file returns {error,
 *          on_load_failure}): threads may be inside the mapped code
 * UNLOAD   joins the sessions that have ended: ERTS calls it when no handle is left, and a writer
 *          holds one until its end */
#include <string.h>

#include <uv.h>
#include <zstd.h>

#include "agent_nif/agent.h"
#include "base/error.h"
#include "erts/code_scan.h"
#include "session/session.h"
#include "terms/terms.h"

#if defined(__x86_64__)
#define ARCH "x86_64"
#elif defined(__aarch64__)
#define ARCH "aarch64"
#else
#define ARCH "other"
#endif

ERL_NIF_TERM fp_nif_platform(FP_NIF_ARGS)
{
    const char *why = fp_vm_open_memory(fp_vm(env));
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "native", fp_boolean(env, why == NULL));
    fp_map_put(env, &map, "why", fp_text(env, why == NULL ? "" : why));
    fp_map_put(env, &map, "arch", fp_text(env, ARCH));
    fp_map_put(env, &map, "libuv", fp_text(env, uv_version_string()));
    fp_map_put(env, &map, "zstd", fp_text(env, ZSTD_versionString()));
    return map;
}

static ERL_NIF_TERM layout_term(ErlNifEnv *env, const struct fp_layout *layout)
{
    const struct fp_release *listed = fp_release_find(layout->release.otp);
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "otp", enif_make_uint(env, layout->release.otp));
    fp_map_put(env, &map, "tested",
               fp_atom(env, listed == NULL           ? "unlisted"
                            : layout->release.tested ? "tested"
                                                     : "untested"));
    fp_map_put(env, &map, "reads", fp_text(env, fp_safe_read_method(&fp_vm(env)->memory)));
    fp_map_put(env, &map, "process_size", enif_make_uint(env, layout->release.process_size));
    fp_map_put(env, &map, "otel", fp_atom(env, layout->otel.map_header != 0 ? "true" : "false"));
    return map;
}

/* () -> undefined | #{otp, tested, reads, process_size, otel} |
 *       {error, {Error, code, Why}} */
ERL_NIF_TERM fp_nif_layout_info(FP_NIF_ARGS)
{
    struct fp_vm *vm = fp_vm(env);
    struct fp_layout *layout = vm->layout;
    struct fp_ranges ranges;
    int err;

    if (layout == NULL)
        return fp_atom(env, "undefined");
    /* The layout stays; mappings of code come and go. */
    err = fp_code_ranges(&vm->memory, &ranges);
    return err == 0 ? layout_term(env, layout)
                    : fp_error(env, enif_make_tuple3(env, fp_atom(env, fp_err_name(err)),
                                                     fp_atom(env, "code"),
                                                     fp_text(env, fp_code_ranges_why(err))));
}

static void agent_free(struct fp_agent *agent)
{
    fp_vm_close(&agent->vm);
    enif_free(agent);
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    struct fp_agent *agent = enif_alloc(sizeof *agent);

    (void)info;
    if (agent == NULL)
        return -1;
    memset(agent, 0, sizeof *agent);
    agent->session_type = enif_open_resource_type_x(env, "flame_prof_session",
                                                    &fp_session_type_init, ERL_NIF_RT_CREATE, NULL);
    if (fp_vm_open(&agent->vm) != 0 || agent->session_type == NULL) {
        agent_free(agent);
        return -1;
    }
    *priv = agent;
    return 0;
}

static void unload(ErlNifEnv *env, void *priv)
{
    (void)env;
    fp_session_join_all(priv);
    agent_free(priv);
}

#define CPU ERL_NIF_DIRTY_JOB_CPU_BOUND
#define IO ERL_NIF_DIRTY_JOB_IO_BOUND
#define ENTRY(name, arity, flags) {#name, arity, fp_nif_##name, flags},
static ErlNifFunc functions[] = {FP_VM_NIFS(ENTRY) FP_AGENT_NIFS(ENTRY)};

ERL_NIF_INIT(flame_prof_nif, functions, load, NULL, NULL, unload)
