/*
 * One look at some processes, as terms: what the tests compare with
 * process_info/2. The same code as the sampler's, without a session.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../core/error.h"
#include "../selector.h"
#include "../vm/code.h"
#include "../vm/names.h"
#include "../vm/process.h"
#include "../vm/ptab.h"
#include "../vm/stack.h"
#include "library.h"
#include "terms.h"

struct look {
    ErlNifEnv *env;
    const struct fp_peek *peek;
    const struct fp_layout *layout;
    struct fp_ranges ranges;
    struct fp_code *code;
    uint64_t *word; /* FP_STACK_WORDS_MAX */
};

static ERL_NIF_TERM atom_text(struct look *look, uint64_t atom)
{
    uint32_t len = 0;
    const char *text = fp_code_atom(look->code, atom, &len);

    return text == NULL ? fp_atom(look->env, "none")
                        : fp_binary(look->env, text, len);
}

static ERL_NIF_TERM file_text(struct look *look, uint64_t file)
{
    uint32_t len = 0;
    const char *text = fp_code_file(look->code, file, &len);

    return text == NULL ? fp_atom(look->env, "none")
                        : fp_binary(look->env, text, len);
}

static ERL_NIF_TERM mfa_term(struct look *look, uint64_t module,
                             uint64_t function, uint64_t arity)
{
    if (module == 0)
        return fp_atom(look->env, "none");
    return enif_make_tuple3(look->env, atom_text(look, module),
                            atom_text(look, function),
                            enif_make_uint64(look->env, arity));
}

/* {Module, Function, Arity, File | none, Line}; frames of no function are
 * left out, as in a file. */
static ERL_NIF_TERM stack_term(struct look *look, const struct fp_stack *stack)
{
    ERL_NIF_TERM list = enif_make_list(look->env, 0);

    for (uint32_t i = stack->count; i-- > 0;) {
        struct fp_location at;

        if (stack->frame[i] < FP_FRAME_SPECIAL_END) {
            list = enif_make_list_cell(look->env,
                                       fp_atom(look->env, "truncated"), list);
            continue;
        }
        if (fp_code_resolve(look->code, stack->frame[i], &at) != 0)
            continue;
        list = enif_make_list_cell(
            look->env,
            enif_make_tuple5(look->env, atom_text(look, at.mfa[0]),
                             atom_text(look, at.mfa[1]),
                             enif_make_uint64(look->env, at.mfa[2]),
                             file_text(look, at.file),
                             enif_make_uint(look->env, at.line)),
            list);
    }
    return list;
}

static int read_stack(struct look *look, const struct fp_snapshot *snapshot,
                      struct fp_stack *stack)
{
    uint64_t words = (snapshot->hend - snapshot->stop) / 8;
    size_t leaf = (size_t)words, root = 0;

    if (words > FP_STACK_WORDS_MAX) {
        leaf = FP_STACK_WORDS_LEAF;
        root = FP_STACK_WORDS_ROOT;
    }
    if ((leaf > 0 &&
         fp_peek_read(look->peek, snapshot->stop, look->word, 8 * leaf) != 0) ||
        (root > 0 && fp_peek_read(look->peek, snapshot->hend - 8 * root,
                                  look->word + leaf, 8 * root) != 0))
        return FP_EFAULT;
    fp_stack_frames(stack, &look->ranges, snapshot->i, look->word, leaf + root,
                    leaf);
    return 0;
}

static ERL_NIF_TERM process_term(struct look *look,
                                 const struct fp_snapshot *snapshot)
{
    ERL_NIF_TERM map = enif_make_new_map(look->env);
    struct fp_names names;
    struct fp_stack stack = {.count = 0};

    fp_names_read(look->layout, look->peek, snapshot,
                  fp_atom(look->env, "$initial_call"), &names);
    for (int i = 0; i < FP_METRIC_COUNT; i++)
        fp_map_put(look->env, &map, fp_metric_name(i),
                   enif_make_int64(look->env, snapshot->value[i]));
    fp_map_put(look->env, &map, "status",
               fp_atom(look->env, fp_status_name(snapshot->status)));
    fp_map_put(look->env, &map, "registered_name",
               atom_text(look, names.registered));
    fp_map_put(look->env, &map, "initial_call",
               mfa_term(look, names.initial_call.module,
                        names.initial_call.function, names.initial_call.arity));
    fp_map_put(look->env, &map, "proc_lib_initial_call",
               mfa_term(look, names.proc_lib.module, names.proc_lib.function,
                        names.proc_lib.arity));
    if (snapshot->runs_erlang)
        fp_map_put(look->env, &map, "stack", fp_atom(look->env, "running"));
    else if (read_stack(look, snapshot, &stack) == 0)
        fp_map_put(look->env, &map, "stack", stack_term(look, &stack));
    return map;
}

