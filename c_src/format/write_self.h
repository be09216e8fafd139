/* write_self.h - the sample of the profiler itself (doc/format.md): what it and its node count, and
 * what it says of itself. WRITER THREAD only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/gauges.h"

#define FP_NOTE_ROOM 512 /* of a note with its end; longer ones are cut */
struct fp_self_sample {
    const char *engine;
    const char *mode;                           /* NULL: processes */
    const struct fp_gauges *now[2], *before[2]; /* of the node, then of the session */
    int64_t now_us;
    const char *note;  /* why there is a session, or "" */
    const char *about; /* words `key=text` of node and session with blanks between, not encoded */
};

/* The Firefox Profiler refuses a file whose first line is longer. */
#define FP_SELF_LINE_MOST 4096
/* A bound for what fp_put_self() writes. */
#define FP_SELF_BYTES (FP_SELF_LINE_MOST + 256)

/* The place behind a sample with the gauges from number *at on, which moves behind those that it
 * has. Until *at is the number of all gauges another one has to follow: the last one has the
 * words. */
char *fp_put_self(char *out, const char *event, uint32_t os_pid, int64_t time_us,
                  const struct fp_self_sample *sample, uint32_t *at);
