#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "session/on_cpu.h"
#include "session/sampler_internal.h"

/* How long the end waits for pending captures. */
#define DRAIN_MS 100

/* ------------------------------------------------------------ C frames -- */

size_t fp_on_cpu_unwind(void *self, const struct fp_capture *capture, uint64_t *pc, size_t max,
                        struct fp_registers *at_entry, int *complete)
{
    struct fp_live_cstack *live = self;
    const struct fp_cstack *cstack = fp_live_cstack_acquire(live);
    struct fp_cstack_stack stack = {capture->native_start, capture->native, capture->native_bytes};
    struct fp_cstack_end end;
    size_t n = 0;

    *complete = 0;
    if (cstack != NULL) {
        n = fp_cstack_unwind(cstack, &capture->registers, &stack, pc, max, &end);
        *complete =
            n > 0 && end.why == FP_CSTACK_LEFT && end.registers.rip == capture->native_return;
        *at_entry = end.registers;
        /* A library that was loaded since: the writer makes a new set. */
        if (!*complete)
            atomic_store_explicit(&live->stale, 1, memory_order_relaxed);
    }
    fp_live_cstack_release(live);
    return n;
}

/* ----------------------------------------------------- without a capture -- */

/* One sample for each tick that waited, at the time of that tick: they lie evenly between the first
 * and the last. */
static void emit_ticks(struct fp_sampler *s, const struct pending_capture *pending, uint32_t slot,
                       const struct fp_snapshot *now, const struct fp_stack *stack,
                       const struct fp_work *work)
{
    int64_t tick_us = s->tick_us, n = pending->ticks;
    int64_t passed = pending->last_us - pending->first_us;

    s->on_scheduler = pending->number;
    for (int64_t k = 1; k <= n; k++) {
        s->tick_us = pending->last_us - (n > 1 ? passed * (n - k) / (n - 1) : 0);
        fp_emit_sample(s, slot, now, stack, work);
    }
    s->tick_us = tick_us;
    s->on_scheduler = 0;
}

/* The capture does not come: each tick that waited has a sample with one frame instead of a stack,
 * where the structure at `address` is still that process. */
static void emit_not_sampled(struct fp_sampler *s, const struct pending_capture *pending,
                             uint64_t address)
{
    unsigned char structure[FP_PROBE_WINDOW];
    uint64_t id = pending->id;
    uint32_t slot = pending->target;
    struct target *target;
    struct fp_stack stack;
    struct fp_snapshot now;

    if (fp_safe_read(s->options.memory, address, structure, s->layout->snapshot_size) != 0)
        goto late;
    if (s->options.mode == FP_MODE_SCHEDULERS) {
        id = fp_process_field(s->layout, structure, FP_FIELD_id);
        slot = fp_target_find_or_add(s, id, address);
    }
    target = &s->target[slot];
    if (!target->is_live || target->id != id ||
        fp_process_decode_whole(s->layout, s->options.memory, structure, &now) != 0 ||
        now.id != id || now.status == FP_STATUS_free || !fp_target_admits(target, now.status) ||
        fp_target_read_dictionary(s, slot, &now) != 0)
        goto late;
    fp_stack_not_sampled(&stack, now.status);
    emit_ticks(s, pending, slot, &now, &stack, NULL);
    return;
late:
    fp_sampler_give_up(s, FP_COUNTER_inconsistent_late, pending->ticks);
}

/* Ends the request of this scheduler's slot. In mode schedulers its process is not known. */
static void abandon(struct fp_sampler *s, unsigned at)
{
    struct pending_capture *pending = &s->pending[at];

    if (!pending->is_open)
        return;
    pending->is_open = 0;
    emit_not_sampled(s, pending,
                     s->options.mode == FP_MODE_PROCESSES ? s->target[pending->target].address : 0);
    fp_sigcapture_drop(at, pending->ticket);
}

static void set_lost(struct fp_sampler *s, unsigned at, int is_lost)
{
    if (s->pending[at].is_lost == is_lost)
        return;
    s->pending[at].is_lost = (uint8_t)is_lost;
    s->lost_schedulers += is_lost ? 1u : -1u;
    (void)FP_CHECK(s->lost_schedulers <= s->schedulers);
    fp_counters_set(s->options.counters, FP_COUNTER_lost_schedulers, s->lost_schedulers);
}

/* The kernel takes a signal again, or takes none: how many it has refused since the last one. */
static void count_refused(struct fp_sampler *s, int err)
{
    fp_sampler_count(s, FP_COUNTER_refused_signals, err == FP_ESIGNAL);
    s->refused_in_a_row = err == FP_ESIGNAL ? s->refused_in_a_row + 1 : 0;
    fp_counters_set(s->options.counters, FP_COUNTER_refused_in_a_row, s->refused_in_a_row);
}

