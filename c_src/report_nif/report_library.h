/*
 * report_library.h - the NIFs of flame_prof_report_nif.so, which reads profile
 * files back, and what lives as long as that library.
 *
 * A profiled node does not load this library: flame_prof_nif.so is the agent.
 */
#ifndef FP_REPORT_NIF_REPORT_LIBRARY_H
#define FP_REPORT_NIF_REPORT_LIBRARY_H

#include <erl_nif.h>

#include "store/source.h"

struct fp_report_library {
    /* Immutable after load. */
    ErlNifResourceType *reader_type, *profile_type, *unzst_type;
};

static inline struct fp_report_library *fp_report_library(ErlNifEnv *env)
{
    return enif_priv_data(env);
}

/* Put the keys bytes, text, compression, cut_off and damaged of a file into
 * *map. */
void fp_map_put_source(ErlNifEnv *env, ERL_NIF_TERM *map,
                       const struct fp_source_state *state);

#define FP_REPORT_NIF(name)                                                    \
    ERL_NIF_TERM name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])

FP_REPORT_NIF(fp_nif_reader_open);
FP_REPORT_NIF(fp_nif_reader_next);
FP_REPORT_NIF(fp_nif_reader_info);
FP_REPORT_NIF(fp_nif_reader_close);
FP_REPORT_NIF(fp_nif_profile_new);
FP_REPORT_NIF(fp_nif_profile_begin);
FP_REPORT_NIF(fp_nif_profile_step);
FP_REPORT_NIF(fp_nif_profile_close);
FP_REPORT_NIF(fp_nif_profile_info);
FP_REPORT_NIF(fp_nif_profile_processes);
FP_REPORT_NIF(fp_nif_profile_stacks);
FP_REPORT_NIF(fp_nif_profile_export);
FP_REPORT_NIF(fp_nif_unzst_open);
FP_REPORT_NIF(fp_nif_unzst_read);

/* Resource destructors. */
void fp_reader_destroy(ErlNifEnv *env, void *object);
void fp_profile_handle_destroy(ErlNifEnv *env, void *object);
void fp_unzstd_nif_destroy(ErlNifEnv *env, void *object);

#endif
