/* term_copy.c - see term_copy.h.
 *
 * One byte says what follows. Numbers are of this host's order. A container has its size, how many
 * elements are there, and these; the latter is written when they are. */
#include "terms/term_copy.h"

#include <string.h>

#include "terms/terms.h"

enum shape {
    SHAPE_CUT = 1, /* nothing */
    SHAPE_NIL,     /* nothing */
    SHAPE_WORD,    /* a word: an atom, a pid or port of this node */
    SHAPE_BYTE,    /* an integer of one byte, as of texts */
    SHAPE_INT,     /* int64 */
    SHAPE_UINT,    /* uint64 */
    SHAPE_FLOAT,   /* double */
    SHAPE_TEXT,    /* one byte: its length; the text */
    SHAPE_BINARY,  /* uint32 size, uint32 here; bytes */
    SHAPE_TUPLE,   /* uint32 size, uint32 here; elements */
    SHAPE_MAP,     /* uint32 size, uint32 here; keys and values */
    SHAPE_LIST,    /* uint32 unused, uint32 here; elements, then the tail */
};

#define TEXT_MAX 255u

struct copy {
    ErlNifEnv *env;
    const struct fp_term_copy_limits *limits;
    unsigned char *at;
    const unsigned char *limit; /* of `bytes`: nothing begins here or behind */
    uint32_t inner;             /* depth: at more than that, a level is an outer one */
};

static void put(struct copy *copy, enum shape shape, const void *bytes, size_t size)
{
    *copy->at++ = (unsigned char)shape;
    memcpy(copy->at, bytes, size);
    copy->at += size;
}

/* The place for the number of elements. */
static unsigned char *put_header(struct copy *copy, enum shape shape, size_t size)
{
    uint32_t numbers[2] = {size > UINT32_MAX ? UINT32_MAX : (uint32_t)size, 0};

    put(copy, shape, numbers, sizeof numbers);
    return copy->at - sizeof numbers[1];
}

static void put_count(unsigned char *place, uint32_t count)
{
    memcpy(place, &count, sizeof count);
}

static int is_full(const struct copy *copy)
{
    return copy->at >= copy->limit;
}

static void put_cut(struct copy *copy)
{
    *copy->at++ = SHAPE_CUT;
}

static void put_term(struct copy *copy, ERL_NIF_TERM term, uint32_t depth);

static void put_number(struct copy *copy, ERL_NIF_TERM term)
{
    ErlNifSInt64 whole;
    ErlNifUInt64 large;
    unsigned char byte;
    double number;

    if (enif_get_int64(copy->env, term, &whole)) {
        byte = (unsigned char)whole;
        if (byte == whole)
            put(copy, SHAPE_BYTE, &byte, 1);
        else
            put(copy, SHAPE_INT, &whole, sizeof whole);
    } else if (enif_get_uint64(copy->env, term, &large)) {
        put(copy, SHAPE_UINT, &large, sizeof large);
    } else if (enif_get_double(copy->env, term, &number)) {
        put(copy, SHAPE_FLOAT, &number, sizeof number);
    } else {
        put_cut(copy);
    }
}

static void put_text(struct copy *copy, ERL_NIF_TERM term)
{
    char text[TEXT_MAX + 1];
    int length = enif_snprintf(text, sizeof text, "%T", term);
    unsigned char size;

    if (length < 0) {
        put_cut(copy);
        return;
    }
    size = (unsigned char)(length > (int)TEXT_MAX ? TEXT_MAX : (unsigned)length);
    put(copy, SHAPE_TEXT, &size, 1);
    memcpy(copy->at, text, size);
    copy->at += size;
}

static void put_bytes(struct copy *copy, ERL_NIF_TERM term)
{
    ErlNifBinary binary;
    unsigned char *count;
    size_t room, here;

    if (!enif_inspect_binary(copy->env, term, &binary)) {
        put_cut(copy);
        return;
    }
    count = put_header(copy, SHAPE_BINARY, binary.size);
    room = is_full(copy) ? 0 : (size_t)(copy->limit - copy->at);
    here = binary.size < room ? binary.size : room;
    if (here > 0)
        memcpy(copy->at, binary.data, here);
    copy->at += here;
    put_count(count, (uint32_t)here);
}

