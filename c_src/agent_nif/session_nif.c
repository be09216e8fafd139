/* Sessions from Erlang's side: a reference that belongs to the process that started the session.
 * The death of that process stops the session.
 *
 * The writer thread holds a reference to the handle until the session has stopped, so its messages
 * always have a reference to name. */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "agent_nif/library.h"
#include "agent_nif/portable_items.h"
#include "agent_nif/session_options.h"
#include "base/error.h"
#include "session/sampler.h"
#include "terms/terms.h"

struct session_handle {
    /* Read-locked during a use of `session`, write-locked to take it away. A NIF on a normal
     * scheduler only tries. */
    ErlNifRWLock *lock;
    struct fp_session *session; /* NULL: closed */
    ErlNifPid owner;
    ErlNifMonitor monitor;
};

/* ------------------------------------------------------ threads to Erlang -- */

static ERL_NIF_TERM event_term(ErlNifEnv *env, enum fp_session_event event, uint64_t ticket,
                               int err, const char *text)
{
    static const char *const file_events[] = {
        [FP_SINK_BEGUN] = "begun",   [FP_SINK_FINISHED] = "finished", [FP_SINK_REMOVED] = "removed",
        [FP_SINK_FAILED] = "failed", [FP_SINK_HEALED] = "healed",
    };

    if (event == FP_SESSION_FLUSHED)
        return enif_make_tuple3(env, fp_atom(env, "flushed"), enif_make_uint64(env, ticket),
                                fp_result_text(env, err, text));
    if (event == FP_SESSION_STOPPED)
        return enif_make_tuple2(env, fp_atom(env, "stopped"), fp_result_text(env, err, text));
    return enif_make_tuple3(env, fp_atom(env, "file"),
                            fp_atom(env, file_events[event - FP_SESSION_FILE]), fp_text(env, text));
}

/* {flame_prof_nif, Ref, Event} to the owner. */
static void send_event(struct session_handle *handle, enum fp_session_event event, uint64_t ticket,
                       int err, const char *text)
{
    ErlNifEnv *env = enif_alloc_env();

    if (env == NULL)
        return;
    enif_send(NULL, &handle->owner, env,
              enif_make_tuple3(env, fp_atom(env, "flame_prof_nif"), enif_make_resource(env, handle),
                               event_term(env, event, ticket, err, text)));
    enif_free_env(env);
}

/* WRITER THREAD. */
static void notify(void *arg, enum fp_session_event event, uint64_t ticket, int err,
                   const char *text)
{
    struct session_handle *handle = arg;

    send_event(handle, event, ticket, err, text);
    if (event == FP_SESSION_STOPPED)
        enif_release_resource(handle);
}

/* --------------------------------------------------------------- handles -- */

static void destroy(ErlNifEnv *env, void *object)
{
    struct session_handle *handle = object;

    (void)env;
    if (handle->session != NULL)
        fp_session_abandon(handle->session);
    if (handle->lock != NULL)
        enif_rwlock_destroy(handle->lock);
}

static void owner_down(ErlNifEnv *env, void *object, ErlNifPid *pid, ErlNifMonitor *monitor)
{
    struct session_handle *handle = object;

    (void)env;
    (void)pid;
    (void)monitor;
    /* Busy: a close has it. */
    if (enif_rwlock_tryrlock(handle->lock) != 0)
        return;
    if (handle->session != NULL)
        fp_session_stop(handle->session);
    enif_rwlock_runlock(handle->lock);
}

const ErlNifResourceTypeInit fp_session_type_init = {.dtor = destroy, .down = owner_down};

static ERL_NIF_TERM closed(ErlNifEnv *env)
{
    return fp_error(env, fp_atom(env, "closed"));
}

/* The handle of an open session, until unuse(); NULL and *error set where there is none. Never
 * waits. */
static struct session_handle *use(ErlNifEnv *env, ERL_NIF_TERM ref, ERL_NIF_TERM *error)
{
    struct session_handle *handle = fp_get_object(env, ref, fp_library(env)->session_type);

    *error = handle == NULL ? enif_make_badarg(env) : closed(env);
    if (handle == NULL || enif_rwlock_tryrlock(handle->lock) != 0)
        return NULL;
    if (handle->session != NULL)
        return handle;
    enif_rwlock_runlock(handle->lock);
    return NULL;
}

/* With what the NIF returns. */
static ERL_NIF_TERM unuse(struct session_handle *handle, ERL_NIF_TERM term)
{
    enif_rwlock_runlock(handle->lock);
    return term;
}

/* --------------------------------------------------------- start and close -- */

