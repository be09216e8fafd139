/* wait_probe_nif.c - what flame_prof_wait_sites asks of its probes: what their stacks hold, what
 * they monitor; and where its findings are kept. Dirty schedulers. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/frames.h"
#include "erts/monitors.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "erts/serving.h"
#include "erts/stamp.h"
#include "looks_nif/looks.h"
#include "looks_nif/views.h"
#include "terms/terms.h"

/* Of a probe's stack. */
#define WORDS_MAX 1024u
#define FRAMES_MAX 32u
/* Of what a slot holds. */
static const struct fp_view_limits limits = {.depth = 5, .elements = 4};
#define READS 4000u
#define MONITORS_MAX 256u
/* Of monitor_counts: what has fewer monitors is not told, and so many are visited by one call. */
#define MANY_MONITORS 256
#define VISITS_MAX 300000u

struct probing {
    ErlNifEnv *env;
    struct fp_memory memory;
    const struct fp_layout *layout;
    struct fp_ranges code;
    struct fp_walk walk;
    struct fp_terms_out out;
    ERL_NIF_TERM list;
    uint64_t word[WORDS_MAX];
};

static int open_probing(ErlNifEnv *env, struct probing *probing)
{
    int err;

    probing->env = env;
    probing->memory.fd = -1;
    probing->memory.window = NULL;
    probing->layout = fp_vm(env)->layout;
    if (probing->layout == NULL)
        return FP_ESTATE;
    fp_terms_out_start(&probing->out, env, probing->layout, &probing->memory);
    err = fp_safe_read_open(&probing->memory);
    return err != 0 ? err : fp_code_ranges(&probing->memory, &probing->code);
}

/* A process that waits, as it is now. */
static int read_moment(const struct probing *probing, uint64_t pid, uint64_t *address,
                       struct fp_stamp *now)
{
    if (fp_process_table_lookup(probing->layout, &probing->memory, pid, address) != 0 ||
        fp_stamp_read(probing->layout, &probing->memory, *address, now) != 0)
        return FP_EGONE;
    return fp_process_status(now->state) == FP_STATUS_waiting && fp_stamp_has_stack(now) ? 0
                                                                                         : FP_ETORN;
}

static int has_moved(const struct probing *probing, uint64_t pid, const struct fp_stamp *before)
{
    struct fp_stamp after;
    uint64_t address;

    return read_moment(probing, pid, &address, &after) != 0 || !fp_stamp_is_same(before, &after);
}

static ERL_NIF_TERM word_view(struct probing *probing, uint64_t word)
{
    struct fp_term term;

    fp_walk_term(&probing->walk, word, &term);
    return fp_out_view(&probing->out, &probing->walk, &term, limits);
}

/* ---------------------------------------------------------------- stacks -- */

/* {Address, {M, F, A} | none, [View]} */
static ERL_NIF_TERM frame_term(struct probing *probing, const struct fp_stack_frame *frame)
{
    ErlNifEnv *env = probing->env;
    ERL_NIF_TERM slots = enif_make_list(env, 0), name = fp_atom(env, "none");
    uint64_t mfa[3], mfa_at;

    for (uint32_t i = frame->slots; i-- > 0;)
        slots =
            enif_make_list_cell(env, word_view(probing, probing->word[frame->first + i]), slots);
    if (fp_code_nearest(&probing->memory, &probing->code, frame->address - 1, mfa, &mfa_at) == 0)
        name = fp_out_mfa(&probing->out, mfa, "none");
    return enif_make_tuple3(env, enif_make_uint64(env, frame->address), name, slots);
}

static ERL_NIF_TERM stack_term(struct probing *probing, uint64_t pid)
{
    struct fp_stack_frame frame[FRAMES_MAX];
    ErlNifEnv *env = probing->env;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    struct fp_stamp now;
    uint64_t address, words;
    uint32_t n;
    int err = read_moment(probing, pid, &address, &now);

    if (err != 0)
        return fp_result(env, err);
    words = (now.hend - now.stop) / 8;
    words = words < WORDS_MAX ? words : WORDS_MAX;
    if (fp_safe_read(&probing->memory, now.stop, probing->word, 8 * words) != 0)
        return fp_result(env, FP_ETORN);
    fp_walk_start(&probing->walk, &probing->memory, probing->layout, READS);
    n = fp_frames_read(frame, FRAMES_MAX, &probing->code, now.i, probing->word, (uint32_t)words);
    while (n-- > 0)
        list = enif_make_list_cell(env, frame_term(probing, &frame[n]), list);
    return has_moved(probing, pid, &now) ? fp_result(env, FP_ETORN) : fp_ok(env, list);
}

/* ([Pid]) -> {ok, [{Pid, {ok, [{Address, MFA | none, [View]}]} | {error, gone | torn}}]} |
 *            {error, Error}
 * The frames of processes that wait, leaf first, and what their slots hold:
 * View = {atom, Atom} | {pid, Pid} | {port, Port} | {ref, {N0, N1, N2}} | {tuple, Arity, [View]} |
 *        {list, Head, Tail} | list | nil | other | unreadable */
