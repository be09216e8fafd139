#include "xray/walker.h"

#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/pages.h"
#include "erts/term.h"
#include "erts/term/object.h"

#define ENTRIES_FIRST 1024u
#define NAME_IN_RECORD_DEFINITION 32u

enum mode {
    ELEMENTS,  /* of a tuple or record */
    VARIABLES, /* of a fun */
    MEMBERS,   /* of a list: `at` is the next cell */
    VALUES,    /* of a small map; `keys` has the address of its first key */
    KEYS,
    CHILDREN /* of a node of a large map: nodes, cells of key and value */
};

/* A container whose terms are being visited. */
struct fp_xray_entry {
    uint64_t at, keys; /* addresses: of the first term */
    uint32_t index, count;
    uint32_t node;
    enum mode mode;
};

uint64_t fp_xray_walker_bytes(const struct fp_xray_walker_limits *limits)
{
    return fp_xray_paths_bytes(limits->paths) + fp_xray_paths_bytes(limits->types) +
           limits->entries * sizeof(struct fp_xray_entry) +
           limits->binaries * sizeof(struct fp_xray_binary) * 3 / 2;
}

int fp_xray_walker_create(struct fp_xray_walker *walker, const struct fp_memory *memory,
                          const struct fp_memory *outside, unsigned otp,
                          const struct fp_xray_walker_limits *limits)
{
    int err;

    memset(walker, 0, sizeof *walker);
    walker->otp = otp;
    walker->outside = outside;
    walker->entry_limit = limits->entries;
    fp_xray_binaries_create(&walker->binaries, memory, otp, limits->binaries);
    err = fp_xray_paths_create(&walker->paths, limits->paths);
    if (err == 0)
        err = fp_xray_paths_create(&walker->types, limits->types);
    if (err != 0)
        fp_xray_walker_destroy(walker);
    return err;
}

void fp_xray_walker_destroy(struct fp_xray_walker *walker)
{
    fp_xray_paths_destroy(&walker->paths);
    fp_xray_paths_destroy(&walker->types);
    fp_xray_binaries_destroy(&walker->binaries);
    fp_pages_free(walker->entry, walker->entry_room * sizeof *walker->entry);
    walker->entry = NULL;
}

void fp_xray_walker_clear(struct fp_xray_walker *walker)
{
    fp_xray_paths_clear(&walker->paths);
    fp_xray_paths_clear(&walker->types);
    fp_xray_binaries_clear(&walker->binaries);
    walker->entries = 0;
    walker->last_shape.form = FP_XRAY_FORM_NONE;
    walker->words = walker->literals = walker->left_out = 0;
}

/* ---------------------------------------------------------------- counting -- */

/* An object, or one cell of a list that was counted before. */
static int charge(struct fp_xray_walker *walker, uint32_t node, const struct fp_xray_shape *shape,
                  uint64_t words, uint32_t objects)
{
    struct fp_xray_shape *last = &walker->last_shape;

    if (!FP_CHECK(node < walker->paths.nodes))
        return FP_ETORN;
    if (last->form != shape->form || last->arity != shape->arity || last->tag != shape->tag) {
        *last = *shape;
        walker->last_type = fp_xray_path(&walker->types, 0, FP_XRAY_NOWHERE, 0, shape);
    }
    walker->types.node[walker->last_type].words += words;
    walker->types.node[walker->last_type].objects += objects;
    walker->paths.node[node].words += words;
    walker->paths.node[node].objects += objects;
    walker->words += words;
    return walker->words > fp_xray_heap_words(walker->heap) ? FP_ETORN : 0;
}

