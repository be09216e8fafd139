/* fuzz_stack.c - any words as an Erlang stack, cut or whole, with frames put on top: the frames are
 * those code addresses, in their order, within the bound. */
#include "fuzz.h"

#include "erts/stack.h"

#define TOP_MAX 52u /* running.c: C frames and four more */

/* As many words as a copy of a stack has, out of as few as an input has: these again and again. */
static size_t fill(uint64_t *word, struct fuzz_input *input)
{
    size_t times = 1 + fuzz_u8(input) % 64u, own = 0, n = 0;

    for (; input->left > 0 && own < FP_STACK_WORDS_MAX; own++)
        word[own] = fuzz_word(input);
    for (n = own; n < own * times && n < FP_STACK_WORDS_MAX; n++)
        word[n] = word[n - own];
    return n;
}

static int is_on(const uint64_t *word, size_t words, uint64_t frame)
{
    for (size_t k = 0; k < words; k++)
        if (word[k] == frame + 1)
            return 1;
    return 0;
}

static void check(const struct fp_stack *stack, const struct fp_ranges *code, uint64_t i,
                  const uint64_t *word, size_t words, int is_cut)
{
    size_t markers = 0;

    FUZZ_CHECK(stack->count <= FP_STACK_FRAMES_MAX);
    for (uint32_t k = 0; k < stack->count; k++) {
        uint64_t frame = stack->frame[k];

        if (frame == FP_FRAME_TRUNCATED)
            markers++;
        else if (k > 0 || frame != i)
            FUZZ_CHECK(fp_ranges_contain(code, frame + 1) && (frame + 1) % 4 == 0);
        if (k < 4 && frame != FP_FRAME_TRUNCATED && frame != i)
            FUZZ_CHECK(is_on(word, words, frame));
    }
    FUZZ_CHECK(markers <= 1 && markers >= (size_t)is_cut);
}

/* What a stack is that need not be cut. */
static void compare(const struct fp_stack *stack, const struct fp_ranges *code, uint64_t i,
                    const uint64_t *word, size_t words)
{
    uint64_t previous = i;
    uint32_t n = 0;

    if (fp_ranges_contain(code, i)) {
        FUZZ_CHECK(stack->frame[0] == i);
        n++;
    }
    for (size_t k = 0; k < words; k++)
        if (word[k] % 4 == 0 && fp_ranges_contain(code, word[k]) && word[k] != previous) {
            FUZZ_CHECK(n < stack->count && stack->frame[n] == word[k] - 1);
            n++;
            previous = word[k];
        }
    FUZZ_CHECK(n == stack->count);
}

static void put_on_top(struct fp_stack *stack, uint32_t n)
{
    uint64_t top[TOP_MAX];
    uint32_t before = stack->count, room = FP_STACK_FRAMES_MAX - n;

    for (uint32_t k = 0; k < n; k++)
        top[k] = UINT64_C(0x555500000000) + k;
    fp_stack_put_on_top(stack, top, n);
    FUZZ_CHECK(stack->count == n + (before < room ? before : room));
    for (uint32_t k = 0; k < n; k++)
        FUZZ_CHECK(stack->frame[k] == top[k]);
}

void fuzz_stack(const uint8_t *bytes, size_t size)
{
    static uint64_t word[FP_STACK_WORDS_MAX];
    struct fuzz_input input = {bytes, size};
    struct fp_stack stack;
    struct fp_ranges code;
    uint64_t i;
    size_t words, leaf;
    uint32_t top;

    fuzz_ranges(&input, &code);
    i = fuzz_address(&input);
    leaf = fuzz_u16(&input);
    top = fuzz_u8(&input) % (TOP_MAX + 1);
    words = fill(word, &input);
    if (leaf > words)
        leaf = words;
    fp_stack_frames(&stack, &code, i, word, words, leaf);
    check(&stack, &code, i, word, words, leaf < words);
    if (leaf == words && stack.count < FP_STACK_FRAMES_MAX)
        compare(&stack, &code, i, word, words);
    put_on_top(&stack, top);
}
