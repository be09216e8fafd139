/*
 * One look at some processes, or at what the schedulers run, as terms: for
 * pstack, and for the tests, which compare it with process_info/2. The same
 * code as the sampler's, without a session.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../core/error.h"
#include "../native/native.h"
#include "../schedulers.h"
#include "../selector.h"
#include "../vm/code.h"
#include "../vm/names.h"
#include "../vm/process.h"
#include "../vm/ptab.h"
#include "../vm/running.h"
#include "../vm/stack.h"
#include "library.h"
#include "terms.h"

struct look {
    ErlNifEnv *env;
    const struct fp_peek *peek;
    const struct fp_layout *layout;
    struct fp_ranges ranges;
    struct fp_code *code;
    struct fp_native *native; /* NULL: no C code is known */
    uint64_t *word;           /* FP_STACK_WORDS_MAX */
};

/* How often a scheduler is looked at for its answer, every 50 us. */
#define ANSWER_ATTEMPTS 400

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
static ERL_NIF_TERM erlang_frame(struct look *look, uint64_t pc)
{
    struct fp_location at;

    if (fp_code_resolve(look->code, pc, &at) != 0)
        return 0;
    return enif_make_tuple5(
        look->env, atom_text(look, at.mfa[0]), atom_text(look, at.mfa[1]),
        enif_make_uint64(look->env, at.mfa[2]), file_text(look, at.file),
        enif_make_uint(look->env, at.line));
}

/* {bif | nif, {Module, Function, Arity}} */
static ERL_NIF_TERM named_frame(struct look *look, uint64_t word)
{
    uint64_t mfa[3];

    if (fp_peek_read(look->peek, word & ~(FP_FRAME_BIF | FP_FRAME_NIF), mfa,
                     sizeof mfa) != 0 ||
        mfa[2] > 255)
        return 0;
    return enif_make_tuple2(
        look->env, fp_atom(look->env, word & FP_FRAME_BIF ? "bif" : "nif"),
        mfa_term(look, mfa[0], mfa[1], mfa[2]));
}

/* {native, Function | none, Library} */
static ERL_NIF_TERM native_frame(struct look *look, uint64_t pc)
{
    const char *name, *library;

    if (look->native == NULL ||
        fp_native_resolve(look->native, pc, &name, &library) != 0)
        return 0;
    return enif_make_tuple3(look->env, fp_atom(look->env, "native"),
                            name == NULL
                                ? fp_atom(look->env, "none")
                                : fp_binary(look->env, name, strlen(name)),
                            fp_binary(look->env, library, strlen(library)));
}

/* A frame as a term; 0 when it is of nothing known: such are left out, as in a
 * file. */
static ERL_NIF_TERM frame_term(struct look *look, uint64_t word)
{
    if (word < FP_FRAME_SPECIAL_END)
        return fp_atom(look->env, special_names[word]);
    if ((word & (FP_FRAME_BIF | FP_FRAME_NIF)) != 0)
        return named_frame(look, word);
    return fp_ranges_contain(&look->ranges, word) ? erlang_frame(look, word)
                                                  : native_frame(look, word);
}

static ERL_NIF_TERM stack_term(struct look *look, const struct fp_stack *stack)
{
    ERL_NIF_TERM list = enif_make_list(look->env, 0);

    for (uint32_t i = stack->count; i-- > 0;) {
        ERL_NIF_TERM frame = frame_term(look, stack->frame[i]);

        if (frame != 0)
            list = enif_make_list_cell(look->env, frame, list);
    }
    return list;
}

static void only(struct fp_stack *stack, uint64_t frame)
{
    stack->count = 1;
    stack->frame[0] = frame;
}

static void read_stack(struct look *look, const struct fp_snapshot *snapshot,
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
        only(stack, FP_FRAME_UNREADABLE);
    else
        fp_stack_frames(stack, &look->ranges, snapshot->i, look->word,
                        leaf + root, leaf);
}

static ERL_NIF_TERM process_term(struct look *look,
                                 const struct fp_snapshot *snapshot,
                                 const struct fp_stack *stack)
{
    ERL_NIF_TERM map = enif_make_new_map(look->env);
    struct fp_names names;

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
    fp_map_put(look->env, &map, "stack", stack_term(look, stack));
    return map;
}

