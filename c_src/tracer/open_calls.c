#include "tracer/open_calls.h"

#include "base/check.h"
#include "base/hash.h"

static size_t slot_at(uint64_t pid, size_t probe)
{
    return (fp_hash_two(pid, 0) + probe) & (FP_CALLS_SLOTS - 1);
}

static struct fp_process_calls *find(struct fp_open_calls *calls, uint64_t pid, size_t *at)
{
    for (size_t probe = 0; probe < FP_CALLS_PROBES; probe++) {
        *at = slot_at(pid, probe);
        if (atomic_load_explicit(&calls->pid[*at], memory_order_acquire) == pid)
            return &calls->open[*at];
    }
    return NULL;
}

/* Only the thread that runs the process claims for it. */
static struct fp_process_calls *claim(struct fp_open_calls *calls, uint64_t pid)
{
    for (size_t probe = 0; probe < FP_CALLS_PROBES; probe++) {
        size_t at = slot_at(pid, probe);
        uint64_t expected = 0;

        if (atomic_load_explicit(&calls->pid[at], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&calls->pid[at], &expected, pid)) {
            atomic_store_explicit(&calls->open[at].depth, 0, memory_order_relaxed);
            return &calls->open[at];
        }
    }
    return NULL;
}

static uint32_t depth_of(const struct fp_process_calls *open)
{
    uint32_t depth = atomic_load_explicit(&open->depth, memory_order_relaxed);

    return FP_CHECK(depth <= FP_CALLS_DEPTH) ? depth : 0;
}

static uint32_t function_of(const struct fp_open_call *call)
{
    return atomic_load_explicit(&call->function, memory_order_relaxed);
}

enum fp_call_begin fp_open_calls_begin(struct fp_open_calls *calls, uint64_t pid, uint32_t function,
                                       int64_t now_ns)
{
    size_t at;
    uint32_t depth;
    struct fp_open_call *call;
    struct fp_process_calls *open = find(calls, pid, &at);

    if (!FP_CHECK(pid != 0))
        return FP_CALLS_FULL;
    if (open == NULL) {
        open = claim(calls, pid);
        if (open == NULL)
            return FP_CALLS_FULL;
    }
    depth = depth_of(open);
    for (uint32_t i = 0; i < depth; i++)
        if (function_of(&open->call[i]) == function)
            return FP_CALL_IS_INNER;
    if (depth == FP_CALLS_DEPTH)
        return FP_CALLS_DEEP;
    call = &open->call[depth];
    call->began_ns = now_ns;
    call->inner_ns = 0;
    call->caller = FP_CALLS_NO_CALLER;
    atomic_store_explicit(&call->function, function, memory_order_relaxed);
    atomic_store_explicit(&open->depth, depth + 1, memory_order_release);
    return FP_CALL_BEGAN;
}

struct fp_open_call *fp_open_calls_top(struct fp_open_calls *calls, uint64_t pid, uint32_t function)
{
    size_t at;
    struct fp_process_calls *open = find(calls, pid, &at);
    uint32_t depth = open == NULL ? 0 : depth_of(open);

    if (depth == 0 || function_of(&open->call[depth - 1]) != function)
        return NULL;
    return &open->call[depth - 1];
}

int fp_open_calls_end(struct fp_open_calls *calls, uint64_t pid, uint32_t function, int64_t now_ns,
                      struct fp_call_end *end)
{
    size_t at;
    struct fp_process_calls *open = find(calls, pid, &at);
    const struct fp_open_call *call;
    int has_begun;
    uint32_t i = open == NULL ? 0 : depth_of(open);

    while (i > 0 && function_of(&open->call[i - 1]) != function)
        i--;
    if (i == 0)
        return 0;
    call = &open->call[i - 1];
    has_begun = call->began_ns != FP_CALLS_NOT_YET;
    end->ns = has_begun && now_ns > call->began_ns ? (uint64_t)(now_ns - call->began_ns) : 0;
    end->own_ns = call->inner_ns < end->ns ? end->ns - call->inner_ns : 0;
    end->caller = call->caller;
    atomic_store_explicit(&open->depth, i - 1, memory_order_relaxed);
    if (i > 1)
        open->call[i - 2].inner_ns += end->ns;
    else
        atomic_store_explicit(&calls->pid[at], 0, memory_order_release);
    return has_begun;
}

void fp_open_calls_sweep(struct fp_open_calls *calls, int (*lives)(void *with, uint64_t pid),
                         void *with)
{
    for (size_t i = 0; i < FP_CALLS_SLOTS; i++) {
        uint64_t pid = atomic_load_explicit(&calls->pid[i], memory_order_acquire);

        /* Another process may have it by now. */
        if (pid != 0 && !lives(with, pid))
            atomic_compare_exchange_strong(&calls->pid[i], &pid, 0);
    }
}

void fp_open_calls_count(const struct fp_open_calls *calls, uint64_t *open, uint32_t functions)
{
    for (size_t i = 0; i < FP_CALLS_SLOTS; i++) {
        const struct fp_process_calls *of = &calls->open[i];
        uint32_t depth, function;

        if (atomic_load_explicit(&calls->pid[i], memory_order_acquire) == 0)
            continue;
        depth = depth_of(of);
        for (uint32_t k = 0; k < depth; k++) {
            function = function_of(&of->call[k]);
            if (function < functions)
                open[function]++;
        }
    }
}