static uint32_t items_at(const struct copy *copy, uint32_t depth)
{
    return depth > copy->inner ? UINT32_MAX : copy->limits->items;
}

static void put_tuple(struct copy *copy, ERL_NIF_TERM term, uint32_t depth)
{
    const ERL_NIF_TERM *elements;
    unsigned char *count;
    int arity;
    uint32_t n = 0;

    if (!enif_get_tuple(copy->env, term, &arity, &elements)) {
        put_cut(copy);
        return;
    }
    count = put_header(copy, SHAPE_TUPLE, (size_t)arity);
    for (; n < (uint32_t)arity && n < items_at(copy, depth) && !is_full(copy); n++)
        put_term(copy, elements[n], depth - 1);
    put_count(count, n);
}

static void put_list(struct copy *copy, ERL_NIF_TERM term, uint32_t depth)
{
    unsigned char *count = put_header(copy, SHAPE_LIST, 0);
    ERL_NIF_TERM head, tail = term;
    uint32_t n = 0;

    while (n < items_at(copy, depth) && !is_full(copy) &&
           enif_get_list_cell(copy->env, tail, &head, &tail)) {
        put_term(copy, head, depth - 1);
        n++;
    }
    put_count(count, n);
    /* The tail of a cut list is a list. */
    if (enif_is_empty_list(copy->env, tail))
        *copy->at++ = SHAPE_NIL;
    else if (is_full(copy) || enif_is_list(copy->env, tail))
        put_cut(copy);
    else
        put_term(copy, tail, depth - 1);
}

static void put_map(struct copy *copy, ERL_NIF_TERM term, uint32_t depth)
{
    ErlNifMapIterator iterator;
    ERL_NIF_TERM key, value;
    unsigned char *count;
    size_t size = 0;
    uint32_t n = 0;

    if (!enif_get_map_size(copy->env, term, &size) ||
        !enif_map_iterator_create(copy->env, term, &iterator, ERL_NIF_MAP_ITERATOR_FIRST)) {
        put_cut(copy);
        return;
    }
    count = put_header(copy, SHAPE_MAP, size);
    while (n < items_at(copy, depth) && !is_full(copy) &&
           enif_map_iterator_get_pair(copy->env, &iterator, &key, &value)) {
        put_term(copy, key, depth - 1);
        put_term(copy, value, depth - 1);
        enif_map_iterator_next(copy->env, &iterator);
        n++;
    }
    enif_map_iterator_destroy(copy->env, &iterator);
    put_count(count, n);
}

static void put_container(struct copy *copy, ERL_NIF_TERM term, uint32_t depth)
{
    if (depth == 0)
        put_cut(copy);
    else if (enif_is_tuple(copy->env, term))
        put_tuple(copy, term, depth);
    else if (enif_is_list(copy->env, term))
        put_list(copy, term, depth);
    else
        put_map(copy, term, depth);
}

/* The word means the same until the VM ends. */
static int is_word(ErlNifEnv *env, ERL_NIF_TERM term)
{
    ErlNifPid pid;
    ErlNifPort port;

    return enif_is_atom(env, term) || enif_get_local_pid(env, term, &pid) ||
           enif_get_local_port(env, term, &port);
}

static int is_container(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return enif_is_tuple(env, term) || enif_is_list(env, term) || enif_is_map(env, term);
}

/* %T writes nothing of what they hold. */
static int is_told_as_text(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return enif_is_ref(env, term) || enif_is_fun(env, term) || enif_is_pid(env, term) ||
           enif_is_port(env, term);
}

/* enif_term_type() ends the VM at a term that it does not know, such as a native record of OTP 29.
 * These questions do not: what is none of them is left out, in releases to come as well. */
