#include "erts/stack.h"

#include <string.h>

/* Of a deep stack. */
#define LEAF_FRAMES 200u
#define ROOT_FRAMES (FP_STACK_FRAMES_MAX - LEAF_FRAMES - 1)

/* Both ends of a stack, whose frames are added from the leaf on. */
struct ends {
    struct fp_stack *stack;
    uint64_t root[ROOT_FRAMES]; /* ring of the last ones */
    size_t roots;               /* frames that were added there */
    int cut;                    /* something is missing in between */
};

static void add(struct ends *ends, uint64_t frame)
{
    if (ends->stack->count < LEAF_FRAMES && !ends->cut)
        ends->stack->frame[ends->stack->count++] = frame;
    else
        ends->root[ends->roots++ % ROOT_FRAMES] = frame;
}

void fp_stack_frames(struct fp_stack *stack, const struct fp_ranges *code, uint64_t i,
                     const uint64_t *word, size_t words, size_t leaf_words)
{
    struct ends ends = {.stack = stack};
    uint64_t previous = i;

    stack->count = 0;
    if (fp_ranges_contain(code, i))
        add(&ends, i);
    for (size_t k = 0; k < words; k++) {
        if (k == leaf_words) {
            /* The rest of the leaf's end is left out, too: behind the marker is the root's end. */
            ends.cut = 1;
            ends.roots = 0;
        }
        if ((word[k] & 3) != 0 || !fp_ranges_contain(code, word[k]) || word[k] == previous)
            continue;
        previous = word[k];
        add(&ends, word[k] - 1);
    }
    if (ends.cut || ends.roots > ROOT_FRAMES)
        stack->frame[stack->count++] = FP_FRAME_TRUNCATED;
    for (size_t k = ends.roots - (ends.roots < ROOT_FRAMES ? ends.roots : ROOT_FRAMES);
         k < ends.roots; k++)
        stack->frame[stack->count++] = ends.root[k % ROOT_FRAMES];
}

void fp_stack_put_on_top(struct fp_stack *stack, const uint64_t *frame, uint32_t n)
{
    uint32_t room = FP_STACK_FRAMES_MAX - n;

    if (stack->count > room) {
        stack->count = room;
        stack->frame[room - 1] = FP_FRAME_TRUNCATED;
    }
    memmove(stack->frame + n, stack->frame, 8u * stack->count);
    memcpy(stack->frame, frame, 8u * n);
    stack->count += n;
}
