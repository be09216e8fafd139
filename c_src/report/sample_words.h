/* sample_words.h - what a sample says of itself: message, wait and references. */
#pragma once

#include "report/profile.h"

/* Reads profile->fields.of_sample to the row. 0, FP_EFULL or FP_ENOMEM. */
int fp_profile_words(struct fp_profile *profile, struct fp_row *row);
/* The text of a word: a name with plain colons. 0, FP_EFULL or FP_ENOMEM. */
int fp_profile_word(struct fp_profile *profile, struct fp_slice text, uint32_t *id);
