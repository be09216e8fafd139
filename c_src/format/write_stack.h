/* write_stack.h - the FRAME, NAME and STACK records of a session, and each stack as the lines of
 * the file. WRITER THREAD only.
 *
 * A stack keeps its frame words and is rendered when its text is needed. The text is discarded when
 * code was replaced (fp_stacks_recode), when the slot is defined anew, and when all texts together
 * reach their bound. A FRAME record for which there is no room is not kept. */
#pragma once

#include "base/slice.h"
#include "format/perf_script.h"

struct fp_stacks;

/* Leaf first. Valid until the next call on its struct fp_stacks. */
struct fp_stack_text {
    struct fp_slice lines;  /* empty: no frame of it is known */
    uint64_t last_function; /* fp_frame_function() of the last; 0: none */
};

/* 0 or FP_ENOMEM. `options` is not copied. */
int fp_stacks_create(struct fp_stacks **stacks, const struct fp_perf_script_options *options);
void fp_stacks_destroy(struct fp_stacks *stacks);

/* From records of at least their fixed size. 0; FP_EINVAL: a slot or a length is out of its range;
 * FP_ENOMEM: of a FRAME record. */
int fp_stacks_define_frame(struct fp_stacks *stacks, const struct fp_record_frame *record);
int fp_stacks_define_name(struct fp_stacks *stacks, const struct fp_record_name *record);
int fp_stacks_define(struct fp_stacks *stacks, const struct fp_record_stack *record);

/* The text of a slot. 0, FP_ENOMEM, or FP_EINVAL: the slot is not defined. */
int fp_stacks_text(struct fp_stacks *stacks, uint32_t slot, struct fp_stack_text *text);

/* Forget each text that came from code addresses. */
void fp_stacks_recode(struct fp_stacks *stacks);
