#include "tracer/share.h"

#include "base/check.h"
#include "erts/process_table.h"

#define K_MAX 16u
/* A step takes effect when the processes are scheduled in. */
#define STEP_NS 5000000

void fp_share_init(struct fp_share *share, const struct fp_layout *layout, uint64_t seed)
{
    share->layout = layout;
    share->seed = (uint32_t)(seed * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    atomic_init(&share->k, 0);
    atomic_init(&share->pressure, 0);
    atomic_init(&share->stepped_ns, 0);
}

double fp_share_weight(const struct fp_share *share, uint64_t pid)
{
    uint32_t k = atomic_load_explicit(&share->k, memory_order_relaxed), number, serial, hash;

    if (k == 0 || !FP_CHECK(k <= K_MAX))
        return 1;
    fp_pid_numbers(share->layout, pid, &number, &serial);
    hash = number * UINT32_C(0x9e3779b9) + serial * UINT32_C(0x85ebca6b) + share->seed;
    return hash >> (32 - k) == 0 ? (double)(1u << k) : 0;
}

uint32_t fp_share_of(const struct fp_share *share)
{
    return 1u << atomic_load_explicit(&share->k, memory_order_relaxed);
}

uint32_t fp_share_group(const struct fp_share *share, uint64_t pid)
{
    uint32_t number, serial, hash;

    fp_pid_numbers(share->layout, pid, &number, &serial);
    hash = (number ^ share->seed) * UINT32_C(0xc2b2ae35) + serial * UINT32_C(0x27d4eb2f);
    hash = (hash ^ hash >> 15) * UINT32_C(0x2c1b3c6d);
    return hash >> 27;
}

_Static_assert(FP_SHARE_GROUPS == 1u << (32 - 27), "a group for each value of the hash");

void fp_share_fit(struct fp_share *share, uint64_t processes)
{
    uint32_t k = 0;

    while (k < K_MAX && processes >> k > FP_SHARE_MOST)
        k++;
    atomic_store_explicit(&share->k, k, memory_order_relaxed);
}

void fp_share_press(struct fp_share *share, uint32_t pressure, int64_t now, uint64_t processes)
{
    int64_t stepped = atomic_load_explicit(&share->stepped_ns, memory_order_relaxed);
    uint32_t k = atomic_load_explicit(&share->k, memory_order_relaxed), before;

    if (pressure < FP_SHARE_PRESSURE || now - stepped < STEP_NS ||
        !atomic_compare_exchange_strong(&share->stepped_ns, &stepped, now))
        return;
    before = atomic_exchange_explicit(&share->pressure, pressure, memory_order_relaxed);
    if (pressure >= before && k < K_MAX && processes >> (k + 1) >= FP_SHARE_LEAST)
        atomic_store_explicit(&share->k, k + 1, memory_order_relaxed);
}

double fp_share_variance(const struct fp_share *share, const double words[FP_SHARE_GROUPS])
{
    uint32_t k = atomic_load_explicit(&share->k, memory_order_relaxed);
    double mean = 0, squares = 0;

    for (uint32_t i = 0; i < FP_SHARE_GROUPS; i++)
        mean += words[i] / FP_SHARE_GROUPS;
    for (uint32_t i = 0; i < FP_SHARE_GROUPS; i++)
        squares += (words[i] - mean) * (words[i] - mean);
    if (!FP_CHECK(k <= K_MAX && squares >= 0))
        return 0;
    return (1 - 1.0 / (double)(1u << k)) * squares * FP_SHARE_GROUPS / (FP_SHARE_GROUPS - 1);
}
