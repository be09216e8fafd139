/* stack_table.c - has the writer this stack? In two cache lines.
 *
 * A stack's hash names its set, and the stack is in any of the set's ways. A full set gives way by
 * clock: the hand passes over ways used since its last visit, once, and stops at the first that was
 * not. With 10^9 different stacks the chance that two have one hash is below 10^-20. */
#include "session/stack_table.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/pages.h"
#include "format/record.h"

#define WAYS 8u
#define SETS (FP_STACK_SLOTS / WAYS)

_Static_assert((SETS & (SETS - 1)) == 0, "a bit mask names the set");

struct stack_key {
    uint64_t a, b; /* both 0: empty */
};

struct clock {
    uint8_t used; /* bit w: way w was used since the hand passed */
    uint8_t hand;
};

struct fp_stack_table {
    struct stack_key key[FP_STACK_SLOTS]; /* WAYS of each set; page-aligned */
    struct clock clock[SETS];
};

int fp_stack_table_create(struct fp_stack_table **table)
{
    *table = fp_pages_alloc(sizeof **table);
    if (*table == NULL)
        return FP_ENOMEM;
    memset(*table, 0, sizeof **table); /* the sampler finds its pages there */
    return 0;
}

void fp_stack_table_destroy(struct fp_stack_table *table)
{
    fp_pages_free(table, sizeof *table);
}

static uint64_t rotate_left(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

/* Spreads the lane over all of its bits. */
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
 * lane, so every word of a stack counts; lane b adds the word after the multiplication, lane a
 * before it. */
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

static bool is_slot(uint32_t slot)
{
    return FP_CHECK(slot < FP_STACK_SLOTS);
}

#ifdef FP_SLOW_CHECKS
/* Whether each key of the set is in one of its ways. */
static bool is_set(const struct fp_stack_table *table, uint32_t index)
{
    const struct stack_key *set = &table->key[index * WAYS];

    for (unsigned way = 0; way < WAYS; way++)
        for (unsigned other = 0; other < way; other++)
            if ((set[way].a | set[way].b) != 0 && set[way].a == set[other].a &&
                set[way].b == set[other].b)
                return false;
    return true;
}
#endif

/* An empty way, or else the one that the clock gives up. */
static unsigned choose_way(const struct stack_key *set, struct clock *clock)
{
    for (unsigned way = 0; way < WAYS; way++)
        if ((set[way].a | set[way].b) == 0)
            return way;
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
    struct stack_key *set = &table->key[index * WAYS];
    struct clock *clock = &table->clock[index];
    unsigned way;

    for (way = 0; way < WAYS; way++) {
        if (set[way].a == key.a && set[way].b == key.b) {
            clock->used = (uint8_t)(clock->used | 1u << way);
            *slot = index * WAYS + way;
            return 1;
        }
    }
    if (!FP_CHECK(clock->hand < WAYS))
        clock->hand = 0;
    /* Not marked as used: however many stacks are seen once, they replace each other. */
    way = choose_way(set, clock);
    set[way] = key;
    *slot = index * WAYS + way;
    (void)FP_CHECK_SLOW(is_set(table, index));
    return 0;
}

void fp_stack_table_forget(struct fp_stack_table *table, uint32_t slot)
{
    struct clock *clock = &table->clock[slot / WAYS];

    if (!is_slot(slot))
        return;
    table->key[slot] = (struct stack_key){0, 0};
    clock->used = (uint8_t)(clock->used & ~(1u << slot % WAYS));
}

/* Lane a names the set: two stacks that follow each other in one slot agree in its low bits. */
uint64_t fp_stack_table_token(const struct fp_stack_table *table, uint32_t slot)
{
    return is_slot(slot) ? table->key[slot].b : 0;
}

int fp_stack_table_holds(struct fp_stack_table *table, uint32_t slot, uint64_t token)
{
    const struct stack_key *key = &table->key[slot];
    struct clock *clock = &table->clock[slot / WAYS];

    if (!is_slot(slot) || (key->a | key->b) == 0 || key->b != token ||
        !FP_CHECK((key->a & (SETS - 1)) == slot / WAYS))
        return 0;
    clock->used = (uint8_t)(clock->used | 1u << slot % WAYS);
    return 1;
}