static void put_term(struct copy *copy, ERL_NIF_TERM term, uint32_t depth)
{
    ErlNifEnv *env = copy->env;

    if (is_full(copy))
        put_cut(copy);
    else if (enif_is_empty_list(env, term))
        *copy->at++ = SHAPE_NIL;
    else if (is_word(env, term))
        put(copy, SHAPE_WORD, &term, sizeof term);
    else if (enif_is_number(env, term))
        put_number(copy, term);
    else if (enif_is_binary(env, term))
        put_bytes(copy, term);
    else if (is_container(env, term))
        put_container(copy, term, depth);
    else if (is_told_as_text(env, term))
        put_text(copy, term);
    else
        put_cut(copy);
}

size_t fp_term_copy(ErlNifEnv *env, ERL_NIF_TERM term, const struct fp_term_copy_limits *limits,
                    unsigned char *out)
{
    struct copy copy = {env, limits, out, out + limits->bytes, limits->depth};
    uint32_t depth = limits->depth + limits->outer;

    if (depth > FP_TERM_COPY_DEPTH_MAX)
        depth = FP_TERM_COPY_DEPTH_MAX;
    put_term(&copy, term, depth);
    return (size_t)(copy.at - out);
}

/* ------------------------------------------------------------------ restoring -- */

struct restore {
    ErlNifEnv *env;
    const unsigned char *at, *end;
    ERL_NIF_TERM mark; /* '...' */
};

static int take(struct restore *restore, void *to, size_t size)
{
    if ((size_t)(restore->end - restore->at) < size)
        return -1;
    memcpy(to, restore->at, size);
    restore->at += size;
    return 0;
}

static int get_term(struct restore *restore, uint32_t depth, ERL_NIF_TERM *term);

static int get_bytes(struct restore *restore, size_t size, ERL_NIF_TERM *term)
{
    if ((size_t)(restore->end - restore->at) < size)
        return -1;
    *term = fp_binary(restore->env, (const char *)restore->at, size);
    restore->at += size;
    return 0;
}

/* `count` elements, or pairs, as a list with that tail: they lie in the order of the list. */
static int get_elements(struct restore *restore, uint32_t depth, uint32_t count, int is_pairs,
                        int has_tail, ERL_NIF_TERM *term)
{
    ErlNifEnv *env = restore->env;
    ERL_NIF_TERM backwards = enif_make_list(env, 0), element, value, tail = backwards;

    for (uint32_t i = 0; i < count; i++) {
        if (get_term(restore, depth - 1, &element) != 0)
            return -1;
        if (is_pairs) {
            if (get_term(restore, depth - 1, &value) != 0)
                return -1;
            element = enif_make_tuple2(env, element, value);
        }
        backwards = enif_make_list_cell(env, element, backwards);
    }
    if (has_tail && get_term(restore, depth - 1, &tail) != 0)
        return -1;
    *term = tail;
    while (enif_get_list_cell(env, backwards, &element, &backwards))
        *term = enif_make_list_cell(env, element, *term);
    return 0;
}

static ERL_NIF_TERM get_cut(struct restore *restore, const char *shape, uint32_t size,
                            ERL_NIF_TERM here)
{
    return enif_make_tuple4(restore->env, restore->mark, fp_atom(restore->env, shape),
                            enif_make_uint(restore->env, size), here);
}

/* The elements of a list as a tuple. */
static ERL_NIF_TERM get_tuple(struct restore *restore, uint32_t count, ERL_NIF_TERM list)
{
    ERL_NIF_TERM few[16], tuple, *elements = few;
    uint32_t n = 0;

    if (count > sizeof few / sizeof *few)
        elements = enif_alloc(count * sizeof *elements);
    if (elements == NULL)
        return get_cut(restore, "tuple", count, list);
    while (n < count && enif_get_list_cell(restore->env, list, &elements[n], &list))
        n++;
    tuple = enif_make_tuple_from_array(restore->env, elements, n);
    if (elements != few)
        enif_free(elements);
    return tuple;
}

