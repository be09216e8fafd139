/* test_stack.c - words of a stack to frames. */
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

#define CUT FP_FRAME_TRUNCATED

/* Up to the first 0, behind which is nothing. `kept`: words of the leaf's end; 0: there is no cut.
 */
static const struct {
    const char *name;
    uint64_t i, word[20], frame[6];
    size_t kept;
} cases[] = {
    {"the leaf comes first, and return addresses less one",
     CODE + 100,
     {CODE + 8, MORE + 16},
     {CODE + 100, CODE + 7, MORE + 15},
     0},
    {"a leaf at 0 is left out", 0, {CODE + 8}, {CODE + 7}, 0},
    {"a leaf that is no code is left out", CODE_END, {CODE + 8}, {CODE + 7}, 0},
    {"no leaf and no words are no frame", 0, {0}, {0}, 0},
    {"words with tags and words elsewhere are values",
     CODE,
     {(CODE + 0x200) | 1, (MORE + 0x200) | 1, (CODE + 0x200) | 2, (MORE + 0x200) | 2,
      (CODE + 0x200) | 3, (MORE + 0x200) | 3, 4, CODE - 4, CODE_END, MORE - 8, MORE_END,
      UINT64_MAX & ~UINT64_C(3), CODE + 0x104},
     {CODE, CODE + 0x103},
     0},
    {"a range has its start and not its end",
     0,
     {CODE, CODE_END - 4, CODE_END},
     {CODE - 1, CODE_END - 5},
     0},
    {"equal addresses in a row count once",
     CODE + 32,
     {CODE + 8, CODE + 8, 0xf, CODE + 8, CODE + 16, CODE + 8},
     {CODE + 32, CODE + 7, CODE + 15, CODE + 7},
     0},
    {"the leaf and what it would return to count once",
     CODE + 8,
     {CODE + 8, CODE + 8, 0xf, CODE + 8},
     {CODE + 8},
     0},
    {"a cut has a marker even where all would fit",
     CODE,
     {CODE + 8, CODE + 16, CODE + 24},
     {CODE, CODE + 7, CODE + 15, CUT, CODE + 23},
     2},
    {"a cut with no frame behind it has a marker",
     CODE,
     {CODE + 8, CODE + 16, 0xf},
     {CODE, CODE + 7, CODE + 15, CUT},
     2},
};

TEST(words_are_frames_or_values)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t words = 0;
        uint32_t frames = 0;
        struct fp_stack stack;

        run_name = cases[k].name;
        while (cases[k].word[words] != 0)
            words++;
        while (cases[k].frame[frames] != 0)
            frames++;
        fp_stack_frames(&stack, &code, cases[k].i, cases[k].word, words,
                        cases[k].kept == 0 ? words : cases[k].kept);
        expect(&stack, cases[k].frame, frames);
    }
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
