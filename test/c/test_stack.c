/* test_stack.c - words of a stack to frames, against a slow and obvious way of doing the same. */
#include "erts/stack.h"
#include "format/record.h"
#include "test.h"

#define CODE UINT64_C(0x400000)
#define CODE_END UINT64_C(0x500000)
#define MORE UINT64_C(0x700000)
#define MORE_END UINT64_C(0x701000)
#define LEAF_KEPT 200u
#define ROOT_KEPT (FP_STACK_FRAMES_MAX - LEAF_KEPT - 1)

static const struct fp_ranges code = {2, {{CODE, CODE_END}, {MORE, MORE_END}}};

static void expect(const struct fp_stack *stack, const uint64_t *frame, uint32_t n)
{
    CHECK_INT(stack->count, n);
    for (uint32_t k = 0; k < n; k++)
        CHECK_INT(stack->frame[k], frame[k]);
}

TEST(the_leaf_comes_first_and_return_addresses_less_one)
{
    const uint64_t word[] = {CODE + 8, MORE + 16};
    const uint64_t frame[] = {CODE + 100, CODE + 7, MORE + 15};
    struct fp_stack stack;

    fp_stack_frames(&stack, &code, CODE + 100, word, 2, 2);
    expect(&stack, frame, 3);
}

TEST(a_leaf_that_is_no_code_is_left_out)
{
    const uint64_t word[] = {CODE + 8};
    const uint64_t frame[] = {CODE + 7};
    struct fp_stack stack;

    fp_stack_frames(&stack, &code, 0, word, 1, 1);
    expect(&stack, frame, 1);
    fp_stack_frames(&stack, &code, CODE_END, word, 1, 1);
    expect(&stack, frame, 1);
    fp_stack_frames(&stack, &code, 0, word, 0, 0);
    CHECK_INT(stack.count, 0);
}

TEST(words_with_tags_and_words_elsewhere_are_values)
{
    uint64_t word[64];
    const uint64_t frame[] = {CODE, CODE + 0x103};
    size_t n = 0;
    struct fp_stack stack;

    for (uint64_t tag = 1; tag < 4; tag++) { /* list, boxed, immediate */
        word[n++] = (CODE + 0x200) | tag;
        word[n++] = (MORE + 0x200) | tag;
    }
    word[n++] = 0;
    word[n++] = CODE - 4;
    word[n++] = CODE_END;
    word[n++] = MORE - 8;
    word[n++] = MORE_END;
    word[n++] = UINT64_MAX & ~UINT64_C(3);
    word[n++] = CODE + 0x104;
    fp_stack_frames(&stack, &code, CODE, word, n, n);
    expect(&stack, frame, 2);
}

TEST(the_edges_of_a_range_are_in_and_out)
{
    const uint64_t word[] = {CODE, CODE_END - 4, CODE_END};
    const uint64_t frame[] = {CODE - 1, CODE_END - 5};
    struct fp_stack stack;

    fp_stack_frames(&stack, &code, 0, word, 3, 3);
    expect(&stack, frame, 2);
}

TEST(consecutive_equal_addresses_count_once)
{
    const uint64_t word[] = {CODE + 8, CODE + 8, 0xf, CODE + 8, CODE + 16, CODE + 8};
    const uint64_t frame[] = {CODE + 32, CODE + 7, CODE + 15, CODE + 7};
    struct fp_stack stack;

    fp_stack_frames(&stack, &code, CODE + 32, word, 6, 6);
    expect(&stack, frame, 4);
    /* The leaf and what it would return to. */
    fp_stack_frames(&stack, &code, CODE + 8, word, 4, 4);
    CHECK_INT(stack.count, 1);
}

TEST(depths_around_the_limit)
{
    static uint64_t word[1000];
    struct fp_stack stack;

    for (uint64_t k = 0; k < 1000; k++)
        word[k] = CODE + 8 * k;
    for (uint32_t depth = 195; depth < 600; depth++) {
        /* A leaf and depth - 1 return addresses. */
        fp_stack_frames(&stack, &code, MORE, word, depth - 1, depth - 1);
        CHECK(stack.frame[0] == MORE);
        if (depth <= FP_STACK_FRAMES_MAX - 1) {
            CHECK_INT(stack.count, depth);
            CHECK(stack.frame[depth - 1] == word[depth - 2] - 1);
            continue;
        }
        CHECK_INT(stack.count, FP_STACK_FRAMES_MAX);
        for (uint32_t k = 1; k < LEAF_KEPT; k++)
            CHECK(stack.frame[k] == word[k - 1] - 1);
        CHECK_INT(stack.frame[LEAF_KEPT], FP_FRAME_TRUNCATED);
        for (uint32_t k = 0; k < ROOT_KEPT; k++)
            CHECK(stack.frame[FP_STACK_FRAMES_MAX - 1 - k] == word[depth - 2 - k] - 1);
    }
}

