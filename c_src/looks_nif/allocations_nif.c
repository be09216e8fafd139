/* allocations_nif.c - the kind of tracing `allocations': the estimate of who allocates, for
 * flame_prof_allocations.
 *
 * Every event is answered with `discard': the VM never builds a message, and two sessions that
 * trace collections cannot meet in one (erlang/otp#11623). */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "erts/code_index.h"
#include "erts/code_scan.h"
#include "erts/serving.h"
#include "erts/term.h"
#include "format/weight.h"
#include "looks_nif/looks.h"
#include "looks_nif/tracer_nif.h"
#include "looks_nif/views.h"
#include "terms/term_words.h"
#include "terms/terms.h"
#include "tracer/allocations.h"

/* Records of one drain; flame_prof_allocations drains again after so many. */
#define DRAIN_MAX 4096u
/* Processes whose flags are set again at once. */
#define DUE_MAX 100u
/* How often new ranges of code are looked for. */
#define RANGES_NS INT64_C(2000000000)
/* The interval of comparing the code by which messages are found with its earlier state. */
#define SITES_NS INT64_C(500000000)

struct measuring {
    const struct fp_vm *library;
    struct fp_live_ranges live;
    struct fp_ranges ranges;
    struct fp_code_index *code;
    struct fp_allocations *allocations;
    struct fp_memory own; /* of who reads all processes */
    uint32_t threads;
    int64_t ranged_ns, checked_ns;
    uint64_t except;         /* a process that is left out */
    struct fp_terms_out out; /* of this drain */
};

static void destroy(void *state)
{
    struct measuring *measuring = state;

    if (measuring->allocations != NULL)
        fp_allocations_destroy(measuring->allocations);
    if (measuring->code != NULL)
        fp_code_index_destroy(measuring->code);
    fp_safe_read_close(&measuring->own);
    enif_free(measuring);
}

static int open_measuring(struct measuring *measuring, struct fp_allocations_options *options)
{
    const struct fp_vm *library = measuring->library;
    int err = fp_code_ranges(&library->memory, &measuring->ranges);

    if (err != 0 && err != FP_EFULL)
        return err;
    err = fp_safe_read_open_own(&measuring->own);
    if (err != 0)
        return err;
    fp_live_ranges_update(&measuring->live, &measuring->ranges);
    err = fp_code_index_create(&measuring->code, library->layout, &library->memory,
                               &measuring->ranges);
    options->layout = library->layout;
    options->memory = &library->memory;
    options->own = &measuring->own;
    options->code = &measuring->live;
    options->seed = (uint64_t)fp_monotonic_ns();
    measuring->threads = options->threads;
    measuring->ranged_ns = fp_monotonic_ns();
    return err != 0 ? err : fp_allocations_create(&measuring->allocations, options);
}

static int get_options(ErlNifEnv *env, ERL_NIF_TERM config, struct fp_allocations_options *options,
                       uint64_t *except)
{
    uint32_t mean_words, long_us;
    ErlNifPid pid;
    ERL_NIF_TERM term;

    if (!fp_map_get_u32(env, config, "mean_words", &mean_words) ||
        !fp_map_get_u32(env, config, "looks", &options->looks) ||
        !fp_map_get_u32(env, config, "long_us", &long_us) ||
        !fp_map_get_u32(env, config, "threads", &options->threads) ||
        !fp_map_get(env, config, "except", &term) || !enif_get_local_pid(env, term, &pid))
        return 0;
    options->mean_words = mean_words;
    options->long_ns = (int64_t)long_us * 1000;
    *except = term;
    return 1;
}

/* #{mean_words, looks, long_us, threads, except} */
static void *create(ErlNifEnv *env, ERL_NIF_TERM config, int *err)
{
    struct fp_allocations_options options = {.layout = NULL};
    struct measuring *measuring = enif_alloc(sizeof *measuring);

    if (measuring == NULL) {
        *err = FP_ENOMEM;
        return NULL;
    }
    memset(measuring, 0, sizeof *measuring);
    measuring->own.fd = -1;
    measuring->library = fp_vm(env);
    if (measuring->library->layout == NULL)
        *err = FP_ESTATE;
    else if (!get_options(env, config, &options, &measuring->except))
        *err = FP_EINVAL;
    else
        *err = open_measuring(measuring, &options);
    if (*err == 0)
        return measuring;
    destroy(measuring);
    return NULL;
}

static void press(const struct measuring *measuring)
{
    uint32_t pressure = fp_tracer_pressure();

    if (pressure >= FP_SHARE_PRESSURE)
        fp_allocations_press(measuring->allocations, pressure);
}

