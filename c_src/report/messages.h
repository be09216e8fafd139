/* messages.h - what stands between the samples of a file of perf's: records that are no samples,
 * and warnings of perf that a shell has put into the same file. Neither is damage. */
#pragma once

#include "format/parse.h"

struct fp_messages {
    uint64_t count;
    uint64_t lost_events; /* that perf could not record, as these say */
    uint64_t text, line;  /* lines of text before the first sample, and the first of them */
};

/* 1: the piece at this line is a message, or text that may be one; 0: it is neither. */
int fp_messages_take(struct fp_messages *messages, const struct fp_sample *sample, uint64_t line);
/* At the first sample of a file, of this dialect, and at the end of a file without one: text was a
 * message, or damage. How many pieces are damaged. */
uint64_t fp_messages_judge(struct fp_messages *messages, enum fp_dialect dialect);
