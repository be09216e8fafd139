#include "session/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "erts/capture/sigcapture.h"
#include "erts/code_scan.h"
#include "erts/dictionary.h"
#include "erts/process_names.h"
#include "erts/process_table.h"
#include "erts/stack_copy.h"
#include "session/on_cpu.h"

/* A capture takes microseconds, unless the machine gives the scheduler's thread no CPU: polled
 * every 50 us first, then every millisecond. */
#define SOON_ATTEMPTS 100
#define CAPTURE_ATTEMPTS 300
/* A scheduler without a process may be between two. */
#define IDLE_ATTEMPTS 5
/* More attempts for a process that moves. */
#define PROCESS_ATTEMPTS 20
/* Of the C libraries' unwind information and symbols, as for a session's set at most. */
#define LIBRARIES_BYTES ((size_t)32 << 20)

/* ------------------------------------------------------- open and close -- */

int fp_inspect_open(struct fp_inspect *inspect, const struct fp_layout *layout, int is_brief)
{
    int err;

    memset(inspect, 0, sizeof *inspect);
    inspect->layout = layout;
    inspect->is_brief = is_brief;
    inspect->memory.fd = -1;
    if (layout == NULL)
        return FP_ESTATE;
    err = fp_sigcapture_acquire();
    inspect->is_capturing = err == 0;
    if (err == 0)
        err = fp_safe_read_open_own(&inspect->memory);
    if (err != 0)
        return err;
    if (fp_code_ranges(&inspect->memory, &inspect->ranges) != 0)
        return FP_EIO;
    inspect->word = malloc(8 * FP_STACK_WORDS_MAX);
    if (inspect->word == NULL)
        return FP_ENOMEM;
    /* Without it stacks have no C frames. */
    inspect->cstack.bytes_max = LIBRARIES_BYTES;
    if (!is_brief && fp_sigcapture_registered() > 0)
        (void)fp_live_cstack_renew(&inspect->cstack);
    return fp_code_index_create(&inspect->code, layout, &inspect->memory, &inspect->ranges);
}

void fp_inspect_close(struct fp_inspect *inspect)
{
    fp_live_cstack_destroy(&inspect->cstack);
    fp_code_index_destroy(inspect->code);
    free(inspect->word);
    fp_safe_read_close(&inspect->memory);
    if (inspect->is_capturing)
        fp_sigcapture_release();
}

/* --------------------------------------------------------------- off CPU -- */

/* Sizes that contradict each other are unknown; counts are right at any moment. */
static void forget_sizes(struct fp_snapshot *snapshot)
{
    for (int i = 0; i < FP_METRIC_COUNT; i++)
        if (fp_metric_is_size(i))
            snapshot->value[i] = -1;
}

static int read_process(struct fp_inspect *inspect, uint64_t pid, uint64_t *address,
                        struct fp_snapshot *snapshot)
{
    unsigned char bytes[FP_PROBE_WINDOW];
    int err = fp_process_table_lookup(inspect->layout, &inspect->memory, pid, address);

    if (err == 0)
        err = fp_safe_read(&inspect->memory, *address, bytes, inspect->layout->snapshot_size);
    if (err != 0)
        return err;
    err = fp_process_decode_whole(inspect->layout, &inspect->memory, bytes, snapshot);
    return snapshot->id != pid || snapshot->status == FP_STATUS_free ? FP_EGONE : err;
}

static int read_off_cpu(struct fp_inspect *inspect, uint64_t address, struct fp_process_view *view)
{
    unsigned char again[FP_PROBE_WINDOW];
    struct fp_safe_read_span span[FP_STACK_COPY_SPANS];
    struct fp_stack_copy copy = {.word = inspect->word, .again = again};
    uint64_t i = view->snapshot.i, mfa[3], nif = FP_FRAME_NONE;
    uint32_t n;

    fp_stack_copy_plan(&copy, address, &view->snapshot);
    n = fp_stack_copy_spans(&copy, inspect->layout, span);
    fp_safe_read_batch(&inspect->memory, span, n);
    if (!fp_stack_copy_is_whole(&copy, inspect->layout, span, n))
        return FP_ETORN;
    if (!fp_ranges_contain(&inspect->ranges, i) && fp_stack_dirty_nif(&inspect->memory, i, mfa))
        nif = FP_FRAME_NIF | (i - sizeof mfa);
    fp_stack_copy_frames(&copy, inspect->layout, &inspect->memory, &inspect->ranges, nif,
                         &view->stack);
    if (copy.before.dictionary != 0)
        view->snapshot.value[FP_METRIC_memory] += fp_dictionary_bytes(&copy.dictionary);
    return 0;
}

/* ---------------------------------------------------------------- on CPU -- */

