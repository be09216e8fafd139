/*
 * report_nif.c - load, upgrade and unload of flame_prof_report_nif.so, and its table of NIFs.
 *
 * The library has no thread and no state but the type of its handles. A NIF that is not marked
 * dirty returns within a millisecond.
 */
#include "report_nif/report_nif.h"

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    (void)info;
    return fp_handle_load(env, priv);
}

/* Two versions of the code would share the resource type of one. */
static int upgrade(ErlNifEnv *env, void **priv, void **old_priv, ERL_NIF_TERM info)
{
    (void)env;
    (void)priv;
    (void)old_priv;
    (void)info;
    return -1;
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

ERL_NIF_INIT(flame_prof_report_nif, functions, load, NULL, upgrade, NULL)