ERL_NIF_TERM fp_nif_stack_terms(FP_NIF_ARGS)
{
    ERL_NIF_TERM pid, pids = argv[0], list = enif_make_list(env, 0);
    struct probing *probing = malloc(sizeof *probing);
    int err = probing == NULL ? FP_ENOMEM : open_probing(env, probing);

    while (err == 0 && enif_get_list_cell(env, pids, &pid, &pids))
        list = enif_make_list_cell(env, enif_make_tuple2(env, pid, stack_term(probing, pid)), list);
    if (probing != NULL)
        fp_safe_read_close(&probing->memory);
    free(probing);
    return err == 0 ? fp_ok(env, list) : fp_result(env, err);
}

/* -------------------------------------------------------------- monitors -- */

static const char *const type_names[] = {
#define TYPE_NAME(name) #name,
    FP_MONITOR_MAP(TYPE_NAME)
#undef TYPE_NAME
};

/* Of what is monitored. */
static const struct fp_view_limits shape = {.depth = 0};

static void add_monitor(void *arg, const struct fp_monitor *monitor)
{
    struct probing *probing = arg;
    ErlNifEnv *env = probing->env;

    probing->list = enif_make_list_cell(
        env,
        enif_make_tuple5(env, fp_out_ref(env, &monitor->ref),
                         fp_atom(env, type_names[monitor->type]),
                         fp_boolean(env, monitor->is_origin),
                         fp_out_view(&probing->out, &probing->walk, &monitor->target, shape),
                         fp_out_atom(&probing->out, monitor->name, "none")),
        probing->list);
}

static ERL_NIF_TERM monitors_term(struct probing *probing, uint64_t pid)
{
    ErlNifEnv *env = probing->env;
    struct fp_stamp now;
    uint64_t address;
    int err = read_moment(probing, pid, &address, &now);

    if (err != 0)
        return fp_result(env, err);
    probing->list = enif_make_list(env, 0);
    fp_walk_start(&probing->walk, &probing->memory, probing->layout, READS);
    err = fp_monitors_each(&probing->walk, now.monitors, MONITORS_MAX, add_monitor, probing);
    if (has_moved(probing, pid, &now))
        return fp_result(env, FP_ETORN);
    if (err < 0)
        return fp_result(env, err);
    return fp_ok(env, probing->list);
}

/* (Pid) -> {ok, [{Ref, Type, IsOrigin, View, Name | none}]} | {error, gone | torn | full | Error}
 * The monitor tree of a process that waits; full: it has more than MONITORS_MAX. */
ERL_NIF_TERM fp_nif_monitor_terms(FP_NIF_ARGS)
{
    struct probing *probing = malloc(sizeof *probing);
    int err = probing == NULL ? FP_ENOMEM : open_probing(env, probing);
    ERL_NIF_TERM term = err == 0 ? monitors_term(probing, argv[0]) : fp_result(env, err);

    if (probing != NULL)
        fp_safe_read_close(&probing->memory);
    free(probing);
    return term;
}

static void skip_monitor(void *arg, const struct fp_monitor *monitor)
{
    uint32_t *left = arg;

    (void)monitor;
    --*left;
}

/* How many monitors the process has; FP_EFULL: more than *left, which is less by those that were
 * visited. About: one that has many may run before all are counted, and its tree turn. */
static int count_monitors(struct probing *probing, uint64_t pid, uint32_t *left)
{
    struct fp_stamp now;
    uint64_t address;
    int n = read_moment(probing, pid, &address, &now);

    if (n != 0)
        return n;
    fp_walk_start(&probing->walk, &probing->memory, probing->layout, UINT32_MAX);
    return fp_monitors_each(&probing->walk, now.monitors, *left, skip_monitor, left);
}

static ERL_NIF_TERM counts_term(struct probing *probing, ERL_NIF_TERM pids)
{
    ErlNifEnv *env = probing->env;
    ERL_NIF_TERM told = enif_make_list(env, 0), moved = told, pid, rest;
    uint32_t left = VISITS_MAX;

    while (enif_get_list_cell(env, pids, &pid, &rest)) {
        int n = count_monitors(probing, pid, &left);

        if (n == FP_EFULL)
            break;
        if (n >= MANY_MONITORS)
            told =
                enif_make_list_cell(env, enif_make_tuple2(env, pid, enif_make_int(env, n)), told);
        else if (n < 0 && n != FP_EGONE)
            moved = enif_make_list_cell(env, pid, moved);
        pids = rest;
    }
    return enif_make_tuple4(env, fp_atom(env, "ok"), told, moved, pids);
}

/* ([Pid]) -> {ok, [{Pid, Count}], Moved :: [Pid], Left :: [Pid]} | {error, Error}
 * Those that wait and monitor many, about how many. Not known: Moved, which did not wait, or whose
 * monitors changed meanwhile; and Left, when VISITS_MAX had been visited. */
ERL_NIF_TERM fp_nif_monitor_counts(FP_NIF_ARGS)
{
    struct probing *probing = malloc(sizeof *probing);
    int err = probing == NULL ? FP_ENOMEM : open_probing(env, probing);
    ERL_NIF_TERM term = err == 0 ? counts_term(probing, argv[0]) : fp_result(env, err);

    if (probing != NULL)
        fp_safe_read_close(&probing->memory);
    free(probing);
    return term;
}
