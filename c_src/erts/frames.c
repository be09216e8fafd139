#include "erts/frames.h"

/* No term has these bits on a stack: a return address, or a frame pointer. */
static int is_pointer(uint64_t word)
{
    return (word & 3) == 0;
}

uint32_t fp_frames_read(struct fp_stack_frame *frame, uint32_t room, const struct fp_ranges *code,
                        uint64_t i, const uint64_t *word, uint32_t words)
{
    uint32_t n = 0, at = 0;
    uint64_t address = i;

    while (n < room) {
        uint32_t first = at, slots;

        while (at < words && !is_pointer(word[at]))
            at++;
        slots = at - first;
        while (at < words && !(is_pointer(word[at]) && fp_ranges_contain(code, word[at])))
            at++;
        frame[n++] = (struct fp_stack_frame){address, first, slots};
        if (at == words)
            break;
        address = word[at++];
    }
    return n;
}
