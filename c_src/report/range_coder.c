#include "report/range_coder.h"

#define CHANCE_BITS 20
#define GUESS_BITS 18
#define GUESS_MASK ((1u << GUESS_BITS) - 1)
#define USES_MOST 30
#define HITS_MOST 7
#define RANGE_FIRST 0x7fffffffu
#define RANGE_LEAST (1u << 23)
#define RAW_BITS_MOST 16
/* Places in a context: 0 to 66 are the number of bits, and behind NODE_BITS are the bits of a
 * number of each length: the first four side by side, for the reader's cache. */
#define NODE_SIGN 70
#define NODE_BITS 72
#define NODES_SIDE_BY_SIDE 16u
#define GOLDEN 0x9e3779b1u

/* Of any difference of two numbers of 64 bits. */
__extension__ typedef __int128 fp_wide;
__extension__ typedef unsigned __int128 fp_unsigned_wide;

/* ----------------------------------------------------------------- contexts -- */

static uint32_t mix(uint32_t hash, uint32_t number)
{
    hash = (hash ^ number) * 0x2c1b3c6du;
    return hash ^ hash >> 15;
}

uint32_t fp_context(uint32_t kind, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return mix(mix(mix(mix(kind, a), b), c), d);
}

uint32_t fp_context_low(double number)
{
    return (uint32_t)(fp_wide)number;
}

static int length_of(fp_unsigned_wide number)
{
    uint64_t high = (uint64_t)(number >> 64), low = (uint64_t)number;

    if (high != 0)
        return 128 - __builtin_clzll(high);
    return low != 0 ? 64 - __builtin_clzll(low) : 0;
}

uint32_t fp_context_size(double number)
{
    fp_unsigned_wide size = (fp_unsigned_wide)(number < 0 ? -number : number);
    int length = length_of(size);

    return size < 2 ? (uint32_t)size : 2 * (uint32_t)length + (uint32_t)(size >> (length - 2) & 1);
}

/* -------------------------------------------------------------------- coder -- */

int fp_range_open(struct fp_range_coder *coder, struct fp_budget *budget)
{
    size_t chances = (size_t)1 << CHANCE_BITS, guesses = (size_t)1 << GUESS_BITS;
    int err = FP_ZEROS(budget, &coder->chance, chances);

    if (err == 0)
        err = FP_ZEROS(budget, &coder->uses, chances);
    if (err == 0)
        err = FP_ZEROS(budget, &coder->guess, guesses);
    if (err == 0)
        err = FP_ZEROS(budget, &coder->hits, guesses);
    for (size_t i = 0; i < chances && err == 0; i++)
        coder->chance[i] = 1 << 15;
    coder->range = RANGE_FIRST;
    coder->held = 1;
    return err;
}

void fp_range_close(struct fp_range_coder *coder, struct fp_budget *budget)
{
    FP_FREE(budget, coder->chance, (size_t)1 << CHANCE_BITS);
    FP_FREE(budget, coder->uses, (size_t)1 << CHANCE_BITS);
    FP_FREE(budget, coder->guess, (size_t)1 << GUESS_BITS);
    FP_FREE(budget, coder->hits, (size_t)1 << GUESS_BITS);
}

/* A later carry may change the bytes that are held: one, and 0xff's behind it. */
static void shift_low(struct fp_range_coder *coder)
{
    uint8_t carry = (uint8_t)(coder->low >> 32);

    if (carry != 0 || coder->low < 0xff000000u) {
        for (uint8_t byte = coder->first; coder->held > 0; byte = 0xff, coder->held--)
            coder->put(coder->to, (uint8_t)(byte + carry));
        coder->first = (uint8_t)(coder->low >> 24);
    }
    coder->held++;
    coder->low = (coder->low & 0xffffff) << 8;
}

void fp_range_finish(struct fp_range_coder *coder)
{
    for (int i = 0; i < 5; i++)
        shift_low(coder);
}

static void widen(struct fp_range_coder *coder)
{
    while (coder->range < RANGE_LEAST) {
        coder->range <<= 8;
        shift_low(coder);
    }
}

