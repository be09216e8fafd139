/* report_nif.h - the NIFs of flame_prof_report_nif.so, which reads profile files back, and what
 * they share.
 *
 * A profiled node does not load this library: flame_prof_nif.so is the agent. */
#pragma once

#include "report/aggregate.h"
#include "terms/terms.h"

#define FP_WHY_BYTES 256

/* ---- report_nif.c: handles, which one process uses at a time -- */

/* One static object for each kind of handle. */
struct fp_handle_kind {
    char *name;
    void (*destroy)(void *object);
};

/* A reference to the object, which the handle destroys. 0: no memory, the object is destroyed. */
ERL_NIF_TERM fp_handle_new(ErlNifEnv *env, const struct fp_handle_kind *kind, void *object);
/* The result of `nif`, which gets the object of the handle argv[0]; badarg: another kind;
 * {error, closed}; {error, busy}: in use by another process. */
typedef ERL_NIF_TERM fp_handle_nif(ErlNifEnv *env, const ERL_NIF_TERM argv[], void *object);
ERL_NIF_TERM fp_handle_call(ErlNifEnv *env, const ERL_NIF_TERM argv[],
                            const struct fp_handle_kind *kind, fp_handle_nif *nif);
/* Destroys the object: ok, or a refusal as above. */
ERL_NIF_TERM fp_handle_close(ErlNifEnv *env, ERL_NIF_TERM term, const struct fp_handle_kind *kind);

/* ---- report_terms.c -- */

/* {error, {Atom, Text}}; `why` may be empty. */
ERL_NIF_TERM fp_report_error(ErlNifEnv *env, int err, const char *why);
/* A file's name, as a binary in the file system's encoding. 1, or 0. */
int fp_get_path(ErlNifEnv *env, ERL_NIF_TERM term, char path[FP_PATH_BYTES]);
ERL_NIF_TERM fp_slice_term(ErlNifEnv *env, struct fp_slice text);

/* A member of a struct, as a value of a map. */
struct fp_field {
    const char *key; /* NULL: the end of an array of fields */
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

#define FP_FIELD(key, kind, type, member)                                                          \
    {                                                                                              \
        key, FP_FIELD_##kind, offsetof(struct type, member)                                        \
    }
#define FP_FIELDS_MOST 20

/* Without a profile, the fields before the first text. */
ERL_NIF_TERM fp_fields_map(ErlNifEnv *env, const struct fp_profile *profile,
                           const struct fp_field *fields, const void *item);
ERL_NIF_TERM fp_file_map(ErlNifEnv *env, const struct fp_profile *profile,
                         const struct fp_file *file);

/* ---- profile_nif.c, query_nif.c -- */

/* [{Symbol, Dso}] of a node of the profile's tree, leaf first. */
ERL_NIF_TERM fp_frames_term(ErlNifEnv *env, const struct fp_profile *profile, uint32_t node);
/* A process as flame_prof_profile:processes/1 has it. */
ERL_NIF_TERM fp_process_term(ErlNifEnv *env, const struct fp_profile *profile, size_t i);

extern const struct fp_handle_kind fp_profile_kind;

/* {By, [Dimension], Frames, {FromUs, ToUs, [Status], Processes}}. Frames is lines, functions, none,
 * line_chains, function_chains or chains (no frames); an empty list is any status; Processes is
 * all, or a binary with a byte for each process, 0 leaving it out. The query is valid as long as
 * the term. 1; 0: the term is no query. */
int fp_get_query(ErlNifEnv *env, const struct fp_profile *profile, ERL_NIF_TERM term,
                 struct fp_query *query);

/* ---- NIFs -- */

#define FP_REPORT_NIF(name)                                                                        \
    ERL_NIF_TERM name(ErlNifEnv *env, int argc __attribute__((unused)),                            \
                      const ERL_NIF_TERM argv[] __attribute__((unused)))

/* A NIF on the object of a handle, which is the first argument. */
#define FP_HANDLE_NIF(name, kind)                                                                  \
    static fp_handle_nif name##_on;                                                                \
    FP_REPORT_NIF(name)                                                                            \
    {                                                                                              \
        return fp_handle_call(env, argv, &(kind), name##_on);                                      \
    }                                                                                              \
    static ERL_NIF_TERM name##_on(ErlNifEnv *env,                                                  \
                                  const ERL_NIF_TERM argv[] __attribute__((unused)), void *object)

/* Name, arity, flags. A NIF that is not marked dirty returns within a millisecond. */
#define FP_REPORT_NIF_MAP(X)                                                                       \
    X(reader_open, 2, ERL_NIF_DIRTY_JOB_IO_BOUND)                                                  \
    X(reader_next, 2, ERL_NIF_DIRTY_JOB_IO_BOUND)                                                  \
    X(reader_info, 1, ERL_NIF_DIRTY_JOB_IO_BOUND)                                                  \
    X(reader_close, 1, ERL_NIF_DIRTY_JOB_IO_BOUND)                                                 \
    X(profile_new, 2, ERL_NIF_DIRTY_JOB_IO_BOUND)                                                  \
    X(profile_begin, 3, ERL_NIF_DIRTY_JOB_IO_BOUND)                                                \
    X(profile_continue, 3, ERL_NIF_DIRTY_JOB_IO_BOUND)                                             \
    X(profile_step, 2, ERL_NIF_DIRTY_JOB_IO_BOUND)                                                 \
    X(profile_close, 1, ERL_NIF_DIRTY_JOB_CPU_BOUND)                                               \
    X(profile_thin, 2, ERL_NIF_DIRTY_JOB_CPU_BOUND)                                                \
    X(profile_info, 1, ERL_NIF_DIRTY_JOB_CPU_BOUND)                                                \
    X(profile_processes, 3, ERL_NIF_DIRTY_JOB_CPU_BOUND)                                           \
    X(profile_stacks, 3, ERL_NIF_DIRTY_JOB_CPU_BOUND)                                              \
    X(profile_calls, 3, ERL_NIF_DIRTY_JOB_CPU_BOUND)                                               \
    X(profile_facts, 1, ERL_NIF_DIRTY_JOB_CPU_BOUND)                                               \
    X(profile_export, 4, ERL_NIF_DIRTY_JOB_IO_BOUND)                                               \
    X(demangled, 1, 0)

#define FP_REPORT_NIF_DECLARE(name, arity, flags) FP_REPORT_NIF(fp_nif_##name);
FP_REPORT_NIF_MAP(FP_REPORT_NIF_DECLARE)
#undef FP_REPORT_NIF_DECLARE