TEST(a_cut_has_a_marker_even_where_all_would_fit)
{
    const uint64_t word[] = {CODE + 8, CODE + 16, CODE + 24};
    const uint64_t frame[] = {CODE, CODE + 7, CODE + 15, FP_FRAME_TRUNCATED, CODE + 23};
    const uint64_t only_leaf[] = {CODE, CODE + 7, CODE + 15, FP_FRAME_TRUNCATED};
    const uint64_t values[] = {CODE + 8, CODE + 16, 0xf};
    struct fp_stack stack;

    fp_stack_frames(&stack, &code, CODE, word, 3, 2);
    expect(&stack, frame, 5);
    fp_stack_frames(&stack, &code, CODE, values, 3, 2);
    expect(&stack, only_leaf, 4);
}

/* The marker stands where the words are missing: no frame of the leaf's end is behind it, as if the
 * root's end had called it. */
TEST(behind_a_cut_are_frames_of_the_root_only)
{
    static uint64_t word[300];
    struct fp_stack stack;

    for (uint64_t k = 0; k < 300; k++)
        word[k] = CODE + 8 * k;
    fp_stack_frames(&stack, &code, MORE, word, 253, 250);
    CHECK_INT(stack.count, LEAF_KEPT + 1 + 3);
    CHECK_INT(stack.frame[LEAF_KEPT], FP_FRAME_TRUNCATED);
    for (uint32_t k = 0; k < 3; k++)
        CHECK(stack.frame[LEAF_KEPT + 1 + k] == word[250 + k] - 1);
}

/* The same, the obvious way: all frames in one array, then the ends. */
static void slow_frames(struct fp_stack *stack, uint64_t i, const uint64_t *word, size_t words,
                        size_t leaf_words)
{
    static uint64_t leaf[20000], root[20000];
    size_t leaves = 0, roots = 0, kept;
    int cut = leaf_words < words;
    uint64_t previous = i;

    if (fp_ranges_contain(&code, i))
        leaf[leaves++] = i;
    for (size_t k = 0; k < words; k++) {
        if (word[k] % 4 != 0 || !fp_ranges_contain(&code, word[k]) || word[k] == previous)
            continue;
        previous = word[k];
        if (k < leaf_words)
            leaf[leaves++] = previous - 1;
        else
            root[roots++] = previous - 1;
    }
    stack->count = 0;
    if (!cut) { /* the end of the one array */
        for (size_t k = LEAF_KEPT; k < leaves; k++)
            root[roots++] = leaf[k];
        leaves = leaves < LEAF_KEPT ? leaves : LEAF_KEPT;
    }
    for (size_t k = 0; k < leaves && k < LEAF_KEPT; k++)
        stack->frame[stack->count++] = leaf[k];
    kept = roots < ROOT_KEPT ? roots : ROOT_KEPT;
    if (cut || roots > kept)
        stack->frame[stack->count++] = FP_FRAME_TRUNCATED;
    for (size_t k = roots - kept; k < roots; k++)
        stack->frame[stack->count++] = root[k];
}

TEST(random_stacks_agree_with_the_obvious_way)
{
    static uint64_t word[FP_STACK_WORDS_MAX];
    uint64_t random = 3;

    for (int round = 0; round < 1000; round++) {
        size_t words = run_below(&random, round % 10 == 0 ? FP_STACK_WORDS_MAX : 600);
        size_t leaf_words =
            run_below(&random, 2) == 0 ? words : run_below(&random, (uint32_t)words + 1);
        uint32_t odds = 1 + run_below(&random, 6);
        struct fp_stack fast, slow;
        uint64_t i = CODE - 64 + run_below(&random, 128);

        for (size_t k = 0; k < words; k++)
            word[k] = run_below(&random, odds) != 0 ? run_random(&random) >> run_below(&random, 64)
                                                    : CODE + run_below(&random, 64) * 2;
        fp_stack_frames(&fast, &code, i, word, words, leaf_words);
        slow_frames(&slow, i, word, words, leaf_words);
        expect(&fast, slow.frame, slow.count);
        CHECK(fast.count <= FP_STACK_FRAMES_MAX);
    }
}