static int enabled(void *state, const struct fp_tracer_event *event)
{
    struct measuring *measuring = state;
    const struct fp_tracer_atoms *atoms = event->atoms;
    uint32_t thread = event->line->index;
    enum fp_gc_event what;

    press(measuring);
    if (event->tag == atoms->gc_minor_start)
        what = FP_GC_MINOR_START;
    else if (event->tag == atoms->gc_minor_end)
        what = FP_GC_MINOR_END;
    else if (event->tag == atoms->gc_major_start)
        what = FP_GC_MAJOR_START;
    else if (event->tag == atoms->gc_major_end)
        what = FP_GC_MAJOR_END;
    else
        return 0; /* gc_max_heap_size: its process gets no further */
    if (thread >= measuring->threads)
        fp_tracer_count_lost(event->line);
    else if (event->tracee != measuring->except)
        fp_allocations_event(measuring->allocations, thread, what, event->tracee,
                             enif_thread_type() != ERL_NIF_THR_NORMAL_SCHEDULER);
    return 0;
}

static int keeps(void *state, const struct fp_tracer_event *event)
{
    struct measuring *measuring = state;
    uint32_t thread = event->line->index;

    press(measuring);
    if (!fp_term_is_atom(event->tracee))
        return fp_allocations_keeps(measuring->allocations, thread, event->tracee);
    if (thread < measuring->threads)
        fp_allocations_born(measuring->allocations, thread);
    return 1;
}

static ERL_NIF_TERM due(void *state, ErlNifEnv *env)
{
    struct measuring *measuring = state;
    uint64_t pid[DUE_MAX];
    uint32_t count = fp_allocations_due(measuring->allocations, pid, DUE_MAX);
    ERL_NIF_TERM list = enif_make_list(env, 0);

    while (count-- > 0)
        list = enif_make_list_cell(env, pid[count], list);
    return list;
}

/* ----------------------------------------------------------------- answers -- */

/* {M, F, A, Line}, or what stands there instead. */
static ERL_NIF_TERM frame_term(struct measuring *measuring, uint64_t word)
{
    if (word == FP_FRAME_TRUNCATED)
        return fp_atom(measuring->out.env, "truncated");
    return word < FP_FRAME_SPECIAL_END
               ? fp_atom(measuring->out.env, "unreadable")
               : fp_out_frame(&measuring->out, measuring->code, word, "unknown");
}

/* `most`, at the root's end. */
static ERL_NIF_TERM frames_term(struct measuring *measuring, const struct fp_allocation *record,
                                uint32_t most)
{
    ErlNifEnv *env = measuring->out.env;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint32_t count = record->count, least;
    struct fp_location at;

    /* The return address at the end of a process is in no function. */
    if (count > 1 && record->frame[count - 1] >= FP_FRAME_SPECIAL_END &&
        fp_code_index_resolve(measuring->code, record->frame[count - 1], &at) != 0)
        count--;
    least = count > most ? count - most : 0;
    while (count-- > least)
        list = enif_make_list_cell(env, frame_term(measuring, record->frame[count]), list);
    return list;
}

static ERL_NIF_TERM known_term(ErlNifEnv *env, const struct fp_allocation *record, unsigned flag,
                               uint64_t value)
{
    return record->flags & flag ? enif_make_uint64(env, value) : fp_atom(env, "unknown");
}

/* {Kind, Tag} of the message in work, as flame_prof_mailbox:tag(); none. */
static ERL_NIF_TERM message_term(struct measuring *measuring, const struct fp_allocation *record)
{
    ErlNifEnv *env = measuring->out.env;
    struct fp_tag tag = {.atom = record->message.atom,
                         .arity = record->message.arity,
                         .shape = (enum fp_shape)record->message.shape};

    if (record->message_kind == FP_MESSAGE_unknown)
        return fp_atom(env, "none");
    return enif_make_tuple2(
        env, fp_atom(env, fp_message_kind_name((enum fp_message_kind)record->message_kind)),
        fp_out_tag(&measuring->out, &tag));
}

/* {Pid, minor | major, Cause, Window, Weight, Survived, Live, LengthNs, IsLong, Frames, Message} */
static ERL_NIF_TERM record_term(struct measuring *measuring, const struct fp_allocation *record,
                                uint32_t most)
{
    ErlNifEnv *env = measuring->out.env;
    const ERL_NIF_TERM element[] = {
        record->pid,
        fp_atom(env, record->flags & FP_ALLOCATION_MAJOR ? "major" : "minor"),
        fp_atom(env, fp_gc_cause_name(record->cause)),
        known_term(env, record, FP_ALLOCATION_WINDOW, record->window),
        enif_make_uint64(env, record->weight),
        known_term(env, record, FP_ALLOCATION_SURVIVED, record->survived),
        known_term(env, record, FP_ALLOCATION_WINDOW, record->live),
        enif_make_uint64(env, record->length_ns),
        fp_boolean(env, record->flags & FP_ALLOCATION_LONG),
        frames_term(measuring, record, most),
        message_term(measuring, record),
    };

    return enif_make_tuple_from_array(env, element, sizeof element / sizeof *element);
}

