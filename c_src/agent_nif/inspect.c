#include "agent_nif/inspect.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "erts/capture/explain.h"
#include "erts/capture/jit_code.h"
#include "erts/capture/sigcapture.h"
#include "erts/code_ranges.h"
#include "erts/process_names.h"
#include "erts/process_table.h"

/* A scheduler answers at once, unless the machine gives its thread no CPU: it is
 * looked at every 50 us first, then every millisecond. */
#define SOON_ATTEMPTS 100
#define ANSWER_ATTEMPTS 300
/* How often a scheduler that runs nothing is looked at. */
#define IDLE_ATTEMPTS 5
/* How often more a process is looked at that is never the same twice. */
#define PROCESS_ATTEMPTS 20
/* Slots of the process table looked at together. */
#define CHUNK FP_SAFE_READ_BATCH_MAX

/* ----------------------------------------------------- birth and the end -- */

int fp_inspect_open(struct fp_inspect *look, struct fp_library *library)
{
    int err;

    memset(look, 0, sizeof *look);
    look->peek.fd = -1;
    look->layout = fp_library_layout(library);
    if (look->layout == NULL)
        return FP_ESTATE;
    err = fp_sigcapture_acquire();
    look->is_inside = err == 0;
    if (err == 0)
        err = fp_safe_read_open_own(&look->peek);
    if (err != 0) {
        look->layout = NULL;
        return err;
    }
    if (fp_code_ranges(&look->peek, &look->ranges) != 0)
        return FP_EIO;
    look->word = malloc(8 * FP_STACK_WORDS_MAX);
    if (look->word == NULL)
        return FP_ENOMEM;
    /* Without it there are no C frames, and all else there is. */
    if (fp_sigcapture_registered() > 0 && fp_cstack_create(&look->native) != 0)
        look->native = NULL;
    return fp_code_index_create(&look->code, look->layout, &look->peek,
                                &look->ranges);
}

void fp_inspect_close(struct fp_inspect *look)
{
    fp_cstack_destroy(look->native);
    fp_code_index_destroy(look->code);
    free(look->word);
    if (look->layout != NULL)
        fp_safe_read_close(&look->peek);
    if (look->is_inside)
        fp_sigcapture_release();
}

/* --------------------------------------------------------- the stopped -- */

static void only(struct fp_stack *stack, uint64_t frame)
{
    stack->count = 1;
    stack->frame[0] = frame;
}

static void read_stack(struct fp_inspect *look,
                       const struct fp_snapshot *snapshot,
                       struct fp_stack *stack)
{
    uint64_t words = (snapshot->hend - snapshot->stop) / 8;
    size_t leaf = (size_t)words, root = 0;

    if (words > FP_STACK_WORDS_MAX) {
        leaf = FP_STACK_WORDS_LEAF;
        root = FP_STACK_WORDS_ROOT;
    }
    if ((leaf > 0 && fp_safe_read(&look->peek, snapshot->stop, look->word,
                                  8 * leaf) != 0) ||
        (root > 0 && fp_safe_read(&look->peek, snapshot->hend - 8 * root,
                                  look->word + leaf, 8 * root) != 0))
        only(stack, FP_FRAME_UNREADABLE);
    else if (fp_process_hibernates(look->layout, &look->peek, snapshot))
        only(stack, FP_FRAME_BIF | snapshot->current);
    else
        fp_stack_frames(stack, &look->ranges, snapshot->i, look->word,
                        leaf + root, leaf);
}

/* Sizes that contradict each other are nobody's; counts are what they are. */
static void forget_sizes(struct fp_snapshot *snapshot)
{
    for (int i = 0; i < FP_METRIC_COUNT; i++)
        if (i != FP_METRIC_reductions && i != FP_METRIC_message_queue_len &&
            i != FP_METRIC_minor_gcs)
            snapshot->value[i] = -1;
}

