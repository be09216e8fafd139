/* fuzz_term.c - any words as terms and messages, over any heap that may change meanwhile: walks end
 * within their budget, tell identifiers only, and tell what is there when it stands still. */
#include "fuzz.h"

#include "erts/term/message.h"

#define TERMS 4
#define STEPS 24
#define COPY_MAX 64u

struct bench {
    struct fuzz_memory memory;
    struct fp_layout layout;
    struct fp_walk walk;
    uint32_t budget;
    uint64_t asked; /* before the walk began */
    uint64_t *copy;
    uint64_t copy_at;
    uint32_t copy_words;
    int stands_still;
};

static uint64_t envelope_atom(struct fuzz_input *input)
{
    uint8_t index = fuzz_u8(input);

    return index == 255 ? 0 : (uint64_t)index << 6 | 0x0b;
}

/* In memory as it is now. */
static int is_there(struct bench *b, uint64_t address, const uint64_t *word, uint32_t n)
{
    uint64_t now[8], before = fuzz_memory_asked(&b->memory);
    int err = fp_safe_read(&b->memory.memory.reader, address, now, 8 * (size_t)n);

    b->asked += fuzz_memory_asked(&b->memory) - before;
    return err == 0 && memcmp(now, word, 8 * (size_t)n) == 0;
}

static void check_ref(struct bench *b, const struct fp_term *term)
{
    uint64_t word[3] = {0x90, (uint64_t)term->ref.n[0] << 32 | 0xffffffff,
                        (uint64_t)term->ref.n[2] << 32 | term->ref.n[1]};

    FUZZ_CHECK(term->ref.n[0] < 1u << 18);
    if (!b->stands_still || is_there(b, term->word & ~UINT64_C(7), word, 3))
        return;
    word[0] = 0xd0;
    FUZZ_CHECK(is_there(b, term->word & ~UINT64_C(7), word, 3));
}

static void check_remote(struct bench *b, const struct fp_term *term)
{
    const struct fp_remote *remote = &term->remote;
    uint64_t word = (uint64_t)remote->serial << 32 | remote->number;

    FUZZ_CHECK(fp_term_is_atom(remote->node) && remote->node >> 6 < b->walk.atoms);
    if (b->stands_still && term->kind == FP_TERM_REMOTE_PID)
        FUZZ_CHECK(is_there(b, (term->word & ~UINT64_C(7)) + 24, &word, 1));
    word = (uint64_t)remote->ref.n[2] << 32 | remote->ref.n[1];
    if (b->stands_still && term->kind == FP_TERM_REMOTE_REF)
        FUZZ_CHECK(is_there(b, (term->word & ~UINT64_C(7)) + 32, &word, 1));
}

static void check_term(struct bench *b, const struct fp_term *term)
{
    uint64_t header = (uint64_t)term->arity << 6;

    switch (term->kind) {
    case FP_TERM_ATOM:
        FUZZ_CHECK(fp_term_is_atom(term->word) && term->word >> 6 < b->walk.atoms);
        break;
    case FP_TERM_NIL:
        FUZZ_CHECK(term->word == 0x3b);
        break;
    case FP_TERM_PID:
        FUZZ_CHECK(fp_term_is_pid(term->word));
        break;
    case FP_TERM_PORT:
        FUZZ_CHECK((term->word & 0xf) == 7);
        break;
    case FP_TERM_REF:
        check_ref(b, term);
        break;
    case FP_TERM_REMOTE_PID:
    case FP_TERM_REMOTE_REF:
        check_remote(b, term);
        break;
    case FP_TERM_TUPLE:
        FUZZ_CHECK(term->arity < 1u << 24 && (term->word & 3) == 2);
        FUZZ_CHECK(!b->stands_still || is_there(b, term->word & ~UINT64_C(7), &header, 1));
        break;
    case FP_TERM_LIST:
        FUZZ_CHECK((term->word & 3) == 1 && term->elements == (term->word & ~UINT64_C(7)));
        break;
    default:
        FUZZ_CHECK(term->kind == FP_TERM_OTHER || term->kind == FP_TERM_UNREADABLE);
    }
}

static void check_budget(const struct bench *b)
{
    FUZZ_CHECK(b->walk.budget <= b->budget);
    FUZZ_CHECK(fuzz_memory_asked(&b->memory) - b->asked <= b->budget - b->walk.budget);
}