static int push(struct fp_xray_walker *walker, const struct fp_xray_entry *entry)
{
    if (entry->count == 0 && entry->mode != MEMBERS)
        return 0;
    if (walker->entries == walker->entry_room) {
        uint32_t room = walker->entry_room == 0 ? ENTRIES_FIRST : 2 * walker->entry_room;
        struct fp_xray_entry *more;

        if (room > walker->entry_limit) {
            walker->left_out++;
            return 0;
        }
        more =
            fp_pages_resize(walker->entry, walker->entry_room * sizeof *more, room * sizeof *more);
        if (more == NULL)
            return FP_ENOMEM;
        walker->entry = more;
        walker->entry_room = room;
    }
    walker->entry[walker->entries++] = *entry;
    return 0;
}

/* ----------------------------------------------------------------- objects -- */

enum { IS_NEW, IS_KNOWN, IS_LITERAL };

/* Marks what a list or boxed term leads to. */
static int mark(struct fp_xray_walker *walker, uint64_t address, struct fp_xray_region *region)
{
    if (fp_xray_find(walker->heap, address, region) != 0) {
        walker->literals++;
        return IS_LITERAL;
    }
    return fp_xray_visit(walker->heap, region, address) ? IS_NEW : IS_KNOWN;
}

/* The object at an address of `region`, within it. 0; FP_ETORN; FP_EFAULT. */
static int read_object(struct fp_xray_walker *walker, uint64_t address,
                       const struct fp_xray_region *region, struct fp_object *object)
{
    uint64_t word[FP_OBJECT_WORDS] = {0}, left = (region->end - address) / 8;

    for (uint32_t k = 0; k < FP_OBJECT_WORDS && k < left; k++) {
        int err = fp_xray_word(walker->heap, address + 8 * (uint64_t)k, &word[k]);

        if (err != 0)
            return err;
        if (k == 0 && (word[0] & 3) != 0)
            return FP_ETORN;
    }
    fp_object_decode(walker->otp, word, object);
    return object->kind == FP_OBJECT_BAD || object->words > left ? FP_ETORN : 0;
}

static uint64_t atom_or_none(uint64_t word)
{
    return fp_term_is_atom(word) ? word : 0;
}

/* The name in a record's definition, which mostly is a literal. */
static uint64_t record_name(struct fp_xray_walker *walker, uint64_t definition)
{
    uint64_t at = fp_term_address(definition) + NAME_IN_RECORD_DEFINITION, name = 0;

    if (!fp_term_is_boxed(definition) || (fp_xray_word(walker->heap, at, &name) != 0 &&
                                          fp_safe_read_word(walker->outside, at, &name) != 0))
        return 0;
    return atom_or_none(name);
}

static enum fp_xray_form form_of(enum fp_object_kind kind)
{
    switch (kind) {
    case FP_OBJECT_TUPLE:
        return FP_XRAY_FORM_TUPLE;
    case FP_OBJECT_RECORD:
        return FP_XRAY_FORM_RECORD;
    case FP_OBJECT_FLATMAP:
    case FP_OBJECT_HASHMAP:
        return FP_XRAY_FORM_MAP;
    case FP_OBJECT_FUN:
    case FP_OBJECT_FUN_REF:
        return FP_XRAY_FORM_FUN;
    case FP_OBJECT_HEAP_BINARY:
        return FP_XRAY_FORM_HEAP_BINARY;
    case FP_OBJECT_INTEGER:
    case FP_OBJECT_FLOAT:
        return FP_XRAY_FORM_NUMBER;
    case FP_OBJECT_IDENTIFIER:
        return FP_XRAY_FORM_IDENTIFIER;
    default:
        return FP_XRAY_FORM_BINARY;
    }
}

static int shape_of(struct fp_xray_walker *walker, uint64_t address, const struct fp_object *object,
                    struct fp_xray_shape *shape)
{
    uint64_t first;

    *shape = (struct fp_xray_shape){.form = form_of(object->kind)};
    if (shape->form != FP_XRAY_FORM_TUPLE && shape->form != FP_XRAY_FORM_RECORD)
        return 0;
    shape->arity = object->kind == FP_OBJECT_RECORD ? object->terms - 1 : object->terms;
    if (object->terms == 0)
        return 0;
    if (fp_xray_word(walker->heap, address + 8, &first) != 0)
        return FP_EFAULT;
    shape->tag =
        object->kind == FP_OBJECT_RECORD ? record_name(walker, first) : atom_or_none(first);
    return 0;
}

