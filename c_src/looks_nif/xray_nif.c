/* xray_nif.c - looks at what a process holds, for flame_prof_xray, and at the binaries of all, for
 * flame_prof_binaries. A step takes some milliseconds and may sleep between attempts, so it has a
 * dirty I/O scheduler. Only atoms of the process's terms leave the node: tags of tuples, names of
 * records, keys. */
#include "base/clock.h"
#include "base/error.h"
#include "erts/code_scan.h"
#include "looks_nif/handle.h"
#include "looks_nif/looks.h"
#include "looks_nif/views.h"
#include "terms/term_words.h"
#include "terms/terms.h"
#include "xray/holders.h"
#include "xray/xray.h"

#define STEP_MAX (1u << 24)
/* The least share of the whole at which a node is returned; and the most nodes. */
#define SHARE_MIN 500u
#define NODES_MAX 2000u

struct xray_handle {
    struct fp_look_handle handle;
    struct fp_ranges code;
};

static void close_xray(void *xray)
{
    fp_xray_close(xray);
}

/* (Pid, #{kilobytes, time_ms}) -> {ok, Xray} | {error, Error}; `unsupported` with a text where the
 * queues are not as calibration expected. */
ERL_NIF_TERM fp_nif_xray_open(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    struct fp_layout *layout = library->vm.layout;
    struct fp_xray_limits limits = {0};
    struct xray_handle *xray;
    struct fp_xray *look = NULL;
    ErlNifPid pid;
    uint32_t kilobytes = 0;
    int err;

    if (layout == NULL || !enif_get_local_pid(env, argv[0], &pid) ||
        !fp_map_get_u32(env, argv[1], "kilobytes", &kilobytes) ||
        !fp_map_get_u32(env, argv[1], "time_ms", &limits.time_ms))
        return enif_make_badarg(env);
    if (layout->queue_refusal[0] != 0)
        return fp_error_text(env, FP_EUNSUPPORTED, layout->queue_refusal);
    limits.bytes = (uint64_t)kilobytes << 10;
    xray = fp_look_handle_new(library->xray_type, sizeof *xray, close_xray, &err);
    if (err == 0)
        err = fp_code_ranges(&xray->handle.memory, &xray->code);
    if (err == 0)
        err = fp_xray_open(&look, layout, &xray->handle.memory, &xray->code, argv[0], &limits);
    xray->handle.look = look;
    return fp_look_handle_result(env, &xray->handle, err);
}

/* ------------------------------------------------------------------- nodes -- */

struct xray_teller {
    ErlNifEnv *env;
    struct fp_code_index *code; /* NULL: no function has a name */
    struct fp_terms_out out;
};

/* {atom, Atom} | other */
static ERL_NIF_TERM key_term(struct xray_teller *to, uint64_t word)
{
    return fp_out_is_atom(&to->out, word)
               ? enif_make_tuple2(to->env, fp_atom(to->env, "atom"), word)
               : fp_atom(to->env, "other");
}

/* {stack, {Module, Function, Arity} | unknown, Line, Slot} */
static ERL_NIF_TERM stack_term(struct xray_teller *to, uint64_t value)
{
    uint64_t address = value & ((UINT64_C(1) << 48) - 1);
    struct fp_location at = {0};

    /* A return address is behind the call. */
    if (to->code == NULL || fp_code_index_resolve(to->code, address - 1, &at) != 0)
        at.line = 0;
    return enif_make_tuple4(
        to->env, fp_atom(to->env, "stack"), fp_out_mfa(&to->out, at.mfa, "unknown"),
        enif_make_uint(to->env, at.line), enif_make_uint(to->env, (unsigned)(value >> 48)));
}

static ERL_NIF_TERM numbered(const struct xray_teller *to, const char *name, uint64_t value)
{
    return enif_make_tuple2(to->env, fp_atom(to->env, name), enif_make_uint64(to->env, value));
}

