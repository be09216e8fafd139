#include "looks_nif/term_nif.h"

#include <string.h>

#include "base/error.h"
#include "erts/atom.h"
#include "looks_nif/looks.h"
#include "terms/terms.h"

#define ELEMENTS_MAX 16u
#define DEPTH_MAX 4u
#define READS 4096u

ERL_NIF_TERM fp_ref_view(ErlNifEnv *env, const struct fp_ref *ref)
{
    return enif_make_tuple3(env, enif_make_uint(env, ref->n[0]), enif_make_uint(env, ref->n[1]),
                            enif_make_uint(env, ref->n[2]));
}

ERL_NIF_TERM fp_tag_view(ErlNifEnv *env, const struct fp_tag *tag)
{
    switch (tag->shape) {
    case FP_SHAPE_ATOM:
        return enif_make_tuple2(env, fp_atom(env, "atom"), tag->atom);
    case FP_SHAPE_TUPLE:
        return enif_make_tuple3(env, fp_atom(env, "tuple"), tag->atom,
                                enif_make_uint(env, tag->arity));
    case FP_SHAPE_OTHER:
        return fp_atom(env, "other");
    default:
        return fp_atom(env, "unknown");
    }
}

static ERL_NIF_TERM tuple_view(ErlNifEnv *env, struct fp_walk *walk, const struct fp_term *term,
                               unsigned depth)
{
    uint32_t n = depth == 0 ? 0 : term->arity < ELEMENTS_MAX ? term->arity : ELEMENTS_MAX;
    ERL_NIF_TERM list = enif_make_list(env, 0);

    while (n-- > 0) {
        uint64_t word = 0; /* no term */

        (void)fp_walk_elements(walk, term, n, 1, &word);
        list = enif_make_list_cell(env, fp_term_view(env, walk, word, depth - 1), list);
    }
    return enif_make_tuple3(env, fp_atom(env, "tuple"), enif_make_uint(env, term->arity), list);
}

static ERL_NIF_TERM list_view(ErlNifEnv *env, struct fp_walk *walk, const struct fp_term *term,
                              unsigned depth)
{
    uint64_t cell[2];

    if (depth == 0)
        return fp_atom(env, "list");
    if (fp_walk_elements(walk, term, 0, 2, cell) != 0)
        return fp_atom(env, "unreadable");
    return enif_make_tuple3(env, fp_atom(env, "list"), fp_term_view(env, walk, cell[0], depth - 1),
                            fp_term_view(env, walk, cell[1], depth - 1));
}

static ERL_NIF_TERM remote_pid_view(ErlNifEnv *env, const struct fp_remote *remote)
{
    return enif_make_tuple5(
        env, fp_atom(env, "remote_pid"), remote->node, enif_make_uint(env, remote->creation),
        enif_make_uint(env, remote->number), enif_make_uint(env, remote->serial));
}

static ERL_NIF_TERM remote_ref_view(ErlNifEnv *env, const struct fp_remote *remote)
{
    return enif_make_tuple4(env, fp_atom(env, "remote_ref"), remote->node,
                            enif_make_uint(env, remote->creation), fp_ref_view(env, &remote->ref));
}

ERL_NIF_TERM fp_term_view(ErlNifEnv *env, struct fp_walk *walk, uint64_t word, unsigned depth)
{
    struct fp_term term;

    fp_walk_term(walk, word, &term);
    switch (term.kind) {
    case FP_TERM_ATOM:
        return enif_make_tuple2(env, fp_atom(env, "atom"), word);
    case FP_TERM_NIL:
        return fp_atom(env, "nil");
    case FP_TERM_PID:
        return enif_make_tuple2(env, fp_atom(env, "pid"), word);
    case FP_TERM_PORT:
        return enif_make_tuple2(env, fp_atom(env, "port"), word);
    case FP_TERM_REF:
        return enif_make_tuple2(env, fp_atom(env, "ref"), fp_ref_view(env, &term.ref));
    case FP_TERM_REMOTE_PID:
        return remote_pid_view(env, &term.remote);
    case FP_TERM_REMOTE_REF:
        return remote_ref_view(env, &term.remote);
    case FP_TERM_TUPLE:
        return tuple_view(env, walk, &term, depth);
    case FP_TERM_LIST:
        return list_view(env, walk, &term, depth);
    case FP_TERM_OTHER:
        return fp_atom(env, "other");
    default:
        return fp_atom(env, "unreadable");
    }
}

