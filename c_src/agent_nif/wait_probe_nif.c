/* wait_probe_nif.c - what flame_prof_wait_sites asks of its probes: what their stacks hold, what
 * they monitor; and where its findings are kept. Dirty schedulers. */
#include <stdlib.h>
#include <string.h>

#include "agent_nif/library.h"
#include "agent_nif/term_nif.h"
#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/frames.h"
#include "erts/monitors.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "erts/serving.h"
#include "terms/terms.h"
#include "waits/moment.h"

/* Of a probe's stack. */
#define WORDS_MAX 1024u
#define FRAMES_MAX 32u
/* Levels of tuples and lists that are told, and elements of each. */
#define DEPTH 5u
#define ELEMENTS 4u
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
    ERL_NIF_TERM list;
    uint64_t word[WORDS_MAX];
};

static int open_probing(ErlNifEnv *env, struct probing *probing)
{
    int err;

    probing->env = env;
    probing->memory.fd = -1;
    probing->memory.window = NULL;
    probing->layout = fp_library(env)->layout;
    if (probing->layout == NULL)
        return FP_ESTATE;
    err = fp_safe_read_open(&probing->memory);
    return err != 0 ? err : fp_code_ranges(&probing->memory, &probing->code);
}

/* A process that waits, as it is now. */
static int read_moment(const struct probing *probing, uint64_t pid, uint64_t *address,
                       struct fp_moment *now)
{
    if (fp_process_table_lookup(probing->layout, &probing->memory, pid, address) != 0 ||
        fp_moment_read(probing->layout, &probing->memory, *address, now) != 0)
        return FP_EGONE;
    return fp_process_status(now->state) == FP_STATUS_waiting && fp_moment_has_stack(now)
               ? 0
               : FP_ETORN;
}

static int has_moved(const struct probing *probing, uint64_t pid, const struct fp_moment *before)
{
    struct fp_moment after;
    uint64_t address;

    return read_moment(probing, pid, &address, &after) != 0 || !fp_moment_is_same(before, &after);
}

/* ----------------------------------------------------------------- views -- */

static ERL_NIF_TERM tagged(ErlNifEnv *env, const char *tag, ERL_NIF_TERM value)
{
    return enif_make_tuple2(env, fp_atom(env, tag), value);
}

static ERL_NIF_TERM view(struct probing *probing, const struct fp_term *term, unsigned depth);

static ERL_NIF_TERM element_view(struct probing *probing, const struct fp_term *term, uint32_t at,
                                 unsigned depth)
{
    struct fp_term element;

    fp_walk_element(&probing->walk, term, at, &element);
    return view(probing, &element, depth);
}

/* {tuple, Arity, [View]}: the first elements. */
static ERL_NIF_TERM tuple_view(struct probing *probing, const struct fp_term *term, unsigned depth)
{
    ErlNifEnv *env = probing->env;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint32_t n = depth == 0 ? 0 : term->arity < ELEMENTS ? term->arity : ELEMENTS;

    while (n-- > 0)
        list = enif_make_list_cell(env, element_view(probing, term, n, depth - 1), list);
    return enif_make_tuple3(env, fp_atom(env, "tuple"), enif_make_uint(env, term->arity), list);
}

static ERL_NIF_TERM view(struct probing *probing, const struct fp_term *term, unsigned depth)
{
    ErlNifEnv *env = probing->env;

    switch (term->kind) {
    case FP_TERM_ATOM:
        return tagged(env, "atom", term->word);
    case FP_TERM_PID:
        return tagged(env, "pid", term->word);
    case FP_TERM_PORT:
        return tagged(env, "port", term->word);
    case FP_TERM_REF:
        return tagged(env, "ref", fp_ref_view(env, &term->ref));
    case FP_TERM_TUPLE:
        return tuple_view(probing, term, depth);
    case FP_TERM_LIST:
        return depth == 0 ? fp_atom(env, "list")
                          : enif_make_tuple3(env, fp_atom(env, "list"),
                                             element_view(probing, term, 0, depth - 1),
                                             element_view(probing, term, 1, depth - 1));
    case FP_TERM_NIL:
        return fp_atom(env, "nil");
    case FP_TERM_UNREADABLE:
        return fp_atom(env, "unreadable");
    default:
        return fp_atom(env, "other");
    }
}

