#include "tracer/pace.h"

#include "base/check.h"
#include "base/clock.h"

/* A pace is set as often, and changed by as much; sooner when the looks of half that time are
 * done. */
#define PACE_NS 10000000
#define PACE_DOWN 0.5
#define PACE_UP 8.0
#define SAVED_LEAST 0.05
#define SAVED_SCARCE 1e-4

static double within(double low, double value, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* On a machine that others use, too, looks are a part of what this thread gets. */
static int64_t cpu_ns(void)
{
    return (int64_t)fp_thread_cpu_ns();
}

static void set_pace(struct fp_pace *pace, double looks, int64_t now, int64_t cpu, int is_ahead)
{
    double wanted = looks * (double)(cpu - pace->cpu_ns) * 1e-9;

    pace->since_ns = now;
    if (wanted < 1 && !is_ahead)
        return;
    pace->every *= within(PACE_DOWN, pace->looks / (wanted > 1 ? wanted : 1), PACE_UP);
    pace->every = within(pace->least, pace->every, 1e12);
    pace->cpu_ns = cpu;
    pace->looks = 0;
}

double fp_pace_chance(struct fp_pace *pace, double looks, double x, int64_t now)
{
    int is_ahead = pace->looks > 1 + looks * PACE_NS / 2e9;
    double part;

    if (pace->cpu_ns < 0)
        pace->cpu_ns = cpu_ns();
    if (is_ahead || now - pace->since_ns >= PACE_NS)
        set_pace(pace, looks, now, cpu_ns(), is_ahead);
    if (!FP_CHECK(pace->every >= pace->least && pace->least > 0))
        return 1;
    part = within(0, x / pace->every, 1);
    pace->looks += part;
    return part;
}

double fp_savings_chance(struct fp_savings *savings, double looks, double wanted, int64_t now)
{
    double p;

    if (savings->cpu_ns < 0 || now - savings->since_ns >= PACE_NS) {
        int64_t cpu = cpu_ns();
        double more = (double)(cpu - savings->cpu_ns) * 1e-9 * looks;

        savings->left = savings->cpu_ns < 0 ? looks : within(0, savings->left + more, looks);
        savings->cpu_ns = cpu;
        savings->since_ns = now;
    }
    p = within(SAVED_LEAST, wanted, 1) * within(SAVED_SCARCE, 2 * savings->left / looks, 1);
    if (!FP_CHECK(p > 0 && p <= 1))
        return 1;
    savings->left -= p;
    return p;
}