/* {Kind, Tag, From | none, {N0, N1, N2} | none, Reads} */
static ERL_NIF_TERM message_view(ErlNifEnv *env, struct fp_walk *walk, uint64_t word)
{
    struct fp_message message;
    uint32_t budget = walk->budget;

    fp_message_read(walk, &walk->layout->envelope, word, &message);
    return enif_make_tuple5(env, fp_atom(env, fp_message_kind_name(message.kind)),
                            fp_tag_view(env, &message.tag),
                            message.from != 0 ? message.from : fp_atom(env, "none"),
                            message.has_ref ? fp_ref_view(env, &message.ref) : fp_atom(env, "none"),
                            enif_make_uint(env, budget - walk->budget));
}

/* ---------------------------------------------------------- verification -- */

/* External formats of at most 255 + 2 bytes of a node's name:
 *   131, 88, node, u32 number, serial, creation           NEW_PID_EXT
 *   131, 90, u16 3, node, u32 creation, 3 x u32 numbers   NEWER_REFERENCE_EXT */
#define EXTERNAL_MAX 300u
#define NEW_PID_EXT 88u
#define NEWER_REFERENCE_EXT 90u
#define NUMBER 0x0234567u
#define SERIAL 0x123u

struct external {
    unsigned char bytes[EXTERNAL_MAX];
    size_t size;
};