/* --------------------------------------------------------- the running -- */

static size_t unwind(void *self, const struct fp_running *running, uint64_t *pc,
                     size_t max, struct fp_registers *at_entry, int *complete)
{
    struct look *look = self;
    struct fp_native_stack stack = {running->native_start, running->native,
                                    running->native_bytes};
    struct fp_native_end end;
    size_t n = fp_native_unwind(look->native, &running->registers, &stack, pc,
                                max, &end);

    *complete = n > 0 && end.why == FP_NATIVE_LEFT &&
                end.registers.rip == running->native_return;
    *at_entry = end.registers;
    return n;
}

/* This is a dirty scheduler's work: it may wait a little, unlike a sampler. */
static const struct fp_running *await(unsigned at, uint32_t ticket)
{
    static const struct timespec moment = {0, 50000};

    for (int i = 0; i < ANSWER_ATTEMPTS; i++) {
        const struct fp_running *running = fp_schedulers_answer(at, ticket);

        if (running != NULL)
            return running;
        nanosleep(&moment, NULL);
    }
    return NULL;
}

static int request(unsigned at, uint32_t *ticket)
{
    static const struct timespec moment = {0, 200000};
    int err = FP_ESTATE;

    /* A running profile may have asked it just now. */
    for (int i = 0; i < ANSWER_ATTEMPTS && err == FP_ESTATE; i++) {
        if (i > 0)
            nanosleep(&moment, NULL);
        err = fp_schedulers_request(at, ticket);
    }
    return err;
}

/* What the scheduler runs, decoded. 0, FP_ENOENT: no process; FP_ESTATE: no
 * answer; or why its answer can not be used. */
static int capture(struct look *look, unsigned at, struct fp_snapshot *snapshot,
                   struct fp_stack *stack)
{
    struct fp_running_code code = {.peek = look->peek,
                                   .ranges = &look->ranges,
                                   .unwind = look->native ? unwind : NULL,
                                   .unwind_self = look,
                                   .with_native = 1};
    const struct fp_running *running;
    uint32_t ticket;
    int err = request(at, &ticket);

    if (err != 0)
        return FP_ESTATE;
    fp_schedulers_code(&code.fragments, &code.nif_return);
    running = await(at, ticket);
    if (running == NULL)
        err = FP_ESTATE;
    else if (running->result == FP_RUNNING_NOBODY)
        err = FP_ENOENT;
    else {
        err = fp_process_decode(look->layout, running->structure, snapshot);
        if (err == 0 && fp_running_frames(&code, look->layout, running,
                                          snapshot, stack) != 0)
            only(stack, FP_FRAME_UNREADABLE);
    }
    fp_schedulers_release(at, ticket);
    return err;
}

/* A process that was seen running: on its scheduler, if that can be asked. */
static void look_at_running(struct look *look, uint64_t address,
                            struct fp_snapshot *snapshot,
                            struct fp_stack *stack)
{
    struct fp_snapshot now;
    uint64_t data = 0;
    int at;

    only(stack, snapshot->status == FP_STATUS_garbage_collecting
                    ? FP_FRAME_GC
                    : FP_FRAME_RUNNING);
    (void)fp_peek_word(look->peek,
                       address + look->layout->release.running.scheduler_data,
                       &data);
    at = fp_schedulers_find(data);
    if (at < 0)
        return;
    if (capture(look, (unsigned)at, &now, stack) == 0 && now.id == snapshot->id)
        *snapshot = now;
    else
        only(stack, FP_FRAME_RUNNING);
}

static int read_process(struct look *look, uint64_t pid, uint64_t *address,
                        struct fp_snapshot *snapshot)
{
    unsigned char bytes[FP_PROBE_WINDOW];
    int err = fp_ptab_lookup(look->layout, look->peek, pid, address);

    if (err == 0)
        err = fp_peek_read(look->peek, *address, bytes,
                           look->layout->snapshot_size);
    if (err != 0)
        return err;
    err = fp_process_decode(look->layout, bytes, snapshot);
    if (snapshot->id != pid || snapshot->status == FP_STATUS_free)
        return FP_EGONE;
    /* While it runs, its figures may contradict each other. */
    return snapshot->runs_erlang ? 0 : err;
}

