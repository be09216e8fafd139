/* pieces.h - a struct fp_memory over copies that were made many at once.
 *
 * A walk of terms reads one thing at a time, a system call each. Where what it will ask for is
 * known, that is read before, in a batch of many processes; the walk then takes it from the copies,
 * and only what is in none of them costs a read. One thread. */
#pragma once

#include "base/safe_read.h"

struct fp_piece {
    uint64_t address;
    uint32_t size; /* 0: it could not be read */
    const unsigned char *bytes;
};

struct fp_pieces {
    struct fp_memory reader; /* what to read by */
    const struct fp_memory *behind;
    const struct fp_piece *piece;
    uint32_t n;
};

/* `pieces` must stay where it is: pieces->reader points to it. */
void fp_pieces_open(struct fp_pieces *pieces, const struct fp_memory *behind);
