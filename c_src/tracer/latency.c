#include "tracer/latency.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/pages.h"
#include "base/relaxed.h"
#include "tracer/parts.h"

/* Of one function and one thread, which alone writes. */
struct cell {
    struct fp_histogram returned;
    _Atomic uint64_t count; /* 0: nothing else need be read */
    _Atomic uint64_t own_ns;
    _Atomic uint64_t exceptions, exceptions_ns;
    _Atomic uint64_t left_out;
};

/* Pages that are reserved: what is never written takes no memory. */
struct fp_latency {
    struct fp_latency_config config;
    size_t bytes;
    _Atomic uint8_t is_recursive[FP_LATENCY_FUNCTIONS];
    _Atomic uint32_t shift; /* the greatest since the last interval */
    _Atomic uint64_t lost_processes, lost_nested, lost_threads;
    struct fp_latency_totals before[FP_LATENCY_FUNCTIONS];
    struct fp_parts *callers, *processes;
    struct fp_open_calls calls;
    struct cell cells[];
};

struct fp_latency *fp_latency_create(const struct fp_latency_config *config)
{
    size_t cells = (size_t)config->functions * config->threads;
    size_t bytes = sizeof(struct fp_latency) + cells * sizeof(struct cell);
    struct fp_latency *latency = fp_pages_reserve(bytes);

    if (latency == NULL)
        return NULL;
    latency->config = *config;
    latency->bytes = bytes;
    latency->callers = fp_pages_reserve(fp_parts_bytes(config->threads));
    latency->processes = fp_pages_reserve(fp_parts_bytes(config->threads));
    if (latency->callers == NULL || latency->processes == NULL) {
        fp_latency_destroy(latency);
        return NULL;
    }
    latency->callers->thread_count = latency->processes->thread_count = config->threads;
    return latency;
}

void fp_latency_destroy(struct fp_latency *latency)
{
    size_t bytes = fp_parts_bytes(latency->config.threads);

    fp_pages_free(latency->callers, bytes);
    fp_pages_free(latency->processes, bytes);
    fp_pages_free(latency, latency->bytes);
}

/* A quarter of what may be spent ahead costs no sample. From there each 16th of it halves. */
static uint32_t shift_of(uint32_t pressure)
{
    return pressure < 64 ? 0 : (pressure - 64) / 16 + 1;
}

/* ---------------------------------------------------------- at each event -- */

static struct cell *cell_of(struct fp_latency *latency, uint32_t thread, uint32_t function)
{
    return &latency->cells[(size_t)thread * latency->config.functions + function];
}

static int is_left_out(struct fp_latency *latency, uint32_t function, uint32_t pressure,
                       uint64_t random)
{
    uint32_t shift = shift_of(pressure);

    if (shift == 0 || atomic_load_explicit(&latency->is_recursive[function], memory_order_relaxed))
        return 0;
    if (shift > atomic_load_explicit(&latency->shift, memory_order_relaxed))
        atomic_store_explicit(&latency->shift, shift, memory_order_relaxed);
    return (random >> 32 & ((UINT64_C(1) << shift) - 1)) != 0;
}

int fp_latency_begin(struct fp_latency *latency, uint32_t thread, uint32_t function, uint64_t pid,
                     uint32_t pressure, uint64_t random)
{
    int64_t now_ns;

    if (function >= latency->config.functions)
        return 0;
    if (thread >= latency->config.threads) {
        fp_relaxed_add_shared(&latency->lost_threads, 1);
        return 0;
    }
    if (is_left_out(latency, function, pressure, random)) {
        struct cell *cell = cell_of(latency, thread, function);

        fp_relaxed_add(&cell->left_out, 1);
        fp_relaxed_add(&cell->count, 1);
        return 0;
    }
    now_ns = latency->config.by_caller ? FP_CALLS_NOT_YET : fp_monotonic_ns();
    switch (fp_open_calls_begin(&latency->calls, pid, function, now_ns)) {
    case FP_CALL_BEGAN:
        return 1;
    case FP_CALL_IS_INNER:
        if (!atomic_load_explicit(&latency->is_recursive[function], memory_order_relaxed))
            atomic_store_explicit(&latency->is_recursive[function], 1, memory_order_relaxed);
        return 0;
    case FP_CALLS_FULL:
        fp_relaxed_add_shared(&latency->lost_processes, 1);
        return 0;
    default:
        fp_relaxed_add_shared(&latency->lost_nested, 1);
        return 0;
    }
}

