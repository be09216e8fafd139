/*
 * Sessions from Erlang's side: a reference whose owner is the process that
 * started it. The owner's death stops the session.
 *
 * The writer thread holds a reference to the handle until the session has
 * stopped, so that its messages always have somebody to name.
 */
#include "../session.h"

#include <stdlib.h>
#include <string.h>

#include "../core/error.h"
#include "../core/metric.h"
#include "../sampler/sampler.h"
#include "../selector.h"
#include "library.h"
#include "terms.h"

struct handle {
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
static void send_event(struct handle *handle, enum fp_session_event event,
                       uint64_t ticket, int err, const char *text)
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
    struct handle *handle = arg;

    send_event(handle, event, ticket, err, text);
    if (event == FP_SESSION_STOPPED)
        enif_release_resource(handle);
}

/* --------------------------------------------------------------- handles -- */

static void destroy(ErlNifEnv *env, void *object)
{
    struct handle *handle = object;

    (void)env;
    if (handle->session != NULL)
        fp_session_abandon(handle->session);
    if (handle->lock != NULL)
        enif_rwlock_destroy(handle->lock);
}

static void owner_down(ErlNifEnv *env, void *object, ErlNifPid *pid,
                       ErlNifMonitor *monitor)
{
    struct handle *handle = object;

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

static struct handle *get_handle(ErlNifEnv *env, ERL_NIF_TERM term)
{
    struct handle *handle;

    if (!enif_get_resource(env, term, fp_library(env)->session_type,
                           (void **)&handle))
        return NULL;
    return handle;
}

/* The open session of a reference, for the time until unuse(); NULL and *error
 * set where there is none. Never waits. */
static struct fp_session *use(ErlNifEnv *env, struct handle *handle,
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

static void unuse(struct handle *handle)
{
    enif_rwlock_runlock(handle->lock);
}

/* ----------------------------------------------------------------- start -- */

#define PATH_ROOM 4096

struct start {
    struct fp_session_options options;
    struct fp_layout layout;
    uint64_t excluded[FP_EXCLUDED_MAX];
    char directory[PATH_ROOM], note[FP_NOTE_ROOM];
};

static int get_excluded(ErlNifEnv *env, ERL_NIF_TERM list, struct start *start)
{
    ERL_NIF_TERM head;
    size_t n = 0;

    while (enif_get_list_cell(env, list, &head, &list)) {
        if (n == FP_EXCLUDED_MAX || !enif_is_pid(env, head))
            return 0;
        start->excluded[n++] = head;
    }
    start->options.excluded = start->excluded;
    start->options.excluded_n = n;
    return 1;
}

static int get_status(ErlNifEnv *env, ERL_NIF_TERM term, int *status)
{
    *status = -1;
    if (enif_is_identical(term, fp_atom(env, "all")))
        return 1;
    for (int i = 0; i < FP_STATUS_free; i++) {
        if (enif_is_identical(term, fp_atom(env, fp_status_name(i)))) {
            *status = i;
            return 1;
        }
    }
    return 0;
}

/* For the tests of wrong layouts: #{Field => Offset} instead of what was
 * found. Only this session's copy is changed. */
static int patch_layout(ErlNifEnv *env, ERL_NIF_TERM map,
                        struct fp_layout *layout)
{
    ERL_NIF_TERM patch, key, value;
    ErlNifMapIterator at;
    unsigned offset;
    char name[64];
    int size, field;

    if (!fp_map_get(env, map, "layout_patch", &patch))
        return 1;
    if (!enif_map_iterator_create(env, patch, &at, ERL_NIF_MAP_ITERATOR_FIRST))
        return 0;
    while (enif_map_iterator_get_pair(env, &at, &key, &value)) {
        size = enif_get_atom(env, key, name, sizeof name, ERL_NIF_LATIN1);
        field = size > 0 ? fp_field_find(name, (size_t)size - 1) : -1;
        if (field < 0 || !enif_get_uint(env, value, &offset) ||
            offset > layout->snapshot_size - 24u)
            break;
        layout->release.offset[field] = (uint16_t)offset;
        enif_map_iterator_next(env, &at);
    }
    field = enif_map_iterator_is_tail(env, &at);
    enif_map_iterator_destroy(env, &at);
    return field;
}

static int get_mode(ErlNifEnv *env, ERL_NIF_TERM map, uint8_t *mode)
{
    ERL_NIF_TERM term;

    if (!fp_map_get(env, map, "mode", &term))
        return 0;
    *mode = enif_is_identical(term, fp_atom(env, "schedulers"))
                ? FP_MODE_SCHEDULERS
                : FP_MODE_PROCESSES;
    return *mode == FP_MODE_SCHEDULERS ||
           enif_is_identical(term, fp_atom(env, "processes"));
}

static int get_sync(ErlNifEnv *env, ERL_NIF_TERM map, enum fp_sync *sync)
{
    static const char *const names[] = {[FP_SYNC_NONE] = "none",
                                        [FP_SYNC_FLUSH] = "flush",
                                        [FP_SYNC_CLOSE] = "close"};
    ERL_NIF_TERM term;

    if (!fp_map_get(env, map, "sync", &term))
        return 0;
    for (int i = FP_SYNC_NONE; i <= FP_SYNC_CLOSE; i++) {
        if (enif_is_identical(term, fp_atom(env, names[i]))) {
            *sync = (enum fp_sync)i;
            return 1;
        }
    }
    return 0;
}

static int get_files(ErlNifEnv *env, ERL_NIF_TERM map, struct start *start)
{
    struct fp_sink_options *files = &start->options.files;
    int is_zst;

    if (!fp_map_get_text(env, map, "directory", start->directory,
                         sizeof start->directory) ||
        !fp_map_get_bool(env, map, "compress", &is_zst) ||
        !get_sync(env, map, &files->sync) ||
        !fp_map_get_u32(env, map, "flush_close_max", &files->flush_close_max) ||
        !fp_map_get_u64(env, map, "files_max", &files->files_max) ||
        !fp_map_get_u64(env, map, "file_max_bytes", &files->file_max_bytes) ||
        !fp_map_get_u64(env, map, "total_max_bytes", &files->total_max_bytes) ||
        !fp_map_get_u32(env, map, "hold_ms", &files->hold_ms) ||
        !fp_map_get_text(env, map, "note", start->note, sizeof start->note))
        return 0;
    start->options.note = start->note;
    files->is_zst = is_zst;
    files->directory = start->directory;
    return 1;
}

/* {Metric, IsDelta, Top, EveryPasses} */
static int get_rule(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_rule *rule)
{
    const ERL_NIF_TERM *part;
    int size;

    if (!enif_get_tuple(env, term, &size, &part) || size != 4 ||
        !enif_get_uint(env, part[2], &rule->top) ||
        !enif_get_uint(env, part[3], &rule->every))
        return 0;
    rule->is_delta = (uint8_t)enif_is_identical(part[1], fp_atom(env, "true"));
    for (uint8_t i = 0; i < FP_METRIC_COUNT; i++) {
        rule->metric = i;
        if (enif_is_identical(part[0], fp_atom(env, fp_metric_name(i))))
            return 1;
    }
    return 0;
}

static int get_rules(ErlNifEnv *env, ERL_NIF_TERM map,
                     struct fp_session_options *options)
{
    ERL_NIF_TERM list, head;

    if (!fp_map_get(env, map, "rules", &list))
        return 0;
    while (enif_get_list_cell(env, list, &head, &list))
        if (options->rules == FP_RULES_MAX ||
            !get_rule(env, head, &options->rule[options->rules++]))
            return 0;
    return 1;
}

static int get_options(ErlNifEnv *env, ERL_NIF_TERM map, struct start *start)
{
    struct fp_session_options *options = &start->options;
    ERL_NIF_TERM status, excluded;
    uint32_t ring_bytes, text_bytes;

    if (!get_files(env, map, start) ||
        !fp_map_get_u32(env, map, "sample_interval_us",
                        &options->sample_interval_us) ||
        !fp_map_get_u32(env, map, "cpu_permille", &options->cpu_permille) ||
        !fp_map_get_u32(env, map, "flush_interval_ms",
                        &options->flush_interval_ms) ||
        !fp_map_get_bool(env, map, "flatten_recursive",
                         &options->flatten_recursive) ||
        !fp_map_get_bool(env, map, "merge_idle", &options->merge_idle) ||
        !get_rules(env, map, options) ||
        !fp_map_get_u32(env, map, "select_interval_ms",
                        &options->select_interval_ms) ||
        !fp_map_get_u32(env, map, "ring_bytes", &ring_bytes) ||
        !fp_map_get_u32(env, map, "text_bytes", &text_bytes) ||
        !fp_map_get_u32(env, map, "os_pid", &options->os_pid) ||
        !fp_map_get_u32(env, map, "pid_number_bits",
                        &options->pid_number_bits) ||
        options->pid_number_bits > 28 || !get_mode(env, map, &options->mode) ||
        !fp_map_get_bool(env, map, "running_stacks",
                         &options->running_stacks) ||
        !fp_map_get_bool(env, map, "native_frames", &options->native_frames) ||
        !fp_map_get_u32(env, map, "schedulers_online",
                        &options->schedulers_online) ||
        !fp_map_get(env, map, "status", &status) ||
        !get_status(env, status, &options->status) ||
        !fp_map_get(env, map, "exclude", &excluded) ||
        !get_excluded(env, excluded, start))
        return 0;
    options->ring_bytes = ring_bytes;
    options->text_bytes = text_bytes;
    return 1;
}

/* The native engine's part of the options. 0, FP_EINVAL, or FP_ESTATE when
 * there is no layout. */
static int choose_engine(ErlNifEnv *env, ERL_NIF_TERM map, struct start *start)
{
    struct fp_library *library = fp_library(env);
    struct fp_layout *layout;
    ERL_NIF_TERM engine;

    if (!fp_map_get(env, map, "engine", &engine))
        return FP_EINVAL;
    if (enif_is_identical(engine, fp_atom(env, "portable")))
        return 0;
    if (!enif_is_identical(engine, fp_atom(env, "native")))
        return FP_EINVAL;
    layout = fp_library_layout(library);
    if (layout == NULL)
        return FP_ESTATE;
    start->layout = *layout;
    if (!patch_layout(env, map, &start->layout))
        return FP_EINVAL;
    start->options.layout = &start->layout;
    start->options.initial_call_key = fp_atom(env, "$initial_call");
    return 0;
}

static ERL_NIF_TERM why_term(ErlNifEnv *env, int err, const char *why)
{
    return fp_error(env, enif_make_tuple2(env, fp_atom(env, fp_err_name(err)),
                                          fp_binary(env, why, strlen(why))));
}

static ERL_NIF_TERM start_session(ErlNifEnv *env, struct start *start)
{
    struct handle *handle =
        enif_alloc_resource(fp_library(env)->session_type, sizeof *handle);
    char why[PATH_ROOM + 256] = "";
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
    struct start *start = calloc(1, sizeof *start);
    ERL_NIF_TERM answer;
    int err;

    (void)argc;
    if (start == NULL)
        return why_term(env, FP_ENOMEM, fp_err_text(FP_ENOMEM));
    fp_session_reap(fp_library(env));
    err = get_options(env, argv[0], start) ? choose_engine(env, argv[0], start)
                                           : FP_EINVAL;
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
    struct handle *handle = get_handle(env, argv[0]);
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
    struct handle *handle = get_handle(env, argv[0]);
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
    struct handle *handle = get_handle(env, argv[0]);
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
    struct handle *handle = get_handle(env, argv[0]);
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
    struct handle *handle = get_handle(env, argv[0]);
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
    struct handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM map;
    struct fp_session *session = use(env, handle, &map);
    const struct fp_stats *stats;
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
    for (int stat = 0; stat < FP_STAT_COUNT; stat++)
        fp_map_put(
            env, &map, fp_stats_name((enum fp_stat)stat),
            enif_make_uint64(env, fp_stats_get(stats, (enum fp_stat)stat)));
    unuse(handle);
    return map;
}

/* ----------------------------------------------------------- of the node -- */

static int add_figure(ErlNifEnv *env, ERL_NIF_TERM term,
                      struct fp_figures *figures)
{
    char name[FP_FIGURE_NAME_ROOM];
    const ERL_NIF_TERM *part;
    ErlNifSInt64 value;
    int size;

    return enif_get_tuple(env, term, &size, &part) && size == 2 &&
           enif_get_atom(env, part[0], name, sizeof name, ERL_NIF_LATIN1) &&
           enif_get_int64(env, part[1], &value) &&
           fp_figures_add(figures, name, value) == 0;
}

/* [{Name, Integer}]: for the next flush, and every later one until others
 * come. */
ERL_NIF_TERM fp_nif_session_figures(ErlNifEnv *env, int argc,
                                    const ERL_NIF_TERM argv[])
{
    struct handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer, list = argv[1], head;
    struct fp_session *session = use(env, handle, &answer);
    struct fp_figures *figures;
    int valid = 1;

    (void)argc;
    if (session == NULL)
        return answer;
    figures = calloc(1, sizeof *figures);
    while (figures != NULL && valid &&
           enif_get_list_cell(env, list, &head, &list))
        valid = add_figure(env, head, figures);
    if (valid && figures != NULL)
        fp_figures_offer(fp_session_node(session), figures);
    else
        free(figures);
    unuse(handle);
    return valid ? fp_atom(env, "ok") : enif_make_badarg(env);
}

/* ---------------------------------------------- whom it looks at, natively -- */

/* {Pid, all | Status}; the pid of a process of this node. */
static int get_wanted(ErlNifEnv *env, ERL_NIF_TERM term, uint64_t *word)
{
    const ERL_NIF_TERM *part;
    ErlNifPid pid;
    int size, status;

    if (!enif_get_tuple(env, term, &size, &part) || size != 3 ||
        !enif_get_local_pid(env, part[0], &pid) ||
        !get_status(env, part[1], &status))
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
    uint64_t words[FP_WANTED_MAX * FP_WANTED_WORDS];
    struct handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer, list = argv[1], head;
    struct fp_session *session;
    size_t n = 0;
    int err;

    (void)argc;
    for (; enif_get_list_cell(env, list, &head, &list); n++)
        if (n == FP_WANTED_MAX ||
            !get_wanted(env, head, words + FP_WANTED_WORDS * n))
            return enif_make_badarg(env);
    session = use(env, handle, &answer);
    if (session == NULL)
        return answer;
    err = fp_session_want(session, words, n);
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
    struct handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer, list = enif_make_list(env, 0);
    struct fp_session *session = use(env, handle, &answer);
    uint64_t *pid;
    size_t n;

    (void)argc;
    if (session == NULL)
        return answer;
    pid = malloc((FP_TOP_MAX + FP_WANTED_MAX) * sizeof *pid);
    n = pid == NULL
            ? 0
            : fp_session_chosen(session, pid, FP_TOP_MAX + FP_WANTED_MAX);
    unuse(handle);
    while (n > 0)
        list = enif_make_list_cell(env, pid[--n], list);
    free(pid);
    return list;
}

/* ------------------------------------------------- the portable engine's -- */

static int get_u32(ErlNifEnv *env, ERL_NIF_TERM term, uint32_t *n)
{
    return enif_get_uint(env, term, n);
}

static int get_text(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_text *text)
{
    ErlNifBinary binary;

    if (!enif_inspect_binary(env, term, &binary))
        return 0;
    *text = (struct fp_text){binary.data, binary.size};
    return 1;
}

static int get_mfa_text(ErlNifEnv *env, ERL_NIF_TERM term,
                        struct fp_mfa_text *mfa)
{
    const ERL_NIF_TERM *part;
    int size;

    memset(mfa, 0, sizeof *mfa);
    if (enif_is_identical(term, fp_atom(env, "none")))
        return 1;
    mfa->is_some = 1;
    return enif_get_tuple(env, term, &size, &part) && size == 3 &&
           get_text(env, part[0], &mfa->module) &&
           get_text(env, part[1], &mfa->function) &&
           get_u32(env, part[2], &mfa->arity);
}

static int take_process(ErlNifEnv *env, struct fp_portable *to,
                        const ERL_NIF_TERM *part)
{
    uint32_t slot, number, serial;
    struct fp_text name;
    struct fp_mfa_text initial, proc_lib;

    return get_u32(env, part[1], &slot) && get_u32(env, part[2], &number) &&
           get_u32(env, part[3], &serial) && get_text(env, part[4], &name) &&
           get_mfa_text(env, part[5], &initial) &&
           get_mfa_text(env, part[6], &proc_lib) &&
           fp_portable_process(to, slot, number, serial, name, &initial,
                               &proc_lib) != FP_EINVAL;
}

static int take_frame(ErlNifEnv *env, struct fp_portable *to,
                      const ERL_NIF_TERM *part)
{
    uint32_t id, arity, line;
    struct fp_text module, function, file;

    return get_u32(env, part[1], &id) && get_text(env, part[2], &module) &&
           get_text(env, part[3], &function) && get_u32(env, part[4], &arity) &&
           get_u32(env, part[5], &line) && get_text(env, part[6], &file) &&
           fp_portable_frame(to, id, module, function, arity, line, file) !=
               FP_EINVAL;
}

static int take_stack(ErlNifEnv *env, struct fp_portable *to,
                      const ERL_NIF_TERM *part)
{
    int32_t frame[256];
    ERL_NIF_TERM list = part[2], head;
    uint32_t slot;
    size_t n = 0;

    for (; enif_get_list_cell(env, list, &head, &list); n++)
        if (n == 256 || !enif_get_int(env, head, &frame[n]))
            return 0;
    return get_u32(env, part[1], &slot) &&
           fp_portable_stack(to, slot, frame, n) != FP_EINVAL;
}

static int take_sample(ErlNifEnv *env, struct fp_portable *to,
                       const ERL_NIF_TERM *part)
{
    uint32_t process, stack, status;
    const ERL_NIF_TERM *values;
    int64_t value[FP_METRIC_COUNT];
    int size;

    if (!get_u32(env, part[1], &process) || !get_u32(env, part[2], &stack) ||
        !get_u32(env, part[3], &status) ||
        !enif_get_tuple(env, part[4], &size, &values) ||
        size != FP_METRIC_COUNT)
        return 0;
    for (int i = 0; i < FP_METRIC_COUNT; i++) {
        ErlNifSInt64 n;

        if (!enif_get_int64(env, values[i], &n))
            return 0;
        value[i] = n;
    }
    return fp_portable_sample(to, process, stack, status, value) != FP_EINVAL;
}

static int take_tick(ErlNifEnv *env, struct fp_portable *to,
                     const ERL_NIF_TERM *part)
{
    ErlNifUInt64 missed;
    ErlNifSInt64 time_us;

    return enif_get_uint64(env, part[1], &missed) &&
           enif_get_int64(env, part[2], &time_us) &&
           fp_portable_tick(to, missed, time_us) != FP_EINVAL;
}

static int take_lost(ErlNifEnv *env, struct fp_portable *to,
                     const ERL_NIF_TERM *part)
{
    ErlNifUInt64 ticks, missed, samples;

    if (!enif_get_uint64(env, part[1], &ticks) ||
        !enif_get_uint64(env, part[2], &missed) ||
        !enif_get_uint64(env, part[3], &samples))
        return 0;
    fp_portable_lost(to, ticks, missed, samples);
    return 1;
}

static int take_count(ErlNifEnv *env, struct fp_session *session,
                      const char *kind, const ERL_NIF_TERM *part)
{
    struct fp_stats *stats = fp_session_stats_mutable(session);
    ErlNifUInt64 n;

    if (!enif_get_uint64(env, part[1], &n))
        return 0;
    fp_stats_add(stats, FP_STAT_taken, n);
    if (strcmp(kind, "gone") == 0) {
        fp_stats_add(stats, FP_STAT_gone, n);
        return 1;
    }
    fp_stats_add(stats, FP_STAT_torn, n);
    fp_stats_add(stats, FP_STAT_torn_changed, n);
    return 1;
}

static int take_selection(ErlNifEnv *env, struct fp_session *session,
                          const ERL_NIF_TERM *part)
{
    struct fp_stats *stats = fp_session_stats_mutable(session);
    ErlNifUInt64 processes, selected;

    if (!enif_get_uint64(env, part[1], &processes) ||
        !enif_get_uint64(env, part[2], &selected))
        return 0;
    fp_stats_add(stats, FP_STAT_selections, 1);
    fp_stats_set(stats, FP_STAT_processes, processes);
    fp_stats_set(stats, FP_STAT_selected, selected);
    return 1;
}

static int take_cpu(ErlNifEnv *env, struct fp_session *session,
                    const ERL_NIF_TERM *part)
{
    ErlNifUInt64 ns;

    if (!enif_get_uint64(env, part[1], &ns))
        return 0;
    fp_stats_set(fp_session_stats_mutable(session), FP_STAT_sampler_cpu_ns, ns);
    return 1;
}

static int take_item(ErlNifEnv *env, struct fp_session *session,
                     struct fp_portable *to, ERL_NIF_TERM item)
{
    const ERL_NIF_TERM *part;
    char kind[16];
    int size;

    if (!enif_get_tuple(env, item, &size, &part) || size < 2 ||
        !enif_get_atom(env, part[0], kind, sizeof kind, ERL_NIF_LATIN1))
        return 0;
    if (strcmp(kind, "sample") == 0 && size == 5)
        return take_sample(env, to, part);
    if (strcmp(kind, "process") == 0 && size == 7)
        return take_process(env, to, part);
    if (strcmp(kind, "frame") == 0 && size == 7)
        return take_frame(env, to, part);
    if (strcmp(kind, "stack") == 0 && size == 3)
        return take_stack(env, to, part);
    if (strcmp(kind, "selection") == 0 && size == 3)
        return take_selection(env, session, part);
    if (strcmp(kind, "cpu") == 0 && size == 2)
        return take_cpu(env, session, part);
    if (strcmp(kind, "tick") == 0 && size == 3)
        return take_tick(env, to, part);
    if (strcmp(kind, "lost") == 0 && size == 4)
        return take_lost(env, to, part);
    if (size == 2 && (strcmp(kind, "gone") == 0 || strcmp(kind, "torn") == 0))
        return take_count(env, session, kind, part);
    return 0;
}

/* All items up to the first that makes no sense, which is a badarg. Answers
 * {Taken, Dropped} of this call, what came as lost counted in both. */
ERL_NIF_TERM fp_nif_session_push(ErlNifEnv *env, int argc,
                                 const ERL_NIF_TERM argv[])
{
    struct handle *handle = get_handle(env, argv[0]);
    ERL_NIF_TERM answer, list = argv[1], head;
    struct fp_session *session = use(env, handle, &answer);
    struct fp_portable *to;
    const struct fp_stats *stats;
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
    taken = fp_stats_get(stats, FP_STAT_taken);
    dropped = fp_stats_get(stats, FP_STAT_dropped);
    while (valid && enif_get_list_cell(env, list, &head, &list))
        valid = take_item(env, session, to, head);
    taken = fp_stats_get(stats, FP_STAT_taken) - taken;
    dropped = fp_stats_get(stats, FP_STAT_dropped) - dropped;
    fp_session_leave(session);
    unuse(handle);
    if (!valid || !enif_is_empty_list(env, list))
        return enif_make_badarg(env);
    return enif_make_tuple2(env, enif_make_uint64(env, taken),
                            enif_make_uint64(env, dropped));
}
