/* pace.h - chances of looks such that a thread looks so often in a second of its CPU time.
 *
 * Each chance follows from the past alone. `now` is of the monotonic clock. One thread uses one
 * of these. */
#pragma once

#include <stdint.h>

/* A part of the probability that a collection is looked at: x / every, 1 at most. `every` follows
 * the load such that all these parts of a second add up to some number of looks. */
struct fp_pace {
    double every, least, looks;
    int64_t since_ns, cpu_ns; /* cpu_ns: -1 at first */
};

double fp_pace_chance(struct fp_pace *pace, double looks, double x, int64_t now);

/* Looks of turns, which come at once and are few: what is not used is saved, a second's at most. */
struct fp_savings {
    double left;
    int64_t since_ns, cpu_ns; /* cpu_ns: -1 at first */
};

/* `wanted`, but 0.05 at least and 1 at most; less, in proportion to what is left, when that is less
 * than half of what can be saved. */
double fp_savings_chance(struct fp_savings *savings, double looks, double wanted, int64_t now);
