/* frames.h - the frames at the leaf's end of a copied Erlang stack, with their y slots.
 *
 *      stop                                                             hend
 *      | y0 | y1 | ... | return address | y0 | ... | return address | ... |
 *      '-- of the function at `i` ------'-- of the function returned to --'
 *
 * A return address tells which function, and at which call, the words behind it belong to: the
 * compiler has laid out a frame once and for all, so what slot k holds at one address it holds in
 * every process at that address. With frame pointers (+JPfp) a saved one lies before each return
 * address; it ends the slots, too. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/maps.h"

struct fp_stack_frame {
    uint64_t address;      /* `i`, or the return address itself, not less one */
    uint32_t first, slots; /* word[first .. first + slots): the slots that were copied */
};

/* How many of the frames were found, the leaf's first, `room` at most. Of a frame that the copy
 * ends in, the slots before the end. */
uint32_t fp_frames_read(struct fp_stack_frame *frame, uint32_t room, const struct fp_ranges *code,
                        uint64_t i, const uint64_t *word, uint32_t words);

/* The content of the slot; 0, which is no term, if the frame does not have it. */
static inline uint64_t fp_frame_slot(const struct fp_stack_frame *frame, const uint64_t *word,
                                     uint32_t slot)
{
    return slot < frame->slots ? word[frame->first + slot] : 0;
}
