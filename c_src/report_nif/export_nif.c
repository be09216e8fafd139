/* export_nif.c - a profile as a file of another tool. Dirty I/O schedulers only. */
#include "report/export.h"
#include "report_nif/report_nif.h"

#define QUERIES_MOST (2 * FP_METRICS_MOST + 2)

enum format { COLLAPSED, PERF, SPEEDSCOPE, PPROF, FIREFOX, INDEX, PACKED_INDEX, INDEX_PIECE };

static const char *const format_names[] = {"collapsed",    "perf",        "speedscope",
                                           "pprof",        "firefox",     "index",
                                           "packed_index", "index_piece", NULL};

struct export
{
    ErlNifEnv *env;
    struct fp_profile *profile;
    struct fp_query *queries;
    uint32_t count;
    ERL_NIF_TERM facts; /* of the file */
};

static int write_format(struct export *export, enum format format, struct fp_output *output)
{
    uint64_t samples = 0, moved = 0;
    int err;

    switch (format) {
    case COLLAPSED:
        err = fp_export_collapsed(export->profile, export->queries, output, &samples);
        fp_map_put_u64(export->env, &export->facts, "total", samples);
        return err;
    case PERF:
        err = fp_export_perf(export->profile, export->queries, output, &samples, &moved);
        fp_map_put_u64(export->env, &export->facts, "samples", samples);
        fp_map_put_u64(export->env, &export->facts, "moved", moved);
        return err;
    case SPEEDSCOPE:
        return fp_export_speedscope(export->profile, export->queries, export->count, output);
    case PPROF:
        return fp_export_pprof(export->profile, export->queries, output);
    case FIREFOX:
        return fp_export_firefox(export->profile, export->queries, output);
    case INDEX_PIECE:
        err = fp_export_index_piece(export->profile, output);
        fp_map_put_u64(export->env, &export->facts, "cpu_us", export->profile->cpu_ns / 1000);
        return err;
    default:
        return fp_export_index(export->profile, output, format == PACKED_INDEX);
    }
}

/* [Query], at least one. */
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

static int is_gzip(enum format format, const char *path)
{
    size_t size = strlen(path);

    return format == PPROF ||
           (format == FIREFOX && size > 3 && memcmp(path + size - 3, ".gz", 3) == 0);
}

static ERL_NIF_TERM run(struct export *export, enum format format, const char *path)
{
    char why[FP_WHY_BYTES] = "";
    struct fp_output *output;
    uint64_t bytes;
    int err = fp_output_open(&output, path, is_gzip(format, path), why, sizeof(why));

    export->facts = enif_make_new_map(export->env);
    if (err == 0) {
        err = write_format(export, format, output);
        err = fp_output_close(output, err, &bytes, why, sizeof(why));
        fp_map_put_u64(export->env, &export->facts, "bytes", bytes);
    }
    return err != 0 ? fp_report_error(export->env, err, why) : fp_ok(export->env, export->facts);
}

/* (Profile, Format, Path, [Query]) ->
 *     {ok, #{bytes, ...}} | {error, {Atom, Text}} */
FP_HANDLE_NIF(fp_nif_profile_export, fp_profile_kind)
{
    struct export export = {.env = env, .profile = object};
    char path[FP_PATH_BYTES];
    int format = fp_get_name(env, argv[1], format_names);
    ERL_NIF_TERM result;

    if (format < 0 || !fp_get_path(env, argv[2], path))
        return enif_make_badarg(env);
    export.queries = calloc(QUERIES_MOST, sizeof(*export.queries));
    if (export.queries == NULL)
        return fp_report_error(env, FP_ENOMEM, "");
    result = get_queries(&export, argv[3]) ? run(&export, (enum format)format, path)
                                           : enif_make_badarg(env);
    free(export.queries);
    return result;
}
