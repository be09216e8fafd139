/* session_nif.c - session handles. The process that starts a session owns it; the owner's exit
 * stops the session. The writer thread keeps the handle until the session has stopped: its messages
 * name the handle's reference. */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "agent_nif/agent.h"
#include "agent_nif/portable_items.h"
#include "agent_nif/session_options.h"
#include "base/error.h"
#include "session/sampler.h"
#include "session/weight_encoder.h"
#include "terms/terms.h"

struct session_handle {
    ErlNifRWLock *lock;         /* of `session`: write-locked by session_close, else only tried */
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

/* WRITER THREAD. {flame_prof_nif, Ref, Event} to the owner. */
static void notify(void *arg, enum fp_session_event event, uint64_t ticket, int err,
                   const char *text)
{
    struct session_handle *handle = arg;
    ErlNifEnv *env = enif_alloc_env();

    if (env != NULL) {
        enif_send(NULL, &handle->owner, env,
                  enif_make_tuple3(env, fp_atom(env, "flame_prof_nif"),
                                   enif_make_resource(env, handle),
                                   event_term(env, event, ticket, err, text)));
        enif_free_env(env);
    }
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
    if (enif_rwlock_tryrlock(handle->lock) != 0) /* session_close stops the session */
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

/* A NIF's body, with the open session of argv[0] read-locked. */
typedef ERL_NIF_TERM session_nif(ErlNifEnv *env, struct fp_session *session,
                                 const ERL_NIF_TERM argv[]);

/* {error, closed} during a close, too: a normal scheduler does not wait. */
static ERL_NIF_TERM with_session(ErlNifEnv *env, const ERL_NIF_TERM argv[], session_nif *nif)
{
    struct session_handle *handle = fp_get_object(env, argv[0], fp_agent(env)->session_type);
    ERL_NIF_TERM term;

    if (handle == NULL)
        return enif_make_badarg(env);
    if (enif_rwlock_tryrlock(handle->lock) != 0)
        return closed(env);
    term = handle->session == NULL ? closed(env) : nif(env, handle->session, argv);
    enif_rwlock_runlock(handle->lock);
    return term;
}

#define SESSION_NIF(nif, body)                                                                     \
    ERL_NIF_TERM nif(FP_NIF_ARGS)                                                                  \
    {                                                                                              \
        return with_session(env, argv, body);                                                      \
    }

/* --------------------------------------------------------- start and close -- */

static ERL_NIF_TERM start_session(ErlNifEnv *env, struct fp_session_start *start)
{
    struct session_handle *handle =
        enif_alloc_resource(fp_agent(env)->session_type, sizeof *handle);
    char why[FP_PATH_BYTES + 256] = "";
    ERL_NIF_TERM ref = enif_make_resource(env, handle);
    int err = FP_ENOMEM;

    memset(handle, 0, sizeof *handle);
    enif_self(env, &handle->owner);
    handle->lock = enif_rwlock_create("flame_prof_session");
    start->options.owner = fp_agent(env);
    start->options.notify = notify;
    start->options.arg = handle;
    enif_keep_resource(handle); /* the writer thread's: notify() releases it */
    if (handle->lock != NULL)
        err = fp_session_start(&handle->session, &start->options, why, sizeof why);
    if (err != 0)
        enif_release_resource(handle);
    /* The owner has exited already. */
    else if (enif_monitor_process(env, handle, &handle->owner, &handle->monitor) != 0)
        fp_session_stop(handle->session);
    enif_release_resource(handle);
    return err == 0 ? fp_ok(env, ref) : fp_error_text(env, err, why);
}

ERL_NIF_TERM fp_nif_session_start(FP_NIF_ARGS)
{
    struct fp_session_start *start = calloc(1, sizeof *start);
    ERL_NIF_TERM term;
    char why[256];
    int err;

    if (start == NULL)
        return fp_error_text(env, FP_ENOMEM, "");
    fp_session_reap(fp_agent(env));
    err = fp_session_start_read(env, argv[0], start, why, sizeof why);
    term = err == 0 ? start_session(env, start) : fp_error_text(env, err, why);
    free(start);
    return term;
}

ERL_NIF_TERM fp_nif_session_close(FP_NIF_ARGS)
{
    struct session_handle *handle = fp_get_object(env, argv[0], fp_agent(env)->session_type);
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

static ERL_NIF_TERM flush(ErlNifEnv *env, struct fp_session *session,
                          __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    uint64_t ticket = fp_session_flush(session);

    return ticket > 0 ? enif_make_uint64(env, ticket) : closed(env);
}

SESSION_NIF(fp_nif_session_flush, flush)

static ERL_NIF_TERM follow(ErlNifEnv *env, struct fp_session *session,
                           __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    fp_session_follow(session);
    return fp_atom(env, "ok");
}

/* Session -> ok: samples reach the file each second, for some seconds. */
SESSION_NIF(fp_nif_session_follow, follow)

static ERL_NIF_TERM commit(ErlNifEnv *env, struct fp_session *session,
                           __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    char note[FP_NOTE_ROOM];

    if (!fp_get_text(env, argv[1], note, sizeof note))
        return enif_make_badarg(env);
    return fp_result(env, fp_session_commit(session, note));
}

/* (Session, Note) -> ok | {error, closed | state} */
SESSION_NIF(fp_nif_session_commit, commit)

static ERL_NIF_TERM stop(ErlNifEnv *env, struct fp_session *session,
                         __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    fp_session_stop(session);
    return fp_atom(env, "ok");
}

SESSION_NIF(fp_nif_session_stop, stop)

static ERL_NIF_TERM schedulers_online(ErlNifEnv *env, struct fp_session *session,
                                      __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    unsigned n;

    if (!enif_get_uint(env, argv[1], &n))
        return enif_make_badarg(env);
    fp_session_set_schedulers_online(session, n);
    return fp_atom(env, "ok");
}

/* (Session, SchedulersOnline) -> ok */
SESSION_NIF(fp_nif_session_schedulers_online, schedulers_online)

static ERL_NIF_TERM info(ErlNifEnv *env, struct fp_session *session,
                         __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    static const char *const states[] = {"running", "stopping", "stopped"};
    struct fp_session_info info = fp_session_info(session);
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "state", fp_atom(env, states[info.state]));
    fp_map_put(env, &map, "reads", fp_text(env, info.reads));
    fp_map_put_u64(env, &map, "code_ranges_left_out", info.code_ranges_left_out);
    fp_map_put_u64(env, &map, "libraries_left_out", info.libraries_left_out);
    fp_map_put(env, &map, "path", fp_text(env, info.path));
    for (enum fp_counter at = 0; at < FP_COUNTER_COUNT; at++)
        fp_map_put_u64(env, &map, fp_counters_name(at),
                       fp_counters_get(fp_session_counters(session), at));
    return map;
}

SESSION_NIF(fp_nif_session_info, info)

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

static ERL_NIF_TERM node_metrics(ErlNifEnv *env, struct fp_session *session,
                                 __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    struct fp_gauges *gauges = calloc(1, sizeof *gauges);
    ERL_NIF_TERM list = argv[1], head;

    while (gauges != NULL && enif_get_list_cell(env, list, &head, &list)) {
        if (get_gauge(env, head, gauges))
            continue;
        free(gauges);
        return enif_make_badarg(env);
    }
    if (gauges != NULL)
        fp_gauges_mailbox_put(fp_session_node(session), gauges);
    return fp_atom(env, "ok");
}

/* (Session, [{Name, Integer}]) -> ok: written at every flush until the next call. */
SESSION_NIF(fp_nif_session_node_metrics, node_metrics)

/* --------------------------------------------------------- native engine -- */

/* {Pid, all | Status, pinned | selected}, with a local pid */
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

static ERL_NIF_TERM pin(ErlNifEnv *env, struct fp_session *session,
                        __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    uint64_t words[FP_PINNED_MAX * FP_PINNED_WORDS];
    ERL_NIF_TERM list = argv[1], head;
    size_t n = 0;
    int err;

    for (; enif_get_list_cell(env, list, &head, &list); n++)
        if (n == FP_PINNED_MAX || !get_pinned(env, head, words + FP_PINNED_WORDS * n))
            return enif_make_badarg(env);
    err = fp_session_pin(session, words, n);
    return err == FP_EINVAL ? enif_make_badarg(env) : fp_result(env, err);
}

/* (Session, [{Pid, all | Status, pinned | selected}]) -> ok | {error, closed | state} */
SESSION_NIF(fp_nif_session_pin, pin)

static ERL_NIF_TERM selected(ErlNifEnv *env, struct fp_session *session,
                             __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    const size_t room = FP_TOP_MAX + FP_GROWERS_MAX + FP_PINNED_MAX;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t *pid = malloc(room * sizeof *pid);
    size_t n = pid == NULL ? 0 : fp_session_selected(session, pid, room);

    while (n > 0)
        list = enif_make_list_cell(env, pid[--n], list);
    free(pid);
    return list;
}

/* (Session) -> [Pid] */
SESSION_NIF(fp_nif_session_selected, selected)

/* ------------------------------------------------------- portable engine -- */

static ERL_NIF_TERM push(ErlNifEnv *env, struct fp_session *session,
                         __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    const struct fp_counters *counters = fp_session_counters(session);
    struct fp_record_encoder *encoder = fp_session_enter(session);
    ERL_NIF_TERM list = argv[1], head;
    uint64_t taken, dropped;
    int valid = 1;

    if (encoder == NULL)
        return closed(env);
    taken = fp_counters_get(counters, FP_COUNTER_attempted);
    dropped = fp_counters_get(counters, FP_COUNTER_dropped);
    while (valid && enif_get_list_cell(env, list, &head, &list))
        valid = fp_portable_item_put(env, session, encoder, head);
    taken = fp_counters_get(counters, FP_COUNTER_attempted) - taken;
    dropped = fp_counters_get(counters, FP_COUNTER_dropped) - dropped;
    fp_session_leave(session);
    if (!valid || !enif_is_empty_list(env, list))
        return enif_make_badarg(env);
    return enif_make_tuple2(env, enif_make_uint64(env, taken), enif_make_uint64(env, dropped));
}

/* (Session, Items) -> {Taken, Dropped} of this call; `lost` items count in both. badarg at the
 * first malformed item. */
SESSION_NIF(fp_nif_session_push, push)

/* ------------------------------------------------------------------- words -- */

static ERL_NIF_TERM weights(ErlNifEnv *env, struct fp_session *session,
                            __attribute__((unused)) const ERL_NIF_TERM argv[])
{
    struct fp_weight_encoder *encoder;
    ErlNifBinary binary;
    size_t taken;
    int err;

    if (!enif_inspect_binary(env, argv[1], &binary))
        return enif_make_badarg(env);
    encoder = fp_session_enter_weights(session);
    if (encoder == NULL)
        return closed(env);
    err = fp_weight_encoder_put_bytes(encoder, binary.data, binary.size, &taken);
    fp_session_leave(session);
    return err == FP_EINVAL ? enif_make_badarg(env) : fp_ok(env, enif_make_uint64(env, taken));
}

/* (Session, Weights) -> {ok, Bytes} | {error, closed}: so many bytes were taken (format/weight.h);
 * the others come again once the writer has made room. badarg: they are no weights, or no session
 * of them. */
SESSION_NIF(fp_nif_session_weights, weights)