static ERL_NIF_TERM word_view(struct probing *probing, uint64_t word)
{
    struct fp_term term;

    fp_walk_term(&probing->walk, word, &term);
    return view(probing, &term, DEPTH);
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
    if (fp_code_nearest(&probing->memory, &probing->code, frame->address - 1, mfa, &mfa_at) == 0 &&
        mfa[0] >> 6 < probing->walk.atoms && mfa[1] >> 6 < probing->walk.atoms)
        name = enif_make_tuple3(env, mfa[0], mfa[1], enif_make_uint64(env, mfa[2]));
    return enif_make_tuple3(env, enif_make_uint64(env, frame->address), name, slots);
}

static ERL_NIF_TERM stack_term(struct probing *probing, uint64_t pid)
{
    struct fp_stack_frame frame[FRAMES_MAX];
    ErlNifEnv *env = probing->env;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    struct fp_moment now;
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
FP_NIF(stack_terms)
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

static void add_monitor(void *arg, const struct fp_monitor *monitor)
{
    struct probing *probing = arg;
    ErlNifEnv *env = probing->env;
    probing->list = enif_make_list_cell(
        env,
        enif_make_tuple5(
            env, fp_ref_view(env, &monitor->ref), fp_atom(env, type_names[monitor->type]),
            fp_boolean(env, monitor->is_origin), view(probing, &monitor->target, 0),
            monitor->name != 0 && monitor->name >> 6 < probing->walk.atoms ? monitor->name
                                                                           : fp_atom(env, "none")),
        probing->list);
}

static ERL_NIF_TERM monitors_term(struct probing *probing, uint64_t pid)
{
    ErlNifEnv *env = probing->env;
    struct fp_moment now;
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
FP_NIF(monitor_terms)
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
    struct fp_moment now;
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
FP_NIF(monitor_counts)
{
    struct probing *probing = malloc(sizeof *probing);
    int err = probing == NULL ? FP_ENOMEM : open_probing(env, probing);
    ERL_NIF_TERM term = err == 0 ? counts_term(probing, argv[0]) : fp_result(env, err);

    if (probing != NULL)
        fp_safe_read_close(&probing->memory);
    free(probing);
    return term;
}

/* ----------------------------------------------------------------- sites -- */

static int role_of(ErlNifEnv *env, ERL_NIF_TERM term)
{
    for (enum fp_site_role role = 0; role < FP_SITE_ROLES; role++)
        if (fp_is_atom(env, term, fp_site_role_name(role)))
            return (int)role;
    return -1;
}

static int get_row(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_site_row *row)
{
    const ERL_NIF_TERM *element;
    ErlNifUInt64 address;
    int arity, role;

    if (!enif_get_tuple(env, term, &arity, &element) || arity != 3 ||
        !enif_get_uint64(env, element[0], &address) || (role = role_of(env, element[1])) < 0 ||
        !enif_get_uint(env, element[2], &row->slot))
        return 0;
    row->address = address;
    row->role = (enum fp_site_role)role;
    return 1;
}

static int create_sites(ErlNifEnv *env, const struct fp_site_row *row, size_t rows,
                        struct fp_sites **sites)
{
    struct probing *probing = malloc(sizeof *probing);
    int err = probing == NULL ? FP_ENOMEM : open_probing(env, probing);

    if (err == 0)
        err = fp_sites_create(sites, &probing->memory, &probing->code, row, rows);
    if (probing != NULL)
        fp_safe_read_close(&probing->memory);
    free(probing);
    return err;
}

/* When they cannot be published, all stays as it is. */
static int exchange_sites(struct fp_library *library, struct fp_sites *sites, uint64_t mark,
                          int is_public)
{
    struct fp_sites *unused = sites;
    int err;

    enif_mutex_lock(library->lock);
    err = is_public ? fp_serving_publish(sites) : 0;
    if (err == 0) {
        unused = library->sites;
        library->sites = sites;
        library->sites_mark = mark;
    }
    enif_mutex_unlock(library->lock);
    fp_sites_release(unused);
    return err;
}

static ERL_NIF_TERM set_sites(ErlNifEnv *env, const ERL_NIF_TERM argv[], int is_public)
{
    ERL_NIF_TERM head, tail = argv[0];
    struct fp_site_row *row;
    struct fp_sites *sites = NULL;
    ErlNifUInt64 mark;
    unsigned rows, at = 0;
    int err = 0;

    if (!enif_get_list_length(env, tail, &rows) || rows > FP_SITES_MAX * FP_SITE_ROLES ||
        !enif_get_uint64(env, argv[1], &mark))
        return enif_make_badarg(env);
    row = calloc(rows + 1, sizeof *row);
    if (row == NULL)
        return fp_result(env, FP_ENOMEM);
    while (err == 0 && enif_get_list_cell(env, tail, &head, &tail))
        err = get_row(env, head, &row[at++]) ? 0 : FP_EINVAL;
    if (err == 0)
        err = create_sites(env, row, rows, &sites);
    free(row);
    if (err == 0)
        err = exchange_sites(fp_library(env), sites, mark, is_public);
    return fp_result(env, err);
}

/* ([{Address, Role, Slot}], Mark) -> ok | {error, Error}
 * From now on a look knows these sites and no others, and so do samples. Roles: sites.h. The mark
 * is kept. full: they have changed too often (serving.h). */
FP_NIF(wait_sites_set)
{
    return set_sites(env, argv, 1);
}

/* The same for looks alone: samples keep the sites that they have. */
FP_NIF(wait_sites_learn)
{
    return set_sites(env, argv, 0);
}

/* {M, F, A} or none */
static ERL_NIF_TERM mfa_term(ErlNifEnv *env, const uint64_t mfa[3])
{
    return mfa[0] == 0 ? fp_atom(env, "none")
                       : enif_make_tuple3(env, mfa[0], mfa[1], enif_make_uint64(env, mfa[2]));
}

/* Modules are never so gone that their atoms are: the function had a name when it was found. */
static ERL_NIF_TERM site_term(ErlNifEnv *env, const struct fp_site *site, int is_valid)
{
    ERL_NIF_TERM roles = enif_make_list(env, 0);

    for (enum fp_site_role role = 0; role < FP_SITE_ROLES; role++)
        if (fp_site_has(site, role))
            roles = enif_make_list_cell(env,
                                        enif_make_tuple2(env, fp_atom(env, fp_site_role_name(role)),
                                                         enif_make_uint(env, site->slot[role])),
                                        roles);
    return enif_make_tuple4(env, mfa_term(env, site->mfa), roles,
                            enif_make_uint64(env, site->address), fp_boolean(env, is_valid));
}

/* () -> {Mark, AreValid, [{{M, F, A} | none, [{Role, Slot}], Address, IsValid}]} | none
 * IsValid: the code there is what it was; AreValid: at all of them. */
FP_NIF(wait_sites)
{
    struct fp_library *library = fp_library(env);
    uint64_t mark;
    struct fp_sites *sites = fp_library_sites(library, &mark);
    uint8_t is_valid[FP_SITES_MAX];
    ERL_NIF_TERM list = enif_make_list(env, 0), valid;
    uint32_t count;

    if (sites == NULL)
        return fp_atom(env, "none");
    count = fp_sites_count(sites);
    valid = fp_boolean(env, fp_sites_check(sites, &library->memory, is_valid) == count);
    while (count-- > 0)
        list = enif_make_list_cell(env, site_term(env, fp_sites_at(sites, count), is_valid[count]),
                                   list);
    fp_sites_release(sites);
    return enif_make_tuple3(env, enif_make_uint64(env, mark), valid, list);
}