/* A reference to a refc binary: the object that stands for it on the heap is visited once, and each
 * term that leads to it shows a part. */
static int reach_binary(struct fp_xray_walker *walker, const struct fp_object *object,
                        uint32_t node, int is_new, uint64_t seen)
{
    const struct fp_xray_shape shape = {.form = FP_XRAY_FORM_BINARY};
    int err = 0;

    if (is_new)
        err = charge(walker, node, &shape, object->words, 0);
    if (err == 0 && is_new)
        err = fp_xray_binary_add(&walker->binaries, object->binary, node);
    if (err == 0)
        fp_xray_binary_show(&walker->binaries, object->binary, seen);
    return err;
}

/* A sub-binary or match context: five words or more, and what they show. */
static int reach_part(struct fp_xray_walker *walker, uint64_t address, const struct fp_object *part,
                      uint32_t from, enum fp_xray_step step, uint64_t value)
{
    struct fp_xray_shape shape = {.form = FP_XRAY_FORM_BINARY};
    struct fp_xray_region region;
    struct fp_object whole;
    uint64_t orig;
    uint32_t node;
    int err = fp_xray_word(walker->heap, address + 8 * (uint64_t)part->first, &orig), how;

    if (err != 0)
        return err;
    if (!fp_term_is_boxed(orig))
        return FP_ETORN;
    how = mark(walker, fp_term_address(orig), &region);
    if (how != IS_LITERAL)
        err = read_object(walker, fp_term_address(orig), &region, &whole);
    if (err != 0)
        return err;
    if (how == IS_LITERAL || whole.kind == FP_OBJECT_HEAP_BINARY)
        shape.form = FP_XRAY_FORM_HEAP_BINARY;
    else if (whole.kind != FP_OBJECT_REFC_BINARY && whole.kind != FP_OBJECT_BINARY_REF)
        return FP_ETORN;
    node = fp_xray_path(&walker->paths, from, step, value, &shape);
    err = charge(walker, node, &shape, part->words, 1);
    if (err != 0 || how == IS_LITERAL)
        return err;
    if (whole.kind == FP_OBJECT_HEAP_BINARY)
        return how == IS_NEW ? charge(walker, node, &shape, whole.words, 0) : 0;
    return reach_binary(walker, &whole, node, how == IS_NEW, part->seen);
}

/* The tuple of a small map's keys belongs to the map; many maps may have it. */
static int reach_flatmap(struct fp_xray_walker *walker, uint64_t address,
                         const struct fp_object *map, uint32_t node)
{
    const struct fp_xray_shape shape = {.form = FP_XRAY_FORM_MAP};
    struct fp_xray_entry entry = {.at = address + 8 * (uint64_t)map->first,
                                  .count = map->terms,
                                  .node = node,
                                  .mode = VALUES};
    struct fp_xray_region region;
    struct fp_object keys;
    uint64_t word;
    int err = fp_xray_word(walker->heap, address + 16, &word), how;

    if (err != 0)
        return err;
    if (!fp_term_is_boxed(word))
        return FP_ETORN;
    entry.keys = fp_term_address(word) + 8;
    err = push(walker, &entry);
    how = mark(walker, fp_term_address(word), &region);
    if (err != 0 || how != IS_NEW)
        return err;
    err = read_object(walker, fp_term_address(word), &region, &keys);
    if (err == 0 && keys.kind != FP_OBJECT_TUPLE)
        err = FP_ETORN;
    if (err == 0)
        err = charge(walker, node, &shape, keys.words, 0);
    entry = (struct fp_xray_entry){
        .at = fp_term_address(word) + 8, .count = keys.terms, .node = node, .mode = KEYS};
    return err == 0 ? push(walker, &entry) : err;
}