static ERL_NIF_TERM look_at(struct look *look, uint64_t pid)
{
    struct fp_snapshot snapshot;
    struct fp_stack stack;
    uint64_t address;
    int err = read_process(look, pid, &address, &snapshot);

    if (err != 0)
        return fp_error(look->env, fp_atom(look->env, fp_err_name(err)));
    if (snapshot.runs_erlang)
        look_at_running(look, address, &snapshot, &stack);
    else
        read_stack(look, &snapshot, &stack);
    snapshot.value[FP_METRIC_memory] +=
        fp_dictionary_bytes(look->peek, snapshot.dictionary);
    return process_term(look, &snapshot, &stack);
}

/* idle | late | unregistered | {Pid, Map} */
static ERL_NIF_TERM look_at_scheduler(struct look *look, unsigned at)
{
    uint64_t data = fp_schedulers_data(at), process = 0;
    struct fp_snapshot snapshot;
    struct fp_stack stack;
    int err;

    if (data == 0)
        return fp_atom(look->env, "unregistered");
    /* Without a process it may be asleep: then it is let alone. */
    (void)fp_peek_word(look->peek,
                       data + look->layout->release.running.current_process,
                       &process);
    err = process == 0 ? FP_ENOENT : capture(look, at, &snapshot, &stack);
    if (err != 0)
        return fp_atom(look->env, err == FP_ENOENT ? "idle" : "late");
    snapshot.value[FP_METRIC_memory] +=
        fp_dictionary_bytes(look->peek, snapshot.dictionary);
    return enif_make_tuple2(look->env, snapshot.id,
                            process_term(look, &snapshot, &stack));
}

static ERL_NIF_TERM look_at_schedulers(struct look *look)
{
    ERL_NIF_TERM list = enif_make_list(look->env, 0);

    for (unsigned at = fp_schedulers_count(); at-- > 0;)
        list = enif_make_list_cell(
            look->env,
            enif_make_tuple2(look->env, enif_make_uint(look->env, at + 1),
                             look_at_scheduler(look, at)),
            list);
    return list;
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
    /* Without it there are no C frames, and all else there is. */
    if (fp_schedulers_registered() > 0 && fp_native_create(&look->native) != 0)
        look->native = NULL;
    return fp_code_create(&look->code, look->layout, look->peek, &look->ranges);
}

static void look_close(struct look *look)
{
    fp_native_destroy(look->native);
    fp_code_destroy(look->code);
    free(look->word);
}

/* ([Pid]) -> [{Pid, #{metric => Value, status, registered_name, initial_call,
 * proc_lib_initial_call, stack} | {error, gone | torn}}]
 * (schedulers) -> [{Number, idle | late | unregistered | {Pid, Map}}] */
ERL_NIF_TERM fp_nif_snapshot(ErlNifEnv *env, int argc,
                             const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM list = argv[0], answer = enif_make_list(env, 0), head;
    struct look look;
    int err = look_open(&look, env);

    (void)argc;
    if (err == 0 && enif_is_atom(env, list))
        answer = look_at_schedulers(&look);
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
    struct fp_rule rule = {FP_METRIC_reductions, 1, 0, 1};
    const struct fp_candidate *chosen;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    struct timespec from, to;
    uint64_t processes;
    unsigned top, passes;
    size_t n;

    (void)argc;
    if (layout == NULL || !enif_get_uint(env, argv[0], &top) ||
        !enif_get_uint(env, argv[1], &passes) || passes == 0 || top > 1000000)
        return enif_make_badarg(env);
    rule.top = top;
    if (fp_selector_create(&selector, layout, &library->peek, &rule, 1, NULL,
                           0) != 0)
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
                             enif_make_int64(env, chosen[i].figure)),
            list);
    fp_selector_destroy(selector);
    return enif_make_tuple3(
        env, enif_make_uint64(env, processes), list,
        enif_make_int64(env, (to.tv_sec - from.tv_sec) * 1000000000 +
                                 (to.tv_nsec - from.tv_nsec)));
}