static int read_process(struct fp_inspect *look, uint64_t pid,
                        uint64_t *address, struct fp_snapshot *snapshot)
{
    unsigned char bytes[FP_PROBE_WINDOW];
    int64_t dictionary;
    int err = fp_process_table_lookup(look->layout, &look->peek, pid, address);

    if (err == 0)
        err = fp_safe_read(&look->peek, *address, bytes,
                           look->layout->snapshot_size);
    if (err != 0)
        return err;
    err = fp_process_decode(look->layout, bytes, snapshot);
    if (snapshot->id != pid || snapshot->status == FP_STATUS_free)
        return FP_EGONE;
    if (err == 0)
        err = fp_dictionary_read(look->layout, &look->peek, *address, snapshot,
                                 &dictionary);
    if (err == 0)
        snapshot->value[FP_METRIC_memory] += dictionary;
    else if (snapshot->runs_erlang)
        forget_sizes(snapshot);
    return snapshot->runs_erlang ? 0 : err;
}

static void put_leaf(struct fp_stack *stack, uint64_t frame)
{
    fp_stack_put_on_top(stack, &frame, 1);
}

/* On a dirty scheduler: it collects, or runs the NIF that `current` names
 * (beam_common.c, erts_dirty_process_main), unless it has gone on meanwhile. */
static void put_dirty(struct fp_inspect *look, uint64_t address,
                      struct sight *sight)
{
    uint64_t current = 0;

    if (sight->snapshot.status == FP_STATUS_garbage_collecting)
        put_leaf(&sight->stack, FP_FRAME_GC);
    else if ((sight->snapshot.state & FP_PSFLG_DIRTY_RUNNING) != 0 &&
             fp_sigcapture_registered() > 0 &&
             fp_safe_read_word(&look->peek,
                               address + look->layout->release.running.current,
                               &current) == 0 &&
             fp_is_mfa_at(&look->peek, current))
        put_leaf(&sight->stack, FP_FRAME_NIF | current);
}

/* The stack was read between the two: is it theirs? */
static int agree(const struct fp_snapshot *before,
                 const struct fp_snapshot *after)
{
    return before->stop == after->stop && before->hend == after->hend &&
           before->i == after->i && before->status == after->status &&
           before->runs_erlang == after->runs_erlang &&
           before->value[FP_METRIC_reductions] ==
               after->value[FP_METRIC_reductions];
}

static int look_at_stopped(struct fp_inspect *look, uint64_t pid,
                           uint64_t address, struct sight *sight)
{
    struct fp_snapshot after;
    int err;

    read_stack(look, &sight->snapshot, &sight->stack);
    put_dirty(look, address, sight);
    err = read_process(look, pid, &address, &after);
    return err != 0 || agree(&sight->snapshot, &after) ? err : FP_ETORN;
}

/* --------------------------------------------------------- the running -- */

static size_t unwind(void *self, const struct fp_capture *running, uint64_t *pc,
                     size_t max, struct fp_registers *at_entry, int *complete)
{
    struct fp_inspect *look = self;
    struct fp_cstack_stack stack = {running->native_start, running->native,
                                    running->native_bytes};
    struct fp_cstack_end end;
    size_t n = fp_cstack_unwind(look->native, &running->registers, &stack, pc,
                                max, &end);

    *complete = n > 0 && end.why == FP_CSTACK_LEFT &&
                end.registers.rip == running->native_return;
    *at_entry = end.registers;
    return n;
}

static void pause_before(int attempt)
{
    struct timespec moment = {0, attempt < SOON_ATTEMPTS ? 50000 : 1000000};

    nanosleep(&moment, NULL);
}

static const struct fp_capture *await(unsigned at, uint32_t ticket)
{
    const struct fp_capture *running = fp_sigcapture_poll(at, ticket);

    for (int i = 0; i < ANSWER_ATTEMPTS && running == NULL; i++) {
        pause_before(i);
        running = fp_sigcapture_poll(at, ticket);
    }
    return running;
}

