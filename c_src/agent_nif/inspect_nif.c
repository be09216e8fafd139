/* inspect_nif.c - inspected processes as terms, for flame_prof_pstack; the tests compare them with
 * process_info/2. */
#include <stdlib.h>
#include <string.h>

#include "agent_nif/agent.h"
#include "base/error.h"
#include "erts/capture/sigcapture.h"
#include "erts/process_names.h"
#include "session/inspect.h"
#include "terms/terms.h"

/* An inspection, and the environment of its terms. */
struct encoder {
    ErlNifEnv *env;
    struct fp_inspect inspect;
    ERL_NIF_TERM pids; /* of fp_inspect_dirty() */
};

/* ---------------------------------------------------------------- frames -- */

static ERL_NIF_TERM text_or_none(ErlNifEnv *env, const char *text, size_t size)
{
    return text == NULL ? fp_atom(env, "none") : fp_binary(env, text, size);
}

static ERL_NIF_TERM atom_text(struct encoder *to, uint64_t atom)
{
    uint32_t size = 0;
    const char *text = fp_code_index_atom(to->inspect.code, atom, &size);

    return text_or_none(to->env, text, size);
}

static ERL_NIF_TERM mfa_term(struct encoder *to, const struct fp_mfa_words *mfa)
{
    if (mfa->module == 0)
        return fp_atom(to->env, "none");
    return enif_make_tuple3(to->env, atom_text(to, mfa->module), atom_text(to, mfa->function),
                            enif_make_uint64(to->env, mfa->arity));
}

static const char *const special_names[FP_FRAME_SPECIAL_END] = {
    [FP_FRAME_NONE] = "none",
    [FP_FRAME_TRUNCATED] = "truncated",
    [FP_FRAME_RUNNING] = "running_stack_not_sampled",
    [FP_FRAME_GC] = "gc",
    [FP_FRAME_UNREADABLE] = "stack_unreadable",
    [FP_FRAME_AMBIGUOUS] = "ambiguous",
    [FP_FRAME_IDLE] = "idle",
};

/* {Module, Function, Arity, File | none, Line} */
static ERL_NIF_TERM erlang_frame(struct encoder *to, uint64_t pc)
{
    struct fp_location at;
    uint32_t size = 0;
    const char *file;

    if (fp_code_index_resolve(to->inspect.code, pc, &at) != 0)
        return 0;
    file = fp_code_index_file(to->inspect.code, at.file, &size);
    return enif_make_tuple5(to->env, atom_text(to, at.mfa[0]), atom_text(to, at.mfa[1]),
                            enif_make_uint64(to->env, at.mfa[2]), text_or_none(to->env, file, size),
                            enif_make_uint(to->env, at.line));
}

/* {bif | nif, {Module, Function, Arity}} */
static ERL_NIF_TERM named_frame(struct encoder *to, uint64_t word)
{
    uint64_t mfa[3], kinds = FP_FRAME_BIF | FP_FRAME_NIF;

    if (fp_safe_read(&to->inspect.memory, word & ~kinds, mfa, sizeof mfa) != 0 || mfa[2] > 255)
        return 0;
    return enif_make_tuple2(to->env, fp_atom(to->env, word & FP_FRAME_BIF ? "bif" : "nif"),
                            mfa_term(to, &(struct fp_mfa_words){mfa[0], mfa[1], mfa[2]}));
}

/* {native, Function | none, Library} */
static ERL_NIF_TERM c_frame(struct encoder *to, uint64_t pc)
{
    const struct fp_cstack *cstack = to->inspect.cstack.set;
    const char *name, *library;

    if (cstack == NULL || fp_cstack_resolve(cstack, pc, &name, &library) != 0)
        return 0;
    return enif_make_tuple3(to->env, fp_atom(to->env, "native"),
                            text_or_none(to->env, name, name == NULL ? 0 : strlen(name)),
                            fp_text(to->env, library));
}

/* 0 for a frame of unknown code: the stack goes without it, as in a file. */
static ERL_NIF_TERM frame_term(struct encoder *to, uint64_t word)
{
    if (word < FP_FRAME_SPECIAL_END)
        return fp_atom(to->env, special_names[word]);
    if ((word & (FP_FRAME_BIF | FP_FRAME_NIF)) != 0)
        return named_frame(to, word);
    return fp_ranges_contain(&to->inspect.ranges, word) ? erlang_frame(to, word)
                                                        : c_frame(to, word);
}

static ERL_NIF_TERM stack_term(struct encoder *to, const struct fp_stack *stack)
{
    ERL_NIF_TERM list = enif_make_list(to->env, 0), frame;

    for (uint32_t i = stack->count; i-- > 0;)
        if ((frame = frame_term(to, stack->frame[i])) != 0)
            list = enif_make_list_cell(to->env, frame, list);
    return list;
}

/* ------------------------------------------------------------- processes -- */

/* reductions, message_queue_len, memory */
#define BRIEF_METRICS (FP_METRIC_memory + 1)

