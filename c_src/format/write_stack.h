/*
 * write_stack.h - the FRAME and STACK records of a session, and each stack as the lines of the
 * file. WRITER THREAD only.
 *
 * A stack keeps its frame words, so its text can be thrown away at any time: when code was replaced
 * (fp_stacks_recode), when the slot is defined anew, and when all texts together outgrow their
 * bound. It is rendered when it is asked for. A FRAME record for which there is no room is not
 * kept.
 */
#ifndef FP_FORMAT_WRITE_STACK_H
#define FP_FORMAT_WRITE_STACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "format/record.h"
#include "format/symbolizer.h"

struct fp_stacks;

/* Leaf first. Valid until the next call on its struct fp_stacks. */
struct fp_stack_text {
    const char *lines;
    size_t size;            /* 0: no frame of it is known */
    uint64_t last_function; /* fp_frame_function() of the last; 0: none */
};

/* 0 or FP_ENOMEM. `symbolizer` may be NULL. Neither is copied. `text_bytes`: a bound for the memory
 * of all texts together, with what lies waste in it; 0: 32 MiB. */
int fp_stacks_create(struct fp_stacks **stacks, const struct fp_symbolizer *symbolizer,
                     int flatten_recursive, size_t text_bytes, struct fp_counters *stats);
void fp_stacks_destroy(struct fp_stacks *stacks);

/* 0, FP_ENOMEM, or FP_EINVAL for a record that makes no sense. */
int fp_stacks_define_frame(struct fp_stacks *stacks, const struct fp_record_frame *record);
/* Define a NIF's name. 0 or FP_EINVAL. */
int fp_stacks_define_name(struct fp_stacks *stacks, const struct fp_record_name *record);
int fp_stacks_define(struct fp_stacks *stacks, const struct fp_record_stack *record);

/* The text of a slot. 0, FP_ENOMEM, or FP_EINVAL: the slot is not defined. */
int fp_stacks_text(struct fp_stacks *stacks, uint32_t slot, struct fp_stack_text *text);

/* Forget each text that came from code addresses. */
void fp_stacks_recode(struct fp_stacks *stacks);

#endif
