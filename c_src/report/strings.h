/* strings.h - each text once, under a small number. 0 is the empty text.
 *
 * Not shared between threads. A pointer into the table is valid until the next text is added. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "report/table.h"

struct fp_strings {
    char *bytes;
    size_t size, bytes_room;
    uint64_t *end; /* text i is bytes[end[i - 1]] to bytes[end[i]] */
    size_t count, end_room;
    struct fp_table table;
};

/* 0 and the text's number in *id; FP_EFULL or FP_ENOMEM. */
int fp_strings_intern(struct fp_strings *strings, struct fp_budget *budget, struct fp_slice text,
                      uint32_t *id);
struct fp_slice fp_strings_at(const struct fp_strings *strings, uint32_t id);
void fp_strings_free(struct fp_strings *strings, struct fp_budget *budget);
