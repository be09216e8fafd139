/* mean.h - over many runs: the errors of an estimate are none in the mean. */
#pragma once

#include <math.h>

#include "run.h"

struct mean {
    double sum, squares;
    uint32_t n;
};

static inline void mean_add(struct mean *mean, double error)
{
    mean->sum += error;
    mean->squares += error * error;
    mean->n++;
}

/* Within four of its standard errors, and `rest`. */
static inline void mean_is_none(const struct mean *mean, const char *what, double rest)
{
    double of_all = mean->sum / mean->n;
    double variance = mean->squares / mean->n - of_all * of_all;

    if (fabs(of_all) > 4 * sqrt(variance / mean->n) + rest)
        RUN_FAIL("%s: the mean error of %u runs is %g, the standard deviation of one %g", what,
                 mean->n, of_all, sqrt(variance));
}
