/* top_processes_nif.c - for the live table: the top processes by reductions since the previous
 * call. */
#include <stdatomic.h>

#include "agent_nif/library.h"
#include "base/error.h"
#include "session/top_processes.h"
#include "terms/terms.h"

#define TOP_MAX 10000u

struct top_handle {
    _Atomic int entered; /* 1 during a call: a second caller gets badarg */
    struct fp_memory memory;
    struct fp_top_processes *top; /* NULL: creation has failed */
    int is_open;
};

void fp_top_handle_destroy(ErlNifEnv *env, void *object)
{
    struct top_handle *handle = object;

    (void)env;
    if (handle->top != NULL)
        fp_top_processes_destroy(handle->top);
    if (handle->is_open)
        fp_safe_read_close(&handle->memory);
}

/* (Top) -> {ok, Selector} | {error, Error} */
FP_NIF(selector_new)
{
    struct fp_library *library = fp_library(env);
    struct fp_layout *layout = library->layout;
    struct fp_ranking most = {.metric = FP_METRIC_reductions, .is_delta = 1, .every = 1};
    struct top_handle *handle;
    ERL_NIF_TERM term;
    int err;

    if (layout == NULL || !enif_get_uint(env, argv[0], &most.top) || most.top > TOP_MAX)
        return enif_make_badarg(env);
    handle = enif_alloc_resource(library->selector_type, sizeof *handle);
    atomic_init(&handle->entered, 0);
    handle->top = NULL;
    err = fp_safe_read_open(&handle->memory);
    handle->is_open = err == 0;
    if (err == 0)
        err = fp_top_processes_create(&handle->top, layout, &handle->memory, &most, 1, NULL, 0);
    term = enif_make_resource(env, handle);
    enif_release_resource(handle);
    return err == 0 ? fp_ok(env, term) : fp_result(env, err);
}

/* (Selector) -> {Processes, [{Pid, Reductions since the previous call}]} */
FP_NIF(selector_next)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    const struct fp_candidate *selected;
    struct top_handle *handle;
    uint64_t processes;
    size_t n;

    if (!enif_get_resource(env, argv[0], fp_library(env)->selector_type, (void **)&handle) ||
        handle->top == NULL || atomic_exchange_explicit(&handle->entered, 1, memory_order_acquire))
        return enif_make_badarg(env);
    fp_top_processes_step(handle->top, fp_top_processes_slots(handle->top));
    selected = fp_top_processes_selected(handle->top, &n, &processes);
    for (size_t i = 0; i < n; i++)
        list = enif_make_list_cell(
            env, enif_make_tuple2(env, selected[i].id, enif_make_int64(env, selected[i].score)),
            list);
    atomic_store_explicit(&handle->entered, 0, memory_order_release);
    return enif_make_tuple2(env, enif_make_uint64(env, processes), list);
}
