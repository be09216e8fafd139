/* test_frames.c - frames and their y slots, against stacks that are laid out frame by frame. */
#include "erts/frames.h"
#include "test.h"

#define CODE UINT64_C(0x300000000000)
#define I (CODE + 0x100)
#define TERM(n) ((uint64_t)(n) << 4 | 0x0f)

static const struct fp_ranges code = {1, {{CODE, CODE + 4096}}};

TEST(each_slot_is_of_the_frame_above_its_return_address)
{
    uint64_t random = 1;

    for (int round = 0; round < 1000; round++) {
        uint64_t word[200], address[9];
        uint32_t first[9], slots[9], n = 1 + (uint32_t)(run_random(&random) % 8), words = 0;
        int with_pointers = (int)(run_random(&random) & 1);
        struct fp_stack_frame frame[16];

        for (uint32_t f = 0; f < n; f++) {
            address[f] = f == 0 ? I : word[words - 1];
            first[f] = words;
            slots[f] = (uint32_t)(run_random(&random) % 12);
            for (uint32_t k = 0; k < slots[f]; k++)
                word[words++] = TERM(k) | (run_random(&random) << 20);
            if (with_pointers)
                word[words++] = 0x7f0000000010;
            word[words++] = CODE + 0x200 + 4 * (run_random(&random) % 500);
        }
        CHECK_INT(fp_frames_read(frame, 16, &code, I, word, words - 1), n);
        for (uint32_t f = 0; f < n; f++) {
            CHECK(frame[f].address == address[f]);
            CHECK_INT(frame[f].slots, slots[f]);
            for (uint32_t k = 0; k < slots[f]; k++)
                CHECK(fp_frame_slot(&frame[f], word, k) == word[first[f] + k]);
            CHECK(fp_frame_slot(&frame[f], word, slots[f]) == 0);
        }
    }
}

TEST(a_copy_that_ends_within_a_frame_has_the_slots_before)
{
    const uint64_t word[] = {TERM(1), TERM(2), CODE + 8, TERM(3), TERM(4)};
    struct fp_stack_frame frame[4];

    CHECK_INT(fp_frames_read(frame, 4, &code, I, word, 5), 2);
    CHECK_INT(frame[1].slots, 2);
    CHECK_INT(fp_frames_read(frame, 4, &code, I, word, 2), 1);
    CHECK_INT(frame[0].slots, 2);
    CHECK_INT(fp_frames_read(frame, 4, &code, I, word, 0), 1);
    CHECK_INT(frame[0].slots, 0);
}

TEST(no_more_frames_than_there_is_room_for)
{
    uint64_t word[100];
    struct fp_stack_frame frame[3];

    for (int i = 0; i < 100; i++)
        word[i] = CODE + 8u * (uint64_t)i;
    CHECK_INT(fp_frames_read(frame, 3, &code, I, word, 100), 3);
    CHECK(frame[2].address == CODE + 8);
}

TEST(any_words_stay_within_the_copy)
{
    uint64_t random = 7;

    for (int round = 0; round < 20000; round++) {
        uint32_t words = (uint32_t)(run_random(&random) % 20), n;
        uint64_t *word = malloc(8 * (words + 1));
        struct fp_stack_frame frame[5];

        for (uint32_t i = 0; i < words; i++) {
            word[i] = run_random(&random);
            if (run_random(&random) & 1)
                word[i] = CODE + (word[i] & 4095);
        }
        n = fp_frames_read(frame, 5, &code, I, word, words);
        CHECK(n >= 1 && n <= 5);
        for (uint32_t f = 0; f < n; f++)
            CHECK(frame[f].first + frame[f].slots <= words);
        free(word);
    }
}
