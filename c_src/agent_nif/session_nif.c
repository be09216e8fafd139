/*
 * Sessions from Erlang's side: a reference whose owner is the process that
 * started it. The owner's death stops the session.
 *
 * The writer thread holds a reference to the handle until the session has
 * stopped, so that its messages always have somebody to name.
 */
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
    /* Read-locked by who uses `session`, write-locked to take it away. On
     * normal schedulers only tried. */
    ErlNifRWLock *lock;
    struct fp_session *session; /* NULL: closed */
    ErlNifPid owner;
    ErlNifMonitor monitor;
};

/* ------------------------------------------------------ threads to Erlang -- */

static ERL_NIF_TERM result_term(ErlNifEnv *env, int err, const char *why)
{
    if (err == 0)
        return fp_atom(env, "ok");
    return fp_error(env, enif_make_tuple2(env, fp_atom(env, fp_err_name(err)),
                                          fp_binary(env, why, strlen(why))));
}

static ERL_NIF_TERM event_term(ErlNifEnv *env, enum fp_session_event event,
                               uint64_t ticket, int err, const char *text)
{
    static const char *const file_events[] = {
        [FP_SESSION_FILE_BEGUN] = "begun",
        [FP_SESSION_FILE_FINISHED] = "finished",
        [FP_SESSION_FILE_REMOVED] = "removed",
        [FP_SESSION_FILE_FAILED] = "failed",
        [FP_SESSION_FILE_HEALED] = "healed",
    };

    if (event == FP_SESSION_FLUSHED)
        return enif_make_tuple3(env, fp_atom(env, "flushed"),
                                enif_make_uint64(env, ticket),
                                result_term(env, err, text));
    if (event == FP_SESSION_STOPPED)
        return enif_make_tuple2(env, fp_atom(env, "stopped"),
                                result_term(env, err, text));
    return enif_make_tuple3(env, fp_atom(env, "file"),
                            fp_atom(env, file_events[event]),
                            fp_binary(env, text, strlen(text)));
}

/* {flame_prof_nif, Ref, Event} to the owner. */
static void send_event(struct session_handle *handle,
                       enum fp_session_event event, uint64_t ticket, int err,
                       const char *text)
{
    ErlNifEnv *env = enif_alloc_env();

    if (env == NULL)
        return;
    enif_send(NULL, &handle->owner, env,
              enif_make_tuple3(env, fp_atom(env, "flame_prof_nif"),
                               enif_make_resource(env, handle),
                               event_term(env, event, ticket, err, text)));
    enif_free_env(env);
}

/* WRITER THREAD. */
static void notify(void *arg, enum fp_session_event event, uint64_t ticket,
                   int err, const char *text)
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

static void owner_down(ErlNifEnv *env, void *object, ErlNifPid *pid,
                       ErlNifMonitor *monitor)
{
    struct session_handle *handle = object;

    (void)env;
    (void)pid;
    (void)monitor;
    /* Busy: it is being closed. */
    if (enif_rwlock_tryrlock(handle->lock) != 0)
        return;
    if (handle->session != NULL)
        fp_session_stop(handle->session);
    enif_rwlock_runlock(handle->lock);
}

const ErlNifResourceTypeInit fp_session_type_init = {.dtor = destroy,
                                                     .down = owner_down};

static struct session_handle *get_handle(ErlNifEnv *env, ERL_NIF_TERM term)
{
    struct session_handle *handle;

    if (!enif_get_resource(env, term, fp_library(env)->session_type,
                           (void **)&handle))
        return NULL;
    return handle;
}

/* The open session of a reference, for the time until unuse(); NULL and *error
 * set where there is none. Never waits. */
static struct fp_session *use(ErlNifEnv *env, struct session_handle *handle,
                              ERL_NIF_TERM *error)
{
    *error = fp_error(env, fp_atom(env, "closed"));
    if (handle == NULL) {
        *error = enif_make_badarg(env);
        return NULL;
    }
    if (enif_rwlock_tryrlock(handle->lock) != 0)
        return NULL;
    if (handle->session == NULL)
        enif_rwlock_runlock(handle->lock);
    return handle->session;
}

