#include "erts/term/walk.h"

#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "erts/atom.h"
#include "erts/term.h"

#define PAGE UINT64_C(4096)
#define NIL 0x3bu
#define ARITY_END (UINT64_C(1) << 24) /* MAX_ARITYVAL + 1 */
#define REF_END (1u << 18)            /* REF_MASK + 1, of n[0] */
#define NAME_IN_NODE 24u

/* Headers: words behind it << 6, subtag << 2. */
#define HEADER_REF (2u << 6 | 0x10u)
#define HEADER_PID_REF (3u << 6 | 0x10u)
#define HEADER_REMOTE_PID (3u << 6 | 0x30u)
#define SUBTAG_REMOTE_REF 0x38u
#define ORDINARY_REF UINT32_MAX

static inline const uint64_t *at_hand(const uint64_t *word, uint64_t from, uint32_t words,
                                      uint64_t address, uint32_t n)
{
    uint64_t at = (address - from) / 8;

    return at < words && n <= words - at ? word + at : NULL;
}

static const uint64_t *read_near(struct fp_walk *walk, uint64_t address, uint32_t n)
{
    uint32_t to_page_end = (uint32_t)((PAGE - address % PAGE) / 8);
    uint32_t words = to_page_end < FP_WALK_WORDS ? to_page_end : FP_WALK_WORDS;

    if (walk->budget == 0 || n > FP_WALK_WORDS)
        return NULL;
    if (words < n)
        words = n;
    walk->budget--;
    walk->near_words = 0;
    if (fp_safe_read(walk->memory, address, walk->near, 8 * (size_t)words) != 0)
        return NULL;
    walk->near_at = address;
    walk->near_words = words;
    return FP_CHECK(words <= FP_WALK_WORDS) ? walk->near : NULL;
}

static inline const uint64_t *words_at(struct fp_walk *walk, uint64_t address, uint32_t n)
{
    const uint64_t *word;

    if (!FP_CHECK(walk->copies <= FP_WALK_COPIES))
        return NULL;
    for (uint32_t i = 0; i < walk->copies; i++) {
        const struct fp_walk_copy *copy = &walk->copy[i];

        word = at_hand(copy->word, copy->at, copy->words, address, n);
        if (word != NULL)
            return word;
    }
    word = at_hand(walk->near, walk->near_at, walk->near_words, address, n);
    return word != NULL ? word : read_near(walk, address, n);
}

const uint64_t *fp_walk_words(struct fp_walk *walk, uint64_t address, uint32_t n)
{
    return words_at(walk, address, n);
}

void fp_walk_start(struct fp_walk *walk, const struct fp_memory *memory,
                   const struct fp_layout *layout, uint32_t budget)
{
    walk->memory = memory;
    walk->layout = layout;
    walk->atoms = fp_atom_count(layout, memory);
    fp_walk_again(walk, budget);
}

void fp_walk_again(struct fp_walk *walk, uint32_t budget)
{
    walk->budget = budget;
    walk->near_at = 0;
    walk->near_words = 0;
    walk->copies = 0;
}

void fp_walk_copy(struct fp_walk *walk, uint64_t address, const uint64_t *word, uint32_t words)
{
    uint32_t at = 0;

    if (!FP_CHECK(walk->copies <= FP_WALK_COPIES))
        return;
    while (at < walk->copies && walk->copy[at].at != address)
        at++;
    if (at == FP_WALK_COPIES)
        return;
    walk->copy[at] = (struct fp_walk_copy){word, address, words};
    if (at == walk->copies)
        walk->copies++;
}

/* Atoms are never removed: a count that was read stays right for all that were there. */
static int is_atom(struct fp_walk *walk, uint64_t word)
{
    if (!fp_term_is_atom(word))
        return 0;
    if (fp_atom_index(word) >= walk->atoms && walk->budget > 0) {
        walk->budget--;
        walk->atoms = fp_atom_count(walk->layout, walk->memory);
    }
    return fp_atom_index(word) < walk->atoms;
}

static enum fp_term_kind immediate_kind(struct fp_walk *walk, uint64_t word)
{
    switch (word & 0xf) {
    case 0x3:
        return FP_TERM_PID;
    case 0x7:
        return FP_TERM_PORT;
    case 0xf:
        return FP_TERM_OTHER; /* a small integer */
    default:
        return word == NIL ? FP_TERM_NIL : is_atom(walk, word) ? FP_TERM_ATOM : FP_TERM_UNREADABLE;
    }
}

/* A cell that the garbage collector has moved has no term as its head. */
static enum fp_term_kind read_cell(struct fp_walk *walk, struct fp_term *term)
{
    const uint64_t *word;

    term->elements = fp_term_address(term->word);
    word = words_at(walk, term->elements, 2);
    return word != NULL && (word[0] & 3) != 0 && (word[1] & 3) != 0 ? FP_TERM_LIST
                                                                    : FP_TERM_UNREADABLE;
}

static enum fp_term_kind read_ref(struct fp_walk *walk, struct fp_term *term, uint64_t header)
{
    uint32_t data[4];
    const uint64_t *word = words_at(walk, fp_term_address(term->word), (uint32_t)(header >> 6) + 1);

