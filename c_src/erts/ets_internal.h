/* ets_internal.h - what ets.c and ets_solve.c share. */
#pragma once

#include "erts/ets.h"

/* Of a DbTable that calibration looks at; fields of 25 to 29 are in the first 400 bytes. */
#define FP_ETS_WINDOW 512u

struct fp_ets_copy {
    unsigned char byte[FP_ETS_WINDOW];
};

uint64_t fp_ets_word(const struct fp_ets_copy *copy, uint32_t at);

/* Sets objects and bytes of a table with decentralized counters. 0, or FP_ETORN: both are -1. */
int fp_ets_sum(const struct fp_ets *tables, const struct fp_memory *memory,
               struct fp_ets_table *table);