static ERL_NIF_TERM step_term(struct xray_teller *to, const struct fp_xray_node *node)
{
    ErlNifEnv *env = to->env;

    switch (node->step) {
    case FP_XRAY_STACK:
        return stack_term(to, node->value);
    case FP_XRAY_REGISTER:
        return numbered(to, "register", node->value);
    case FP_XRAY_DICTIONARY:
        return enif_make_tuple2(env, fp_atom(env, "dictionary"), key_term(to, node->value));
    case FP_XRAY_ELEMENT:
        return numbered(to, "element", node->value);
    case FP_XRAY_VALUE:
        return enif_make_tuple2(env, fp_atom(env, "value"), key_term(to, node->value));
    case FP_XRAY_VARIABLE:
        return numbered(to, "variable", node->value);
    case FP_XRAY_MESSAGE:
        return fp_atom(env, "message");
    case FP_XRAY_OWN:
        return fp_atom(env, "own");
    case FP_XRAY_MEMBER:
        return fp_atom(env, "member");
    case FP_XRAY_TAIL:
        return fp_atom(env, "tail");
    case FP_XRAY_KEYS:
        return fp_atom(env, "keys");
    default:
        return fp_atom(env, "process");
    }
}

/* {tuple | record, Tag | none, Arity}, or the name of the form. */
static ERL_NIF_TERM shape_term(struct xray_teller *to, const struct fp_xray_shape *shape)
{
    static const char *const names[] = {"none", "tuple",  "record",      "list",   "map",
                                        "fun",  "binary", "heap_binary", "number", "identifier"};
    ErlNifEnv *env = to->env;
    ERL_NIF_TERM name = fp_atom(env, names[shape->form]);

    if (shape->form != FP_XRAY_FORM_TUPLE && shape->form != FP_XRAY_FORM_RECORD)
        return name;
    return enif_make_tuple3(env, name, key_term(to, shape->tag), enif_make_uint(env, shape->arity));
}

static uint64_t bytes_of(const struct fp_xray_node *node)
{
    return 8 * node->words + node->binary_bytes;
}

/* [{Index, Parent, Step, Shape, HeapBytes, Objects, Binaries, BinaryBytes, SeenBytes}], parents
 * first: the nodes with at least one in SHARE_MIN of the whole. */
static ERL_NIF_TERM paths_term(struct xray_teller *to, const struct fp_xray_paths *paths)
{
    ErlNifEnv *env = to->env;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t least = bytes_of(&paths->node[0]) / SHARE_MIN, all;

    do {
        all = 0;
        least += least / 2 + 1;
        for (uint32_t at = 0; at < paths->nodes; at++)
            all += bytes_of(&paths->node[at]) >= least;
    } while (all > NODES_MAX);
    for (uint32_t at = paths->nodes; at-- > 1;) {
        const struct fp_xray_node *node = &paths->node[at];

        if (bytes_of(node) >= least)
            list = enif_make_list_cell(
                env,
                enif_make_tuple9(env, enif_make_uint(env, at), enif_make_uint(env, node->parent),
                                 step_term(to, node), shape_term(to, &node->shape),
                                 enif_make_uint64(env, 8 * node->words),
                                 enif_make_uint64(env, node->objects),
                                 enif_make_uint64(env, node->binaries),
                                 enif_make_uint64(env, node->binary_bytes),
                                 enif_make_uint64(env, node->seen_bytes)),
                list);
    }
    return list;
}

/* [{Shape, Bytes, Objects}] */
static ERL_NIF_TERM types_term(struct xray_teller *to, const struct fp_xray_paths *types)
{
    ErlNifEnv *env = to->env;
    ERL_NIF_TERM list = enif_make_list(env, 0);

    for (uint32_t at = types->nodes; at-- > 0;)
        if (types->node[at].words > 0)
            list = enif_make_list_cell(
                env,
                enif_make_tuple3(env, shape_term(to, &types->node[at].shape),
                                 enif_make_uint64(env, 8 * types->node[at].words),
                                 enif_make_uint64(env, types->node[at].objects)),
                list);
    return list;
}

/* {Count, Bytes, SharedBytes} */
static ERL_NIF_TERM binaries_term(ErlNifEnv *env, const struct fp_xray_binaries_sum *sum)
{
    return enif_make_tuple3(env, enif_make_uint64(env, sum->count),
                            enif_make_uint64(env, sum->bytes),
                            enif_make_uint64(env, sum->shared_bytes));
}

/* ------------------------------------------------------------------ answer -- */