static ERL_NIF_TERM start_session(ErlNifEnv *env, struct fp_session_start *start)
{
    struct session_handle *handle =
        enif_alloc_resource(fp_library(env)->session_type, sizeof *handle);
    char why[FP_PATH_BYTES + 256] = "";
    ERL_NIF_TERM ref = enif_make_resource(env, handle);
    int err = FP_ENOMEM;

    memset(handle, 0, sizeof *handle);
    enif_self(env, &handle->owner);
    handle->lock = enif_rwlock_create("flame_prof_session");
    start->options.owner = fp_library(env);
    start->options.notify = notify;
    start->options.arg = handle;
    enif_keep_resource(handle); /* the writer's */
    if (handle->lock != NULL)
        err = fp_session_start(&handle->session, &start->options, why, sizeof why);
    if (err != 0)
        enif_release_resource(handle);
    /* A dead owner gets no message: the session stops by itself. */
    else if (enif_monitor_process(env, handle, &handle->owner, &handle->monitor) != 0)
        fp_session_stop(handle->session);
    enif_release_resource(handle);
    return err == 0 ? fp_ok(env, ref) : fp_error_text(env, err, why);
}

FP_NIF(session_start)
{
    struct fp_session_start *start = calloc(1, sizeof *start);
    ERL_NIF_TERM term;
    char why[256];
    int err;

    if (start == NULL)
        return fp_error_text(env, FP_ENOMEM, "");
    fp_session_reap(fp_library(env));
    err = fp_session_start_read(env, argv[0], start, why, sizeof why);
    term = err == 0 ? start_session(env, start) : fp_error_text(env, err, why);
    free(start);
    return term;
}

FP_NIF(session_close)
{
    struct session_handle *handle = fp_get_object(env, argv[0], fp_library(env)->session_type);
    struct fp_session *session;

    if (handle == NULL)
        return enif_make_badarg(env);
    enif_rwlock_rwlock(handle->lock);
    session = handle->session;
    handle->session = NULL;
    enif_rwlock_rwunlock(handle->lock);
    if (session != NULL)
        fp_session_close(session);
    return fp_atom(env, "ok");
}

/* ---------------------------------------------------- a session that runs -- */

FP_NIF(session_flush)
{
    ERL_NIF_TERM error;
    struct session_handle *handle = use(env, argv[0], &error);
    uint64_t ticket;

    if (handle == NULL)
        return error;
    ticket = fp_session_flush(handle->session);
    return unuse(handle, ticket > 0 ? enif_make_uint64(env, ticket) : closed(env));
}

/* (Ref, Note): ok, or {error, closed | state}. */
FP_NIF(session_commit)
{
    struct session_handle *handle;
    char note[FP_NOTE_ROOM];
    ERL_NIF_TERM error;

    if (!fp_get_text(env, argv[1], note, sizeof note))
        return enif_make_badarg(env);
    handle = use(env, argv[0], &error);
    if (handle == NULL)
        return error;
    return unuse(handle, fp_result(env, fp_session_commit(handle->session, note)));
}

FP_NIF(session_stop)
{
    ERL_NIF_TERM error;
    struct session_handle *handle = use(env, argv[0], &error);

    if (handle == NULL)
        return error;
    fp_session_stop(handle->session);
    return unuse(handle, fp_atom(env, "ok"));
}

/* (Session, SchedulersOnline) -> ok */
FP_NIF(session_schedulers_online)
{
    struct session_handle *handle;
    ERL_NIF_TERM error;
    unsigned n;

    if (!enif_get_uint(env, argv[1], &n))
        return enif_make_badarg(env);
    handle = use(env, argv[0], &error);
    if (handle == NULL)
        return error;
    fp_session_set_schedulers_online(handle->session, n);
    return unuse(handle, fp_atom(env, "ok"));
}

FP_NIF(session_info)
{
    static const char *const states[] = {"running", "stopping", "stopped"};
    ERL_NIF_TERM map;
    struct session_handle *handle = use(env, argv[0], &map);
    struct fp_session_info info;

    if (handle == NULL)
        return map;
    info = fp_session_info(handle->session);
    map = enif_make_new_map(env);
    fp_map_put_atom(env, &map, "state", states[info.state]);
    fp_map_put_text(env, &map, "reads", info.reads);
    fp_map_put_u64(env, &map, "code_ranges_left_out", info.code_ranges_left_out);
    fp_map_put_u64(env, &map, "libraries_left_out", info.libraries_left_out);
    fp_map_put_text(env, &map, "path", info.path);
    for (enum fp_counter at = 0; at < FP_COUNTER_COUNT; at++)
        fp_map_put_u64(env, &map, fp_counters_name(at),
                       fp_counters_get(fp_session_counters(handle->session), at));
    return unuse(handle, map);
}