static int reach_terms(struct fp_xray_walker *walker, uint64_t address,
                       const struct fp_object *object, uint32_t node, enum mode mode)
{
    return push(walker, &(struct fp_xray_entry){.at = address + 8 * (uint64_t)object->first,
                                                .count = object->terms,
                                                .node = node,
                                                .mode = mode});
}

static int reach_object(struct fp_xray_walker *walker, uint64_t address,
                        const struct fp_object *object, uint32_t from, enum fp_xray_step step,
                        uint64_t value)
{
    struct fp_xray_shape shape;
    uint32_t node;
    int err;

    if (object->kind == FP_OBJECT_SUB_BINARY || object->kind == FP_OBJECT_MATCH_CONTEXT)
        return reach_part(walker, address, object, from, step, value);
    err = shape_of(walker, address, object, &shape);
    if (err != 0)
        return err;
    node = fp_xray_path(&walker->paths, from, step, value, &shape);
    if (object->kind == FP_OBJECT_REFC_BINARY || object->kind == FP_OBJECT_BINARY_REF) {
        err = charge(walker, node, &shape, 0, 1);
        return err == 0 ? reach_binary(walker, object, node, 1, object->seen) : err;
    }
    err = charge(walker, node, &shape, object->words, 1);
    if (err != 0)
        return err;
    switch (object->kind) {
    case FP_OBJECT_TUPLE:
    case FP_OBJECT_RECORD:
        return reach_terms(walker, address, object, node, ELEMENTS);
    case FP_OBJECT_FUN:
        return reach_terms(walker, address, object, node, VARIABLES);
    case FP_OBJECT_FLATMAP:
        return reach_flatmap(walker, address, object, node);
    case FP_OBJECT_HASHMAP:
        return reach_terms(walker, address, object, node, CHILDREN);
    case FP_OBJECT_HASHMAP_NODE:
        return FP_ETORN; /* no term leads to it */
    default:
        return 0;
    }
}

static int reach_boxed(struct fp_xray_walker *walker, uint64_t term, uint32_t from,
                       enum fp_xray_step step, uint64_t value)
{
    struct fp_xray_region region;
    struct fp_object object;
    int how = mark(walker, fp_term_address(term), &region), err;

    /* Before 27 a whole binary is a term, which a sub-binary may have led to before. */
    if (how == IS_LITERAL || (how == IS_KNOWN && walker->otp >= 27))
        return 0;
    err = read_object(walker, fp_term_address(term), &region, &object);
    if (err != 0)
        return err;
    if (how == IS_NEW)
        return reach_object(walker, fp_term_address(term), &object, from, step, value);
    if (object.kind == FP_OBJECT_REFC_BINARY)
        fp_xray_binary_show(&walker->binaries, object.binary, object.seen);
    return 0;
}

int fp_xray_reach(struct fp_xray_walker *walker, uint64_t term, uint32_t from,
                  enum fp_xray_step step, uint64_t value)
{
    const struct fp_xray_shape list = {.form = FP_XRAY_FORM_LIST};
    struct fp_xray_region region;
    uint32_t node;

    switch (term & 3) {
    case 0:
        return FP_ETORN;
    case 1:
        if (mark(walker, fp_term_address(term), &region) != IS_NEW)
            return 0;
        node = fp_xray_path(&walker->paths, from, step, value, &list);
        walker->paths.node[node].objects++;
        return push(walker, &(struct fp_xray_entry){
                                .at = fp_term_address(term), .node = node, .mode = MEMBERS});
    case 2:
        return reach_boxed(walker, term, from, step, value);
    default:
        return 0;
    }
}

/* -------------------------------------------------------------- containers -- */

static int read_cell(struct fp_xray_walker *walker, uint64_t at, uint64_t cell[2])
{
    int err = fp_xray_word(walker->heap, at, &cell[0]);

    if (err == 0)
        err = fp_xray_word(walker->heap, at + 8, &cell[1]);
    if (err == FP_ENOENT) /* half of it is in no region */
        err = FP_ETORN;
    /* A cell that was moved has no term as its head. */
    return err == 0 && ((cell[0] & 3) == 0 || (cell[1] & 3) == 0) ? FP_ETORN : err;
}