static ERL_NIF_TERM answer_term(struct xray_teller *to, const struct fp_xray_answer *answer)
{
    const struct {
        const char *name;
        uint64_t value;
    } number[] = {
        {"young", 8 * answer->young_words},
        {"old", 8 * answer->old_words},
        {"fragments", 8 * answer->fragment_words},
        {"message_terms", 8 * answer->message_words},
        {"stack", 8 * answer->stack_words},
        {"blocks", 8 * answer->block_words},
        {"reached", 8 * answer->reached_words},
        {"dictionary", answer->dictionary_bytes},
        {"memory", answer->memory_bytes},
        {"messages", answer->messages},
        {"undecoded", answer->undecoded},
        {"message_bytes", answer->message_bytes},
        {"literals", answer->literals},
        {"left_out", answer->left_out},
        {"binaries_untold", answer->binaries_untold},
        {"by_stack", 8 * answer->root_words[FP_XRAY_STACK]},
        {"by_registers", 8 * answer->root_words[FP_XRAY_REGISTER]},
        {"by_dictionary", 8 * answer->root_words[FP_XRAY_DICTIONARY]},
        {"by_messages", 8 * answer->root_words[FP_XRAY_MESSAGE]},
        {"attempts", answer->attempts},
        {"bytes_needed", answer->bytes_needed},
    };
    ErlNifEnv *env = to->env;
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "error",
               fp_atom(env, answer->err == 0 ? "none" : fp_err_name(answer->err)));
    for (size_t k = 0; k < sizeof number / sizeof *number; k++)
        fp_map_put_u64(env, &map, number[k].name, number[k].value);
    if (answer->err != 0)
        return map;
    fp_map_put(env, &map, "complete", fp_boolean(env, answer->is_complete));
    fp_map_put(env, &map, "paths", paths_term(to, answer->paths));
    fp_map_put(env, &map, "types", types_term(to, answer->types));
    fp_map_put(env, &map, "binaries", binaries_term(env, &answer->binaries));
    fp_map_put(env, &map, "garbage_binaries", binaries_term(env, &answer->garbage));
    return map;
}

static ERL_NIF_TERM told(ErlNifEnv *env, struct xray_handle *xray)
{
    const struct fp_layout *layout = fp_vm(env)->layout;
    struct fp_memory *memory = &xray->handle.memory;
    struct xray_teller to = {.env = env};
    ERL_NIF_TERM term;

    fp_terms_out_start(&to.out, env, layout, memory);
    if (fp_code_index_create(&to.code, layout, memory, &xray->code) != 0)
        to.code = NULL;
    term = answer_term(&to, fp_xray_answer(xray->handle.look));
    if (to.code != NULL)
        fp_code_index_destroy(to.code);
    fp_look_handle_close(&xray->handle);
    return term;
}

/* (Xray, Objects) -> more | #{...}, the fields of struct fp_xray_answer in bytes. The answer is
 * told once. */
ERL_NIF_TERM fp_nif_xray_next(FP_NIF_ARGS)
{
    struct xray_handle *xray;
    ERL_NIF_TERM term;
    unsigned objects;

    if (!enif_get_uint(env, argv[1], &objects) || objects == 0 || objects > STEP_MAX ||
        (xray = fp_look_handle_enter(env, argv[0], fp_looks(env)->xray_type)) == NULL)
        return enif_make_badarg(env);
    term = fp_xray_step(xray->handle.look, objects) ? told(env, xray) : fp_atom(env, "more");
    fp_look_handle_leave(&xray->handle);
    return term;
}

/* ---------------------------------------------------------------- binaries -- */

#define PIDS_MAX 64u

/* Pid | {Numbers, Name, Owner}; 0: a table that was freed while it was read. */
static ERL_NIF_TERM who_term(struct fp_terms_out *out, const struct fp_holders *holders,
                             const struct fp_holder *holder)
{
    ERL_NIF_TERM part[3];

    if (holder->table == 0)
        return fp_out_pid(out, holder->pid, "none");
    return fp_out_table(out, &holders->tables.table[holder->table - 1], part)
               ? enif_make_tuple_from_array(out->env, part, 3)
               : 0;
}

