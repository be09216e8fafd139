/*
 * export_nif.c - a profile as a file of another tool. Dirty I/O schedulers only.
 */
#include <stdlib.h>

#include "report/export.h"
#include "report_nif/report_nif.h"
#include "terms/terms.h"

#define WHY_BYTES 256
#define QUERIES_MOST (2 * FP_METRICS_MOST + 2)

enum format { COLLAPSED, PERF, SPEEDSCOPE, PPROF, INDEX, PACKED_INDEX, FORMATS };

static const char *const format_name[FORMATS] = {"collapsed", "perf",  "speedscope",
                                                 "pprof",     "index", "packed_index"};

struct export
{
    ErlNifEnv *env;
    struct fp_profile *profile;
    struct fp_query *queries;
    uint32_t count;
    ERL_NIF_TERM facts; /* of the file */
};

static void put_fact(struct export *export, const char *key, uint64_t number)
{
    fp_map_put(export->env, &export->facts, key, enif_make_uint64(export->env, number));
}

static int write_format(struct export *export, enum format format, struct fp_output *output)
{
    uint64_t samples = 0, moved = 0;
    int err;

    switch (format) {
    case COLLAPSED:
        err = fp_export_collapsed(export->profile, export->queries, output, &samples);
        put_fact(export, "total", samples);
        return err;
    case PERF:
        err = fp_export_perf(export->profile, &export->queries->by, output, &samples, &moved);
        put_fact(export, "samples", samples);
        put_fact(export, "moved", moved);
        return err;
    case SPEEDSCOPE:
        return fp_export_speedscope(export->profile, export->queries, export->count, output);
    case PPROF:
        return fp_export_pprof(export->profile, output);
    default:
        return fp_export_index(export->profile, output, format == PACKED_INDEX);
    }
}

/* FORMATS: there is none of this name. */
static enum format get_format(ErlNifEnv *env, ERL_NIF_TERM term)
{
    int f = 0;

    while (f < FORMATS && !enif_is_identical(term, fp_atom(env, format_name[f])))
        f++;
    return (enum format)f;
}

/* [{By, [Dimension], WithoutLines}], at least one. */
static int get_queries(struct export *export, ERL_NIF_TERM list)
{
    ERL_NIF_TERM head;

    while (enif_get_list_cell(export->env, list, &head, &list)) {
        if (export->count == QUERIES_MOST ||
            !fp_get_query(export->env, export->profile, head, &export->queries[export->count]))
            return 0;
        export->count++;
    }
    return export->count > 0;
}

static ERL_NIF_TERM run(struct export *export, enum format format, const char *path)
{
    char why[WHY_BYTES] = "";
    struct fp_output *output;
    int err = fp_output_open(&output, path, format == PPROF, why, sizeof(why));

    export->facts = enif_make_new_map(export->env);
    if (err == 0) {
        err = write_format(export, format, output);
        put_fact(export, "bytes", fp_output_size(output));
        err = fp_output_close(output, err, why, sizeof(why));
    }
    return err != 0 ? fp_report_error(export->env, err, why) : fp_ok(export->env, export->facts);
}

/* (Profile, Format, Path, [{By, [Dimension], WithoutLines}]) ->
 *     {ok, #{bytes, ...}} | {error, {Atom, Text}} */
FP_REPORT_NIF(fp_nif_profile_export)
{
    struct export export = {.env = env};
    char path[FP_PATH_BYTES];
    enum format format = get_format(env, argv[1]);
    struct fp_handle *handle;
    ERL_NIF_TERM answer;

    if (format == FORMATS || !fp_get_path(env, argv[2], path) ||
        (handle = fp_handle_enter(env, argv[0], &fp_profile_kind)) == NULL)
        return enif_make_badarg(env);
    export.profile = handle->object;
    export.queries = calloc(QUERIES_MOST, sizeof(*export.queries));
    if (export.queries == NULL)
        answer = fp_report_error(env, FP_ENOMEM, "");
    else if (!get_queries(&export, argv[3]))
        answer = enif_make_badarg(env);
    else
        answer = run(&export, format, path);
    free(export.queries);
    return fp_handle_leave(handle, answer);
}
