#include "agent_nif/term_nif.h"

#include "agent_nif/library.h"
#include "base/error.h"
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

/* (Term, Depth of 0..4) -> as fp_term_view says; (Term, message) -> as message_view says; of the
 * caller's own term, which a term of a NIF is the word of; or {error, bad_state} when no memory can
 * be read or nothing is calibrated. */
FP_NIF(term_view)
{
    struct fp_library *library = fp_library(env);
    const struct fp_layout *layout = library->layout;
    int is_message = fp_is_atom(env, argv[1], "message");
    struct fp_walk walk;
    unsigned depth = 0;

    if (!is_message && (!enif_get_uint(env, argv[1], &depth) || depth > DEPTH_MAX))
        return enif_make_badarg(env);
    if (layout == NULL)
        return fp_result(env, FP_ESTATE);
    fp_walk_start(&walk, &library->memory, layout, is_message ? FP_MESSAGE_READS : READS);
    return is_message ? message_view(env, &walk, argv[0])
                      : fp_term_view(env, &walk, argv[0], depth);
}