/* Before the first attempt there is none. */
static void pause_before(int attempt)
{
    if (attempt > 0)
        fp_sleep(attempt <= SOON_ATTEMPTS ? 50000 : 1000000);
}

/* A session may have requested a capture of this scheduler just now. */
static int request_capture(unsigned at, uint32_t *ticket)
{
    int err = FP_ESTATE;

    for (int i = 0; i <= CAPTURE_ATTEMPTS && err == FP_ESTATE; i++) {
        pause_before(i);
        err = fp_sigcapture_request(at, NULL, ticket);
    }
    return err == 0 ? 0 : FP_ESTATE;
}

/* While the collector exchanges the heaps, sizes contradict each other; the frames are right all
 * the same. */
static int decode_capture(struct fp_inspect *inspect, unsigned at, const struct fp_capture *capture,
                          struct fp_process_view *view)
{
    struct fp_snapshot *snapshot = &view->snapshot;
    struct fp_capture_code code = {.memory = &inspect->memory,
                                   .ranges = &inspect->ranges,
                                   .unwind = inspect->cstack.set ? fp_on_cpu_unwind : NULL,
                                   .unwind_self = &inspect->cstack,
                                   .with_native = 1,
                                   .off = inspect->is_check ? 0 : fp_capture_classes_off};
    int64_t dictionary = 0;
    int err, unexplained;

    if (capture->result == FP_CAPTURE_NO_PROCESS)
        return FP_ENOENT;
    err = fp_process_decode_whole(inspect->layout, &inspect->memory, capture->structure, snapshot);
    /* The id becomes a term: no other word may. */
    if (snapshot->status == FP_STATUS_free || !fp_term_is_pid(snapshot->id))
        return FP_EGONE;
    if (snapshot->dictionary != 0)
        dictionary = fp_dictionary_bytes(&capture->dictionary);
    snapshot->value[FP_METRIC_memory] += dictionary;
    fp_sigcapture_code(&code.fragments, &code.nif_return);
    unexplained = fp_explain_frames(&code, inspect->layout, capture, snapshot, &view->stack);
    if (unexplained == FP_EUNVERIFIED)
        fp_stack_not_sampled(&view->stack, snapshot->status);
    else if (unexplained != 0)
        fp_stack_only(&view->stack, FP_FRAME_UNREADABLE);
    if (err != 0 || dictionary < 0)
        forget_sizes(snapshot);
    view->scheduler = at + 1;
    return 0;
}

int fp_inspect_poll(struct fp_inspect *inspect, unsigned at,
                    const struct fp_inspect_request *request, struct fp_process_view *view)
{
    const struct fp_capture *capture = NULL;
    int err;

    if (request->err != 0)
        return request->err;
    for (int i = 0; i <= CAPTURE_ATTEMPTS && capture == NULL; i++) {
        pause_before(i);
        capture = fp_sigcapture_poll(at, request->ticket);
    }
    err = capture == NULL ? FP_ESTATE : decode_capture(inspect, at, capture, view);
    fp_sigcapture_drop(at, request->ticket);
    return err;
}

/* A scheduler without a process may be asleep: no signal wakes it. */
static int request_if_busy(struct fp_inspect *inspect, unsigned at, uint32_t *ticket)
{
    uint64_t data = fp_sigcapture_data(at), process = 0;

    if (data == 0)
        return FP_ESTATE;
    (void)fp_safe_read_word(&inspect->memory,
                            data + inspect->layout->release.running.current_process, &process);
    return process == 0 ? FP_ENOENT : request_capture(at, ticket);
}

void fp_inspect_request_all(struct fp_inspect *inspect, struct fp_inspect_request *request)
{
    unsigned count = fp_sigcapture_count(), idle = count;

    for (unsigned at = 0; at < count; at++)
        request[at].err = FP_ENOENT;
    for (int i = 0; i < IDLE_ATTEMPTS && idle > 0; i++) {
        pause_before(i);
        idle = 0;
        for (unsigned at = 0; at < count; at++) {
            if (request[at].err == FP_ENOENT)
                request[at].err = request_if_busy(inspect, at, &request[at].ticket);
            idle += request[at].err == FP_ENOENT;
        }
    }
}

/* By a capture, where the scheduler is registered. FP_ETORN when the process has left the
 * scheduler. */
static int read_on_cpu(struct fp_inspect *inspect, uint64_t pid, uint64_t address,
                       struct fp_process_view *view)
{
    struct fp_process_view captured = {.scheduler = 0};
    struct fp_inspect_request request;
    uint64_t data = 0;
    int at, err;