static ERL_NIF_TERM counters_term(ErlNifEnv *env, const struct fp_allocations *allocations)
{
    ERL_NIF_TERM map = enif_make_new_map(env);
    struct fp_allocations_counters counters;

    fp_allocations_count(allocations, &counters);
#define PUT(name) fp_map_put_u64(env, &map, #name, counters.name);
    FP_ALLOCATIONS_COUNTERS(PUT)
#undef PUT
    fp_map_put(env, &map, "words", enif_make_double(env, counters.words));
    fp_map_put(env, &map, "variance", enif_make_double(env, counters.variance));
    fp_map_put_u64(env, &map, "share", counters.share);
    return map;
}

/* A running session's sampler does the same, as often. */
static void check_sites(struct measuring *measuring, int64_t now)
{
    struct fp_serving_sites *sites = fp_serving_published();

    if (sites == NULL || now - measuring->checked_ns < SITES_NS)
        return;
    measuring->checked_ns = now;
    fp_serving_check(sites, &measuring->library->memory, measuring->library->layout);
}

/* The data by which frames are named. That reads /proc/self/maps: up to a millisecond. */
static void refresh(ErlNifEnv *env, struct measuring *measuring)
{
    int64_t now = fp_monotonic_ns();

    fp_terms_out_start(&measuring->out, env, measuring->library->layout,
                       &measuring->library->memory);
    check_sites(measuring, now);
    if (now - measuring->ranged_ns < RANGES_NS)
        return;
    measuring->ranged_ns = now;
    if (fp_code_ranges(&measuring->library->memory, &measuring->ranges) == 0 &&
        fp_live_ranges_update(&measuring->live, &measuring->ranges)) {
        fp_live_ranges_copy(&measuring->live, &measuring->ranges);
        fp_code_index_set_ranges(measuring->code, &measuring->ranges);
    }
}

/* {[Record], #{counter => Value}}: the latest ones first. */
static ERL_NIF_TERM drain(ErlNifEnv *env, struct measuring *measuring)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    const struct fp_allocation *record;
    uint32_t records = 0;

    refresh(env, measuring);
    (void)fp_code_index_revalidate(measuring->code);
    for (uint32_t i = 0; i < measuring->threads; i++)
        while (records < DRAIN_MAX &&
               (record = fp_allocations_peek(measuring->allocations, i)) != NULL) {
            list = enif_make_list_cell(
                env, record_term(measuring, record, FP_ALLOCATION_FRAMES_MAX), list);
            fp_allocations_release(measuring->allocations, i);
            records++;
        }
    return enif_make_tuple2(env, list, counters_term(env, measuring->allocations));
}

/* ------------------------------------------------------------ to a session -- */

/* Of a sample that a session's file has, its owner gets so many frames, to tell what is in step. */
#define ROOT_FRAMES 8u

/* The thread with the oldest record. */
static const struct fp_allocation *oldest(const struct measuring *measuring, uint32_t *thread)
{
    const struct fp_allocation *first = NULL, *record;

    for (uint32_t i = 0; i < measuring->threads; i++) {
        record = fp_allocations_peek(measuring->allocations, i);
        if (record != NULL && (first == NULL || record->end_ns < first->end_ns)) {
            first = record;
            *thread = i;
        }
    }
    return first;
}

/* Bytes that one move makes: some thousand samples. */
#define MOVE_BYTES (256u * 1024u)

static struct fp_weight weight_of(const struct fp_allocation *record)
{
    int is_known = (record->flags & FP_ALLOCATION_SURVIVED) && record->window > 0;

    return (struct fp_weight){.pid = record->pid,
                              .end_ns = record->end_ns,
                              .words = record->weight,
                              .window = is_known ? record->window : 0,
                              .survived = record->survived,
                              .length_ns = record->length_ns,
                              .cause = record->cause,
                              .is_long = (record->flags & FP_ALLOCATION_LONG) != 0,
                              .is_major = (record->flags & FP_ALLOCATION_MAJOR) != 0,
                              .message_kind = record->message_kind,
                              .message = record->message,
                              .count = record->count,
                              .frame = record->frame};
}

/* As drain(), with the samples for a session (flame_prof_nif:session_weights/2), in the order of
 * time: {[Record], Counters, IsAll, Weights}; of a long collection the whole stack. */