static void unuse(struct session_handle *handle)
{
    enif_rwlock_runlock(handle->lock);
}

/* ----------------------------------------------------------------- start -- */

static ERL_NIF_TERM why_term(ErlNifEnv *env, int err, const char *why)
{
    return fp_error(env, enif_make_tuple2(env, fp_atom(env, fp_err_name(err)),
                                          fp_binary(env, why, strlen(why))));
}

static ERL_NIF_TERM start_session(ErlNifEnv *env,
                                  struct fp_session_start *start)
{
    struct session_handle *handle =
        enif_alloc_resource(fp_library(env)->session_type, sizeof *handle);
    char why[FP_PATH_BYTES + 256] = "";
    ERL_NIF_TERM ref;
    int err;

    memset(handle, 0, sizeof *handle);
    handle->lock = enif_rwlock_create("flame_prof_session");
    if (handle->lock == NULL) {
        enif_release_resource(handle);
        return why_term(env, FP_ENOMEM, fp_err_text(FP_ENOMEM));
    }
    enif_self(env, &handle->owner);
    ref = enif_make_resource(env, handle);
    start->options.owner = fp_library(env);
    start->options.notify = notify;
    start->options.arg = handle;
    enif_keep_resource(handle); /* the writer's */
    err = fp_session_start(&handle->session, &start->options, why, sizeof why);
    if (err != 0) {
        enif_release_resource(handle);
        enif_release_resource(handle);
        return why_term(env, err, why);
    }
    enif_release_resource(handle);
    /* Dead already: then nobody is told, and it stops by itself. */
    if (enif_monitor_process(env, handle, &handle->owner, &handle->monitor) !=
        0)
        fp_session_stop(handle->session);
    return enif_make_tuple2(env, fp_atom(env, "ok"), ref);
}

ERL_NIF_TERM fp_nif_session_start(ErlNifEnv *env, int argc,
                                  const ERL_NIF_TERM argv[])
{
    struct fp_session_start *start = calloc(1, sizeof *start);
    ERL_NIF_TERM answer;
    int err;

    (void)argc;
    if (start == NULL)
        return why_term(env, FP_ENOMEM, fp_err_text(FP_ENOMEM));
    fp_session_reap(fp_library(env));
    err = fp_session_start_read(env, argv[0], start);
    if (err == FP_EINVAL)
        answer = enif_make_badarg(env);
    else if (err != 0)
        answer = why_term(env, err, "the layout has not been found yet");
    else
        answer = start_session(env, start);
    free(start);
    return answer;
}

/* ------------------------------------------------------- flush, stop, close */

ERL_NIF_TERM fp_nif_session_flush(ErlNifEnv *env, int argc,
                                  const ERL_NIF_TERM argv[])
{
    struct session_handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer;
    struct fp_session *session = use(env, handle, &answer);
    uint64_t ticket;

    (void)argc;
    if (session == NULL)
        return answer;
    ticket = fp_session_flush(session);
    unuse(handle);
    return ticket > 0 ? enif_make_uint64(env, ticket)
                      : fp_error(env, fp_atom(env, "closed"));
}

/* (Ref, Note): ok, or {error, closed | state}. */
ERL_NIF_TERM fp_nif_session_commit(ErlNifEnv *env, int argc,
                                   const ERL_NIF_TERM argv[])
{
    struct session_handle *handle = get_handle(env, argv[0]);
    char note[FP_NOTE_ROOM];
    ERL_NIF_TERM answer;
    struct fp_session *session;
    int err;

    (void)argc;
    if (!fp_get_text(env, argv[1], note, sizeof note))
        return enif_make_badarg(env);
    session = use(env, handle, &answer);
    if (session == NULL)
        return answer;
    err = fp_session_commit(session, note);
    unuse(handle);
    return err == 0 ? fp_atom(env, "ok")
                    : fp_error(env, fp_atom(env, fp_err_name(err)));
}

