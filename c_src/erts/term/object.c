#include "erts/term/object.h"

#include <string.h>

#include "base/error.h"

/* Header words of these subtags, before 27 and since. */
#define SUBTAG(header) ((header)&0x3f)
#define WORDS(header) ((header) >> 6)

/* The most that an undamaged header can have: MAX_ARITYVAL + 1. */
#define WORDS_END (UINT64_C(1) << 26)

/* Bytes of a binary of so many bits. */
static uint64_t bytes_of(uint64_t bits)
{
    return bits / 8 + (bits % 8 != 0);
}

static void set_terms(struct fp_object *object, enum fp_object_kind kind, uint64_t first,
                      uint64_t terms)
{
    object->kind = kind;
    object->first = (uint32_t)first;
    object->terms = (uint32_t)terms;
    object->words = first + terms;
}

/* MAP_HEADER_TYPE: flat, node, root with all 16 children, root. */
static void decode_map(const uint64_t *word, struct fp_object *object)
{
    uint64_t children = (uint64_t)__builtin_popcountll(word[0] >> 16 & 0xffff);

    switch (word[0] >> 6 & 3) {
    case 0:
        if (word[1] < WORDS_END)
            set_terms(object, FP_OBJECT_FLATMAP, 3, word[1]);
        break;
    case 1:
        set_terms(object, FP_OBJECT_HASHMAP_NODE, 1, children);
        break;
    default:
        set_terms(object, FP_OBJECT_HASHMAP, 2, children);
    }
}

static void decode_25(const uint64_t *word, struct fp_object *object)
{
    switch (SUBTAG(word[0])) {
    case 0x04:
        set_terms(object, FP_OBJECT_MATCH_CONTEXT, 1, 1);
        object->words = WORDS(word[0]) + 1;
        object->seen = bytes_of(word[4]);
        break;
    case 0x14: /* entry, next, arity and number of variables, creator, variables */
        if (WORDS(word[0]) == 3)
            set_terms(object, FP_OBJECT_FUN, 4, 1 + (word[3] >> 8 & 0xff));
        break;
    case 0x20:
        object->kind = FP_OBJECT_REFC_BINARY;
        object->seen = word[1];
        object->next = word[2];
        object->binary = word[3];
        break;
    case 0x24:
        object->kind = FP_OBJECT_HEAP_BINARY;
        object->seen = word[1];
        break;
    case 0x28:
        set_terms(object, FP_OBJECT_SUB_BINARY, 4, 1);
        object->seen = word[1] + ((word[3] & 0xff) != 0);
        break;
    case 0x3c:
        decode_map(word, object);
        break;
    default:
        break;
    }
}

static void decode_27(unsigned otp, const uint64_t *word, struct fp_object *object)
{
    switch (SUBTAG(word[0])) {
    case 0x04:
        object->kind = otp < 29 ? FP_OBJECT_FUN_REF : FP_OBJECT_BAD;
        break;
    case 0x14: /* the header has arity and words of the environment, and since 29 a kind */
        set_terms(object, FP_OBJECT_FUN, 2, word[0] >> 16 & 0xff);
        break;
    case 0x1c:
        if (otp >= 29 && WORDS(word[0]) > 0)
            set_terms(object, FP_OBJECT_RECORD, 1, WORDS(word[0]));
        break;
    case 0x20:
        object->kind = FP_OBJECT_HEAP_BINARY;
        object->seen = bytes_of(word[1]);
        break;
    case 0x24:
        set_terms(object, (word[1] & 3) == 1 ? FP_OBJECT_MATCH_CONTEXT : FP_OBJECT_SUB_BINARY, 4,
                  1);
        object->seen = word[3] < word[2] ? 0 : bytes_of(word[3] - word[2]);
        break;
    case 0x28:
        object->kind = FP_OBJECT_BINARY_REF;
        object->binary = word[1];
        object->next = word[2];
        break;
    case 0x2c:
        decode_map(word, object);
        break;
    default:
        break;
    }
}

void fp_object_decode(unsigned otp, const uint64_t word[FP_OBJECT_WORDS], struct fp_object *object)
{
    uint64_t header = word[0];

    memset(object, 0, sizeof *object);
    if ((header & 3) != 0)
        return;
    object->words = WORDS(header) + 1;
    switch (SUBTAG(header)) {
    case 0x00:
        if (WORDS(header) < WORDS_END)
            set_terms(object, FP_OBJECT_TUPLE, 1, WORDS(header));
        break;
    case 0x08:
    case 0x0c:
        object->kind = FP_OBJECT_INTEGER;
        break;
    case 0x10:
    case 0x30:
    case 0x34:
    case 0x38:
        object->kind = FP_OBJECT_IDENTIFIER;
        break;
    case 0x18:
        object->kind = FP_OBJECT_FLOAT;
        break;
    default:
        if (otp < 27)
            decode_25(word, object);
        else
            decode_27(otp, word, object);
    }
}

/* ---------------------------------------------------------------- binaries -- */

/* More is no size of a binary, and no count of references. */
#define BINARY_MAX (INT64_C(1) << 48)
/* BIN_FLAG_*: the first is magic, none is behind bit 5. */
#define FLAGS_END 64u
#define BLOCK_SIZE UINT64_C(0xfffffffff8)

int fp_binary_decode(unsigned otp, const uint64_t word[FP_BINARY_WORDS], struct fp_binary *binary)
{
    uint32_t refs = otp < 27 ? 2 : 3, bytes_at = 8 * (refs + 1);
    uint64_t least, block = word[0] & BLOCK_SIZE;

    *binary = (struct fp_binary){
        .size = word[refs + 1], .refs = (int64_t)word[refs], .is_magic = (int)(word[1] & 1)};
    if (word[1] >= FLAGS_END || binary->refs <= 0 || binary->refs > BINARY_MAX ||
        binary->size > (uint64_t)BINARY_MAX)
        return FP_ETORN;
    /* Its bytes end in a word of padding; an allocator gives out words, and a rest that is too
     * small for a block with them. */
    least = 8 + bytes_at + (binary->size + 7 + 7) / 8 * 8;
    binary->has_block = block >= least && block <= least + least / 2 + 128;
    binary->block = binary->has_block ? block : least;
    return 0;
}