void fp_latency_caller(struct fp_latency *latency, uint32_t function, uint64_t pid,
                       const uint64_t caller[3])
{
    struct fp_open_call *call = fp_open_calls_top(&latency->calls, pid, function);

    if (call == NULL)
        return;
    call->caller = fp_parts_find(latency->callers, function, caller);
    call->began_ns = fp_monotonic_ns();
}

void fp_latency_end(struct fp_latency *latency, uint32_t thread, uint32_t function, uint64_t pid,
                    int is_exception)
{
    const uint64_t process[3] = {pid, 0, 0};
    struct fp_call_end end;
    struct cell *cell;

    if (function >= latency->config.functions ||
        !fp_open_calls_end(&latency->calls, pid, function, fp_monotonic_ns(), &end))
        return;
    if (thread >= latency->config.threads) {
        fp_relaxed_add_shared(&latency->lost_threads, 1);
        return;
    }
    cell = cell_of(latency, thread, function);
    fp_relaxed_add(&cell->count, 1);
    if (is_exception) {
        fp_relaxed_add(&cell->exceptions, 1);
        fp_relaxed_add(&cell->exceptions_ns, end.ns);
        return;
    }
    (void)FP_CHECK(end.own_ns <= end.ns);
    fp_histogram_add(&cell->returned, end.ns);
    if (latency->config.functions == 1)
        end.own_ns = 0; /* all of it, and left out of answers */
    fp_relaxed_add(&cell->own_ns, end.own_ns);
    if (latency->config.by_caller && end.caller != FP_CALLS_NO_CALLER)
        fp_parts_add(latency->callers, thread, end.caller, end.ns, end.own_ns);
    if (latency->config.by_process)
        fp_parts_add(latency->processes, thread,
                     fp_parts_find(latency->processes, function, process), end.ns, end.own_ns);
}

/* ------------------------------------------------------------------ reader -- */

void fp_latency_read(const struct fp_latency *latency, uint32_t function,
                     struct fp_latency_totals *totals)
{
    memset(totals, 0, sizeof *totals);
    if (!FP_CHECK(function < latency->config.functions))
        return;
    for (uint32_t thread = 0; thread < latency->config.threads; thread++) {
        const struct cell *cell =
            &latency->cells[(size_t)thread * latency->config.functions + function];

        if (fp_relaxed_get(&cell->count) == 0)
            continue;
        fp_histogram_read(&totals->returned, &cell->returned);
        totals->own_ns += fp_relaxed_get(&cell->own_ns);
        totals->exceptions += fp_relaxed_get(&cell->exceptions);
        totals->exceptions_ns += fp_relaxed_get(&cell->exceptions_ns);
        totals->left_out += fp_relaxed_get(&cell->left_out);
    }
}

void fp_latency_interval(struct fp_latency *latency, uint32_t function,
                         struct fp_latency_totals *totals)
{
    struct fp_latency_totals *before = &latency->before[function], all = *totals;

    fp_histogram_since(&totals->returned, &all.returned, &before->returned);
    totals->own_ns -= before->own_ns;
    totals->exceptions -= before->exceptions;
    totals->exceptions_ns -= before->exceptions_ns;
    totals->left_out -= before->left_out;
    *before = all;
}

uint32_t fp_latency_take_shift(struct fp_latency *latency)
{
    return atomic_exchange_explicit(&latency->shift, 0, memory_order_relaxed);
}

struct fp_latency_lost fp_latency_lost(const struct fp_latency *latency)
{
    return (struct fp_latency_lost){
        .processes = fp_relaxed_get(&latency->lost_processes),
        .nested = fp_relaxed_get(&latency->lost_nested),
        .threads = fp_relaxed_get(&latency->lost_threads),
        .caller_times = fp_parts_missing(latency->callers),
        .process_times = fp_parts_missing(latency->processes),
    };
}

void fp_latency_open(const struct fp_latency *latency, uint64_t *open)
{
    fp_open_calls_count(&latency->calls, open, latency->config.functions);
}

void fp_latency_drain_callers(struct fp_latency *latency, const struct fp_latency_reader *reader)
{
    fp_parts_drain_buckets(latency->callers, reader->bucket, reader->with);
    fp_parts_drain_parts(latency->callers, reader->part, NULL, reader->with);
}

void fp_latency_drain_processes(struct fp_latency *latency, const struct fp_latency_reader *reader,
                                fp_latency_lives *lives)
{
    fp_parts_drain_buckets(latency->processes, reader->bucket, reader->with);
    fp_parts_drain_parts(latency->processes, reader->part, lives, reader->with);
}

void fp_latency_sweep(struct fp_latency *latency, fp_latency_lives *lives, void *with)
{
    fp_open_calls_sweep(&latency->calls, lives, with);
}