static ERL_NIF_TERM move(ErlNifEnv *env, struct measuring *measuring)
{
    ERL_NIF_TERM list = enif_make_list(env, 0), weights;
    const struct fp_allocation *record;
    uint32_t records = 0, thread, most;
    unsigned char *to = enif_make_new_binary(env, MOVE_BYTES, &weights);
    size_t size = 0;

    refresh(env, measuring);
    (void)fp_code_index_revalidate(measuring->code);
    while ((record = oldest(measuring, &thread)) != NULL && records < DRAIN_MAX) {
        struct fp_weight weight = weight_of(record);

        if (size + fp_weight_bytes(&weight) > MOVE_BYTES)
            break;
        fp_weight_write(&weight, to + size);
        size += fp_weight_bytes(&weight);
        most = record->flags & FP_ALLOCATION_LONG ? FP_ALLOCATION_FRAMES_MAX : ROOT_FRAMES;
        list = enif_make_list_cell(env, record_term(measuring, record, most), list);
        fp_allocations_release(measuring->allocations, thread);
        records++;
    }
    return enif_make_tuple4(env, list, counters_term(env, measuring->allocations),
                            fp_boolean(env, record == NULL),
                            enif_make_sub_binary(env, weights, 0, size));
}

/* {Words, Processes} | {error, Error} */
static ERL_NIF_TERM open_words(ErlNifEnv *env, const struct measuring *measuring)
{
    uint64_t words;
    uint32_t processes;
    int err = fp_allocations_open_words(measuring->library->layout, &measuring->own,
                                        measuring->except, &words, &processes);

    /* Without the words of a part of the processes the sum would be wrong. */
    if (err == FP_EFAULT)
        return fp_error_text(env, err, "the table of processes could not be read");
    return err != 0 ? fp_result(env, err)
                    : enif_make_tuple2(env, enif_make_uint64(env, words),
                                       enif_make_uint(env, processes));
}

/* [Pid] whose flags are to be set | {error, Error} */
static ERL_NIF_TERM choose(ErlNifEnv *env, const struct measuring *measuring)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t *pids;
    uint32_t count;
    int err = fp_allocations_choose(measuring->allocations, &pids, &count);

    if (err != 0)
        return fp_result(env, err);
    while (count-- > 0)
        list = enif_make_list_cell(env, pids[count], list);
    free(pids);
    return list;
}

/* Of which the time of collections is told. */
#define COLLECTED_MAX 20u

/* [{Pid, Minor, Major, Ns, LongestNs}], the most ns first. */
static ERL_NIF_TERM collected(ErlNifEnv *env, const struct fp_collections *collections)
{
    struct fp_collected top[COLLECTED_MAX];
    uint32_t n = fp_collections_top(collections, top, COLLECTED_MAX);
    ERL_NIF_TERM list = enif_make_list(env, 0);

    while (n-- > 0) {
        const struct fp_collected *one = &top[n];

        list = enif_make_list_cell(
            env,
            enif_make_tuple5(env, one->pid, enif_make_uint64(env, one->minor),
                             enif_make_uint64(env, one->major), enif_make_uint64(env, one->ns),
                             enif_make_uint64(env, one->longest_ns)),
            list);
    }
    return list;
}

/* {Lengths of minor ones, Of major ones, collected()}; lengths: {[Bucket], SumNs, MaxNs} */
static ERL_NIF_TERM read_collections(ErlNifEnv *env, const struct measuring *measuring)
{
    const struct fp_collections *collections = fp_allocations_collections(measuring->allocations);
    struct fp_histogram_copy *copy = enif_alloc(sizeof *copy);
    ERL_NIF_TERM of[2];

    if (copy == NULL)
        return fp_result(env, FP_ENOMEM);
    for (int is_major = 0; is_major < 2; is_major++) {
        fp_collections_lengths(collections, is_major, copy);
        of[is_major] =
            enif_make_tuple3(env, fp_buckets_term(env, copy), enif_make_uint64(env, copy->sum_ns),
                             enif_make_uint64(env, copy->max_ns));
    }
    enif_free(copy);
    return enif_make_tuple3(env, of[0], of[1], collected(env, collections));
}

/* drain | open_words | choose | collections | move */
static ERL_NIF_TERM read_kind(void *state, ErlNifEnv *env, ERL_NIF_TERM what)
{
    if (fp_is_atom(env, what, "move"))
        return move(env, state);
    if (fp_is_atom(env, what, "collections"))
        return read_collections(env, state);
    if (fp_is_atom(env, what, "choose"))
        return choose(env, state);
    return fp_is_atom(env, what, "open_words") ? open_words(env, state) : drain(env, state);
}

const struct fp_tracer_kind fp_tracer_kind_allocations = {
    .name = "allocations",
    .event_ns = 200,
    .discard_ns = 200,
    .question_ns = 100,
    .birth_ns = 200,
    .create = create,
    .destroy = destroy,
    .enabled = enabled,
    .keeps = keeps,
    .due = due,
    .trace = NULL,
    .read = read_kind,
};