static uint32_t u32_at(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static int get_external(ErlNifEnv *env, ERL_NIF_TERM term, unsigned tag, struct external *external)
{
    ErlNifBinary binary;
    int fits;

    if (!enif_term_to_binary(env, term, &binary))
        return 0;
    fits = binary.size > 20 && binary.size <= EXTERNAL_MAX && binary.data[1] == tag;
    if (fits) {
        memcpy(external->bytes, binary.data, binary.size);
        external->size = binary.size;
    }
    enif_release_binary(&binary);
    return fits;
}

/* Of a term that was made since: nothing of before is at hand. */
static void walk_new(struct fp_walk *walk, uint64_t word, struct fp_term *term)
{
    fp_walk_again(walk, READS);
    fp_walk_term(walk, word, term);
}

/* Is it of a node whose name is in `external`, with this creation? */
static int is_of_node(const struct fp_walk *walk, const struct fp_remote *remote,
                      const struct external *external, uint32_t creation)
{
    char name[FP_ATOM_TEXT_MAX];
    int size = fp_atom_text(walk->layout, walk->memory, remote->node, name);

    return size > 0 && remote->creation == creation &&
           memmem(external->bytes, external->size, name, (size_t)size) != NULL;
}

static int is_ref_right(struct fp_walk *walk, uint64_t word, const struct external *external)
{
    const unsigned char *numbers = external->bytes + external->size - 12;
    struct fp_term term;

    walk_new(walk, word, &term);
    return (term.kind == FP_TERM_REF || term.kind == FP_TERM_REMOTE_REF) &&
           memcmp(term.kind == FP_TERM_REF ? &term.ref : &term.remote.ref,
                  (const uint32_t[]){u32_at(numbers), u32_at(numbers + 4), u32_at(numbers + 8)},
                  sizeof term.ref) == 0;
}

/* {Ref, []}, [Ref | Atom] */
static int are_terms_right(ErlNifEnv *env, struct fp_walk *walk, ERL_NIF_TERM ref,
                           const struct external *external)
{
    ERL_NIF_TERM atom = fp_atom(env, "alias"), nil = enif_make_list(env, 0);
    struct fp_term tuple, cell, second, tail;

    walk_new(walk, enif_make_tuple2(env, ref, nil), &tuple);
    fp_walk_element(walk, &tuple, 1, &second);
    walk_new(walk, enif_make_list_cell(env, ref, atom), &cell);
    fp_walk_element(walk, &cell, 1, &tail);
    return tuple.kind == FP_TERM_TUPLE && tuple.arity == 2 && second.kind == FP_TERM_NIL &&
           cell.kind == FP_TERM_LIST && tail.kind == FP_TERM_ATOM && tail.word == atom &&
           is_ref_right(walk, ref, external);
}

/* Those of an earlier life of this node: its name, another creation. */
static int are_remote_terms_right(ErlNifEnv *env, struct fp_walk *walk, struct external *ref)
{
    unsigned char *creation = ref->bytes + ref->size - 16, *end;
    uint32_t other = u32_at(creation) ^ 0x5a5a5a5au;
    ERL_NIF_TERM word;
    struct external pid;
    struct fp_term term;
    ErlNifPid self;

    put_u32(creation, other);
    if (!enif_binary_to_term(env, ref->bytes, ref->size, &word, 0) ||
        !is_ref_right(walk, word, ref))
        return 0;
    walk_new(walk, word, &term);
    if (term.kind != FP_TERM_REMOTE_REF || !is_of_node(walk, &term.remote, ref, other) ||
        enif_self(env, &self) == NULL ||
        !get_external(env, enif_make_pid(env, &self), NEW_PID_EXT, &pid))
        return 0;
    end = pid.bytes + pid.size;
    put_u32(end - 12, NUMBER);
    put_u32(end - 8, SERIAL);
    put_u32(end - 4, other);
    if (!enif_binary_to_term(env, pid.bytes, pid.size, &word, 0))
        return 0;
    walk_new(walk, word, &term);
    return term.kind == FP_TERM_REMOTE_PID && term.remote.number == NUMBER &&
           term.remote.serial == SERIAL && is_of_node(walk, &term.remote, &pid, other);
}

void fp_terms_verify(ErlNifEnv *env, const struct fp_memory *memory, struct fp_layout *layout)
{
    ERL_NIF_TERM ref = enif_make_ref(env);
    struct external external;
    struct fp_walk walk;

    layout->terms = layout->remote_terms = 1;
    fp_walk_start(&walk, memory, layout, READS);
    layout->terms = get_external(env, ref, NEWER_REFERENCE_EXT, &external) &&
                    are_terms_right(env, &walk, ref, &external);
    layout->remote_terms = layout->terms && are_remote_terms_right(env, &walk, &external);
}

/* (Term, Depth of 0..4) -> as fp_term_view says; (Term, message) -> as message_view says; (Term,
 * otel) -> as fp_otel_view says; of the caller's own term, which a term of a NIF is the word of; or
 * {error, bad_state} when no memory can be read or nothing is calibrated. */
ERL_NIF_TERM fp_nif_term_view(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    const struct fp_layout *layout = library->vm.layout;
    int is_message = fp_is_atom(env, argv[1], "message");
    int is_otel = fp_is_atom(env, argv[1], "otel");
    struct fp_walk walk;
    unsigned depth = 0;

    if (!is_message && !is_otel && (!enif_get_uint(env, argv[1], &depth) || depth > DEPTH_MAX))
        return enif_make_badarg(env);
    if (layout == NULL)
        return fp_result(env, FP_ESTATE);
    if (is_otel)
        return fp_otel_view(env, &library->vm.memory, layout, argv[0]);
    fp_walk_start(&walk, &library->vm.memory, layout, is_message ? FP_MESSAGE_READS : READS);
    return is_message ? message_view(env, &walk, argv[0])
                      : fp_term_view(env, &walk, argv[0], depth);
}

ERL_NIF_TERM fp_buckets_term(ErlNifEnv *env, const struct fp_histogram_copy *copy)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    if (copy->over != 0)
        list = enif_make_list_cell(env,
                                   enif_make_tuple3(env, enif_make_uint64(env, FP_HISTOGRAM_END_NS),
                                                    fp_atom(env, "infinity"),
                                                    enif_make_uint64(env, copy->over)),
                                   list);
    for (size_t i = FP_HISTOGRAM_BUCKETS; i-- > 0;)
        if (copy->bucket[i] != 0)
            list = enif_make_list_cell(
                env,
                enif_make_tuple3(env, enif_make_uint64(env, fp_histogram_low_ns(i)),
                                 enif_make_uint64(env, fp_histogram_end_ns(i)),
                                 enif_make_uint64(env, copy->bucket[i])),
                list);
    return list;
}
