/* sample_process.h - which process a sample is of. */
#pragma once

#include "report/profile.h"

/* Adds the process where it is new, and takes over its words. FP_EINVAL: the sample is damaged,
 * profile->bad says why. FP_EFULL, FP_ENOMEM. */
int fp_profile_process(struct fp_profile *profile, const struct fp_sample *sample, uint32_t *id);