/* {Who, Binaries, Bytes, AloneBytes, MessageBinaries, MessageBytes, IsPartial} */
static ERL_NIF_TERM holder_term(ErlNifEnv *env, ERL_NIF_TERM who, const struct fp_holder *holder)
{
    return enif_make_tuple7(
        env, who, enif_make_uint64(env, holder->binaries), enif_make_uint64(env, holder->bytes),
        enif_make_uint64(env, holder->alone_bytes), enif_make_uint64(env, holder->message_binaries),
        enif_make_uint64(env, holder->message_bytes), fp_boolean(env, holder->is_partial));
}

static ERL_NIF_TERM holders_term(struct fp_terms_out *out, const struct fp_holders *holders,
                                 uint32_t rows, uint64_t since)
{
    ErlNifEnv *env = out->env;
    uint64_t nameless = 0;
    const struct {
        const char *name;
        uint64_t value;
    } number[] = {
        {"binaries", holders->table.used},
        {"bytes", holders->bytes},
        {"holders", holders->holders},
        {"processes", holders->processes},
        {"moved", holders->moved},
        {"late", holders->late},
        {"undecoded", holders->undecoded},
        {"buffers_unknown", holders->unknown},
        {"guessed", holders->guessed},
        {"elsewhere", holders->elsewhere},
        {"elsewhere_bytes", holders->elsewhere_bytes},
        {"tables", holders->tables.count},
        {"tables_moved", holders->tables_moved},
        {"tables_late", holders->tables_late},
        {"tables_unread", holders->tables_unread},
        {"inconsistent_objects", holders->inconsistent_objects},
        {"cpu_ns", fp_thread_cpu_ns() - since},
    };
    ERL_NIF_TERM map = enif_make_new_map(env), list = enif_make_list(env, 0);

    for (uint32_t k = rows < holders->holders ? rows : holders->holders; k-- > 0;) {
        ERL_NIF_TERM who = who_term(out, holders, &holders->holder[k]);

        if (who != 0)
            list = enif_make_list_cell(env, holder_term(env, who, &holders->holder[k]), list);
        nameless += who == 0;
    }
    fp_map_put_u64(env, &map, "tables_left_out",
                   holders->tables.left_out + holders->tables.incomplete + nameless);
    for (size_t k = 0; k < sizeof number / sizeof *number; k++)
        fp_map_put_u64(env, &map, number[k].name, number[k].value);
    fp_map_put(env, &map, "rows", list);
    return map;
}

/* ([Pid] | all, #{kilobytes, time_ms, rows}) -> {ok, #{...}} | {error, Error}: the fields of struct
 * fp_holders, and `rows` of the holders with the most bytes. badarg for more than PIDS_MAX pids. */
ERL_NIF_TERM fp_nif_binaries_look(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    uint64_t pid[PIDS_MAX], since = fp_thread_cpu_ns();
    struct fp_holders_options options = {.layout = library->vm.layout,
                                         .objects = library->table_objects};
    struct fp_holders holders = {.room = 0};
    struct fp_terms_out out;
    struct fp_memory memory;
    ERL_NIF_TERM term;
    uint32_t kilobytes = 0, rows = 0;
    int is_all = fp_is_atom(env, argv[0], "all"), err;

    if (options.layout == NULL ||
        (!is_all && !fp_get_pids(env, argv[0], pid, PIDS_MAX, &options.pids)) ||
        !fp_map_get_u32(env, argv[1], "kilobytes", &kilobytes) ||
        !fp_map_get_u32(env, argv[1], "time_ms", &options.time_ms) ||
        !fp_map_get_u32(env, argv[1], "rows", &rows))
        return enif_make_badarg(env);
    if (options.layout->queue_refusal[0] != 0)
        return fp_error_text(env, FP_EUNSUPPORTED, options.layout->queue_refusal);
    options.pid = is_all ? NULL : pid;
    options.bytes = (uint64_t)kilobytes << 10;
    err = fp_safe_read_open_own(&memory);
    if (err != 0)
        return fp_result(env, err);
    options.memory = &memory;
    if (options.objects != NULL)
        options.tables = library->tables;
    err = fp_holders_look(&options, &holders);
    fp_terms_out_start(&out, env, options.layout, &memory);
    term = err == 0 ? fp_ok(env, holders_term(&out, &holders, rows, since)) : fp_result(env, err);
    fp_holders_free(&holders);
    fp_safe_read_close(&memory);
    return term;
}
