/* thin.h - fewer rows for a report of hours: samples of a process with one stack and status in one
 * interval become one row. */
#pragma once

#include "report/profile.h"

/* Merges the profile's own rows; the samples are lost, and no file can be added. Observations and
 * deltas of merged samples are added up; the row has the time and the values of the last one.
 * Seconds in which the most changed stay as they are: profile->fine. Called again, `interval_us` is
 * a multiple of the one before. 0; FP_ESTATE while a file is read, or after a piece of the index;
 * FP_EFULL or FP_ENOMEM: the profile is of no more use then. */
int fp_profile_thin(struct fp_profile *profile, int64_t interval_us);