static ERL_NIF_TERM get_map(struct restore *restore, uint32_t size, ERL_NIF_TERM pairs)
{
    ErlNifEnv *env = restore->env;
    ERL_NIF_TERM map = enif_make_new_map(env), pair, rest = pairs;
    const ERL_NIF_TERM *elements;
    size_t made = 0;
    int arity;

    while (enif_get_list_cell(env, rest, &pair, &rest))
        if (enif_get_tuple(env, pair, &arity, &elements))
            (void)enif_make_map_put(env, map, elements[0], elements[1], &map);
    /* Two keys may be cut to one. */
    if (enif_get_map_size(env, map, &made) && made == size)
        return map;
    return get_cut(restore, "map", size, pairs);
}

static int get_container(struct restore *restore, enum shape shape, uint32_t depth,
                         ERL_NIF_TERM *term)
{
    uint32_t numbers[2];
    ERL_NIF_TERM list;

    if (depth == 0 || take(restore, numbers, sizeof numbers) != 0)
        return -1;
    if (shape == SHAPE_BINARY) {
        if (get_bytes(restore, numbers[1], term) != 0)
            return -1;
        if (numbers[1] < numbers[0])
            *term = get_cut(restore, "binary", numbers[0], *term);
        return 0;
    }
    if (get_elements(restore, depth, numbers[1], shape == SHAPE_MAP, shape == SHAPE_LIST, &list) !=
        0)
        return -1;
    if (shape == SHAPE_LIST)
        *term = list;
    else if (numbers[1] < numbers[0])
        *term = get_cut(restore, shape == SHAPE_MAP ? "map" : "tuple", numbers[0], list);
    else if (shape == SHAPE_MAP)
        *term = get_map(restore, numbers[0], list);
    else
        *term = get_tuple(restore, numbers[0], list);
    return 0;
}

static int get_number(struct restore *restore, enum shape shape, ERL_NIF_TERM *term)
{
    unsigned char byte = 0;
    ErlNifSInt64 whole = 0;
    ErlNifUInt64 large = 0;
    double number = 0;
    int err = -1;

    if (shape == SHAPE_BYTE && (err = take(restore, &byte, 1)) == 0)
        *term = enif_make_int(restore->env, byte);
    else if (shape == SHAPE_INT && (err = take(restore, &whole, sizeof whole)) == 0)
        *term = enif_make_int64(restore->env, whole);
    else if (shape == SHAPE_UINT && (err = take(restore, &large, sizeof large)) == 0)
        *term = enif_make_uint64(restore->env, large);
    else if (shape == SHAPE_FLOAT && (err = take(restore, &number, sizeof number)) == 0)
        *term = enif_make_double(restore->env, number);
    return err;
}

static int get_term(struct restore *restore, uint32_t depth, ERL_NIF_TERM *term)
{
    unsigned char shape, size;

    if (take(restore, &shape, 1) != 0)
        return -1;
    switch ((enum shape)shape) {
    case SHAPE_CUT:
        *term = restore->mark;
        return 0;
    case SHAPE_NIL:
        *term = enif_make_list(restore->env, 0);
        return 0;
    case SHAPE_WORD:
        return take(restore, term, sizeof *term);
    case SHAPE_BYTE:
    case SHAPE_INT:
    case SHAPE_UINT:
    case SHAPE_FLOAT:
        return get_number(restore, (enum shape)shape, term);
    case SHAPE_TEXT:
        if (take(restore, &size, 1) != 0 || get_bytes(restore, size, term) != 0)
            return -1;
        *term = enif_make_tuple3(restore->env, restore->mark, fp_atom(restore->env, "text"), *term);
        return 0;
    case SHAPE_BINARY:
    case SHAPE_TUPLE:
    case SHAPE_MAP:
    case SHAPE_LIST:
        return get_container(restore, (enum shape)shape, depth, term);
    }
    return -1;
}

int fp_term_restore(ErlNifEnv *env, const unsigned char **at, const unsigned char *end,
                    ERL_NIF_TERM *term)
{
    struct restore restore = {env, *at, end, fp_atom(env, "...")};
    int err = get_term(&restore, FP_TERM_COPY_DEPTH_MAX + 2, term);

    *at = restore.at;
    return err;
}
