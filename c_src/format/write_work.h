/* write_work.h - the words of one sample: what the process has in work, and what it waits for.
 * WRITER THREAD only. The words' rules: doc/format.md. */
#pragma once

#include "base/buffer.h"
#include "format/record.h"
#include "format/symbolizer.h"

/* Atoms that were rendered, by their words: an atom's text never changes. All 0: none. */
#define FP_WORK_ATOMS 256u
#define FP_WORK_ATOM_BYTES 56u
struct fp_work_atoms {
    struct {
        uint64_t atom; /* 0: none */
        uint32_t size;
        char text[FP_WORK_ATOM_BYTES];
    } known[FP_WORK_ATOMS];
};

/* A bound for what fp_put_work() writes. */
#define FP_WORK_BYTES_MAX (4u * 3u * FP_ATOM_BYTES_MAX + 512u)

/* Each word with a blank behind it. The place behind them. An atom that the symbolizer does not
 * know takes its word with it. */
char *fp_put_work(char *out, struct fp_work_atoms *atoms, const struct fp_symbolizer *symbolizer,
                  const struct fp_work *work);