void fp_range_decide(struct fp_range_coder *coder, uint32_t context, bool decision)
{
    uint32_t i = context & ((1u << CHANCE_BITS) - 1);
    uint32_t chance = coder->chance[i], rate = 131072u / (2u * coder->uses[i] + 3);
    uint32_t bound = (coder->range >> 12) * (chance >> 4 | 1);

    if (decision) {
        coder->range = bound;
        coder->chance[i] = (uint16_t)(chance + ((65535 - chance) * rate >> 16));
    } else {
        coder->low += bound;
        coder->range -= bound;
        coder->chance[i] = (uint16_t)(chance - (chance * rate >> 16));
    }
    coder->uses[i] = (uint8_t)(coder->uses[i] + (coder->uses[i] < USES_MOST));
    widen(coder);
}

static void put_raw(struct fp_range_coder *coder, uint32_t bits, int count)
{
    coder->range >>= count;
    coder->low += (uint64_t)bits * coder->range;
    widen(coder);
}

/* ------------------------------------------------------------------ numbers -- */

/* The highest bit is that of the length. */
static void put_bits(struct fp_range_coder *coder, uint32_t context, fp_unsigned_wide number,
                     int depth, int length)
{
    uint32_t node = 1, base = context + NODE_BITS + (uint32_t)length * NODES_SIDE_BY_SIDE;
    int left = length - 1;

    for (; left > 0 && depth > 0; depth--) {
        bool bit = number >> --left & 1;

        fp_range_decide(coder, base + (node < NODES_SIDE_BY_SIDE ? node : node * GOLDEN), bit);
        node = 2 * node + bit;
    }
    while (left > 0) {
        int count = left < RAW_BITS_MOST ? left : RAW_BITS_MOST;

        left -= count;
        put_raw(coder, (uint32_t)(number >> left) & ((1u << count) - 1), count);
    }
}

void fp_range_put(struct fp_range_coder *coder, uint32_t context, double number, int depth)
{
    fp_unsigned_wide wide = (fp_unsigned_wide)number;
    int length = length_of(wide);

    for (int i = 0; i < length; i++)
        fp_range_decide(coder, context + (uint32_t)i, true);
    fp_range_decide(coder, context + (uint32_t)length, false);
    if (length > 1)
        put_bits(coder, context, wide, depth, length);
}

void fp_range_put_signed(struct fp_range_coder *coder, uint32_t context, double number, int depth)
{
    bool is_negative = number < 0;

    fp_range_decide(coder, context + NODE_SIGN, is_negative);
    fp_range_put(coder, is_negative ? ~context : context, is_negative ? -number - 1 : number,
                 depth);
}

/* ------------------------------------------------------------------ guesses -- */

static void learn(struct fp_range_coder *coder, uint32_t i, double number)
{
    if (coder->guess[i] == number)
        coder->hits[i] = (uint8_t)(coder->hits[i] + (coder->hits[i] < HITS_MOST));
    else if (coder->hits[i] > 1)
        coder->hits[i] >>= 1;
    else {
        coder->guess[i] = number;
        coder->hits[i] = 0;
    }
}

bool fp_range_guess(struct fp_range_coder *coder, uint32_t context, const uint32_t key[FP_GUESSES],
                    double number, double not )
{
    double tried[FP_GUESSES + 1] = {not };
    uint32_t count = 1;
    bool is_found = false;

    for (uint32_t k = 0; k < FP_GUESSES && !is_found; k++) {
        uint32_t i = key[k] & GUESS_MASK;
        bool is_known = false;

        for (uint32_t t = 0; t < count; t++)
            is_known |= tried[t] == coder->guess[i];
        if (is_known)
            continue;
        is_found = coder->guess[i] == number;
        fp_range_decide(coder, context + k * 64 + coder->hits[i] * 4u + count, is_found);
        tried[count++] = coder->guess[i];
    }
    for (uint32_t k = 0; k < FP_GUESSES; k++)
        learn(coder, key[k] & GUESS_MASK, number);
    return is_found;
}