    if (word == NULL || word[0] != header)
        return FP_TERM_UNREADABLE;
    memcpy(data, word + 1, sizeof data);
    if (data[0] != ORDINARY_REF)
        return header == HEADER_REF ? FP_TERM_OTHER : FP_TERM_UNREADABLE;
    if (data[1] >= REF_END)
        return FP_TERM_UNREADABLE;
    memcpy(term->ref.n, data + 1, sizeof term->ref.n);
    return FP_TERM_REF;
}

static int read_node(struct fp_walk *walk, uint64_t node, struct fp_remote *remote)
{
    const uint64_t *word = NULL;

    if (node % 8 == 0 && walk->layout->remote_terms)
        word = words_at(walk, node + NAME_IN_NODE, 2);
    if (word == NULL)
        return FP_ENOENT;
    remote->node = word[0];
    remote->creation = (uint32_t)word[1];
    return is_atom(walk, remote->node) ? 0 : FP_ENOENT;
}

static enum fp_term_kind read_remote_pid(struct fp_walk *walk, struct fp_term *term)
{
    const uint64_t *word = words_at(walk, fp_term_address(term->word), 4);

    if (word == NULL || word[0] != HEADER_REMOTE_PID)
        return FP_TERM_UNREADABLE;
    term->remote.number = (uint32_t)word[3];
    term->remote.serial = (uint32_t)(word[3] >> 32);
    return read_node(walk, word[1], &term->remote) == 0 ? FP_TERM_REMOTE_PID : FP_TERM_UNREADABLE;
}

/* How many numbers, then the numbers, in whole words. Nodes of before OTP 24 may send fewer than
 * three. */
static enum fp_term_kind read_remote_ref(struct fp_walk *walk, struct fp_term *term,
                                         uint64_t header)
{
    uint32_t data[4] = {0}, words = (uint32_t)(header >> 6);
    const uint64_t *word = NULL;

    if (header >> 6 >= 3 && header >> 6 <= 5)
        word = words_at(walk, fp_term_address(term->word), words + 1);
    if (word == NULL || word[0] != header)
        return FP_TERM_UNREADABLE;
    memcpy(data, word + 3, 8 * ((size_t)words - 2 < 2 ? 1 : 2));
    if (data[0] > 5 || words != 2 + (data[0] + 2) / 2)
        return FP_TERM_UNREADABLE;
    if (data[0] < 3)
        return FP_TERM_OTHER;
    memcpy(term->remote.ref.n, data + 1, sizeof term->remote.ref.n);
    return read_node(walk, word[1], &term->remote) == 0 ? FP_TERM_REMOTE_REF : FP_TERM_UNREADABLE;
}

static enum fp_term_kind read_boxed(struct fp_walk *walk, struct fp_term *term)
{
    const uint64_t *word = words_at(walk, fp_term_address(term->word), 1);
    uint64_t header = word == NULL ? 1 : word[0];

    if ((header & 3) != 0) /* or the garbage collector has moved it: then the header says where */
        return FP_TERM_UNREADABLE;
    if ((header & 0x3f) == 0) {
        if (header >> 6 >= ARITY_END)
            return FP_TERM_UNREADABLE;
        term->elements = fp_term_address(term->word) + 8;
        term->arity = (uint32_t)(header >> 6);
        return FP_TERM_TUPLE;
    }
    if ((header & 0x3f) == (HEADER_REF & 0x3f))
        return header == HEADER_REF || header == HEADER_PID_REF ? read_ref(walk, term, header)
                                                                : FP_TERM_UNREADABLE;
    if ((header & 0x3f) == (HEADER_REMOTE_PID & 0x3f))
        return read_remote_pid(walk, term);
    if ((header & 0x3f) == SUBTAG_REMOTE_REF)
        return read_remote_ref(walk, term, header);
    return FP_TERM_OTHER;
}

void fp_walk_term(struct fp_walk *walk, uint64_t word, struct fp_term *term)
{
    memset(term, 0, sizeof *term);
    term->word = word;
    switch (walk->layout->terms ? word & 3 : 0) {
    case 1:
        term->kind = read_cell(walk, term);
        break;
    case 2:
        term->kind = read_boxed(walk, term);
        break;
    case 3:
        term->kind = immediate_kind(walk, word);
        break;
    default:
        term->kind = FP_TERM_UNREADABLE;
    }
}

int fp_walk_elements(struct fp_walk *walk, const struct fp_term *tuple, uint32_t from, uint32_t n,
                     uint64_t *word)
{
    uint32_t arity = tuple->kind == FP_TERM_TUPLE  ? tuple->arity
                     : tuple->kind == FP_TERM_LIST ? 2
                                                   : 0;

    if (from > arity || n > arity - from)
        return FP_ENOENT;
    while (n > 0) {
        uint32_t some = n < FP_WALK_WORDS ? n : FP_WALK_WORDS;
        const uint64_t *copy = words_at(walk, tuple->elements + 8 * (uint64_t)from, some);

        if (copy == NULL)
            return FP_ENOENT;
        memcpy(word, copy, 8 * (size_t)some);
        from += some;
        word += some;
        n -= some;
    }
    return 0;
}

void fp_walk_element(struct fp_walk *walk, const struct fp_term *tuple, uint32_t at,
                     struct fp_term *element)
{
    uint64_t word = 0; /* no term */

    (void)fp_walk_elements(walk, tuple, at, 1, &word);
    fp_walk_term(walk, word, element);
}