/* A running profile may have asked it just now. */
static int ask(unsigned at, uint32_t *ticket)
{
    int err = fp_sigcapture_request(at, ticket);

    for (int i = 0; i < ANSWER_ATTEMPTS && err == FP_ESTATE; i++) {
        pause_before(i);
        err = fp_sigcapture_request(at, ticket);
    }
    return err == 0 ? 0 : FP_ESTATE;
}

/* While the collector exchanges the heaps, their figures contradict each other;
 * what it does can be told all the same. */
static int decode(struct fp_inspect *look, unsigned at,
                  const struct fp_capture *running, struct sight *sight)
{
    struct fp_capture_code code = {.peek = &look->peek,
                                   .ranges = &look->ranges,
                                   .unwind = look->native ? unwind : NULL,
                                   .unwind_self = look,
                                   .with_native = 1};

    int torn;

    if (running->result == FP_CAPTURE_NOBODY)
        return FP_ENOENT;
    torn =
        fp_process_decode(look->layout, running->structure, &sight->snapshot);
    /* The id becomes a term: no other word may. */
    if (sight->snapshot.status == FP_STATUS_free ||
        !fp_term_is_pid(sight->snapshot.id))
        return FP_EGONE;
    if (sight->snapshot.dictionary != 0) {
        int64_t bytes = fp_dictionary_bytes(&running->dictionary);

        sight->snapshot.value[FP_METRIC_memory] += bytes;
        torn |= bytes < 0;
    }
    fp_sigcapture_code(&code.fragments, &code.nif_return);
    if (fp_explain_frames(&code, look->layout, running, &sight->snapshot,
                          &sight->stack) != 0)
        only(&sight->stack, FP_FRAME_UNREADABLE);
    if (torn)
        forget_sizes(&sight->snapshot);
    sight->scheduler = at + 1;
    return 0;
}

int fp_inspect_poll(struct fp_inspect *look, unsigned at,
                    const struct look_question *question, struct sight *sight)
{
    const struct fp_capture *running;
    int err;

    if (question->err != 0)
        return question->err;
    running = await(at, question->ticket);
    err = running == NULL ? FP_ESTATE : decode(look, at, running, sight);
    fp_sigcapture_drop(at, question->ticket);
    return err;
}

/* Without a process it may be asleep: then it is let alone. */
static int ask_if_busy(struct fp_inspect *look, unsigned at, uint32_t *ticket)
{
    uint64_t data = fp_sigcapture_data(at), process = 0;

    if (data == 0)
        return FP_ESTATE;
    (void)fp_safe_read_word(
        &look->peek, data + look->layout->release.running.current_process,
        &process);
    return process == 0 ? FP_ENOENT : ask(at, ticket);
}

void fp_inspect_request_all(struct fp_inspect *look,
                            struct look_question *question)
{
    unsigned count = fp_sigcapture_count(), idle = count;

    for (unsigned at = 0; at < count; at++)
        question[at].err = FP_ENOENT;
    /* One that is between two processes is not idle. */
    for (int i = 0; i < IDLE_ATTEMPTS && idle > 0; i++) {
        if (i > 0)
            pause_before(i);
        idle = 0;
        for (unsigned at = 0; at < count; at++) {
            if (question[at].err == FP_ENOENT)
                question[at].err = ask_if_busy(look, at, &question[at].ticket);
            idle += question[at].err == FP_ENOENT;
        }
    }
}

/* A process that was seen running: on its scheduler, if that can be asked.
 * FP_ETORN when it has left that one. */
static int look_at_running(struct fp_inspect *look, uint64_t pid,
                           uint64_t address, struct sight *sight)
{
    struct sight now = {.scheduler = 0};
    struct look_question question;
    uint64_t data = 0;
    int at, err;

    only(&sight->stack, sight->snapshot.status == FP_STATUS_garbage_collecting
                            ? FP_FRAME_GC
                            : FP_FRAME_RUNNING);
    (void)fp_safe_read_word(
        &look->peek, address + look->layout->release.running.scheduler_data,
        &data);
    if (data == 0)
        return FP_ETORN;
    at = fp_sigcapture_find(data);
    if (at < 0)
        return 0;
    sight->scheduler = (unsigned)at + 1;
    question.err = ask((unsigned)at, &question.ticket);
    err = fp_inspect_poll(look, (unsigned)at, &question, &now);
    if (err == FP_ESTATE)
        return 0;
    if (err != 0 || now.snapshot.id != pid)
        return FP_ETORN;
    *sight = now;
    return 0;
}

