/* tally.h - how many of each key: a table of bounded size. One thread. */
#pragma once

#include <stdint.h>

struct fp_tally_row {
    uint64_t key[2], count;
};

struct fp_tally {
    struct fp_tally_row *row;
    uint32_t rows; /* a power of two */
    uint32_t used;
    uint64_t others; /* counted when the table was full, of keys that are not in it */
};

/* `rows` a power of two; three quarters of them are used. 0 or FP_ENOMEM. */
int fp_tally_create(struct fp_tally *tally, uint32_t rows);
void fp_tally_destroy(struct fp_tally *tally);
void fp_tally_clear(struct fp_tally *tally);

void fp_tally_add(struct fp_tally *tally, uint64_t a, uint64_t b);

/* Sorts it, the largest first: row[0..used). After that only clear and destroy. */
void fp_tally_sort(struct fp_tally *tally);