/* The list of the last entry, up to a member that is no immediate. How many cells, or an error. */
static int walk_members(struct fp_xray_walker *walker, uint32_t most)
{
    const struct fp_xray_shape shape = {.form = FP_XRAY_FORM_LIST};
    struct fp_xray_entry *entry = &walker->entry[walker->entries - 1];
    struct fp_xray_region region;
    uint32_t node = entry->node;
    uint64_t cell[2];

    for (uint32_t n = 1;; n++) {
        int err = read_cell(walker, entry->at, cell), ends;

        if (err == 0)
            err = charge(walker, node, &shape, 2, 0);
        if (err != 0)
            return err;
        ends =
            !fp_term_is_list(cell[1]) || mark(walker, fp_term_address(cell[1]), &region) != IS_NEW;
        if (ends)
            walker->entries--;
        else
            entry->at = fp_term_address(cell[1]);
        if ((cell[0] & 3) != 3)
            err = fp_xray_reach(walker, cell[0], node, FP_XRAY_MEMBER, 0);
        if (err == 0 && ends && fp_term_is_boxed(cell[1]))
            err = fp_xray_reach(walker, cell[1], node, FP_XRAY_TAIL, 0);
        if (err != 0)
            return err;
        if (ends || (cell[0] & 3) != 3 || n >= most)
            return (int)n;
    }
}

/* [Key | Value] of a large map. */
static int reach_pair(struct fp_xray_walker *walker, uint64_t at, uint32_t node)
{
    const struct fp_xray_shape shape = {.form = FP_XRAY_FORM_MAP};
    uint64_t cell[2];
    int err = read_cell(walker, at, cell);

    if (err == 0)
        err = charge(walker, node, &shape, 2, 0);
    if (err == 0)
        err = fp_xray_reach(walker, cell[0], node, FP_XRAY_KEYS, 0);
    if (err == 0)
        err = fp_xray_reach(walker, cell[1], node, FP_XRAY_VALUE, atom_or_none(cell[0]));
    return err;
}

static int reach_child(struct fp_xray_walker *walker, uint64_t term, uint32_t node)
{
    const struct fp_xray_shape shape = {.form = FP_XRAY_FORM_MAP};
    struct fp_xray_region region;
    struct fp_object object;
    int err;

    if (!fp_term_is_list(term) && !fp_term_is_boxed(term))
        return FP_ETORN;
    if (mark(walker, fp_term_address(term), &region) != IS_NEW)
        return 0;
    if (fp_term_is_list(term))
        return reach_pair(walker, fp_term_address(term), node);
    err = read_object(walker, fp_term_address(term), &region, &object);
    /* A tuple has the cells of keys that are alike in all bits of their hash. */
    if (err == 0 && object.kind != FP_OBJECT_HASHMAP_NODE && object.kind != FP_OBJECT_TUPLE)
        err = FP_ETORN;
    if (err == 0)
        err = charge(walker, node, &shape, object.words, 0);
    return err == 0 ? reach_terms(walker, fp_term_address(term), &object, node, CHILDREN) : err;
}

static uint64_t key_at(struct fp_xray_walker *walker, const struct fp_xray_entry *entry,
                       uint32_t index)
{
    uint64_t at = entry->keys + 8 * (uint64_t)index, key = 0;

    if (fp_xray_word(walker->heap, at, &key) != 0 &&
        fp_safe_read_word(walker->outside, at, &key) != 0)
        return 0;
    return atom_or_none(key);
}

