/* test_stack_table.c - the table against a plain model of itself: what it calls known must be the
 * stack that the slot was last given to. */
#include "base/error.h"
#include "broken.h"
#include "format/record.h"
#include "session/stack_table.h"
#include "test.h"

static struct fp_stack_table *create(void)
{
    struct fp_stack_table *table;

    CHECK_INT(fp_stack_table_create(&table), 0);
    return table;
}

#define TABLE(test)                                                                                \
    static void test##_with(struct fp_stack_table *table);                                         \
    TEST(test)                                                                                     \
    {                                                                                              \
        struct fp_stack_table *table = create();                                                   \
                                                                                                   \
        test##_with(table);                                                                        \
        fp_stack_table_destroy(table);                                                             \
    }                                                                                              \
    static void test##_with(struct fp_stack_table *table)

#define DEPTH 20

/* The n-th stack: like real ones, all alike but for one word. */
static size_t nth_stack(uint64_t n, uint64_t *frame)
{
    for (size_t i = 0; i < DEPTH; i++)
        frame[i] = UINT64_C(0x7f2a00000000) + 64 * i;
    frame[n % DEPTH] += 8 * (1 + n / DEPTH);
    return DEPTH;
}

static int intern(struct fp_stack_table *table, uint64_t n, uint32_t *slot)
{
    uint64_t frame[DEPTH];
    int known = fp_stack_table_intern(table, frame, nth_stack(n, frame), slot);

    CHECK(*slot < FP_STACK_SLOTS);
    return known;
}

TEST(a_stack_is_known_the_second_time)
{
    struct fp_stack_table *table = create();
    uint32_t first, second;

    CHECK_INT(intern(table, 1, &first), 0);
    CHECK_INT(intern(table, 1, &second), 1);
    CHECK_INT(first, second);
    fp_stack_table_destroy(table);
    fp_stack_table_destroy(NULL);
}

TABLE(order_and_depth_make_another_stack)
{
    uint64_t ab[] = {100, 200, 0, 0}, ba[] = {200, 100, 0, 0};
    uint32_t slot[6];

    CHECK_INT(fp_stack_table_intern(table, ab, 2, &slot[0]), 0);
    CHECK_INT(fp_stack_table_intern(table, ba, 2, &slot[1]), 0);
    CHECK_INT(fp_stack_table_intern(table, ab, 1, &slot[2]), 0);
    CHECK_INT(fp_stack_table_intern(table, ab, 3, &slot[3]), 0);
    CHECK_INT(fp_stack_table_intern(table, ab, 4, &slot[4]), 0);
    CHECK_INT(fp_stack_table_intern(table, ab, 0, &slot[5]), 0);
    CHECK_INT(fp_stack_table_intern(table, ab, 0, &slot[5]), 1);
    for (size_t i = 0; i < 6; i++) {
        for (size_t k = 0; k < i; k++)
            CHECK(slot[i] != slot[k]);
    }
}

TABLE(each_bit_of_each_word_makes_another_stack)
{
    uint64_t frame[DEPTH];
    uint32_t slot, unchanged;

    nth_stack(0, frame);
    fp_stack_table_intern(table, frame, DEPTH, &unchanged);
    for (size_t word = 0; word < DEPTH; word++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            frame[word] ^= UINT64_C(1) << bit;
            CHECK_INT(fp_stack_table_intern(table, frame, DEPTH, &slot), 0);
            frame[word] ^= UINT64_C(1) << bit;
        }
    }
}

TABLE(a_forgotten_stack_is_unknown_again)
{
    uint32_t slot, again;

    intern(table, 7, &slot);
    fp_stack_table_forget(table, slot);
    CHECK_INT(intern(table, 7, &again), 0);
    CHECK_INT(intern(table, 7, &again), 1);
}

TABLE(a_token_tells_whether_a_slot_was_given_away)
{
    uint64_t token, n = 8;
    uint32_t slot, other = FP_STACK_SLOTS;

    intern(table, 7, &slot);
    token = fp_stack_table_token(table, slot);
    CHECK_INT(fp_stack_table_holds(table, slot, token), 1);
    /* Until the hand has passed it once and comes again. */
    while (other != slot)
        intern(table, n++, &other);
    CHECK_INT(fp_stack_table_holds(table, slot, token), 0);
    token = fp_stack_table_token(table, slot);
    CHECK_INT(fp_stack_table_holds(table, slot, token), 1);
    fp_stack_table_forget(table, slot);
    CHECK_INT(fp_stack_table_holds(table, slot, token), 0);
    token = fp_stack_table_token(table, slot);
    CHECK_INT(fp_stack_table_holds(table, slot, token), 0);
}