/* ------------------------------------------------------------- requests -- */

/* Once a tick, before its first request: another library may own the signal by now, whose handler a
 * signal may kill the VM in. */
static int is_signal_lost(struct fp_sampler *s)
{
    int is_lost;

    if (s->checked_us == s->tick_us)
        return s->is_signal_lost;
    s->checked_us = s->tick_us;
    is_lost = fp_sigcapture_check() != 0;
    if (is_lost != s->is_signal_lost)
        fp_counters_set(s->options.counters, FP_COUNTER_lost_signal,
                        (uint64_t)fp_sigcapture_lost_signal());
    s->is_signal_lost = is_lost;
    for (unsigned at = 0; is_lost && at < s->schedulers; at++)
        abandon(s, at);
    return is_lost;
}

/* 0: requested, or given up and counted; FP_ENOENT: the scheduler is lost, which is a frame of the
 * sample then. */
static int request(struct fp_sampler *s, unsigned at, uint32_t slot, uint64_t id, uint64_t process)
{
    struct pending_capture *pending = &s->pending[at];
    int err = FP_ESTATE;

    if (is_signal_lost(s))
        return FP_ENOENT;
    if (pending->is_open &&
        (fp_sigcapture_is_lost(at) || !fp_sigcapture_is_pending(at, pending->ticket)))
        abandon(s, at);
    if (pending->is_open && pending->target == slot && pending->id == id) {
        pending->ticks++;
        pending->last_us = s->tick_us;
        return 0;
    }
    if (!pending->is_open)
        err = fp_sigcapture_request(at, fp_trace_windows(s, process), &pending->ticket);
    if (err == FP_ESIGNAL || err == 0)
        count_refused(s, err);
    set_lost(s, at, err != 0 && fp_sigcapture_is_lost(at));
    if (err == FP_ESIGNAL || pending->is_lost)
        return FP_ENOENT;
    if (err != 0) {
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_late, 1);
        return 0;
    }
    fp_sampler_count(s, FP_COUNTER_signals, 1);
    pending->is_open = 1;
    pending->number = (uint16_t)(at + 1);
    pending->ticks = 1;
    pending->first_us = pending->last_us = s->tick_us;
    pending->target = slot;
    pending->id = id;
    return 0;
}

int fp_on_cpu_request(struct fp_sampler *s, uint32_t slot)
{
    struct target *target = &s->target[slot];
    uint64_t data = 0;
    int at;

    (void)fp_safe_read_word(s->options.memory,
                            target->address + s->layout->release.running.scheduler_data, &data);
    if (data == 0) {
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_moved, 1);
        return 0;
    }
    at = fp_sigcapture_find(data);
    if (at < 0 || (unsigned)at >= s->schedulers)
        return FP_ENOENT;
    return request(s, (unsigned)at, slot, target->id, target->address);
}

/* The schedulers' current processes, in one read. */
static void read_current(struct fp_sampler *s)
{
    for (unsigned at = 0; at < s->schedulers; at++) {
        uint64_t data = fp_sigcapture_data(at);

        s->current[at] = 0;
        s->span[at] = (struct fp_safe_read_span){
            data == 0 ? 0 : data + s->layout->release.running.current_process, &s->current[at],
            data == 0 ? 0 : 8u, 0};
    }
    fp_safe_read_batch(s->options.memory, s->span, s->schedulers);
}

void fp_on_cpu_request_all(struct fp_sampler *s)
{
    uint32_t online = atomic_load_explicit(s->options.schedulers_online, memory_order_relaxed);
    struct pending_capture tick = {.ticks = 1};

    read_current(s);
    tick.first_us = tick.last_us = s->tick_us;
    for (unsigned at = 0; at < s->schedulers && at < online; at++) {
        if (fp_sigcapture_data(at) == 0)
            continue;
        if (s->current[at] == 0 || s->span[at].result != 0) {
            fp_emit_idle(s, at, at + 1);
            continue;
        }
        fp_sampler_count(s, FP_COUNTER_attempted, 1);
        tick.number = (uint16_t)(at + 1);
        if (request(s, at, 0, 0, s->current[at]) != 0)
            emit_not_sampled(s, &tick, s->current[at]);
    }
}

/* -------------------------------------------------------------- captures -- */

