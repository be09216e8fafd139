/*
 * One look at some processes, or at what the schedulers run, as terms: for
 * flame_prof_pstack, and for the tests, which compare it with process_info/2.
 */
#include <stdlib.h>
#include <string.h>

#include "agent_nif/inspect.h"
#include "base/error.h"
#include "erts/capture/sigcapture.h"
#include "erts/process_names.h"
#include "terms/terms.h"

/* A look, and where its terms are made. */
struct telling {
    ErlNifEnv *env;
    struct fp_inspect look;
    ERL_NIF_TERM list; /* of fp_inspect_dirty */
};

static ERL_NIF_TERM atom_text(struct telling *telling, uint64_t atom)
{
    uint32_t len = 0;
    const char *text = fp_code_index_atom(telling->look.code, atom, &len);

    return text == NULL ? fp_atom(telling->env, "none")
                        : fp_binary(telling->env, text, len);
}

static ERL_NIF_TERM file_text(struct telling *telling, uint64_t file)
{
    uint32_t len = 0;
    const char *text = fp_code_index_file(telling->look.code, file, &len);

    return text == NULL ? fp_atom(telling->env, "none")
                        : fp_binary(telling->env, text, len);
}

static ERL_NIF_TERM mfa_term(struct telling *telling, uint64_t module,
                             uint64_t function, uint64_t arity)
{
    if (module == 0)
        return fp_atom(telling->env, "none");
    return enif_make_tuple3(telling->env, atom_text(telling, module),
                            atom_text(telling, function),
                            enif_make_uint64(telling->env, arity));
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
static ERL_NIF_TERM erlang_frame(struct telling *telling, uint64_t pc)
{
    struct fp_location at;

    if (fp_code_index_resolve(telling->look.code, pc, &at) != 0)
        return 0;
    return enif_make_tuple5(telling->env, atom_text(telling, at.mfa[0]),
                            atom_text(telling, at.mfa[1]),
                            enif_make_uint64(telling->env, at.mfa[2]),
                            file_text(telling, at.file),
                            enif_make_uint(telling->env, at.line));
}

/* {bif | nif, {Module, Function, Arity}} */
static ERL_NIF_TERM named_frame(struct telling *telling, uint64_t word)
{
    uint64_t mfa[3];

    if (fp_safe_read(&telling->look.peek, word & ~(FP_FRAME_BIF | FP_FRAME_NIF),
                     mfa, sizeof mfa) != 0 ||
        mfa[2] > 255)
        return 0;
    return enif_make_tuple2(
        telling->env,
        fp_atom(telling->env, word & FP_FRAME_BIF ? "bif" : "nif"),
        mfa_term(telling, mfa[0], mfa[1], mfa[2]));
}

/* {native, Function | none, Library} */
static ERL_NIF_TERM native_frame(struct telling *telling, uint64_t pc)
{
    const char *name, *library;

    if (telling->look.native == NULL ||
        fp_cstack_resolve(telling->look.native, pc, &name, &library) != 0)
        return 0;
    return enif_make_tuple3(telling->env, fp_atom(telling->env, "native"),
                            name == NULL
                                ? fp_atom(telling->env, "none")
                                : fp_binary(telling->env, name, strlen(name)),
                            fp_binary(telling->env, library, strlen(library)));
}

/* A frame as a term; 0 when it is of nothing known: such are left out, as in a
 * file. */
static ERL_NIF_TERM frame_term(struct telling *telling, uint64_t word)
{
    if (word < FP_FRAME_SPECIAL_END)
        return fp_atom(telling->env, special_names[word]);
    if ((word & (FP_FRAME_BIF | FP_FRAME_NIF)) != 0)
        return named_frame(telling, word);
    return fp_ranges_contain(&telling->look.ranges, word)
               ? erlang_frame(telling, word)
               : native_frame(telling, word);
}

static ERL_NIF_TERM stack_term(struct telling *telling,
                               const struct fp_stack *stack)
{
    ERL_NIF_TERM list = enif_make_list(telling->env, 0);

    for (uint32_t i = stack->count; i-- > 0;) {
        ERL_NIF_TERM frame = frame_term(telling, stack->frame[i]);

        if (frame != 0)
            list = enif_make_list_cell(telling->env, frame, list);
    }
    return list;
}

static ERL_NIF_TERM scheduler_term(ErlNifEnv *env, const struct sight *sight)
{
    return sight->scheduler == 0 ? fp_atom(env, "none")
                                 : enif_make_uint(env, sight->scheduler);
}

static ERL_NIF_TERM figure_term(ErlNifEnv *env, int64_t value)
{
    return value < 0 ? fp_atom(env, "unknown") : enif_make_int64(env, value);
}

static ERL_NIF_TERM process_term(struct telling *telling,
                                 const struct sight *sight)
{
    const struct fp_snapshot *snapshot = &sight->snapshot;
    struct fp_inspect *look = &telling->look;
    ErlNifEnv *env = telling->env;
    ERL_NIF_TERM map = enif_make_new_map(env);
    struct fp_process_names names;

    /* Labels are asked for, whole (flame_prof_pstack). */
    fp_process_names_read(look->layout, &look->peek, 0, snapshot, &names);
    for (int i = 0; i < FP_METRIC_COUNT; i++)
        fp_map_put(env, &map, fp_metric_name(i),
                   figure_term(env, snapshot->value[i]));
    fp_map_put(env, &map, "status",
               fp_atom(env, fp_status_name(snapshot->status)));
    fp_map_put(env, &map, "scheduler", scheduler_term(env, sight));
    fp_map_put(env, &map, "registered_name",
               atom_text(telling, names.registered));
    fp_map_put(env, &map, "initial_call",
               mfa_term(telling, names.initial_call.module,
                        names.initial_call.function, names.initial_call.arity));
    fp_map_put(env, &map, "proc_lib_initial_call",
               mfa_term(telling, names.proc_lib.module, names.proc_lib.function,
                        names.proc_lib.arity));
    fp_map_put(env, &map, "stack", stack_term(telling, &sight->stack));
    return map;
}

static ERL_NIF_TERM tell_process(struct telling *telling, uint64_t pid)
{
    struct sight sight;
    int err = fp_inspect_process(&telling->look, pid, &sight);

    if (err != 0)
        return fp_error(telling->env, fp_atom(telling->env, fp_err_name(err)));
    return process_term(telling, &sight);
}

static ERL_NIF_TERM tell_processes(struct telling *telling, ERL_NIF_TERM list)
{
    ERL_NIF_TERM answer = enif_make_list(telling->env, 0), head;

    while (enif_get_list_cell(telling->env, list, &head, &list))
        answer = enif_make_list_cell(
            telling->env,
            enif_make_tuple2(telling->env, head, tell_process(telling, head)),
            answer);
    return answer;
}

static ERL_NIF_TERM tell_scheduler(struct telling *telling, unsigned at,
                                   const struct look_question *question)
{
    struct sight sight;
    int err;

    if (fp_sigcapture_data(at) == 0)
        return fp_atom(telling->env, "unregistered");
    err = fp_inspect_poll(&telling->look, at, question, &sight);
    if (err != 0)
        return fp_atom(telling->env, err == FP_ENOENT ? "idle" : "late");
    return enif_make_tuple2(telling->env, sight.snapshot.id,
                            process_term(telling, &sight));
}

static int tell_schedulers(struct telling *telling, ERL_NIF_TERM *answer)
{
    unsigned count = fp_sigcapture_count();
    struct look_question *question = calloc(count + 1, sizeof *question);
    ERL_NIF_TERM list = enif_make_list(telling->env, 0);

    if (question == NULL)
        return FP_ENOMEM;
    fp_inspect_request_all(&telling->look, question);
    for (unsigned at = count; at-- > 0;)
        list = enif_make_list_cell(
            telling->env,
            enif_make_tuple2(telling->env, enif_make_uint(telling->env, at + 1),
                             tell_scheduler(telling, at, &question[at])),
            list);
    free(question);
    *answer = list;
    return 0;
}

static void collect(void *arg, uint64_t pid)
{
    struct telling *telling = arg;

    telling->list = enif_make_list_cell(telling->env, pid, telling->list);
}

/* Where they have gone on since the scan, they are told as they are now. */
static int tell_dirty(struct telling *telling, ERL_NIF_TERM *answer)
{
    ErlNifPid self;
    int err;

    telling->list = enif_make_list(telling->env, 0);
    enif_self(telling->env, &self);
    err = fp_inspect_dirty(&telling->look, enif_make_pid(telling->env, &self),
                           collect, telling);
    *answer = tell_processes(telling, telling->list);
    return err;
}

/* ([Pid]) -> [{Pid, #{metric => Value, status, scheduler, registered_name,
 *              initial_call, proc_lib_initial_call, stack} | {error, gone | efault}}]
 * (schedulers) -> [{Number, idle | late | unregistered | {Pid, Map}}]
 * (dirty) -> as for a list: of who runs on dirty schedulers, but the caller
 * or {error, bad_state | io | ...}. */
ERL_NIF_TERM fp_nif_snapshot(ErlNifEnv *env, int argc,
                             const ERL_NIF_TERM argv[])
{
    struct telling telling = {.env = env};
    ERL_NIF_TERM answer = 0;
    int err;

    (void)argc;
    if (!enif_is_list(env, argv[0]) &&
        !enif_is_identical(argv[0], fp_atom(env, "schedulers")) &&
        !enif_is_identical(argv[0], fp_atom(env, "dirty")))
        return enif_make_badarg(env);
    err = fp_inspect_open(&telling.look, fp_library(env));
    if (err != 0)
        ;
    else if (enif_is_list(env, argv[0]))
        answer = tell_processes(&telling, argv[0]);
    else if (enif_is_identical(argv[0], fp_atom(env, "dirty")))
        err = tell_dirty(&telling, &answer);
    else
        err = tell_schedulers(&telling, &answer);
    fp_inspect_close(&telling.look);
    return err == 0 ? answer : fp_error(env, fp_atom(env, fp_err_name(err)));
}