static ERL_NIF_TERM look_at(struct look *look, uint64_t pid)
{
    unsigned char bytes[FP_PROBE_WINDOW];
    struct fp_snapshot snapshot;
    uint64_t address;
    int err = fp_ptab_lookup(look->layout, look->peek, pid, &address);

    if (err == 0)
        err = fp_peek_read(look->peek, address, bytes,
                           look->layout->snapshot_size);
    if (err == 0)
        err = fp_process_decode(look->layout, bytes, &snapshot);
    if (err == 0 && (snapshot.id != pid || snapshot.status == FP_STATUS_free))
        err = FP_EGONE;
    if (err != 0)
        return fp_error(look->env, fp_atom(look->env, fp_err_name(err)));
    snapshot.value[FP_METRIC_memory] +=
        fp_dictionary_bytes(look->peek, snapshot.dictionary);
    return process_term(look, &snapshot);
}

static int look_open(struct look *look, ErlNifEnv *env)
{
    struct fp_library *library = fp_library(env);

    memset(look, 0, sizeof *look);
    look->env = env;
    look->peek = &library->peek;
    look->layout = fp_library_layout(library);
    if (look->layout == NULL)
        return FP_ESTATE;
    if (fp_maps_code(&look->ranges) != 0)
        return FP_EIO;
    look->word = malloc(8 * FP_STACK_WORDS_MAX);
    if (look->word == NULL)
        return FP_ENOMEM;
    return fp_code_create(&look->code, look->layout, look->peek, &look->ranges);
}

static void look_close(struct look *look)
{
    fp_code_destroy(look->code);
    free(look->word);
}

/* [Pid] -> [{Pid, #{metric => Value, status, registered_name, initial_call,
 * proc_lib_initial_call, stack} | {error, gone | torn}}] */
ERL_NIF_TERM fp_nif_snapshot(ErlNifEnv *env, int argc,
                             const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM list = argv[0], answer = enif_make_list(env, 0), head;
    struct look look;
    int err = look_open(&look, env);

    (void)argc;
    while (err == 0 && enif_get_list_cell(env, list, &head, &list))
        answer = enif_make_list_cell(
            env, enif_make_tuple2(env, head, look_at(&look, head)), answer);
    look_close(&look);
    if (err != 0)
        return fp_error(env, fp_atom(env, fp_err_name(err)));
    return answer;
}

/* (Top, Passes) -> {Processes, [{Pid, Reductions}], CpuNs of the last pass} */
ERL_NIF_TERM fp_nif_select_top(ErlNifEnv *env, int argc,
                               const ERL_NIF_TERM argv[])
{
    struct fp_library *library = fp_library(env);
    struct fp_layout *layout = fp_library_layout(library);
    struct fp_selector *selector;
    const struct fp_candidate *chosen;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    struct timespec from, to;
    uint64_t processes;
    unsigned top, passes;
    size_t n;

    (void)argc;
    if (layout == NULL || !enif_get_uint(env, argv[0], &top) ||
        !enif_get_uint(env, argv[1], &passes) || top > 1000000)
        return enif_make_badarg(env);
    if (fp_selector_create(&selector, layout, &library->peek, top, NULL, 0) !=
        0)
        return fp_error(env, fp_atom(env, fp_err_name(FP_ENOMEM)));
    for (unsigned i = 0; i < passes; i++) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        fp_selector_step(selector, fp_selector_slots(selector));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    }
    chosen = fp_selector_chosen(selector, &n, &processes);
    for (size_t i = 0; i < n; i++)
        list = enif_make_list_cell(
            env,
            enif_make_tuple2(env, chosen[i].id,
                             enif_make_int64(env, chosen[i].reductions)),
            list);
    fp_selector_destroy(selector);
    return enif_make_tuple3(
        env, enif_make_uint64(env, processes), list,
        enif_make_int64(env, (to.tv_sec - from.tv_sec) * 1000000000 +
                                 (to.tv_nsec - from.tv_nsec)));
}