/* -------------------------------------------------------- one process -- */

static int look_once(struct fp_inspect *look, uint64_t pid, struct sight *sight)
{
    uint64_t address;
    int err = read_process(look, pid, &address, &sight->snapshot);

    sight->scheduler = 0;
    if (err != 0)
        return err;
    return sight->snapshot.runs_erlang
               ? look_at_running(look, pid, address, sight)
               : look_at_stopped(look, pid, address, sight);
}

/* What is sure of a process that is never the same twice, or never in itself: a
 * dirty scheduler collects its large heap, or is to do so soon and the stack lies
 * in a heap that was left meanwhile (erl_gc.c, delay_garbage_collection). */
static void look_in_vain(struct sight *sight)
{
    if (sight->snapshot.runs_erlang)
        return;
    forget_sizes(&sight->snapshot);
    only(&sight->stack, FP_FRAME_UNREADABLE);
    if (sight->snapshot.status == FP_STATUS_garbage_collecting)
        put_leaf(&sight->stack, FP_FRAME_GC);
}

int fp_inspect_process(struct fp_inspect *look, uint64_t pid,
                       struct sight *sight)
{
    int err = look_once(look, pid, sight);

    for (int i = 0; i < PROCESS_ATTEMPTS && err == FP_ETORN; i++) {
        pause_before(i);
        err = look_once(look, pid, sight);
    }
    if (err == FP_ETORN)
        look_in_vain(sight);
    return err == FP_ETORN ? 0 : err;
}

/* -------------------------------------------- those on dirty schedulers -- */

struct inspect_scan {
    uint64_t word[CHUNK], state[CHUNK];
    struct fp_safe_read_span span[CHUNK];
};

static void scan_chunk(struct fp_inspect *look, struct inspect_scan *scan,
                       uint32_t n, uint64_t self,
                       void (*each)(void *arg, uint64_t pid), void *arg)
{
    const uint16_t *offset = look->layout->release.offset;
    size_t used = 0;

    for (uint32_t i = 0; i < n; i++)
        if (scan->word[i] != 0) {
            scan->span[used] = (struct fp_safe_read_span){
                scan->word[i] + offset[FP_FIELD_state], &scan->state[used], 4,
                0};
            scan->state[used++] = 0;
        }
    fp_safe_read_batch(&look->peek, scan->span, used);
    for (size_t i = 0; i < used; i++) {
        uint64_t id = 0, at = scan->span[i].address - offset[FP_FIELD_state];

        if (scan->span[i].result != 0 ||
            (scan->state[i] &
             (FP_PSFLG_DIRTY_RUNNING | FP_PSFLG_DIRTY_RUNNING_SYS)) == 0 ||
            (scan->state[i] & FP_PSFLG_FREE) != 0)
            continue;
        if (fp_safe_read_word(&look->peek, at + offset[FP_FIELD_id], &id) ==
                0 &&
            fp_term_is_pid(id) && id != self)
            each(arg, id);
    }
}

int fp_inspect_dirty(struct fp_inspect *look, uint64_t self,
                     void (*each)(void *arg, uint64_t pid), void *arg)
{
    uint32_t slots = look->layout->process_limit, n;
    struct inspect_scan *scan = malloc(sizeof *scan);
    int err = 0;

    if (scan == NULL)
        return FP_ENOMEM;
    for (uint32_t slot = 0; slot < slots && err == 0; slot += n) {
        n = slots - slot < CHUNK ? slots - slot : CHUNK;
        err = fp_process_table_read(look->layout, &look->peek, slot, n,
                                    scan->word);
        if (err == 0)
            scan_chunk(look, scan, n, self, each, arg);
    }
    free(scan);
    return err;
}
