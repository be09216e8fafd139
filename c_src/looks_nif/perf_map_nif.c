/* perf_map_nif.c - the list of loaded modules into a perf map file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/perf_map.h"
#include "looks_nif/looks.h"
#include "store/perf_map_file.h"
#include "terms/terms.h"

/* {Module, Md5, HasOldCode}; Md5 is empty for a module without current code. 1, or 0. */
static int get_loaded(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_loaded *loaded)
{
    const ERL_NIF_TERM *part;
    ErlNifBinary md5;
    int size;

    if (!enif_get_tuple(env, term, &size, &part) || size != 3 || !enif_is_atom(env, part[0]) ||
        !enif_inspect_binary(env, part[1], &md5) || (md5.size != 0 && md5.size != FP_MD5_SIZE))
        return 0;
    loaded->name = part[0];
    loaded->has_md5 = md5.size != 0;
    if (loaded->has_md5)
        memcpy(loaded->md5, md5.data, FP_MD5_SIZE);
    loaded->has_old = fp_is_atom(env, part[2], "true");
    return loaded->has_old || fp_is_atom(env, part[2], "false");
}

/* NULL when `list` has another element, or memory ran out. */
static struct fp_loaded *get_all_loaded(ErlNifEnv *env, ERL_NIF_TERM list, unsigned *n)
{
    struct fp_loaded *loaded;
    ERL_NIF_TERM head;

    if (!enif_get_list_length(env, list, n))
        return NULL;
    loaded = calloc(*n + 1u, sizeof *loaded);
    for (unsigned i = 0; loaded != NULL && i < *n; i++) {
        if (enif_get_list_cell(env, list, &head, &list) && get_loaded(env, head, &loaded[i]))
            continue;
        free(loaded);
        return NULL;
    }
    return loaded;
}

static ERL_NIF_TERM written(ErlNifEnv *env, const char *path, size_t bytes,
                            const struct fp_perf_map_count *count)
{
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "file", fp_text(env, path));
    fp_map_put_u64(env, &map, "bytes", bytes);
    fp_map_put_u64(env, &map, "functions", count->functions);
    fp_map_put_u64(env, &map, "left_out", count->left_out);
    fp_map_put(env, &map, "memory", fp_atom(env, fp_maps_code_is_memfd() ? "memfd" : "anonymous"));
    return fp_ok(env, map);
}

/* 0 or an error; FP_ENOENT when no function is found. */
static int make_text(struct fp_looks *library, struct fp_buffer *text, struct fp_loaded *loaded,
                     unsigned n, struct fp_perf_map_count *count)
{
    const struct fp_layout *layout = library->vm.layout;
    struct fp_functions functions;
    struct fp_ranges ranges;
    int err;

    if (layout == NULL)
        return FP_ESTATE;
    err = fp_code_ranges(&library->vm.memory, &ranges);
    if (err == 0)
        err = fp_functions_read(&functions, &layout->release, &library->vm.memory, &ranges);
    if (err != 0)
        return err;
    err = fp_perf_map_text(text, &functions, loaded, n, layout, &library->vm.memory, count);
    fp_functions_free(&functions);
    return err == 0 && count->functions == 0 ? FP_ENOENT : err;
}

/* [{Module, Md5, HasOldCode}] -> {ok, #{file, bytes, functions, left_out, memory}} |
 * {error, {Error, Why}} */
ERL_NIF_TERM fp_nif_write_perf_map(FP_NIF_ARGS)
{
    struct fp_perf_map_count count;
    struct fp_buffer text = {NULL, 0, 0};
    char path[64], why[512];
    unsigned n;
    struct fp_loaded *loaded = get_all_loaded(env, argv[0], &n);
    ERL_NIF_TERM result;
    int err;

    if (loaded == NULL)
        return enif_make_badarg(env);
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    err = make_text(fp_looks(env), &text, loaded, n, &count);
    snprintf(why, sizeof why, "%s: %s", path, fp_err_text(err));
    if (err == 0)
        err = fp_perf_map_write(path, text.bytes, text.size, why, sizeof why);
    result = err == 0 ? written(env, path, text.size, &count) : fp_error_text(env, err, why);
    fp_buffer_free(&text);
    free(loaded);
    return result;
}