static void begin(struct bench *b)
{
    fp_walk_again(&b->walk, b->budget);
    fp_walk_copy(&b->walk, b->copy_at, b->copy, b->copy_words);
    b->asked = fuzz_memory_asked(&b->memory);
}

/* What a walk has at hand makes no difference: a new one tells the same. */
static void compare(struct bench *b, const struct fp_term *term)
{
    struct fp_walk fresh = b->walk;
    struct fp_term again;
    uint64_t before = fuzz_memory_asked(&b->memory);

    if (!b->stands_still || b->walk.budget < 4)
        return;
    fp_walk_again(&fresh, 4);
    fp_walk_term(&fresh, term->word, &again);
    b->asked += fuzz_memory_asked(&b->memory) - before;
    FUZZ_CHECK(memcmp(&again, term, sizeof again) == 0);
}

static void walk_down(struct bench *b, uint64_t word, struct fuzz_input *choices)
{
    struct fp_term term, element;

    begin(b);
    fp_walk_term(&b->walk, word, &term);
    check_term(b, &term);
    for (int step = 0; step < STEPS; step++) {
        uint32_t at = fuzz_u8(choices);

        if (at >= 0xf0)
            at <<= 16;
        fp_walk_element(&b->walk, &term, at, &element);
        check_term(b, &element);
        compare(b, &element);
        if (element.kind == FP_TERM_TUPLE || element.kind == FP_TERM_LIST)
            term = element;
    }
    check_budget(b);
}

static void check_tag(const struct bench *b, const struct fp_tag *tag)
{
    int has_atom = tag->shape == FP_SHAPE_ATOM || tag->shape == FP_SHAPE_TUPLE;

    FUZZ_CHECK(tag->shape <= FP_SHAPE_TUPLE);
    FUZZ_CHECK(has_atom ? fp_term_is_atom(tag->atom) && tag->atom >> 6 < b->walk.atoms
                        : tag->atom == 0);
    FUZZ_CHECK((tag->arity > 0) == (tag->shape == FP_SHAPE_TUPLE));
}

static void read_as_message(struct bench *b, uint64_t word)
{
    struct fp_message message;

    begin(b);
    fp_message_read(&b->walk, &b->layout.envelope, word, &message);
    check_budget(b);
    FUZZ_CHECK(fp_message_kind_name(message.kind) != NULL);
    check_tag(b, &message.tag);
    FUZZ_CHECK(message.from == 0 || fp_term_is_pid(message.from));
    FUZZ_CHECK(!message.has_ref || message.ref.n[0] < 1u << 18);
    FUZZ_CHECK(message.kind != FP_MESSAGE_reply || message.has_ref);
    FUZZ_CHECK(message.kind != FP_MESSAGE_unknown || message.tag.shape == FP_SHAPE_UNKNOWN);
}

static void take_copy(struct bench *b, struct fuzz_input *input)
{
    b->copy_words = fuzz_u8(input) % COPY_MAX;
    b->copy_at = fuzz_address(input) & ~UINT64_C(7);
    b->copy = malloc(8 * (size_t)b->copy_words + 1); /* ASan sees its end */
    FUZZ_CHECK(b->copy != NULL);
    for (uint32_t i = 0; i < b->copy_words; i++)
        b->copy[i] = fuzz_word(input);
}

void fuzz_term(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size}, choices;
    struct bench b;
    uint64_t term[TERMS];

    fuzz_layout_of(&input, &b.layout);
    b.layout.atom_entries = fuzz_address(&input);
#define TAKE_ATOM(name, text) b.layout.envelope.name = envelope_atom(&input);
    FP_ENVELOPE_MAP(TAKE_ATOM)
    b.budget = fuzz_u8(&input);
    choices = fuzz_part(&input, 32);
    take_copy(&b, &input);
    for (int i = 0; i < TERMS; i++)
        term[i] = fuzz_word(&input);
    fuzz_memory_create(&b.memory, &input);
    b.stands_still = b.memory.laters == 0 && b.copy_words == 0;
    fp_walk_start(&b.walk, &b.memory.memory.reader, &b.layout, b.budget);
    for (int i = 0; i < TERMS; i++) {
        struct fuzz_input same = choices;

        walk_down(&b, term[i], &same);
        read_as_message(&b, term[i]);
    }
    fuzz_memory_destroy(&b.memory);
    free(b.copy);
}