static ERL_NIF_TERM view_term(struct encoder *to, const struct fp_process_view *view)
{
    const struct fp_snapshot *snapshot = &view->snapshot;
    ErlNifEnv *env = to->env;
    ERL_NIF_TERM map = enif_make_new_map(env);
    struct fp_process_names names;

    /* 0: flame_prof_pstack reads the labels itself, whole. */
    fp_process_names_read(to->inspect.layout, &to->inspect.memory, 0, snapshot, &names);
    for (int i = 0; i < (to->inspect.is_brief ? BRIEF_METRICS : FP_METRIC_COUNT); i++)
        fp_map_put(env, &map, fp_metric_name(i),
                   snapshot->value[i] < 0 ? fp_atom(env, "unknown")
                                          : enif_make_int64(env, snapshot->value[i]));
    fp_map_put(env, &map, "status", fp_atom(env, fp_status_name(snapshot->status)));
    fp_map_put(env, &map, "scheduler",
               view->scheduler == 0 ? fp_atom(env, "none") : enif_make_uint(env, view->scheduler));
    fp_map_put(env, &map, "registered_name", atom_text(to, names.registered));
    fp_map_put(env, &map, "initial_call", mfa_term(to, &names.initial_call));
    fp_map_put(env, &map, "proc_lib_initial_call", mfa_term(to, &names.proc_lib));
    fp_map_put(env, &map, "stack", stack_term(to, &view->stack));
    return map;
}

static ERL_NIF_TERM process_term(struct encoder *to, uint64_t pid)
{
    struct fp_process_view view;
    int err = fp_inspect_process(&to->inspect, pid, &view);

    return err == 0 ? view_term(to, &view) : fp_result(to->env, err);
}

static ERL_NIF_TERM processes_term(struct encoder *to, ERL_NIF_TERM pids)
{
    ERL_NIF_TERM pid, list = enif_make_list(to->env, 0);

    while (enif_get_list_cell(to->env, pids, &pid, &pids))
        list = enif_make_list_cell(to->env, enif_make_tuple2(to->env, pid, process_term(to, pid)),
                                   list);
    return list;
}

static void add_pid(void *arg, uint64_t pid)
{
    struct encoder *to = arg;

    to->pids = enif_make_list_cell(to->env, pid, to->pids);
}

/* A process that leaves its dirty scheduler after the scan is in the list. */
static ERL_NIF_TERM dirty_term(struct encoder *to)
{
    ErlNifPid self;
    int err;

    to->pids = enif_make_list(to->env, 0);
    enif_self(to->env, &self);
    err = fp_inspect_dirty(&to->inspect, enif_make_pid(to->env, &self), add_pid, to);
    return err == 0 ? processes_term(to, to->pids) : fp_result(to->env, err);
}

static ERL_NIF_TERM scheduler_term(struct encoder *to, unsigned at,
                                   const struct fp_inspect_request *request)
{
    struct fp_process_view view;
    int err;

    if (fp_sigcapture_data(at) == 0)
        return fp_atom(to->env, "unregistered");
    err = fp_inspect_poll(&to->inspect, at, request, &view);
    if (err != 0)
        return fp_atom(to->env, err == FP_ENOENT ? "idle" : "late");
    return enif_make_tuple2(to->env, view.snapshot.id, view_term(to, &view));
}

static ERL_NIF_TERM schedulers_term(struct encoder *to)
{
    ERL_NIF_TERM list = enif_make_list(to->env, 0), term;
    unsigned count = fp_sigcapture_count();
    struct fp_inspect_request *request = calloc(count + 1, sizeof *request);

    if (request == NULL)
        return fp_result(to->env, FP_ENOMEM);
    fp_inspect_request_all(&to->inspect, request);
    for (unsigned at = count; at-- > 0;) {
        term = scheduler_term(to, at, &request[at]);
        term = enif_make_tuple2(to->env, enif_make_uint(to->env, at + 1), term);
        list = enif_make_list_cell(to->env, term, list);
    }
    free(request);
    return list;
}

/* ([Pid]) -> [{Pid, #{metric => Value, status, scheduler, registered_name, initial_call,
 *              proc_lib_initial_call, stack} | {error, gone | efault}}]
 * ([check | Pids]) -> as for a list, by captures of all classes, off or not
 * ([brief | Pids]) -> as for a list, with the first three metrics, and the current function alone
 * (schedulers) -> [{Number, idle | late | unregistered | {Pid, Map}}]
 * (dirty) -> as for a list: the processes on dirty schedulers, without the caller
 * or {error, bad_state | io | ...}. */
ERL_NIF_TERM fp_nif_snapshot(FP_NIF_ARGS)
{
    ERL_NIF_TERM head, tail, term, pids = argv[0];
    int is_list = enif_is_list(env, pids), is_dirty = fp_is_atom(env, pids, "dirty");
    int is_check = 0, is_brief = 0, err;
    struct encoder to = {.env = env};

    if (!is_list && !is_dirty && !fp_is_atom(env, pids, "schedulers"))
        return enif_make_badarg(env);
    if (enif_get_list_cell(env, pids, &head, &tail)) {
        is_check = fp_is_atom(env, head, "check");
        is_brief = fp_is_atom(env, head, "brief");
        if (is_check || is_brief)
            pids = tail;
    }
    err = fp_inspect_open(&to.inspect, fp_vm(env)->layout, is_brief);
    to.inspect.is_check = is_check;
    term = err != 0   ? fp_result(env, err)
           : is_list  ? processes_term(&to, pids)
           : is_dirty ? dirty_term(&to)
                      : schedulers_term(&to);
    fp_inspect_close(&to.inspect);
    return term;
}