TABLE(holding_counts_as_a_use)
{
    uint64_t token, n = 1000;
    uint32_t slot, other;

    intern(table, 7, &slot);
    token = fp_stack_table_token(table, slot);
    for (int i = 0; i < 200000; i++) {
        intern(table, n++, &other);
        if (i % 100 == 0)
            CHECK_INT(fp_stack_table_holds(table, slot, token), 1);
    }
}

TABLE(similar_stacks_spread_over_the_table)
{
    static char taken[FP_STACK_SLOTS];
    unsigned used = 0, still_known = 0;
    uint32_t slot;

    memset(taken, 0, sizeof(taken));
    for (uint64_t n = 0; n < FP_STACK_SLOTS / 2; n++) {
        intern(table, n, &slot);
        used += !taken[slot];
        taken[slot] = 1;
    }
    /* Half full, so an even spread gives away next to no slot twice (Poisson of mean 4: 2 % of the
     * sets get more than 8). */
    CHECK(used > FP_STACK_SLOTS / 2 * 97 / 100);
    for (uint64_t n = 0; n < FP_STACK_SLOTS / 2; n++)
        still_known += (unsigned)intern(table, n, &slot);
    CHECK(still_known > FP_STACK_SLOTS / 2 * 9 / 10);
}

/* The contract with the writer: whatever the order of things, "known" is said only of the stack
 * that the slot was given to last. */
TABLE(what_is_called_known_is_what_the_slot_was_given_to)
{
    static int64_t model[FP_STACK_SLOTS];
    uint64_t random = 3;
    unsigned known_count = 0;

    memset(model, -1, sizeof(model));
    for (int i = 0; i < 400000; i++) {
        uint32_t n = run_below(&random, 1u << run_below(&random, 18));
        uint32_t slot;

        if (intern(table, n, &slot)) {
            CHECK_INT(model[slot], n);
            known_count++;
        }
        model[slot] = n;
        if (run_below(&random, 100) == 0) {
            fp_stack_table_forget(table, slot);
            model[slot] = -1;
        }
    }
    CHECK(known_count > 100000);
}

TABLE(stacks_in_use_survive_a_flood_of_others)
{
    uint64_t flood = 1000;
    unsigned lost = 0;
    uint32_t slot;

    for (uint64_t n = 0; n < 200; n++)
        intern(table, n, &slot);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 1000; i++)
            intern(table, flood++, &slot);
        for (uint64_t n = 0; n < 200; n++)
            lost += !intern(table, n, &slot);
    }
    /* 40,000 times asked; the clock may take one whose set was flooded. */
    CHECK(lost < 40);
}

TEST(two_tables_give_the_same_answers)
{
    struct fp_stack_table *a = create(), *b = create();
    uint64_t random = 9;

    for (int i = 0; i < 50000; i++) {
        uint32_t n = run_below(&random, 20000), in_a, in_b;

        CHECK_INT(intern(a, n, &in_a), intern(b, n, &in_b));
        CHECK_INT(in_a, in_b);
    }
    fp_stack_table_destroy(a);
    fp_stack_table_destroy(b);
}

TABLE(a_slot_beyond_the_table_has_no_stack)
{
    CHECK_BROKEN("session/stack_table.c", CHECK(!fp_stack_table_holds(table, FP_STACK_SLOTS, 7)));
    CHECK_BROKEN("session/stack_table.c", CHECK(fp_stack_table_token(table, FP_STACK_SLOTS) == 0));
    CHECK_BROKEN("session/stack_table.c", fp_stack_table_forget(table, FP_STACK_SLOTS));
}

/* The keys are first in the table, of two words each. */
TABLE(a_key_that_is_of_another_set_is_no_stack)
{
    uint64_t *key = (uint64_t *)(void *)table, token;
    uint32_t slot;

    CHECK_INT(intern(table, 1, &slot), 0);
    token = fp_stack_table_token(table, slot);
    CHECK(fp_stack_table_holds(table, slot, token));
    key[2 * slot] ^= 1;
    CHECK_BROKEN("session/stack_table.c", CHECK(!fp_stack_table_holds(table, slot, token)));
}
