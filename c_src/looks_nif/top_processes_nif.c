/* top_processes_nif.c - for the live table: the top processes by one metric, or by its growth since
 * the previous pass. With `growers`, for tests and measurements: as a session selects them. */
#include "base/error.h"
#include "looks_nif/handle.h"
#include "looks_nif/looks.h"
#include "nif/terms_out.h"
#include "session/top_processes.h"
#include "terms/terms.h"

#define TOP_MAX 10000u

static void close_top(void *top)
{
    fp_top_processes_destroy(top);
}

static int metric_of(ErlNifEnv *env, ERL_NIF_TERM term)
{
    for (int metric = 0; metric < FP_METRIC_COUNT; metric++)
        if (fp_is_atom(env, term, fp_metric_name(metric)))
            return metric;
    return -1;
}

/* (Metric, IsDelta, Top, Growers) -> {ok, Selector} | {error, Error} */
ERL_NIF_TERM fp_nif_selector_new(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    struct fp_layout *layout = library->vm.layout;
    int metric = metric_of(env, argv[0]), is_delta = fp_is_atom(env, argv[1], "true");
    struct fp_ranking ranking = {.metric = (uint8_t)metric, .is_delta = is_delta != 0, .every = 1};
    struct fp_top_processes *top = NULL;
    struct fp_look_handle *handle;
    unsigned growers;
    int err;

    if (layout == NULL || metric < 0 || (!is_delta && !fp_is_atom(env, argv[1], "false")) ||
        !enif_get_uint(env, argv[2], &ranking.top) || ranking.top > TOP_MAX ||
        !enif_get_uint(env, argv[3], &growers) || growers > FP_GROWERS_MAX)
        return enif_make_badarg(env);
    handle = fp_look_handle_new(library->selector_type, sizeof *handle, close_top, &err);
    if (err == 0)
        err = fp_top_processes_create(&top, layout, &handle->memory, &ranking, 1, growers, NULL, 0);
    handle->look = top;
    return fp_look_handle_result(env, handle, err);
}

static ERL_NIF_TERM selected_term(struct fp_terms_out *out, const struct fp_top_processes *top)
{
    ErlNifEnv *env = out->env;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t processes;
    size_t n;
    const struct fp_candidate *selected = fp_top_processes_selected(top, &n, &processes);

    for (size_t i = 0; i < n; i++)
        list = enif_make_list_cell(env,
                                   enif_make_tuple2(env, fp_out_pid(out, selected[i].id, "none"),
                                                    enif_make_int64(env, selected[i].score)),
                                   list);
    return enif_make_tuple2(env, enif_make_uint64(env, processes), list);
}

/* (Selector, Slots) -> more | {Processes, [{Pid, the metric or its growth}]}
 * Reads so many slots of the process table: `more` before the pass has read all of them. */
ERL_NIF_TERM fp_nif_selector_next(FP_NIF_ARGS)
{
    struct fp_terms_out out;
    struct fp_look_handle *handle;
    ERL_NIF_TERM term;
    unsigned slots;

    if (!enif_get_uint(env, argv[1], &slots) || slots == 0 ||
        (handle = fp_look_handle_enter(env, argv[0], fp_looks(env)->selector_type)) == NULL)
        return enif_make_badarg(env);
    fp_terms_out_start(&out, env, fp_vm(env)->layout, &handle->memory);
    term = fp_top_processes_step(handle->look, slots) ? selected_term(&out, handle->look)
                                                      : fp_atom(env, "more");
    fp_look_handle_leave(handle);
    return term;
}