/* The slot of the capture's process; UINT32_MAX: it is no target. */
static uint32_t target_of(struct fp_sampler *s, const struct pending_capture *pending,
                          const struct fp_capture *capture)
{
    const struct target *target = &s->target[pending->target];

    if (capture->result == FP_CAPTURE_NO_PROCESS || !FP_CHECK(pending->target < s->targets))
        return UINT32_MAX;
    if (s->options.mode == FP_MODE_SCHEDULERS)
        return fp_target_find_or_add(
            s, fp_process_field(s->layout, capture->structure, FP_FIELD_id), capture->process);
    return target->is_live && target->id == pending->id && target->address == capture->process
               ? pending->target
               : UINT32_MAX;
}

/* Words below the stack's top, which is known by now, are left of calls that have ended. A trace is
 * known without the stack, which `err` is of. */
static const struct fp_work *work_of(struct fp_sampler *s, const struct pending_capture *pending,
                                     const struct fp_capture *capture,
                                     const struct fp_snapshot *now, int err, struct fp_work *room)
{
    int has_work = err == 0 && s->options.messages && capture->work_at >= now->stop &&
                   capture->work_at < now->hend;

    return fp_capture_trace(s, capture, pending->ticks, has_work ? &capture->work : NULL, room);
}

static void emit_explained(struct fp_sampler *s, const struct pending_capture *pending,
                           uint32_t slot, const struct fp_capture *capture, struct fp_snapshot *now)
{
    struct fp_stack stack;
    struct fp_work work;
    int err;

    s->capture_code.off = fp_capture_classes_off;
    err = fp_explain_frames(&s->capture_code, s->layout, capture, now, &stack);
    if (err == FP_EUNVERIFIED)
        fp_stack_not_sampled(&stack, now->status);
    if (err == 0 || err == FP_EUNVERIFIED)
        emit_ticks(s, pending, slot, now, &stack, work_of(s, pending, capture, now, err, &work));
    else
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_unfound, pending->ticks);
}

static void handle(struct fp_sampler *s, const struct pending_capture *pending,
                   const struct fp_capture *capture)
{
    uint32_t slot = target_of(s, pending, capture), n = pending->ticks;
    struct fp_snapshot now;
    int err;

    if (slot == UINT32_MAX) {
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_moved, n);
        return;
    }
    err = fp_process_decode_whole(s->layout, s->options.memory, capture->structure, &now);
    if (now.id == s->target[slot].id && now.status == FP_STATUS_free) {
        fp_sampler_count(s, FP_COUNTER_exited, n);
        s->target[slot].is_live = 0;
        return;
    }
    if (err == 0)
        err = fp_target_add_dictionary(&now, fp_dictionary_bytes(&capture->dictionary));
    if (err != 0)
        err = fp_target_keep_sizes(s, &s->target[slot], &now);
    if (now.id != s->target[slot].id || !now.runs_erlang ||
        !fp_target_admits(&s->target[slot], now.status))
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_moved, n);
    else if (err != 0)
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_changed, n);
    else
        emit_explained(s, pending, slot, capture, &now);
}

uint32_t fp_on_cpu_poll(struct fp_sampler *s)
{
    uint32_t open = 0;

    for (unsigned at = 0; at < s->schedulers; at++) {
        struct pending_capture *pending = &s->pending[at];
        const struct fp_capture *capture;

        if (!pending->is_open)
            continue;
        capture = fp_sigcapture_poll(at, pending->ticket);
        if (capture == NULL) {
            open++;
            continue;
        }
        pending->is_open = 0;
        fp_sampler_count(s, FP_COUNTER_captures, 1);
        fp_sampler_count(s, FP_COUNTER_handler_ns, fp_sigcapture_handler_ns(at));
        handle(s, pending, capture);
        fp_sigcapture_drop(at, pending->ticket);
    }
    return open;
}

void fp_on_cpu_drain(struct fp_sampler *s)
{
    for (int ms = 0; fp_on_cpu_poll(s) > 0 && ms < DRAIN_MS; ms++)
        fp_sleep(FP_MS_NS);
    for (unsigned at = 0; at < s->schedulers; at++) {
        if (!s->pending[at].is_open)
            continue;
        s->pending[at].is_open = 0;
        fp_sampler_give_up(s, FP_COUNTER_inconsistent_late, s->pending[at].ticks);
        fp_sigcapture_drop(at, s->pending[at].ticket);
    }
}

void fp_on_cpu_create(struct fp_sampler *s)
{
    struct fp_capture_code *code = &s->capture_code;

    code->memory = s->options.memory;
    code->ranges = &s->code;
    code->unwind = fp_on_cpu_unwind;
    code->unwind_self = s->options.cstack;
    code->with_native = s->options.c_frames;
    fp_sigcapture_code(&code->fragments, &code->nif_return);
}