ERL_NIF_TERM fp_nif_session_stop(ErlNifEnv *env, int argc,
                                 const ERL_NIF_TERM argv[])
{
    struct session_handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer;
    struct fp_session *session = use(env, handle, &answer);

    (void)argc;
    if (session == NULL)
        return answer;
    fp_session_stop(session);
    unuse(handle);
    return fp_atom(env, "ok");
}

ERL_NIF_TERM fp_nif_session_close(ErlNifEnv *env, int argc,
                                  const ERL_NIF_TERM argv[])
{
    struct session_handle *handle = get_handle(env, argv[0]);
    struct fp_session *session;

    (void)argc;
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

/* (Session, SchedulersOnline) -> ok */
ERL_NIF_TERM fp_nif_session_schedulers_online(ErlNifEnv *env, int argc,
                                              const ERL_NIF_TERM argv[])
{
    struct session_handle *handle = get_handle(env, argv[0]);
    struct fp_session *session;
    ERL_NIF_TERM answer;
    unsigned n;

    (void)argc;
    if (!enif_get_uint(env, argv[1], &n))
        return enif_make_badarg(env);
    session = use(env, handle, &answer);
    if (session == NULL)
        return answer;
    fp_session_set_schedulers_online(session, n);
    unuse(handle);
    return fp_atom(env, "ok");
}

/* ------------------------------------------------------------------ info -- */

ERL_NIF_TERM fp_nif_session_info(ErlNifEnv *env, int argc,
                                 const ERL_NIF_TERM argv[])
{
    static const char *const states[] = {"running", "stopping", "stopped"};
    struct session_handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM map;
    struct fp_session *session = use(env, handle, &map);
    const struct fp_counters *stats;
    const char *path;

    (void)argc;
    if (session == NULL)
        return map;
    map = enif_make_new_map(env);
    stats = fp_session_stats(session);
    path = fp_session_path(session);
    fp_map_put(env, &map, "state",
               fp_atom(env, states[fp_session_state(session)]));
    fp_map_put(env, &map, "reads",
               fp_binary(env, fp_session_reads(session),
                         strlen(fp_session_reads(session))));
    fp_map_put(env, &map, "path", fp_binary(env, path, strlen(path)));
    for (int stat = 0; stat < FP_COUNTER_COUNT; stat++)
        fp_map_put(env, &map, fp_counters_name((enum fp_counter)stat),
                   enif_make_uint64(
                       env, fp_counters_get(stats, (enum fp_counter)stat)));
    unuse(handle);
    return map;
}

/* ----------------------------------------------------------- of the node -- */

static int add_figure(ErlNifEnv *env, ERL_NIF_TERM term,
                      struct fp_gauges *figures)
{
    char name[FP_GAUGES_NAME_ROOM];
    const ERL_NIF_TERM *part;
    ErlNifSInt64 value;
    int size;

    return enif_get_tuple(env, term, &size, &part) && size == 2 &&
           enif_get_atom(env, part[0], name, sizeof name, ERL_NIF_LATIN1) &&
           enif_get_int64(env, part[1], &value) &&
           fp_gauges_add(figures, name, value) == 0;
}

/* [{Name, Integer}]: for the next flush, and every later one until others
 * come. */
ERL_NIF_TERM fp_nif_session_figures(ErlNifEnv *env, int argc,
                                    const ERL_NIF_TERM argv[])
{
    struct session_handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer, list = argv[1], head;
    struct fp_session *session = use(env, handle, &answer);
    struct fp_gauges *figures;
    int valid = 1;

    (void)argc;
    if (session == NULL)
        return answer;
    figures = calloc(1, sizeof *figures);
    while (figures != NULL && valid &&
           enif_get_list_cell(env, list, &head, &list))
        valid = add_figure(env, head, figures);
    if (valid && figures != NULL)
        fp_gauges_mailbox_put(fp_session_node(session), figures);
    else
        free(figures);
    unuse(handle);
    return valid ? fp_atom(env, "ok") : enif_make_badarg(env);
}

/* ---------------------------------------------- whom it looks at, natively -- */

/* {Pid, all | Status, named | chosen}; the pid of a process of this node. */
static int get_wanted(ErlNifEnv *env, ERL_NIF_TERM term, uint64_t *word)
{
    const ERL_NIF_TERM *part;
    ErlNifPid pid;
    int size, status;

    if (!enif_get_tuple(env, term, &size, &part) || size != 3 ||
        !enif_get_local_pid(env, part[0], &pid) ||
        !fp_get_status(env, part[1], &status))
        return 0;
    word[0] = pid.pid;
    word[1] = (uint64_t)(int64_t)status;
    word[2] = enif_is_identical(part[2], fp_atom(env, "chosen")) ? 1 : 0;
    return 1;
}

/* (Session, [{Pid, all | Status, named | chosen}]) -> ok | {error, closed | state} */
ERL_NIF_TERM fp_nif_session_want(ErlNifEnv *env, int argc,
                                 const ERL_NIF_TERM argv[])
{
    uint64_t words[FP_PINNED_MAX * FP_PINNED_WORDS];
    struct session_handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer, list = argv[1], head;
    struct fp_session *session;
    size_t n = 0;
    int err;

    (void)argc;
    for (; enif_get_list_cell(env, list, &head, &list); n++)
        if (n == FP_PINNED_MAX ||
            !get_wanted(env, head, words + FP_PINNED_WORDS * n))
            return enif_make_badarg(env);
    session = use(env, handle, &answer);
    if (session == NULL)
        return answer;
    err = fp_session_pin(session, words, n);
    unuse(handle);
    if (err == FP_EINVAL)
        return enif_make_badarg(env);
    return err == 0 ? fp_atom(env, "ok")
                    : fp_error(env, fp_atom(env, fp_err_name(err)));
}

/* (Session) -> [Pid] */
ERL_NIF_TERM fp_nif_session_chosen(ErlNifEnv *env, int argc,
                                   const ERL_NIF_TERM argv[])
{
    struct session_handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer, list = enif_make_list(env, 0);
    struct fp_session *session = use(env, handle, &answer);
    uint64_t *pid;
    size_t n;

    (void)argc;
    if (session == NULL)
        return answer;
    pid = malloc((FP_TOP_MAX + FP_PINNED_MAX) * sizeof *pid);
    n = pid == NULL
            ? 0
            : fp_session_selected(session, pid, FP_TOP_MAX + FP_PINNED_MAX);
    unuse(handle);
    while (n > 0)
        list = enif_make_list_cell(env, pid[--n], list);
    free(pid);
    return list;
}

/* ------------------------------------------------- the portable engine's -- */

/* All items up to the first that makes no sense, which is a badarg. Answers
 * {Taken, Dropped} of this call, what came as lost counted in both. */
ERL_NIF_TERM fp_nif_session_push(ErlNifEnv *env, int argc,
                                 const ERL_NIF_TERM argv[])
{
    struct session_handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer, list = argv[1], head;
    struct fp_session *session = use(env, handle, &answer);
    struct fp_record_encoder *to;
    const struct fp_counters *stats;
    uint64_t taken, dropped;
    int valid = 1;

    (void)argc;
    if (session == NULL)
        return answer;
    to = fp_session_enter(session);
    if (to == NULL) {
        unuse(handle);
        return fp_error(env, fp_atom(env, "closed"));
    }
    stats = fp_session_stats(session);
    taken = fp_counters_get(stats, FP_COUNTER_taken);
    dropped = fp_counters_get(stats, FP_COUNTER_dropped);
    while (valid && enif_get_list_cell(env, list, &head, &list))
        valid = fp_record_encoder_take(env, session, to, head);
    taken = fp_counters_get(stats, FP_COUNTER_taken) - taken;
    dropped = fp_counters_get(stats, FP_COUNTER_dropped) - dropped;
    fp_session_leave(session);
    unuse(handle);
    if (!valid || !enif_is_empty_list(env, list))
        return enif_make_badarg(env);
    return enif_make_tuple2(env, enif_make_uint64(env, taken),
                            enif_make_uint64(env, dropped));
}