static int get_gauge(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_gauges *gauges)
{
    char name[FP_GAUGES_NAME_ROOM];
    const ERL_NIF_TERM *part;
    ErlNifSInt64 value;
    int size;

    return enif_get_tuple(env, term, &size, &part) && size == 2 &&
           enif_get_atom(env, part[0], name, sizeof name, ERL_NIF_LATIN1) &&
           enif_get_int64(env, part[1], &value) && fp_gauges_add(gauges, name, value) == 0;
}

/* (Session, [{Name, Integer}]) -> ok: of the node, for every flush until the
 * next call. */
FP_NIF(session_figures)
{
    ERL_NIF_TERM error, list = argv[1], head;
    struct session_handle *handle = use(env, argv[0], &error);
    struct fp_gauges *gauges;
    int valid = 1;

    if (handle == NULL)
        return error;
    gauges = calloc(1, sizeof *gauges);
    while (gauges != NULL && valid && enif_get_list_cell(env, list, &head, &list))
        valid = get_gauge(env, head, gauges);
    if (valid && gauges != NULL)
        fp_gauges_mailbox_put(fp_session_node(handle->session), gauges);
    else
        free(gauges);
    return unuse(handle, valid ? fp_atom(env, "ok") : enif_make_badarg(env));
}

/* ----------------------------------------------------- the native engine's -- */

/* {Pid, all | Status, pinned | selected}; the pid of a process of this node. */
static int get_pinned(ErlNifEnv *env, ERL_NIF_TERM term, uint64_t *word)
{
    const ERL_NIF_TERM *part;
    ErlNifPid pid;
    int size, status;

    if (!enif_get_tuple(env, term, &size, &part) || size != 3 ||
        !enif_get_local_pid(env, part[0], &pid) || !fp_get_status(env, part[1], &status))
        return 0;
    word[0] = pid.pid;
    word[1] = (uint64_t)(int64_t)status;
    word[2] = fp_is_atom(env, part[2], "selected") ? 1 : 0;
    return 1;
}

/* (Session, [{Pid, all | Status, pinned | selected}]) -> ok | {error, closed | state} */
FP_NIF(session_want)
{
    uint64_t words[FP_PINNED_MAX * FP_PINNED_WORDS];
    ERL_NIF_TERM error, list = argv[1], head;
    struct session_handle *handle;
    size_t n = 0;
    int err;

    for (; enif_get_list_cell(env, list, &head, &list); n++)
        if (n == FP_PINNED_MAX || !get_pinned(env, head, words + FP_PINNED_WORDS * n))
            return enif_make_badarg(env);
    handle = use(env, argv[0], &error);
    if (handle == NULL)
        return error;
    err = fp_session_pin(handle->session, words, n);
    return unuse(handle, err == FP_EINVAL ? enif_make_badarg(env) : fp_result(env, err));
}

/* (Session) -> [Pid] */
FP_NIF(session_selected)
{
    const size_t room = FP_TOP_MAX + FP_PINNED_MAX;
    ERL_NIF_TERM error, list = enif_make_list(env, 0);
    struct session_handle *handle = use(env, argv[0], &error);
    uint64_t *pid;
    size_t n = 0;

    if (handle == NULL)
        return error;
    pid = malloc(room * sizeof *pid);
    if (pid != NULL)
        n = fp_session_selected(handle->session, pid, room);
    while (n > 0)
        list = enif_make_list_cell(env, pid[--n], list);
    free(pid);
    return unuse(handle, list);
}

/* ------------------------------------------------- the portable engine's -- */

/* (Session, Items) -> {Taken, Dropped} of this call; samples that came as lost
 * count in both. badarg at the first item that makes no sense. */
FP_NIF(session_push)
{
    ERL_NIF_TERM error, list = argv[1], head;
    struct session_handle *handle = use(env, argv[0], &error);
    struct fp_record_encoder *to;
    const struct fp_counters *counters;
    uint64_t taken, dropped;
    int valid = 1;

    if (handle == NULL)
        return error;
    to = fp_session_enter(handle->session);
    if (to == NULL)
        return unuse(handle, closed(env));
    counters = fp_session_counters(handle->session);
    taken = fp_counters_get(counters, FP_COUNTER_taken);
    dropped = fp_counters_get(counters, FP_COUNTER_dropped);
    while (valid && enif_get_list_cell(env, list, &head, &list))
        valid = fp_portable_item_put(env, handle->session, to, head);
    taken = fp_counters_get(counters, FP_COUNTER_taken) - taken;
    dropped = fp_counters_get(counters, FP_COUNTER_dropped) - dropped;
    fp_session_leave(handle->session);
    if (!valid || !enif_is_empty_list(env, list))
        return unuse(handle, enif_make_badarg(env));
    return unuse(handle, enif_make_tuple2(env, enif_make_uint64(env, taken),
                                          enif_make_uint64(env, dropped)));
}