    fp_stack_not_sampled(&view->stack, view->snapshot.status);
    (void)fp_safe_read_word(&inspect->memory,
                            address + inspect->layout->release.running.scheduler_data, &data);
    if (data == 0)
        return FP_ETORN;
    at = fp_sigcapture_find(data);
    if (at < 0)
        return 0;
    view->scheduler = (unsigned)at + 1;
    request.err = request_capture((unsigned)at, &request.ticket);
    err = fp_inspect_poll(inspect, (unsigned)at, &request, &captured);
    if (err == FP_ESTATE)
        return 0;
    if (err != 0 || captured.snapshot.id != pid)
        return FP_ETORN;
    *view = captured;
    return 0;
}

/* ----------------------------------------------------------- one process -- */

static int read_once(struct fp_inspect *inspect, uint64_t pid, struct fp_process_view *view)
{
    struct fp_snapshot *snapshot = &view->snapshot;
    uint64_t address;
    int64_t dictionary;
    int err = read_process(inspect, pid, &address, snapshot);

    view->scheduler = 0;
    if (err != 0 && (err != FP_ETORN || !snapshot->runs_erlang))
        return err;
    if (!snapshot->runs_erlang)
        return read_off_cpu(inspect, address, view);
    if (err == 0)
        err = fp_dictionary_read(inspect->layout, &inspect->memory, address, snapshot, &dictionary);
    if (err == 0)
        snapshot->value[FP_METRIC_memory] += dictionary;
    else
        forget_sizes(snapshot);
    return read_on_cpu(inspect, pid, address, view);
}

/* A process never holds still while a dirty scheduler collects its large heap; its stack is never
 * whole before that, in a heap that it has left (erl_gc.c, delay_garbage_collection). */
static void set_certain(struct fp_process_view *view)
{
    uint64_t gc = FP_FRAME_GC;

    if (view->snapshot.runs_erlang)
        return;
    forget_sizes(&view->snapshot);
    fp_stack_only(&view->stack, FP_FRAME_UNREADABLE);
    if (view->snapshot.status == FP_STATUS_garbage_collecting)
        fp_stack_put_on_top(&view->stack, &gc, 1);
}

/* The function of a running process is that in which it was scheduled in. */
static int read_brief(struct fp_inspect *inspect, uint64_t pid, struct fp_process_view *view)
{
    struct fp_snapshot *snapshot = &view->snapshot;
    uint64_t address, frame, mfa[3];
    int err = read_process(inspect, pid, &address, snapshot);

    if (err == FP_ETORN)
        forget_sizes(snapshot);
    else if (err != 0)
        return err;
    frame = snapshot->i;
    if (snapshot->status == FP_STATUS_garbage_collecting)
        frame = FP_FRAME_GC;
    else if (fp_process_hibernates(inspect->layout, &inspect->memory, snapshot))
        frame = FP_FRAME_BIF | snapshot->current;
    else if (!fp_ranges_contain(&inspect->ranges, frame))
        frame = fp_stack_dirty_nif(&inspect->memory, frame, mfa)
                    ? FP_FRAME_NIF | (frame - sizeof mfa)
                    : FP_FRAME_UNREADABLE;
    fp_stack_only(&view->stack, frame);
    view->scheduler = 0;
    return 0;
}

int fp_inspect_process(struct fp_inspect *inspect, uint64_t pid, struct fp_process_view *view)
{
    int err = FP_ETORN;

    if (inspect->is_brief)
        return read_brief(inspect, pid, view);
    for (int i = 0; i <= PROCESS_ATTEMPTS && err == FP_ETORN; i++) {
        pause_before(i);
        err = read_once(inspect, pid, view);
    }
    if (err != FP_ETORN)
        return err;
    set_certain(view);
    return 0;
}

/* ------------------------------------------- processes on dirty schedulers -- */

struct dirty_scan {
    const struct fp_layout *layout;
    uint64_t self;
    void (*each)(void *arg, uint64_t pid);
    void *arg;
};

static int tell_dirty(void *arg, uint64_t address, const unsigned char *structure)
{
    const struct dirty_scan *scan = arg;
    uint64_t id = fp_process_field(scan->layout, structure, FP_FIELD_id);

    (void)address;
    if ((fp_process_field(scan->layout, structure, FP_FIELD_state) &
         (FP_PSFLG_DIRTY_RUNNING | FP_PSFLG_DIRTY_RUNNING_SYS)) != 0 &&
        id != scan->self)
        scan->each(scan->arg, id);
    return 0;
}

int fp_inspect_dirty(struct fp_inspect *inspect, uint64_t self,
                     void (*each)(void *arg, uint64_t pid), void *arg)
{
    struct dirty_scan scan = {inspect->layout, self, each, arg};

    return fp_processes_each(inspect->layout, &inspect->memory, tell_dirty, &scan);
}
