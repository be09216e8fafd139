/*
 * stack_table.c - "have I told the writer about this stack?", in two cache lines.
 *
 * The table is WAYS-way set associative: a stack's hash names its set, and the stack lives in any
 * of that set's ways. A full set gives way by clock: the hand passes over ways seen again since its
 * last visit, once, and takes the first that was not. A stack is known by 128 bits of hash alone;
 * with 10^9 different stacks the chance of any mistake is below 10^-20.
 */
#include "session/stack_table.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "format/record.h"

#define WAYS 8u
#define SETS (FP_STACK_SLOTS / WAYS)

_Static_assert((SETS & (SETS - 1)) == 0, "the set is chosen by a bit mask");

struct stack_key {
    uint64_t a, b; /* both 0: nothing lives here */
};

struct set {
    struct stack_key way[WAYS];
};

struct clock {
    uint8_t used; /* bit w: way w was seen again since the hand passed */
    uint8_t hand;
};

struct fp_stack_table {
    struct set *set;
    struct clock clock[SETS];
};

int fp_stack_table_create(struct fp_stack_table **table)
{
    struct fp_stack_table *made = calloc(1, sizeof(*made));

    if (made == NULL)
        return FP_ENOMEM;
    made->set = aligned_alloc(64, SETS * sizeof(*made->set));
    if (made->set == NULL) {
        free(made);
        return FP_ENOMEM;
    }
    /* Written, not only zero: the sampler shall find the pages there. */
    for (size_t s = 0; s < SETS; s++)
        made->set[s] = (struct set){{{0, 0}}};
    *table = made;
    return 0;
}

void fp_stack_table_destroy(struct fp_stack_table *table)
{
    if (table == NULL)
        return;
    free(table->set);
    free(table);
}

static uint64_t rotate_left(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

/* Spread what the lane has gathered over all of its bits. */
static uint64_t settle(uint64_t lane, uint64_t odd)
{
    lane ^= lane >> 32;
    lane *= odd;
    lane ^= lane >> 29;
    lane *= odd;
    lane ^= lane >> 32;
    return lane;
}

/* Two lanes of multiply and rotate with unrelated odd constants. Each step is a bijection of the
 * lane, so no word of a stack can be forgotten; the second lane takes the word after the
 * multiplication, the first before it. */
static struct stack_key hash(const uint64_t *frame, size_t count)
{
    const uint64_t odd_a = UINT64_C(0xd1b54a32d192ed03);
    const uint64_t odd_b = UINT64_C(0xaef17502108ef2d9);
    struct stack_key key = {odd_a ^ count, odd_b + count};

    for (size_t i = 0; i < count; i++) {
        key.a = rotate_left((key.a ^ frame[i]) * odd_a, 29);
        key.b = (rotate_left(key.b, 23) * odd_b) ^ frame[i];
    }
    key.a = settle(key.a, odd_b);
    key.b = settle(key.b, odd_a);
    if ((key.a | key.b) == 0)
        key.b = 1;
    return key;
}

static bool is_empty(const struct stack_key *key)
{
    return (key->a | key->b) == 0;
}

/* An empty way, or else the one that the clock gives up. */
static unsigned choose_way(const struct set *set, struct clock *clock)
{
    for (unsigned way = 0; way < WAYS; way++) {
        if (is_empty(&set->way[way]))
            return way;
    }
    for (;;) {
        unsigned way = clock->hand;
        unsigned bit = 1u << way;

        clock->hand = (uint8_t)((way + 1) % WAYS);
        if ((clock->used & bit) == 0)
            return way;
        clock->used = (uint8_t)(clock->used & ~bit);
    }
}

int fp_stack_table_intern(struct fp_stack_table *table, const uint64_t *frame, size_t count,
                          uint32_t *slot)
{
    struct stack_key key = hash(frame, count);
    uint32_t index = (uint32_t)key.a & (SETS - 1);
    struct set *set = &table->set[index];
    struct clock *clock = &table->clock[index];
    unsigned way;

    for (way = 0; way < WAYS; way++) {
        if (set->way[way].a == key.a && set->way[way].b == key.b) {
            clock->used = (uint8_t)(clock->used | 1u << way);
            *slot = index * WAYS + way;
            return 1;
        }
    }
    /* Not marked as used: a stack that is never seen again goes before those that are, however many
     * such stacks come. */
    way = choose_way(set, clock);
    set->way[way] = key;
    *slot = index * WAYS + way;
    return 0;
}

void fp_stack_table_forget(struct fp_stack_table *table, uint32_t slot)
{
    struct clock *clock = &table->clock[slot / WAYS];
    unsigned way = slot % WAYS;

    assert(slot < FP_STACK_SLOTS);
    table->set[slot / WAYS].way[way] = (struct stack_key){0, 0};
    clock->used = (uint8_t)(clock->used & ~(1u << way));
}

/* The lane that does not choose the set: two stacks that follow each other in one slot agree in the
 * other one's low bits. */
uint64_t fp_stack_table_token(const struct fp_stack_table *table, uint32_t slot)
{
    assert(slot < FP_STACK_SLOTS);
    return table->set[slot / WAYS].way[slot % WAYS].b;
}

int fp_stack_table_holds(struct fp_stack_table *table, uint32_t slot, uint64_t token)
{
    const struct stack_key *key = &table->set[slot / WAYS].way[slot % WAYS];
    struct clock *clock = &table->clock[slot / WAYS];

    assert(slot < FP_STACK_SLOTS);
    if (is_empty(key) || key->b != token)
        return 0;
    clock->used = (uint8_t)(clock->used | 1u << slot % WAYS);
    return 1;
}
