/*
 * report_nif.h - the NIFs of flame_prof_report_nif.so, which reads profile files back, and what
 * they share.
 *
 * A profiled node does not load this library: flame_prof_nif.so is the agent.
 */
#ifndef FP_REPORT_NIF_REPORT_NIF_H
#define FP_REPORT_NIF_REPORT_NIF_H

#include <erl_nif.h>

#include "report/aggregate.h"

/* ---- handle.c: resources that one process uses at a time -- */

/* One static object for each kind of handle. */
struct fp_handle_kind {
    char *name;
    void (*destroy)(void *object);
};

struct fp_handle {
    const struct fp_handle_kind *kind;
    ErlNifMutex *lock;
    void *object; /* NULL: closed */
};

/* Opens the type of all handles: *priv. 0, or -1. */
int fp_handle_load(ErlNifEnv *env, void **priv);
/* A reference to the object, which the handle destroys. 0: no memory, the object is destroyed. */
ERL_NIF_TERM fp_handle_new(ErlNifEnv *env, const struct fp_handle_kind *kind, void *object);
/* Locked; NULL: another kind, closed, or in use by another process. */
struct fp_handle *fp_handle_enter(ErlNifEnv *env, ERL_NIF_TERM term,
                                  const struct fp_handle_kind *kind);
/* Unlocks the handle and answers `answer`. */
ERL_NIF_TERM fp_handle_leave(struct fp_handle *handle, ERL_NIF_TERM answer);
/* Destroys the object, leaves the handle and answers ok. */
ERL_NIF_TERM fp_handle_close(ErlNifEnv *env, struct fp_handle *handle);

/* ---- report_terms.c -- */

static inline ERL_NIF_TERM fp_ok(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return enif_make_tuple2(env, enif_make_atom(env, "ok"), term);
}

/* {error, {Atom, Text}}; `why` may be empty. */
ERL_NIF_TERM fp_report_error(ErlNifEnv *env, int err, const char *why);
ERL_NIF_TERM fp_slice_term(ErlNifEnv *env, struct fp_slice text);

/* A member of a struct, as a value of a map. */
struct fp_field {
    const char *key;
    enum fp_field_kind {
        FP_FIELD_U64,
        FP_FIELD_I64,
        FP_FIELD_BOOL, /* an int */
        FP_FIELD_TEXT, /* a text's number in the profile */
        FP_FIELD_DIALECT,
        FP_FIELD_COMPRESSION
    } kind;
    size_t at;
};

#define FP_FIELDS_MOST 16
ERL_NIF_TERM fp_fields_map(ErlNifEnv *env, const struct fp_profile *profile,
                           const struct fp_field *fields, size_t count, const void *item);
/* Of a profile's file; without a profile, what a reader of one file knows. */
ERL_NIF_TERM fp_file_map(ErlNifEnv *env, const struct fp_profile *profile,
                         const struct fp_file *file);

/* ---- profile_nif.c, query_nif.c -- */

extern const struct fp_handle_kind fp_profile_kind;

/* {By, [Dimension], WithoutLines}. 1, or 0: it is none. */
int fp_get_query(ErlNifEnv *env, const struct fp_profile *profile, ERL_NIF_TERM term,
                 struct fp_query *query);

/* ---- NIFs -- */

#define FP_REPORT_NIF(name)                                                                        \
    ERL_NIF_TERM name(ErlNifEnv *env, int argc __attribute__((unused)),                            \
                      const ERL_NIF_TERM argv[] __attribute__((unused)))

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

#endif
