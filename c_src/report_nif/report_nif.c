/*
 * report_nif.c - load, upgrade and unload of flame_prof_report_nif.so, and its
 * table of NIFs.
 *
 * The library has no thread and no state but its resource types.
 *
 * Scheduler use: a NIF that is not marked dirty returns within a millisecond.
 */
#include "report_nif/report_library.h"
#include "terms/terms.h"

void fp_map_put_source(ErlNifEnv *env, ERL_NIF_TERM *map,
                       const struct fp_source_state *state)
{
    fp_map_put(env, map, "compression",
               fp_atom(env, fp_source_kind_name(state->kind)));
    fp_map_put(env, map, "bytes", enif_make_uint64(env, state->bytes_in));
    fp_map_put(env, map, "text", enif_make_uint64(env, state->text));
    fp_map_put(env, map, "damaged", enif_make_uint64(env, state->damaged));
    fp_map_put(env, map, "cut_off",
               fp_atom(env, state->is_cut_off ? "true" : "false"));
}

static ErlNifResourceType *open_type(ErlNifEnv *env, const char *name,
                                     ErlNifResourceDtor *destroy)
{
    ErlNifResourceTypeInit init = {.dtor = destroy};

    return enif_open_resource_type_x(env, name, &init, ERL_NIF_RT_CREATE, NULL);
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    struct fp_report_library *library = enif_alloc(sizeof *library);

    (void)info;
    if (library == NULL)
        return -1;
    library->reader_type =
        open_type(env, "flame_prof_reader", fp_reader_destroy);
    library->profile_type =
        open_type(env, "flame_prof_profile", fp_profile_handle_destroy);
    library->unzst_type =
        open_type(env, "flame_prof_unzst", fp_unzstd_nif_destroy);
    if (library->reader_type == NULL || library->profile_type == NULL ||
        library->unzst_type == NULL) {
        enif_free(library);
        return -1;
    }
    *priv = library;
    return 0;
}

/* Two versions of the code would share the resource types of one. */
static int upgrade(ErlNifEnv *env, void **priv, void **old_priv,
                   ERL_NIF_TERM info)
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
    enif_free(priv);
}

#define CPU ERL_NIF_DIRTY_JOB_CPU_BOUND
#define IO ERL_NIF_DIRTY_JOB_IO_BOUND

static ErlNifFunc functions[] = {
    {"reader_open", 1, fp_nif_reader_open, IO},
    {"reader_next", 2, fp_nif_reader_next, IO},
    {"reader_info", 1, fp_nif_reader_info, IO},
    {"reader_close", 1, fp_nif_reader_close, IO},
    {"profile_new", 1, fp_nif_profile_new, IO},
    {"profile_begin", 2, fp_nif_profile_begin, IO},
    {"profile_step", 2, fp_nif_profile_step, IO},
    {"profile_close", 1, fp_nif_profile_close, CPU},
    {"profile_info", 1, fp_nif_profile_info, CPU},
    {"profile_processes", 3, fp_nif_profile_processes, CPU},
    {"profile_stacks", 3, fp_nif_profile_stacks, CPU},
    {"profile_export", 4, fp_nif_profile_export, IO},
    {"unzst_open", 0, fp_nif_unzst_open, 0},
    {"unzst_read", 3, fp_nif_unzst_read, 0},
};

ERL_NIF_INIT(flame_prof_report_nif, functions, load, NULL, upgrade, unload)