static int walk_next(struct fp_xray_walker *walker)
{
    struct fp_xray_entry *last = &walker->entry[walker->entries - 1];
    struct fp_xray_entry entry = *last;
    uint32_t index = last->index++;
    uint64_t term;
    int err = fp_xray_word(walker->heap, entry.at + 8 * (uint64_t)index, &term);

    if (last->index == last->count)
        walker->entries--;
    if (err != 0)
        return err;
    if (entry.mode == CHILDREN)
        return reach_child(walker, term, entry.node);
    if ((term & 3) == 3)
        return 0;
    switch (entry.mode) {
    case VALUES:
        return fp_xray_reach(walker, term, entry.node, FP_XRAY_VALUE,
                             key_at(walker, &entry, index));
    case KEYS:
        return fp_xray_reach(walker, term, entry.node, FP_XRAY_KEYS, 0);
    case VARIABLES:
        return fp_xray_reach(walker, term, entry.node, FP_XRAY_VARIABLE, index + 1);
    default:
        return fp_xray_reach(walker, term, entry.node, FP_XRAY_ELEMENT, index + 1);
    }
}

int fp_xray_walk(struct fp_xray_walker *walker, uint32_t objects)
{
    uint32_t done = 0;

    while (walker->entries > 0 && done < objects) {
        int n;

        if (!FP_CHECK(walker->entries <= walker->entry_room))
            return FP_ETORN;
        if (walker->entry[walker->entries - 1].mode == MEMBERS) {
            n = walk_members(walker, objects - done);
        } else {
            n = walk_next(walker);
            n = n == 0 ? 1 : n;
        }
        if (n < 0)
            return n == FP_ENOENT ? FP_ETORN : n;
        done += (uint32_t)n;
    }
    return walker->entries == 0;
}

/* -------------------------------------------------------------- dictionary -- */

static int reach_dictionary_entry(struct fp_xray_walker *walker, uint64_t term)
{
    const struct fp_xray_shape shape = {.form = FP_XRAY_FORM_TUPLE, .arity = 2};
    struct fp_xray_region region;
    struct fp_object object;
    uint64_t pair[2] = {0, 0};
    uint32_t node;
    int err;

    if (!fp_term_is_boxed(term))
        return FP_ETORN;
    if (mark(walker, fp_term_address(term), &region) != IS_NEW)
        return 0;
    err = read_object(walker, fp_term_address(term), &region, &object);
    if (err == 0 && (object.kind != FP_OBJECT_TUPLE || object.terms != 2))
        err = FP_ETORN;
    for (uint32_t k = 0; err == 0 && k < 2; k++)
        err = fp_xray_word(walker->heap, fp_term_address(term) + 8 + 8 * (uint64_t)k, &pair[k]);
    if (err != 0)
        return err;
    node = fp_xray_path(&walker->paths, 0, FP_XRAY_DICTIONARY, 0, &shape);
    err = charge(walker, node, &shape, object.words, 1);
    if (err == 0)
        err = fp_xray_reach(walker, pair[0], 0, FP_XRAY_DICTIONARY, 0);
    if (err == 0)
        err = fp_xray_reach(walker, pair[1], 0, FP_XRAY_DICTIONARY, atom_or_none(pair[0]));
    return err;
}

int fp_xray_reach_slot(struct fp_xray_walker *walker, uint64_t slot)
{
    const struct fp_xray_shape shape = {.form = FP_XRAY_FORM_LIST};
    struct fp_xray_region region;
    uint64_t cell[2];
    int err = 0;

    while (err == 0 && fp_term_is_list(slot)) {
        uint32_t node = fp_xray_path(&walker->paths, 0, FP_XRAY_DICTIONARY, 0, &shape);

        if (mark(walker, fp_term_address(slot), &region) != IS_NEW)
            return 0;
        err = read_cell(walker, fp_term_address(slot), cell);
        if (err == 0)
            err = charge(walker, node, &shape, 2, 0);
        if (err == 0)
            err = reach_dictionary_entry(walker, cell[0]);
        slot = cell[1];
    }
    if (err != 0)
        return err;
    return (slot & 3) == 3 ? 0 : reach_dictionary_entry(walker, slot);
}
